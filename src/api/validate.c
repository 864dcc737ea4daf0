// Validates a value against a compiled schema. Messages follow the field errors of Kubernetes, so
// that tools that read them work.
#include "api/names.h"
#include "api/schema_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/kinds.h"
#include "api/quantity_priv.h"
#include "base/clock.h"

enum { CAUSES_MAX = 64 };

struct check {
	struct td_buf path;
	struct td_causes *out; // NULL: only whether the value is valid
	size_t n;
};

static void validate(struct check *c, const struct td_schema *s, yyjson_val *v);

// The value as messages show it, at most 160 bytes. The caller frees it.
static char *shown(const yyjson_val *v)
{
	char *t = td_json_text(v, NULL);
	if (t && strlen(t) > 160)
		memcpy(t + 156, "...", 4);
	return t;
}

#define ADD(c, reason, ...)                                                                                            \
	do {                                                                                                           \
		(c)->n++;                                                                                              \
		if ((c)->out && (c)->n <= CAUSES_MAX)                                                                  \
			td_cause_add((c)->out, reason, td_buf_str(&(c)->path), __VA_ARGS__);                           \
	} while (0)

static void invalid(struct check *c, yyjson_val *v, const char *why)
{
	td_auto_free char *t = c->out ? shown(v) : NULL;
	ADD(c, "FieldValueInvalid", "Invalid value: %s: %s", t, why);
}

// As invalid(), for text that a typed decoder could not read.
static void undecodable(struct check *c, yyjson_val *v, const char *why)
{
	size_t had = c->out ? c->out->n : 0;
	invalid(c, v, why);
	if (c->out && c->out->n > had)
		c->out->v[had].kind = TD_CAUSE_UNDECODABLE;
}

static const char *type_name(yyjson_val *v)
{
	switch (yyjson_get_type(v)) {
	case YYJSON_TYPE_OBJ:
		return "object";
	case YYJSON_TYPE_ARR:
		return "array";
	case YYJSON_TYPE_STR:
		return "string";
	case YYJSON_TYPE_BOOL:
		return "boolean";
	case YYJSON_TYPE_NUM:
		return yyjson_is_int(v) ? "integer" : "number";
	default:
		return "null";
	}
}

static bool integral(yyjson_val *v)
{
	return yyjson_is_int(v) || (yyjson_is_real(v) && yyjson_get_real(v) == floor(yyjson_get_real(v)) &&
				    fabs(yyjson_get_real(v)) < 9e15);
}

static bool type_ok(const struct td_schema *s, yyjson_val *v)
{
	if (s->int_or_string)
		return yyjson_is_str(v) || (s->quantity ? yyjson_is_num(v) : integral(v));

	switch (s->type) {
	case TD_S_ANY:
		return true;
	case TD_S_OBJECT:
		return yyjson_is_obj(v);
	case TD_S_ARRAY:
		return yyjson_is_arr(v);
	case TD_S_STRING:
		return yyjson_is_str(v);
	case TD_S_INTEGER:
		return integral(v);
	case TD_S_NUMBER:
		return yyjson_is_num(v);
	case TD_S_BOOLEAN:
		return yyjson_is_bool(v);
	}
	return false;
}

static long long utf8_len(const char *s)
{
	long long n = 0;
	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static bool base64_ok(const char *s)
{
	size_t n = strlen(s), body = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
	return n % 4 == 0 && n - body <= 2 && strspn(s + body, "=") == n - body;
}

bool td_is_duration(const char *s)
{
	bool any = false;
	if (!strcmp(s, "0"))
		return true;
	for (s += *s == '-' || *s == '+'; *s; any = true) {
		size_t n = strspn(s, "0123456789.");
		if (!n)
			return false;
		s += n;
		static const char *const units[] = {"ns", "us", "\xc2\xb5s", "ms", "s", "m", "h"};
		size_t u = 0;
		while (u < TD_LEN(units) &&
		       !(td_starts(s, units[u]) && strcspn(s, "0123456789.-+") == strlen(units[u])))
			u++;
		if (u == TD_LEN(units))
			return false;
		s += strlen(units[u]);
	}
	return any;
}

static bool micro_ok(const char *s)
{
	int64_t ms;
	const char *dot = strchr(s, '.');
	return td_time_parse(s, &ms) == 0 && dot && strspn(dot + 1, "0123456789") == 6 && strchr(s, 'T') &&
	       !strchr(s, 'z') && strncmp(dot - 2, "60", 2) != 0;
}

static void check_format(struct check *c, const struct td_schema *s, yyjson_val *v)
{
	const char *t = yyjson_get_str(v), *f = s->format;
	int64_t ms;
	if (s->quantity) {
		td_auto_free char *num = t ? NULL : td_json_text(v, NULL);
		struct td_error err = TD_ERROR_INIT;
		char buf[TD_QUANTITY_LEN];
		if (td_quantity_canonical(t ? t : num, buf, &err))
			undecodable(c, v, err.msg);
		return;
	}

	if (!strcmp(f, "int32") && yyjson_is_num(v) && fabs(yyjson_get_num(v)) > 2147483648.0)
		undecodable(c, v, "must fit into 32 bits");
	if (!t)
		return;

	if (!strcmp(f, "date-time") && td_time_parse(t, &ms))
		undecodable(c, v, "must be an RFC 3339 time such as 2026-01-31T12:00:00Z");
	else if (!strcmp(f, "micro-time") && !micro_ok(t))
		undecodable(c, v, "must be an RFC 3339 time with microseconds such as 2026-01-31T12:00:00.000000Z");
	else if (!strcmp(f, "byte") && !base64_ok(t))
		undecodable(c, v, "must be base64");
	else if (!strcmp(f, "duration") && !td_is_duration(t))
		invalid(c, v, "must be a duration such as 30s, 5m or 1h30m");
	else if (!strcmp(f, "dns-label") || !strcmp(f, "dns-subdomain")) {
		td_auto_strv struct td_strv l = {0};
		td_name_faults(!strcmp(f, "dns-label") ? TD_N_LABEL : TD_N_SUBDOMAIN, t, &l);
		for (size_t i = 0; i < l.n; i++)
			invalid(c, v, l.v[i]);
	}
}

static void check_scalar(struct check *c, const struct td_schema *s, yyjson_val *v)
{
	const struct td_limits *l = s->limits;
	char why[256];

	if (s->enums) {
		size_t i, max;
		yyjson_val *x;
		td_auto_buf struct td_buf b = {0};
		bool found = false;
		yyjson_arr_foreach (s->enums, i, max, x) {
			found = found || td_jequal(x, v);
			td_auto_free char *t = c->out && !found ? td_json_text(x, NULL) : NULL;
			td_buf_printf(&b, "%s%s", i ? ", " : "", t ? t : "");
		}
		if (!found) {
			td_auto_free char *t = c->out ? shown(v) : NULL;
			ADD(c, "FieldValueNotSupported", "Unsupported value: %s: supported values: %s", t,
			    td_buf_str(&b));
		}
	}

	if (l && yyjson_is_num(v)) {
		double n = yyjson_get_num(v);
		if (l->has_min && (l->ex_min ? n <= l->min : n < l->min)) {
			snprintf(why, sizeof(why), "must be greater than %s%.17g", l->ex_min ? "" : "or equal to ",
				 l->min);
			invalid(c, v, why);
		}
		if (l->has_max && (l->ex_max ? n >= l->max : n > l->max)) {
			snprintf(why, sizeof(why), "must be less than %s%.17g", l->ex_max ? "" : "or equal to ",
				 l->max);
			invalid(c, v, why);
		}
		if (l->has_multiple && fabs(n / l->multiple - round(n / l->multiple)) > 1e-9) {
			snprintf(why, sizeof(why), "must be a multiple of %.17g", l->multiple);
			invalid(c, v, why);
		}
	}

	if (l && yyjson_is_str(v)) {
		const char *t = yyjson_get_str(v);
		long long n = l->min_len >= 0 || l->max_len >= 0 ? utf8_len(t) : 0;
		if (l->min_len >= 0 && n < l->min_len) {
			if (!n && l->min_len == 1)
				ADD(c, "FieldValueRequired", "Required value");
			else {
				snprintf(why, sizeof(why), "must be at least %lld characters long", l->min_len);
				invalid(c, v, why);
			}
		}
		if (l->max_len >= 0 && n > l->max_len)
			ADD(c, "FieldValueTooLong", "Too long: may not be more than %lld characters", l->max_len);
		if (l->pattern && !td_pattern_matches(l->pattern, t, yyjson_get_len(v))) {
			snprintf(why, sizeof(why), "must match '%.200s'", l->pattern->text);
			invalid(c, v, why);
		}
	}

	if (s->format)
		check_format(c, s, v);
}

static void check_object(struct check *c, const struct td_schema *s, yyjson_val *v)
{
	size_t i, max, len = c->path.len;
	yyjson_val *k, *x;
	char why[128];

	for (i = 0; i < s->n_required; i++) {
		if (td_jkey(v, s->required[i]))
			continue;
		td_api_path_key(&c->path, s->required[i]);
		ADD(c, "FieldValueRequired", "Required value");
		td_path_cut(&c->path, len);
	}

	const struct td_limits *l = s->limits;
	long long n = (long long)yyjson_obj_size(v);
	if (l && l->min_props >= 0 && n < l->min_props) {
		snprintf(why, sizeof(why), "must have at least %lld entries", l->min_props);
		invalid(c, v, why);
	}
	if (l && l->max_props >= 0 && n > l->max_props)
		ADD(c, "FieldValueTooMany", "Too many: %lld: must have at most %lld entries", n, l->max_props);

	if (!s->n_props && !s->additional)
		return;
	yyjson_obj_foreach (v, i, max, k, x) {
		const char *key = td_keystr(k);
		const struct td_schema *p = td_schema_declared(s, key);
		if (!p && s->additional)
			td_buf_printf(&c->path, "[%s]", key);
		else
			td_api_path_key(&c->path, key);
		p = p ? p : s->additional;
		if (p)
			validate(c, p, x);
		td_path_cut(&c->path, len);
	}
}

const yyjson_val *td_api_item_key(const struct td_schema *list, const yyjson_val *item, const char *key)
{
	const yyjson_val *v = td_jkey(item, key);
	const struct td_schema *k = td_schema_declared(list->items, key);
	return v ? v : k ? k->def : NULL;
}

static bool same_item(const struct td_schema *s, yyjson_val *a, yyjson_val *b)
{
	if (s->list_type == TD_L_SET)
		return td_jequal(a, b);
	for (size_t i = 0; i < s->n_keys; i++)
		if (!td_jequal(td_api_item_key(s, a, s->keys[i]), td_api_item_key(s, b, s->keys[i])))
			return false;
	return true;
}

static void check_array(struct check *c, const struct td_schema *s, yyjson_val *v)
{
	size_t i, max, len = c->path.len;
	yyjson_val *x;
	char why[128];
	const struct td_limits *l = s->limits;
	long long n = (long long)yyjson_arr_size(v);

	if (l && l->min_items >= 0 && n < l->min_items) {
		if (!n)
			ADD(c, "FieldValueRequired", "Required value");
		else {
			snprintf(why, sizeof(why), "must have at least %lld items", l->min_items);
			invalid(c, v, why);
		}
	}
	if (l && l->max_items >= 0 && n > l->max_items)
		ADD(c, "FieldValueTooMany", "Too many: %lld: must have at most %lld items", n, l->max_items);

	bool unique = s->list_type != TD_L_ATOMIC && !s->allow_dup;
	yyjson_arr_foreach (v, i, max, x) {
		td_buf_printf(&c->path, "[%zu]", i);
		if (s->items)
			validate(c, s->items, x);
		// A plain walk to an equal earlier item. The bound keeps hostile lists cheap.
		yyjson_val *y = unique ? yyjson_arr_get_first(v) : NULL;
		for (size_t j = 0; y && j < i && j < 4096; j++, y = unsafe_yyjson_get_next(y)) {
			if (!same_item(s, x, y))
				continue;
			const yyjson_val *show =
				s->list_type == TD_L_MAP && s->n_keys == 1 ? td_api_item_key(s, x, s->keys[0]) : x;
			// Two items without the key are equal too.
			td_auto_free char *t = !c->out ? NULL : show ? shown(show) : td_strdup("\"\"");
			size_t here = c->path.len;
			if (s->list_type == TD_L_MAP && s->n_keys == 1)
				td_api_path_key(&c->path, s->keys[0]);
			ADD(c, "FieldValueDuplicate", "Duplicate value: %s", t);
			td_path_cut(&c->path, here);
			break;
		}
		td_path_cut(&c->path, len);
		if (c->n > CAUSES_MAX)
			return;
	}
}

static bool valid(const struct td_schema *s, yyjson_val *v)
{
	struct check c = {0};
	validate(&c, s, v);
	td_buf_done(&c.path);
	return !c.n;
}

static void check_logic(struct check *c, const struct td_logic *l, yyjson_val *v)
{
	for (size_t i = 0; i < l->n_all; i++)
		validate(c, l->all_of[i], v);
	size_t hits = 0;
	for (size_t i = 0; i < l->n_any; i++)
		hits += valid(l->any_of[i], v);
	if (l->n_any && !hits)
		invalid(c, v, "must validate at least one schema (anyOf)");

	hits = 0;
	for (size_t i = 0; i < l->n_one; i++)
		hits += valid(l->one_of[i], v);
	if (l->n_one && hits != 1)
		invalid(c, v,
			hits ? "must validate one and only one schema (oneOf), found more than one"
			     : "must validate one and only one schema (oneOf), found none");

	if (l->not_ && valid(l->not_, v))
		invalid(c, v, "must not validate the schema (not)");
}

static void validate(struct check *c, const struct td_schema *s, yyjson_val *v)
{
	if (c->n > CAUSES_MAX || (!c->out && c->n))
		return;
	if (yyjson_is_null(v) && s->nullable)
		return;
	if (!type_ok(s, v)) {
		static const char *const names[] = {"integer or string", "object", "array",  "string",
						    "integer",           "number", "boolean"};
		td_auto_free char *t = c->out ? shown(v) : NULL;
		ADD(c, "FieldValueTypeInvalid", "Invalid value: %s: must be of type %s, not %s", t, names[s->type],
		    type_name(v));
		return;
	}

	if (yyjson_is_obj(v)) {
		check_object(c, s, v);
		if (s->enums)
			check_scalar(c, s, v);
	} else if (yyjson_is_arr(v)) {
		check_array(c, s, v);
	} else {
		check_scalar(c, s, v);
	}

	if (s->logic)
		check_logic(c, s->logic, v);
}

size_t td_schema_validate(const struct td_schema *s, const yyjson_val *obj, struct td_causes *ret)
{
	struct check c = {.out = ret};
	if (obj)
		validate(&c, s, td_unconst(obj));
	td_buf_done(&c.path);
	return c.n < CAUSES_MAX ? c.n : CAUSES_MAX;
}
