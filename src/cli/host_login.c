// tandem host --login: keeps this machine's sackd at the pool's slurmctld (host_login.h).
//
// sackd proves to Slurm who a user is, without showing him the key, and has the pool's slurm.conf, which his commands
// read: nothing of them changes. It is ended, and the key removed, only when this machine has been refused for as many
// looks as no start of an API server lasts.
#include "cli/host_login.h"
#include "cli/host_daemon.h"

#include "base/clock.h"
#include "base/embedded.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct td_embedded td_cli_files[];

enum { TICK_MS = 500, REFUSED = 6, WELL_MS = 60000 };
#define HOSTS "/etc/hosts"
#define BEGIN "# Slurm of a Tandem pool, by tandem host --login"
#define END "# end of tandem host --login"
// What users' commands read before sackd's (S-A13).
#define FIRST "/etc/slurm/slurm.conf"
#define RUN "/run/slurm" // where sackd has its socket

struct login {
	const struct td_host_login *w;
	struct td_host_who who;
	struct td_kube *k;
	struct td_cancel *cancel;
	struct td_host_seen seen;
	struct td_host_daemon d; // sackd
	int64_t next_look;
	int refused; // looks, one after the other
	char *last;  // the last complaint: it is logged once
};

char *td_host_login_hosts(const char *text, const char *lines)
{
	td_auto_buf struct td_buf b = {0};
	const char *from = strstr(text, BEGIN "\n"), *to = from ? strstr(from, END "\n") : NULL, *next;
	// A beginning without its end is somebody else's text now, as is all behind it.
	while (to && (next = strstr(from + 1, BEGIN "\n")) && next < to)
		from = next;
	if (to) {
		td_buf_add(&b, text, (size_t)(from - text));
		td_buf_add(&b, to + strlen(END "\n"), strlen(to + strlen(END "\n")));
	} else {
		td_buf_add(&b, text, strlen(text));
	}
	if (*lines)
		td_buf_printf(&b, "%s" BEGIN "\n%s" END "\n", b.len && b.s[b.len - 1] != '\n' ? "\n" : "", lines);
	return td_buf_take(&b);
}

// In place: who has it mounted, as slurmd's jobs may, goes on seeing it.
static int write_hosts(const char *lines, struct td_error *err)
{
	td_auto_buf struct td_buf have = {0};
	int r = td_file_read(HOSTS, 1 << 20, &have, NULL);
	if (r && r != TD_NOT_FOUND)
		return td_fail(err, r, HOSTS " cannot be read");
	td_auto_free char *want = td_host_login_hosts(td_buf_str(&have), lines);
	if (td_streq(want, td_buf_str(&have)))
		return 0;
	return td_host_write_in_place(HOSTS, want, strlen(want), err);
}

static int start(struct login *l, struct td_error *err)
{
	setenv("TD_DIR", l->w->dir, 1);
	setenv("TD_SERVERS", l->seen.servers, 1);
	setenv("TD_STANDIN", l->w->standin, 1);
	setenv("TD_KEEP", td_embedded(td_cli_files, "host-keep.sh")->text, 1);
	char *argv[] = {"sh", "-c", (char *)(uintptr_t)td_embedded(td_cli_files, "host-login.sh")->text, "tandem-host",
			NULL};
	const int fds[] = {-1, 1, 2};
	int r = td_start(argv, NULL, fds, 3, 0, &l->d.pid, err);
	if (!r)
		td_info("sackd is started: Slurm's commands here reach %s/%s", l->who.ns, l->w->cluster);
	return r;
}

// Who was admitted and is no more. What fails is tried again at the next look, because the key is still there.
static void leave(struct login *l)
{
	struct td_error err = TD_ERROR_INIT;
	td_host_daemon_stop(&l->d);
	// Another Slurm's sackd, which may be another user's, takes it from root, and from no third.
	if (chown(RUN, 0, 0) && errno != ENOENT)
		td_warn("giving %s back to root: %s", RUN, strerror(errno));
	if (write_hosts("", &err) || td_host_hook(l->w->after, l->who.name, l->cancel, &err)) {
		td_host_complain(&l->last, err.msg);
		return;
	}
	td_host_keys_forget(l->w->dir);
	l->d.not_before = 0; // none has run since: who is admitted again begins with --before
	td_info("this machine may not read the key of %s/%s any more: sackd is ended and the key removed", l->who.ns,
		l->w->cluster);
}

// sackd runs as Slurm's user, who reads the keys then, and nobody else. Nobody sees what else is in the directory.
static int lend_keys(const char *dir, struct td_error *err)
{
	static const char *const names[] = {TD_HOST_KEY, TD_HOST_JWKS};
	const struct passwd *slurm = getpwnam("slurm");
	if (!slurm)
		return td_fail(err, TD_NOT_FOUND,
			       "there is no user slurm on this machine: install sackd's package, which makes it");
	for (size_t i = 0; i < TD_LEN(names); i++) {
		td_auto_free char *path = td_asprintf("%s/%s", dir, names[i]);
		if (chown(path, slurm->pw_uid, (gid_t)-1) && errno != ENOENT)
			return td_fail_errno(err, TD_INTERNAL, errno, "giving %s to the user slurm", path);
	}
	return chmod(dir, 0711) ? td_fail_errno(err, TD_INTERNAL, errno, "opening %s", dir) : 0;
}

static int prepare(struct login *l, struct td_error *err)
{
	bool new = false;
	int r = td_host_keys_write(l->w->dir, &l->seen.key, &l->seen.jwks, &new, err);
	if (!r)
		r = lend_keys(l->w->dir, err);
	if (!r && new && l->d.pid)
		kill(l->d.pid, SIGHUP); // it reads its keys anew
	return r ? r : write_hosts(l->seen.hosts, err);
}

static void look(struct login *l, int64_t now)
{
	struct td_error err = TD_ERROR_INIT;
	int r = td_host_look_login(l->k, &l->who, l->cancel, &l->seen, &err);
	if (r == TD_CANCELLED)
		return;
	if (r != TD_DENIED && r != TD_NOT_FOUND)
		l->refused = 0;
	else if (td_host_key_there(l->w->dir) && ++l->refused >= REFUSED) {
		leave(l);
		return;
	}
	if (r) {
		td_host_complain(&l->last, err.msg);
		// Slurm may be well where Kubernetes is not.
		if (!l->d.pid && l->d.not_before && now >= l->d.not_before && *l->seen.servers &&
		    td_host_key_there(l->w->dir) && start(l, &err))
			td_host_complain(&l->last, err.msg);
		return;
	}
	if (!*l->seen.hosts) {
		td_host_complain(
			&l->last,
			"slurmctld's pod has no address yet, or this machine may not see it: give --controller");
		return;
	}
	if (l->d.pid && now >= l->d.not_before + WELL_MS)
		l->d.back_ms = 0;
	bool first = !l->d.pid && !l->d.not_before;
	if (first && td_host_hook(l->w->before, l->who.name, l->cancel, &err)) {
		td_host_complain(&l->last, err.msg);
		return;
	}
	if (td_path_exists(FIRST)) {
		td_host_complain(&l->last, FIRST
				 " is there, and users' commands read it before the pool's: move it away, as --before "
				 "can");
		return;
	}
	if (prepare(l, &err) || (!l->d.pid && now >= l->d.not_before && start(l, &err)))
		td_host_complain(&l->last, err.msg);
}

int td_host_login_run(const struct td_host_login *w)
{
	struct login l = {.w = w,
			  .who = {.ns = w->ns, .set = w->cluster, .name = w->name, .controller = w->controller}};
	struct td_error err = TD_ERROR_INIT;
	l.cancel = td_cancel_new();
	td_cancel_on_signals(l.cancel);
	umask(022);
	int r = td_mkdir_p(w->dir, 0700, &err);
	if (!r)
		r = td_kube_new(w->conf, &l.k, &err);
	if (r)
		td_err("%s", err.msg);
	while (!r && !td_cancelled(l.cancel)) {
		int64_t now = td_mono_ms(&td_clock_system);
		if (td_host_daemon_reap(&l.d, "sackd", now) && l.d.not_before < l.next_look)
			l.next_look = l.d.not_before;
		if (now >= l.next_look) {
			l.next_look = now + w->look_ms;
			look(&l, now);
		}
		td_cancel_wait(l.cancel, TICK_MS);
	}
	td_host_daemon_stop(&l.d);
	td_host_seen_done(&l.seen);
	td_kube_free(l.k);
	td_cancel_unref(l.cancel);
	free(l.last);
	return r ? 1 : 0;
}
