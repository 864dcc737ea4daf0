// The directory of the image store: names, resolve, list, remove. recipe.c builds images, import.c
// imports them.
//
// A new image is made in <dir>/.new-XXXXXX and then renamed into its place. An image that is
// removed is first renamed to <dir>/.old-XXXXXX. So a name is complete or absent, whatever crashes.
// A process that changes the store holds <dir>/.lock (flock).
#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"
#include "oci/image_internal.h"
#include "json/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void td_image_done(struct td_image *i)
{
	free(i->name);
	free(i->rootfs);
	free(i->key);
	free(i->tool);
	free(i->user);
	free(i->workdir);
	td_strv_done(&i->env);
	td_strv_done(&i->entrypoint);
	td_strv_done(&i->cmd);
	*i = (struct td_image){0};
}

// ---- names ----
int img_name(const char *ref, char **ret_name, char **ret_tag, struct td_error *err)
{
	static const char *const hosts[] = {"docker.io/library/", "index.docker.io/library/", "docker.io/",
					    "index.docker.io/", "library/"};
	const char *s = ref ? ref : "";
	for (size_t i = 0; i < TD_LEN(hosts); i++)
		if (td_starts(s, hosts[i])) {
			s += strlen(hosts[i]);
			break;
		}

	if (strchr(s, '@'))
		return td_fail(err, TD_NOT_FOUND,
			       "image \"%s\": the local store has no digests; use NAME:TAG (`tandem image list`)", ref);

	const char *slash = strrchr(s, '/'), *colon = strrchr(s, ':');
	if (colon && slash && colon < slash)
		colon = NULL; // the colon of a registry's port
	td_auto_free char *name = colon ? td_strndup(s, (size_t)(colon - s)) : td_strdup(s);
	td_auto_free char *tag = td_strdup(colon ? colon + 1 : "latest");

	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	if (!*name || strlen(name) > 200 || name[0] == '.' || name[0] == '/' || strstr(name, "..") ||
	    strspn(name, "/:") || strlen(tag) > 128 || !*tag || tag[0] == '.' || strspn(tag, ok) != strlen(tag))
		return td_fail(err, TD_INVALID, "image \"%s\" is not NAME[:TAG]", ref ? ref : "");

	for (char *p = name; *p; p++) {
		if (*p == '/')
			*p = '+';
		else if (!strchr(ok, *p) && *p != ':')
			return td_fail(err, TD_INVALID, "image \"%s\" is not NAME[:TAG]: bad character '%c'", ref, *p);
	}

	*ret_name = td_steal(name);
	*ret_tag = td_steal(tag);
	return 0;
}

char *img_shown(const char *name, const char *tag)
{
	char *s = td_asprintf("%s:%s", name, tag);
	for (char *p = s; *p; p++)
		if (*p == '+')
			*p = '/';
	return s;
}

// ---- reading ----

int img_read(const char *dir, const char *name, const char *tag, struct td_image *ret, struct td_error *err)
{
	td_auto_free char *meta = td_asprintf("%s/%s/%s/image.json", dir, name, tag),
			  *rootfs = td_asprintf("%s/%s/%s/rootfs", dir, name, tag);
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_record_read(meta, &j, err);
	if (r)
		return r;

	const yyjson_val *v = td_json_root(j);
	*ret = (struct td_image){.name = img_shown(name, tag),
				 .rootfs = td_steal(rootfs),
				 .key = td_strdup(td_jstr_or(v, "key", "")),
				 .tool = td_strdup(td_jstr_or(v, "tool", "")),
				 .user = td_strdup(td_jstr_or(v, "user", "")),
				 .workdir = td_strdup(td_jstr_or(v, "workdir", "")),
				 .bytes = td_jint(v, "bytes", 0),
				 .created_ms = td_jint(v, "created", 0)};

	td_jstrs(td_jget(v, "env"), &ret->env);
	td_jstrs(td_jget(v, "entrypoint"), &ret->entrypoint);
	td_jstrs(td_jget(v, "cmd"), &ret->cmd);
	return 0;
}

int td_image_resolve(const char *dir, const char *ref, struct td_image *ret, struct td_error *err)
{
	td_auto_free char *name = NULL, *tag = NULL;
	int r = img_name(ref, &name, &tag, err);
	if (r)
		return r;

	struct td_error e = TD_ERROR_INIT;
	r = img_read(dir, name, tag, ret, &e);
	if (r == TD_NOT_FOUND) {
		td_auto_free char *shown = img_shown(name, tag);
		return td_fail(err, TD_NOT_FOUND,
			       "image \"%s\" is not in the local store as %s: `tandem image list` shows what is, "
			       "`tandem image "
			       "build` and `tandem image import` add to it",
			       ref, shown);
	}
	return r ? td_fail(err, r, "image \"%s\": %s", ref, e.msg) : 0;
}

static void names_in(const char *path, struct td_strv *ret)
{
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' && (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN))
			td_strv_add(ret, e->d_name);
	if (d)
		closedir(d);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct td_image *)a)->name, ((const struct td_image *)b)->name);
}

int td_image_list(const char *dir, struct td_image **ret, size_t *ret_n, struct td_error *err)
{
	struct td_image *v = NULL;
	size_t n = 0;
	td_auto_strv struct td_strv names = {0};
	names_in(dir, &names);

	for (size_t i = 0; i < names.n; i++) {
		td_auto_free char *path = td_asprintf("%s/%s", dir, names.v[i]);
		td_auto_strv struct td_strv tags = {0};
		names_in(path, &tags);
		for (size_t k = 0; k < tags.n; k++) {
			struct td_image img;
			if (img_read(dir, names.v[i], tags.v[k], &img, NULL))
				continue;
			v = td_realloc(v, (n + 1) * sizeof(*v));
			v[n++] = img;
		}
	}

	if (n)
		qsort(v, n, sizeof(*v), by_name);
	*ret = v;
	*ret_n = n;
	return 0;
}

// ---- changing ----
int img_lock(const char *dir, struct td_cancel *c, int *ret_fd, struct td_error *err)
{
	int r = td_mkdir_p(dir, 0755, err);
	if (r)
		return r;

	td_auto_free char *path = td_asprintf("%s/.lock", dir);
	td_auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "open %s", path);

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return td_fail_errno(err, TD_INTERNAL, errno, "lock %s", path);
		if (td_cancel_wait(c, 5)) // because a blocking flock cannot be cancelled
			return td_fail(err, TD_CANCELLED, "lock %s: cancelled", path);
	}

	*ret_fd = td_steal_fd(&fd);
	return 0;
}

char *img_new_dir(const char *dir)
{
	uint64_t x;
	td_random(&x, sizeof(x));
	return td_asprintf("%s/.new-%016llx", dir, (unsigned long long)x);
}

void img_sweep(const char *dir)
{
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));)
		if (td_starts(e->d_name, ".new-") || td_starts(e->d_name, ".old-")) {
			td_auto_free char *p = td_asprintf("%s/%s", dir, e->d_name);
			td_rm_rf(p, NULL);
		}
	if (d)
		closedir(d);
}

// True when the mount namespace of a process has an overlay on this root, whose files must then
// stay as they are.
bool img_in_use(const char *rootfs)
{
	td_auto_buf struct td_buf want = {0};
	td_buf_printf(&want, "lowerdir=%s", rootfs);
	DIR *d = opendir("/proc");
	bool found = false;
	ino_t seen[64] = {0};

	for (struct dirent *e; d && !found && (e = readdir(d));) {
		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		td_auto_free char *ns = td_asprintf("/proc/%s/ns/mnt", e->d_name),
				  *mi = td_asprintf("/proc/%s/mountinfo", e->d_name);
		struct stat st;
		if (stat(ns, &st) < 0 || seen[st.st_ino % TD_LEN(seen)] == st.st_ino)
			continue;
		seen[st.st_ino % TD_LEN(seen)] = st.st_ino;

		td_auto_buf struct td_buf b = {0};
		if (td_file_read(mi, 16 << 20, &b, NULL))
			continue;
		for (const char *p = td_buf_str(&b); (p = strstr(p, want.s)); p++)
			if (p[want.len] == ',' || p[want.len] == ' ' || p[want.len] == ':') {
				found = true;
				break;
			}
	}
	if (d)
		closedir(d);
	return found;
}

static int move_away(const char *dir, const char *path, struct td_error *err)
{
	uint64_t x;
	td_random(&x, sizeof(x));
	td_auto_free char *old = td_asprintf("%s/.old-%016llx", dir, (unsigned long long)x);
	if (rename(path, old) < 0)
		return errno == ENOENT ? 0 : td_fail_errno(err, TD_INTERNAL, errno, "move %s away", path);
	return td_rm_rf(old, err);
}

static int add_size(const char *path, const struct stat *st, int flag, struct FTW *f);
static _Thread_local int64_t size_sum; // nftw has no context argument
static int add_size(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	size_sum += (int64_t)st->st_blocks * 512;
	return 0;
}

int img_commit(const char *dir, const char *made, const char *name, const char *tag, const char *key,
	       const struct img_meta *meta, struct td_error *err)
{
	td_auto_free char *rootfs = td_asprintf("%s/rootfs", made), *file = td_asprintf("%s/image.json", made),
			  *parent = td_asprintf("%s/%s", dir, name), *dest = td_asprintf("%s/%s/%s", dir, name, tag),
			  *dest_root = td_asprintf("%s/rootfs", dest);

	size_sum = 0;
	nftw(rootfs, add_size, 64, FTW_PHYS | FTW_MOUNT);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_auto_free char *shown = img_shown(name, tag);
	td_jm_str(d, o, "name", shown);
	td_jm_str(d, o, "key", key);
	td_jm_str(d, o, "tool", meta->tool);
	td_jm_int(d, o, "bytes", size_sum);
	td_jm_int(d, o, "created", td_real_ms(&td_clock_system));

	const struct {
		const char *key, *const *v;
	} lists[] = {{"env", meta->env}, {"entrypoint", meta->entrypoint}, {"cmd", meta->cmd}};
	for (size_t i = 0; i < TD_LEN(lists); i++)
		for (const char *const *s = lists[i].v; s && *s; s++)
			yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, o, lists[i].key), *s);
	td_jm_str(d, o, "user", meta->user);
	td_jm_str(d, o, "workdir", meta->workdir);

	int r;
	if ((r = td_record_write(file, o, 0644, err)) || (r = td_mkdir_p(parent, 0755, err)))
		return r;

	// An image has programs with the setuid bit, which give root's rights. They are for
	// containers, and for no other user of this machine.
	if (chmod(made, 0700) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "chmod %s", made);
	if (td_path_exists(dest) && img_in_use(dest_root))
		return td_fail(err, TD_CONFLICT, "image %s is in use: delete the pods that run from it, then try again",
			       shown);

	// One sync for the whole tree: after a power loss the name must not stand for half of an
	// image.
	td_auto_close int fd = open(made, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		syncfs(fd);

	// An older image and the new one change places, so that the name is never absent.
	if (renameat2(AT_FDCWD, made, AT_FDCWD, dest, RENAME_EXCHANGE) == 0)
		return td_rm_rf(made, err);
	if (errno == EINVAL && (r = move_away(dir, dest, err))) // a file system without exchange
		return r;
	return rename(made, dest) < 0 ? td_fail_errno(err, TD_INTERNAL, errno, "put image %s in place", shown) : 0;
}

int td_image_remove(const char *dir, const char *ref, struct td_error *err)
{
	td_auto_free char *name = NULL, *tag = NULL;
	int r = img_name(ref, &name, &tag, err);
	if (r)
		return r;

	td_auto_free char *path = td_asprintf("%s/%s/%s", dir, name, tag), *parent = td_asprintf("%s/%s", dir, name),
			  *rootfs = td_asprintf("%s/rootfs", path);
	if (!td_path_exists(path))
		return td_fail(err, TD_NOT_FOUND, "image \"%s\" is not in the local store: `tandem image list`", ref);

	td_auto_close int lock = -1;
	if ((r = img_lock(dir, NULL, &lock, err)))
		return r;
	if (img_in_use(rootfs))
		return td_fail(err, TD_CONFLICT, "image \"%s\" is in use: delete the pods that run from it first", ref);

	img_sweep(dir);
	if ((r = move_away(dir, path, err)))
		return td_wrap(err, "remove image %s", ref);
	rmdir(parent); // fails when it holds other tags
	return 0;
}
