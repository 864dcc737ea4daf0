// Label selectors (query form and LabelSelector objects) and field selectors.
#include "api/selector_priv.h"

#include <stdio.h>
#include <string.h>

#include "api/names.h"

enum { SELECTOR_MAX = 64 << 10 }; // bytes of one selector from outside

struct req {
	char *key;
	enum td_selector_op op;
	struct td_strv values; // sorted
};
struct td_selector {
	bool nothing;
	struct req *v; // sorted by key
	size_t n;
};

struct td_selector *td_selector_free(struct td_selector *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].key);
		td_strv_done(&s->v[i].values);
	}
	free(s->v);
	free(s);
	return NULL;
}

static struct req *add(struct td_selector *s)
{
	s->v = td_realloc(s->v, (s->n + 1) * sizeof(*s->v));
	s->v[s->n] = (struct req){0};
	return &s->v[s->n++];
}

static int cmp_str(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int cmp_req(const void *a, const void *b)
{
	return strcmp(((const struct req *)a)->key, ((const struct req *)b)->key);
}

static int finish(struct td_selector *s, struct td_error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		struct req *q = &s->v[i];
		if (!td_is_qualified_name(q->key))
			return td_fail(err, TD_INVALID,
				       "label key \"%.80s\": write [subdomain/]name with letters, digits, '-', '_' and "
				       "'.', at most 63 characters",
				       q->key);
		if (q->values.n > 1)
			qsort(q->values.v, q->values.n, sizeof(char *), cmp_str);
		long long num;
		for (size_t k = 0; k < q->values.n; k++) {
			const char *v = q->values.v[k];
			if (q->op == TD_OP_GT || q->op == TD_OP_LT ? !td_parse_i64(v, &num) : !td_is_label_value(v))
				return td_fail(
					err, TD_INVALID, "value \"%.80s\" of label key \"%.80s\" is %s", v, q->key,
					q->op == TD_OP_GT || q->op == TD_OP_LT ? "no integer" : "no valid label value");
		}
	}

	if (s->n > 1)
		qsort(s->v, s->n, sizeof(*s->v), cmp_req);
	return 0;
}

// ---- query form ----

static const char *skip(const char *s)
{
	return s + strspn(s, " \t");
}

static size_t word_len(const char *s)
{
	return strcspn(s, " \t,()!=<>");
}

static int set_of_values(const char **ps, struct req *q, struct td_error *err, const char *all)
{
	const char *s = skip(*ps);
	if (*s != '(')
		return td_fail(err, TD_INVALID, "selector: '(' expected at character %td", s - all);

	s = skip(s + 1);
	for (;;) {
		size_t n = word_len(s);
		td_strv_steal(&q->values, td_strndup(s, n));
		s = skip(s + n);
		if (*s == ')')
			break;
		if (*s != ',')
			return td_fail(err, TD_INVALID, "selector: ',' or ')' expected at character %td", s - all);
		s = skip(s + 1);
	}
	*ps = s + 1;
	return 0;
}

static int one(const char **ps, struct td_selector *sel, struct td_error *err, const char *all)
{
	const char *s = skip(*ps);
	struct req *q = add(sel);
	if (*s == '!') {
		q->op = TD_OP_NOT_EXISTS;
		s = skip(s + 1);
	}

	size_t n = word_len(s);
	if (!n)
		return td_fail(err, TD_INVALID, "selector: a label key expected at character %td", s - all);
	q->key = td_strndup(s, n);
	s = skip(s + n);

	if (q->op == TD_OP_NOT_EXISTS || *s == ',' || !*s) {
		if (q->op != TD_OP_NOT_EXISTS)
			q->op = TD_OP_EXISTS;
	} else if (*s == '=' || *s == '!' || *s == '<' || *s == '>') {
		char op = *s++;
		if (op == '!' && *s++ != '=')
			return td_fail(err, TD_INVALID, "selector: \"!=\" expected at character %td", s - all - 2);
		if (op == '=' && *s == '=')
			s++;
		q->op = op == '!' ? TD_OP_NOT_IN : op == '<' ? TD_OP_LT : op == '>' ? TD_OP_GT : TD_OP_IN;
		s = skip(s);
		n = word_len(s);
		td_strv_steal(&q->values, td_strndup(s, n));
		s += n;
	} else {
		n = word_len(s);
		bool in = n == 2 && !strncmp(s, "in", 2);
		if (!in && !(n == 5 && !strncmp(s, "notin", 5)))
			return td_fail(err, TD_INVALID,
				       "selector: one of =, ==, !=, in, notin, <, > expected at character %td",
				       s - all);
		q->op = in ? TD_OP_IN : TD_OP_NOT_IN;
		s += n;
		int r = set_of_values(&s, q, err, all);
		if (r)
			return r;
	}

	*ps = skip(s);
	return 0;
}

int td_selector_parse(const char *s, struct td_selector **ret, struct td_error *err)
{
	td_auto(td_selector_free) struct td_selector *sel = td_calloc(1, sizeof(*sel));
	const char *all = s ? s : "", *p = skip(all);
	if (strlen(all) > SELECTOR_MAX)
		return td_fail(err, TD_INVALID, "selector of %zu bytes: the limit is %d", strlen(all), SELECTOR_MAX);

	while (*p) {
		int r = one(&p, sel, err, all);
		if (r)
			return r;
		if (*p && *p != ',')
			return td_fail(err, TD_INVALID, "selector: ',' expected at character %td", p - all);
		if (*p == ',' && !*(p = skip(p + 1)))
			return td_fail(err, TD_INVALID, "selector: a label key expected at character %td", p - all);
	}

	int r = finish(sel, err);
	if (!r)
		*ret = td_steal(sel);
	return r;
}

// ---- LabelSelector ----

bool td_api_op_parse(const char *s, bool node, enum td_selector_op *ret)
{
	static const char *const names[] = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"};
	for (int i = 0; s && i < (node ? 6 : 4); i++)
		if (!strcmp(s, names[i])) {
			*ret = (enum td_selector_op)i;
			return true;
		}
	return false;
}

int td_selector_from_object(const yyjson_val *v, struct td_selector **ret, struct td_error *err)
{
	td_auto(td_selector_free) struct td_selector *sel = td_calloc(1, sizeof(*sel));
	sel->nothing = !v || yyjson_is_null((yyjson_val *)(uintptr_t)v);
	size_t i, max;
	yyjson_val *k, *x;

	yyjson_obj_foreach (td_jkey(v, "matchLabels"), i, max, k, x) {
		struct req *q = add(sel);
		q->key = td_strdup(yyjson_get_str(k));
		q->op = TD_OP_IN;
		if (!yyjson_is_str(x))
			return td_fail(err, TD_INVALID, "matchLabels[%s]: must be a string", q->key);
		td_strv_add(&q->values, yyjson_get_str(x));
	}

	yyjson_arr_foreach (td_jkey(v, "matchExpressions"), i, max, x) {
		struct req *q = add(sel);
		q->key = td_strdup(td_jstr_or(x, "key", ""));
		const char *op = td_jstr_or(x, "operator", "");
		if (!td_api_op_parse(op, false, &q->op))
			return td_fail(
				err, TD_INVALID,
				"matchExpressions[%zu].operator \"%.40s\": write In, NotIn, Exists or DoesNotExist", i,
				op);

		size_t j, m;
		yyjson_val *s;
		yyjson_arr_foreach (td_jkey(x, "values"), j, m, s) {
			if (!yyjson_is_str(s))
				return td_fail(err, TD_INVALID, "matchExpressions[%zu].values[%zu]: must be a string",
					       i, j);
			td_strv_add(&q->values, yyjson_get_str(s));
		}

		bool set = q->op == TD_OP_IN || q->op == TD_OP_NOT_IN;
		if (set != (q->values.n > 0))
			return td_fail(err, TD_INVALID, "matchExpressions[%zu].values: %s with operator %s", i,
				       set ? "at least one value is needed" : "no value is allowed", op);
	}

	int r = finish(sel, err);
	if (!r)
		*ret = td_steal(sel);
	return r;
}

static bool compare(enum td_selector_op op, const char *value, const char *limit)
{
	long long a, b;
	return value && limit && td_parse_i64(value, &a) && td_parse_i64(limit, &b) && (op == TD_OP_GT ? a > b : a < b);
}

bool td_selector_matches(const struct td_selector *s, const yyjson_val *labels)
{
	if (s->nothing)
		return false;
	for (size_t i = 0; i < s->n; i++) {
		const struct req *q = &s->v[i];
		const char *v = td_jkey_str(labels, q->key);
		bool ok = false;

		switch (q->op) {
		case TD_OP_IN:
			ok = v && td_strv_has(&q->values, v);
			break;
		case TD_OP_NOT_IN:
			ok = !v || !td_strv_has(&q->values, v);
			break;
		case TD_OP_EXISTS:
			ok = v != NULL;
			break;
		case TD_OP_NOT_EXISTS:
			ok = v == NULL;
			break;
		case TD_OP_GT:
		case TD_OP_LT:
			ok = compare(q->op, v, q->values.v[0]);
			break;
		}

		if (!ok)
			return false;
	}
	return true;
}

bool td_expr_matches(enum td_selector_op op, const yyjson_val *values, const char *value)
{
	bool in = false;
	size_t i, max;
	yyjson_val *x;
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)values, i, max, x)
		in = in || (value && yyjson_is_str(x) && !strcmp(yyjson_get_str(x), value));

	switch (op) {
	case TD_OP_IN:
		return in;
	case TD_OP_NOT_IN:
		return !in;
	case TD_OP_EXISTS:
		return value != NULL;
	case TD_OP_NOT_EXISTS:
		return value == NULL;
	case TD_OP_GT:
	case TD_OP_LT:
		return yyjson_arr_size((yyjson_val *)(uintptr_t)values) == 1 &&
		       compare(op, value, yyjson_get_str(yyjson_arr_get_first((yyjson_val *)(uintptr_t)values)));
	}
	return false;
}

char *td_selector_text(const struct td_selector *s)
{
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; !s->nothing && i < s->n; i++) {
		const struct req *q = &s->v[i];
		if (i)
			td_buf_putc(&b, ',');
		if (q->op == TD_OP_NOT_EXISTS)
			td_buf_putc(&b, '!');

		td_buf_puts(&b, q->key);
		if (q->op == TD_OP_EXISTS || q->op == TD_OP_NOT_EXISTS)
			continue;

		if (q->values.n == 1) {
			td_buf_puts(&b, q->op == TD_OP_IN       ? "="
					: q->op == TD_OP_NOT_IN ? "!="
					: q->op == TD_OP_GT     ? ">"
								: "<");
			td_buf_puts(&b, q->values.v[0]);
			continue;
		}

		td_buf_puts(&b, q->op == TD_OP_IN ? " in (" : " notin (");
		for (size_t k = 0; k < q->values.n; k++)
			td_buf_printf(&b, "%s%s", k ? "," : "", q->values.v[k]);
		td_buf_putc(&b, ')');
	}
	return td_buf_take(&b);
}

// ---- field selectors ----

struct fterm {
	char *path, *value;
	bool negated;
};
struct td_field_selector {
	struct fterm *v;
	size_t n;
};

struct td_field_selector *td_field_selector_free(struct td_field_selector *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].path);
		free(s->v[i].value);
	}
	free(s->v);
	free(s);
	return NULL;
}

// Reads a value up to the next unescaped ','. A backslash escapes ',', '=' and itself.
static char *field_value(const char **ps)
{
	td_auto_buf struct td_buf b = {0};
	const char *s = *ps;
	for (; *s && *s != ','; s++) {
		if (*s == '\\' && s[1] && strchr("\\,=", s[1]))
			s++;
		td_buf_putc(&b, *s);
	}
	*ps = s;
	return td_buf_take(&b);
}

int td_field_selector_parse(const char *s, struct td_field_selector **ret, struct td_error *err)
{
	td_auto(td_field_selector_free) struct td_field_selector *sel = td_calloc(1, sizeof(*sel));
	const char *p = skip(s ? s : "");
	if (strlen(p) > SELECTOR_MAX)
		return td_fail(err, TD_INVALID, "field selector of %zu bytes: the limit is %d", strlen(p),
			       SELECTOR_MAX);

	while (*p) {
		size_t n = strcspn(p, "=!,");
		if (!n || p[n] == ',' || !p[n] || (p[n] == '!' && p[n + 1] != '='))
			return td_fail(err, TD_INVALID,
				       "field selector \"%.80s\": write path=value, path==value or path!=value", p);
		sel->v = td_realloc(sel->v, (sel->n + 1) * sizeof(*sel->v));
		struct fterm *t = &sel->v[sel->n++];
		*t = (struct fterm){td_strndup(p, n), NULL, p[n] == '!'};
		p += n + (t->negated || p[n + 1] == '=' ? 2 : 1);
		t->value = field_value(&p);
		if (*p == ',')
			p = skip(p + 1);
	}

	*ret = td_steal(sel);
	return 0;
}

bool td_field_selector_matches(const struct td_field_selector *s, const yyjson_val *obj)
{
	for (size_t i = 0; i < s->n; i++) {
		const yyjson_val *v = td_jget(obj, s->v[i].path);
		const char *have = yyjson_get_str((yyjson_val *)(uintptr_t)v);
		char number[32];
		// Selectable fields of custom resources may be integers.
		if (yyjson_is_int((yyjson_val *)(uintptr_t)v)) {
			snprintf(number, sizeof(number), "%lld",
				 (long long)yyjson_get_sint((yyjson_val *)(uintptr_t)v));
			have = number;
		}

		if (!have)
			have = yyjson_is_true((yyjson_val *)(uintptr_t)v)    ? "true"
			       : yyjson_is_false((yyjson_val *)(uintptr_t)v) ? "false"
									     : "";
		// An absent boolean counts as false: spec.unschedulable=false selects nodes that
		// never had the field.
		bool eq = !strcmp(have, s->v[i].value) || (!v && !strcmp(s->v[i].value, "false"));
		if (eq == s->v[i].negated)
			return false;
	}
	return true;
}

const char *td_field_selector_exact(const struct td_field_selector *s, const char *path)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (!s->v[i].negated && !strcmp(s->v[i].path, path))
			return s->v[i].value;
	return NULL;
}

const char *td_field_selector_path(const struct td_field_selector *s, size_t i)
{
	return s && i < s->n ? s->v[i].path : NULL;
}
