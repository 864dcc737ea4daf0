// People of the books in a SlurmCluster's spec.users: the books have names only, passwd(5) has the rest.
#include "slurm/books.h"

#include "slurm/conf.h"

#include <string.h>

enum { WORDS = 7, FIRST = 1000 };

static bool path_fits(const char *p)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
	return *p == '/' && p[1] && !p[strspn(p, letters)] && strlen(p) <= 255;
}

// Splits "name:x:uid:gid:gecos:home:shell" in place.
static bool split(char *line, char *w[static WORDS])
{
	for (size_t i = 0; i < WORDS; i++) {
		char *colon = strchr(line, ':');
		w[i] = line;
		if ((colon != NULL) != (i < WORDS - 1))
			return false;
		if (colon) {
			*colon = '\0';
			line = colon + 1;
		}
	}
	return true;
}

// Whose the uid is: of the users that are there, or of those that come.
static const char *by_uid(const yyjson_val *has, yyjson_mut_val *list, long long uid)
{
	yyjson_val *u;
	yyjson_mut_val *x;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)has, i, n, u)
		if (td_jint(u, "uid", -1) == uid)
			return td_jstr_or(u, "name", "?");
	yyjson_mut_arr_foreach (list, i, n, x)
		if (yyjson_mut_get_sint(yyjson_mut_obj_get(x, "uid")) == uid)
			return yyjson_mut_get_str(yyjson_mut_obj_get(x, "name"));
	return NULL;
}

static void one(char *line, const yyjson_val *has, yyjson_mut_doc *d, yyjson_mut_val *list, struct td_strv *left)
{
	char *w[WORDS];
	long long uid, gid;
	if (!split(line, w) || !td_parse_i64(w[2], &uid) || !td_parse_i64(w[3], &gid)) {
		td_strv_addf(left, "\"%.60s\": no line of passwd; look at it", line);
		return;
	}
	const yyjson_val *is = has ? td_jfind(has, "name", w[0]) : NULL;
	const char *other = by_uid(has, list, uid);
	if (is) {
		if (td_jint(is, "uid", -1) != uid)
			td_strv_addf(left,
				     "user %s: spec.users.uid is %lld here and was %lld; files of his have the old "
				     "one",
				     w[0], (long long)td_jint(is, "uid", -1), uid);
		return;
	}
	if (other)
		td_strv_addf(left, "user %s: uid %lld is %s's in spec.users; give one of them another uid", w[0], uid,
			     other);
	else if (!td_slurm_is_user(w[0]) || td_slurm_is_system_name(w[0]))
		td_strv_addf(left,
			     "user %.60s: spec.users takes names of small letters, digits, _ and - only, and none "
			     "of the system's",
			     w[0]);
	else if (uid < FIRST || gid < 100 || uid > 4294967293 || gid > 4294967293 || uid == 64030 || uid == 65534 ||
		 !path_fits(w[5]) || !path_fits(w[6]))
		td_strv_addf(left,
			     "user %s: uid %lld, gid %lld, home %.60s, shell %.60s: spec.users takes uids from 1000 "
			     "and gids from 100 up, and paths",
			     w[0], uid, gid, w[5], w[6]);
	else {
		td_auto_free char *home = td_asprintf("/home/%s", w[0]);
		yyjson_mut_val *u = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, u, "name", w[0]);
		td_jm_int(d, u, "uid", uid);
		if (gid != uid)
			td_jm_int(d, u, "gid", gid);
		if (strcmp(w[5], home) != 0)
			td_jm_str(d, u, "home", w[5]);
		if (strcmp(w[6], "/bin/bash") != 0)
			td_jm_str(d, u, "shell", w[6]);
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void td_books_people(const struct td_books *b, const char *passwd, const yyjson_val *has, yyjson_mut_doc *d,
		     yyjson_mut_val *list, struct td_strv *left)
{
	td_auto_strv struct td_strv lines = {0}, names = {0};
	td_strv_split(&lines, passwd, '\n');
	for (size_t i = 0; i < lines.n; i++) {
		td_auto_free char *name = td_strndup(lines.v[i], strcspn(lines.v[i], ":"));
		if (!td_books_find(b, TD_BOOKS_PERSON, name, "", "") || !strcmp(name, "root"))
			continue;
		td_strv_add(&names, name);
		one(lines.v[i], has, d, list, left);
	}
	if (names.n)
		qsort(names.v, names.n, sizeof(char *), by_text);
	for (size_t i = 0; i < b->n; i++) {
		const char *name = b->v[i].name;
		if (b->v[i].kind == TD_BOOKS_PERSON && strcmp(name, "root") != 0 &&
		    !(has && td_jfind(has, "name", name)) &&
		    !(names.n && bsearch(&name, names.v, names.n, sizeof(char *), by_text)))
			td_strv_addf(left, "user %s: passwd does not know him; name him in spec.users with his uid",
				     name);
	}
}
