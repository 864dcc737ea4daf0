#include "cli/jobenv.h"

#include "base/file.h"

#include <ctype.h>
#include <string.h>

enum { FILE_MOST = 1 << 20, DEPTH_MOST = 8, LINES_MOST = 5000 };

// Appends the texts of v to env.key. where: as the person wrote it.
static int list(yyjson_val *v, const char *key, const char *where, yyjson_mut_doc *d, yyjson_mut_val *env,
		struct td_error *err)
{
	size_t i, n;
	yyjson_val *p;
	yyjson_mut_val *a = td_jm_arr(d, env, key);
	if (!yyjson_is_arr(v) || !yyjson_arr_size(v))
		return td_fail(err, TD_INVALID, "environment: %s: give a list, such as [numpy, scipy]", where);
	yyjson_arr_foreach (v, i, n, p) {
		if (!yyjson_is_str(p))
			return td_fail(err, TD_INVALID, "environment: %s: each is a text, such as numpy", where);
		yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, yyjson_get_str(p)));
	}
	return 0;
}

// What Conda has as `dependencies`: texts, and one object {pip: […]}, whose lines become env.packages.
static int conda(yyjson_val *v, const char *where, yyjson_mut_doc *d, yyjson_mut_val *env, struct td_error *err)
{
	size_t i, n;
	yyjson_val *p;
	yyjson_mut_val *a = td_jm_arr(d, env, "conda");
	if (!yyjson_is_arr(v) || !yyjson_arr_size(v))
		return td_fail(err, TD_INVALID, "environment: %s: give a list, such as [python=3.12, numpy]", where);
	yyjson_arr_foreach (v, i, n, p) {
		int r = 0;
		if (yyjson_is_str(p))
			yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, yyjson_get_str(p)));
		else if (!yyjson_is_obj(p) || yyjson_obj_size(p) != 1 || !td_jget(p, "pip"))
			r = td_fail(err, TD_INVALID,
				    "environment: %s: each is a text, such as numpy=1.26, or pip: [PACKAGE, …]", where);
		else
			r = list(td_jget(p, "pip"), "packages", "pip", d, env, err);
		if (r)
			return r;
	}
	if (!yyjson_mut_arr_size(a))
		yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, "pip"));
	return 0;
}

// One name, or a list of them.
static int channels(yyjson_val *v, yyjson_mut_doc *d, yyjson_mut_val *env, struct td_error *err)
{
	if (yyjson_is_arr(v) && !yyjson_arr_size(v))
		return 0;
	if (!yyjson_is_str(v))
		return list(v, "channels", "channels", d, env, err);
	yyjson_mut_arr_append(td_jm_arr(d, env, "channels"), yyjson_mut_strcpy(d, yyjson_get_str(v)));
	return 0;
}

// What Conda has in its own files.
static int conda_file(yyjson_val *v, yyjson_mut_doc *d, yyjson_mut_val *env, struct td_error *err)
{
	int r = conda(td_jget(v, "dependencies"), "dependencies", d, env, err);
	return r || !td_jget(v, "channels") ? r : channels(td_jget(v, "channels"), d, env, err);
}

int td_jobenv_tandem(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err)
{
	yyjson_mut_val *env = td_jm_obj(d, yyjson_mut_doc_get_root(d), "environment");
	if (yyjson_is_str(v)) {
		td_jm_str(d, env, "file", yyjson_get_str(v));
		return 0;
	}
	if (yyjson_is_arr(v))
		return list(v, "packages", "packages", d, env, err);
	if (!yyjson_is_obj(v))
		return td_fail(err, TD_INVALID,
			       "environment: give a file (requirements.txt), a list of packages, none, or fields");
	size_t i, n;
	yyjson_val *k, *w;
	yyjson_obj_foreach (v, i, n, k, w) {
		const char *key = yyjson_get_str(k);
		bool number = !strcmp(key, "python") || !strcmp(key, "cuda");
		int r = 0;
		if (!strcmp(key, "packages"))
			r = list(w, key, key, d, env, err);
		else if (!strcmp(key, "conda"))
			r = conda(w, key, d, env, err);
		else if (!strcmp(key, "channels"))
			r = channels(w, d, env, err);
		else if (number && yyjson_is_num(w)) {
			td_auto_free char *text = td_json_text(w, NULL);
			td_jm_str(d, env, key, text); // 3.12 is a number in YAML; write "3.10" in quotes
		} else if (!number && strcmp(key, "file") != 0 && strcmp(key, "index") != 0)
			r = td_fail(err, TD_INVALID,
				    "environment: %.60s: there is no such field; there are file, packages, python, "
				    "index, and for Conda conda, channels, cuda",
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

int td_jobenv_tuxiv(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err)
{
	yyjson_val *deps = td_jget(v, "dependencies");
	if (!deps || (yyjson_is_arr(deps) && !yyjson_arr_size(deps)))
		return 0;
	return conda_file(v, d, td_jm_obj(d, yyjson_mut_doc_get_root(d), "environment"), err);
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

static int read_file(const struct requirements *l, const char *file, int depth, struct td_error *err);

// One line of file, which it may change.
static int add_line(const struct requirements *l, const char *file, char *s, int depth, struct td_error *err)
{
	while (isspace((unsigned char)*s))
		s++;
	size_t n = strlen(s);
	while (n && isspace((unsigned char)s[n - 1]))
		s[--n] = '\0';
	if (!n || *s == '#')
		return 0;
	size_t opt = td_starts(s, "-r") ? 2 : td_starts(s, "--requirement") ? strlen("--requirement") : 0;
	if (opt && (s[opt] == ' ' || s[opt] == '=')) {
		const char *slash = strrchr(file, '/'), *next = s + opt + 1 + strspn(s + opt + 1, " ");
		td_auto_free char *beside = slash && *next != '/'
						    ? td_asprintf("%.*s/%s", (int)(slash - file), file, next)
						    : td_strdup(next);
		return read_file(l, beside, depth + 1, err);
	}
	if (local(s))
		return td_fail(err, TD_INVALID,
			       "%.200s: \"%.100s\" is of this directory, and an environment holds packages by "
			       "name: leave it out, and say `pip install --no-deps -e .` or PYTHONPATH=. in the run",
			       file, s);
	if (yyjson_mut_arr_size(l->to) == LINES_MOST)
		return td_fail(err, TD_INVALID, "%.200s: more than %d lines", file, LINES_MOST);
	yyjson_mut_arr_append(l->to, yyjson_mut_strcpy(l->d, s));
	return 0;
}

static int read_text(const struct requirements *l, const char *file, struct td_buf *b, struct td_error *err)
{
	td_auto_free char *path = *file == '/' ? td_strdup(file) : td_asprintf("%s/%s", l->dir, file);
	int r = td_file_read(path, FILE_MOST, b, err);
	return r ? td_wrap(err, "environment") : 0;
}

// The lines of file, whose text is b.
static int add_lines(const struct requirements *l, const char *file, struct td_buf *b, int depth, struct td_error *err)
{
	int r = 0;
	// A line that ends in a backslash goes on in the next one.
	for (char *p = b->s; p && (p = strstr(p, "\\\n"));)
		p[0] = p[1] = ' ';
	td_auto_strv struct td_strv v = {0};
	td_strv_split(&v, td_buf_str(b), '\n');
	for (size_t i = 0; i < v.n && !r; i++)
		r = add_line(l, file, v.v[i], depth, err);
	return r;
}

static int read_file(const struct requirements *l, const char *file, int depth, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	if (depth > DEPTH_MOST)
		return td_fail(err, TD_INVALID, "environment: %.200s: files name each other in a circle (-r)", file);
	int r = read_text(l, file, &b, err);
	return r ? r : add_lines(l, file, &b, depth, err);
}

// ---- files of Conda ----

// Takes over what a file of Conda says: fields of env beside `file`.
static int read_yaml(const struct requirements *l, const char *file, const char *text, size_t len, yyjson_mut_val *env,
		     struct td_error *err)
{
	td_auto_json_list struct td_json_list docs = {0};
	int r = td_yaml_parse(text, len, &docs, err);
	if (r)
		return td_wrap(err, "%.200s", file);
	yyjson_val *root = docs.n == 1 ? td_json_root(docs.v[0]) : NULL, *k, *v;
	if (!td_jget(root, "dependencies"))
		return td_fail(err, TD_INVALID,
			       "%.200s: it has no `dependencies`: an environment of Conda is {channels: […], "
			       "dependencies: [python=3.12, numpy, pip: [rich]]}",
			       file);
	if (conda_file(root, l->d, env, err))
		return td_wrap(err, "%.200s", file);
	// Its variables are those of every step that does not set them itself.
	yyjson_mut_val *steps = td_jm_get(yyjson_mut_doc_get_root(l->d), "steps");
	for (size_t i = 0; i < yyjson_mut_arr_size(steps); i++) {
		size_t j, n;
		yyjson_obj_foreach (td_jget(root, "variables"), j, n, k, v) {
			yyjson_mut_val *o = td_jm_obj(l->d, yyjson_mut_arr_get(steps, i), "env");
			td_auto_free char *value =
				yyjson_is_str(v) ? td_strdup(yyjson_get_str(v)) : td_json_text(v, NULL);
			if (!yyjson_mut_obj_get(o, yyjson_get_str(k)))
				td_jm_key_str(l->d, o, yyjson_get_str(k), value);
		}
	}
	return 0;
}

// The lines of a lock, each the address of a package with its hash.
static void read_lock(const struct requirements *l, const char *text, yyjson_mut_val *env)
{
	td_auto_strv struct td_strv v = {0};
	yyjson_mut_val *a = td_jm_arr(l->d, env, "conda");
	td_strv_split(&v, text, '\n');
	for (size_t i = 0; i < v.n; i++) {
		v.v[i][strcspn(v.v[i], "\r ")] = '\0';
		if (*v.v[i] && *v.v[i] != '#' && *v.v[i] != '@')
			yyjson_mut_arr_append(a, yyjson_mut_strcpy(l->d, v.v[i]));
	}
}

// Reads what `file` is: of Conda into env, any other into l->to.
static int read_any(const struct requirements *l, const char *file, yyjson_mut_val *env, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	int r = read_text(l, file, &b, err);
	if (r)
		return r;
	if (td_ends(file, ".yml") || td_ends(file, ".yaml"))
		return read_yaml(l, file, td_buf_str(&b), b.len, env, err);
	if (td_starts(td_buf_str(&b), "@EXPLICIT") || strstr(td_buf_str(&b), "\n@EXPLICIT")) {
		read_lock(l, td_buf_str(&b), env);
		return 0;
	}
	return add_lines(l, file, &b, 0, err);
}

int td_jobenv_resolve(const struct td_jobenv_in *in, yyjson_mut_doc *d, const char **ret_found, struct td_error *err)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *env = td_jm_get(root, "environment");
	const char *file = in->asked ? in->asked : env ? td_jm_getstr(env, "file") : NULL;
	static const char *const usual[] = {"requirements.txt", "environment.yml", "environment.yaml"};
	*ret_found = NULL;
	if (file && !strcmp(file, "none")) {
		td_jm_del(root, "environment");
		return 0;
	}
	for (size_t i = 0; i < TD_LEN(usual) && !file && !env && in->look; i++) {
		td_auto_free char *path = td_asprintf("%s/%s", in->dir, usual[i]);
		if (td_path_exists(path))
			file = *ret_found = usual[i];
	}
	if (!file && !env)
		return 0;

	yyjson_mut_val *now = yyjson_mut_obj(d), *reqs = td_jm_arr(d, now, "requirements"), *packages;
	const struct requirements l = {d, reqs, in->dir};
	env = in->asked || !env ? yyjson_mut_obj(d) : env; // the command line's file counts alone
	int r = file ? read_any(&l, file, env, err) : 0;
	packages = td_jm_get(env, "packages");
	for (size_t i = 0; i < yyjson_mut_arr_size(packages) && !r; i++) {
		td_auto_free char *line = td_strdup(yyjson_mut_get_str(yyjson_mut_arr_get(packages, i)));
		r = add_line(&l, file ? file : "packages", line, 0, err);
	}
	if (r)
		return r;
	static const char *const texts[] = {"python", "index", "cuda"}, *const lists[] = {"conda", "channels"};
	for (size_t i = 0; i < TD_LEN(texts); i++)
		td_jm_str(d, now, texts[i], td_jm_getstr(env, texts[i]));
	for (size_t i = 0; i < TD_LEN(lists); i++)
		if (yyjson_mut_arr_size(td_jm_get(env, lists[i])))
			td_jm_set(d, now, lists[i], yyjson_mut_val_mut_copy(d, td_jm_get(env, lists[i])));
	bool any = yyjson_mut_arr_size(reqs) || td_jm_get(now, "conda");
	if (!yyjson_mut_arr_size(reqs))
		td_jm_del(now, "requirements");
	td_jm_del(root, "environment");
	if (any)
		td_jm_set(d, root, "environment", now);
	else if (file && !*ret_found)
		return td_fail(err, TD_INVALID, "environment: %.200s names no package", file);
	return 0;
}
