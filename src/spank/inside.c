// Entering a container. Runs with the user's rights from the start: what it opens, he could open.
#include "spank/inside.h"

#include "base/file.h"
#include "spank/devview.h"
#include "spank/enroot.h"
#include "spank/filter.h"
#include "spank/pretend.h"
#include "spank/start.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

enum { ENV_MAX = 256 << 10 };

bool td_ct_listed(const char *list, const char *name, size_t n)
{
	for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",") == n && !strncmp(p, name, n))
			return true;
	return false;
}

void td_ct_set_environment(const struct td_buf *env, const char *keep)
{
	for (char *p = env->s; p && p < env->s + env->len; p += strlen(p) + 1) {
		char *eq = strchr(p, '=');
		if (!eq || eq == p)
			continue;
		*eq = '\0';
		setenv(p, eq + 1, !td_ct_listed(keep, p, (size_t)(eq - p)));
		*eq = '=';
	}
}

// The language outside is none that an image must have.
static void forget_language(const char *keep)
{
	static const char *const foreign[] = {"LANG", "LANGUAGE", "LC_ALL"};
	for (size_t i = 0; i < TD_LEN(foreign); i++)
		if (!td_ct_listed(keep, foreign[i], strlen(foreign[i])))
			unsetenv(foreign[i]);
}

static const char *of_job(const char *name)
{
	return getenv(name);
}

void td_ct_image_done(struct td_ct_image *i)
{
	td_buf_done(&i->env);
	td_buf_done(&i->workdir);
	td_buf_done(&i->entry);
}

int td_ct_image_read(const char *dir, struct td_ct_image *ret, struct td_error *err)
{
	td_auto_free char *env = td_asprintf("%s/env", dir), *workdir = td_asprintf("%s/workdir", dir),
			  *entry = td_asprintf("%s/entry", dir), *environment = td_asprintf("%s/environment", dir);
	td_auto_image struct td_ct_image i = {.own = td_path_exists(environment)};
	td_auto_buf struct td_buf text = {0};
	int r = i.own ? td_file_read(environment, ENV_MAX, &text, err) : td_file_read(env, ENV_MAX, &i.env, err);
	if (r || (r = td_file_read(workdir, ENV_MAX, &i.workdir, err)) ||
	    (r = td_file_read(entry, ENV_MAX, &i.entry, err)))
		return r;
	if (i.own)
		td_ct_environment_parse(td_buf_str(&text), of_job, &i.env);
	*ret = i;
	i = (struct td_ct_image){0};
	return 0;
}

static int open_ns(const char *pid, const char *name, int *ret_fd, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("/proc/%s/ns/%s", pid, name);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? td_fail_errno(err, TD_INTERNAL, errno, "the container is gone: %s", path) : 0;
}

// Opens the namespaces of the container's holder; ret_mnt NULL: not that one.
static int open_both(const char *dir, int *ret_user, int *ret_mnt, struct td_error *err)
{
	td_auto_buf struct td_buf pid = {0};
	td_auto_free char *pid_file = td_asprintf("%s/pid", dir);
	int r = td_file_read(pid_file, 64, &pid, err);
	if (r)
		return r;
	td_auto_free char *number = td_strndup(td_buf_str(&pid), strcspn(td_buf_str(&pid), " "));
	r = open_ns(number, "user", ret_user, err);
	return r || !ret_mnt ? r : open_ns(number, "mnt", ret_mnt, err);
}

int td_ct_join(const char *dir, struct td_error *err)
{
	td_auto_close int user = -1, mnt = -1;
	int r = open_both(dir, &user, &mnt, err);
	if (r)
		return r;
	// Who enters a mount namespace finds himself at its root.
	if (setns(user, CLONE_NEWUSER) || setns(mnt, CLONE_NEWNS))
		return td_fail_errno(err, TD_INTERNAL, errno, "enter the container %s", dir);
	return 0;
}

int td_ct_join_user(const char *dir, struct td_error *err)
{
	td_auto_close int user = -1;
	int r = open_both(dir, &user, NULL, err);
	if (r)
		return r;
	return setns(user, CLONE_NEWUSER) ? td_fail_errno(err, TD_INTERNAL, errno, "enter the container %s", dir) : 0;
}

// As devview.h says. The process is in its task's cgroup and has all capabilities inside, so it needs nobody's help; other
// tasks that enter have mounts and a view of their own.
static int show_devices(struct td_error *err)
{
	td_auto_free char *list = td_malloc(TD_DEVVIEW_LIST);
	char why[TD_DEVVIEW_WHY] = "";
	ssize_t n = td_devview_refused("/dev", list, TD_DEVVIEW_LIST);
	if (n == 0 || (n < 0 && errno == ENOENT))
		return 0;
	if (n < 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		snprintf(why, sizeof(why), "/dev: %s", strerror(errno));
	else if (!td_devview_make("/dev", list, (size_t)n, why))
		return 0;
	return td_fail(err, TD_INTERNAL, "a /dev with the job's devices only: %s", why);
}

static int become(const struct td_ct_inside *in, struct td_error *err)
{
	td_auto_image struct td_ct_image image = {0};
	td_auto_free char *own_dir = td_asprintf("%s/own", in->dir);
	td_auto_close int own = open(own_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			  self = open("/proc/self/exe", O_PATH | O_CLOEXEC); // no user may read it (copy.c)
	int r = td_ct_image_read(in->dir, &image, err);
	if (r || (r = td_ct_join(in->dir, err)) || (r = show_devices(err)))
		return r;
	// The user is root here, and only here: this process may still filter, because it has CAP_SYS_ADMIN inside.
	if (getuid() == 0 && (r = td_ct_pretend(err)))
		return r;
	if (in->filter && !td_calls_set(in->filter))
		return td_fail_errno(err, TD_INTERNAL, errno, "the filter of system calls of the job's project");
	const char *to = *in->workdir ? in->workdir : image.workdir.len ? td_buf_str(&image.workdir) : "/";
	if (chdir(to))
		return td_fail_errno(err, TD_INVALID, errno, "--container-workdir: the directory %s of the container",
				     to);
	if (in->entry != TD_CT_NO_ENTRY && image.entry.len) {
		const struct td_ct_start s = {own, self, &image, in->keep, in->entry == TD_CT_ENTRY_LOG};
		td_auto_free char *cwd = NULL;
		if ((r = td_ct_start(&s, &cwd, &image.env, err)))
			return r;
		if (!*in->workdir && chdir(cwd))
			return td_fail_errno(err, TD_INVALID, errno,
					     "--container-entrypoint: the directory %s of the container", cwd);
	}
	forget_language(in->keep);
	td_ct_set_environment(&image.env, in->keep);
	execvp(in->argv[0], in->argv);
	return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_DENIED, errno, "%s in the container",
			     in->argv[0]);
}

int td_ct_inside(const struct td_ct_inside *in)
{
	struct td_error err = TD_ERROR_INIT;
	int r = become(in, &err);
	fprintf(stderr, "container: %s\n", err.msg);
	return r == TD_NOT_FOUND ? 127 : 126; // as shells say it
}
