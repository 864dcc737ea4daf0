#include "local/start.h"

#include "api/condition.h"
#include "base/clock.h"
#include "json/json.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { API_MS = 30000, LOOK_MS = 10, LOOK_MOST_MS = 250, PART = 50 };

static bool runs(const struct td_local_start *s)
{
	return td_instance_supervisor(s->instance) == s->supervise;
}

static bool late(const struct td_local_start *s)
{
	return td_mono_ms(&td_clock_system) > s->end_ms;
}

// Until the next look: a part of what the step has taken so far. Where all is quick nothing is lost by it, and where the
// machine is busy, asking does not slow down what is waited for.
static void rest_since(const struct td_local_start *s, int64_t begun_ms)
{
	int64_t ms = (td_mono_ms(&td_clock_system) - begun_ms) / PART;
	td_cancel_wait(s->cancel, ms < LOOK_MS ? LOOK_MS : ms > LOOK_MOST_MS ? LOOK_MOST_MS : (int)ms);
}

static int stopped(const struct td_local_start *s, struct td_error *err)
{
	return td_fail(err, TD_TRANSIENT, "it was stopped meanwhile: see %s/log/supervise.log", s->instance->home);
}

int td_local_start_failed(const struct td_local_start *s, int r, struct td_error *err)
{
	return r == TD_CANCELLED || runs(s) ? r : stopped(s, err);
}

// Puts the role's last error since this start, taken from its log, into err: a role that does not
// start has said there why.
static void add_log_error(const struct td_local_start *s, const char *role, struct td_error *err)
{
	enum { TAIL = 64 << 10 };
	td_auto_free char *path = td_instance_path(s->instance, "log/%s.log", role), *text = td_malloc(TAIL + 1);
	td_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	ssize_t n = size < 0 ? -1 : pread(fd, text, TAIL, size > TAIL ? size - TAIL : 0);

	if (n <= 0)
		return;
	text[n] = '\0';

	const char *last = NULL;
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n"));) {
		char *mark = strchr(line, ' ');
		int64_t at;
		if (!mark || !td_starts(mark, " ERROR "))
			continue;
		*mark = '\0';
		if (td_time_parse(line, &at) == 0 && at >= s->since_ms)
			last = mark + strlen(" ERROR ");
	}

	if (last)
		td_fail(err, err->code, "%s does not start: %s", role,
			td_starts(last, role) ? last + strlen(role) + 2 : last);
}

int td_local_start_api(const struct td_local_start *s, struct td_error *err)
{
	int64_t begun = td_mono_ms(&td_clock_system), end = begun + API_MS;
	for (;;) {
		// Checked before the request: the API may become ready just before the supervise
		// ends.
		bool last = !runs(s);

		int r = td_kube_raw(s->kube, "GET", "/readyz", NULL, s->cancel, NULL, err);
		if (!r || r == TD_CANCELLED)
			return r;

		if (last || td_mono_ms(&td_clock_system) > end) {
			// What a server logs that was told to stop before it could listen is not why.
			if (last)
				return stopped(s, err);
			r = td_wrap(err, "the API server at %s is not ready", td_kube_server(s->kube));
			add_log_error(s, "apiserver", err);
			return r;
		}

		rest_since(s, begun);
	}
}

// A node's Ready condition may be from before the last `down`, so its Lease must have been renewed
// in this start.
static bool renewed(const struct td_objects *leases, const char *node, int64_t since_ms)
{
	int64_t at;
	for (size_t j = 0; j < leases->n; j++)
		if (td_streq(leases->v[j]->name, node))
			return td_time_parse(td_jstr(leases->v[j]->root, "spec.renewTime"), &at) == 0 && at >= since_ms;
	return false;
}

int td_local_start_nodes(const struct td_local_start *s, struct td_error *err)
{
	int64_t begun = td_mono_ms(&td_clock_system);
	for (;;) {
		bool last = !runs(s);
		td_auto_objects struct td_objects l = {0}, leases = {0};

		int ready = 0, r = td_kube_list(s->kube, &td_nodes, NULL, NULL, NULL, s->cancel, &l, err);
		if (!r)
			r = td_kube_list(s->kube, &td_leases, "kube-node-lease", NULL, NULL, s->cancel, &leases, err);
		if (r == TD_CANCELLED)
			return r;

		for (size_t j = 0; j < l.n; j++)
			ready +=
				td_condition_true(l.v[j]->root, "Ready") && renewed(&leases, l.v[j]->name, s->since_ms);

		if (!r && ready >= s->instance->nodes)
			return 0;

		if (last)
			return stopped(s, err);
		if (late(s))
			return td_fail(err, TD_TRANSIENT,
				       "%d of %d nodes are ready: see the kubelet's log, and `tandem status`", ready,
				       s->instance->nodes);

		rest_since(s, begun);
	}
}

int td_local_start_forget_slurm(const struct td_local_start *s, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	static const char *const counts[] = {"ready", "idle", "allocated", "draining", "drained", "running"};
	for (size_t j = 0; j < TD_LEN(counts); j++) {
		td_auto_free char *path = td_asprintf("status.%s", counts[j]);
		td_jm_int(d, yyjson_mut_doc_get_root(d), path, 0);
	}

	int r = td_kube_patch(s->kube, TD_AT(&td_nodesets, "slurm", "pool", "status"), TD_PATCH_MERGE,
			      yyjson_mut_doc_get_root(d), s->cancel, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

int td_local_start_slurm(const struct td_local_start *s, struct td_error *err)
{
	int64_t begun = td_mono_ms(&td_clock_system);
	for (;;) {
		bool last = !runs(s);
		td_auto(td_object_unref) struct td_object *ns = NULL;
		int r = td_kube_get(s->kube, &td_nodesets, "slurm", "pool", s->cancel, &ns, err);
		if (r == TD_CANCELLED)
			return r;

		yyjson_val *st = ns ? td_jget(ns->root, "status") : NULL;
		long long idle = td_jint(st, "idle", 0), alloc = td_jint(st, "allocated", 0),
			  drained = td_jint(st, "drained", 0) + td_jint(st, "draining", 0);

		if (!r && idle + alloc + drained >= s->instance->nodes)
			return 0;

		if (last)
			return stopped(s, err);
		if (late(s))
			return td_fail(
				err, TD_TRANSIENT,
				"%lld of %d Slurm nodes are up: see `kubectl -n slurm get pods` and `tandem status`",
				idle + alloc, s->instance->nodes);

		rest_since(s, begun);
	}
}
