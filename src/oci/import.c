// `tandem image import`: an OCI layout (a directory, or an archive of one), a `docker save`
// archive, or the tar of a root file system. The image is made in another directory and then
// renamed (image.c), so it is complete or absent. Only unpack.c unpacks what comes from outside.
#include "base/file.h"
#include "oci/image_internal.h"
#include "oci/layout.h"
#include "oci/stream.h"
#include "oci/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const path_env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};

static int64_t size_of(int fd)
{
	struct stat st;
	return fstat(fd, &st) < 0 ? 0 : st.st_size;
}

// Unpacks the file over the directory. ret_digest is the digest of the decompressed tar.
static int unpack_file(int fd, const char *what, const char *dir, bool whiteouts, struct td_oci_stream_progress *p,
		       struct td_cancel *c, char ret_digest[65], struct td_error *err)
{
	td_auto_close int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "open %s", dir);

	td_auto(td_oci_stream_close) struct td_oci_stream *s = NULL;
	p->what = what;
	int r = td_oci_stream_open(fd, what, p, c, &s, err);
	if (r)
		return r;

	td_auto(td_tar_free) struct td_tar *t = td_tar_new(td_oci_stream_read, s);
	struct td_unpack u = {.root = root, .whiteouts = whiteouts, .cancel = c};
	if ((r = td_unpack(&u, t, err)) || (r = td_tar_drain(t, err)))
		return td_wrap(err, "%s", what);

	p->done += size_of(fd);
	td_oci_stream_digest(s, ret_digest);
	return 0;
}

static int one_layer(int in, const struct img_layer *l, size_t i, const char *rootfs, struct td_oci_stream_progress *p,
		     struct td_cancel *c, struct td_error *err)
{
	char is[65];

	td_auto_free char *what = td_asprintf("layer %zu (%.19s)", i + 1, *l->digest ? l->digest : l->path);
	td_auto_close int fd = -1;
	int r = td_img_layout_open(in, l->path, &fd, err);
	if (r)
		return td_wrap(err, "layer %zu", i + 1);

	if (*l->digest) {
		if ((r = td_oci_file_digest(fd, what, c, is, err)))
			return r;
		if (strcmp(is, l->digest) != 0)
			return td_fail(
				err, TD_INVALID,
				"layer %zu (%s): its digest is sha256:%s: it is damaged or not what the manifest means",
				i + 1, l->path, is);
	}

	if ((r = unpack_file(fd, what, rootfs, true, p, c, is, err)))
		return r;
	if (strcmp(is, l->diff_id) != 0)
		return td_fail(err, TD_INVALID,
			       "layer %zu (%s): the digest of its tar is sha256:%s, the configuration says sha256:%s",
			       i + 1, l->path, is, l->diff_id);
	return 0;
}

static int from_layout(int in, const struct img_source *s, const char *rootfs, struct td_oci_stream_progress *p,
		       struct td_cancel *c, struct td_error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		td_auto_close int fd = -1;
		if (!td_img_layout_open(in, s->layers[i].path, &fd, NULL))
			p->total += size_of(fd);
	}
	int r = 0;
	for (size_t i = 0; !r && i < s->n; i++)
		r = one_layer(in, &s->layers[i], i, rootfs, p, c, err);
	return r;
}

static int commit_layout(const char *dir, const char *made, const char *name, const char *tag,
			 const struct img_source *s, struct td_error *err)
{
	const yyjson_val *c = td_jget(td_json_root(s->config), "config");
	td_auto_strv struct td_strv env = {0}, entrypoint = {0}, cmd = {0};
	td_jstrs(td_jget(c, "Env"), &env);
	td_jstrs(td_jget(c, "Entrypoint"), &entrypoint);
	td_jstrs(td_jget(c, "Cmd"), &cmd);

	const char *cwd = td_jstr_or(c, "WorkingDir", "");
	td_auto_free char *absolute = td_asprintf("%s%s", *cwd == '/' ? "" : "/", cwd);

	return td_img_commit(dir, made, name, tag, s->key,
			     &(struct img_meta){.env = (const char *const *)env.v,
						.entrypoint = (const char *const *)entrypoint.v,
						.cmd = (const char *const *)cmd.v,
						.user = td_jstr_or(c, "User", ""),
						.workdir = absolute},
			     err);
}

static int commit_root(const char *dir, const char *made, const char *name, const char *tag, const char *key,
		       const char *rootfs, struct td_error *err)
{
	static const char *const sh[] = {"/bin/sh", NULL};
	const char *const need[] = {"usr", "bin"};
	bool any = false;
	for (size_t i = 0; i < TD_LEN(need); i++) {
		td_auto_free char *p = td_asprintf("%s/%s", rootfs, need[i]);
		struct stat st;
		any = any || lstat(p, &st) == 0;
	}

	if (!any)
		return td_fail(err, TD_INVALID,
			       "it holds neither /usr nor /bin, nor an index.json or a manifest.json: want the tar of "
			       "a root file system, an OCI layout or a `docker save` archive");

	return td_img_commit(dir, made, name, tag, key,
			     &(struct img_meta){.env = path_env, .cmd = sh, .user = "", .workdir = "/"}, err);
}

// The name of the image: the wanted one, else its own when that has a tag.
static int name_it(const char *want, const struct img_source *s, char **ret_name, char **ret_tag, struct td_error *err)
{
	const char *own = s && s->name && strchr(s->name, ':') ? s->name : NULL;
	if (!want && !own)
		return td_fail(err, TD_INVALID, "it does not say the image's name: tandem image import NAME FILE");
	return td_img_name(want ? want : own, ret_name, ret_tag, err);
}

// made: an empty directory of ours. fd: the layout's directory, or a tar.
static int import(const char *dir, const char *made, const char *want, int fd, struct td_oci_stream_progress *p,
		  struct td_cancel *c, char **ret_name, struct td_error *err)
{
	td_auto_free char *rootfs = td_asprintf("%s/rootfs", made), *archive = td_asprintf("%s/archive", made),
			  *name = NULL, *tag = NULL;
	td_auto_close int own = -1;
	char key[65];
	int r, in = td_img_is_layout(fd) ? fd : -1;

	if (in < 0) {
		p->total = size_of(fd);
		if ((r = td_mkdir_p(archive, 0755, err)) ||
		    (r = unpack_file(fd, "the archive", archive, false, p, c, key, err)))
			return r;
		own = open(archive, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (own < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "open %s", archive);
		if (td_img_is_layout(own))
			in = own;
	}

	if (in < 0) {
		if ((r = name_it(want, NULL, &name, &tag, err)))
			return r;
		if (rename(archive, rootfs) < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "rename %s", archive);
		r = commit_root(dir, made, name, tag, key, rootfs, err);
	} else {
		struct img_source s = {0};
		r = td_img_layout_read(in, want, &s, err);
		if (!r)
			r = name_it(want, &s, &name, &tag, err);
		if (!r)
			r = td_mkdir_p(rootfs, 0755, err);
		if (!r)
			r = from_layout(in, &s, rootfs, p, c, err);
		if (!r)
			r = td_rm_rf(archive, err);
		if (!r)
			r = commit_layout(dir, made, name, tag, &s, err);
		td_img_source_done(&s);
	}

	if (!r && ret_name)
		*ret_name = td_img_shown(name, tag);
	return r;
}

int td_image_import(const char *dir, const char *want, const char *path,
		    void (*progress)(void *ctx, int percent, const char *what), void *ctx, struct td_cancel *c,
		    char **ret_name, struct td_error *err)
{
	td_auto_free char *name = NULL, *tag = NULL;
	int r = want ? td_img_name(want, &name, &tag, err) : 0;
	if (r)
		return r;

	td_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_DENIED, errno, "import %s", path);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return td_fail(err, TD_INVALID, "import %s: want a file or the directory of an OCI layout", path);
	if (S_ISDIR(st.st_mode) && !td_img_is_layout(fd))
		return td_fail(err, TD_INVALID, "import %s: the directory holds no index.json: it is no OCI layout",
			       path);

	td_auto_close int lock = -1;
	if ((r = td_img_lock(dir, c, &lock, err)))
		return r;
	td_img_sweep(dir);

	td_auto_free char *made = td_img_new_dir(dir);
	struct td_oci_stream_progress p = {.f = progress, .ctx = ctx, .last = -1};
	if (!(r = td_mkdir_p(made, 0700, err)))
		r = import(dir, made, want, fd, &p, c, ret_name, err);

	if (r)
		td_rm_rf(made, NULL);
	return r ? td_wrap(err, "import %s", path) : 0;
}
