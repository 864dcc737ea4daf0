// The life of a container: start, look, signal, delete; and purge. All state is in files and in the
// kernel, so a new process sees what the old one saw.
//
//   <state_dir>/<id>/state.json   runc's file with the pid and the start time of init; both are
//                                 compared, because pids are reused
//   <pods_dir>/<id>/exit          empty before init is up; "\n" while it runs; then the record
//                                 {"code","signal","at"}, written by init, or here when init was
//                                 killed
//   <pods_dir>/<id>/lock          locked (flock) during a start or a delete, also when the agent
//                                 that began it is gone
#include "base/clock.h"
#include "base/file.h"
#include "oci/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 60000, INIT_MS = 10000, RUNC_MS = 30000, KILL_MS = 10000 };

static char *state_path(const struct td_oci *r, const char *id, const char *file)
{
	return td_asprintf("%s/%s%s%s", r->state_dir, id, file ? "/" : "", file ? file : "");
}

static int check_id(const char *id, struct td_error *err)
{
	return td_oci_id_ok(id)
		       ? 0
		       : td_fail(err, TD_INVALID, "container id \"%s\" is not 1 to 80 of a-z, 0-9 and -", id ? id : "");
}

// ---- look ----
struct record {
	bool there, oom_known, oom;
	int code, signal;
	int64_t at;
};

static void record_read(const struct td_oci *r, const char *id, struct record *ret)
{
	td_auto_free char *p = td_oci_pod_path(r, id, "exit");
	td_auto_buf struct td_buf b = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	*ret = (struct record){0};
	if (td_file_read(p, 4096, &b, NULL) || !b.len || td_json_parse(b.s, b.len, &j, NULL))
		return;

	const yyjson_val *v = td_json_root(j);
	ret->there = true;
	ret->code = (int)td_jint(v, "code", 137);
	ret->signal = (int)td_jint(v, "signal", 0);
	ret->at = td_jint(v, "at", 0);
	ret->oom_known = td_jget(v, "oom") != NULL;
	ret->oom = td_jbool(v, "oom", false);
}

// Writes the exit record of an init that was killed and could not write it. The file is written
// whole under another name and then renamed, so that every later look says the same.
static void record_write(const struct td_oci *r, const char *id, const struct record *rec)
{
	td_auto_free char *p = td_oci_pod_path(r, id, "exit");
	td_auto_free char *text = td_asprintf("{\"code\":%d,\"signal\":%d,\"at\":%lld,\"oom\":%s}\n", rec->code,
					      rec->signal, (long long)rec->at, rec->oom ? "true" : "false");
	// When this fails, the next look tries again.
	td_file_write(p, text, strlen(text), 0640, NULL);
}

struct init {
	// runc has a state of the container.
	bool known;
	pid_t pid;
	uint64_t start;
	int64_t created_ms;
	// The process exists, is no zombie and is the same one.
	bool alive;
	// Init has not come up (yet).
	bool waiting;
};

static void init_read(const struct td_oci *r, const char *id, struct init *ret)
{
	*ret = (struct init){0};

	td_auto_free char *p = state_path(r, id, "state.json");
	td_auto_buf struct td_buf b = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (td_file_read(p, 4 << 20, &b, NULL) || td_json_parse(b.s, b.len, &j, NULL))
		return;

	const yyjson_val *v = td_json_root(j);
	ret->known = true;
	ret->pid = (pid_t)td_jint(v, "init_process_pid", 0);
	ret->start = (uint64_t)td_jint(v, "init_process_start", 0);
	td_time_parse(td_jstr_or(v, "created", ""), &ret->created_ms);

	uint64_t start = 0;
	char state = 0;
	ret->alive = td_oci_proc_stat(ret->pid, &start, &state) && start == ret->start && state != 'Z' && state != 'X';
	// Before init, the process runs runc's own program, also when runc itself is gone. A signal
	// to that program would be lost.
	td_auto_free char *record = td_oci_pod_path(r, id, "exit");
	struct stat st;
	ret->waiting = stat(record, &st) < 0 || st.st_size == 0;
}

// ---- start ----
static bool leftovers(const struct td_oci *r, const char *id)
{
	td_auto_free char *state = state_path(r, id, NULL);
	td_auto_strv struct td_strv cg = {0};
	td_oci_cgroup_paths(r, id, &cg);
	return cg.n || td_path_exists(state);
}

static int fresh_dir(const char *dir, const char *name, mode_t mode, struct td_error *err)
{
	td_auto_free char *p = td_asprintf("%s/%s", dir, name);
	int x;
	if ((x = td_rm_rf(p, err)))
		return x;
	return mkdir(p, mode) < 0 ? td_fail_errno(err, TD_INTERNAL, errno, "create %s", p) : 0;
}

// Takes the lock that a start or a delete of the container holds. It is handed down to the sandbox
// and to runc: a start whose agent was killed goes on for some milliseconds, and nobody may act on
// the container before that start has ended. -1: waited too long, was cancelled, or there is no
// directory.
static int start_lock(const struct td_oci *r, const char *id, struct td_cancel *c)
{
	td_auto_free char *p = td_oci_pod_path(r, id, "lock");
	int fd = open(p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;

	for (int64_t end = td_oci_mono_ms() + START_MS; flock(fd, LOCK_EX | LOCK_NB) < 0;)
		// A blocking flock has neither a deadline nor a cancel.
		if (td_cancel_wait(c, 2) || td_oci_mono_ms() > end) {
			close(fd);
			return -1;
		}
	return td_oci_high_fd(fd);
}

static int delete_locked(struct td_oci *r, const char *id, bool purge, struct td_error *err);

// Waits until init is up. runc reports "started" when its own last program is still about to become
// init. True also when init has already ended.
static bool wait_for_init(const struct td_oci *r, const char *id, struct td_cancel *c)
{
	struct init in;
	for (int64_t end = td_oci_mono_ms() + INIT_MS;;) {
		init_read(r, id, &in);
		if (in.known && !in.waiting)
			return true;
		// Init takes some hundred microseconds to come up. No event tells of it.
		if (!in.known || !in.alive || td_oci_mono_ms() > end || td_cancel_wait(c, 1))
			return in.known && !in.alive;
	}
}

int td_oci_start(struct td_oci *r, const struct td_oci_spec *s, struct td_cancel *c, pid_t *ret_pid,
		 struct td_error *err)
{
	int x;
	if ((x = check_id(s->id, err)))
		return x;

	if (!s->args || !s->args[0])
		return td_fail(err, TD_INVALID,
			       "container %s: no command: neither the container nor its image names one", s->id);
	if (!s->rootfs || s->rootfs[0] != '/' || !td_path_exists(s->rootfs))
		return td_fail(err, TD_NOT_FOUND, "container %s: root file system \"%s\" does not exist", s->id,
			       s->rootfs ? s->rootfs : "");

	td_auto_free char *dir = td_oci_pod_path(r, s->id, NULL), *config = td_oci_pod_path(r, s->id, "config.json"),
			  *pidfile = td_oci_pod_path(r, s->id, "pid"), *exitfile = td_oci_pod_path(r, s->id, "exit"),
			  *log = td_oci_pod_path(r, s->id, "runc.log"), *own_log = td_oci_pod_path(r, s->id, "log"),
			  *half = td_oci_pod_path(r, s->id, ".pid");
	// The upper layer is empty at each start, as with a kubelet: a restarted container sees its
	// image unchanged.
	if ((x = td_mkdir_p(dir, 0711, err)))
		return td_wrap(err, "container %s", s->id);

	td_auto_close int lock = start_lock(r, s->id, c);
	if (lock < 0)
		return td_cancelled(c) ? td_fail(err, TD_CANCELLED, "container %s: cancelled", s->id)
				       : td_fail(err, TD_TRANSIENT,
						 "container %s: an earlier start or delete of it does not end", s->id);
	if (leftovers(r, s->id) && (x = delete_locked(r, s->id, false, err)))
		return td_wrap(err, "container %s: clear what an earlier one left", s->id);

	if ((x = fresh_dir(dir, "upper", 0755, err)) || (x = fresh_dir(dir, "work", 0700, err)))
		return td_wrap(err, "container %s", s->id);

	td_auto_free char *rootfs = td_oci_pod_path(r, s->id, "rootfs");
	if ((x = td_mkdir_p(rootfs, 0755, err)))
		return td_wrap(err, "container %s", s->id);

	td_auto_free char *users_dir = td_oci_pod_path(r, s->id, TD_USERS_DIR);
	if (s->users && !s->netns)
		return td_fail(err, TD_INVALID, "container %s: a user namespace needs a network of its own", s->id);
	if (s->users && ((x = td_mkdir_p(users_dir, 0711, err)) || (x = td_mkdir_p(r->root_dir, 0711, err))))
		return td_wrap(err, "container %s", s->id);

	unlink(pidfile);
	// runc refuses to start when its unfinished pid file exists.
	unlink(half);
	unlink(exitfile);
	unlink(log);
	if ((x = td_oci_config_write(r, s, config, err)))
		return x;

	td_auto_free char *users = s->users ? td_asprintf("%u", s->users) : NULL;
	const char *rotate = s->log_max ? (s->stdin_open ? "--rotate-stdin" : "--rotate") : NULL;
	char *argv[] = {r->self_path,
			"sandbox",
			"--dir",
			dir,
			"--lower",
			(char *)s->rootfs,
			"--runc",
			r->runc,
			"--state",
			r->state_dir,
			"--id",
			(char *)s->id,
			"--log",
			s->log_path ? (char *)s->log_path : own_log,
			users ? "--users" : (char *)rotate,
			users,
			"--netns",
			(char *)s->netns,
			"--root",
			r->root_dir,
			(char *)rotate,
			NULL};

	td_auto_buf struct td_buf out = {0}, text = {0};
	td_auto_close int out_r = -1, out_w = -1;
	if ((x = td_oci_pipe(&out_r, &out_w, err)))
		return x;

	int status = 0;
	struct td_error e2 = TD_ERROR_INIT;
	long long pid = 0;
	const int fds[] = {-1, out_w, out_w, lock};

	x = td_oci_spawn_wait(argv, fds, 4, START_MS, c, &status, &e2);
	if (!x && status) {
		// What the sandbox wrote before it became runc: far less than a pipe holds.
		char buf[4096];
		fcntl(out_r, F_SETFL, O_NONBLOCK);
		ssize_t n = read(out_r, buf, sizeof(buf));
		if (n > 0)
			td_buf_add(&out, buf, (size_t)n);
		td_auto_buf struct td_buf words = {0};
		td_oci_runc_words(log, td_buf_str(&out), &words);
		x = td_fail(&e2, TD_INVALID, "%s", td_buf_str(&words));
	}
	if (!x) {
		if (td_file_read(pidfile, 64, &text, &e2) || !td_parse_i64(td_buf_str(&text), &pid) || pid <= 1)
			x = td_fail(&e2, TD_INTERNAL, "runc left no pid in %s", pidfile);
	}
	if (!x && !wait_for_init(r, s->id, c))
		x = td_cancelled(c)
			    ? td_fail(&e2, TD_CANCELLED, "cancelled")
			    : td_fail(&e2, TD_TRANSIENT, "runc started it, but its init did not come up within %d s",
				      INIT_MS / 1000);

	if (x) {
		delete_locked(r, s->id, false, NULL); // runc may have been killed at any point
		// Its init came up after all, at the last moment: its program may have begun.
		struct stat st;
		if (x == TD_TRANSIENT && !stat(exitfile, &st) && st.st_size > 0)
			x = TD_UNCERTAIN;
		return td_fail(err, x, "container %s: %s", s->id, e2.msg);
	}

	*ret_pid = (pid_t)pid;
	return 0;
}

// ---- status ----
int td_oci_status(struct td_oci *r, const char *id, struct td_oci_status *ret, struct td_error *err)
{
	int x = check_id(id, err);
	if (x)
		return x;

	struct td_oci_status s = {0};
	struct init in;
	struct record rec;

	init_read(r, id, &in);
	record_read(r, id, &rec);
	s.pid = in.pid;
	s.start_ticks = in.start;
	s.started_ms = in.created_ms;

	if (!in.known || (in.waiting && !rec.there)) {
		*ret = (struct td_oci_status){.state = TD_OCI_ABSENT};
		return 0;
	}

	if (in.alive) {
		s.state = TD_OCI_RUNNING;
		*ret = s;
		return 0;
	}

	td_oci_reap(in.pid);
	record_read(r, id, &rec); // it may have been written between the two looks
	if (!rec.oom_known) {
		if (!rec.there)
			rec = (struct record){
				.there = true, .code = 137, .signal = SIGKILL, .at = td_real_ms(&td_clock_system)};
		// When a process inside was killed but the container then ended well, that was the
		// container's own business.
		rec.oom = rec.code == 128 + SIGKILL && td_oci_cgroup_oom_kills(r, id) > 0;
		record_write(r, id, &rec);
	}

	s.state = TD_OCI_STOPPED;
	s.exit_code = rec.code;
	s.signal = rec.signal;
	s.oom_killed = rec.oom;
	s.finished_ms = rec.at;
	*ret = s;
	return 0;
}

int td_oci_settle(struct td_oci *r, const char *id, struct td_cancel *c, struct td_error *err)
{
	int x = check_id(id, err);
	if (x)
		return x;
	td_auto_free char *dir = td_oci_pod_path(r, id, NULL);
	if (!td_path_exists(dir))
		return 0;
	td_auto_close int lock = start_lock(r, id, c);
	if (lock < 0 && td_path_exists(dir))
		return td_cancelled(c)
			       ? td_fail(err, TD_CANCELLED, "container %s: cancelled", id)
			       : td_fail(err, TD_TRANSIENT, "container %s: its start or delete does not end", id);
	return wait_for_init(r, id, c) || !td_cancelled(c) ? 0
							   : td_fail(err, TD_CANCELLED, "container %s: cancelled", id);
}

int td_oci_pidfd(struct td_oci *r, const char *id, int *ret_fd, struct td_error *err)
{
	int x = check_id(id, err);
	if (x)
		return x;

	struct init in;
	init_read(r, id, &in);
	if (!in.known || !in.alive || in.waiting)
		return td_fail(err, TD_NOT_FOUND, "container %s is not running", id);

	td_auto_close int fd = (int)syscall(SYS_pidfd_open, in.pid, 0);
	if (fd < 0)
		return td_fail_errno(err, errno == ESRCH ? TD_NOT_FOUND : TD_INTERNAL, errno, "container %s", id);
	// The descriptor is of that process only if the pid still is.
	init_read(r, id, &in);
	if (!in.alive)
		return td_fail(err, TD_NOT_FOUND, "container %s is not running", id);

	*ret_fd = td_steal_fd(&fd);
	return 0;
}

int td_oci_input(struct td_oci *r, const char *id, int *ret_fd, struct td_error *err)
{
	td_auto_free char *p = td_oci_id_ok(id) ? td_oci_pod_path(r, id, "stdin") : NULL;
	int fd = p ? open(p, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (fd < 0)
		return td_fail(err, TD_NOT_FOUND, "container %s has no open standard input", id);
	*ret_fd = fd;
	return 0;
}

int td_oci_signal(struct td_oci *r, const char *id, int sig, struct td_error *err)
{
	td_auto_close int fd = -1;
	int x = td_oci_pidfd(r, id, &fd, err);
	if (x)
		return x;
	if (syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) < 0)
		return td_fail_errno(err, errno == ESRCH ? TD_NOT_FOUND : TD_INTERNAL, errno, "signal container %s",
				     id);
	return 0;
}

int td_oci_tell(struct td_oci *r, const char *id, int sig)
{
	return td_oci_cgroup_tell(r, id, sig);
}

// ---- delete ----
static void kill_init(const struct td_oci *r, const char *id)
{
	struct init in;
	init_read(r, id, &in);
	if (!in.known || in.pid <= 1)
		return;
	if (in.alive) {
		td_auto_close int fd = (int)syscall(SYS_pidfd_open, in.pid, 0);
		init_read(r, id, &in);
		if (fd >= 0 && in.alive && syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0)
			// The container's pid namespace dies with init.
			poll(&(struct pollfd){fd, POLLIN, 0}, 1, KILL_MS);
	}
	td_oci_reap(in.pid);
}

static int delete_locked(struct td_oci *r, const char *id, bool purge, struct td_error *err)
{
	kill_init(r, id);

	int x;
	if ((x = td_oci_cgroup_kill_all(r, id, KILL_MS, err)))
		return td_wrap(err, "delete container %s", id);

	td_auto_free char *state = state_path(r, id, NULL);
	if (td_path_exists(state)) {
		const char *argv[] = {"delete", id, NULL}, *force[] = {"delete", "-f", id, NULL};
		// A half-made container needs -f, which polls for 100 ms. When that fails too, only
		// the directory is left.
		if (td_oci_runc(r, argv, RUNC_MS, NULL, NULL) && td_oci_runc(r, force, RUNC_MS, NULL, NULL) &&
		    (x = td_rm_rf(state, err)))
			return td_wrap(err, "delete container %s", id);
		if (td_path_exists(state) && (x = td_rm_rf(state, err)))
			return td_wrap(err, "delete container %s", id);
	}

	if ((x = td_oci_cgroup_remove(r, id, err)))
		return td_wrap(err, "delete container %s", id);
	if (!purge)
		return 0;
	td_auto_free char *dir = td_oci_pod_path(r, id, NULL);
	return td_rm_rf(dir, err) ? td_wrap(err, "delete container %s", id) : 0;
}

int td_oci_delete(struct td_oci *r, const char *id, bool purge, struct td_error *err)
{
	int x = check_id(id, err);
	if (x)
		return x;
	td_auto_free char *dir = td_oci_pod_path(r, id, NULL);
	// Without the lock the delete goes on all the same: the container must go.
	td_auto_close int lock = td_path_exists(dir) ? start_lock(r, id, NULL) : -1;
	return delete_locked(r, id, purge, err);
}

int td_oci_busy(struct td_oci *r, const char *id, const char *sub, bool *ret, struct td_error *err)
{
	int x = check_id(id, err);
	if (x)
		return x;
	if (sub && strchr(sub, '/'))
		return td_fail(err, TD_INVALID, "cgroup name \"%s\" is not one directory's name", sub);
	*ret = td_oci_cgroup_busy(r, id, sub);
	return 0;
}

// ---- purge ----

// Unmounts what is below dir. Normally nothing is: overlays live in the containers' own mount
// namespaces.
static void unmount_below(const char *dir)
{
	td_auto_buf struct td_buf b = {0};
	if (td_file_read("/proc/self/mountinfo", 16 << 20, &b, NULL))
		return;

	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&b), '\n');
	size_t n = strlen(dir);
	for (size_t i = lines.n; i-- > 0;) {
		td_auto_strv struct td_strv f = {0};
		td_strv_split(&f, lines.v[i], ' ');
		if (f.n > 4 && td_starts(f.v[4], dir) && (f.v[4][n] == '/' || !f.v[4][n]))
			umount2(f.v[4], MNT_DETACH);
	}
}

int td_oci_purge(struct td_oci *r, const char *netns_prefix, struct td_error *err)
{
	struct td_error first = TD_ERROR_INIT, e = TD_ERROR_INIT;
	// Kill all processes at once, then delete one container after the other. A failure must not
	// keep the rest from being deleted.
	if (td_oci_cgroup_kill_all(r, NULL, KILL_MS, &e))
		first = e;

	td_auto_strv struct td_strv ids = {0}, nets = {0};
	td_oci_list(r, &ids, NULL);
	for (size_t i = 0; i < ids.n; i++)
		if (td_oci_id_ok(ids.v[i]) && td_oci_delete(r, ids.v[i], true, &e) && !first.code)
			first = e;

	if (netns_prefix && *netns_prefix && !td_net_list(netns_prefix, &nets, NULL)) {
		for (size_t i = 0; i < nets.n; i++)
			if (td_net_pod_delete(nets.v[i], &e) && !first.code)
				first = e;
		// The shared mount under the names (made as iproute2 makes it) goes with the last
		// name; the next user makes it again.
		td_auto_strv struct td_strv left = {0};
		if (!td_net_list("", &left, NULL) && !left.n)
			umount2("/run/netns", 0);
	}

	if (td_oci_cgroup_remove(r, NULL, &e) && !first.code)
		first = e;
	unmount_below(r->pods_dir);

	const char *const dirs[] = {r->pods_dir, r->state_dir, r->exec_dir, r->root_dir};
	for (size_t i = 0; i < TD_LEN(dirs); i++)
		if (td_rm_rf(dirs[i], &e) && !first.code)
			first = e;

	if (!first.code)
		return 0;
	return td_fail(err, first.code, "purge: %s", first.msg);
}
