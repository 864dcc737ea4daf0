// Who has which file system of a storage group, as text (groupfiles.h).
#include "base/groupfiles.h"

#include <string.h>

struct groupfile_word {
	const char *s;
	size_t n;
};

// The next word of the line. False: the line has ended.
static bool next(const char **at, struct groupfile_word *ret)
{
	const char *s = *at + strspn(*at, " ");
	size_t n = strcspn(s, " \n");
	*at = s + n;
	*ret = (struct groupfile_word){s, n};
	return n > 0;
}

static bool is(struct groupfile_word w, const char *text)
{
	return w.n == strlen(text) && !memcmp(w.s, text, w.n);
}

static const char *line_after(const char *at)
{
	at += strcspn(at, "\n");
	return *at ? at + 1 : at;
}

static bool in_set(const char *set, size_t n, struct groupfile_word name)
{
	for (size_t i = 0; i < n;) {
		const char *comma = memchr(set + i, ',', n - i);
		size_t len = comma ? (size_t)(comma - set) - i : n - i;
		if (len == name.n && !memcmp(set + i, name.s, len))
			return true;
		i += len + 1;
	}
	return false;
}

void td_groupfiles_begin(struct td_groupfiles *g, const char *text, const char *user)
{
	g->at = text;
	g->set = user ? "" : NULL;
	g->n_set = 0;
	for (const char *line = text; user && *line; line = line_after(line)) {
		const char *at = line;
		struct groupfile_word kind, set, who;
		if (!next(&at, &kind) || !is(kind, "people") || !next(&at, &set))
			continue;
		while (next(&at, &who))
			if (is(who, user)) {
				g->set = set.s;
				g->n_set = set.n;
				return;
			}
	}
}

static bool take(struct td_groupfiles *g, struct groupfile_word name, struct groupfile_word path)
{
	if (name.n >= sizeof(g->name) || path.n >= sizeof(g->path) || name.s[0] == '.' || path.s[0] != '/' ||
	    memchr(name.s, '/', name.n) || memchr(name.s, ',', name.n))
		return false;
	memcpy(g->name, name.s, name.n);
	g->name[name.n] = '\0';
	memcpy(g->path, path.s, path.n);
	g->path[path.n] = '\0';
	return !strstr(g->path, "/..");
}

bool td_groupfiles_next(struct td_groupfiles *g)
{
	while (*g->at) {
		const char *at = g->at;
		struct groupfile_word kind, name, path;
		g->at = line_after(at);
		if (next(&at, &kind) && is(kind, "file") && next(&at, &name) && next(&at, &path) &&
		    (!g->set || in_set(g->set, g->n_set, name)) && take(g, name, path))
			return true;
	}
	return false;
}

bool td_groupfiles_has(const struct td_groupfiles *g, const char *name)
{
	return !g->set || in_set(g->set, g->n_set, (struct groupfile_word){name, strlen(name)});
}
