#include "cli/jobenv.h"

#include "base/file.h"

#include <ctype.h>
#include <string.h>

enum { FILE_MOST = 1 << 20, DEPTH_MOST = 8, LINES_MOST = 5000 };

static int list(yyjson_val *v, yyjson_mut_doc *d, yyjson_mut_val *env, struct td_error *err)
{
	size_t i, n;
	yyjson_val *p;
	yyjson_mut_val *a = td_jm_arr(d, env, "packages");
	if (!yyjson_is_arr(v) || !yyjson_arr_size(v))
		return td_fail(err, TD_INVALID, "environment: packages: give a list, such as [numpy, torch==2.8.0]");
	yyjson_arr_foreach (v, i, n, p) {
		if (!yyjson_is_str(p))
			return td_fail(err, TD_INVALID, "environment: packages: each is a text, such as torch==2.8.0");
		yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, yyjson_get_str(p)));
	}
	return 0;
}

int td_jobenv_tandem(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err)
{
	yyjson_mut_val *env = td_jm_obj(d, yyjson_mut_doc_get_root(d), "environment");
	if (yyjson_is_str(v)) {
		td_jm_str(d, env, "file", yyjson_get_str(v));
		return 0;
	}
	if (yyjson_is_arr(v))
		return list(v, d, env, err);
	if (!yyjson_is_obj(v))
		return td_fail(err, TD_INVALID,
			       "environment: give a file (requirements.txt), a list of packages, none, or fields");
	size_t i, n;
	yyjson_val *k, *w;
	yyjson_obj_foreach (v, i, n, k, w) {
		const char *key = yyjson_get_str(k);
		int r = 0;
		if (!strcmp(key, "packages"))
			r = list(w, d, env, err);
		else if (!strcmp(key, "python") && yyjson_is_num(w)) {
			td_auto_free char *number = td_json_text(w, NULL);
			td_jm_str(d, env, key, number); // 3.12 is a number in YAML; write "3.10" in quotes
		} else if (strcmp(key, "file") != 0 && strcmp(key, "python") != 0 && strcmp(key, "index") != 0)
			r = td_fail(
				err, TD_INVALID,
				"environment: %.60s: there is no such field; there are file, packages, python, index",
				key);
		else if (!yyjson_is_str(w))
			r = td_fail(err, TD_INVALID, "environment: %s: give a text", key);
		else
			td_jm_str(d, env, key, yyjson_get_str(w));
		if (r)
			return r;
	}
	return 0;
}

// "tensorflow=1.15=py36_0" of Conda is "tensorflow==1.15.*" of pip.
static char *as_pip(const char *s)
{
	size_t n = strcspn(s, "=<>!~ [");
	td_auto_free char *name = td_strndup(s, n);
	const char *to = !strcmp(name, "pytorch") ? "torch" : name;
	if (s[n] != '=' || s[n + 1] == '=')
		return td_asprintf("%s%s", to, s + n);
	size_t len = strcspn(s + n + 1, "=");
	td_auto_free char *version = td_strndup(s + n + 1, len);
	return s[n + 1 + len] || strchr(version, '*') ? td_asprintf("%s==%s", to, version)
						      : td_asprintf("%s==%s.*", to, version);
}

int td_jobenv_tuxiv(yyjson_val *v, yyjson_mut_doc *d, struct td_strv *notes, struct td_error *err)
{
	yyjson_val *deps = td_jget(v, "dependencies"), *p, *w;
	if (!yyjson_arr_size(deps))
		return 0;
	yyjson_mut_val *env = yyjson_mut_obj(d), *a = td_jm_arr(d, env, "packages");
	size_t i, n, j, m, conda = 0;
	yyjson_arr_foreach (deps, i, n, p) {
		const char *s = yyjson_get_str(p);
		yyjson_arr_foreach (td_jget(p, "pip"), j, m, w)
			if (yyjson_is_str(w))
				yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, yyjson_get_str(w)));
		if (!s && !yyjson_is_obj(p))
			return td_fail(err, TD_INVALID, "environment: dependencies: each is a text, or pip: […]");
		if (!s)
			continue;
		const char *colons = strstr(s, "::"); // channel::package
		s = colons ? colons + 2 : s;
		size_t len = strcspn(s, "=<>!~ ");
		if (len == 6 && !strncmp(s, "python", 6)) {
			const char *version = s + len + strspn(s + len, "=");
			td_auto_free char *two = td_strndup(version, strspn(version, "0123456789."));
			char *dot = strchr(two, '.');
			if (dot && strchr(dot + 1, '.'))
				*strchr(dot + 1, '.') = '\0'; // 3.12.1 is a 3.12
			if (*two)
				td_jm_str(d, env, "python", two);
			continue;
		}
		if (len == 3 && !strncmp(s, "pip", 3))
			continue; // every environment has it
		td_auto_free char *pip = as_pip(s);
		yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, pip));
		conda++;
	}
	if (conda)
		td_strv_add(notes, "environment: Conda's packages are taken from Python's index by the same names "
				   "(pytorch: torch), without Conda's channels");
	if (yyjson_mut_arr_size(a))
		td_jm_set(d, yyjson_mut_doc_get_root(d), "environment", env);
	else
		td_strv_add(notes, "environment: it names no package, so the run has the Python of the nodes' image");
	return 0;
}

// ---- files ----

struct requirements {
	yyjson_mut_doc *d;
	yyjson_mut_val *to;
	const char *dir;
};

// Whether the line is of the directory's own files, which lie where the environment is not made.
static bool local(const char *s)
{
	static const char *const heads[] = {"-e ", "-e=", "--editable", "./", "../", "file:"};
	for (size_t i = 0; i < TD_LEN(heads); i++)
		if (td_starts(s, heads[i]))
			return true;
	return !strcmp(s, ".") || td_starts(s, ".[");
}

static int read_file(const struct requirements *l, const char *file, int depth, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_free char *path = *file == '/' ? td_strdup(file) : td_asprintf("%s/%s", l->dir, file);
	if (depth > DEPTH_MOST)
		return td_fail(err, TD_INVALID, "environment: %.200s: files name each other in a circle (-r)", file);
	int r = td_file_read(path, FILE_MOST, &b, err);
	if (r)
		return td_wrap(err, "environment");
	// A line that ends in a backslash goes on in the next one.
	for (char *p = b.s; p && (p = strstr(p, "\\\n"));)
		p[0] = p[1] = ' ';
	td_auto_strv struct td_strv v = {0};
	td_strv_split(&v, td_buf_str(&b), '\n');
	for (size_t i = 0; i < v.n; i++) {
		char *s = v.v[i];
		while (isspace((unsigned char)*s))
			s++;
		size_t n = strlen(s);
		while (n && isspace((unsigned char)s[n - 1]))
			s[--n] = '\0';
		if (!n || *s == '#')
			continue;
		size_t opt = td_starts(s, "-r") ? 2 : td_starts(s, "--requirement") ? strlen("--requirement") : 0;
		if (opt && (s[opt] == ' ' || s[opt] == '=')) {
			const char *slash = strrchr(file, '/'), *next = s + opt + 1 + strspn(s + opt + 1, " ");
			td_auto_free char *beside = slash && *next != '/'
							    ? td_asprintf("%.*s/%s", (int)(slash - file), file, next)
							    : td_strdup(next);
			if ((r = read_file(l, beside, depth + 1, err)))
				return r;
			continue;
		}
		if (local(s))
			return td_fail(
				err, TD_INVALID,
				"%.200s: \"%.100s\" is of this directory, and an environment holds packages by "
				"name: leave it out, and say `pip install --no-deps -e .` or PYTHONPATH=. in the run",
				file, s);
		if (yyjson_mut_arr_size(l->to) == LINES_MOST)
			return td_fail(err, TD_INVALID, "%.200s: more than %d lines", file, LINES_MOST);
		yyjson_mut_arr_append(l->to, yyjson_mut_strcpy(l->d, s));
	}
	return 0;
}

int td_jobenv_resolve(const struct td_jobenv_in *in, yyjson_mut_doc *d, bool *ret_found, struct td_error *err)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *env = td_jm_get(root, "environment");
	const char *file = in->asked ? in->asked : env ? td_jm_getstr(env, "file") : NULL;
	td_auto_free char *usual = td_asprintf("%s/requirements.txt", in->dir);
	*ret_found = false;
	if (file && !strcmp(file, "none")) {
		td_jm_del(root, "environment");
		return 0;
	}
	if (!file && !env && in->look && td_path_exists(usual)) {
		file = "requirements.txt";
		*ret_found = true;
	}
	if (!file && !env)
		return 0;

	yyjson_mut_val *now = yyjson_mut_obj(d), *reqs = td_jm_arr(d, now, "requirements"), *packages;
	const struct requirements l = {d, reqs, in->dir};
	int r = file ? read_file(&l, file, 0, err) : 0;
	if (r)
		return r;
	packages = env && !in->asked ? td_jm_get(env, "packages") : NULL;
	for (size_t i = 0; i < yyjson_mut_arr_size(packages); i++)
		yyjson_mut_arr_append(reqs, yyjson_mut_val_mut_copy(d, yyjson_mut_arr_get(packages, i)));
	if (env) {
		td_jm_str(d, now, "python", td_jm_getstr(env, "python"));
		td_jm_str(d, now, "index", td_jm_getstr(env, "index"));
	}
	td_jm_del(root, "environment");
	if (yyjson_mut_arr_size(reqs))
		td_jm_set(d, root, "environment", now);
	else if (file && !*ret_found)
		return td_fail(err, TD_INVALID, "environment: %.200s names no package", file);
	return 0;
}
