// New machines join: see join.h.
#include "operator/join.h"

#include "base/log.h"
#include "kube/csr.h"
#include "pool/join.h"
#include "slurm/hosts.h"

#include <string.h>

enum {
	FETCH_MS = 60 * 1000, // so long a machine has to fetch its certificate
	KEEP_DAYS = 90,       // a token that is over stays as the record
};
#define REQUEST_KEY "request/"
#define TOKEN_KEY "token/"
#define NODE_KEY "node/"

struct joins {
	struct td_op *op;
	struct td_informer *requests, *tokens;
	struct td_objects reserved; // tokens as they are since their reservation, which the cache may not show yet
};
struct join_pass {
	struct joins *js;
	struct td_op *op;
	int64_t now;
	struct td_cancel *c;
};

static void enqueue(struct td_op *op, const char *kind, const char *name)
{
	td_auto_free char *key = td_asprintf("%s%s", kind, name);
	td_queue_add(op->joins, key);
}

static const char *boot_of(const struct td_object *node)
{
	return td_jstr_or(node->root, "status.nodeInfo.bootID", "");
}

void td_op_join_on_node(struct td_op *op, struct td_object *old, struct td_object *now)
{
	if (op->image && now && (!old || !td_streq(boot_of(old), boot_of(now))))
		enqueue(op, NODE_KEY, now->name);
}

static bool phase_is(const struct td_object *t, const char *phase)
{
	return td_streq(td_jstr_or(t->root, "status.phase", ""), phase);
}

static void on_request(void *ctx, struct td_object *old, struct td_object *now)
{
	struct joins *js = ctx;
	if (now)
		enqueue(js->op, REQUEST_KEY, now->name);
}

static void on_token(void *ctx, struct td_object *old, struct td_object *now)
{
	struct joins *js = ctx;
	if (!now)
		return;
	enqueue(js->op, TOKEN_KEY, now->name);
	// It may end another one that is for the same node.
	if (phase_is(now, "Used"))
		enqueue(js->op, NODE_KEY, td_jstr_or(now->root, "status.node", ""));
}

// Writes fields of the status over the one that was read; *ret_now: as it is then.
static int write_token(struct join_pass *x, const struct td_object *t, yyjson_mut_doc *d, struct td_object **ret_now,
		       struct td_error *err)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", t->uid);
	td_jm_str(d, root, "metadata.resourceVersion", t->rv);
	int r = td_kube_patch(x->op->k, TD_AT(&td_nodetokens, NULL, t->name, "status"), TD_PATCH_MERGE, root, x->c,
			      ret_now, err);
	return r ? td_wrap(err, "writing the status of NodeToken %s", t->name) : 0;
}

static void set_time(struct join_pass *x, yyjson_mut_doc *d, const char *path)
{
	char buf[TD_TIME_LEN];
	td_jm_str(d, yyjson_mut_doc_get_root(d), path, td_time_format(x->now, buf));
}

// ---- a request ----

static bool expired(const struct join_pass *x, const struct td_object *t)
{
	int64_t at;
	return td_time_parse(td_jstr_or(t->root, "spec.expires", ""), &at) || at <= x->now;
}

static void of_node(const struct td_object *t, struct td_strv *ret)
{
	td_strv_add(ret, td_jstr_or(t->root, "status.node", ""));
}

static bool promises(const struct td_object *o, const struct td_object *t, const char *node)
{
	return strcmp(o->uid, t->uid) != 0 && phase_is(o, "Used") && td_streq(td_jstr(o->root, "status.node"), node);
}

// Was that node promised to another machine? The cache says so, and of the last reservations, which it may not show yet,
// what was written: the worker is the only one who makes them.
static bool promised(struct join_pass *x, const struct td_object *t, const char *node)
{
	bool found = false;
	struct td_objects left = {0};
	for (size_t i = 0; i < x->js->reserved.n; i++) {
		struct td_object *o = x->js->reserved.v[i];
		td_auto(td_object_unref) struct td_object *seen = td_informer_get(x->js->tokens, NULL, o->name);
		if (!seen || strcmp(seen->uid, o->uid) != 0 || td_jstr(seen->root, "status.requestUID"))
			continue; // it is gone, or the cache knows it
		found |= promises(o, t, node);
		td_objects_add(&left, td_object_ref(o));
	}
	td_objects_done(&x->js->reserved);
	x->js->reserved = left;
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(x->js->tokens, "node", node, &l);
	for (size_t i = 0; i < l.n && !found; i++)
		found = promises(l.v[i], t, node);
	return found;
}

static bool is_host(struct join_pass *x, const char *node)
{
	bool found = false;
	td_auto_objects struct td_objects l = {0};
	td_informer_list(x->op->nodesets, NULL, &l);
	for (size_t i = 0; i < l.n && !found; i++)
		found = td_slurm_host_in(l.v[i]->root, node);
	return found;
}

// What is in the cluster now.
static int look(struct join_pass *x, const struct td_object *t, const char *node, struct td_pool_join *f,
		struct td_error *err)
{
	int r = td_kube_get(x->op->k, &td_nodes, NULL, node, x->c, NULL, err);
	if (r && r != TD_NOT_FOUND)
		return td_wrap(err, "looking for node %s", node);
	f->there = !r;
	f->host = is_host(x, node);
	f->promised = promised(x, t, node);
	return 0;
}

static int answer(struct join_pass *x, const struct td_object *q, bool good, const char *reason, const char *text,
		  struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "status.conditions");
	yyjson_val *v;
	size_t i, n;
	char buf[TD_TIME_LEN];
	td_jm_str(d, root, "metadata.uid", q->uid);
	td_jm_str(d, root, "metadata.resourceVersion", q->rv);
	yyjson_arr_foreach (td_jget(q->root, "status.conditions"), i, n, v)
		yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, v));
	yyjson_mut_val *c = yyjson_mut_arr_add_obj(d, list);
	td_jm_str(d, c, "type", good ? "Approved" : "Denied");
	td_jm_str(d, c, "status", "True");
	td_jm_str(d, c, "reason", reason);
	td_jm_str(d, c, "message", text);
	td_jm_str(d, c, "lastUpdateTime", td_time_format(x->now, buf));
	if (!td_lease_holds())
		return td_fail(err, TD_CONFLICT, "the lease is lost");
	int r = td_kube_patch(x->op->k, TD_AT(&td_csrs, NULL, q->name, "approval"), TD_PATCH_MERGE, root, x->c, NULL,
			      err);
	return r ? td_wrap(err, "answering CertificateSigningRequest %s", q->name) : 0;
}

static int refuse(struct join_pass *x, const struct td_object *q, const struct td_object *t,
		  const struct td_pool_join_plan *p, struct td_error *err)
{
	int r = answer(x, q, false, p->reason, p->text, err);
	if (r)
		return r;
	td_warn("request %s: refused: %s: %s", q->name, p->reason, p->text);
	if (!t)
		return 0;
	td_kube_record(x->op->events, TD_ABOUT(t, &td_nodetokens), "Warning", p->reason, "request %s: %s", q->name,
		       p->text);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_int(d, root, "status.refused", td_jint(t->root, "status.refused", 0) + 1);
	td_jm_strf(d, root, "status.message", "%s: %.500s", p->reason, p->text);
	// The count is for people: where somebody else has written the token, the event has to do.
	struct td_error lost = TD_ERROR_INIT;
	r = write_token(x, t, d, NULL, &lost);
	if (r)
		td_debug("%s", lost.msg);
	return 0;
}

static int reserve(struct join_pass *x, const struct td_object *q, const struct td_object *t, const char *node,
		   struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "status.phase", "Used");
	td_jm_str(d, root, "status.request", q->name);
	td_jm_str(d, root, "status.requestUID", q->uid);
	td_jm_str(d, root, "status.node", node);
	td_auto(td_object_unref) struct td_object *was = td_informer_get(x->op->nodes, NULL, node);
	if (was)
		td_jm_str(d, root, "status.bootID", boot_of(was));
	td_jm_strf(d, root, "status.message", "used for node %.100s", node);
	// Two uses within a second have an order.
	char buf[TD_TIME_LEN];
	td_jm_str(d, root, "status.usedAt", td_time_format_micro(x->now, buf));
	if (!td_lease_holds())
		return td_fail(err, TD_CONFLICT, "the lease is lost");
	struct td_object *now = NULL;
	int r = write_token(x, t, d, &now, err);
	if (!r)
		td_objects_add(&x->js->reserved, now);
	return r;
}

// Reads the token itself: what the cache has may be older than its last use.
static int token_of(struct join_pass *x, const char *id, struct td_object **ret, struct td_error *err)
{
	int r = td_kube_get(x->op->k, &td_nodetokens, NULL, id, x->c, ret, err);
	return r == TD_NOT_FOUND ? 0 : r ? td_wrap(err, "reading NodeToken %s", id) : 0;
}

static int request(struct join_pass *x, const char *name, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *q = td_informer_get(x->js->requests, NULL, name), *t = NULL;
	if (!q || td_object_deleting(q))
		return 0;
	td_auto_kube_csr struct td_kube_csr csr;
	td_kube_csr_read(q, &csr);
	if (!csr.token || td_streq(csr.decided, "Denied") || td_streq(csr.decided, "Failed"))
		return 0;
	int r = token_of(x, csr.token, &t, err);
	if (r)
		return r;
	bool known = t && !td_object_deleting(t);
	if (csr.decided) { // approved, perhaps by somebody else: the token is used all the same
		const char *cn = csr.cn && td_starts(csr.cn, TD_CSR_NODE) ? csr.cn + strlen(TD_CSR_NODE) : "";
		if (known && !td_jstr(t->root, "status.requestUID"))
			return reserve(x, q, t, cn, err);
		if (known)
			enqueue(x->op, TOKEN_KEY, t->name);
		return 0;
	}

	struct td_pool_join f = {.known = known,
				 .expired = known && expired(x, t),
				 .machine = known ? td_jstr_or(t->root, "spec.machine", "") : "",
				 .name = known ? td_jstr(t->root, "spec.node") : NULL,
				 .used_by = known ? td_jstr(t->root, "status.requestUID") : NULL,
				 .again = known && td_jbool(t->root, "spec.again", false),
				 .uid = q->uid,
				 .by = csr.machine,
				 .cn = csr.cn,
				 .org = csr.org,
				 .names = csr.names,
				 .usages = csr.usages};
	struct td_pool_join_plan p;
	td_pool_join_decide(&f, &p);
	if (p.what == TD_JOIN_RESERVE) {
		if ((r = look(x, t, p.node, &f, err)))
			return r;
		td_pool_join_decide(&f, &p);
	}
	if (p.what == TD_JOIN_REFUSE)
		return refuse(x, q, known ? t : NULL, &p, err);
	if (p.what == TD_JOIN_RESERVE && (r = reserve(x, q, t, p.node, err)))
		return r;
	if ((r = answer(x, q, true, "NodeToken", "the token's machine signed it, and the token is used up", err)))
		return r;
	td_info("request %s: machine %s joins as node %s with token %s", name, csr.machine, p.node, t->name);
	td_kube_record(x->op->events, TD_ABOUT(t, &td_nodetokens), "Normal", "TokenUsed", "machine %s joins as node %s",
		       csr.machine, p.node);
	return 0;
}

// ---- a token ----

static int drop_secret(struct join_pass *x, const struct td_object *t, struct td_error *err)
{
	td_auto_free char *name = td_asprintf(TD_CSR_SECRET "%s", t->name);
	const struct td_kube_delete_opts opts = {.grace_s = -1};
	int r = td_kube_delete(x->op->k, &td_secrets, TD_CSR_TOKENS, name, &opts, x->c, err);
	return r && r != TD_NOT_FOUND ? td_wrap(err, "deleting Secret " TD_CSR_TOKENS "/%s", name) : 0;
}

// The node gets what the token says of it, if it has not.
static int mark_node(struct join_pass *x, const struct td_object *t, const struct td_object *node, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	const char *machine = td_jstr_or(t->root, "spec.machine", "");
	bool any = false;
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(t->root, "spec.labels"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *key = yyjson_get_str(k), *value = yyjson_get_str(yyjson_obj_iter_get_val(k));
		if (td_streq(td_object_label(node, key), value))
			continue;
		td_jm_key_str(d, td_jm_obj(d, root, "metadata.labels"), key, value);
		any = true;
	}
	if (!td_streq(td_object_annotation(node, TD_ANN_MACHINE), machine)) {
		td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_MACHINE, machine);
		any = true;
	}
	if (!any)
		return 0;
	td_jm_str(d, root, "metadata.uid", node->uid);
	int r = td_kube_patch(x->op->k, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, root, x->c, NULL, err);
	return r ? td_wrap(err, "labelling node %s", node->name) : 0;
}

static int joined(struct join_pass *x, const struct td_object *t, const struct td_object *node, struct td_error *err)
{
	int r = drop_secret(x, t, err);
	if (r || (r = mark_node(x, t, node, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "status.phase", "Joined");
	td_jm_bool(d, root, "status.secretGone", true);
	td_jm_strf(d, root, "status.message", "node %.100s is there", node->name);
	set_time(x, d, "status.joinedAt");
	if ((r = write_token(x, t, d, NULL, err)))
		return r;
	td_info("node %s has joined with token %s", node->name, t->name);
	td_kube_record(x->op->events, TD_ABOUT(node, &td_nodes), "Normal", "NodeJoined",
		       "machine %s joined with NodeToken %s", td_jstr_or(t->root, "spec.machine", ""), t->name);
	return 0;
}

static int end_secret(struct join_pass *x, const struct td_object *t, const char *phase, const char *text,
		      struct td_error *err)
{
	int r = drop_secret(x, t, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "status.phase", phase);
	td_jm_bool(d, root, "status.secretGone", true);
	td_jm_str(d, root, "status.message", text);
	return write_token(x, t, d, NULL, err);
}

// How long until that time, at least 0.
static int64_t until(const struct join_pass *x, const char *at, int64_t and_ms)
{
	int64_t ms;
	if (td_time_parse(at ? at : "", &ms) || ms + and_ms <= x->now)
		return 0;
	return ms + and_ms - x->now;
}

// True when a later token was used for the same node: whoever has that one is the node.
static bool overtaken(struct join_pass *x, const struct td_object *t, const char *node)
{
	int64_t mine, its;
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(x->js->tokens, "node", node, &l);
	if (td_time_parse(td_jstr_or(t->root, "status.usedAt", ""), &mine))
		return false;
	for (size_t i = 0; i < l.n; i++)
		if ((phase_is(l.v[i], "Used") || phase_is(l.v[i], "Joined")) &&
		    !td_time_parse(td_jstr_or(l.v[i]->root, "status.usedAt", ""), &its) && its > mine)
			return true;
	return false;
}

static int used(struct join_pass *x, const struct td_object *t, int64_t *again_ms, struct td_error *err)
{
	const char *name = td_jstr_or(t->root, "status.node", "");
	if (overtaken(x, t, name))
		return end_secret(x, t, "Expired", "the node did not come, and another token was used for it since",
				  err);
	int64_t left = until(x, td_jstr(t->root, "status.usedAt"), FETCH_MS);
	td_auto(td_object_unref) struct td_object *node = td_informer_get(x->op->nodes, NULL, name);
	// A node that was there before says nothing about the machine that is to be it now.
	const char *was = td_jstr(t->root, "status.bootID");
	if (node && (!was || strcmp(was, boot_of(node)) != 0))
		return joined(x, t, node, err);
	if (left) // else it is looked at when its record ends
		*again_ms = left + 10;
	if (left || td_jbool(t->root, "status.secretGone", false))
		return 0;
	return end_secret(x, t, "Used", "used, and the node has not come yet", err);
}

static int token(struct join_pass *x, const char *name, int64_t *again_ms, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *t = td_informer_get(x->js->tokens, NULL, name);
	if (!t || td_object_deleting(t))
		return 0;
	int64_t keep = until(x, td_jstr(t->root, "spec.expires"), (int64_t)KEEP_DAYS * 86400 * 1000);
	*again_ms = keep + 10;
	if (!keep && !phase_is(t, "Waiting") && !phase_is(t, "")) {
		const struct td_kube_delete_opts opts = {.uid = t->uid, .grace_s = -1};
		int r = td_kube_delete(x->op->k, &td_nodetokens, NULL, t->name, &opts, x->c, err);
		return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r;
	}
	if (phase_is(t, "Used"))
		return used(x, t, again_ms, err);
	if (phase_is(t, "Joined") || phase_is(t, "Expired"))
		return 0;
	if (expired(x, t))
		return end_secret(x, t, "Expired", "nobody used it in its time", err);
	*again_ms = until(x, td_jstr(t->root, "spec.expires"), 0) + 10;
	if (phase_is(t, "Waiting"))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_str(d, yyjson_mut_doc_get_root(d), "status.phase", "Waiting");
	return write_token(x, t, d, NULL, err);
}

// ---- the controller ----

static void node_came(struct join_pass *x, const char *name)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(x->js->tokens, "node", name, &l);
	for (size_t i = 0; i < l.n; i++)
		if (phase_is(l.v[i], "Used"))
			enqueue(x->op, TOKEN_KEY, l.v[i]->name);
}

static int reconcile(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct joins *js = ctx;
	struct join_pass x = {js, js->op, td_real_ms(&td_clock_system), c};
	*again_ms = 0;
	if (td_starts(key, REQUEST_KEY))
		return request(&x, key + strlen(REQUEST_KEY), err);
	if (td_starts(key, TOKEN_KEY))
		return token(&x, key + strlen(TOKEN_KEY), again_ms, err);
	if (td_starts(key, NODE_KEY))
		node_came(&x, key + strlen(NODE_KEY));
	return 0;
}

void td_op_join_run(struct td_op *op, struct td_cancel *c)
{
	struct joins js = {.op = op};
	struct td_error err = TD_ERROR_INIT;
	const struct td_informer_opts tokens = {&td_nodetokens, NULL, NULL, NULL},
				      requests = {&td_csrs, NULL, NULL, "spec.signerName=" TD_CSR_SIGNER};
	js.tokens = td_informer_new(op->k, &tokens);
	js.requests = td_informer_new(op->k, &requests);
	td_informer_add_index(js.tokens, "node", of_node);
	td_informer_on_change(js.tokens, on_token, &js);
	td_informer_on_change(js.requests, on_request, &js);
	td_auto(td_cancel_unref) struct td_cancel *stop = td_cancel_new();
	struct td_informer *const all[] = {js.tokens, js.requests};
	int r = td_informer_start(js.tokens, stop, &err);
	if (!r)
		r = td_informer_start(js.requests, stop, &err);
	if (!r)
		r = td_informers_fill(all, TD_LEN(all), "new nodes wait", c, &err);
	if (!r) {
		const struct td_controller ctl = {"join", 1, op->joins, reconcile, &js};
		td_controller_run(&ctl, c, NULL);
	} else if (r != TD_CANCELLED) {
		td_err("new nodes: %s", err.msg);
	}
	td_cancel_fire(stop);
	js.requests = td_informer_free(js.requests);
	js.tokens = td_informer_free(js.tokens);
	td_objects_done(&js.reserved);
}
