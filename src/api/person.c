#include "api/person.h"

#include <string.h>

enum { PERSON_PARTS = 6, MOUNT_PARTS = 6 };

static bool plain(const char *s)
{
	return s && !strpbrk(s, ":\n");
}

bool td_person_write(struct td_buf *b, const struct td_person *p)
{
	if (!plain(p->groups) || !plain(p->name) || !plain(p->home) || !p->kube || !*p->kube || strchr(p->kube, '\n'))
		return false;
	td_buf_printf(b, "\n%u:%u:%s:%s:%s:%s", p->uid, p->gid, p->groups, p->name, p->home, p->kube);
	return true;
}

// Cuts a line into n parts, of which the last is the rest. False: it has fewer.
static bool cut(char *line, char **parts, size_t n)
{
	for (size_t i = 0; i + 1 < n; i++) {
		parts[i] = line;
		line = strchr(line, ':');
		if (!line)
			return false;
		*line++ = 0;
	}
	parts[n - 1] = line;
	return true;
}

static bool number(const char *s, uint32_t *ret)
{
	long long n;
	if (!td_parse_i64(s, &n) || n < 1 || n > UINT32_MAX - 1) // root is nobody's number
		return false;
	*ret = (uint32_t)n;
	return true;
}

// The next line as a string of its own; NULL: there is none.
static char *line_next(const char **text, struct td_arena *a)
{
	if (!*text || !**text)
		return NULL;
	size_t n = strcspn(*text, "\n");
	char *line = td_arena_strndup(a, *text, n);
	*text += n + ((*text)[n] == '\n');
	return line;
}

bool td_person_find(const char *people, const char *kube, struct td_arena *a, struct td_person *ret)
{
	size_t want = kube ? strlen(kube) : 0;
	if (!people || !want)
		return false;
	for (const char *at = strchr(people, '\n'); at; at = strchr(at, '\n')) {
		at++;
		size_t n = strcspn(at, "\n");
		// Most lines are another's: those are not copied.
		if (n <= want || at[n - want - 1] != ':' || memcmp(at + n - want, kube, want) != 0)
			continue;
		char *parts[PERSON_PARTS], *line = td_arena_strndup(a, at, n);
		if (!cut(line, parts, PERSON_PARTS) || strcmp(parts[5], kube) != 0 || !number(parts[0], &ret->uid) ||
		    !number(parts[1], &ret->gid))
			continue;
		ret->groups = parts[2];
		ret->name = parts[3];
		ret->home = parts[4];
		ret->kube = parts[5];
		return true;
	}
	return false;
}

bool td_person_project(const char *people)
{
	size_t n = strlen(TD_PERSON_PROJECT);
	return td_starts(people, TD_PERSON_PROJECT) && (!people[n] || people[n] == '\n');
}

void td_person_mount_write(struct td_buf *b, const struct td_person_mount *m)
{
	td_buf_printf(b, "%s%s:%s:%s:%s:%s:%s", b->len ? "\n" : "", m->read_only ? "ro" : "rw",
		      m->claim ? "claim" : "host", m->name, m->source, m->path, m->sub);
}

bool td_person_mount_next(const char **text, struct td_arena *a, struct td_person_mount *ret)
{
	for (char *line; (line = line_next(text, a));) {
		char *parts[MOUNT_PARTS];
		if (!cut(line, parts, MOUNT_PARTS))
			continue;
		*ret = (struct td_person_mount){.read_only = !strcmp(parts[0], "ro"),
						.claim = !strcmp(parts[1], "claim"),
						.name = parts[2],
						.source = parts[3],
						.path = parts[4],
						.sub = parts[5]};
		return true;
	}
	return false;
}
