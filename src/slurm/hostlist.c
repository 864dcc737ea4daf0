#include "slurm/hostlist.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_DIGITS = 9 }; // of a number in brackets, at most

struct hl {
	struct td_strv *out;
	struct td_error *err;
	const char *all;
};

static int bad(const struct hl *h, const char *why)
{
	return td_fail(h->err, TD_INVALID, "hostlist \"%.100s\": %s", h->all, why);
}

// Parses a number of at most NUMBER_DIGITS digits, moves *p behind it and returns its width.
static bool number(const char **p, const char *end, long *ret, int *ret_width)
{
	const char *s = *p;
	long v = 0;
	int w = 0;
	for (; s < end && isdigit((unsigned char)*s) && w <= NUMBER_DIGITS; s++, w++)
		v = v * 10 + (*s - '0');
	if (!w || w > NUMBER_DIGITS)
		return false;
	*p = s;
	*ret = v;
	*ret_width = w;
	return true;
}

// Adds the names of the text from s to end, each with the first len bytes of `prefix` in front.
// `prefix` is also the buffer for them.
static int expand(const struct hl *h, char *prefix, size_t len, const char *s, const char *end, int depth)
{
	while (s < end && *s != '[') {
		if (*s == ']' || (unsigned char)*s <= ' ' || *s == '"' || *s == '\\')
			return bad(h, "a character that no name has");
		if (len >= TD_HOST_LEN)
			return bad(h, "a name is too long");
		prefix[len++] = *s++;
	}

	if (s == end) {
		if (!len)
			return bad(h, "an empty name");
		if (h->out->n >= TD_HOSTLIST_MAX)
			return bad(h, "too many names");
		prefix[len] = '\0';
		td_strv_add(h->out, prefix);
		return 0;
	}

	if (depth == 8)
		return bad(h, "too many brackets in one name");
	const char *close = memchr(s, ']', (size_t)(end - s));
	if (!close)
		return bad(h, "a bracket is not closed");

	for (s++;;) {
		long a, b;
		int wa, wb;
		if (!number(&s, close, &a, &wa))
			return bad(h, "a number was expected in brackets");

		b = a;
		if (s < close && *s == '-') {
			s++;
			if (!number(&s, close, &b, &wb))
				return bad(h, "a number was expected after \"-\"");
		}
		if (b < a || b - a >= TD_HOSTLIST_MAX)
			return bad(h, "a range that is backwards or too long");

		for (long v = a; v <= b; v++) {
			if (len + 12 > TD_HOST_LEN)
				return bad(h, "a name is too long");
			int n = snprintf(prefix + len, 12, "%0*ld", wa, v);
			int r = expand(h, prefix, len + (size_t)n, close + 1, end, depth + 1);
			if (r)
				return r;
		}

		if (s == close)
			return 0;
		if (*s++ != ',')
			return bad(h, "\",\" or \"]\" was expected in brackets");
	}
}

int td_hostlist_parse(const char *s, struct td_strv *ret, struct td_error *err)
{
	td_auto_strv struct td_strv l = {0};
	struct hl h = {.out = &l, .err = err, .all = s ? s : ""};
	if (s && *s && strcmp(s, "(null)") != 0) {
		char prefix[TD_HOST_LEN + 16];
		for (;;) {
			const char *e = s;
			for (int in = 0; *e && (in || *e != ','); e++)
				in = *e == '[' ? 1 : *e == ']' ? 0 : in;
			int r = expand(&h, prefix, 0, s, e, 0);
			if (r)
				return r;
			if (!*e)
				break;
			s = e + 1;
		}
	}

	td_strv_done(ret);
	*ret = l;
	l = (struct td_strv){0};
	return 0;
}

// The number at the end of a name, by which the writer groups. False: there is none of a length
// that fits.
static bool tail(const char *s, size_t *ret_prefix, long *ret_v, int *ret_width)
{
	size_t n = strlen(s), p = n;
	while (p && isdigit((unsigned char)s[p - 1]) && n - p < NUMBER_DIGITS)
		p--;
	if (p == n || (p && isdigit((unsigned char)s[p - 1])))
		return false;
	*ret_prefix = p;
	*ret_v = strtol(s + p, NULL, 10);
	*ret_width = (int)(n - p);
	return true;
}

// May two numbers share a bracket? They are written alike: with the same width, or both without
// leading zeros.
static bool alike(const char *a, int wa, const char *b, int wb)
{
	bool za = wa > 1 && *a == '0', zb = wb > 1 && *b == '0';
	return wa == wb || (!za && !zb);
}

char *td_hostlist_write(const struct td_strv *names)
{
	struct td_buf b = {0};
	for (size_t i = 0; i < names->n;) {
		const char *s = names->v[i];
		size_t p, q;
		long v, w;
		int wv, ww;

		if (b.len)
			td_buf_putc(&b, ',');
		size_t j = i + 1;
		if (!tail(s, &p, &v, &wv) || strchr(s, '[')) {
			td_buf_puts(&b, s);
			i = j;
			continue;
		}

		for (; j < names->n; j++) {
			const char *t = names->v[j];
			if (!tail(t, &q, &w, &ww) || q != p || strncmp(s, t, p) != 0 || !alike(s + p, wv, t + p, ww))
				break;
		}

		if (j == i + 1) {
			td_buf_puts(&b, s);
			i = j;
			continue;
		}

		td_buf_printf(&b, "%.*s[", (int)p, s);
		for (size_t k = i; k < j;) {
			const char *first = names->v[k] + p, *last = first;
			long prev = strtol(first, NULL, 10);
			size_t m = k + 1;
			for (; m < j && strtol(names->v[m] + p, NULL, 10) == prev + 1; m++) {
				last = names->v[m] + p;
				prev++;
			}
			td_buf_printf(&b, k == i ? "%s" : ",%s", first);
			if (last != first)
				td_buf_printf(&b, "-%s", last);
			k = m;
		}

		td_buf_putc(&b, ']');
		i = j;
	}
	return td_buf_take(&b);
}

int td_ranges_parse(const char *s, struct td_ranges *ret, struct td_error *err)
{
	struct td_ranges r = {0};
	const char *p = s, *end = s + strlen(s);

	while (p < end) {
		long a, b;
		int w;
		if (!number(&p, end, &a, &w))
			return td_fail(err, TD_INVALID, "index ranges \"%.100s\": a number was expected", s);

		b = a;
		if (p < end && *p == '-') {
			p++;
			if (!number(&p, end, &b, &w))
				return td_fail(err, TD_INVALID,
					       "index ranges \"%.100s\": a number was expected after \"-\"", s);
		}

		if (b < a || b >= TD_RANGE_MAX)
			return td_fail(err, TD_INVALID, "index ranges \"%.100s\": backwards, or beyond %d", s,
				       TD_RANGE_MAX - 1);
		for (long v = a; v <= b; v++)
			r.bits[v / 64] |= UINT64_C(1) << (v % 64);

		if (p == end)
			break;
		if (*p++ != ',' || p == end)
			return td_fail(err, TD_INVALID, "index ranges \"%.100s\": \",\" was expected", s);
	}

	*ret = r;
	return 0;
}

static bool bit(const struct td_ranges *r, int i)
{
	// A set that could not be parsed is not written.
	// NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult)
	return i < TD_RANGE_MAX && (r->bits[i / 64] >> (i % 64) & 1);
}

char *td_ranges_write(const struct td_ranges *r)
{
	struct td_buf b = {0};
	for (int i = 0; i < TD_RANGE_MAX; i++) {
		if (!bit(r, i))
			continue;
		int j = i;
		while (bit(r, j + 1))
			j++;
		td_buf_printf(&b, "%s%d", b.len ? "," : "", i);
		if (j > i)
			td_buf_printf(&b, "-%d", j);
		i = j;
	}
	return td_buf_take(&b);
}

int td_ranges_count(const struct td_ranges *r)
{
	int n = 0;
	for (size_t i = 0; i < TD_LEN(r->bits); i++)
		n += __builtin_popcountll(r->bits[i]);
	return n;
}

// The places of "0/100,30/100" that have some: of which devices these are parts. False: it is no such list.
static bool parts(const char *s, struct td_ranges *ret)
{
	*ret = (struct td_ranges){0};
	for (int i = 0; i < TD_RANGE_MAX; i++) {
		char *end;
		if (!isdigit((unsigned char)*s))
			return false;
		unsigned long has = strtoul(s, &end, 10);
		if (*end != '/' || !isdigit((unsigned char)end[1]))
			return false;
		strtoul(end + 1, &end, 10);
		if (has)
			ret->bits[i / 64] |= UINT64_C(1) << (i % 64);
		if (!*end)
			return true;
		if (*end != ',')
			return false;
		s = end + 1;
	}
	return false;
}

// Parses one GRES: name[:type][:count][(…)].
static int gres_one(const char *s, const char *end, struct td_gres *ret, struct td_error *err, const char *all)
{
	struct td_gres g = {0};
	// What a node uses of devices without a type is "gpu:(null):2(IDX:0-1)".
	static const char none[] = ":(null):";
	const char *untyped = memmem(s, (size_t)(end - s), none, strlen(none)),
		   *from = untyped ? untyped + strlen(none) : s, *paren = memchr(from, '(', (size_t)(end - from)),
		   *e = paren ? paren : end;
	const char *part[4];
	size_t len[4], n = 0;
	for (const char *p = s; n < 4;) {
		const char *c = memchr(p, ':', (size_t)(e - p));
		part[n] = p;
		len[n++] = (size_t)((c ? c : e) - p);
		if (!c)
			break;
		p = c + 1;
	}

	size_t i = 0;
	if (n > 1 && len[0] == 4 && !memcmp(part[0], "gres", 4))
		i++;
	if (i >= n || !len[i] || len[i] >= sizeof(g.name))
		return td_fail(err, TD_INVALID, "GRES \"%.100s\": no name", all);

	memcpy(g.name, part[i], len[i]);
	g.count = -1;
	for (i++; i < n; i++) {
		char num[24];
		long long v;
		if (len[i] && len[i] < sizeof(num) && isdigit((unsigned char)part[i][0])) {
			memcpy(num, part[i], len[i]);
			num[len[i]] = '\0';
			if (td_parse_i64(num, &v) && g.count < 0) {
				g.count = v;
				continue;
			}
		}
		if (untyped && part[i] == untyped + 1)
			continue;
		if (g.type[0] || !len[i] || len[i] >= sizeof(g.type))
			return td_fail(err, TD_INVALID, "GRES \"%.100s\": not name:type:count", all);
		memcpy(g.type, part[i], len[i]);
	}

	if (paren) {
		if (end[-1] != ')')
			return td_fail(err, TD_INVALID, "GRES \"%.100s\": \")\" was expected", all);
		td_auto_free char *in = td_strndup(paren + 1, (size_t)(end - paren) - 2);
		long long v;
		if (td_starts(in, "IDX:") && strcmp(in + 4, "N/A") != 0) {
			struct td_ranges r;
			int k = td_ranges_parse(in + 4, &r, err);
			if (k)
				return k;
			td_auto_free char *t = td_ranges_write(&r);
			if (strlen(t) >= sizeof(g.index))
				return td_fail(err, TD_INVALID, "GRES \"%.100s\": too many index ranges", all);
			strcpy(g.index, t);

			if (g.count < 0)
				g.count = td_ranges_count(&r);
		} else if (td_starts(in, "CNT:") && td_parse_i64(in + 4, &v) && v >= 0 && g.count < 0) {
			g.count = v;
		} else {
			struct td_ranges r;
			td_auto_free char *t = parts(in, &r) ? td_ranges_write(&r) : NULL;
			if (t && strlen(t) < sizeof(g.index))
				strcpy(g.index, t);
		}
	}
	if (g.count < 0)
		g.count = 1;
	*ret = g;
	return 0;
}

int td_gres_parse(const char *s, struct td_gres *ret, size_t max, size_t *ret_n, struct td_error *err)
{
	size_t n = 0;
	const char *all = s;
	if (!s || !*s || !strcmp(s, "(null)") || !strcmp(s, "N/A")) {
		*ret_n = 0;
		return 0;
	}

	for (;;) {
		const char *e = s;
		for (int in = 0; *e && (in || *e != ','); e++)
			in = *e == '(' ? 1 : *e == ')' ? 0 : in;

		if (n == max)
			return td_fail(err, TD_INVALID, "GRES \"%.100s\": more than %zu kinds", all, max);
		int r = gres_one(s, e, &ret[n], err, all);
		if (r)
			return r;
		n++;
		if (!*e)
			break;
		s = e + 1;
	}
	*ret_n = n;
	return 0;
}
