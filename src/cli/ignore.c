#include "cli/ignore.h"

#include <string.h>

enum { RULES_MOST = 10000, STEPS_MOST = 100000 };

struct ignore_rule {
	char *dir, *pattern;
	bool not_, dirs_only, anchored;
};
struct td_ignore {
	struct ignore_rule *v;
	size_t n, cap;
};

struct td_ignore *td_ignore_new(void)
{
	return td_calloc(1, sizeof(struct td_ignore));
}

struct td_ignore *td_ignore_free(struct td_ignore *i)
{
	for (size_t k = 0; i && k < i->n; k++) {
		free(i->v[k].dir);
		free(i->v[k].pattern);
	}
	if (i)
		free(i->v);
	free(i);
	return NULL;
}

static void add_line(struct td_ignore *i, const char *dir, const char *line, size_t n)
{
	struct ignore_rule r = {0};
	if (n && line[n - 1] == '\r')
		n--;
	while (n && line[n - 1] == ' ' && (n < 2 || line[n - 2] != '\\'))
		n--;
	if (!n || *line == '#' || i->n >= RULES_MOST)
		return;
	if (*line == '!') {
		r.not_ = true;
		line++;
		n--;
	}
	if (n && line[n - 1] == '/') {
		r.dirs_only = true;
		n--;
	}
	// A slash at the beginning or inside ties the pattern to its directory.
	r.anchored = memchr(line, '/', n) != NULL;
	if (n && *line == '/') {
		line++;
		n--;
	}
	if (!n)
		return;
	if (i->n == i->cap)
		i->v = td_realloc(i->v, (i->cap = i->cap ? 2 * i->cap : 32) * sizeof(*i->v));
	r.dir = td_strdup(dir);
	r.pattern = td_strndup(line, n);
	i->v[i->n++] = r;
}

void td_ignore_add(struct td_ignore *i, const char *dir, const char *text)
{
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		add_line(i, dir, p, n);
		p += n + (p[n] == '\n');
	}
}

// One character class at p ("[…]"); *ret_end: behind it. NULL end: it is no class.
static bool class_has(const char *p, unsigned char c, const char **ret_end)
{
	const char *q = p + 1;
	bool not_ = *q == '!' || *q == '^', has = false;
	q += not_;
	for (bool first = true; *q && (*q != ']' || first); first = false) {
		unsigned char a = (unsigned char)*q++, b = a;
		if (a == '\\' && *q)
			a = b = (unsigned char)*q++;
		if (*q == '-' && q[1] && q[1] != ']') {
			b = (unsigned char)q[1];
			q += 2;
		}
		has = has || (c >= a && c <= b);
	}
	*ret_end = *q == ']' ? q + 1 : NULL;
	return has != not_ && c != '/';
}

// steps bounds the work of patterns that are made to take long.
static bool matches(const char *p, const char *s, int *steps)
{
	for (; *p;) {
		if (--*steps < 0)
			return false;
		if (p[0] == '*' && p[1] == '*' && (p[2] == '/' || !p[2])) {
			if (!p[2])
				return *s != '\0';
			// "**/" is any number of directories, none too.
			for (const char *t = s; t; t = strchr(t, '/') ? strchr(t, '/') + 1 : NULL)
				if (matches(p + 3, t, steps))
					return true;
			return false;
		}
		if (*p == '*') {
			while (*p == '*')
				p++;
			for (;; s++) {
				if (matches(p, s, steps))
					return true;
				if (!*s || *s == '/')
					return false;
			}
		}
		if (!*s)
			return false;
		const char *end;
		if (*p == '[') {
			bool in = class_has(p, (unsigned char)*s, &end);
			if (end) {
				if (!in)
					return false;
				p = end;
				s++;
				continue;
			}
		}
		if (*p == '?') {
			if (*s == '/')
				return false;
		} else {
			p += *p == '\\' && p[1];
			if (*p != *s)
				return false;
		}
		p++;
		s++;
	}
	return !*s;
}

bool td_ignored(const struct td_ignore *i, const char *path, bool is_dir)
{
	for (size_t k = i->n; k-- > 0;) {
		const struct ignore_rule *r = &i->v[k];
		size_t n = strlen(r->dir);
		int steps = STEPS_MOST;
		if (r->dirs_only && !is_dir)
			continue;
		if (n && (strncmp(path, r->dir, n) != 0 || path[n] != '/'))
			continue;
		const char *rest = path + n + (n > 0), *base = strrchr(rest, '/');
		if (matches(r->pattern, r->anchored || !base ? rest : base + 1, &steps))
			return !r->not_;
	}
	return false;
}
