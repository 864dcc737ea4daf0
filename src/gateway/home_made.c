// What runs need and is made once for all of them (need.h): tandem/envs and tandem/data of a home.
#include "gateway/home_io.h"

#include "base/file.h"
#include "json/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WANT_MOST = 4 << 20, RECORD_MOST = 65536, LIST_MOST = 1000, KEY_LEN = 20 };

static int check(const char *place, const char *key, struct td_error *err)
{
	if (strcmp(place, "envs") != 0 && strcmp(place, "data") != 0)
		return td_fail(err, TD_INTERNAL, "nothing is made in \"%.40s\"", place);
	if (key && (strlen(key) != KEY_LEN || strspn(key, "0123456789abcdef") != KEY_LEN))
		return td_fail(err, TD_INVALID, "\"%.40s\" is no key: %d letters and digits, as the list shows", key,
			       KEY_LEN);
	return 0;
}

// The tree that the key leads to, ".made/KEY.JOB". NULL: it is not made. The link is read, not
// followed: where it leads is taken only when it is such a tree. The caller frees it.
static char *tree_of(int dir, const char *key)
{
	char to[PATH_MAX];
	td_auto_free char *head = td_asprintf(".made/%s.", key);
	ssize_t n = readlinkat(dir, key, to, sizeof(to) - 1);
	to[n > 0 ? n : 0] = '\0';
	struct stat st;
	if (n <= 0 || !td_starts(to, head) || strchr(to + strlen(head), '/') ||
	    fstatat(dir, to, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return NULL;
	return td_strdup(to);
}

static int place_of(const char *place, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("tandem/%s", place);
	return td_home_at(path, O_RDONLY | O_DIRECTORY, 0, err);
}

// Says "made" or "missing", and keeps what it is made of where its job reads it.
int td_home_want(char **argv, struct td_error *err)
{
	static const char *const dirs[] = {".made", ".want", ".log"};
	td_auto_buf struct td_buf in = {0};
	int r = check(argv[0], argv[1], err);
	if (r || (r = td_home_input(WANT_MOST, &in, err)))
		return r;
	for (size_t i = 0; i < TD_LEN(dirs); i++) {
		td_auto_free char *path = td_asprintf("tandem/%s/%s", argv[0], dirs[i]);
		if ((r = td_home_mkdirs(path, err)))
			return r;
	}
	td_auto_close int dir = place_of(argv[0], err);
	if (dir < 0)
		return dir;
	td_auto_free char *want = td_asprintf("tandem/%s/.want/%s", argv[0], argv[1]), *tree = tree_of(dir, argv[1]);
	if (!tree && (r = td_home_put(want, td_buf_str(&in), in.len, 0644, err)))
		return r;
	printf(tree ? "made" : "missing");
	return fflush(stdout) ? td_fail_errno(err, TD_INTERNAL, errno, "answer") : 0;
}

static void describe(const char *place, int dir, const char *key, yyjson_mut_doc *d, yyjson_mut_val *list)
{
	td_auto_free char *tree = tree_of(dir, key);
	if (!tree)
		return;
	td_auto_free char *path = td_asprintf("tandem/%s/%s/tandem.json", place, tree),
			  *used = td_asprintf("%s/.used", tree), *want = td_asprintf("tandem/%s/.want/%s", place, key);
	td_auto_buf struct td_buf b = {0}, of = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
	td_jm_str(d, o, "key", key);
	if (!td_home_get(path, RECORD_MOST, &b, NULL) && !td_json_parse(td_buf_str(&b), b.len, &j, NULL)) {
		static const char *const kept[] = {"made", "bytes", "python", "architecture", "packages", "kind"};
		for (size_t i = 0; i < TD_LEN(kept); i++)
			td_jm_copyval(d, o, kept[i], td_jget(td_json_root(j), kept[i]));
	}
	struct stat st;
	if (!fstatat(dir, used, &st, AT_SYMLINK_NOFOLLOW))
		td_jm_int(d, o, "used", st.st_mtim.tv_sec);
	if (!td_home_get(want, WANT_MOST, &of, NULL)) {
		yyjson_mut_val *lines = td_jm_arr(d, o, "of");
		td_auto_strv struct td_strv l = {0};
		td_strv_split(&l, td_buf_str(&of), '\n');
		for (size_t i = 0; i < l.n && i < 100; i++)
			yyjson_mut_arr_append(lines, yyjson_mut_strcpy(d, l.v[i]));
	}
}

int td_home_made(char **argv, struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	int r = check(argv[0], NULL, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *doc = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(doc, yyjson_mut_doc_get_root(doc), "made");
	int fd = place_of(argv[0], &e);
	if (fd < 0 && fd != TD_NOT_FOUND)
		return td_fail(err, fd, "%s", e.msg);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;
	for (struct dirent *at; dir && n < LIST_MOST && (at = readdir(dir));)
		if (!check(argv[0], at->d_name, NULL)) {
			describe(argv[0], fd, at->d_name, doc, list);
			n++;
		}
	if (dir)
		closedir(dir);
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(doc), NULL);
	return td_write_all(STDOUT_FILENO, text, strlen(text), err);
}

// The link goes first: from then on it is not there, whatever becomes of the rest.
int td_home_unmake(char **argv, struct td_error *err)
{
	int r = check(argv[0], argv[1], err);
	if (r)
		return r;
	td_auto_close int dir = place_of(argv[0], err);
	if (dir < 0)
		return dir;
	if (unlinkat(dir, argv[1], 0) < 0)
		return errno == ENOENT ? td_fail(err, TD_NOT_FOUND, "there is no %s in ~/tandem/%s", argv[1], argv[0])
				       : td_fail_errno(err, TD_INTERNAL, errno, "remove %s", argv[1]);
	td_auto_free char *path = td_asprintf("tandem/%s/.made", argv[0]), *head = td_asprintf("%s.", argv[1]);
	int fd = td_home_at(path, O_RDONLY | O_DIRECTORY, 0, NULL);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	td_auto_strv struct td_strv trees = {0};
	for (struct dirent *at; d && (at = readdir(d));)
		if (td_starts(at->d_name, head))
			td_strv_add(&trees, at->d_name);
	if (d)
		closedir(d);
	for (size_t i = 0; i < trees.n && !r; i++) {
		td_auto_free char *tree = td_asprintf("%s/%s", path, trees.v[i]);
		r = td_home_remove(tree, err);
	}
	td_auto_free char *want = td_asprintf("tandem/%s/.want/%s", argv[0], argv[1]);
	unlink(want);
	return r;
}
