// JSONPath (jsonpath.h). Recursive descent over the path; an unreadable path selects nothing.
#include "apiserver/jsonpath.h"

#include <string.h>

struct jsonpath_out {
	yyjson_val *first;
	struct td_buf *text;
	size_t n;
};

static void found(struct jsonpath_out *o, yyjson_val *v)
{
	if (!v || yyjson_is_null(v))
		return;
	if (!o->first)
		o->first = v;
	if (o->n++)
		td_buf_putc(o->text, ',');
	if (yyjson_is_str(v)) {
		td_buf_puts(o->text, yyjson_get_str(v));
	} else {
		td_auto_free char *s = td_json_text(v, NULL);
		td_buf_puts(o->text, s);
	}
}

static void walk(yyjson_val *v, const char *p, int depth, struct jsonpath_out *o);

// Applies [?(@.type=="Ready")]: == or != with a quoted string, a number or true/false.
static void filter(yyjson_val *v, const char *expr, const char *rest, int depth, struct jsonpath_out *o)
{
	const char *op = strstr(expr, "==");
	bool equal = op != NULL;

	if (!op)
		op = strstr(expr, "!=");

	const char *end = rest;
	while (end > expr && (end[-1] == ']' || end[-1] == ')' || end[-1] == ' '))
		end--;
	if (!op || op >= end || expr[0] != '@')
		return;

	const char *key_end = op;
	while (key_end > expr && key_end[-1] == ' ')
		key_end--;
	td_auto_free char *key = td_strndup(expr + 1, (size_t)(key_end - expr - 1));

	const char *val = op + 2;
	while (*val == ' ')
		val++;
	if (end > val + 1 && (*val == '"' || *val == '\'')) {
		val++;
		end--;
	}
	td_auto_free char *want = td_strndup(val, (size_t)(end - val));

	yyjson_val *e;
	size_t i, n;
	yyjson_arr_foreach (v, i, n, e) {
		td_auto_buf struct td_buf text = {0};
		struct jsonpath_out sub = {.text = &text};
		walk(e, key, depth + 1, &sub);
		if ((sub.first && !strcmp(td_buf_str(&text), want)) == equal)
			walk(e, rest, depth + 1, o);
	}
}

static void bracket(yyjson_val *v, const char *p, int depth, struct jsonpath_out *o)
{
	yyjson_val *e;
	size_t i, n;

	if (p[1] == '\'' || p[1] == '"') {
		const char *q = strchr(p + 2, p[1]);
		if (!q || q[1] != ']')
			return;
		td_auto_free char *key = td_strndup(p + 2, (size_t)(q - p - 2));
		walk(td_jkey(v, key), q + 2, depth + 1, o);
		return;
	}

	if (p[1] == '?') {
		const char *q = strstr(p, ")]");
		if (q && p[2] == '(')
			filter(v, p + 3, q + 2, depth, o);
		return;
	}

	const char *q = strchr(p, ']');
	if (!q)
		return;
	if (p[1] == '*') {
		yyjson_arr_foreach (v, i, n, e)
			walk(e, q + 1, depth + 1, o);
		return;
	}

	td_auto_free char *num = td_strndup(p + 1, (size_t)(q - p - 1));
	long long k;
	if (!td_parse_i64(num, &k))
		return;
	if (k < 0)
		k += (long long)yyjson_arr_size(v);
	if (k >= 0)
		walk(yyjson_arr_get(v, (size_t)k), q + 1, depth + 1, o);
}

static void walk(yyjson_val *v, const char *p, int depth, struct jsonpath_out *o)
{
	if (!v || depth > 64)
		return;
	if (!*p) {
		found(o, v);
		return;
	}
	if (*p == '[') {
		bracket(v, p, depth, o);
		return;
	}
	if (*p == '.')
		p++;
	if (*p == '[' || !*p) {
		walk(v, p, depth + 1, o);
		return;
	}
	td_auto_buf struct td_buf key = {0};
	for (; *p && *p != '.' && *p != '['; p++) {
		if (*p == '\\' && p[1])
			p++;
		td_buf_putc(&key, *p);
	}

	if (!strcmp(td_buf_str(&key), "*")) {
		yyjson_val *k, *e;
		size_t i, n;
		if (yyjson_is_arr(v)) {
			yyjson_arr_foreach (v, i, n, e)
				walk(e, p, depth + 1, o);
		} else {
			yyjson_obj_foreach (v, i, n, k, e)
				walk(e, p, depth + 1, o);
		}
		return;
	}

	walk(td_jkey(v, td_buf_str(&key)), p, depth + 1, o);
}

yyjson_val *td_jsonpath_first(const yyjson_val *root, const char *path, struct td_buf *ret_text)
{
	struct jsonpath_out o = {.text = ret_text};
	if (path)
		walk((yyjson_val *)(uintptr_t)root, path, 0, &o);
	return o.first;
}
