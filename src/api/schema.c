// Compiling structural schemas (Kubernetes API reference, "Specifying a structural schema"), defaulting and pruning.
#include "api/schema_priv.h"

#include <stdio.h>
#include <string.h>

#include "api/quantity_priv.h"

enum { SCHEMA_DEPTH = 64 };

struct compiler {
	struct td_schema *root;
	struct td_buf path;
	struct td_error *err;
};

static struct td_schema *compile(struct compiler *c, yyjson_val *v, bool logical, int depth);

static void *fail(struct compiler *c, const char *what)
{
	td_fail(c->err, TD_INVALID, "%s: %s", c->path.len ? td_buf_str(&c->path) : "schema", what);
	return NULL;
}

static int cmp_prop(const void *a, const void *b)
{
	return strcmp(((const struct td_prop *)a)->name, ((const struct td_prop *)b)->name);
}

const struct td_schema *td_schema_declared(const struct td_schema *s, const char *key)
{
	struct td_prop want = {key, NULL}, *p = NULL;
	if (s && s->n_props)
		p = bsearch(&want, s->props, s->n_props, sizeof(want), cmp_prop);
	return p ? p->s : NULL;
}

const struct td_schema *td_schema_prop(const struct td_schema *s, const char *key)
{
	const struct td_schema *p = td_schema_declared(s, key);
	return p || !s ? p : s->additional;
}

static const char **strings(struct compiler *c, yyjson_val *a, size_t *ret_n)
{
	const char **v = td_arena_alloc(c->root->arena, (yyjson_arr_size(a) + 1) * sizeof(*v));
	size_t i, max, n = 0;
	yyjson_val *x;
	yyjson_arr_foreach (a, i, max, x) {
		if (yyjson_is_str(x))
			v[n++] = yyjson_get_str(x);
	}
	*ret_n = n;
	return v;
}

// RE2 syntax that POSIX lacks: \d \w \s and their complements, (?: groups. What cannot be said makes regcomp fail or is refused here.
static char *translate(const char *re)
{
	static const char *const cls[] = {"d", "0-9", "w", "0-9A-Za-z_", "s", " \t\n\r\f\v"};
	td_auto_buf struct td_buf b = {0};
	bool set = false;
	for (const char *p = re; *p; p++) {
		if (*p == '\\' && p[1]) {
			p++;
			bool done = false;
			for (size_t k = 0; k < TD_LEN(cls) && !done; k += 2) {
				bool neg = *p == cls[k][0] - 32;
				if (*p != cls[k][0] && !neg)
					continue;
				if (set && neg)
					return NULL;
				td_buf_printf(&b, set ? "%s%s" : "[%s%s]", neg ? "^" : "", cls[k + 1]);
				done = true;
			}
			if (done)
				continue;
			if (strchr("bBAzZQEpP", *p))
				return NULL;
			static const char ctl[] = "n\nt\tr\rf\fv\v";
			const char *q = strchr(ctl, *p);
			if (*p >= 'a' && q && (q - ctl) % 2 == 0)
				td_buf_putc(&b, q[1]);
			else if (set) // POSIX sets know no escapes; '-' and ']' have a place instead
				*p == ']' || *p == '^' ? (void)(td_buf_puts(&b, *p == ']' ? "[.].]" : "[.^.]"))
				: *p == '-'            ? (void)td_buf_puts(&b, "[.-.]")
						       : td_buf_putc(&b, *p);
			else
				td_buf_printf(&b, "\\%c", *p);
			continue;
		}
		if (!set && p[0] == '(' && p[1] == '?') {
			if (p[2] != ':')
				return NULL;
			td_buf_putc(&b, '(');
			p += 2;
			continue;
		}
		if (!set && strchr("*+?}", *p) && p[1] == '?') { // lazy: the same language
			td_buf_putc(&b, *p++);
			continue;
		}
		if (*p == '[' && !set) {
			set = true;
			td_buf_putc(&b, '[');
			if (p[1] == '^')
				td_buf_putc(&b, *++p);
			if (p[1] == ']')
				td_buf_putc(&b, *++p);
			continue;
		}
		if (*p == ']')
			set = false;
		td_buf_putc(&b, *p);
	}
	return td_buf_take(&b);
}

static bool compile_pattern(struct compiler *c, struct td_schema *s)
{
	td_auto_free char *re = translate(s->pattern);
	struct td_regex *r = td_calloc(1, sizeof(*r));
	if (strlen(s->pattern) > 4096 || !re || regcomp(&r->re, re, REG_EXTENDED | REG_NOSUB)) {
		free(r);
		fail(c, "pattern: not a regular expression that can be checked here");
		return false;
	}
	r->next = c->root->regexes;
	c->root->regexes = r;
	s->re = &r->re;
	return true;
}

static bool number(yyjson_val *v, const char *key, double *ret)
{
	yyjson_val *x = td_jkey(v, key);
	if (!yyjson_is_num(x))
		return false;
	*ret = yyjson_get_num(x);
	return true;
}

static struct td_schema **logical_list(struct compiler *c, yyjson_val *v, const char *key, size_t *ret_n, int depth, bool *ok)
{
	yyjson_val *a = td_jkey(v, key), *x;
	if (!yyjson_arr_size(a))
		return NULL;
	struct td_schema **l = td_arena_alloc(c->root->arena, yyjson_arr_size(a) * sizeof(*l));
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

static bool compile_values(struct compiler *c, struct td_schema *s, yyjson_val *v, int depth)
{
	s->min_len = td_jint(v, "minLength", -1);
	s->max_len = td_jint(v, "maxLength", -1);
	s->min_items = td_jint(v, "minItems", -1);
	s->max_items = td_jint(v, "maxItems", -1);
	s->min_props = td_jint(v, "minProperties", -1);
	s->max_props = td_jint(v, "maxProperties", -1);
	s->has_min = number(v, "minimum", &s->min);
	s->has_max = number(v, "maximum", &s->max);
	s->has_multiple = number(v, "multipleOf", &s->multiple) && s->multiple > 0;
	s->ex_min = td_jbool(v, "exclusiveMinimum", false);
	s->ex_max = td_jbool(v, "exclusiveMaximum", false);
	s->required = strings(c, td_jkey(v, "required"), &s->n_required);
	s->enums = td_jkey(v, "enum");
	s->format = td_jkey_str(v, "format");
	s->quantity = s->format && !strcmp(s->format, "quantity");
	s->pattern = td_jkey_str(v, "pattern");
	if (s->pattern && !compile_pattern(c, s))
		return false;
	bool ok = true;
	s->all_of = logical_list(c, v, "allOf", &s->n_all, depth, &ok);
	s->any_of = ok ? logical_list(c, v, "anyOf", &s->n_any, depth, &ok) : NULL;
	s->one_of = ok ? logical_list(c, v, "oneOf", &s->n_one, depth, &ok) : NULL;
	if (!ok)
		return false;
	if (td_jkey(v, "not")) {
		size_t len = c->path.len;
		td_buf_puts(&c->path, len ? ".not" : "not");
		s->not_ = compile(c, td_jkey(v, "not"), true, depth + 1);
		td_path_cut(&c->path, len);
		return s->not_ != NULL;
	}
	return true;
}

static bool compile_type(struct compiler *c, struct td_schema *s, yyjson_val *v, bool logical)
{
	static const char *const names[] = {"", "object", "array", "string", "integer", "number", "boolean"};
	const char *t = td_jkey_str(v, "type");
	s->nullable = td_jbool(v, "nullable", false);
	s->int_or_string = td_jbool(v, "x-kubernetes-int-or-string", false);
	s->preserve = td_jbool(v, "x-kubernetes-preserve-unknown-fields", false);
	s->embedded = td_jbool(v, "x-kubernetes-embedded-resource", false);
	s->allow_dup = td_jkey(v, "x-tandem-duplicates") != NULL;
	for (int i = 1; t && i < (int)TD_LEN(names); i++)
		if (!strcmp(t, names[i]))
			s->type = (enum td_stype)i;
	if (t && *t && s->type == TD_S_ANY)
		return fail(c, "type: write object, array, string, integer, number or boolean") != NULL;
	if (!logical && s->type == TD_S_ANY && !s->int_or_string && !s->preserve)
		return fail(c, "type: Required value: must not be empty for specified object fields") != NULL;
	if (s->int_or_string && s->type != TD_S_ANY)
		return fail(c, "type: must be empty if x-kubernetes-int-or-string is true") != NULL;
	if (s->embedded && s->type != TD_S_OBJECT)
		return fail(c, "type: must be object if x-kubernetes-embedded-resource is true") != NULL;
	static const char *const forbidden[] = {"$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id"};
	for (size_t i = 0; i < TD_LEN(forbidden); i++)
		if (td_jkey(v, forbidden[i])) {
			td_fail(c->err, TD_INVALID, "%s.%s: Forbidden: %s is not supported", td_buf_str(&c->path), forbidden[i],
				forbidden[i]);
			return false;
		}
	if (td_jbool(v, "uniqueItems", false))
		return fail(c, "uniqueItems: Forbidden: write x-kubernetes-list-type: set") != NULL;
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
		return s->n_keys ? fail(c, "x-kubernetes-list-map-keys: only with x-kubernetes-list-type: map") != NULL : true;
	if (!s->n_keys)
		return fail(c, "x-kubernetes-list-map-keys: Required value with x-kubernetes-list-type: map") != NULL;
	for (size_t i = 0; i < s->n_keys; i++) {
		const struct td_schema *k = td_schema_declared(s->items, s->keys[i]);
		bool required = false;
		for (size_t r = 0; s->items && r < s->items->n_required; r++)
			required = required || !strcmp(s->items->required[r], s->keys[i]);
		if (!k || k->type == TD_S_OBJECT || k->type == TD_S_ARRAY || (!required && !k->def && !s->allow_dup)) {
			td_fail(c->err, TD_INVALID,
				"%s: x-kubernetes-list-map-keys: %s must be a scalar property of items, required or with a default",
				td_buf_str(&c->path), s->keys[i]);
			return false;
		}
	}
	return true;
}

static bool compile_children(struct compiler *c, struct td_schema *s, yyjson_val *v, bool logical, int depth)
{
	yyjson_val *props = td_jkey(v, "properties"), *add = td_jkey(v, "additionalProperties"), *items = td_jkey(v, "items");
	size_t i, max, len = c->path.len;
	yyjson_val *k, *x;
	if (!logical && yyjson_obj_size(props) && (yyjson_is_obj(add) || yyjson_is_true(add)))
		return fail(c, "additionalProperties: Forbidden: must not be used together with properties") != NULL;
	if (!logical && yyjson_is_false(add))
		return fail(c, "additionalProperties: Forbidden: must not be false") != NULL;
	if (!logical && (props || add) && s->type != TD_S_OBJECT)
		return fail(c, "type: must be object when properties or additionalProperties are given") != NULL;
	if (yyjson_is_obj(props) && yyjson_obj_size(props)) {
		s->props = td_arena_alloc(c->root->arena, yyjson_obj_size(props) * sizeof(*s->props));
		yyjson_obj_foreach (props, i, max, k, x) {
			td_buf_printf(&c->path, "%sproperties[%s]", len ? "." : "", td_keystr(k));
			s->props[i] = (struct td_prop){td_keystr(k), compile(c, x, logical, depth + 1)};
			if (!s->props[i].s)
				return false;
			s->has_default = s->has_default || s->props[i].s->has_default;
			td_path_cut(&c->path, len);
		}
		s->n_props = yyjson_obj_size(props);
		qsort(s->props, s->n_props, sizeof(*s->props), cmp_prop);
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
	struct td_schema *s = depth ? td_arena_alloc(c->root->arena, sizeof(*s)) : c->root;
	s->def = td_jkey(v, "default");
	s->has_default = s->def != NULL || td_streq(td_jkey_str(v, "format"), "quantity");
	bool ok = compile_type(c, s, v, logical) && compile_children(c, s, v, logical, depth) && compile_lists(c, s, v) &&
		  compile_values(c, s, v, depth);
	return ok ? s : NULL;
}

int td_schema_compile(struct td_json *src, const yyjson_val *schema, struct td_schema **ret, struct td_error *err)
{
	struct td_error local = TD_ERROR_INIT;
	td_auto(td_schema_free) struct td_schema *root = td_calloc(1, sizeof(*root));
	root->arena = td_arena_new();
	root->doc = td_json_ref(src);
	struct compiler c = {.root = root, .err = &local};
	struct td_schema *s = compile(&c, td_unconst(schema), false, 0);
	td_buf_done(&c.path);
	if (!s) {
		if (err)
			*err = local;
		return TD_INVALID;
	}
	*ret = td_steal(root);
	return 0;
}

struct td_schema *td_schema_free(struct td_schema *s)
{
	if (!s)
		return NULL;
	while (s->regexes) {
		struct td_regex *r = s->regexes;
		s->regexes = r->next;
		regfree(&r->re);
		free(r);
	}
	td_json_unref(s->doc);
	td_arena_free(s->arena);
	free(s);
	return NULL;
}

void td_path_key(struct td_buf *b, const char *key)
{
	bool plain = *key;
	for (const char *p = key; *p; p++)
		plain = plain && ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_' ||
				  *p == '$' || *p == '-');
	if (!plain)
		td_buf_printf(b, "[%s]", key);
	else
		td_buf_printf(b, "%s%s", b->len ? "." : "", key);
}

// ---- default ----

static void canonical_quantity(yyjson_mut_doc *d, yyjson_mut_val *v)
{
	char buf[TD_QUANTITY_LEN];
	td_auto_free char *text = NULL;
	const char *s = yyjson_mut_get_str(v);
	if (!s && yyjson_mut_is_num(v))
		s = text = td_json_mut_text(v, NULL);
	if (s && !td_quantity_canonical(s, buf, NULL) && (text || strcmp(s, buf)))
		yyjson_mut_set_str(v, yyjson_mut_get_str(yyjson_mut_strcpy(d, buf)));
}

static void set_default(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *v, bool fill)
{
	if (!s->has_default)
		return;
	if (s->quantity)
		canonical_quantity(d, v);
	size_t i, max;
	yyjson_mut_val *k, *x;
	if (yyjson_mut_is_obj(v)) {
		for (size_t p = 0; p < s->n_props; p++) {
			const struct td_schema *c = s->props[p].s;
			if (!c->has_default)
				continue;
			x = yyjson_mut_obj_get(v, s->props[p].name);
			if (fill && c->def && (!x || (yyjson_mut_is_null(x) && !c->nullable))) {
				x = yyjson_val_mut_copy(d, c->def);
				td_jm_key_set(d, v, s->props[p].name, x);
			}
			if (x)
				set_default(c, d, x, fill);
		}
		if (s->additional && s->additional->has_default)
			yyjson_mut_obj_foreach (v, i, max, k, x) {
				if (!td_schema_declared(s, yyjson_mut_get_str(k)))
					set_default(s->additional, d, x, fill);
			}
	} else if (yyjson_mut_is_arr(v) && s->items && s->items->has_default) {
		yyjson_mut_arr_foreach (v, i, max, x)
			set_default(s->items, d, x, fill);
	}
}

void td_schema_default(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	set_default(s, d, obj, true);
}

void td_schema_canonical(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	set_default(s, d, obj, false);
}

// ---- prune ----

static void prune(const struct td_schema *s, yyjson_mut_val *v, struct td_buf *path, struct td_strv *ret)
{
	size_t len = path->len;
	if (yyjson_mut_is_arr(v)) {
		size_t i, max;
		yyjson_mut_val *x;
		if (!s->items)
			return;
		yyjson_mut_arr_foreach (v, i, max, x) {
			if (!yyjson_mut_is_ctn(x))
				continue;
			if (ret)
				td_buf_printf(path, "[%zu]", i);
			prune(s->items, x, path, ret);
			td_path_cut(path, len);
		}
		return;
	}
	if (!yyjson_mut_is_obj(v))
		return;
	if (!s->n_props && !s->additional && s->preserve)
		return;
	yyjson_mut_obj_iter it;
	yyjson_mut_obj_iter_init(v, &it);
	for (yyjson_mut_val *k; (k = yyjson_mut_obj_iter_next(&it));) {
		const char *key = yyjson_mut_get_str(k);
		yyjson_mut_val *x = yyjson_mut_obj_iter_get_val(k);
		const struct td_schema *c = td_schema_prop(s, key);
		bool unknown = !c && !s->preserve;
		if (ret && (unknown || yyjson_mut_is_ctn(x)))
			td_path_key(path, key);
		if (unknown && ret)
			td_strv_add(ret, td_buf_str(path));
		// A null where none is allowed means "not given", as it does to Kubernetes' own types.
		if (unknown || (c && !c->nullable && yyjson_mut_is_null(x) && (c->type != TD_S_ANY || c->int_or_string)))
			yyjson_mut_obj_iter_remove(&it);
		else if (c && yyjson_mut_is_ctn(x))
			prune(c, x, path, ret);
		td_path_cut(path, len);
	}
}

void td_schema_prune(const struct td_schema *s, yyjson_mut_val *obj, struct td_strv *ret_unknown)
{
	td_auto_buf struct td_buf path = {0};
	prune(s, obj, &path, ret_unknown);
}
