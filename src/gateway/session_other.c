// Sessions in another cluster. Their pods are here as every session's, with the label that has a copy made on a node there
// (far/far.h). A copy has no address here: requests reach it by the port-forward of both API servers, which ends inside of
// the pod, so nothing there needs to let the gateway in.
#include "gateway/sessions.h"

#include "api/condition.h"
#include "api/othercluster.h"
#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "kube/exec.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINES_MOST = 48, BLOCK = 32768 }; // LINES_MOST: of a person's; there are 256 for all (far/face.c)

#define HOMES "home" // the name that the claim with homes has where the gateway knows homes by a directory

const char *td_session_other_asked(const yyjson_val *body)
{
	return td_jstr(body, "otherCluster");
}

const char *td_session_other(const struct td_object *pod)
{
	return td_object_label(pod, TD_LABEL_OTHER);
}

int td_session_other_check(const yyjson_val *body, struct td_error *err)
{
	// Their names there are others, and the policy there lets none of them reach another one.
	return td_session_nodes_asked(body)
		       ? td_fail(err, TD_INVALID,
				 "nodes: the nodes of a session would not find each other in another cluster; leave "
				 "nodes or otherCluster out")
		       : 0;
}

int td_session_nodeset(struct td_gateway_ask *q, const char *field, const char *name, struct td_object **ret,
		       struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	struct td_error e = TD_ERROR_INIT;
	int r = td_kube_get(q->g->kube, &td_nodesets, q->g->o.ns, name, td_gateway_cancel(q), &o, &e);
	if (r == TD_DENIED)
		return td_fail(err, TD_UNSUPPORTED,
			       "%s: this gateway may not read NodeSets: apply its manifest of this release", field);
	if (r && r != TD_NOT_FOUND)
		return td_fail(err, r, "%s: NodeSet %s: %s", field, name, e.msg);
	if (!r && td_streq(td_jstr(o->root, "spec.clusterName"), q->g->o.cluster))
		*ret = td_steal(o);
	return 0;
}

int td_session_other_set(struct td_gateway_ask *q, struct td_object **ret, struct td_error *err)
{
	const char *name = td_session_other_asked(q->body);
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_session_nodeset(q, "otherCluster", name, &o, err);
	if (r)
		return r;
	if (!o || !td_api_other_cluster(o->root))
		return td_fail(err, TD_INVALID,
			       "otherCluster: \"%s\" is no other cluster of this pool (a NodeSet with "
			       "spec.otherCluster); without it the session is in this cluster",
			       name);
	*ret = td_steal(o);
	return 0;
}

const char *td_session_other_image(const struct td_gateway *g, const struct td_object *set)
{
	return td_jstr_or(set->root, "spec.otherCluster.image", g->o.image);
}

// A partition of these nodes: the first that is open to the account (without allowAccounts to all), else the first; NULL:
// there is none.
static const char *partition_of(const yyjson_val *sc, const char *set, const char *account)
{
	static const char *const lists[] = {"spec.partitions", "spec.resourceGroups"};
	const char *first = NULL;
	yyjson_val *p;
	size_t i, n;
	for (size_t l = 0; l < TD_LEN(lists); l++)
		yyjson_arr_foreach (td_jget(sc, lists[l]), i, n, p) {
			yyjson_val *allowed = td_jget(p, "allowAccounts");
			if (!td_jhas(td_jget(p, "nodeSets"), set))
				continue;
			if (!yyjson_arr_size(allowed) || (account && td_jhas(allowed, account)))
				return td_jstr(p, "name");
			first = first ? first : td_jstr(p, "name");
		}
	return first;
}

const char *td_session_other_home(const struct td_gateway *g, const struct td_object *set, const char *ns)
{
	const char *claim = g->o.homes_claim ? g->o.homes_claim : HOMES;
	return td_api_other_claim(set->root, ns, claim) ? claim : NULL;
}

int td_session_other_pod(struct td_gateway_ask *q, const struct td_session_kind *kind, const struct td_object *set,
			 const yyjson_val *sc, yyjson_mut_doc *d, struct td_error *err)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	const char *partition = partition_of(sc, set->name, td_jstr(q->body, "account"));
	if (!partition)
		return td_fail(err, TD_UNSUPPORTED,
			       "otherCluster: no partition has the nodes of NodeSet %s: an administrator adds one with "
			       "nodeSets: [%s] to spec.partitions of SlurmCluster %s/%s",
			       set->name, set->name, q->g->o.ns, q->g->o.cluster);
	if (td_jint(q->body, "gpus", 0) && td_streq(td_jstr(sc, "spec.devices.[0].source"), "DRA"))
		return td_fail(err, TD_UNSUPPORTED,
			       "gpus: this pool gives GPUs by claims (spec.devices, DRA), and those of another cluster "
			       "cannot be had so: leave gpus or otherCluster out");
	if (kind->terminal && !td_session_other_image(q->g, set))
		return td_fail(err, TD_UNSUPPORTED,
			       "otherCluster: a terminal there takes its program from Tandem's image: an administrator "
			       "names it in spec.otherCluster.image of NodeSet %s/%s. Other kinds of session need none",
			       set->ns, set->name);
	const char *ns = td_jm_getstr(td_jm_get(o, "metadata"), "namespace");
	if (kind->of_run && !td_session_other_home(q->g, set, ns))
		return td_fail(
			err, TD_INVALID,
			"otherCluster: a session \"%s\" shows what is in your home, and NodeSet %s/%s names no claim "
			"with homes there for namespace %s (spec.otherCluster.claims); leave otherCluster out",
			kind->name, set->ns, set->name, ns);
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), TD_LABEL_OTHER, set->name);
	td_jm_key_str(d, td_jm_get(o, "metadata.annotations"), TD_ANN_ASK_PREFIX "partition", partition);
	return 0;
}

void td_session_other_write(const struct td_object *pod, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	const yyjson_val *copy = td_condition(pod->root, TD_COND_OTHER);
	const yyjson_val *home = td_jfind(td_jget(pod->root, "spec.volumes"), "name", "home");
	td_jm_str(d, w, "otherCluster", td_session_other(pod));
	if (home)
		td_jm_str(d, w, "home", td_jget(home, "emptyDir") ? "empty" : "claim");
	if (td_jstr(pod->root, "spec.nodeName") && copy &&
	    (!td_streq(td_jstr(copy, "status"), "True") || td_streq(td_jstr(copy, "reason"), "WaitsThere")))
		td_jm_str(d, w, "words", td_jstr(copy, "message")); // why it has no copy yet
}

// ---- the way to one ----

struct td_session_line {
	struct td_gateway_limits *limits;
	char *held; // whose it counts as
	struct td_ws_far *ws;
	struct td_cancel *over;
	int fd;
	pthread_t down, up;
	bool downs, ups;            // these threads run
	bool program;               // a program's input and output, and not a forwarded port
	struct td_session_via *via; // it is one of several over one way, and the rest is unused
};

void td_session_complains(struct td_gateway_limits *l, const char *who, const char *p, size_t n)
{
	static const struct td_gateway_rate rate = {"complaints of ways to sessions", 1, 20};
	if (n && !td_gateway_limit(l, &rate, who, NULL))
		td_info("the way to a session: %.*s", (int)(n < 400 ? n : 400), p);
}

// From the session. The first message of each channel says only the port.
static void *down(void *arg)
{
	struct td_session_line *l = arg;
	td_auto_buf struct td_buf m = {0};
	bool binary, begun[2] = {l->program, l->program}, good = true;
	while (good && !td_ws_far_recv(l->ws, l->over, &m, &binary, NULL)) {
		size_t channel = m.len ? (unsigned char)m.s[0] : 2;
		if (l->program) { // its output is channel 1, its complaints are 2, and 3 is its end
			if (channel == TD_EXEC_STATUS)
				break;
			channel = channel == TD_EXEC_OUT ? 0 : channel == TD_EXEC_ERR ? 1 : 2;
		}
		if (channel < 2 && begun[channel] && channel == 0)
			good = !td_write_all(l->fd, m.s + 1, m.len - 1, NULL);
		else if (channel < 2 && begun[channel])
			td_session_complains(l->limits, l->held, m.s + 1, m.len - 1);
		if (channel < 2)
			begun[channel] = true;
		td_buf_reset(&m);
	}
	shutdown(l->fd, SHUT_RDWR); // what was written is read still
	return NULL;
}

// To the session, until the relay has closed its end, or `down` has ended.
static void *up(void *arg)
{
	struct td_session_line *l = arg;
	td_auto_free char *buf = td_malloc(BLOCK + 1);
	buf[0] = 0; // the channel
	for (;;) {
		ssize_t k = recv(l->fd, buf + 1, BLOCK, 0);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0 || td_ws_far_send(l->ws, buf, (size_t)k + 1, l->over, NULL))
			break;
	}
	td_ws_far_close(l->ws);
	return NULL;
}

struct td_session_line *td_session_line_close(struct td_session_line *l)
{
	if (!l)
		return NULL;
	td_cancel_fire(l->over);
	if (l->fd >= 0)
		shutdown(l->fd, SHUT_RDWR);
	if (l->downs)
		pthread_join(l->down, NULL);
	if (l->ups)
		pthread_join(l->up, NULL);
	td_ws_far_free(l->ws);
	td_session_via_close(l->via);
	td_cancel_unref(l->over);
	if (l->fd >= 0)
		close(l->fd);
	td_gateway_release(l->limits, l->held);
	free(l->held);
	free(l);
	return NULL;
}
TD_DEFINE_AUTO(struct td_session_line *, td_session_line_close)

int td_session_line_open(struct td_gateway_ask *q, const struct td_object *pod, struct td_session_line **ret,
			 int *ret_fd, struct td_error *err)
{
	td_auto_free char *held = td_asprintf("other/%s", q->user.name); // no person's name has a '/'
	int r = td_gateway_hold(q->g->limits, held, LINES_MOST, err), both[2];
	if (r)
		return td_fail(
			err, r,
			"%d requests of yours to sessions in other clusters or on machines are under way, and no "
			"more can be: close pages of them",
			LINES_MOST);
	td_auto(td_session_line_close) struct td_session_line *l = td_calloc(1, sizeof(*l));
	*l = (struct td_session_line){
		.limits = q->g->limits, .held = td_steal(held), .over = td_cancel_new(), .fd = -1};
	if (td_session_host(pod) && !td_session_kind_of(pod)->terminal) {
		if (!(r = td_session_via_open(q, pod, &l->via, ret_fd, err)))
			*ret = td_steal(l);
		return r;
	}
	if (td_session_host(pod)) {
		l->program = true;
		if ((r = td_session_host_dial(q, pod, "line", &l->ws, err)))
			return r;
	} else if ((r = td_kube_forward(q->g->kube, pod->ns, pod->name,
					(int)td_session_number(pod, TD_ANN_SESSION_PORT), td_http_cancel(q->x), &l->ws,
					err)))
		return td_wrap(err, "the way to pod %s/%s in cluster %s", pod->ns, pod->name, td_session_other(pod));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "a pair of sockets");
	l->fd = both[0];
	td_auto_close int fd = both[1];
	l->downs = !pthread_create(&l->down, NULL, down, l);
	l->ups = l->downs && !pthread_create(&l->up, NULL, up, l);
	if (!l->ups)
		return td_fail(err, TD_TRANSIENT, "the gateway has no thread for it now");
	*ret_fd = td_steal_fd(&fd);
	*ret = td_steal(l);
	return 0;
}
