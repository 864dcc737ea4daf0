// The way to sessions on machines without a kubelet. Nothing listens on a network there. What is reached is reached by a step
// of the session's job, which srun starts as the owner in a login pod: Slurm lets a person into his own jobs only, and a
// step ends with its job.
#include "gateway/sessions.h"

#include "api/condition.h"
#include "base/embedded.h"
#include "base/names.h"
#include "kube/exec.h"

#include <stdio.h>
#include <string.h>

extern const struct td_embedded td_gateway_files[];

// Where a step runs.
enum where {
	OUTSIDE, // on the first machine, not in its container
	INSIDE,  // there, in it
	EACH,    // on all of them, not in it
};

// Runs a program there in a step of the session's job: argv has at most 11 words, and NULL.
static int run_there(struct td_gateway_ask *q, const struct td_object *pod, enum where where, const char *const *argv,
		     struct td_ws_far **ret, struct td_error *err)
{
	enum { OWN = 12, MOST = 23 };
	struct td_gateway *g = q->g;
	td_auto_free char *uid = td_asprintf("%lld", (long long)q->user.uid),
			  *gid = td_asprintf("%lld", (long long)q->user.gid),
			  *job = td_asprintf("%lld", (long long)td_session_number(pod, TD_ANN_JOB)),
			  *nodes = td_asprintf("%d", where == EACH ? td_session_host_nodes(pod) : 1),
			  *of = td_asprintf(TD_LABEL_NAME "=login," TD_LABEL_CLUSTER "=%s", g->o.cluster);
	const char *all[MOST + 1] = {"/bin/sh",
				     "-c",
				     td_embedded(td_gateway_files, "session-line.sh")->text,
				     "session-line",
				     uid,
				     gid,
				     job,
				     q->user.name,
				     q->user.home,
				     where == INSIDE && td_jstr(pod->root, "spec.image") ? TD_SESSION_CONTAINER : "",
				     td_jstr_or(pod->root, "spec.nodeName", ""),
				     nodes};
	size_t n = OWN;
	for (; *argv && n < MOST; argv++)
		all[n++] = *argv;
	td_auto_objects struct td_objects logins = {0};
	int r = td_kube_list(g->kube, &td_pods, g->o.ns, of, NULL, td_gateway_cancel(q), &logins, err);
	if (!r)
		r = td_fail(err, TD_TRANSIENT,
			    "no login pod of SlurmCluster %s/%s is ready, by which sessions on machines are reached",
			    g->o.ns, g->o.cluster);
	bool denied = false;
	for (size_t i = 0; r && i < logins.n; i++) {
		const struct td_object *o = logins.v[i];
		const struct td_kube_exec e = {.ns = o->ns, .pod = o->name, .container = "login", .argv = all};
		if (td_object_deleting(o) || !td_condition_true(o->root, "Ready"))
			continue;
		r = td_kube_exec(g->kube, &e, td_gateway_cancel(q), ret, err);
		denied = denied || r == TD_DENIED;
	}
	if (r && denied)
		return td_fail(err, TD_UNSUPPORTED,
			       "this gateway may run nothing in login pods of %s/%s, by which sessions on machines are "
			       "reached: an administrator gives it pods/exec there (gateway.sessions.machines of the "
			       "chart)",
			       g->o.ns, g->o.cluster);
	return r ? td_wrap(err, "the way to session %s", td_object_label(pod, TD_LABEL_SESSION)) : 0;
}

int td_session_host_recv(struct td_ws_far *far, struct td_gateway_limits *l, const char *who, struct td_cancel *c,
			 struct td_buf *ret, struct td_error *err)
{
	td_auto_buf struct td_buf m = {0};
	bool binary;
	int r = td_ws_far_recv(far, c, &m, &binary, err);
	if (r || !m.len)
		return r;
	if (m.s[0] == TD_EXEC_STATUS)
		return td_fail(err, TD_NOT_FOUND, "its step has ended");
	if (m.s[0] == TD_EXEC_OUT)
		td_buf_add(ret, m.s + 1, m.len - 1);
	else if (m.s[0] == TD_EXEC_ERR)
		td_session_complains(l, who, m.s + 1, m.len - 1);
	return 0;
}

// The directory of the session on its machine, with this name in it. The caller frees it.
static char *place_of(const struct td_object *pod, const char *name)
{
	return td_asprintf("/tmp/.tandem-%.24s/%s", td_jstr_or(pod->root, "spec.place", "-"), name);
}

int td_session_host_dial(struct td_gateway_ask *q, const struct td_object *pod, const char *how, struct td_ws_far **ret,
			 struct td_error *err)
{
	td_auto_free char *path = place_of(pod, "tty");
	const char *const argv[] = {"/opt/tandem/tandem-standin", how, path, NULL};
	return run_there(q, pod, OUTSIDE, argv, ret, err);
}

int td_session_host_uses(struct td_gateway_ask *q, const struct td_object *pod, struct td_ws_far **ret,
			 struct td_error *err)
{
	static const char *const argv[] = {"/opt/tandem/tandem-standin", "uses", NULL};
	return run_there(q, pod, EACH, argv, ret, err);
}

int td_session_host_ssh(struct td_gateway_ask *q, const struct td_object *pod, const char *script,
			struct td_ws_far **ret, struct td_error *err)
{
	const char *have = td_jstr(pod->root, "spec.env");
	td_auto_free char *path = place_of(pod, "ssh"), *dir = td_asprintf("TANDEM_SESSION_SSH=%s", path),
			  *id = td_asprintf("TANDEM_SESSION=%s", td_object_label(pod, TD_LABEL_SESSION)),
			  *env = have ? td_asprintf("TANDEM_SESSION_ENV=%s", have) : td_strdup(id);
	const char *const argv[] = {"env", dir, id, env, "/bin/sh", "-c", script, "session-ssh", NULL};
	return run_there(q, pod, INSIDE, argv, ret, err);
}
