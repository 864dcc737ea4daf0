// The words of --container-mounts.
#include "spank/mounts.h"

#include <string.h>

enum { MAX_MOUNTS = 256 };

void td_ct_mounts_done(struct td_ct_mounts *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->v[i].from);
		free(m->v[i].to);
	}
	free(m->v);
	*m = (struct td_ct_mounts){0};
}

static int wrong(const char *piece, const char *why, struct td_error *err)
{
	return td_fail(err, TD_INVALID,
		       "--container-mounts: \"%.200s\": %s; write SRC:DST[:ro] with a path as SRC, or tmpfs:DST", piece,
		       why);
}

static int flags(const char *piece, const char *list, struct td_ct_mount *m, struct td_error *err)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, list, '+');
	// What enroot knows besides changes nothing here: every mount is private, without set-user-id programs
	// and devices, and its place is made.
	static const char *const idle[] = {"rw",           "rbind", "nosuid", "nodev",         "private",
					   "rprivate",     "slave", "rslave", "x-create=auto", "x-create=dir",
					   "x-create=file"};
	for (size_t i = 0; i < l.n; i++) {
		bool known = false;
		for (size_t k = 0; k < TD_LEN(idle); k++)
			known |= !strcmp(idle[k], l.v[i]);
		if (!strcmp(l.v[i], "ro"))
			m->read_only = true;
		else if (!strcmp(l.v[i], "bind"))
			m->plain = true;
		else if (!known)
			return wrong(piece, "a flag is not known: ro, rw, bind and rbind are", err);
	}
	return 0;
}

static int one(const char *piece, struct td_ct_mounts *ret, struct td_error *err)
{
	const char *colon = strchr(piece, ':'), *second = colon ? strchr(colon + 1, ':') : NULL;
	size_t n = colon ? (size_t)(colon - piece) : strlen(piece);
	td_auto_free char *from = td_strndup(piece, n),
			  *to = !colon   ? td_strdup(from)
				: second ? td_strndup(colon + 1, (size_t)(second - colon - 1))
					 : td_strdup(colon + 1);
	struct td_ct_mount m = {0};
	if (!strcmp(from, "tmpfs") && colon)
		m.kind = TD_CT_TMPFS;
	else if (!strcmp(from, "umount") && colon)
		m.kind = TD_CT_UMOUNT;
	else if (from[0] != '/' && from[0] != '.')
		return wrong(piece, "the source is no path", err);
	if (!to[0] || (to[0] != '/' && to[0] != '.'))
		return wrong(piece, "the destination is no path in the container", err);

	int r = second ? flags(piece, second + 1, &m, err) : 0;
	if (r)
		return r;
	if (ret->n == MAX_MOUNTS)
		return td_fail(err, TD_INVALID, "--container-mounts: more than %d mounts", MAX_MOUNTS);
	m.from = m.kind == TD_CT_BIND ? td_steal(from) : NULL;
	m.to = to[0] == '/' ? td_steal(to) : td_asprintf("/%s", to);
	ret->v = td_realloc(ret->v, (ret->n + 1) * sizeof(*ret->v));
	ret->v[ret->n++] = m;
	return 0;
}

int td_ct_mounts_parse(const char *text, struct td_ct_mounts *ret, struct td_error *err)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, text, ',');
	for (size_t i = 0; i < l.n; i++) {
		int r = one(l.v[i], ret, err);
		if (r)
			return r;
	}
	return 0;
}
