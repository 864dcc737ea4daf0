// Compiles structural schemas (Kubernetes API reference, "Specifying a structural schema").
#include "api/schema_priv.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SCHEMA_DEPTH = 64 };

// The memory of schemas. All built-in kinds live in `builtin`, for ever. Every other schema has a
// tree of its own, and its root is the first member, so that td_schema_free finds the tree.
struct tree {
	struct td_schema root;
	struct td_json *doc;
	struct td_arena *arena;
	struct td_pattern *patterns;
};
// Guards builtin and the shared parts while they are compiled.
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tree builtin;

struct compiler {
	struct tree *tree;
	bool meta;        // the root gets apiVersion, kind and metadata
	bool types_below; // logical rules at hand may have types
	struct td_buf path;
	struct td_error *err;
	struct td_causes *problem; // NULL: only err is wanted
};

static struct td_schema *compile(struct compiler *c, yyjson_val *v, bool logical, int depth);

// Reports that the schema cannot be used. `below` is the place under the current path; NULL means
// the path itself. Always returns false.
__attribute__((format(printf, 4, 5))) static bool wrong(struct compiler *c, bool forbidden, const char *below,
							const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *what = td_vasprintf(fmt, ap);
	va_end(ap);
	td_auto_free char *at =
		td_asprintf("%s%s%s", td_buf_str(&c->path), c->path.len && below ? "." : "", below ? below : "");
	td_fail(c->err, TD_INVALID, "%s: %s", *at ? at : "schema", what);
	td_cause_add(c->problem, forbidden ? "FieldValueForbidden" : "FieldValueInvalid", at, "%s", what);
	return false;
}

static void *fail(struct compiler *c, const char *what)
{
	wrong(c, false, NULL, "%s", what);
	return NULL;
}

static bool forbid(struct compiler *c, const char *what)
{
	return wrong(c, true, NULL, "%s", what);
}

static const char **strings(struct compiler *c, yyjson_val *a, unsigned *ret_n)
{
	*ret_n = 0;

	if (!yyjson_arr_size(a))
		return NULL;
	const char **v = td_arena_alloc(c->tree->arena, yyjson_arr_size(a) * sizeof(*v));
	size_t i, max;
	unsigned n = 0;
	yyjson_val *x;

	yyjson_arr_foreach (a, i, max, x) {
		if (yyjson_is_str(x))
			v[n++] = yyjson_get_str(x);
	}

	*ret_n = n;
	return v;
}

static bool number(yyjson_val *v, const char *key, double *ret)
{
	yyjson_val *x = td_jkey(v, key);
	if (!yyjson_is_num(x))
		return false;
	*ret = yyjson_get_num(x);
	return true;
}

static struct td_schema **logical_list(struct compiler *c, yyjson_val *v, const char *key, size_t *ret_n, int depth,
				       bool *ok)
{
	yyjson_val *a = td_jkey(v, key), *x;
	if (!yyjson_arr_size(a))
		return NULL;
	struct td_schema **l = td_arena_alloc(c->tree->arena, yyjson_arr_size(a) * sizeof(*l));
	size_t i, max, len = c->path.len;

	yyjson_arr_foreach (a, i, max, x) {
		td_buf_printf(&c->path, "%s%s[%zu]", len ? "." : "", key, i);
		l[i] = compile(c, x, true, depth + 1);
		*ok = *ok && l[i];
		if (!l[i])
			return NULL;
		td_path_cut(&c->path, len);
	}

	*ret_n = yyjson_arr_size(a);
	return l;
}

static bool has_any(yyjson_val *v, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (td_jkey(v, words[i]))
			return true;
	return false;
}

static bool compile_limits(struct compiler *c, struct td_schema *s, yyjson_val *v)
{
	static const char *const words[] = {"pattern", "minLength",     "maxLength",     "minItems", "maxItems",
					    "minimum", "minProperties", "maxProperties", "maximum",  "multipleOf"};

	if (!has_any(v, words, TD_LEN(words)))
		return true;

	struct td_limits *l = td_arena_alloc(c->tree->arena, sizeof(*l));
	l->min_len = td_jint(v, "minLength", -1);
	l->max_len = td_jint(v, "maxLength", -1);
	l->min_items = td_jint(v, "minItems", -1);
	l->max_items = td_jint(v, "maxItems", -1);
	l->min_props = td_jint(v, "minProperties", -1);
	l->max_props = td_jint(v, "maxProperties", -1);
	l->has_min = number(v, "minimum", &l->min);
	l->has_max = number(v, "maximum", &l->max);
	l->has_multiple = number(v, "multipleOf", &l->multiple) && l->multiple > 0;
	l->ex_min = td_jbool(v, "exclusiveMinimum", false);
	l->ex_max = td_jbool(v, "exclusiveMaximum", false);

	s->limits = l;
	const char *pattern = td_jkey_str(v, "pattern");
	if (!pattern)
		return true;
	// Patterns of kind files are not tried here; a unit test tries them.
	if (c->tree != &builtin && !td_pattern_ok(pattern))
		return fail(c, "pattern: not a regular expression that can be checked here") != NULL;

	struct td_pattern *p = td_arena_alloc(c->tree->arena, sizeof(*p));
	p->text = pattern;
	p->next = c->tree->patterns;
	c->tree->patterns = p;
	l->pattern = p;
	return true;
}

// A field of x-kubernetes-int-or-string has these two rules. They are the only logical rules that
// may have types.
static bool int_or_string_types(yyjson_val *v)
{
	yyjson_val *any = td_jkey(v, "anyOf"), *all = td_jkey(v, "allOf");
	if (!any && all)
		any = td_jkey(yyjson_arr_get_first(all), "anyOf");
	yyjson_val *a = yyjson_arr_get(any, 0), *b = yyjson_arr_get(any, 1);
	return td_jbool(v, "x-kubernetes-int-or-string", false) && yyjson_arr_size(any) == 2 &&
	       yyjson_obj_size(a) == 1 && yyjson_obj_size(b) == 1 && td_streq(td_jkey_str(a, "type"), "integer") &&
	       td_streq(td_jkey_str(b, "type"), "string");
}

static bool compile_words(struct compiler *c, struct td_logic *l, yyjson_val *v, int depth)
{
	bool ok = true;
	l->all_of = logical_list(c, v, "allOf", &l->n_all, depth, &ok);
	l->any_of = ok ? logical_list(c, v, "anyOf", &l->n_any, depth, &ok) : NULL;
	l->one_of = ok ? logical_list(c, v, "oneOf", &l->n_one, depth, &ok) : NULL;
	return ok;
}

static bool compile_logic(struct compiler *c, struct td_schema *s, yyjson_val *v, int depth)
{
	static const char *const words[] = {"allOf", "anyOf", "oneOf", "not"};
	if (!has_any(v, words, TD_LEN(words)))
		return true;

	struct td_logic *l = td_arena_alloc(c->tree->arena, sizeof(*l));
	bool was = c->types_below;
	c->types_below = was || int_or_string_types(v);
	bool ok = compile_words(c, l, v, depth);
	c->types_below = was;
	if (!ok)
		return false;

	s->logic = l;
	if (!td_jkey(v, "not"))
		return true;

	size_t len = c->path.len;
	td_buf_puts(&c->path, len ? ".not" : "not");
	l->not_ = compile(c, td_jkey(v, "not"), true, depth + 1);
	td_path_cut(&c->path, len);
	return l->not_ != NULL;
}

static bool compile_values(struct compiler *c, struct td_schema *s, yyjson_val *v, int depth)
{
	s->required = strings(c, td_jkey(v, "required"), &s->n_required);
	s->enums = td_jkey(v, "enum");
	s->format = td_jkey_str(v, "format");
	s->quantity = s->format && !strcmp(s->format, "quantity");
	return compile_limits(c, s, v) && compile_logic(c, s, v, depth);
}

// In a CRD, rules below allOf, anyOf, oneOf and not are about values only. What a field is must be
// said at its own place.
static bool only_rules(struct compiler *c, yyjson_val *v)
{
	static const char *const words[] = {"type",
					    "additionalProperties",
					    "default",
					    "title",
					    "description",
					    "nullable",
					    "x-kubernetes-preserve-unknown-fields",
					    "x-kubernetes-embedded-resource",
					    "x-kubernetes-int-or-string",
					    "x-kubernetes-list-type",
					    "x-kubernetes-list-map-keys",
					    "x-kubernetes-map-type"};

	for (size_t i = 0; i < TD_LEN(words); i++)
		if (td_jkey(v, words[i])) {
			const char *how = !strcmp(words[i], "nullable") ? "false"
					  : !strcmp(words[i], "default") || !strcmp(words[i], "additionalProperties") ||
							  td_starts(words[i], "x-")
						  ? "undefined"
						  : "empty";
			return wrong(c, true, words[i], "Forbidden: must be %s to be structural", how);
		}
	return true;
}

static bool compile_type(struct compiler *c, struct td_schema *s, yyjson_val *v, bool logical)
{
	static const char *const names[] = {"", "object", "array", "string", "integer", "number", "boolean"};
	const char *t = td_jkey_str(v, "type");
	if (logical && c->tree != &builtin && !c->types_below && !only_rules(c, v))
		return false;

	s->nullable = td_jbool(v, "nullable", false);
	s->int_or_string = td_jbool(v, "x-kubernetes-int-or-string", false);
	s->preserve = td_jbool(v, "x-kubernetes-preserve-unknown-fields", false);
	s->embedded = td_jbool(v, "x-kubernetes-embedded-resource", false);
	s->allow_dup = td_jkey(v, "x-tandem-duplicates") != NULL;

	for (int i = 1; t && i < (int)TD_LEN(names); i++)
		if (!strcmp(t, names[i]))
			s->type = (uint8_t)i;

	if (t && *t && s->type == TD_S_ANY)
		return fail(c, "type: write object, array, string, integer, number or boolean") != NULL;
	if (!logical && s->type == TD_S_ANY && !s->int_or_string && !s->preserve)
		return fail(c, "type: Required value: must not be empty for specified object fields") != NULL;
	if (s->int_or_string && s->type != TD_S_ANY)
		return fail(c, "type: must be empty if x-kubernetes-int-or-string is true") != NULL;
	if (s->embedded && s->type != TD_S_OBJECT)
		return fail(c, "type: must be object if x-kubernetes-embedded-resource is true") != NULL;

	static const char *const forbidden[] = {
		"$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id"};
	for (size_t i = 0; i < TD_LEN(forbidden); i++)
		if (td_jkey(v, forbidden[i]))
			return wrong(c, true, forbidden[i], "Forbidden: %s is not supported", forbidden[i]);

	if (td_jbool(v, "uniqueItems", false))
		return forbid(c, "uniqueItems: Forbidden: write x-kubernetes-list-type: set");
	return true;
}

static bool compile_lists(struct compiler *c, struct td_schema *s, yyjson_val *v)
{
	const char *l = td_jkey_str(v, "x-kubernetes-list-type"), *m = td_jkey_str(v, "x-kubernetes-map-type");
	const char *strategy = td_jkey_str(v, "x-kubernetes-patch-strategy");

	if (l && strcmp(l, "atomic") && strcmp(l, "set") && strcmp(l, "map"))
		return fail(c, "x-kubernetes-list-type: write atomic, set or map") != NULL;
	if (l && s->type != TD_S_ARRAY)
		return fail(c, "x-kubernetes-list-type: only for type array") != NULL;
	if (m && strcmp(m, "granular") && strcmp(m, "atomic"))
		return fail(c, "x-kubernetes-map-type: write granular or atomic") != NULL;

	s->list_type = l && !strcmp(l, "set") ? TD_L_SET : l && !strcmp(l, "map") ? TD_L_MAP : TD_L_ATOMIC;
	s->map_atomic = m && !strcmp(m, "atomic");
	s->keys = strings(c, td_jkey(v, "x-kubernetes-list-map-keys"), &s->n_keys);
	s->merge_key = td_jkey_str(v, "x-kubernetes-patch-merge-key");
	s->merge_patch = strategy && strstr(strategy, "merge");
	s->retain_keys = strategy && strstr(strategy, "retainKeys");

	if (s->list_type != TD_L_MAP)
		return s->n_keys ? fail(c, "x-kubernetes-list-map-keys: only with x-kubernetes-list-type: map") != NULL
				 : true;
	if (!s->n_keys)
		return fail(c, "x-kubernetes-list-map-keys: Required value with x-kubernetes-list-type: map") != NULL;

	for (size_t i = 0; i < s->n_keys; i++) {
		const struct td_schema *k = td_schema_declared(s->items, s->keys[i]);
		bool required = false;
		for (size_t r = 0; s->items && r < s->items->n_required; r++)
			required = required || !strcmp(s->items->required[r], s->keys[i]);
		if (!k || k->type == TD_S_OBJECT || k->type == TD_S_ARRAY || (!required && !k->def && !s->allow_dup))
			return wrong(c, false, NULL,
				     "x-kubernetes-list-map-keys: %s must be a scalar property of items, required or "
				     "with a default",
				     s->keys[i]);
	}
	return true;
}

// Every object has these fields, whatever its schema says about them.
static const char *const meta_words[][2] = {{"apiVersion", "string"}, {"kind", "string"}, {"metadata", "objectMeta"}};

static bool is_meta(const char *key)
{
	for (size_t i = 0; i < TD_LEN(meta_words); i++)
		if (!strcmp(key, meta_words[i][0]))
			return true;
	return false;
}

// Returns the compiled part. It is compiled once, for all kinds.
static struct td_schema *shared(struct compiler *c, const char *name)
{
	struct td_shared *p = td_shared_find(name);
	if (!p->s) {
		struct compiler own = {.tree = &builtin, .err = c->err, .problem = c->problem};
		p->s = compile(&own, p->raw, false, 1);
		td_buf_done(&own.path);
	}
	return p->s;
}

// Checks what a CRD says about apiVersion, kind and metadata, which every object has. About
// metadata it may restrict names only.
static bool meta_words_ok(struct compiler *c, yyjson_val *props)
{
	size_t i, max;
	yyjson_val *k, *x, *m = td_jkey(props, "metadata");

	for (i = 0; i < TD_LEN(meta_words); i++) {
		const char *type = i < 2 ? "string" : "object";
		yyjson_val *p = td_jkey(props, meta_words[i][0]);
		if (!p || td_streq(td_jkey_str(p, "type"), type))
			continue;
		td_auto_free char *at = td_asprintf("properties[%s].type", meta_words[i][0]);
		return wrong(c, false, at, "Invalid value: must be %s", type);
	}

	bool only_names = true;
	yyjson_obj_foreach (m, i, max, k, x)
		only_names = only_names && (yyjson_equals_str(k, "type") || yyjson_equals_str(k, "properties") ||
					    yyjson_equals_str(k, "default"));
	yyjson_obj_foreach (td_jkey(m, "properties"), i, max, k, x)
		only_names = only_names && (yyjson_equals_str(k, "name") || yyjson_equals_str(k, "generateName"));

	if (only_names)
		return true;
	return wrong(c, true, "properties[metadata]",
		     "Forbidden: must not specify anything other than name and generateName, but metadata is "
		     "implicitly specified");
}

static bool compile_children(struct compiler *c, struct td_schema *s, yyjson_val *v, bool logical, int depth)
{
	yyjson_val *props = td_jkey(v, "properties"), *add = td_jkey(v, "additionalProperties"),
		   *items = td_jkey(v, "items");
	size_t i, max, len = c->path.len;
	yyjson_val *k, *x;
	bool meta = c->meta && !depth;

	if (!logical && (meta || yyjson_obj_size(props)) && (yyjson_is_obj(add) || yyjson_is_true(add)))
		return forbid(c, "additionalProperties: Forbidden: must not be used together with properties");
	if (!logical && yyjson_is_false(add))
		return forbid(c, "additionalProperties: Forbidden: must not be false");
	if (!logical && (props || add) && s->type != TD_S_OBJECT)
		return fail(c, "type: must be object when properties or additionalProperties are given") != NULL;
	if (meta && !logical && c->tree != &builtin && !meta_words_ok(c, props))
		return false;

	size_t n = yyjson_obj_size(props) + (meta ? TD_LEN(meta_words) : 0);
	if (n) {
		s->props = td_arena_alloc(c->tree->arena, n * sizeof(*s->props));
		for (i = 0; meta && i < TD_LEN(meta_words); i++)
			s->props[s->n_props++] = (struct td_prop){meta_words[i][0], shared(c, meta_words[i][1])};
		yyjson_obj_foreach (props, i, max, k, x) {
			if (meta && is_meta(td_keystr(k)))
				continue;
			td_buf_printf(&c->path, "%sproperties[%s]", len ? "." : "", td_keystr(k));
			struct td_prop *p = &s->props[s->n_props++];
			*p = (struct td_prop){td_keystr(k), compile(c, x, logical, depth + 1)};
			if (!p->s)
				return false;
			s->has_default = s->has_default || p->s->has_default;
			td_path_cut(&c->path, len);
		}
		qsort(s->props, s->n_props, sizeof(*s->props), td_schema_cmp_prop);
	}

	if (yyjson_is_obj(add)) {
		td_buf_puts(&c->path, len ? ".additionalProperties" : "additionalProperties");
		s->additional = compile(c, add, logical, depth + 1);
		if (!s->additional)
			return false;
		s->has_default = s->has_default || s->additional->has_default;
		td_path_cut(&c->path, len);
	} else if (yyjson_is_true(add)) {
		s->preserve = true;
	}

	if (!logical && s->type == TD_S_ARRAY && !yyjson_is_obj(items))
		return fail(c, "items: Required value: must be specified for an array") != NULL;

	if (yyjson_is_obj(items)) {
		td_buf_puts(&c->path, len ? ".items" : "items");
		s->items = compile(c, items, logical, depth + 1);
		if (!s->items)
			return false;
		s->has_default = s->has_default || s->items->has_default;
		td_path_cut(&c->path, len);
	}
	return true;
}

static struct td_schema *compile(struct compiler *c, yyjson_val *v, bool logical, int depth)
{
	if (depth > SCHEMA_DEPTH)
		return fail(c, "nested too deep");
	if (!yyjson_is_obj(v))
		return fail(c, "must be a schema object");

	const char *ref = c->tree == &builtin ? td_jkey_str(v, "$ref") : NULL;
	if (ref && yyjson_obj_size(v) == (td_jkey(v, "description") ? 2 : 1))
		return shared(c, ref);
	if (ref)
		v = td_shared_flat(v);

	struct td_schema *s =
		depth || c->tree == &builtin ? td_arena_alloc(c->tree->arena, sizeof(*s)) : &c->tree->root;
	s->def = td_jkey(v, "default");
	if (c->tree != &builtin && yyjson_is_null(s->def)) // means nothing there
		s->def = NULL;

	const char *format = td_jkey_str(v, "format");
	s->is_time = c->tree == &builtin && (td_streq(format, "date-time") || td_streq(format, "micro-time"));
	s->has_default = s->def != NULL || td_streq(format, "quantity") || s->is_time;

	bool ok = compile_type(c, s, v, logical) && compile_children(c, s, v, logical, depth) &&
		  compile_lists(c, s, v) && compile_values(c, s, v, depth);
	return ok ? s : NULL;
}

static int compile_root(struct compiler *c, const yyjson_val *schema, struct td_schema **ret, struct td_error *err)
{
	struct td_error local = TD_ERROR_INIT;
	c->err = &local;
	struct td_schema *s = compile(c, td_unconst(schema), false, 0);
	td_buf_done(&c->path);
	if (s) {
		*ret = s;
		return 0;
	}
	if (err)
		*err = local;
	return TD_INVALID;
}

static struct tree *tree_new(struct td_json *src)
{
	struct tree *t = td_calloc(1, sizeof(*t));
	t->arena = td_arena_new();
	t->doc = td_json_ref(src);
	return t;
}

int td_schema_compile(struct td_json *src, const yyjson_val *schema, struct td_schema **ret, struct td_error *err)
{
	struct compiler c = {.tree = tree_new(src)};
	int r = compile_root(&c, schema, ret, err);
	if (r)
		td_schema_free(&c.tree->root);
	return r;
}

int td_schema_compile_kind(struct td_json *src, const yyjson_val *raw, bool in_common, struct td_schema **ret,
			   struct td_causes *ret_problem, struct td_error *err)
{
	struct compiler c = {.tree = in_common ? &builtin : tree_new(src), .meta = true, .problem = ret_problem};
	pthread_mutex_lock(&shared_lock);
	if (!builtin.arena)
		builtin.arena = td_arena_new();
	int r = compile_root(&c, raw, ret, err);
	pthread_mutex_unlock(&shared_lock);
	if (r && !in_common)
		td_schema_free(&c.tree->root);
	return r;
}

struct td_schema *td_schema_free(struct td_schema *s)
{
	struct tree *t = (struct tree *)s;
	if (!s)
		return NULL;
	for (struct td_pattern *p = t->patterns; p; p = p->next)
		td_pattern_done(p);
	td_json_unref(t->doc);
	td_arena_free(t->arena);
	free(t);
	return NULL;
}
