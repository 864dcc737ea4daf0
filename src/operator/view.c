// One cluster's Slurm as the operator last saw it: which slurmrestd, with which key, and its nodes.
#include "operator/operator.h"

#include "api/condition.h"
#include "base/log.h"
#include "slurm/keys.h"
#include "slurm/where.h"

#include <string.h>

enum { QUIET_MS = 5000, FEW = 128 };

struct td_pool_record td_op_record(const struct td_slurm_node *n)
{
	const uint64_t off = TD_NODE(POWERED_DOWN) | TD_NODE(POWERING_DOWN);
	bool rising = n->states & (TD_NODE(POWERING_UP) | TD_NODE(POWER_UP));
	return (struct td_pool_record){.drain = n->states & TD_NODE(DRAIN),
				       .down = n->states & TD_NODE(DOWN),
				       .bad = td_slurm_node_bad(n->states),
				       .silent = !(n->states & TD_NODE_BAD & ~TD_NODE(NOT_RESPONDING)),
				       .jobs = td_slurm_node_busy(n->states),
				       .mixed = n->states & TD_NODE(MIXED),
				       .alloc_cpus = n->alloc_cpus,
				       .reason = n->reason,
				       .address = n->address,
				       .reason_at = n->reason_at,
				       .off = !rising && (n->states & off),
				       .rising = rising,
				       .leaving = n->states & (TD_NODE(POWER_DOWN) | TD_NODE(POWER_DRAIN)),
				       .busy_at = n->busy_at};
}

struct td_op_view *td_op_view_of(struct td_op *op, const char *key)
{
	pthread_mutex_lock(&op->lock);
	struct td_op_view *v = op->views;
	while (v && strcmp(v->key, key))
		v = v->next;
	if (!v) {
		v = td_calloc(1, sizeof(*v));
		v->key = td_strdup(key);
		v->next = op->views;
		op->views = v;
	}

	if (!v->call || (td_cancelled(v->call) && !op->stopping)) {
		td_cancel_unref(v->call);
		v->call = td_cancel_new();
	}
	pthread_mutex_unlock(&op->lock);
	return v;
}

void td_op_view_abort(struct td_op *op, const char *key)
{
	pthread_mutex_lock(&op->lock);
	op->stopping |= !key;
	for (struct td_op_view *v = op->views; v; v = v->next)
		if (v->call && (!key || td_streq(v->key, key)))
			td_cancel_fire(v->call);
	pthread_mutex_unlock(&op->lock);
}

bool td_op_ready(const struct td_object *o)
{
	return td_condition_true(o->root, "Ready");
}

int64_t td_op_born(const struct td_object *o)
{
	int64_t ms = 0;
	td_time_parse(td_jstr_or(o->root, "metadata.creationTimestamp", ""), &ms);
	return ms;
}

bool td_op_pod_ready(const struct td_object *p)
{
	return !td_object_deleting(p) && td_streq(td_jstr(p->root, "status.phase"), "Running") && td_op_ready(p);
}

const char *td_op_stuck(const struct td_object *pod, bool *ret_image)
{
	yyjson_val *w = td_jget(pod->root, "status.containerStatuses.[0].state.waiting");
	const char *reason = td_jstr_or(w, "reason", "");
	*ret_image = strstr(reason, "Image") != NULL;
	if (!*reason || td_streq(reason, "ContainerCreating") || td_streq(reason, "PodInitializing"))
		return td_op_unscheduled(pod);
	// Why it ended says more than for how long it is not started again.
	const char *said = td_jstr(pod->root, "status.containerStatuses.[0].lastState.terminated.message");
	if (td_streq(reason, "CrashLoopBackOff") && said && *said)
		return said;
	return td_jstr_or(w, "message", reason);
}

bool td_op_says(const struct td_slurm_node *n, struct td_op_said *ret)
{
	static const char head[] = "tandem: config=", since[] = " since=", keys[] = " keys=";
	const char *s = n ? n->comment : NULL;
	if (!s || !td_starts(s, head))
		return false;
	s += sizeof(head) - 1;
	size_t len = strcspn(s, "; ");
	if (!len || len >= sizeof(ret->config))
		return false;
	*ret = (struct td_op_said){.services = ""};
	memcpy(ret->config, s, len);
	s += len;
	if (td_starts(s, since)) {
		char *end;
		ret->since_ms = strtoll(s + sizeof(since) - 1, &end, 10) * 1000;
		s = end;
	}
	if (td_starts(s, keys)) {
		s += sizeof(keys) - 1;
		len = strcspn(s, "; ");
		snprintf(ret->keys, sizeof(ret->keys), "%.*s", (int)len, s);
		s += len;
	}
	if (td_starts(s, "; service "))
		ret->services = s + 2;
	return true;
}

// Forgets everything that belongs to this slurmrestd.
static void disconnect(struct td_op_view *v)
{
	v->slurm = td_slurm_free(v->slurm);
	free(v->url);
	free(v->jwt);
	v->url = v->jwt = NULL;
	v->known = v->fresh = false;
	v->fetched = 0;
	v->pace = (struct td_slurm_nodes_pace){0};
}

void td_op_view_done(struct td_op_view *v)
{
	disconnect(v);
	td_cancel_unref(v->call);
	td_slurm_nodes_done(&v->nodes);
	td_op_missing_done(&v->missing);
	td_op_wishes_forget(v, true);
	free(v->version);
	free(v->problem);
	free(v->planes);
	free(v->qos.problem);
	free(v->logins.failed);
	free(v->trying);
	free(v->before);
	free(v->active);
	free(v->uid);
	free(v->config_hash);
	free(v->restart_hash);
	free(v->key);
	free(v);
}

void td_op_views_free(struct td_op *op)
{
	while (op->views) {
		struct td_op_view *v = op->views;
		op->views = v->next;
		td_op_view_done(v);
	}
}

static char *rest_url(struct td_op *op, struct td_object *sc, const struct td_op_view *v, struct td_error *err)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(op->pods, sc->ns, &pods);
	td_auto_free const yyjson_val **mine = td_calloc(pods.n ? pods.n : 1, sizeof(yyjson_val *));
	struct td_slurm_where w = {.pods = mine, .current = v->url, .empty_dirs = op->empty_dirs};
	for (size_t i = 0; i < pods.n; i++)
		if (td_streq(td_object_label(pods.v[i], TD_LABEL_NAME), "slurmrestd") &&
		    td_streq(td_object_label(pods.v[i], TD_LABEL_CLUSTER), sc->name))
			mine[w.n++] = pods.v[i]->root;
	return td_slurm_rest_url(&w, err);
}

int td_op_view_connect(struct td_op *op, struct td_object *sc, struct td_op_view *v, struct td_cancel *c,
		       struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_free char *url = rest_url(op, sc, v, &e), *name = td_asprintf("%s-jwt-key", sc->name);
	if (!url)
		return td_fail(err, e.code, "%s", e.msg);
	td_auto(td_object_unref) struct td_object *secret = td_informer_get(op->secrets, sc->ns, name);
	int r;
	if (!secret && (r = td_kube_get(op->k, &td_secrets, sc->ns, name, c, &secret, err)))
		return r;
	const char *jwt = td_jkey_str(td_jget(secret->root, "data"), "jwt_hs256.key");
	if (!jwt)
		return td_fail(err, TD_INVALID, "Secret %s/%s has no key jwt_hs256.key", sc->ns, name);
	if (v->slurm && td_streq(v->url, url) && td_streq(v->jwt, jwt))
		return 0;

	td_auto_buf struct td_buf raw = {0};
	if ((r = td_slurm_key_read(jwt, &raw, err)))
		return td_wrap(err, "Secret %s/%s, key jwt_hs256.key", sc->ns, name);
	disconnect(v);
	const struct td_slurm_opts o = {.url = url, .key = raw.s, .key_len = raw.len, .timeout_ms = 5000};
	if ((r = td_slurm_new(&o, &v->slurm, err)))
		return r;
	v->url = td_steal(url);
	v->jwt = td_strdup(jwt);
	return 0;
}

static uint64_t hash_nodes(const struct td_slurm_nodes *l)
{
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < l->n; i++)
		td_buf_printf(&b, "%s %llx %s %s\n", l->v[i].name, (unsigned long long)l->v[i].states,
			      l->v[i].reason ? l->v[i].reason : "", l->v[i].address ? l->v[i].address : "");
	td_auto_free char *h = td_op_hash(td_buf_str(&b), b.len);
	return strtoull(h, NULL, 16);
}

void td_op_view_refresh(struct td_op *op, struct td_object *sc, struct td_op_view *v, int64_t max_age_ms,
			struct td_cancel *c)
{
	struct td_error err = TD_ERROR_INIT;
	int64_t now = td_mono_ms(&td_clock_system);
	int r = td_op_view_connect(op, sc, v, c, &err);
	if (!r && v->known && v->fetched && now - v->fetched < max_age_ms) {
		v->fresh = true;
		return;
	}

	// Most looks find nothing new, and a list costs 1.6 kB and 0.2 ms of slurmrestd a node (S-W4). While nodes of a
	// small pool come and go all is read: to ask first would show some of it a second later.
	bool read = true, ask = now - v->changed > QUIET_MS || v->nodes.n > FEW;
	int64_t since;
	if (!r && ask && v->known && v->fetched && td_slurm_nodes_next(&v->pace, now, &since) == TD_NODES_ASK) {
		bool changed = false;
		r = td_slurm_nodes_changed(v->slurm, since, v->call, &changed, &err);
		read = !r && td_slurm_nodes_answer(&v->pace, now, changed);
	}
	if (!r && !read) {
		v->fresh = true;
		v->fetched = td_mono_ms(&td_clock_system);
		return;
	}

	struct td_slurm_nodes l = {0};
	if (!r) {
		td_slurm_expect(v->slurm, v->n_nodes);
		r = td_slurm_nodes(v->slurm, v->call, &l, &err);
	}
	if (!r && *l.release && !td_streq(l.release, v->version)) { // an update brings another one
		free(v->version);
		v->version = td_strdup(l.release);
	}

	if (r) {
		snprintf(v->error, sizeof(v->error), "%s", err.msg);
		v->fresh = false;
		v->fetched = 0;
		if (v->known)
			td_debug("SlurmCluster %s: %s", v->key, err.msg);
		return;
	}

	int64_t end = td_mono_ms(&td_clock_system);
	uint64_t h = hash_nodes(&l);
	bool news = !v->known || h != v->hash;
	if (news)
		v->changed = end;
	td_slurm_nodes_read(&v->pace, now, l.at, news);
	v->hash = h;
	v->print = td_op_nodes_print(&l, false);
	v->jobs_print = td_op_nodes_print(&l, true);
	td_slurm_nodes_done(&v->nodes);
	v->nodes = l;
	v->known = v->fresh = true;
	v->fetched = end;
	// The lesser of the last two, so that one slow answer alone does not slow the polls.
	v->cost = end - now < v->last_cost ? end - now : v->last_cost;
	v->last_cost = end - now;
	v->error[0] = '\0';
}
