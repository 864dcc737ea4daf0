// The records of NodeActions: those that ended long ago become lines of their node's NodeHistory, of some hundred bytes
// instead of some thousand each, and one object a node.
//
// The lines are written first, in one write that fails if the history is not what was read, then the NodeActions are
// deleted, each by its uid. A line has the uid, too: whoever is killed in between, or does not hear that it was written,
// finds the line the next time and only deletes. `tandem history` shows what has both once.
#include "operator/health.h"

#include "base/log.h"
#include "pool/record.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 512 * 1024, MOST_LINES = 4096, DAY_MS = 24 * 3600 * 1000, MOST_DELETED = 10000 };

static int64_t time_of(const yyjson_val *o, const char *path)
{
	int64_t t;
	return td_time_parse(td_jstr_or(o, path, ""), &t) ? -1 : t;
}

// A history as it is to be.
struct history {
	yyjson_mut_doc *d;
	yyjson_mut_val *lines; // those that are kept
	size_t n, bytes;
	bool changed;
};

static void history_done(struct history *h)
{
	yyjson_mut_doc_free(h->d);
}
#define auto_history __attribute__((cleanup(history_done)))

static void load(const struct td_object *o, int64_t drop_before, struct history *ret)
{
	*ret = (struct history){.d = td_jm_new()};
	ret->lines = td_jm_arr(ret->d, yyjson_mut_doc_get_root(ret->d), "records");
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (o ? td_jget(o->root, "records") : NULL, i, n, x) {
		int64_t ended = time_of(x, "status.finishedAt");
		if (ended >= 0 && ended < drop_before) {
			ret->changed = true;
			continue;
		}
		size_t len;
		td_auto_free char *text = td_json_text(x, &len);
		yyjson_mut_arr_append(ret->lines, yyjson_val_mut_copy(ret->d, x));
		ret->n++;
		ret->bytes += len + 1;
	}
}

static bool has(const struct history *h, const char *uid)
{
	yyjson_mut_val *x;
	size_t i, n;
	yyjson_mut_arr_foreach (h->lines, i, n, x)
		if (td_streq(td_jm_getstr(x, "uid"), uid))
			return true;
	return false;
}

// What is only of use while it goes on is left out.
static yyjson_mut_val *line_of(yyjson_mut_doc *d, const struct td_object *o)
{
	static const char *const no[] = {"status.operationId", "status.bootID", "status.testPod"};
	yyjson_mut_val *l = yyjson_mut_obj(d);
	td_jm_str(d, l, "uid", o->uid);
	td_jm_str(d, l, "name", o->name);
	td_jm_str(d, l, "createdAt", td_jstr(o->root, "metadata.creationTimestamp"));
	td_jm_str(d, l, "madeBy", td_object_annotation(o, TD_ANN_MADE_BY));
	td_jm_copyval(d, l, "spec", td_jget(o->root, "spec"));
	td_jm_copyval(d, l, "status", td_jget(o->root, "status"));
	for (size_t i = 0; i < TD_LEN(no); i++)
		td_jm_del(l, no[i]);
	return l;
}

static int write(struct td_op *op, const char *node, const struct td_object *was, struct history *h,
		 struct td_cancel *c, struct td_error *err)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(h->d);
	int r;
	if (was) {
		td_jm_str(h->d, root, "metadata.uid", was->uid);
		td_jm_str(h->d, root, "metadata.resourceVersion", was->rv);
		r = td_kube_patch(op->k, TD_AT(&td_nodehistories, NULL, was->name), TD_PATCH_MERGE, root, c, NULL, err);
	} else {
		td_jm_str(h->d, root, "apiVersion", "tandem.dev/v1alpha1");
		td_jm_str(h->d, root, "kind", "NodeHistory");
		td_jm_str(h->d, root, "metadata.name", node);
		r = td_kube_create(op->k, &td_nodehistories, NULL, root, c, NULL, err);
	}
	return r ? td_wrap(err, "NodeHistory %s", node) : 0;
}

// The last test that a new node's figures, and those of others of its group, are compared with (nodetest.c).
static bool measures(const struct td_object *o)
{
	return td_jstr(o->root, "status.measured") && td_streq(td_jstr(o->root, "status.phase"), "Succeeded");
}

// Does somebody decide by it yet? acts are sorted by age.
static bool needed(const struct td_op_node *n, size_t i)
{
	const struct td_object *o = n->acts.v[i];
	const char *upgrade = td_jstr(o->root, "spec.upgrade"), *device = td_jstr(o->root, "spec.device");
	td_auto(td_object_unref) struct td_object *u = upgrade ? td_informer_get(n->op->upgrades, NULL, upgrade) : NULL;
	if (u && !td_jstr(u->root, "status.finishedAt"))
		return true;
	if (!n->node)
		return false;
	// The last one of each kind: by its end, and of all that began by its creation.
	bool began = false, tells = td_op_act_tells(o), measured = measures(o), alone = td_op_act_alone(o, NULL);
	int64_t end = time_of(o->root, "status.finishedAt");
	for (size_t k = 0; k < n->acts.n; k++) {
		const struct td_object *x = n->acts.v[k];
		began |= k > i && td_jstr(x->root, "status.startedAt") && td_op_act_over(x);
		int64_t its = time_of(x->root, "status.finishedAt");
		if (its < end || (its == end && k <= i))
			continue;
		tells &= !td_op_act_tells(x);
		measured &= !measures(x);
		alone &= !td_op_act_alone(x, NULL) || !td_streq(td_jstr(x->root, "spec.device"), device) ||
			 !td_jstr(x->root, "status.startedAt") || td_jbool(x->root, "status.superseded", false);
	}
	return !began || tells || measured || alone;
}

// ---- those that somebody deleted ----

void td_op_record_deleted(struct td_op *op, struct td_object *o)
{
	if (!td_jstr(o->root, "status.startedAt"))
		return;
	pthread_mutex_lock(&op->lock);
	if (op->deleted.n < MOST_DELETED)
		td_objects_add(&op->deleted, td_object_ref(o));
	pthread_mutex_unlock(&op->lock);
}

// Takes those of this node out of the list.
static void take_deleted(struct td_op *op, const char *node, struct td_objects *ret)
{
	pthread_mutex_lock(&op->lock);
	size_t kept = 0;
	for (size_t i = 0; i < op->deleted.n; i++) {
		struct td_object *o = op->deleted.v[i];
		if (td_streq(td_jstr(o->root, "spec.node"), node))
			td_objects_add(ret, o);
		else
			op->deleted.v[kept++] = o;
	}
	op->deleted.n = kept;
	pthread_mutex_unlock(&op->lock);
}

static void give_back(struct td_op *op, struct td_objects *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_op_record_deleted(op, l->v[i]);
}

// Adds their lines. An act that was folded, or is too old, gets none.
static void add_deleted(struct history *h, const char *node, const struct td_objects *l,
			const struct td_pool_record_rules *rules)
{
	char buf[TD_TIME_LEN];
	size_t full = 0;
	for (size_t i = 0; i < l->n; i++) {
		int64_t ended = time_of(l->v[i]->root, "status.finishedAt");
		if (has(h, l->v[i]->uid) || (ended >= 0 && ended + rules->keep_ms <= rules->now))
			continue;
		yyjson_mut_val *line = line_of(h->d, l->v[i]);
		size_t len;
		td_jm_str(h->d, line, "deletedAt", td_time_format(rules->now, buf));
		if (ended < 0) // a line lives from its end
			td_jm_str(h->d, line, "status.finishedAt", buf);
		td_auto_free char *text = td_json_mut_text(line, &len);
		if (h->n >= MOST_LINES || h->bytes + len > MOST_BYTES) {
			full++;
			continue;
		}
		yyjson_mut_arr_append(h->lines, line);
		h->n++;
		h->bytes += len + 1;
		h->changed = true;
	}
	if (full)
		td_warn("NodeHistory %s is full: %zu NodeActions that were deleted have no line in it", node, full);
}

static int fold(struct td_op_node *n, const struct td_objects *deleted, int64_t *again_ms, struct td_error *err)
{
	struct td_pool_record_rules rules = {.now = td_real_ms(&td_clock_system),
					     .compact_ms = n->policy.compact_ms,
					     .window_ms = n->policy.window_ms,
					     .keep_ms = n->policy.keep_ms,
					     .most_bytes = MOST_BYTES,
					     .most_lines = MOST_LINES};
	td_auto_free struct td_pool_old_act *v = td_calloc(n->acts.n + 1, sizeof(*v));
	bool due = deleted->n;
	for (size_t i = 0; i < n->acts.n; i++) {
		const struct td_object *o = n->acts.v[i];
		int64_t again = 0;
		v[i] = (struct td_pool_old_act){.begun = time_of(o->root, "status.startedAt"),
						.ended =
							td_op_act_over(o) ? time_of(o->root, "status.finishedAt") : -1};
		// Only of those whose time has come: it is a look at all, and where GPUs are cut on demand there are
		// hundreds.
		if (td_pool_record_fate(&v[i], &rules, 0, 0, &again) != TD_RECORD_STAYS)
			due |= !(v[i].needed = needed(n, i));
		if (again && (!*again_ms || again < *again_ms))
			*again_ms = again;
	}
	if (!due)
		return 0;

	td_auto(td_object_unref) struct td_object *was = NULL;
	int r = td_kube_get(n->op->k, &td_nodehistories, NULL, n->name, n->c, &was, err);
	if (r && r != TD_NOT_FOUND)
		return td_wrap(err, "NodeHistory %s", n->name);
	auto_history struct history h;
	load(was, rules.now - rules.keep_ms, &h);
	add_deleted(&h, n->name, deleted, &rules);
	size_t full = 0;
	for (size_t i = 0; i < n->acts.n; i++) {
		int64_t again;
		enum td_pool_fate fate = td_pool_record_fate(&v[i], &rules, 0, 0, &again);
		if (fate == TD_RECORD_STAYS) {
			v[i].needed = true;
			continue;
		}
		yyjson_mut_val *line = line_of(h.d, n->acts.v[i]);
		td_auto_free char *text = td_json_mut_text(line, &v[i].bytes);
		v[i].line = has(&h, n->acts.v[i]->uid);
		if (fate == TD_RECORD_FOLDS)
			fate = td_pool_record_fate(&v[i], &rules, h.n, h.bytes, &again);
		if (fate == TD_RECORD_STAYS) {
			full++;
			v[i].needed = true;
		} else if (fate == TD_RECORD_FOLDS && !v[i].line) {
			yyjson_mut_arr_append(h.lines, line);
			h.n++;
			h.bytes += v[i].bytes + 1;
			h.changed = true;
		}
	}
	if (full)
		td_warn("NodeHistory %s is full: %zu NodeActions stay as they are until its oldest lines are %lld days "
			"old",
			n->name, full, (long long)(rules.keep_ms / DAY_MS));
	if (h.changed && (r = write(n->op, n->name, was, &h, n->c, err)))
		return r;

	for (size_t i = 0; i < n->acts.n; i++) {
		const struct td_object *o = n->acts.v[i];
		if (v[i].needed)
			continue;
		const struct td_kube_delete_opts del = {.uid = o->uid, .grace_s = -1};
		r = td_kube_delete(n->op->k, &td_nodeactions, NULL, o->name, &del, n->c, err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return r;
	}
	return 0;
}

int td_op_record_fold(struct td_op_node *n, int64_t *again_ms, struct td_error *err)
{
	td_auto_objects struct td_objects deleted = {0};
	take_deleted(n->op, n->name, &deleted);
	int r = fold(n, &deleted, again_ms, err);
	if (r)
		give_back(n->op, &deleted);
	return r;
}

int td_op_record_sweep(struct td_op *op, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	*again_ms = DAY_MS;
	td_auto_policy struct td_op_policy p;
	td_op_policy_load(op, &p);
	td_auto_objects struct td_objects l = {0};
	int r = td_kube_list(op->k, &td_nodehistories, NULL, NULL, NULL, c, &l, err);
	if (r == TD_NOT_FOUND) // a cluster that does not know the kind yet
		return 0;
	for (size_t i = 0; i < l.n && !r; i++) {
		auto_history struct history h;
		load(l.v[i], td_real_ms(&td_clock_system) - p.keep_ms, &h);
		if (!h.n) {
			const struct td_kube_delete_opts del = {.uid = l.v[i]->uid, .rv = l.v[i]->rv, .grace_s = -1};
			r = td_kube_delete(op->k, &td_nodehistories, NULL, l.v[i]->name, &del, c, err);
		} else if (h.changed) {
			r = write(op, l.v[i]->name, l.v[i], &h, c, err);
		}
		if (r == TD_NOT_FOUND || r == TD_CONFLICT) // it was folded into meanwhile
			r = 0;
	}
	return r ? td_wrap(err, "records") : 0;
}
