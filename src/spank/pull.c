// From a registry, an archive or a squashfs file to a tree in the cache.
#include "spank/pull.h"

#include "base/cancel.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "spank/as.h"
#include "spank/enroot.h"
#include "spank/enter.h"
#include "spank/layout.h"
#include "spank/logins.h"
#include "spank/reference.h"
#include "spank/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOOL_MS = 6 * 60 * 60 * 1000, FILE_MAX = 1 << 20, LEAST_MB = 64, LOOK_MS = 200 };
#define MORE_ROOM "lower spec.containers.cache.limit or make room on the node"
static const struct td_ct_owner keeper = {.uid = TD_CT_UID, .gid = TD_CT_UID, .name = "", .home = ""};

// What one pull works with.
struct fetching {
	const struct td_ct_pull *p;
	struct td_ct_reference ref; // of a registry
	char *name;                 // for people
	char *dir;                  // in staging, the keeper's
	char *made;                 // in staging, root's: the tree that comes to be
	char *from;                 // as skopeo has it: "docker://…", "oci-archive:…"
	char *key;                  // of a squashfs file; NULL: it is none
	const char *logins;         // where the credentials come from, for people; NULL: there are none
	bool auth, insecure;
};

static void work_done(struct fetching *w)
{
	td_ct_reference_done(&w->ref);
	if (w->dir)
		td_rm_rf(w->dir, NULL);
	if (w->made)
		td_rm_rf(w->made, NULL);
	free(w->name);
	free(w->dir);
	free(w->made);
	free(w->from);
	free(w->key);
}

// ---- tools ----
struct tool {
	char *const *argv;
	const char *dir;
	int to;                         // gets the output
	bool (*idle)(const char *line); // lines with which a tool may end with 2; NULL: none
};

// A small file may unpack to any size: a tool ends before the node's disk, which all jobs use, is full.
struct disk_watch {
	struct td_cancel *full, *done;
	struct td_error err; // when it is full
};

static void *watch_disk(void *arg)
{
	struct disk_watch *w = arg;
	do
		if (td_file_room(".", LEAST_MB, "what is fetched and unpacked", MORE_ROOM, &w->err)) {
			td_cancel_fire(w->full);
			break;
		}
	while (!td_cancel_wait(w->done, LOOK_MS));
	return NULL;
}

static int run_watched(char *const argv[], int *ret_status, struct td_buf *ret_out, struct td_error *err)
{
	td_auto(td_cancel_unref) struct td_cancel *full = td_cancel_new(), *done = td_cancel_new();
	struct disk_watch w = {full, done, TD_ERROR_INIT};
	pthread_t t;
	if (pthread_create(&t, NULL, watch_disk, &w))
		return td_fail(err, TD_TRANSIENT, "no thread to watch the node's disk");
	int r = td_run(argv, NULL, TOOL_MS, full, ret_status, ret_out, err);
	td_cancel_fire(done);
	pthread_join(t, NULL);
	if (r == TD_CANCELLED)
		*err = w.err;
	return r == TD_CANCELLED ? w.err.code : r;
}

static int run_tool(void *ctx, struct td_error *err)
{
	struct tool *t = ctx;
	setenv("HOME", t->dir, 1);
	setenv("TMPDIR", t->dir, 1);
	setenv("XDG_RUNTIME_DIR", t->dir, 1);
	umask(022);
	if (chdir(t->dir))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", t->dir);
	td_auto_buf struct td_buf out = {0};
	int status = 0, r = run_watched(t->argv, &status, &out, err);
	if (r)
		return r == TD_NOT_FOUND ? td_fail(err, r, "the Slurm image lacks %s", t->argv[0]) : r;
	if (!status)
		return td_write_all(t->to, td_buf_str(&out), out.len, err);

	// The tools write lines of log; the last one says what was wrong, as msg="…".
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&out), '\n');
	while (t->idle && status == 2 && lines.n && t->idle(lines.v[lines.n - 1]))
		free(lines.v[--lines.n]);
	if (t->idle && status == 2 && !lines.n)
		return 0;
	char *last = lines.n ? lines.v[lines.n - 1] : NULL, *msg = last ? strstr(last, "msg=\"") : NULL;
	if (msg) {
		last = msg + 5;
		char *end = strrchr(last, '"'), *to = last;
		if (end)
			*end = '\0';
		for (char *p = last; *p; p++)
			if (*p != '\\' || !p[1])
				*to++ = *p;
		*to = '\0';
	}
	return td_fail(err, TD_DENIED, "%.400s", last ? last : "it says nothing");
}

// Runs a tool as the keeper of the trees, in the work's directory; *ret gets its output.
static int tool_idle(const struct fetching *w, const struct td_strv *argv, bool (*idle)(const char *line),
		     struct td_buf *ret, struct td_error *err)
{
	td_auto_close int fd = memfd_create("output", MFD_CLOEXEC);
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "memfd_create");
	struct tool t = {.argv = argv->v, .dir = w->dir, .to = fd, .idle = idle};
	int r = td_ct_as(&keeper, run_tool, &t, err);
	char buf[65536];
	lseek(fd, 0, SEEK_SET);
	for (ssize_t n; !r && ret && ret->len < FILE_MAX && (n = read(fd, buf, sizeof(buf))) > 0;)
		td_buf_add(ret, buf, (size_t)n);
	return r;
}

static int tool(const struct fetching *w, const struct td_strv *argv, struct td_buf *ret, struct td_error *err)
{
	return tool_idle(w, argv, NULL, ret, err);
}

static void skopeo(const struct fetching *w, struct td_strv *a, const char *verb)
{
	td_strv_add(a, "skopeo");
	td_strv_add(a, "--insecure-policy"); // no policy is installed; what is allowed is the catalogue's matter
	td_strv_add(a, verb);
	bool copy = !strcmp(verb, "copy");
	if (w->auth)
		td_strv_addf(a, "--%sauthfile=%s/auth.json", copy ? "src-" : "", w->dir);
	else if (td_starts(w->from, "docker://"))
		td_strv_add(a, copy ? "--src-no-creds" : "--no-creds");
	if (w->insecure)
		td_strv_add(a, copy ? "--src-tls-verify=false" : "--tls-verify=false");
}

// ---- who may ---
static bool allowed(const struct td_ct_pull *p, const struct td_ct_reference *ref)
{
	const struct td_strv *l = &p->settings->allow;
	bool ok = l->n == 0;
	// ".." would lead out of the directories that are allowed.
	bool up = !ref && (strstr(p->image, "/../") || td_ends(p->image, "/.."));
	for (size_t i = 0; i < l->n && !ok && !up; i++)
		ok = ref ? td_ct_pattern_allows(l->v[i], ref) : td_ct_pattern_allows_path(l->v[i], p->image);
	return ok;
}

static int refuse(const char *name, const struct td_strv *allow, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < allow->n && b.len < 300; i++)
		td_buf_printf(&b, "%s%s", i ? ", " : "", allow->v[i]);
	return td_fail(err, TD_DENIED,
		       "image %.120s is not in this cluster's catalogue (%s); take one of these, or ask whoever runs "
		       "the cluster "
		       "to add it to spec.containers.images.allowed of the SlurmCluster",
		       name, td_buf_str(&b));
}

// Is it one of the images that every node has ready? Those are everybody's.
static bool ready_for_all(const struct td_ct_settings *s, const struct td_ct_reference *ref)
{
	td_auto_free char *ours = td_ct_reference_text(ref);
	for (size_t i = 0; i < s->pull.n; i++) {
		td_auto_reference struct td_ct_reference r = {0};
		if (td_ct_reference_parse(s->pull.v[i], &r, NULL))
			continue;
		td_auto_free char *text = td_ct_reference_text(&r);
		if (!strcmp(text, ours))
			return true;
	}
	return false;
}

static int auth_file(struct fetching *w, const char *text, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/auth.json", w->dir);
	td_auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || fchown(fd, TD_CT_UID, TD_CT_UID))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
	w->auth = true;
	return td_write_all(fd, text, strlen(text), err);
}

static int credentials(struct fetching *w, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	if (!w->p->owner) {
		if (td_file_read(TD_CT_SECRET, FILE_MAX, &b, NULL))
			return 0;
		w->logins = "the cluster's pull secret";
		return auth_file(w, td_buf_str(&b), err);
	}
	if (!*w->p->owner->home)
		return 0;

	td_auto_free char *enroot = td_asprintf("%s/.config/enroot/.credentials", w->p->owner->home),
			  *docker = td_asprintf("%s/.docker/config.json", w->p->owner->home);
	if (!td_ct_read_as(w->p->owner, enroot, FILE_MAX, &b, NULL)) {
		td_auto_free char *text = td_ct_logins_netrc(td_buf_str(&b), w->ref.registry);
		w->logins = text ? "~/.config/enroot/.credentials" : NULL;
		if (text)
			return auth_file(w, text, err);
	}
	td_buf_reset(&b);
	if (td_ct_read_as(w->p->owner, docker, FILE_MAX, &b, NULL))
		return 0;
	w->logins = "~/.docker/config.json";
	return auth_file(w, td_buf_str(&b), err);
}

// ---- where from ----
static int from_registry(struct fetching *w, struct td_error *err)
{
	const char *image = w->p->image;
	if (td_ends(image, ".sqsh") || td_ends(image, ".squashfs"))
		return td_fail(
			err, TD_INVALID,
			"--container-image=%.200s is the name of an image in a registry; for the file write its path, "
			"as in ./%.200s",
			image, image);
	int r = td_ct_reference_parse(image, &w->ref, err);
	if (r)
		return r;
	w->name = td_ct_reference_text(&w->ref);
	if (w->p->owner && !allowed(w->p, &w->ref))
		return refuse(w->name, &w->p->settings->allow, err);
	w->insecure = td_strv_has(&w->p->settings->insecure, w->ref.registry);
	w->from = td_asprintf("docker://%s", w->name);
	return credentials(w, err);
}

// What changes with the file. The time is that of the inode, which nobody can set.
static int file_key(const struct fetching *w, char **ret, off_t *ret_size, struct td_error *err)
{
	struct stat st;
	if (fstat(w->p->file, &st)) // such as one of NFS that was removed there
		return td_fail_errno(err, TD_TRANSIENT, errno, "--container-image=%.200s", w->p->image);
	*ret = td_asprintf("file-%jx-%jx-%jx-%jx.%lx", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino,
			   (uintmax_t)st.st_size, (uintmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	*ret_size = st.st_size;
	return 0;
}

static int copy_of_file(const struct fetching *w, const char *to, struct td_error *err)
{
	td_auto_close int fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	td_auto_free char *before = NULL, *after = NULL;
	off_t size = 0, now;
	if (fd < 0 || fchown(fd, TD_CT_UID, TD_CT_UID))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", to);
	int r = file_key(w, &before, &size, err);
	if (r)
		return r;
	r = td_file_room(TD_CT_CACHE, LEAST_MB + (size >> 20) * 3, "the image's files", MORE_ROOM, err);
	// Not more than there is room for, though its writer may make it longer meanwhile.
	if (r || (r = td_ct_copy(w->p->file, w->p->image, fd, (size_t)size, err)))
		return td_wrap(err, "--container-image");
	if ((r = file_key(w, &after, &now, err)))
		return r;
	if (strcmp(w->key ? w->key : before, after) != 0)
		return td_fail(
			err, TD_INVALID,
			"--container-image=%.200s changed while it was read; start the step again when it is written",
			w->p->image);
	return 0;
}

static int from_file(struct fetching *w, struct td_error *err)
{
	const char *path = w->p->image;
	w->name = td_strdup(path);
	if (!w->p->owner || path[0] != '/' || w->p->file < 0)
		return td_fail(err, TD_INVALID, "--container-image=%.200s: a file is somebody's image, and no node's",
			       path);
	if (!allowed(w->p, NULL))
		return refuse(path, &w->p->settings->allow, err);

	char magic[4] = "";
	if (pread(w->p->file, magic, 4, 0) == 4 && !memcmp(magic, "hsqs", 4)) {
		off_t size;
		return file_key(w, &w->key, &size, err);
	}
	td_auto_free char *file = td_asprintf("%s/archive", w->dir);
	int r = copy_of_file(w, file, err);
	if (r)
		return r;

	// An archive does not say of which of the two kinds it is, so ask.
	static const char *const kinds[] = {"oci-archive", "docker-archive"};
	for (size_t i = 0; i < TD_LEN(kinds); i++) {
		free(w->from);
		w->from = td_asprintf("%s:%s", kinds[i], file);
		td_auto_strv struct td_strv a = {0};
		skopeo(w, &a, "inspect");
		td_strv_add(&a, "--raw");
		td_strv_add(&a, w->from);
		if (!(r = tool(w, &a, NULL, err)))
			return 0;
	}
	return td_fail(
		err, TD_INVALID,
		"--container-image=%.200s is no image: neither a squashfs file (enroot, mksquashfs) nor an archive "
		"of `skopeo copy … oci-archive:FILE` or `docker save`",
		path);
}

// ---- pull ----
static int digest_of(struct fetching *w, char **ret, struct td_error *err)
{
	td_auto_strv struct td_strv a = {0};
	skopeo(w, &a, "inspect");
	if (td_starts(w->from, "docker://"))
		td_strv_add(&a, "--no-tags");
	td_strv_add(&a, "--format={{.Digest}}");
	td_strv_add(&a, w->from);
	td_auto_buf struct td_buf out = {0};
	struct td_error e = TD_ERROR_INIT;
	int r = tool(w, &a, &out, &e);
	if (r == TD_DENIED)
		return td_fail(err, r, "image %.160s cannot be read %s%s%s: %.200s", w->name,
			       w->logins ? "with the credentials in " : "without credentials",
			       w->logins ? w->logins : "",
			       w->logins || !w->ref.registry
				       ? ""
				       : " (they would be in ~/.config/enroot/.credentials or ~/.docker/config.json)",
			       e.msg);
	if (r)
		return td_fail(err, r, "image %.160s: %s", w->name, e.msg);
	const char *s = td_buf_str(&out);
	if (strncmp(s, "sha256:", 7) || strspn(s + 7, "0123456789abcdef") < 64)
		return td_fail(err, TD_INTERNAL, "image %s: skopeo gives no digest", w->name);
	*ret = td_asprintf("sha256-%.64s", s + 7);
	return 0;
}

static int config_to(struct fetching *w, const char *what, const char *file, struct td_error *err)
{
	td_auto_strv struct td_strv a = {0};
	td_auto_free char *path = td_asprintf("%s/%s", w->made, file), *format = td_asprintf("--format=%s", what),
			  *from = td_asprintf("oci:%s/oci:image", w->dir);
	td_strv_add(&a, "skopeo");
	td_strv_add(&a, "inspect");
	td_strv_add(&a, "--config");
	td_strv_add(&a, format);
	td_strv_add(&a, from);
	td_auto_buf struct td_buf out = {0};
	int r = tool(w, &a, &out, err);
	size_t n = out.len && out.s[out.len - 1] == '\n' ? out.len - 1 : out.len; // skopeo ends the line
	return r ? r : td_file_write(path, n ? out.s : "", n, 0600, err);
}

// Makes w->made of what was unpacked. Only root writes there, so that nothing that came from outside
// can lead a write of root's elsewhere.
static int assemble(struct fetching *w, const char *bundle, struct td_error *err)
{
	w->made = td_asprintf("%s.tree", w->dir);
	if (mkdir(w->made, 0700))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", w->made);
	td_auto_free char *from = td_asprintf("%s/rootfs", bundle), *to = td_asprintf("%s/rootfs", w->made),
			  *name = td_asprintf("%s/name", w->made);
	struct stat st;
	if (rename(from, to) || lstat(to, &st))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", to);
	if (!S_ISDIR(st.st_mode))
		return td_fail(err, TD_INVALID, "its root is no directory");
	return td_file_write(name, w->name, strlen(w->name), 0600, err);
}

// What an image's configuration says about its start.
static int configuration(struct fetching *w, struct td_error *err)
{
	int r = config_to(w, "{{range .Config.Env}}{{printf \"%s\\x00\" .}}{{end}}", "env", err);
	if (!r)
		r = config_to(w, "{{.Config.WorkingDir}}", "workdir", err);
	return r ? r : config_to(w, "{{range .Config.Entrypoint}}{{printf \"%s\\x00\" .}}{{end}}", "entry", err);
}

static int fetch(struct fetching *w, const char *key, struct td_error *err)
{
	int r = td_file_room(TD_CT_CACHE, LEAST_MB, "an image", MORE_ROOM, err);
	if (r)
		return r;
	td_auto_free char *oci = td_asprintf("oci:%s/oci:image", w->dir), *image = td_asprintf("%s/oci:image", w->dir),
			  *bundle = td_asprintf("%s/bundle", w->dir);
	td_auto_strv struct td_strv copy = {0}, unpack = {0};
	skopeo(w, &copy, "copy");
	td_strv_add(&copy, "--quiet");
	td_strv_add(&copy, "--dest-compress-format=gzip"); // umoci knows no other
	if (w->ref.path) // what was asked for is what comes, even if the tag moves now
		td_strv_addf(&copy, "docker://%s/%s@sha256:%s", w->ref.registry, w->ref.path, key + 7);
	else
		td_strv_add(&copy, w->from);
	td_strv_add(&copy, oci);
	if ((r = tool(w, &copy, NULL, err)))
		return td_wrap(err, "image %.160s", w->name);

	const char *const argv[] = {"umoci", "unpack", "--rootless", "--image", image, bundle};
	for (size_t i = 0; i < TD_LEN(argv); i++)
		td_strv_add(&unpack, argv[i]);
	if ((r = tool(w, &unpack, NULL, err)))
		return td_wrap(err, "image %.160s: unpack", w->name);
	if ((r = assemble(w, bundle, err)) || (r = configuration(w, err)) || (r = td_ct_store_put(w->made, key, err)))
		return td_wrap(err, "image %.160s", w->name);
	return 0;
}

// ---- a squashfs file ----
// Devices need root; nobody misses them, because /dev is the node's.
static bool no_device(const char *line)
{
	return strstr(line, "could not create") && strstr(line, " device ");
}

// A small file of the unpacked image, whose links are followed inside of it. False: it has none.
static bool file_of_tree(const struct fetching *w, const char *path, size_t max, struct td_buf *ret)
{
	td_auto_free char *rootfs = td_asprintf("%s/rootfs", w->made);
	td_auto_close int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	td_auto_close int fd = root < 0 ? -1 : td_ct_open_in(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	td_auto_buf struct td_buf text = {0};
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || td_file_read_fd(fd, path, max, &text, NULL))
		return false;
	td_buf_puts(ret, td_buf_str(&text)); // ends where a zero byte is
	return true;
}

static int write_to(const struct fetching *w, const char *file, const char *s, size_t n, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/%s", w->made, file);
	return td_file_write(path, s, n, 0600, err);
}

// As enroot has it: /etc/environment, and /etc/rc, which is the entry point and knows the directory.
static int files_of_enroot(const struct fetching *w, struct td_error *err)
{
	static const char entry[] = "/bin/sh\0/etc/rc"; // with its last zero byte
	td_auto_buf struct td_buf environment = {0}, rc = {0};
	file_of_tree(w, "/etc/environment", FILE_MAX / 4, &environment);
	bool has_rc = file_of_tree(w, "/etc/rc", FILE_MAX / 4, &rc);
	td_auto_free char *workdir = td_ct_rc_workdir(td_buf_str(&rc));
	int r = write_to(w, "environment", td_buf_str(&environment), environment.len, err);
	if (!r)
		r = write_to(w, "env", "", 0, err);
	if (!r)
		r = write_to(w, "workdir", workdir ? workdir : "", workdir ? strlen(workdir) : 0, err);
	return r ? r : write_to(w, "entry", entry, has_rc ? sizeof(entry) : 0, err);
}

static int unsquash(struct fetching *w, const char *key, struct td_error *err)
{
	td_auto_free char *file = td_asprintf("%s/image.sqsh", w->dir), *bundle = td_asprintf("%s/bundle", w->dir),
			  *rootfs = td_asprintf("%s/rootfs", bundle);
	int r = copy_of_file(w, file, err);
	if (r)
		return r;
	if (mkdir(bundle, 0700) || chown(bundle, TD_CT_UID, TD_CT_UID))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", bundle);
	// Outside of the job's limits, so with few CPUs and little memory (queues in MB; each is 256 by itself).
	const char *const argv[] = {"unsquashfs", "-no-progress", "-quiet", "-no-xattrs",  "-processors",
				    "4",          "-data-queue",  "64",     "-frag-queue", "64",
				    "-d",         rootfs,         file};
	td_auto_strv struct td_strv a = {0};
	for (size_t i = 0; i < TD_LEN(argv); i++)
		td_strv_add(&a, argv[i]);
	if ((r = tool_idle(w, &a, no_device, NULL, err)))
		return td_wrap(err, "--container-image=%.200s: unpack", w->name);
	if ((r = assemble(w, bundle, err)) || (r = files_of_enroot(w, err)) || (r = td_ct_store_put(w->made, key, err)))
		return td_wrap(err, "--container-image=%.200s", w->name);
	return 0;
}

static int pull(struct fetching *w, char **ret_key, struct td_error *err)
{
	int r = td_ct_is_path(w->p->image) ? from_file(w, err) : from_registry(w, err);
	td_auto_free char *key = w->key ? td_strdup(w->key) : NULL;
	if (r || (!key && (r = digest_of(w, &key, err))))
		return r;

	// Taken or fetched, until it is there: it may be evicted in between.
	for (int i = 0; i < 3; i++) {
		r = td_ct_store_take(key, w->p->id, err);
		if (!r && !w->p->owner)
			r = td_ct_store_set_ready(w->name, key, err);
		if (!r)
			*ret_key = td_steal(key);
		if (r != TD_NOT_FOUND)
			return r;
		// One at a time of each user: many would take the node's disk and its CPUs from all jobs.
		td_auto_free char *whose = w->p->owner ? td_asprintf("user.%u", w->p->owner->uid) : NULL;
		td_auto_close int turn = -1, lock = -1;
		if ((whose && (r = td_ct_store_lock(whose, &turn, err))) || (r = td_ct_store_lock(key, &lock, err)))
			return r;
		if (td_ct_store_has(key))
			continue;
		td_auto_free char *text = td_asprintf("importing image %s", w->name);
		w->p->say(w->p->ctx, text);
		if ((r = w->key ? unsquash(w, key, err) : fetch(w, key, err)))
			return r;
		td_auto_free char *done = td_asprintf("imported image %s", w->name);
		w->p->say(w->p->ctx, done);
	}
	return r;
}

// The tree of an image that every node has ready, without asking its registry. False: it is not there yet.
static bool take_ready(const struct td_ct_pull *p, char **ret_key)
{
	td_auto_reference struct td_ct_reference ref = {0};
	if (!p->owner || td_ct_is_path(p->image) || td_ct_reference_parse(p->image, &ref, NULL) ||
	    !ready_for_all(p->settings, &ref) || !allowed(p, &ref))
		return false;
	td_auto_free char *name = td_ct_reference_text(&ref), *key = td_ct_store_ready(name);
	if (!key || td_ct_store_take(key, p->id, NULL))
		return false;
	*ret_key = td_steal(key);
	return true;
}

// Makes the work's directory. It is locked as long as somebody works in it: td_ct_store_sweep(), which has the
// lock "trees", removes the others.
static int work_begin(struct fetching *w, int *ret_lock, struct td_error *err)
{
	td_auto_free char *dir = td_strdup(TD_CT_STAGING "/pull.XXXXXX");
	td_auto_close int trees = -1, lock = -1;
	int r = td_ct_store_lock("trees", &trees, err);
	if (r)
		return r;
	if (!mkdtemp(dir))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", dir);
	w->dir = td_steal(dir);
	lock = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", w->dir);
	*ret_lock = td_steal_fd(&lock);
	return 0;
}

int td_ct_pull(const struct td_ct_pull *p, char **ret_key, struct td_error *err)
{
	if (take_ready(p, ret_key))
		return 0;
	td_auto_close int lock = -1;
	__attribute__((cleanup(work_done))) struct fetching w = {.p = p};
	int r = work_begin(&w, &lock, err);
	if (r)
		return r;
	if (chown(w.dir, TD_CT_UID, TD_CT_UID))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", w.dir);
	return pull(&w, ret_key, err);
}
