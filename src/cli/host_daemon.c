// Keys, and a daemon that is started again when it ends (host_daemon.h).
#include "cli/host_daemon.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACK_MS = 30000, STOP_MS = 20000, HOOK_MS = 120000 };

static int write_key(const char *dir, const char *name, const struct td_buf *key, bool *ret_new, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/%s", dir, name);
	td_auto_buf struct td_buf have = {0};
	int r = td_file_read(path, 1 << 20, &have, NULL);
	bool same = !r && have.len == key->len && (!key->len || !memcmp(have.s, key->s, key->len));
	if (have.s)
		explicit_bzero(have.s, have.len);
	if (same || (!key->len && r == TD_NOT_FOUND))
		return 0;
	*ret_new = true;
	if (!key->len)
		return unlink(path) && errno != ENOENT ? td_fail_errno(err, TD_INTERNAL, errno, "remove %s", path) : 0;
	return td_file_write(path, key->s, key->len, 0600, err);
}

int td_host_keys_write(const char *dir, const struct td_buf *key, const struct td_buf *jwks, bool *ret_new,
		       struct td_error *err)
{
	int r = write_key(dir, TD_HOST_KEY, key, ret_new, err);
	return r ? r : write_key(dir, TD_HOST_JWKS, jwks, ret_new, err);
}

void td_host_keys_forget(const char *dir)
{
	static const char *const names[] = {TD_HOST_KEY, TD_HOST_JWKS};
	for (size_t i = 0; i < TD_LEN(names); i++) {
		td_auto_free char *path = td_asprintf("%s/%s", dir, names[i]);
		unlink(path);
	}
}

bool td_host_key_there(const char *dir)
{
	td_auto_free char *path = td_asprintf("%s/" TD_HOST_KEY, dir);
	return td_path_exists(path);
}

void td_host_daemon_stop(struct td_host_daemon *d)
{
	if (!d->pid)
		return;
	kill(d->pid, SIGTERM);
	int64_t end = td_mono_ms(&td_clock_system) + STOP_MS;
	while (waitpid(d->pid, NULL, WNOHANG) == 0) {
		if (td_mono_ms(&td_clock_system) > end)
			kill(d->pid, SIGKILL);
		td_cancel_wait(NULL, 20);
	}
	d->pid = 0;
}

bool td_host_daemon_reap(struct td_host_daemon *d, const char *name, int64_t now_ms)
{
	int status;
	if (!d->pid || waitpid(d->pid, &status, WNOHANG) != d->pid)
		return false;
	d->pid = 0;
	d->back_ms = d->back_ms ? d->back_ms * 2 : 1000;
	if (d->back_ms > BACK_MS)
		d->back_ms = BACK_MS;
	d->not_before = now_ms + d->back_ms;
	td_warn("%s has ended (%s %d); it is started again in %lld s", name,
		WIFSIGNALED(status) ? "signal" : "exit code",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), (long long)d->back_ms / 1000);
	return true;
}

int td_host_hook(const char *program, const char *name, struct td_cancel *c, struct td_error *err)
{
	char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)name, NULL};
	return program ? td_run_ok(argv, HOOK_MS, c, err) : 0;
}

void td_host_complain(char **last, const char *text)
{
	if (td_streq(*last, text))
		return;
	free(*last);
	*last = td_strdup(text);
	td_warn("%s", text);
}

int td_host_write_in_place(const char *path, const char *text, size_t n, struct td_error *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	int r = fd < 0 ? TD_INTERNAL : td_write_all(fd, text, n, err);
	if (!r && ftruncate(fd, (off_t)n))
		r = TD_INTERNAL;
	if (fd >= 0)
		close(fd);
	return r ? td_fail(err, r, "%s cannot be written", path) : 0;
}
