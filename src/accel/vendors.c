#include "accel/accel.h"

#include "base/embedded.h"
#include "base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

extern const struct td_embedded td_accel_files[];

enum { FILE_MAX = 64 << 10, VENDORS_MAX = 64, FIRST_MAX = 100000 };

struct td_accels {
	struct td_json *v[VENDORS_MAX];
	size_t n;
};

// ---- is it right? ----

static bool is_resource(const char *s)
{
	const char *slash = s ? strchr(s, '/') : NULL;
	return slash && slash > s && slash[1] && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-/_") == strlen(s) &&
	       !strchr(slash + 1, '/');
}

static bool is_word(const char *s, const char *more)
{
	if (!s || !*s || strlen(s) > 63 || isdigit((unsigned char)*s))
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr(more, *s))
			return false;
	return true;
}

// A path of a device, whose words in braces are known.
static int check_file(const char *field, const char *s, bool words, struct td_error *err)
{
	static const char *const known[] = {"{i}", "{n}", "{group}"};
	static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.-{}";
	// It becomes a word of gres.conf, whose brackets and commas are lists.
	if (!s || !td_starts(s, "/dev/") || !s[5] || strstr(s, "..") || strlen(s) > 120 || s[strspn(s, chars)])
		return td_fail(err, TD_INVALID, "%s: \"%.60s\": write a path below /dev, of letters, digits and /_.-",
			       field, s ? s : "");
	for (const char *p = s; (p = strchr(p, '{')); p++) {
		bool ok = false;
		for (size_t i = 0; words && i < TD_LEN(known); i++)
			ok |= td_starts(p, known[i]);
		if (!ok)
			return td_fail(err, TD_INVALID, "%s: \"%.60s\": %s", field, s,
				       words ? "of words in braces there are {i}, {n} and {group}"
					     : "one file of all devices has no words in braces");
	}
	if (words && !strchr(s, '{'))
		return td_fail(
			err, TD_INVALID,
			"%s: \"%.60s\": each device has its own: write {i}, {n} or {group} in it, or name it in shared",
			field, s);
	return 0;
}

static int check_files(const char *field, yyjson_val *list, bool words, size_t max, struct td_error *err)
{
	yyjson_val *x;
	size_t i, n;
	if (list && !yyjson_is_arr(list))
		return td_fail(err, TD_INVALID, "%s: write a list of paths, [/dev/…]", field);
	if (yyjson_arr_size(list) > max)
		return td_fail(err, TD_INVALID, "%s: at most %zu files", field, max);
	yyjson_arr_foreach (list, i, n, x) {
		int r = check_file(field, yyjson_get_str(x), words, err);
		if (r)
			return r;
	}
	return 0;
}

static int check_way(const yyjson_val *w, const yyjson_val *v, struct td_error *err)
{
	const char *sys = td_jstr(w, "sys"), *vendor = td_jstr(w, "vendor");
	if (!sys || strstr(sys, "..") || *sys == '/')
		return td_fail(err, TD_INVALID,
			       "find: sys: write the directory below /sys whose entries are the devices, such as "
			       "class/drm or bus/pci/drivers/NAME");
	if (!vendor || !td_starts(vendor, "0x") || strlen(vendor) != 6)
		return td_fail(err, TD_INVALID, "find: vendor: write the PCI vendor, such as \"0x1002\"");
	long long first = td_jint(w, "first", 0);
	if (first < 0 || first > FIRST_MAX)
		return td_fail(err, TD_INVALID, "find: first: write a number from 0 to %d", FIRST_MAX);
	if (!yyjson_arr_size(td_jget(w, "files")) && !yyjson_arr_size(td_jget(v, "files")))
		return td_fail(err, TD_INVALID,
			       "find: files: write the device files of one device, such as [\"/dev/accel/accel{n}\"]");
	int r = check_files("find: files", td_jget(w, "files"), true, TD_ACCEL_FILES, err);
	return r ? r : check_files("find: shared", td_jget(w, "shared"), false, TD_ACCEL_SHARED / 2, err);
}

int td_accel_check(const yyjson_val *v, struct td_error *err)
{
	static const char *const fields[] = {"name",   "resource",  "type",     "productLabel", "find",      "files",
					     "shared", "variables", "products", "productFile",  "slurmFlags"},
				 *const flags[] = {"amd_gpu_env", "intel_gpu_env", "nvidia_gpu_env", "no_gpu_env"};
	yyjson_val *k, *x;
	size_t i, n;
	if (!yyjson_is_obj((yyjson_val *)(uintptr_t)v))
		return td_fail(err, TD_INVALID, "write one document with the fields of a vendor's devices");
	yyjson_obj_foreach ((yyjson_val *)(uintptr_t)v, i, n, k, x) {
		bool known = false;
		for (size_t f = 0; f < TD_LEN(fields); f++)
			known |= td_streq(fields[f], yyjson_get_str(k));
		if (!known)
			return td_fail(err, TD_INVALID, "%.60s: there is no such field", yyjson_get_str(k));
	}
	if (!is_word(td_jstr(v, "name"), "-_"))
		return td_fail(err, TD_INVALID, "name: write a word, such as amd");
	if (!is_resource(td_jstr(v, "resource")))
		return td_fail(err, TD_INVALID, "resource: write what pods ask for, such as amd.com/gpu");
	if (!is_word(td_jstr(v, "type"), "_.-"))
		return td_fail(
			err, TD_INVALID,
			"type: write Slurm's type of devices whose product is not known: a letter, then letters, "
			"digits, '_', '.', '-'");
	if (!yyjson_is_arr(td_jget(v, "find")))
		return td_fail(err, TD_INVALID, "find: write a list of ways in which the devices are found");
	int r = check_files("files", td_jget(v, "files"), true, TD_ACCEL_FILES, err);
	if (!r)
		r = check_files("shared", td_jget(v, "shared"), false, TD_ACCEL_SHARED / 2, err);
	yyjson_arr_foreach (td_jget(v, "find"), i, n, x)
		if (!r)
			r = check_way(x, v, err);
	yyjson_arr_foreach (td_jget(v, "variables"), i, n, x) {
		const char *value = td_jstr_or(x, "value", "");
		if (!r && !is_word(td_jstr(x, "name"), "_"))
			r = td_fail(err, TD_INVALID, "variables: name: write the name of a variable");
		if (!r && strcmp(value, "{local}") != 0 && strcmp(value, "{index}") != 0)
			r = td_fail(err, TD_INVALID,
				    "variables: %s: write \"{local}\", which counts from 0, or \"{index}\", the node's "
				    "own numbers",
				    td_jstr(x, "name"));
	}
	const char *flag = td_jstr(v, "slurmFlags");
	bool known = !flag;
	for (i = 0; i < TD_LEN(flags); i++)
		known |= td_streq(flags[i], flag);
	if (!r && !known)
		r = td_fail(err, TD_INVALID,
			    "slurmFlags: write amd_gpu_env, intel_gpu_env, nvidia_gpu_env or no_gpu_env");
	return r;
}

// ---- reading ----

static int read_one(const char *text, size_t len, struct td_json **ret, struct td_error *err)
{
	td_auto_json_list struct td_json_list l = {0};
	int r = td_yaml_parse(text, len, &l, err);
	if (!r && l.n != 1)
		r = td_fail(err, TD_INVALID, "write one document with the fields of a vendor's devices");
	if (!r)
		r = td_accel_check(td_json_root(l.v[0]), err);
	if (!r)
		*ret = td_json_ref(l.v[0]);
	return r;
}

static bool named(const struct td_accels *a, const char *name)
{
	for (size_t i = 0; i < a->n; i++)
		if (td_streq(td_jstr(td_json_root(a->v[i]), "name"), name))
			return true;
	return false;
}

static int read_site(const char *dir, struct td_accels *a, struct td_error *err)
{
	struct dirent **v;
	int n = dir ? scandir(dir, &v, NULL, alphasort) : 0, r = 0;
	for (int i = 0; i < n; i++) {
		size_t len = strlen(v[i]->d_name);
		td_auto_free char *path = td_asprintf("%s/%s", dir, v[i]->d_name);
		td_auto_buf struct td_buf b = {0};
		if (!r && *v[i]->d_name != '.' && len > 5 && !strcmp(v[i]->d_name + len - 5, ".yaml")) {
			struct td_json *j = NULL;
			r = a->n == VENDORS_MAX ? td_fail(err, TD_INVALID, "there are too many") : 0;
			if (!r)
				r = td_file_read(path, FILE_MAX, &b, err);
			if (!r)
				r = read_one(td_buf_str(&b), b.len, &j, err);
			if (!r)
				a->v[a->n++] = j;
			else
				td_wrap(err, "%s", path);
		}
		free(v[i]);
	}
	if (n > 0)
		free(v);
	return r;
}

int td_accels_read(const char *dir, struct td_accels **ret, struct td_error *err)
{
	struct td_accels *a = td_calloc(1, sizeof(*a));
	int r = read_site(dir, a, err);
	for (const struct td_embedded *e = td_accel_files; !r && e->name; e++) {
		struct td_json *j = NULL;
		r = read_one(e->text, e->len, &j, err);
		if (r)
			td_wrap(err, "%s", e->name);
		else if (named(a, td_jstr(td_json_root(j), "name")) || a->n == VENDORS_MAX)
			td_json_unref(j);
		else
			a->v[a->n++] = j;
	}
	if (r)
		td_accels_free(a);
	else
		*ret = a;
	return r;
}

struct td_accels *td_accels_free(struct td_accels *a)
{
	for (size_t i = 0; a && i < a->n; i++)
		td_json_unref(a->v[i]);
	free(a);
	return NULL;
}

size_t td_accels_n(const struct td_accels *a)
{
	return a->n;
}

const yyjson_val *td_accels_at(const struct td_accels *a, size_t i)
{
	return td_json_root(a->v[i]);
}

// ---- Tandem's own ----

static struct td_accels *own;

static void read_own(void)
{
	struct td_error e = TD_ERROR_INIT;
	if (td_accels_read(NULL, &own, &e)) { // a test reads them all
		fprintf(stderr, "accelerators: %s\n", e.msg);
		abort();
	}
}

static const yyjson_val *by(const char *field, const char *value)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, read_own);
	for (size_t i = 0; i < own->n; i++) {
		const yyjson_val *v = td_json_root(own->v[i]);
		// That of fake devices shares the resource of those that it stands for.
		if (td_streq(td_jstr(v, field), value) &&
		    (!strcmp(field, "name") || yyjson_arr_size(td_jget(v, "find"))))
			return v;
	}
	return NULL;
}

const yyjson_val *td_accel_of(const char *resource)
{
	return by("resource", resource);
}

const yyjson_val *td_accel_named(const char *name)
{
	return by("name", name);
}
