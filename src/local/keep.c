// The program behind tandem supervise: starts, restarts and adopts the embedded roles, and nothing
// beyond that.
//
// A role that ends is started again after a back-off (0, 0.2, 0.4 … 5 s; a minute of life resets
// it). When a supervise is killed, its roles go on running. The next supervise finds them by their
// pid files and watches them by pidfd.
#include "local/supervise.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
	const struct td_local_role *role;
	pid_t pid; // 0: not running
	int pidfd;
	int fails;
	int64_t started, next; // monotonic milliseconds
};

static void watch(struct child *c, pid_t pid, int64_t now)
{
	c->pid = pid;
	c->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	c->started = now;
}

static void start(const struct td_instance *i, struct child *c, int64_t now)
{
	td_auto_free char *log = td_instance_path(i, "log/%s.log", c->role->name),
			  *pf = td_local_role_pidfile(i, c->role->name);
	struct td_error err = TD_ERROR_INIT;
	pid_t pid;
	if (td_spawn(c->role->argv.v, NULL, log, &pid, &err)) {
		td_err("%s: %s", c->role->name, err.msg);
		c->fails++;
		c->next = now + 5000;
		return;
	}
	watch(c, pid, now);
	if (td_pidfile_write(pf, pid, &err))
		td_warn("%s: %s", c->role->name, err.msg);
	td_info("%s started, pid %d", c->role->name, (int)pid);
}

static void ended(struct child *c, int64_t now)
{
	int status = 0;
	char how[64] = "ended (was adopted: how is not known)";
	if (waitpid(c->pid, &status, 0) == c->pid)
		snprintf(how, sizeof(how), WIFEXITED(status) ? "exited with %d" : "killed by signal %d",
			 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));

	close(c->pidfd);
	if (now - c->started > 60000)
		c->fails = 0;
	int64_t wait = c->fails ? 200ll << (c->fails > 5 ? 5 : c->fails - 1) : 0;
	if (wait > 5000)
		wait = 5000;

	c->fails++;
	c->pid = 0;
	c->pidfd = -1;
	c->next = now + wait;
	td_warn("%s %s; starting again in %lld ms", c->role->name, how, (long long)wait);
}

// Asks one role to stop and waits for it. Kills it after 10 s.
static void stop(struct child *c)
{
	if (!c->pid)
		return;
	kill(c->pid, SIGTERM);
	struct pollfd p = {c->pidfd, POLLIN, 0};
	if (poll(&p, 1, 10000) == 0) {
		td_warn("%s did not stop within 10 s: killed", c->role->name);
		kill(c->pid, SIGKILL);
		poll(&p, 1, 5000);
	}
	waitpid(c->pid, NULL, 0);
	close(c->pidfd);
	c->pid = 0;
}

int td_supervise_keep(const char *tandem)
{
	td_log_init("supervise", TD_LOG_INFO);
	td_auto(td_cancel_unref) struct td_cancel *cancel = td_cancel_new();
	td_cancel_on_signals(cancel);

	struct td_error err = TD_ERROR_INIT;
	td_auto_instance struct td_instance i = {0};
	if (td_instance_load(&i, &err)) {
		fprintf(stderr, "tandem supervise: %s\n", err.msg);
		return 1;
	}

	pid_t other = td_instance_supervisor(&i);
	// It may be our own pid, which `up` has written.
	if (other && other != getpid()) {
		fprintf(stderr, "tandem supervise: already running for %s\n", i.home);
		return 1;
	}

	td_auto_free char *pf = td_local_role_pidfile(&i, "supervise");
	if (td_pidfile_write(pf, getpid(), &err)) {
		fprintf(stderr, "tandem supervise: %s\n", err.msg);
		return 1;
	}

	prctl(PR_SET_CHILD_SUBREAPER, 0);
	struct td_local_role *roles = NULL;
	size_t n = td_roles(&i, tandem, &roles);
	struct child *c = td_calloc(n, sizeof(*c));
	struct pollfd *p = td_calloc(n + 1, sizeof(*p));

	int64_t now = td_mono_ms(&td_clock_system);
	for (size_t k = 0; k < n; k++) {
		c[k] = (struct child){.role = &roles[k], .pidfd = -1};
		td_auto_free char *rpf = td_local_role_pidfile(&i, roles[k].name);
		pid_t old = td_pidfile_read(rpf);
		if (old) {
			watch(&c[k], old, now);
			td_info("%s adopted, pid %d", roles[k].name, (int)old);
		}
	}

	while (!td_cancelled(cancel)) {
		now = td_mono_ms(&td_clock_system);
		int64_t wait = 60000;
		for (size_t k = 0; k < n; k++) {
			if (!c[k].pid && c[k].next <= now)
				start(&i, &c[k], now);
			if (!c[k].pid && c[k].next - now < wait)
				wait = c[k].next - now > 0 ? c[k].next - now : 1;
			p[k] = (struct pollfd){c[k].pid ? c[k].pidfd : -1, POLLIN, 0};
		}

		p[n] = (struct pollfd){td_cancel_fd(cancel), POLLIN, 0};
		poll(p, n + 1, (int)wait);
		for (size_t k = 0; k < n; k++)
			if (c[k].pid && p[k].revents)
				ended(&c[k], td_mono_ms(&td_clock_system));
	}

	td_info("stopping");
	for (size_t k = n; k-- > 0;) { // in reverse order: the API goes last
		stop(&c[k]);
		td_auto_free char *rpf = td_local_role_pidfile(&i, roles[k].name);
		unlink(rpf);
	}

	unlink(pf);
	free(c);
	free(p);
	td_roles_done(roles, n);
	return 0;
}
