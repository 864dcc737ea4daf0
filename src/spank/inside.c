// Entering a container. Runs with the user's rights from the start: what it opens, he could open.
#include "spank/inside.h"

#include "base/file.h"
#include "spank/pretend.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENV_MAX = 256 << 10 };

static bool listed(const char *list, const char *name, size_t n)
{
	for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",") == n && !strncmp(p, name, n))
			return true;
	return false;
}

// The language outside is none that an image must have.
static void set_environment(const struct td_buf *env, const char *keep)
{
	static const char *const foreign[] = {"LANG", "LANGUAGE", "LC_ALL"};
	for (size_t i = 0; i < TD_LEN(foreign); i++)
		if (!listed(keep, foreign[i], strlen(foreign[i])))
			unsetenv(foreign[i]);
	for (char *p = env->s; p && p < env->s + env->len; p += strlen(p) + 1) {
		char *eq = strchr(p, '=');
		if (!eq || eq == p)
			continue;
		*eq = '\0';
		setenv(p, eq + 1, !listed(keep, p, (size_t)(eq - p)));
		*eq = '=';
	}
}

static int open_ns(const char *pid, const char *name, int *ret_fd, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("/proc/%s/ns/%s", pid, name);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? td_fail_errno(err, TD_INTERNAL, errno, "the container is gone: %s", path) : 0;
}

int td_ct_inside(const char *dir, const char *workdir, const char *keep, char **argv, struct td_error *err)
{
	td_auto_close int user = -1, mnt = -1;
	td_auto_buf struct td_buf env = {0}, image = {0}, pid = {0};
	td_auto_free char *env_file = td_asprintf("%s/env", dir), *workdir_file = td_asprintf("%s/workdir", dir),
			  *pid_file = td_asprintf("%s/pid", dir);
	int r;
	if ((r = td_file_read(env_file, ENV_MAX, &env, err)) ||
	    (r = td_file_read(workdir_file, ENV_MAX, &image, err)) || (r = td_file_read(pid_file, 32, &pid, err)) ||
	    (r = open_ns(td_buf_str(&pid), "user", &user, err)) || (r = open_ns(td_buf_str(&pid), "mnt", &mnt, err)))
		return r;
	// Who enters a mount namespace finds himself at its root.
	if (setns(user, CLONE_NEWUSER) || setns(mnt, CLONE_NEWNS))
		return td_fail_errno(err, TD_INTERNAL, errno, "enter the container %s", dir);
	// The user is root here, and only here: this process may still filter, because it has CAP_SYS_ADMIN inside.
	if (getuid() == 0 && (r = td_ct_pretend(err)))
		return r;
	const char *to = *workdir ? workdir : image.len ? td_buf_str(&image) : "/";
	if (chdir(to))
		return td_fail_errno(err, TD_INVALID, errno, "--container-workdir: the directory %s of the container",
				     to);
	set_environment(&env, keep);
	execvp(argv[0], argv);
	return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_DENIED, errno, "%s in the container", argv[0]);
}
