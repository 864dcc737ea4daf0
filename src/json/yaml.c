// YAML in (libyaml) and YAML out, with the scalar rules that Kubernetes users know: YAML 1.1 as
// sigs.k8s.io/yaml reads it.
#include "json/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <yaml.h>

enum { NODES_MAX = 1 << 20 }; // of one document, with aliases expanded

struct loader {
	yaml_document_t *ydoc;
	yyjson_mut_doc *doc;
	size_t nodes;
	struct td_error *err;
};

static bool word(const char *s, const char *const list[])
{
	for (; *list; list++)
		if (strcmp(s, *list) == 0)
			return true;
	return false;
}

// Returns 1 for an integer, 2 for a real, 3 for an integer that needs all 64 bits of *ret_i without a
// sign, 0 for none of them.
static int number(const char *s, long long *ret_i, double *ret_d)
{
	const char *p = s;
	if (*p == '-' || *p == '+')
		p++;

	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'o') && isxdigit((unsigned char)p[2])) {
		char *end;
		errno = 0;
		long long v = strtoll(p + 2, &end, p[1] == 'x' ? 16 : 8);
		if (*end || errno)
			return 0;
		*ret_i = *s == '-' ? -v : v;
		return 1;
	}

	const char *q = p;
	bool digits = false, real = false;
	for (; *q >= '0' && *q <= '9'; q++)
		digits = true;
	if (*q == '.') {
		real = true;
		for (q++; *q >= '0' && *q <= '9'; q++)
			digits = true;
	}
	if (digits && (*q == 'e' || *q == 'E')) {
		real = true;
		q++;
		if (*q == '-' || *q == '+')
			q++;
		if (*q < '0' || *q > '9')
			return 0;
		while (*q >= '0' && *q <= '9')
			q++;
	}

	if (!digits || *q)
		return 0;

	if (!real) {
		// In YAML 1.1 a leading zero means octal when all digits are.
		if (p[0] == '0' && p[1]) {
			char *end;
			errno = 0;
			long long v = strtoll(p, &end, 8);
			if (*end || errno)
				goto as_real;
			*ret_i = *s == '-' ? -v : v;
			return 1;
		}
		errno = 0;
		*ret_i = strtoll(s, NULL, 10);
		if (!errno)
			return 1;
		errno = 0;
		unsigned long long u = strtoull(p, NULL, 10);
		if (!errno && *s != '-') {
			*ret_i = (long long)u;
			return 3;
		}
	}
as_real:
	*ret_d = strtod(s, NULL);
	return isfinite(*ret_d) ? 2 : 0;
}

static yyjson_mut_val *scalar(struct loader *l, const yaml_node_t *n)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const trues[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", NULL};
	static const char *const falses[] = {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", NULL};
	const char *s = (const char *)n->data.scalar.value;
	size_t len = n->data.scalar.length;
	bool tagged_str = n->tag && strcmp((const char *)n->tag, YAML_STR_TAG) == 0 &&
			  n->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;

	if (n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !tagged_str && strlen(s) == len) {
		long long i;
		double d;
		if (word(s, nulls))
			return yyjson_mut_null(l->doc);
		if (word(s, trues))
			return yyjson_mut_bool(l->doc, true);
		if (word(s, falses))
			return yyjson_mut_bool(l->doc, false);
		switch (number(s, &i, &d)) {
		case 1:
			return yyjson_mut_sint(l->doc, i);
		case 2:
			return yyjson_mut_real(l->doc, d);
		case 3:
			return yyjson_mut_uint(l->doc, (uint64_t)i);
		}
	}
	return yyjson_mut_strncpy(l->doc, s, len);
}

static yyjson_mut_val *load(struct loader *l, int index, int depth)
{
	yaml_node_t *n = yaml_document_get_node(l->ydoc, index);
	if (++l->nodes > NODES_MAX || depth > TD_JSON_DEPTH) {
		td_fail(l->err, TD_INVALID, "YAML line %zu: %s", n->start_mark.line + 1,
			depth > TD_JSON_DEPTH ? "nested too deep" : "too large once aliases are expanded");
		return NULL;
	}
	if (n->type == YAML_SCALAR_NODE)
		return scalar(l, n);

	if (n->type == YAML_SEQUENCE_NODE) {
		yyjson_mut_val *arr = yyjson_mut_arr(l->doc);
		for (yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top; i++) {
			yyjson_mut_val *v = load(l, *i, depth + 1);
			if (!v)
				return NULL;
			yyjson_mut_arr_append(arr, v);
		}
		return arr;
	}

	yyjson_mut_val *obj = yyjson_mut_obj(l->doc);
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
		yaml_node_t *k = yaml_document_get_node(l->ydoc, p->key);
		if (k->type != YAML_SCALAR_NODE) {
			td_fail(l->err, TD_INVALID, "YAML line %zu: a key must be a plain value",
				k->start_mark.line + 1);
			return NULL;
		}

		yyjson_mut_val *v = load(l, p->value, depth + 1);
		if (!v)
			return NULL;
		const char *key = (const char *)k->data.scalar.value;
		// A merge key: keys that are already in the mapping win.
		bool merge = strcmp(key, "<<") == 0 && k->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
		if (merge && yyjson_mut_is_obj(v)) {
			size_t i, max;
			yyjson_mut_val *mk, *mv;
			yyjson_mut_obj_foreach (v, i, max, mk, mv) {
				if (!yyjson_mut_obj_get(obj, yyjson_mut_get_str(mk)))
					td_jm_key_set(l->doc, obj, yyjson_mut_get_str(mk),
						      yyjson_mut_val_mut_copy(l->doc, mv));
			}
			continue;
		}

		if (yyjson_mut_obj_get(obj, key)) {
			td_fail(l->err, TD_INVALID, "YAML line %zu: key \"%s\" is there twice", k->start_mark.line + 1,
				key);
			return NULL;
		}
		td_jm_key_set(l->doc, obj, key, v);
	}
	return obj;
}

void td_json_list_done(struct td_json_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_json_unref(l->v[i]);
	free(l->v);
	*l = (struct td_json_list){0};
}

int td_yaml_parse(const char *s, size_t len, struct td_json_list *ret, struct td_error *err)
{
	if (len > TD_JSON_MAX)
		return td_fail(err, TD_INVALID, "YAML document of %zu bytes: the limit is %u", len, TD_JSON_MAX);
	yaml_parser_t parser;
	if (!yaml_parser_initialize(&parser))
		abort();
	yaml_parser_set_input_string(&parser, (const unsigned char *)s, len);

	td_auto_json_list struct td_json_list list = {0};
	int r = 0;
	for (;;) {
		yaml_document_t ydoc;
		if (!yaml_parser_load(&parser, &ydoc)) {
			r = td_fail(err, TD_INVALID, "YAML line %zu, column %zu: %s", parser.problem_mark.line + 1,
				    parser.problem_mark.column + 1, parser.problem ? parser.problem : "unreadable");
			break;
		}
		if (!yaml_document_get_root_node(&ydoc)) {
			yaml_document_delete(&ydoc);
			break;
		}
		struct loader l = {&ydoc, td_jm_copy(NULL), 0, err};
		yyjson_mut_val *v = load(&l, 1, 0);
		yaml_document_delete(&ydoc);
		if (!v) {
			yyjson_mut_doc_free(l.doc);
			r = err ? err->code : TD_INVALID;
			break;
		}
		if (!yyjson_mut_is_null(v)) {
			list.v = td_realloc(list.v, (list.n + 1) * sizeof(*list.v));
			list.v[list.n++] = td_json_from_mut(v);
		}
		yyjson_mut_doc_free(l.doc);
	}

	yaml_parser_delete(&parser);
	if (!r) {
		*ret = list;
		list = (struct td_json_list){0};
	}
	return r;
}

// ---- out ----

// The code point at p when readers of YAML refuse it or take it for the end of a line: DEL, the C1
// control characters, the line and paragraph separators, the byte order mark and the two characters
// that are none at the end of the first plane. Else 0. p is UTF-8.
static unsigned unprintable(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;
	if (u[0] == 0x7f)
		return 0x7f;
	if (u[0] == 0xc2 && u[1] < 0xa0)
		return u[1];
	if (u[0] == 0xe2 && u[1] == 0x80 && (u[2] == 0xa8 || u[2] == 0xa9))
		return 0x2000 + (u[2] - 0x80);
	if (u[0] == 0xef && u[1] == 0xbb && u[2] == 0xbf)
		return 0xfeff;
	if (u[0] == 0xef && u[1] == 0xbf && u[2] >= 0xbe)
		return 0xffc0 + (u[2] - 0x80);
	return 0;
}

// Whether a text can stand without quotes and be read as this text. A text with a NUL cannot.
static bool plain_ok(const char *s)
{
	static const char *const words[] = {"",     "~",     "null",  "Null",  "NULL", "true", "True",
					    "TRUE", "false", "False", "FALSE", "yes",  "Yes",  "YES",
					    "no",   "No",    "NO",    "on",    "On",   "ON",   "off",
					    "Off",  "OFF",   "y",     "Y",     "n",    "N",    NULL};
	long long i;
	double d;
	if (word(s, words) || number(s, &i, &d) || strchr("-?:,[]{}#&*!|>'\"%@` .=<", s[0]))
		return false;

	size_t n = strlen(s);
	if (s[n - 1] == ' ' || s[n - 1] == ':' || strstr(s, ": ") || strstr(s, " #"))
		return false;
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p < 0x20 || unprintable(p))
			return false;

	// Dates, times, 1_000: quote what some reader takes for a number.
	return s[0] < '0' || s[0] > '9' || strspn(s, "0123456789-:_. TZ+") != n;
}

// As JSON does; YAML's readers besides want what they cannot print, or take for the end of a line,
// as escapes.
static void quoted_text(struct td_buf *b, yyjson_val *v)
{
	td_auto_free char *text = td_json_text(v, NULL);
	for (const char *p = text; *p;) {
		unsigned code = unprintable(p);
		if (!code) {
			td_buf_putc(b, *p++);
			continue;
		}
		td_buf_printf(b, "\\u%04x", code);
		p += code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
	}
}

// Whether a text of several lines can stand as a block, line by line.
static bool block_ok(const char *s, size_t len)
{
	if (!strchr(s, '\n') || strlen(s) != len || strchr(" \t\n", s[0]))
		return false;
	for (const char *p = s; *p; p++)
		if (((unsigned char)*p < 0x20 && *p != '\n' && *p != '\t') || unprintable(p))
			return false;
	return true;
}

static void block_text(struct td_buf *b, const char *s, int indent)
{
	size_t n = strlen(s);
	td_buf_puts(b, s[n - 1] != '\n' ? "|-" : n > 1 && s[n - 2] == '\n' ? "|+" : "|");
	while (*s) {
		const char *e = strchrnul(s, '\n');
		td_buf_putc(b, '\n');
		if (e > s)
			td_buf_printf(b, "%*s%.*s", indent, "", (int)(e - s), s);
		s = *e ? e + 1 : e;
	}
}

static void key_text(struct td_buf *b, yyjson_val *key)
{
	const char *s = yyjson_get_str(key);
	if (plain_ok(s))
		td_buf_puts(b, s);
	else
		quoted_text(b, key);
}

static void scalar_text(struct td_buf *b, yyjson_val *v, int indent)
{
	const char *s = yyjson_get_str(v);
	if (s && plain_ok(s))
		td_buf_puts(b, s);
	else if (s && block_ok(s, yyjson_get_len(v)))
		block_text(b, s, indent);
	else
		quoted_text(b, v);
}

static void emit(struct td_buf *b, yyjson_val *v, int indent, bool inline_first)
{
	size_t i, max;
	yyjson_val *k, *x;
	bool first = inline_first;

	if (yyjson_is_arr(v)) {
		yyjson_arr_foreach (v, i, max, x) {
			td_buf_printf(b, "%*s-", first ? 0 : indent, "");
			first = false;
			td_buf_putc(b, ' ');
			if (yyjson_is_ctn(x) && yyjson_get_len(x)) {
				emit(b, x, indent + 2, true);
			} else {
				emit(b, x, indent + 2, true);
				td_buf_putc(b, '\n');
			}
		}
	} else if (yyjson_is_obj(v)) {
		yyjson_obj_foreach (v, i, max, k, x) {
			td_buf_printf(b, "%*s", first ? 0 : indent, "");
			first = false;
			key_text(b, k);
			td_buf_putc(b, ':');
			if (yyjson_is_ctn(x) && yyjson_get_len(x)) {
				td_buf_putc(b, '\n');
				emit(b, x, yyjson_is_arr(x) ? indent : indent + 2, false);
			} else {
				td_buf_putc(b, ' ');
				if (yyjson_is_ctn(x))
					td_buf_puts(b, yyjson_is_arr(x) ? "[]" : "{}");
				else
					scalar_text(b, x, indent + 2);
				td_buf_putc(b, '\n');
			}
		}
	} else {
		scalar_text(b, v, indent ? indent : 2); // a block is indented, at the top too
	}

	if (yyjson_is_ctn(v) && !yyjson_get_len(v))
		td_buf_puts(b, yyjson_is_arr(v) ? "[]" : "{}");
}

char *td_yaml_text(const yyjson_val *cv)
{
	td_auto_buf struct td_buf b = {0};
	yyjson_val *v = (yyjson_val *)(uintptr_t)cv;

	emit(&b, v, 0, true);
	if (!b.len || b.s[b.len - 1] != '\n')
		td_buf_putc(&b, '\n');
	return td_buf_take(&b);
}
