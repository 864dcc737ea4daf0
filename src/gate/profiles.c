#include "gate/profiles.h"

#include "base/file.h"
#include "base/log.h"
#include "json/json.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EVERY_MS = 10000, MOST = 256, SIZE_MAX_OF = 1 << 20, LIST_MAX = MOST * 128, NAME_MOST = 100 };

// As spec.seccompProfile.localhostProfile of a Tenant.
static bool is_name(const char *s)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	size_t n = strlen(s);
	return n && n <= NAME_MOST && strspn(s, letters) == n && !strchr("_.-", *s);
}

static bool is_profile(const struct td_buf *text)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	return !td_json_parse(td_buf_str(text), text->len, &j, NULL) && td_jstr(td_json_root(j), "defaultAction");
}

static int keep(const struct td_profiles *p, const struct td_strv *ours, struct td_error *err)
{
	td_auto_buf struct td_buf text = {0};
	for (size_t i = 0; i < ours->n; i++)
		td_buf_printf(&text, "%s\n", ours->v[i]);
	return td_file_write(p->list, td_buf_str(&text), text.len, 0600, err);
}

static int copy(const struct td_profiles *p, const char *name, struct td_strv *ours, struct td_strv *left,
		struct td_error *err)
{
	td_auto_free char *from = td_asprintf("%s/%s", p->from, name), *to = td_asprintf("%s/%s", p->to, name);
	td_auto_buf struct td_buf want = {0}, is = {0};
	int r = td_file_read(from, SIZE_MAX_OF, &want, err);
	if (r)
		return r;
	if (!is_profile(&want)) {
		td_strv_addf(left, "%s is no profile: it is no JSON with a defaultAction", name);
		return 0;
	}
	bool there = !access(to, F_OK);
	if (there && !td_file_read(to, SIZE_MAX_OF, &is, NULL) && is.len == want.len &&
	    !memcmp(td_buf_str(&is), td_buf_str(&want), want.len))
		return 0;
	if (there && !td_strv_has(ours, name)) {
		td_strv_addf(left, "%s lies in the kubelet's directory already, and somebody else has put it there",
			     name);
		return 0;
	}
	// First, so that it is known whose it is whatever happens.
	if (!td_strv_has(ours, name)) {
		td_strv_add(ours, name);
		if ((r = keep(p, ours, err)))
			return r;
	}
	return td_file_write(to, td_buf_str(&want), want.len, 0644, err);
}

static int names_in(const char *path, struct td_strv *ret, struct td_strv *left, struct td_error *err)
{
	DIR *d = opendir(path);
	if (!d)
		return td_fail_errno(err, TD_TRANSIENT, errno, "%s cannot be read", path);
	for (const struct dirent *e; (e = readdir(d)) && ret->n <= MOST;) {
		if (*e->d_name == '.')
			continue; // ..data, and the like of a kubelet
		if (is_name(e->d_name))
			td_strv_add(ret, e->d_name);
		else
			td_strv_addf(left, "%.120s is no name of a profile", e->d_name);
	}
	closedir(d);
	// Those that would not be seen would be removed.
	return ret->n <= MOST ? 0
			      : td_fail(err, TD_INVALID, "%s has more than %d profiles: nothing is changed; keep fewer",
					path, MOST);
}

int td_profiles_sync(const struct td_profiles *p, struct td_strv *left, struct td_error *err)
{
	td_auto_strv struct td_strv ours = {0}, kept = {0}, names = {0};
	td_auto_buf struct td_buf text = {0};
	int r = names_in(p->from, &names, left, err);
	if (!r)
		r = td_file_read(p->list, LIST_MAX, &text, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	td_strv_split(&ours, td_buf_str(&text), '\n');
	for (size_t i = 0; i < names.n; i++)
		if ((r = copy(p, names.v[i], &ours, left, err)))
			return r;
	for (size_t i = 0; i < ours.n; i++) {
		td_auto_free char *path = td_asprintf("%s/%s", p->to, ours.v[i]);
		if (td_strv_has(&names, ours.v[i]) || !is_name(ours.v[i]))
			td_strv_add(&kept, ours.v[i]);
		else if (unlink(path) && errno != ENOENT)
			return td_fail_errno(err, TD_TRANSIENT, errno, "%s cannot be removed", path);
	}
	return kept.n == ours.n ? 0 : keep(p, &kept, err);
}

int td_profiles_run(const struct td_profiles *p, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *said = td_strdup("");
	do {
		td_auto_strv struct td_strv left = {0};
		td_auto_buf struct td_buf now = {0};
		struct td_error e = TD_ERROR_INIT;
		if (td_profiles_sync(p, &left, &e))
			td_strv_addf(&left, "%s", e.msg);
		for (size_t i = 0; i < left.n; i++)
			td_buf_printf(&now, "%s%s", i ? "; " : "", left.v[i]);
		if (now.len && strcmp(td_buf_str(&now), said) != 0)
			td_warn("agent: profiles of system calls: %s", td_buf_str(&now));
		free(said);
		said = td_strdup(td_buf_str(&now));
	} while (!td_cancel_wait(c, EVERY_MS));
	return td_fail(err, TD_CANCELLED, "stopped");
}
