// Processes in a running container, started by `runc exec -d`, which leaves no helper process
// behind. The process becomes a child of the agent (a subreaper), so that its exit code is the true
// one. Its stdio are pipes of the agent, or a pty of the container's own devpts.
#include "base/file.h"
#include "oci/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXEC_MS = 30000, FREE_MS = 5000 };

struct td_oci_proc {
	pid_t pid;
	int pidfd, in, out, err; // with a tty, `out` is the pty's master and `in` a copy
	bool tty, ended;
	int code;
};

struct exec_files {
	char *pid, *sock, *log;
};
static void files_done(struct exec_files *f)
{
	char **const all[] = {&f->pid, &f->sock, &f->log};
	for (size_t i = 0; i < TD_LEN(all); i++) {
		if (*all[i])
			unlink(*all[i]);
		free(*all[i]);
	}
}
#define auto_files __attribute__((cleanup(files_done)))

static int listen_at(const char *path, int *ret, struct td_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(a.sun_path))
		return td_fail(err, TD_INVALID, "the runtime's state directory is too long for a socket: %s", path);
	strcpy(a.sun_path, path);
	unlink(path);
	td_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "console socket %s", path);
	*ret = td_steal_fd(&fd);
	return 0;
}

// Takes the pty's master, which runc sends over its one connection.
static int receive_master(int listener, int *ret, struct td_error *err)
{
	struct pollfd p = {listener, POLLIN, 0};
	if (poll(&p, 1, EXEC_MS) <= 0)
		return td_fail(err, TD_INTERNAL, "runc sent no terminal");

	td_auto_close int conn = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (conn < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "console socket");
	p.fd = conn;
	if (poll(&p, 1, EXEC_MS) <= 0)
		return td_fail(err, TD_INTERNAL, "runc sent no terminal");

	char name[4096];
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} c;
	struct iovec io = {name, sizeof(name)};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};
	if (recvmsg(conn, &m, MSG_CMSG_CLOEXEC) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "console socket");

	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS || h->cmsg_len != CMSG_LEN(sizeof(int)))
		return td_fail(err, TD_INTERNAL, "runc sent no terminal");
	memcpy(ret, CMSG_DATA(h), sizeof(int));
	return 0;
}

int td_oci_exec(struct td_oci *r, const char *id, const struct td_oci_exec *e, struct td_oci_proc **ret,
		struct td_error *err)
{
	struct td_oci_status st;
	int x = td_oci_status(r, id, &st, err);
	if (x)
		return x;
	if (st.state != TD_OCI_RUNNING)
		return td_fail(err, TD_NOT_FOUND, "container %s is not running", id);
	if (!e->args || !e->args[0])
		return td_fail(err, TD_INVALID, "exec in container %s: no command", id);
	if ((x = td_mkdir_p(r->exec_dir, 0700, err)))
		return x;

	unsigned n = __atomic_add_fetch(&r->next_exec, 1, __ATOMIC_RELAXED);
	auto_files struct exec_files f = {.pid = td_asprintf("%s/%d-%u.pid", r->exec_dir, (int)getpid(), n),
					  .sock = td_asprintf("%s/%d-%u", r->exec_dir, (int)getpid(), n),
					  .log = td_asprintf("%s/%d-%u.log", r->exec_dir, (int)getpid(), n)};
	unlink(f.pid);
	unlink(f.log);

	td_auto_strv struct td_strv a = {0};
	const char *const head[] = {r->runc, "--root", r->state_dir, "--log",      f.log, "--log-format",
				    "json",  "exec",   "-d",         "--pid-file", f.pid};
	for (size_t i = 0; i < TD_LEN(head); i++)
		td_strv_add(&a, head[i]);
	bool term = false;
	for (const char *const *v = e->env; v && *v; v++) {
		td_strv_add(&a, "--env");
		td_strv_add(&a, *v);
		term = term || td_starts(*v, "TERM=");
	}
	if (e->tty && !term) {
		td_strv_add(&a, "--env");
		td_strv_add(&a, "TERM=xterm");
	}

	td_auto_close int listener = -1, in_r = -1, in_w = -1, out_r = -1, out_w = -1, err_r = -1, err_w = -1,
			  master = -1;
	if (e->tty) {
		if ((x = listen_at(f.sock, &listener, err)))
			return x;
		td_strv_add(&a, "--tty");
		td_strv_add(&a, "--console-socket");
		td_strv_add(&a, f.sock);
	} else if ((e->stdin_open && (x = td_oci_pipe(&in_r, &in_w, err))) || (x = td_oci_pipe(&out_r, &out_w, err)) ||
		   (x = td_oci_pipe(&err_r, &err_w, err))) {
		return x;
	}

	td_auto_close int program = e->program > 0 ? fcntl(e->program, F_DUPFD_CLOEXEC, 10) : -1;
	if (e->program > 0 && program < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "exec in container %s", id);
	if (program >= 0) { // descriptor 3 there
		td_strv_add(&a, "--preserve-fds");
		td_strv_add(&a, "1");
	}

	td_strv_add(&a, id);
	// Not PID 1, so it becomes the command, with a shell's exit codes for "not found" and "not
	// executable".
	td_strv_add(&a, "/.init");
	for (const char *const *v = e->args; *v; v++)
		td_strv_add(&a, program >= 0 && v == e->args ? "/proc/self/fd/3" : *v);

	int status = 0;
	if (in_r >= 0)
		in_r = td_oci_high_fd(in_r);
	// So that what runs may open its /dev/stdout, whatever its user namespace.
	const int fds[] = {in_r, out_w, err_w, program};
	uint32_t root = td_users_root_of(st.pid);
	for (size_t i = 0; i < 3 && root; i++)
		if (fds[i] >= 0 && fchown(fds[i], root, root) < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "exec in container %s", id);
	if ((x = td_oci_spawn_wait(a.v, fds, program >= 0 ? 4 : 3, EXEC_MS, NULL, &status, err)))
		return td_wrap(err, "exec in container %s", id);

	if (status) {
		td_auto_buf struct td_buf words = {0};
		td_oci_runc_words(f.log, NULL, &words);
		return td_fail(err, TD_INVALID, "exec in container %s: %s", id, td_buf_str(&words));
	}

	td_auto_buf struct td_buf text = {0};
	long long pid = 0;
	if (td_file_read(f.pid, 64, &text, NULL) || !td_parse_i64(td_buf_str(&text), &pid) || pid <= 1)
		return td_fail(err, TD_INTERNAL, "exec in container %s: runc left no pid", id);

	td_auto(td_oci_proc_free) struct td_oci_proc *p = td_calloc(1, sizeof(*p));
	*p = (struct td_oci_proc){.pid = (pid_t)pid, .pidfd = -1, .in = -1, .out = -1, .err = -1, .tty = e->tty};
	// The process is an unreaped child of this one, so no other process can have its number.
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (p->pidfd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "exec in container %s: process %d", id, (int)p->pid);

	if (e->tty) {
		if ((x = receive_master(listener, &master, err)))
			return td_wrap(err, "exec in container %s", id);
		p->out = td_steal_fd(&master);
		if (e->stdin_open)
			p->in = fcntl(p->out, F_DUPFD_CLOEXEC, 3);
		if (e->rows > 0 && e->cols > 0)
			td_oci_proc_resize(p, e->rows, e->cols);
	} else {
		p->in = td_steal_fd(&in_w);
		p->out = td_steal_fd(&out_r);
		p->err = td_steal_fd(&err_r);
	}

	*ret = td_steal(p);
	return 0;
}

int td_oci_proc_in(const struct td_oci_proc *p)
{
	return p->in;
}

int td_oci_proc_out(const struct td_oci_proc *p)
{
	return p->out;
}

int td_oci_proc_err(const struct td_oci_proc *p)
{
	return p->err;
}

void td_oci_proc_close_in(struct td_oci_proc *p)
{
	if (p->in >= 0)
		close(td_steal_fd(&p->in));
}

int td_oci_proc_resize(struct td_oci_proc *p, int rows, int cols)
{
	struct winsize w = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
	return p->tty && ioctl(p->out, TIOCSWINSZ, &w) == 0 ? 0 : TD_INVALID;
}

static void collect(struct td_oci_proc *p)
{
	siginfo_t si = {0};
	int r;
	while ((r = waitid(P_PID, (id_t)p->pid, &si, WEXITED | WNOHANG)) < 0 && errno == EINTR)
		;
	p->ended = true;
	// The process is not a child of this one when another subreaper is in between. It has
	// ended, and its exit code cannot be known.
	p->code = r < 0 || !si.si_pid ? 255 : si.si_code == CLD_EXITED ? si.si_status : 128 + si.si_status;
}

int td_oci_proc_wait(struct td_oci_proc *p, struct td_cancel *c, int *ret_code, struct td_error *err)
{
	while (!p->ended) {
		struct pollfd f[2] = {{p->pidfd, POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
		if (poll(f, 2, -1) < 0 && errno != EINTR)
			return td_fail_errno(err, TD_INTERNAL, errno, "wait for process %d", (int)p->pid);
		if (f[0].revents)
			collect(p);
		else if (td_cancelled(c))
			return td_fail(err, TD_CANCELLED, "wait for process %d: cancelled", (int)p->pid);
	}
	*ret_code = p->code;
	return 0;
}

struct td_oci_proc *td_oci_proc_free(struct td_oci_proc *p)
{
	if (!p)
		return NULL;

	if (!p->ended && p->pidfd >= 0) {
		// The process leads a group of its own, and is not reaped yet, so the number is
		// still its own.
		kill(-p->pid, SIGKILL);
		kill(p->pid, SIGKILL);
		poll(&(struct pollfd){p->pidfd, POLLIN, 0}, 1, FREE_MS);
		collect(p);
	}

	const int fds[] = {p->pidfd, p->in, p->out, p->err};
	for (size_t i = 0; i < TD_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(p);
	return NULL;
}
