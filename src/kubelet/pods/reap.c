// Ends of containers: how, why, and what the container said itself.
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "gate/gate.h"
#include "kubelet/pods/logfile.h"
#include "kubelet/pods/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MESSAGE_MAX = 4096, LOG_TAIL_MAX = 2048, DELETE_RETRY_MS = 500 };

// Status must be UTF-8: what is not becomes '?'.
static void make_utf8(char *s)
{
	for (unsigned char *u = (unsigned char *)s; *u;) {
		int len = *u < 0x80                 ? 1
			  : *u >= 0xc2 && *u < 0xe0 ? 2
			  : *u >= 0xe0 && *u < 0xf0 ? 3
			  : *u >= 0xf0 && *u < 0xf5 ? 4
						    : 0;
		bool ok = len > 0;
		for (int i = 1; ok && i < len; i++)
			ok = (u[i] & 0xc0) == 0x80;
		if (ok && len == 3 && ((*u == 0xe0 && u[1] < 0xa0) || (*u == 0xed && u[1] > 0x9f)))
			ok = false;
		if (ok && len == 4 && ((*u == 0xf0 && u[1] < 0x90) || (*u == 0xf4 && u[1] > 0x8f)))
			ok = false;
		if (!ok)
			*u++ = '?';
		else
			u += len;
	}
}

// The last bytes of a file; follows no link (the container may have made the file what it likes).
static char *tail(const char *path, size_t max)
{
	td_auto_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size)
		return NULL;
	size_t n = (size_t)st.st_size < max ? (size_t)st.st_size : max;
	char *s = td_malloc(n + 1);
	ssize_t k = pread(fd, s, n, st.st_size - (off_t)n);
	s[k > 0 ? k : 0] = '\0';
	make_utf8(s);
	return s;
}
static char *last_words(const struct td_kubelet *a, const struct td_pod *p, const struct td_ctr *c,
			const yyjson_val *pod, int code)
{
	td_auto_free char *dir = td_pod_dir(a, p);
	td_auto_free char *term = td_asprintf("%s/term/%s", dir, c->name);
	char *s = tail(term, MESSAGE_MAX);
	const yyjson_val *spec = td_ctr_spec(pod, c->name);
	if (s || !code || !td_streq(td_jstr(spec, "terminationMessagePolicy"), "FallbackToLogsOnError"))
		return s;
	td_auto_free char *log = td_pod_log_path(a, p, c, c->attempt);
	s = td_logfile_last(log, LOG_TAIL_MAX);
	if (s)
		make_utf8(s);
	return s;
}

// c->end is known, and in the record.
static void put_away(struct td_kubelet *a, struct td_pod *p, struct td_ctr *c)
{
	if (c->pidfd >= 0)
		close(c->pidfd);
	c->pidfd = -1;
	// The container is deleted first: only then is nothing of it left in any cgroup.
	td_auto_free char *id = td_pod_container_id(a, p, c);
	struct td_error e = TD_ERROR_INIT;
	if (td_fault_at(&e, "kubelet.container-reap.before") || td_oci_delete(a->oci, id, true, &e)) {
		td_warn("kubelet: %s/%s: delete container %s: %s", p->ns, p->name, id, e.msg);
		td_queue_add_after(a->queue, p->uid, DELETE_RETRY_MS); // stays wanted: reap comes here again
		return;
	}
	pthread_mutex_lock(&p->mu);
	c->state = TD_CTR_TERMINATED;
	c->wanted = false;
	pthread_mutex_unlock(&p->mu);
	td_pod_record_save(a, p, NULL);
	td_gate_kick(a->gate);
}

static void ended(struct td_kubelet *a, struct td_pod *p, struct td_ctr *c, const yyjson_val *pod,
		  const struct td_oci_status *st)
{
	int code = st->signal ? 128 + st->signal : st->exit_code;
	td_ctr_end_clear(&c->end);
	c->end = (struct td_ctr_end){
		.valid = true,
		.exit_code = code,
		.signal = st->signal,
		.started_ms = c->state == TD_CTR_RUNNING && c->started_ms ? c->started_ms
									  : st->started_ms, // what was told stays
		.finished_ms = st->finished_ms ? st->finished_ms : td_real_ms(a->clock),
		.reason = td_strdup(st->state == TD_OCI_ABSENT ? TD_END_LOST
				    : st->oom_killed           ? "OOMKilled"
				    : code                     ? "Error"
							       : "Completed"),
		.message = st->state == TD_OCI_ABSENT
				   ? td_strdup("The container is gone and left no exit status: its machine was "
					       "restarted, or somebody removed it")
				   : last_words(a, p, c, pod, code),
		.id = td_strdup(c->id),
	};
	if (st->state == TD_OCI_ABSENT)
		c->backoff_ms = 0;
	// The runtime forgets how it ended with the delete below: an agent that dies in between must not.
	td_pod_record_save(a, p, NULL);
	put_away(a, p, c);
}

// Found by a new agent: running, ended meanwhile, or never come to life.
static void adopt(struct td_kubelet *a, struct td_pod *p, struct td_ctr *c, const struct td_object *o)
{
	struct td_oci_status st = {0};
	if (c->end.valid) { // the last agent died while it put it away
		put_away(a, p, c);
		return;
	}
	td_auto_free char *id = td_pod_container_id(a, p, c);
	struct td_error e = TD_ERROR_INIT;
	if (td_oci_status(a->oci, id, &st, &e)) {
		td_warn("kubelet: %s/%s: container %s: %s", p->ns, p->name, id, e.msg);
		td_queue_add_after(a->queue, p->uid, 500); // stays wanted until we know
		return;
	}
	if (!c->id)
		c->id = td_strdup(id);
	if (st.state == TD_OCI_RUNNING && !td_oci_pidfd(a->oci, id, &c->pidfd, NULL)) {
		const yyjson_val *spec = o ? td_ctr_spec(o->root, c->name) : NULL;
		bool was = c->state == TD_CTR_RUNNING;
		pthread_mutex_lock(&p->mu);
		c->state = TD_CTR_RUNNING;
		if (!was ||
		    !c->started_ms) // else what the API was told stays true: the runtime's own time is a moment earlier
			c->started_ms = st.started_ms;
		c->post_start =
			TD_HOOK_NONE; // its hook ran, or died with the agent: as with a kubelet it is not repeated
		if (!was || !c->probe_started)
			c->probe_started = !td_jget(spec, "startupProbe");
		c->probe_ready = !td_jget(spec, "readinessProbe");
		pthread_mutex_unlock(&p->mu);
		td_watch_exit(a->watch, c->pidfd, p->uid, NULL);
		if (o)
			td_probes_begin(a, p, o, c);
		return;
	}
	if (st.state == TD_OCI_RUNNING)
		td_oci_status(a->oci, id, &st, NULL); // ended between the two looks
	if (st.state == TD_OCI_ABSENT && c->state == TD_CTR_WAITING) {
		// The last agent died before it had started this one: the same attempt is made again, under the same
		// name.
		td_oci_delete(a->oci, id, true, NULL);
		pthread_mutex_lock(&p->mu);
		c->wanted = false;
		c->attempt--;
		pthread_mutex_unlock(&p->mu);
		free(td_steal(c->id));
		return;
	}
	if (st.state != TD_OCI_RUNNING) {
		if (st.state == TD_OCI_ABSENT)
			st = (struct td_oci_status){.state = TD_OCI_ABSENT, .exit_code = 137};
		ended(a, p, c, o ? o->root : NULL, &st);
	}
}

void td_pod_reap(struct td_kubelet *a, struct td_pod *p, const struct td_object *o)
{
	for (size_t i = 0; i < p->n_ctr; i++) {
		struct td_ctr *c = &p->ctr[i];
		if (!c->wanted)
			continue;
		if (c->pidfd < 0) {
			adopt(a, p, c, o);
			continue;
		}
		struct pollfd f = {c->pidfd, POLLIN, 0};
		struct td_oci_status st = {0};
		if (poll(&f, 1, 0) <= 0)
			continue;
		td_auto_free char *id = td_pod_container_id(a, p, c);
		struct td_error e = TD_ERROR_INIT;
		if (td_oci_status(a->oci, id, &st, &e)) {
			td_warn("kubelet: %s/%s: container %s: %s", p->ns, p->name, id, e.msg);
			td_queue_add_after(a->queue, p->uid, 100);
		} else if (st.state == TD_OCI_RUNNING) {
			td_queue_add_after(a->queue, p->uid, 10); // its init is dead but not yet collected
		} else {
			if (st.state == TD_OCI_ABSENT)
				st.exit_code = 137;
			ended(a, p, c, o ? o->root : NULL, &st);
		}
	}
}
