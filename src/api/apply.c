// Server-side apply and metadata.managedFields (Kubernetes API reference, "Server-Side Apply").
#include "api/typed.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

// Older Update entries are joined into one, as the API server does.
enum { UPDATE_MANAGERS_MAX = 10 };

struct apply_entry {
	const char *manager, *operation, *version, *time, *sub;
	struct td_fields *set, *before; // before: the set as it was read
	// The entry was added, not read.
	bool fresh;
};
struct managers {
	struct td_arena *a;
	struct apply_entry *v;
	size_t n, cap;
};

static struct apply_entry *find(struct managers *m, const char *manager, const char *operation, const char *version,
				const char *sub)
{
	for (size_t i = 0; i < m->n; i++) {
		struct apply_entry *e = &m->v[i];
		if (!strcmp(e->manager, manager) && !strcmp(e->operation, operation) && !strcmp(e->version, version) &&
		    !strcmp(e->sub, sub))
			return e;
	}
	return NULL;
}

static struct apply_entry *add(struct managers *m, const char *manager, const char *operation, const char *version,
			       const char *sub, const char *time)
{
	if (m->n == m->cap) {
		m->cap = m->cap ? m->cap * 2 : 8;
		m->v = td_realloc(m->v, m->cap * sizeof(*m->v));
	}
	struct apply_entry *e = &m->v[m->n++];
	*e = (struct apply_entry){td_arena_strdup(m->a, manager),
				  td_arena_strdup(m->a, operation),
				  td_arena_strdup(m->a, version),
				  td_arena_strdup(m->a, time),
				  td_arena_strdup(m->a, sub),
				  td_fields_new(m->a),
				  td_fields_new(m->a),
				  true};
	return e;
}

static void read_managers(struct managers *m, const yyjson_val *list)
{
	size_t i, max;
	yyjson_val *x;

	yyjson_arr_foreach (td_unconst(list), i, max, x) {
		const char *name = td_jstr(x, "manager"), *op = td_jstr(x, "operation");
		if (!name || !op)
			continue;

		const char *version = td_jstr_or(x, "apiVersion", ""), *sub = td_jstr_or(x, "subresource", "");
		struct apply_entry *e = find(m, name, op, version, sub);
		if (!e)
			e = add(m, name, op, version, sub, td_jstr_or(x, "time", ""));

		td_fields_add(m->a, e->set, td_fields_parse(m->a, td_jkey(x, "fieldsV1")));
		td_fields_add(m->a, e->before, e->set);
		e->fresh = false;
	}
}

// The order of the API server: Apply before Update, then by time and name.
static int cmp_entry(const void *x, const void *y)
{
	const struct apply_entry *a = x, *b = y;
	int c = strcmp(a->operation, b->operation);
	if (!c)
		c = strcmp(a->time, b->time);
	if (!c)
		c = strcmp(a->manager, b->manager);
	if (!c)
		c = strcmp(a->version, b->version);
	return c ? c : strcmp(a->sub, b->sub);
}

static void cap_updates(struct managers *m)
{
	size_t n = 0;
	for (size_t i = 0; i < m->n; i++)
		n += !strcmp(m->v[i].operation, "Update") && !*m->v[i].sub && !td_fields_empty(m->v[i].set);

	// The entries are sorted, so the oldest come first.
	for (size_t i = 0; i < m->n && n > UPDATE_MANAGERS_MAX; i++) {
		struct apply_entry *e = &m->v[i];
		if (strcmp(e->operation, "Update") || *e->sub || td_fields_empty(e->set) ||
		    !strcmp(e->manager, "ancient-changes"))
			continue;
		struct apply_entry *old = find(m, "ancient-changes", "Update", e->version, "");
		if (!old) {
			e->manager = "ancient-changes";
			e->fresh = true;
			continue;
		}
		td_fields_add(m->a, old->set, e->set);
		e->set = td_fields_new(m->a);
		n--;
	}
}

static void write_managers(struct managers *m, yyjson_mut_doc *d, yyjson_mut_val *obj, int64_t now_ms)
{
	char now[TD_TIME_LEN];
	td_time_format(now_ms, now);
	yyjson_mut_val *list = yyjson_mut_arr(d);
	if (m->n) {
		qsort(m->v, m->n, sizeof(*m->v), cmp_entry);
		cap_updates(m);
	}
	for (size_t i = 0; i < m->n; i++) {
		struct apply_entry *e = &m->v[i];
		if (td_fields_empty(e->set))
			continue;

		// As in Kubernetes, a new entry of the scale subresource has no time, and an old
		// one keeps its time.
		bool scale = !strcmp(e->sub, "scale");
		if (scale ? e->fresh : (e->fresh || !*e->time || !td_fields_equal(e->set, e->before)))
			e->time = scale ? "" : now;

		yyjson_mut_val *o = yyjson_mut_obj(d);
		td_jm_str(d, o, "manager", e->manager);
		td_jm_str(d, o, "operation", e->operation);
		td_jm_str(d, o, "apiVersion", e->version);
		td_jm_str(d, o, "time", *e->time ? e->time : NULL);
		td_jm_str(d, o, "fieldsType", "FieldsV1");
		td_jm_key_set(d, o, "fieldsV1", td_fields_emit(d, e->set));
		td_jm_str(d, o, "subresource", *e->sub ? e->sub : NULL);
		yyjson_mut_arr_append(list, o);
	}

	yyjson_mut_val *meta = td_jm_obj(d, obj, "metadata");
	if (yyjson_mut_arr_size(list))
		td_jm_key_set(d, meta, "managedFields", list);
	else
		yyjson_mut_obj_remove_key(meta, "managedFields");
}

// Structures that an object of a built-in kind has from the beginning, even when empty, because the
// API server's Go types have them. They belong to no manager. Items of lists are different: nothing
// exists before the item.
static void unwrap(struct td_fields *f)
{
	static const char *const always[] = {
		"f:spec",           "f:status",        "f:template",     "f:metadata",        "f:strategy",
		"f:updateStrategy", "f:containers",    "f:nodeInfo",     "f:daemonEndpoints", "f:kubeletEndpoint",
		"f:names",          "f:acceptedNames", "f:loadBalancer", "f:source"};

	for (size_t i = 0; i < f->n; i++)
		for (size_t k = 0; k < TD_LEN(always); k++)
			if (!strcmp(f->v[i]->pe, always[k]) && f->v[i]->n) {
				f->v[i]->member = false;
				unwrap(f->v[i]);
			}
}

// Removes the fields that the server itself maintains, because they belong to no manager.
static void strip(struct td_fields *f, const struct td_api_apply *o)
{
	static const char *const meta[] = {"f:name",
					   "f:namespace",
					   "f:creationTimestamp",
					   "f:selfLink",
					   "f:uid",
					   "f:resourceVersion",
					   "f:generation",
					   "f:managedFields",
					   "f:deletionTimestamp",
					   "f:deletionGracePeriodSeconds"};

	td_fields_drop(f, "f:apiVersion");
	td_fields_drop(f, "f:kind");
	struct td_fields *m = td_fields_child(f, "f:metadata");
	for (size_t i = 0; m && i < TD_LEN(meta); i++)
		td_fields_drop(m, meta[i]);
	if (m) {
		m->member = false;
		if (td_fields_empty(m))
			td_fields_drop(f, "f:metadata");
	}

	f->member = false;
	if (o->no_status)
		td_fields_drop(f, "f:status");
	if (o->typed)
		unwrap(f);
}

struct conflict {
	struct td_causes *causes;
	struct td_strv paths;
	const char *who;
};

static void on_conflict(const char *path, void *arg)
{
	struct conflict *c = arg;
	td_strv_add(&c->paths, path);
	if (!c->causes)
		return;
	td_cause_add(c->causes, "FieldManagerConflict", path, "conflict with %s", c->who);
	c->causes->v[c->causes->n - 1].with = td_strdup(c->who);
}

static int cmp_manager(const void *x, const void *y)
{
	return strcmp((*(const struct apply_entry *const *)x)->manager,
		      (*(const struct apply_entry *const *)y)->manager);
}

// Finds fields in `changed` that belong to other managers. Returns how many; their text goes to
// msg.
static size_t conflicts(struct managers *m, const struct apply_entry *mine, const struct td_fields *changed,
			const char *version, struct td_causes *causes, struct td_buf *msg)
{
	size_t n = 0;
	td_auto_free const struct apply_entry **by_name = td_malloc((m->n + 1) * sizeof(*by_name));

	for (size_t i = 0; i < m->n; i++)
		by_name[i] = &m->v[i];
	qsort(by_name, m->n, sizeof(*by_name), cmp_manager);

	for (size_t i = 0; i < m->n; i++) {
		const struct apply_entry *e = by_name[i];
		if (e == mine)
			continue;

		td_auto_buf struct td_buf who = {0};
		td_buf_printf(&who, "\"%s\"", e->manager);
		if (*e->sub)
			td_buf_printf(&who, " with subresource \"%s\"", e->sub);
		if (strcmp(e->operation, "Apply"))
			td_buf_printf(&who, " using %s", version ? version : e->version);

		struct conflict c = {causes, {0}, td_buf_str(&who)};
		td_fields_common(e->set, changed, on_conflict, &c);
		n += c.paths.n;
		if (c.paths.n == 1)
			td_buf_printf(msg, "%sconflict with %s: %s", msg->len ? "\n" : "", td_buf_str(&who),
				      c.paths.v[0]);
		else if (c.paths.n)
			td_buf_printf(msg, "%sconflicts with %s:", msg->len ? "\n" : "", td_buf_str(&who));
		for (size_t p = 0; c.paths.n > 1 && p < c.paths.n; p++)
			td_buf_printf(msg, "\n- %s", c.paths.v[p]);
		td_strv_done(&c.paths);
	}
	return n;
}

static void on_owned(const char *path, void *arg)
{
	*(bool *)arg = true;
}

static bool owned(const struct managers *m, const struct apply_entry *but, const struct td_fields *f)
{
	bool any = false;
	for (size_t i = 0; i < m->n; i++)
		if (&m->v[i] != but)
			td_fields_common(m->v[i].set, f, on_owned, &any);
	return any;
}

// Before the first apply, all fields belong to a manager of this name, so that taking one is a
// conflict.
static void before_first(struct managers *m, const struct td_schema *s, const yyjson_val *live,
			 const struct td_api_apply *o)
{
	struct apply_entry *e = add(m, "before-first-apply", "Update", o->api_version ? o->api_version : "", "", "");
	td_typed_set(m->a, s, live, true, e->set);
	strip(e->set, o);
}

static void managers_done(struct managers *m)
{
	free(m->v);
	td_arena_free(m->a);
}

// The applied object in the form in which it would be stored: pruned, quantities canonical, without
// managedFields.
static struct td_json *normal(const struct td_schema *s, const yyjson_val *v)
{
	yyjson_mut_doc *d = td_jm_copy(v);
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_schema_prune(s, root, NULL);
	td_schema_canonical(s, d, root);
	td_jm_del(root, "metadata.managedFields");
	return td_jm_done(d);
}

int td_schema_apply(const struct td_schema *s, const yyjson_val *live, const yyjson_val *applied_raw,
		    const struct td_api_apply *o, struct td_causes *ret_conflicts, struct td_json **ret,
		    struct td_error *err)
{
	if (!yyjson_is_obj(td_unconst(applied_raw)))
		return td_fail(err, TD_INVALID, "apply: an object is needed");
	if (!o->manager || !*o->manager)
		return td_fail(err, TD_INVALID, "fieldManager is required for apply patch");
	if (yyjson_arr_size(td_jget(applied_raw, "metadata.managedFields")))
		return td_fail(err, TD_INVALID, "metadata.managedFields must be nil");

	td_auto(td_json_unref) struct td_json *applied_doc = normal(s, applied_raw);
	const yyjson_val *applied = td_json_root(applied_doc);
	__attribute__((cleanup(managers_done))) struct managers m = {.a = td_arena_new()};
	const char *version = o->api_version ? o->api_version : "", *sub = o->subresource ? o->subresource : "";

	read_managers(&m, td_jget(live, "metadata.managedFields"));
	if (live && !m.n && !*sub)
		before_first(&m, s, live, o);

	struct apply_entry *mine = find(&m, o->manager, "Apply", version, sub);
	if (!mine)
		mine = add(&m, o->manager, "Apply", version, sub, "");

	struct td_fields *last = mine->set;
	mine->set = td_fields_new(m.a);
	td_typed_set(m.a, s, applied, false, mine->set);
	strip(mine->set, o);

	if (!strcmp(sub, "scale") && !o->disown && !td_fields_empty(mine->set) && td_fields_empty(last) &&
	    !owned(&m, mine, mine->set)) {
		// add() may move the array that mine points into.
		struct td_fields *said = mine->set;
		struct apply_entry *e = add(&m, "before-first-apply", "Update", version, sub, "");
		td_fields_add(m.a, e->set, said);
		mine = find(&m, o->manager, "Apply", version, sub);
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(NULL);
	yyjson_mut_val *now = td_typed_merge(d, s, live, applied);
	struct td_fields *keep = td_fields_new(m.a);
	for (size_t i = 0; i < m.n; i++)
		td_fields_add(m.a, keep, m.v[i].set);
	td_typed_remove(s, now, last, keep);
	yyjson_mut_doc_set_root(d, now);

	td_auto(td_json_unref) struct td_json *now_doc = td_json_from_mut(now);
	struct td_fields *changed = td_fields_new(m.a), *removed = td_fields_new(m.a);
	td_typed_diff(m.a, s, live, td_json_root(now_doc), changed, removed);
	strip(changed, o);
	strip(removed, o);

	if (!o->force) {
		td_auto_buf struct td_buf msg = {0};
		size_t n = conflicts(&m, mine, changed, o->shown_version, ret_conflicts, &msg);
		if (n)
			return td_fail(err, TD_CONFLICT, "Apply failed with %zu conflict%s: %s", n, n > 1 ? "s" : "",
				       td_buf_str(&msg));
	}

	for (size_t i = 0; i < m.n; i++) {
		if (&m.v[i] != mine)
			td_fields_sub(m.v[i].set, changed);
		td_fields_sub(m.v[i].set, removed);
	}

	write_managers(&m, d, now, o->now_ms);
	*ret = td_json_from_mut(now);
	return 0;
}

// The list to start from: what the writer sent, or the stored one when it sent none. [{}] starts
// anew.
static const yyjson_val *base_list(const yyjson_val *old, const yyjson_val *now)
{
	const yyjson_val *sent = td_jget(now, "metadata.managedFields");
	size_t n = yyjson_arr_size(td_unconst(sent));
	if (n == 1 && !yyjson_obj_size(yyjson_arr_get_first(td_unconst(sent))))
		return NULL;
	return n ? sent : td_jget(old, "metadata.managedFields");
}

// The Go types of built-in kinds cannot tell an empty text from an absent one, so empty text counts
// as not set.
static void drop_zero(struct td_fields *f, yyjson_val *v, bool root)
{
	size_t i, max;
	yyjson_val *k, *x;

	yyjson_obj_foreach (v, i, max, k, x) {
		td_auto_free char *pe = td_asprintf("f:%s", yyjson_get_str(k));
		struct td_fields *c = td_fields_child(f, pe);
		if (c && c->n && !strcmp(pe, "f:spec"))
			drop_zero(c, x, false);
		else if (c && (yyjson_is_null(x) ||
			       ((yyjson_is_str(x) || (root && yyjson_is_obj(x))) && !yyjson_get_len(x))))
			td_fields_drop(f, pe);
	}
}

void td_schema_track(const struct td_schema *s, const yyjson_val *old, yyjson_mut_doc *d, yyjson_mut_val *now,
		     const struct td_api_apply *o)
{
	td_auto(td_json_unref) struct td_json *now_doc = td_json_from_mut(now);
	__attribute__((cleanup(managers_done))) struct managers m = {.a = td_arena_new()};
	const char *manager = o->manager && *o->manager ? o->manager : "unknown";
	const char *version = o->api_version ? o->api_version : "", *sub = o->subresource ? o->subresource : "";
	const yyjson_val *base = base_list(old, td_json_root(now_doc));

	// As in Kubernetes, an object without managedFields is not tracked until the next apply.
	if (old && !yyjson_arr_size(td_unconst(base))) {
		td_jm_del(now, "metadata.managedFields");
		return;
	}

	read_managers(&m, base);
	struct td_fields *changed = td_fields_new(m.a), *removed = td_fields_new(m.a);
	td_typed_diff(m.a, s, old, td_json_root(now_doc), changed, removed);
	strip(changed, o);
	strip(removed, o);
	if (o->typed && !old)
		drop_zero(changed, td_json_root(now_doc), true);
	// As in Kubernetes, a Scale has one field only, and it is tracked only when somebody owns
	// it.
	bool watched = strcmp(sub, "scale") != 0 || (!o->disown && owned(&m, NULL, changed));

	for (size_t i = 0; i < m.n; i++) {
		td_fields_sub(m.v[i].set, changed);
		td_fields_sub(m.v[i].set, removed);
	}

	if (!td_fields_empty(changed) && watched) {
		struct apply_entry *mine = find(&m, manager, "Update", version, sub);
		if (!mine)
			mine = add(&m, manager, "Update", version, sub, "");
		td_fields_add(m.a, mine->set, changed);
	}

	write_managers(&m, d, now, o->now_ms);
}
