// tandem-container: its modes. See container.h.
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "spank/as.h"
#include "spank/enter.h"
#include "spank/filter.h"
#include "spank/groupkeep.h"
#include "spank/holder.h"
#include "spank/inside.h"
#include "spank/keep.h"
#include "spank/layout.h"
#include "spank/pull.h"
#include "spank/reference.h"
#include "spank/save.h"
#include "spank/scratch.h"
#include "spank/start.h"
#include "spank/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const struct td_error *err)
{
	printf("error %s\n", err->msg);
	return 1;
}

static void tell(int fd, const char *word, const char *text)
{
	td_auto_free char *line = td_asprintf("%s %s", word, text);
	td_info("%s", line);
	send(fd, line, strlen(line), MSG_NOSIGNAL);
}

static void say(void *ctx, const char *text)
{
	tell(*(int *)ctx, "say", text);
}

static void groups(const char *text, struct td_ct_owner *ret)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, text, ',');
	ret->n_groups = 0;
	for (size_t i = 0; i < l.n && i < TD_LEN(ret->groups); i++) {
		long long n;
		if (td_parse_i64(l.v[i], &n) && n >= 0)
			ret->groups[ret->n_groups++] = (gid_t)n;
	}
}

struct ask {
	const char *job, *step, *uid, *gid, *groups, *user, *home, *image, *mounts, *name, *cwd, *save;
	const char *mount_home, *remap_root, *writable, *entrypoint, *nodes;
};

static bool is_name(const char *s)
{
	size_t n = strlen(s);
	return n && n <= 64 && s[0] != '.' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static bool chosen(const char *said, bool usual)
{
	return said ? !strcmp(said, "yes") : usual;
}

// The cache may have grown beyond its limit.
static void trim(void)
{
	td_auto_settings struct td_ct_settings s = {0};
	if (!td_ct_settings_read(TD_CT_CONF, &s, NULL))
		td_ct_store_trim(s.limit, &s.pull, NULL);
}

// The container's own files belong to its user; the directory around them is root's.
static int own_directory(const char *dir, const struct td_ct_owner *who, struct td_error *err)
{
	td_auto_free char *own = td_asprintf("%s/own", dir);
	if ((mkdir(own, 0700) && errno != EEXIST) || lchown(own, who->uid, who->gid))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", own);
	return 0;
}

// What the image says about its start, for tasks, which read it as the user.
static int describe(const char *dir, const struct td_ct_owner *who, bool entry, struct td_error *err)
{
	static const char *const files[] = {"env", "workdir", "entry", "environment"};
	enum { ENTRY = 2, ENVIRONMENT };
	for (size_t i = 0; i < TD_LEN(files); i++) {
		td_auto_free char *from = td_asprintf("%s/tree/%s", dir, files[i]),
				  *to = td_asprintf("%s/%s", dir, files[i]);
		td_auto_buf struct td_buf b = {0};
		bool there = i < ENTRY || td_path_exists(from);
		if (!there && i == ENVIRONMENT)
			continue;
		if (!there && entry)
			return td_fail(err, TD_UNSUPPORTED,
				       "--container-entrypoint: this node unpacked the image when Tandem did not yet "
				       "note entry "
				       "points; write the entry point's program before your command until the image is "
				       "fetched "
				       "anew");
		int r = there ? td_file_read(from, 256 << 10, &b, err) : 0;
		if (!r)
			r = td_file_write(to, td_buf_str(&b), b.len, 0400, err);
		if (r)
			return r;
		if (lchown(to, who->uid, who->gid))
			return td_fail_errno(err, TD_INTERNAL, errno, "%s", to);
	}
	return 0;
}

static bool entry_wanted(const struct ask *a)
{
	return chosen(a->entrypoint, false); // as Pyxis
}

// An image's path, from the job's directory.
static char *image_path(const struct ask *a)
{
	const char *image = a->image;
	while (image[0] == '.' && image[1] == '/')
		image += 2;
	return !td_ct_is_path(a->image) || a->image[0] == '/' ? td_strdup(image)
							      : td_asprintf("%s/%s", a->cwd ? a->cwd : "", image);
}

static int make(const struct ask *a, const struct td_ct_owner *who, const char *id, const int fds[2],
		struct td_error *err)
{
	int fd = fds[0];
	td_auto_free char *dir = td_asprintf(TD_CT_RUN "/%s", id);
	td_auto_settings struct td_ct_settings s = {0};
	td_auto_mounts struct td_ct_mounts mounts = {0};
	td_auto_close int lock = -1;
	td_auto_free char *lock_name = td_asprintf("run.%s", id);
	int r = td_ct_settings_read(TD_CT_CONF, &s, err);
	if (r || (r = td_ct_mounts_parse(a->mounts ? a->mounts : "", &mounts, err)) ||
	    (r = td_ct_store_lock(lock_name, &lock, err)))
		return r;
	if (a->save && !chosen(a->writable, !s.read_only))
		return td_fail(
			err, TD_INVALID,
			"--container-save=%.200s: the container is read-only, so there is nothing to save; write "
			"--container-writable",
			a->save);
	bool lives;
	r = td_ct_holder_lives(dir, &lives, err);
	if (r || lives) // another task of the step, or another step of the job, made it
		return r;
	if (!a->image)
		return td_fail(err, TD_NOT_FOUND,
			       "there is no container with the name %s in this job on this node, and no "
			       "--container-image to make it from",
			       a->name);
	td_auto_free char *key = NULL, *image = image_path(a);
	if ((r = td_ct_pull(&(struct td_ct_pull){who, image, id, &s, fds[1], say, &fd}, &key, err)))
		return r;

	const struct td_ct_enter e = {.dir = dir,
				      .owner = who,
				      .job = a->job,
				      .cwd = a->cwd ? a->cwd : "/",
				      .mounts = &mounts,
				      .home = chosen(a->mount_home, s.home),
				      .root = chosen(a->remap_root, s.root),
				      .read_only = !chosen(a->writable, !s.read_only)};
	if ((r = own_directory(dir, who, err)) || (r = describe(dir, who, entry_wanted(a), err)) ||
	    (r = td_ct_enter_make(&e, err))) {
		td_ct_store_release(id, NULL);
		return r;
	}
	return 0;
}

static int checked(const struct ask *a, struct td_ct_owner *who, char **ret_id, struct td_error *err)
{
	long long uid, gid, job, step;
	if (!td_parse_i64(a->uid, &uid) || !td_parse_i64(a->gid, &gid) || !td_parse_i64(a->job, &job) ||
	    !td_parse_i64(a->step, &step))
		return td_fail(err, TD_INVALID, "a number is none");
	who->uid = (uid_t)uid;
	who->gid = (gid_t)gid;
	who->name = a->user ? a->user : "";
	who->home = a->home && a->home[0] == '/' && a->home[1] ? a->home : "";
	groups(a->groups ? a->groups : "", who);

	// "NAME:create" and the like say what Pyxis does with a running container; the name is before it.
	td_auto_free char *name = a->name ? td_strndup(a->name, strcspn(a->name, ":")) : NULL;
	if (uid == 0)
		return td_fail(err, TD_DENIED, "root has no containers here; run the job as a user");
	if (uid == TD_CT_UID)
		return td_fail(
			err, TD_DENIED,
			"user %d owns the images of the node; no person may have this number: give the user another",
			TD_CT_UID);
	if (name && !is_name(name))
		return td_fail(err, TD_INVALID,
			       "--container-name=%.80s: a name has letters, digits, '_', '.' and '-' (not '.' first), "
			       "at most 64",
			       a->name);
	long long nodes = 1;
	if (a->save && a->nodes && td_parse_i64(a->nodes, &nodes) && nodes > 1)
		return td_fail(
			err, TD_INVALID,
			"--container-save=%.200s: the step has %lld nodes, each with a container of its own, and this "
			"is one file; save in a step on one node (srun -N1)",
			a->save, nodes);
	*ret_id = name ? td_asprintf("%lld-%s", job, name) : td_asprintf("%lld.%lld", job, step);
	return 0;
}

static bool parse(int argc, char **argv, struct ask *a)
{
	const struct td_option options[] = {
		{.name = "job", .value = "ID", .help = "the job", TD_OPT_TEXT(&a->job), .required = true},
		{.name = "step", .value = "ID", .help = "its step", TD_OPT_TEXT(&a->step), .required = true},
		{.name = "uid", .value = "N", .help = "its user", TD_OPT_TEXT(&a->uid), .required = true},
		{.name = "gid", .value = "N", .help = "his group", TD_OPT_TEXT(&a->gid), .required = true},
		{.name = "groups", .value = "N,…", .help = "all his groups", TD_OPT_TEXT(&a->groups)},
		{.name = "user", .value = "NAME", .help = "his name", TD_OPT_TEXT(&a->user)},
		{.name = "home", .value = "PATH", .help = "his home directory", TD_OPT_TEXT(&a->home)},
		{.name = "cwd", .value = "PATH", .help = "the job's directory", TD_OPT_TEXT(&a->cwd)},
		{.name = "image", .value = "IMAGE", .help = "--container-image", TD_OPT_TEXT(&a->image)},
		{.name = "mounts", .value = "LIST", .help = "--container-mounts", TD_OPT_TEXT(&a->mounts)},
		{.name = "name", .value = "NAME", .help = "--container-name", TD_OPT_TEXT(&a->name)},
		{.name = "save", .value = "PATH", .help = "--container-save", TD_OPT_TEXT(&a->save)},
		{.name = "mount-home",
		 .value = "yes|no",
		 .help = "--container-mount-home",
		 TD_OPT_TEXT(&a->mount_home)},
		{.name = "remap-root",
		 .value = "yes|no",
		 .help = "--container-remap-root",
		 TD_OPT_TEXT(&a->remap_root)},
		{.name = "writable", .value = "yes|no", .help = "--container-writable", TD_OPT_TEXT(&a->writable)},
		{.name = "entrypoint",
		 .value = "yes|no",
		 .help = "--container-entrypoint",
		 TD_OPT_TEXT(&a->entrypoint)},
		{.name = "nodes", .value = "N", .help = "nodes of the step", TD_OPT_TEXT(&a->nodes)},
	};
	const struct td_command c = {.name = "container prepare",
				     .about = "Makes the container of a step; the plug-in calls it.",
				     .options = options,
				     .n = TD_LEN(options)};
	int code;
	return td_command_line(&c, argc, argv, NULL, &code);
}

static int check_save(void *ctx, struct td_error *err)
{
	return td_ct_save_check(ctx, err);
}

// In the task's place, as root: what needs the view of the job and the user's rights is done here.
static int early(const struct ask *a, int *ret_file, struct td_error *err)
{
	static struct td_ct_owner who;
	td_auto_free char *id = NULL;
	int r = checked(a, &who, &id, err);
	if (!r && a->save)
		r = td_ct_as(&who, check_save, (void *)a->save, err);
	td_auto_free char *dir = td_asprintf(TD_CT_RUN "/%s", id ? id : "");
	bool lives;
	if (r || !a->image || !td_ct_is_path(a->image) || (r = td_ct_holder_lives(dir, &lives, err)) || lives)
		return r;
	td_auto_free char *path = image_path(a);
	r = td_ct_open_as(&who, path, ret_file, err);
	return r ? td_wrap(err, "--container-image=%.200s", a->image) : 0;
}

static int ask(int argc, char **argv)
{
	struct ask a = {0};
	td_auto_close int file = -1;
	struct td_error err = TD_ERROR_INIT;
	td_auto_strv struct td_strv copy = {0}; // who parses changes the words
	for (int i = 0; i < argc; i++)
		td_strv_add(&copy, argv[i]);
	if (parse(argc, copy.v, &a) && early(&a, &file, &err))
		return fail(&err);
	return td_ct_ask(argc, argv, file);
}

// In the service, in a child of its own.
static void prepare(int argc, char **argv, int fd, int file)
{
	struct ask a = {0};
	static struct td_ct_owner who;
	td_auto_free char *id = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (!parse(argc, argv, &a))
		return tell(fd, "error", "the plug-in and tandem-container are of different versions");
	if (checked(&a, &who, &id, &err) || make(&a, &who, id, (const int[]){fd, file}, &err))
		return tell(fd, "error", err.msg);
	td_auto_free char *dir = td_asprintf(TD_CT_RUN "/%s", id);
	tell(fd, "ready", dir);
	trim();
}

static int wrong_enter(void)
{
	return td_command_wrong("container enter",
				"it takes a container, a directory, names of variables and a program");
}

static struct td_ct_inside inside(char **argv, const struct td_calls_filter *filter, enum td_ct_entry entry)
{
	return (struct td_ct_inside){argv[1], argv[2], argv[3], filter, entry, argv + 4};
}

static enum td_ct_entry entry_of(const char *word)
{
	return !strcmp(word, "log") ? TD_CT_ENTRY_LOG : !strcmp(word, "yes") ? TD_CT_ENTRY : TD_CT_NO_ENTRY;
}

// enter DIRECTORY WORKDIR KEPT-VARIABLES PROGRAM ARGUMENT…: what a step starts.
static int enter_with(const struct td_calls_filter *filter, int argc, char **argv)
{
	if (argc < 5)
		return wrong_enter();
	struct td_ct_inside in = inside(argv, filter, TD_CT_NO_ENTRY);
	return td_ct_inside(&in);
}

static int enter(int argc, char **argv)
{
	return enter_with(NULL, argc, argv);
}

// start yes|log|no FILE TASKS and then as enter: with the entry point, and saved to FILE ("": not).
static int start_with(const struct td_calls_filter *filter, int argc, char **argv)
{
	long long tasks;
	if (argc < 8 || !td_parse_i64(argv[3], &tasks))
		return wrong_enter();
	const struct td_ct_save s = {argv[2], (int)tasks, inside(argv + 3, filter, entry_of(argv[1]))};
	return *s.path ? td_ct_save_run(&s) : td_ct_inside(&s.inside);
}

static int start(int argc, char **argv)
{
	return start_with(NULL, argc, argv);
}

// filter PROGRAM enter|start …: the same under a filter of system calls, as td_calls_text() writes it.
static int filtered(int argc, char **argv)
{
	static struct td_calls_filter f;
	bool begins = argc > 2 && !strcmp(argv[2], "start");
	if (argc < 3 || (!begins && strcmp(argv[2], "enter") != 0) || !td_calls_parse(argv[1], &f))
		return td_command_wrong("container filter", "it takes a filter, and enter or start");
	return begins ? start_with(&f, argc - 2, argv + 2) : enter_with(&f, argc - 2, argv + 2);
}

static bool is_id(const char *s)
{
	size_t n = strspn(s, "0123456789");
	return n && (s[n] == '.' || s[n] == '-') && is_name(s + n + 1);
}

static int release(int argc, char **argv)
{
	struct td_error err = TD_ERROR_INIT;
	if (argc != 2 || !is_id(argv[1]))
		return td_command_wrong("container release", "it takes the id of a container");
	return td_ct_store_release(argv[1], &err) ? fail(&err) : 0;
}

static void plain(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "%s\n", text);
}

static int pull(int argc, char **argv)
{
	td_auto_settings struct td_ct_settings s = {0};
	td_auto_free char *key = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (argc != 2)
		return td_command_wrong("container pull", "it takes an image");
	if (td_ct_settings_read(TD_CT_CONF, &s, &err) ||
	    td_ct_pull(&(struct td_ct_pull){NULL, argv[1], NULL, &s, -1, plain, NULL}, &key, &err)) {
		fprintf(stderr, "tandem-container: %s\n", err.msg);
		return 1;
	}
	printf("%s\n", key);
	return 0;
}

static int list(int argc, char **argv)
{
	(void)argc, (void)argv;
	td_ct_store_print();
	return 0;
}

static int keep(int argc, char **argv)
{
	(void)argc, (void)argv;
	return td_ct_keep(prepare);
}

static int fresh(int argc, char **argv)
{
	(void)argc, (void)argv;
	struct td_error err = TD_ERROR_INIT;
	if (td_ct_store_make(true, &err))
		return fprintf(stderr, "tandem-container: %s\n", err.msg), 1;
	return 0;
}

// scratch fresh|keep|list|size: each job's own /tmp and /dev/shm.
static int scratch(int argc, char **argv)
{
	struct td_error err = TD_ERROR_INIT;
	const char *node = getenv("TD_NODE");
	if (argc == 2 && !strcmp(argv[1], "keep") && node)
		return td_scratch_keep(TD_SCRATCH, node);
	if (argc == 2 && !strcmp(argv[1], "list"))
		return td_scratch_list(TD_SCRATCH);
	if (argc == 3 && !strcmp(argv[1], "size"))
		return printf("%lld\n", (long long)(td_scratch_size(TD_SCRATCH, argv[2]) >> 20)) < 0;
	if (argc != 2 || strcmp(argv[1], "fresh") != 0)
		return td_command_wrong("container scratch",
					"it takes fresh, list, size SHARE, or keep with the node's name in TD_NODE");
	if (td_scratch_fresh(TD_SCRATCH, &err))
		return fprintf(stderr, "tandem-container: %s\n", err.msg), 1;
	return 0;
}

// files login USER COMMAND…, files keep: file systems of storage groups in a login pod.
static int files(int argc, char **argv)
{
	struct td_error err = TD_ERROR_INIT;
	if (argc > 3 && !strcmp(argv[1], "login"))
		return td_groupkeep_login(argv[2], argv + 3);
	if (argc != 2 || strcmp(argv[1], "keep") != 0)
		return td_command_wrong("container files", "it takes login USER COMMAND…, or keep");
	int r = td_groupkeep_look(&err);
	if (r < 0)
		return fprintf(stderr, "tandem-container: %s\n", err.msg), 1;
	return r ? 3 : 0; // 3: there may be more, begun in the meantime
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*f)(int argc, char **argv);
	} modes[] = {{"prepare", ask},     {"enter", enter},     {"start", start},     {"started", td_ct_started},
		     {"release", release}, {"pull", pull},       {"list", list},       {"keep", keep},
		     {"fresh", fresh},     {"scratch", scratch}, {"filter", filtered}, {"files", files}};
	for (size_t i = 0; argc > 1 && i < TD_LEN(modes); i++)
		if (!strcmp(modes[i].name, argv[1]))
			return modes[i].f(argc - 1, argv + 1);
	fprintf(stderr, "usage: tandem-container prepare|release|pull|list|keep|fresh|scratch|files …\n");
	return 2;
}
