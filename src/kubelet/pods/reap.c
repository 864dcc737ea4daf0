// The ends of containers: how and why they ended, and their own last message.
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

// Replaces what is not UTF-8 by '?', because a status must be UTF-8.
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

// Returns the last bytes of a file. It follows no link and reads regular files only: the container
// may have made the file what it likes. NULL: nothing to read.
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

// Returns the termination message: from the message file, or from the log's end where the policy
// says so.
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

// Deletes the container. c->end must be known and in the record.
static void put_away(struct td_kubelet *a, struct td_pod *p, struct td_ctr *c)
{
	if (c->pidfd >= 0)
		close(c->pidfd);
	c->pidfd = -1;

	// Delete the container first: only then is nothing of it left in any cgroup.
	td_auto_free char *id = td_pod_container_id(a, p, c);
	struct td_error e = TD_ERROR_INIT;
	if (td_fault_at(&e, "kubelet.container-reap.before") || td_oci_delete(a->oci, id, true, &e)) {
		td_warn("kubelet: %s/%s: delete container %s: %s", p->ns, p->name, id, e.msg);
		// It stays wanted, so td_pod_reap comes here again.
		td_queue_add_after(a->queue, p->uid, DELETE_RETRY_MS);
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
		// The start time that the API was told stays.
		.started_ms = c->state == TD_CTR_RUNNING && c->started_ms ? c->started_ms : st->started_ms,
		.finished_ms = st->finished_ms ? st->finished_ms : td_real_ms(a->clock),
		.reason = td_strdup(st->state == TD_OCI_ABSENT ? TD_END_LOST
				    : st->oom_killed           ? "OOMKilled"
				    : code                     ? "Error"
							       : "Completed"),
		.message = st->state == TD_OCI_ABSENT ? td_strdup("The container is gone and left no exit status: its "
								  "machine was restarted, or somebody removed it")
						      : last_words(a, p, c, pod, code),
		.id = td_strdup(c->id),
	};

	// It did not fail: its machine was restarted, or its node is being.
	if (st->state == TD_OCI_ABSENT || (atomic_load(&a->down) >> p->node & 1))
		c->backoff_ms = 0;

	// Save the record before the delete below, with which the runtime forgets how the container
	// ended: this process may die in between.
	td_pod_record_save(a, p, NULL);
	put_away(a, p, c);
}

void td_ctr_unbegin(struct td_pod *p, struct td_ctr *c)
{
	pthread_mutex_lock(&p->mu);
	c->wanted = false;
	c->attempt--;
	pthread_mutex_unlock(&p->mu);
	free(td_steal(c->id));
}

// Handles a container that a new process of this role finds: it runs, it ended meanwhile, or it
// never started.
static void adopt(struct td_kubelet *a, struct td_pod *p, struct td_ctr *c, const struct td_object *o)
{
	struct td_oci_status st = {0};
	if (c->end.valid) { // the last process died in put_away()
		put_away(a, p, c);
		return;
	}

	td_auto_free char *id = td_pod_container_id(a, p, c);
	struct td_error e = TD_ERROR_INIT;
	// A start goes on for a moment without the process that began it: what is not there yet may run soon.
	if (td_oci_settle(a->oci, id, a->cancel, &e) || td_oci_status(a->oci, id, &st, &e)) {
		td_warn("kubelet: %s/%s: container %s: %s", p->ns, p->name, id, e.msg);
		td_queue_add_after(a->queue, p->uid, 500); // stays wanted until its state is known
		return;
	}

	if (!c->id)
		c->id = td_strdup(id);

	if (st.state == TD_OCI_RUNNING && !td_oci_pidfd(a->oci, id, &c->pidfd, NULL)) {
		const yyjson_val *spec = o ? td_ctr_spec(o->root, c->name) : NULL;
		bool was = c->state == TD_CTR_RUNNING;
		pthread_mutex_lock(&p->mu);
		c->state = TD_CTR_RUNNING;
		// What the API was told stays true: the runtime's own start time is a moment
		// earlier.
		if (!was || !c->started_ms)
			c->started_ms = st.started_ms;
		// The hook ran, or died with the last process. As with a real kubelet it is not
		// repeated.
		c->post_start = TD_HOOK_NONE;
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
		td_oci_status(a->oci, id, &st, NULL); // it ended between the two looks

	if (st.state == TD_OCI_ABSENT && c->state == TD_CTR_WAITING) {
		// The last process died before it had started this attempt. The same attempt is
		// made again, under the same id.
		if (td_oci_delete(a->oci, id, true, &e)) {
			td_warn("kubelet: %s/%s: delete container %s: %s", p->ns, p->name, id, e.msg);
			td_queue_add_after(a->queue, p->uid, DELETE_RETRY_MS);
			return;
		}
		td_ctr_unbegin(p, c);
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
			// Its init is dead but not yet collected.
			td_queue_add_after(a->queue, p->uid, 10);
		} else {
			if (st.state == TD_OCI_ABSENT)
				st.exit_code = 137;
			ended(a, p, c, o ? o->root : NULL, &st);
		}
	}
}
