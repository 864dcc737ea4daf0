// The operations on nodes.
#include "slurm/rest_priv.h"

#include "base/hash.h"
#include "base/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// What a node may take in a list: ten times what slurmrestd needs when the machine is quiet.
enum { NODE_MS = 2, EXPECT_MAX = 100000 };

void td_slurm_expect(struct td_slurm *s, size_t nodes)
{
	s->n_nodes = nodes < EXPECT_MAX ? nodes : EXPECT_MAX;
}

void td_slurm_nodes_done(struct td_slurm_nodes *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct td_slurm_node *n = &l->v[i];
		char **const f[] = {&n->name, &n->reason,    &n->reason_by,  &n->comment, &n->features, &n->address,
				    &n->gres, &n->gres_used, &n->partitions, &n->arch,    &n->active};
		for (size_t k = 0; k < TD_LEN(f); k++)
			free(*f[k]);
	}
	free(l->v);
	free(l->release);
	*l = (struct td_slurm_nodes){0};
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct td_slurm_node *)a)->name, ((const struct td_slurm_node *)b)->name);
}

static uint64_t print_of(const struct td_slurm_nodes *l)
{
	uint64_t h = TD_HASH;
	for (size_t i = 0; i < l->n; i++) {
		const char *const of[] = {l->v[i].name, l->v[i].gres};
		for (size_t k = 0; k < TD_LEN(of); k++)
			h = td_hash(td_hash_str(h, of[k]), "\xff", 1);
	}
	return h ? h : 1;
}

static void copy_node(const struct td_slurm_node *from, struct td_slurm_node *ret)
{
	*ret = *from;
	char **const f[] = {&ret->name, &ret->reason,    &ret->reason_by,  &ret->comment, &ret->features, &ret->address,
			    &ret->gres, &ret->gres_used, &ret->partitions, &ret->arch,    &ret->active};
	for (size_t k = 0; k < TD_LEN(f); k++)
		*f[k] = *f[k] ? td_strdup(*f[k]) : NULL;
}

void td_slurm_nodes_copy(const struct td_slurm_nodes *l, struct td_slurm_nodes *ret)
{
	*ret = *l;
	ret->cap = l->n;
	ret->v = td_calloc(l->n ? l->n : 1, sizeof(*ret->v));
	for (size_t i = 0; i < l->n; i++)
		copy_node(&l->v[i], &ret->v[i]);
	ret->release = l->release ? td_strdup(l->release) : NULL;
}

void td_slurm_nodes_put(struct td_slurm_nodes *l, struct td_slurm_nodes *one)
{
	struct td_slurm_node *x =
		one->n ? (struct td_slurm_node *)(uintptr_t)td_slurm_node_find(l, one->v[0].name) : NULL;
	if (!x)
		return;
	struct td_slurm_node was = *x;
	*x = one->v[0];
	one->v[0] = was; // freed with it
	l->print = print_of(l);
}

// Reads the list of a reply, sorted by name. On failure *ret stays untouched.
static int read_nodes(struct td_slurm *s, const yyjson_val *root, struct td_slurm_nodes *ret, struct td_error *err)
{
	td_auto_nodes struct td_slurm_nodes l = {0};
	yyjson_val *v, *list = td_jget(root, "nodes");
	size_t i, n;
	l.cap = yyjson_arr_size(list);
	l.v = td_calloc(l.cap ? l.cap : 1, sizeof(*l.v));

	yyjson_arr_foreach (list, i, n, v) {
		int r = s->a->read_node(v, &l.v[l.n++], err);
		if (r)
			return r;
	}

	qsort(l.v, l.n, sizeof(*l.v), by_name);
	l.print = print_of(&l);
	l.at = td_jint(root, "last_update.number", 0);
	l.release = td_strdup(td_jstr_or(root, "meta.slurm.release", ""));
	td_slurm_nodes_done(ret);
	*ret = l;
	l = (struct td_slurm_nodes){0};
	return 0;
}

int td_slurm_nodes(struct td_slurm *s, struct td_cancel *c, struct td_slurm_nodes *ret, struct td_error *err)
{
	const struct td_slurm_call k = {.op = TD_SLURM_NODES,
					.method = "GET",
					.path = "/nodes/",
					.max_body = 512u << 20,
					.timeout_ms = s->n_nodes ? s->timeout_ms + (int64_t)s->n_nodes * NODE_MS : 0};

	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_slurm_call_ok(s, &k, c, &j, err);
	if (r)
		return td_wrap(err, "listing nodes");

	if (!yyjson_is_arr(td_jget(td_json_root(j), "nodes")))
		return td_fail(err, TD_TRANSIENT, "listing nodes: no list in the reply");
	return read_nodes(s, td_json_root(j), ret, err);
}

int td_slurm_nodes_changed(struct td_slurm *s, int64_t since, struct td_cancel *c, bool *ret, struct td_error *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/nodes/?update_time=%" PRId64, since);
	const struct td_slurm_call k = {.op = TD_SLURM_NODES, .method = "GET", .path = path, .max_body = 512u << 20};
	struct td_error e = TD_ERROR_INIT;
	int r = td_slurm_call_ok(s, &k, c, NULL, &e);
	// 24.11 answers a change with an error of its own: it looks for changed partitions, too, and
	// finds none (S-W4).
	bool news = !r || (e.http == 500 && e.detail == -1);
	if (!news && e.http != 304)
		return td_fail(err, r, "asking for changed nodes: %.400s", e.msg);
	*ret = news;
	return 0;
}

// Appends "/node/<name>", escaped. TD_INVALID when it is no name of one node.
static int node_path(const char *name, struct td_buf *ret, struct td_error *err)
{
	if (!name || !*name || strlen(name) > 253 || strpbrk(name, "/,[]?# "))
		return td_fail(err, TD_INVALID, "\"%.100s\" is no node name", name ? name : "");
	td_buf_puts(ret, "/node/");
	td_url_escape(ret, name);
	return 0;
}

int td_slurm_node(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_slurm_nodes *ret,
		  struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	int r = node_path(name, &path, err);
	if (r)
		return r;

	const struct td_slurm_call k = {.op = TD_SLURM_NODE, .method = "GET", .path = td_buf_str(&path)};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int status = 0;
	r = td_slurm_call(s, &k, c, &status, &j, err);
	if (r)
		return td_wrap(err, "node %s", name);

	yyjson_val *list = td_jget(td_json_root(j), "nodes"),
		   *e = yyjson_arr_get_first(td_jget(td_json_root(j), "errors"));

	// The answer for an unknown node is HTTP 200 without a list and with an error that has no
	// number (docs/facts/slurm.md S-T6); other versions give the real number.
	if (!yyjson_arr_size(list) && ((status == 200 && e && !td_jint(e, "error_number", 0)) ||
				       td_jint(e, "error_number", 0) == TD_SLURM_ERR_NO_NODE))
		return td_fail(err, TD_NOT_FOUND, "Slurm does not know node %s", name);

	if (e || status != 200)
		return td_slurm_refused(&k, status, td_json_root(j), "", err);
	if (!yyjson_arr_size(list))
		return td_fail(err, TD_TRANSIENT, "node %s: no node in the reply", name);

	return read_nodes(s, td_json_root(j), ret, err);
}

const struct td_slurm_node *td_slurm_node_find(const struct td_slurm_nodes *l, const char *name)
{
	const struct td_slurm_node key = {.name = (char *)(uintptr_t)name};
	return l->n ? bsearch(&key, l->v, l->n, sizeof(*l->v), by_name) : NULL;
}

bool *td_slurm_nodes_in(const struct td_slurm_nodes *l, const struct td_strv *names)
{
	bool *is = td_calloc(l->n + 1, sizeof(*is));
	for (size_t i = 0; i < names->n; i++) {
		const struct td_slurm_node *x = td_slurm_node_find(l, names->v[i]);
		if (x)
			is[x - l->v] = true;
	}
	return is;
}

// Makes one write to a node. `doing` is for messages.
static int change(struct td_slurm *s, const struct td_slurm_call *k, const char *doing, const char *name,
		  struct td_cancel *c, struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	int r = td_slurm_call_ok(s, k, c, NULL, &e);
	if (r == TD_INVALID && e.detail == TD_SLURM_ERR_NO_NODE)
		return td_fail(err, TD_NOT_FOUND, "Slurm does not know node %s", name);

	if (!r)
		return 0;

	td_wrap(&e, "%s node %s", doing, name);
	if (err)
		*err = e;
	return r;
}

int td_slurm_node_update(struct td_slurm *s, const char *name, const char *state, const char *reason,
			 struct td_cancel *c, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	int r = node_path(name, &path, err);
	if (r)
		return r;

	for (const char *p = reason; p && *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			return td_fail(err, TD_INVALID, "the reason for node %s holds a control character", name);

	td_auto_free char *body = s->a->node_change_body(state, reason);
	const struct td_slurm_call k = {
		.op = TD_SLURM_NODE_UPDATE, .method = "POST", .path = td_buf_str(&path), .body = body};
	return change(s, &k, "updating", name, c, err);
}

int td_slurm_node_features(struct td_slurm *s, const char *name, const char *features, const char *active,
			   struct td_cancel *c, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	int r = node_path(name, &path, err);
	if (r)
		return r;
	td_auto_free char *body = s->a->node_features_body(features, active);
	const struct td_slurm_call k = {
		.op = TD_SLURM_NODE_UPDATE, .method = "POST", .path = td_buf_str(&path), .body = body};
	return change(s, &k, "updating", name, c, err);
}

int td_slurm_node_undrain(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_error *err)
{
	return td_slurm_node_update(s, name, "UNDRAIN", TD_REASON_NONE, c, err);
}

int td_slurm_node_delete(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	int r = node_path(name, &path, err);
	if (r)
		return r;
	const struct td_slurm_call k = {.op = TD_SLURM_NODE_DELETE, .method = "DELETE", .path = td_buf_str(&path)};
	return change(s, &k, "deleting", name, c, err);
}
