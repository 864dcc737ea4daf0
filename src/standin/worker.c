// `worker`: waits in the pod of a session's further node for what its first node says, and runs it (worker.h). The pod's
// owner is who runs it, and what it starts can do what he can do here and no more. It is the pod's first process on
// clusters: it reaps what nobody else does. In a session in an image over several machines it is outside of the container, at a
// socket (onslurm.c).
#include "standin/worker.h"
#include "standin/greet.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// REQUEST_MS: a client that is known reaches the other nodes before it says what is to be done.
enum { GREET_MS = 10000, REQUEST_MS = 600000, END_MS = 5000, CLIENTS = 256, PIPE = 16384 };

// ---- one command ----

struct command {
	int client;
	int in, out, err; // -1: closed
	pid_t pid;
	uint8_t *got; // from the client
	size_t n_got, cap;
	uint8_t *typed; // not yet taken by the command
	size_t n_typed;
	bool typed_ends;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void set_env(char *const *env)
{
	for (; *env; env++) {
		char *name = *env + 1, *equals = strchr(name, '=');
		*equals = '\0';
		setenv(name, equals + 1, **env == '=');
		*equals = '=';
	}
}

// Becomes the command.
static _Noreturn void become(const struct standin_worker_request *r, int in, int out, int err)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, 0);
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(126);
	set_env(r->env);
	const char *home = getenv("HOME");
	if (chdir(r->dir) && (!home || chdir(home)) && chdir("/"))
		_exit(126);
	_exit(td_standin_exec(r->argv));
}

static bool start(struct command *c, const struct standin_worker_request *r)
{
	int in[2], out[2], err[2];
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		return false;
	c->pid = fork();
	if (!c->pid)
		become(r, in[0], out[1], err[1]);
	if (c->pid > 0)
		setpgid(c->pid, c->pid); // whoever is first: a signal for all of it may come at once
	close(in[0]);
	close(out[1]);
	close(err[1]);
	c->in = in[1];
	c->out = out[0];
	c->err = err[0];
	fcntl(c->in, F_SETFL, O_NONBLOCK);
	fcntl(c->out, F_SETFL, O_NONBLOCK);
	fcntl(c->err, F_SETFL, O_NONBLOCK);
	return c->pid > 0;
}

// What it has written, but no more than its pipe holds: whoever writes for ever must not keep the client's signals and its
// other output waiting, nor, left behind by a command that is over, its exit code. False: the client is gone.
static bool carry(const struct command *c, int *fd, char letter)
{
	uint8_t b[PIPE];
	ssize_t n;
	long most = *fd >= 0 ? fcntl(*fd, F_GETPIPE_SZ) : 0;
	for (; *fd >= 0 && most > 0 && (n = read(*fd, b, sizeof(b))) != -1; most -= n) {
		if (!n)
			close_fd(fd);
		else if (!td_standin_worker_send(c->client, letter, b, (size_t)n))
			return false;
	}
	return true;
}

static void feed(struct command *c)
{
	ssize_t n = c->in >= 0 && c->n_typed ? write(c->in, c->typed, c->n_typed) : 0;
	if (n > 0) {
		memmove(c->typed, c->typed + n, c->n_typed - (size_t)n);
		c->n_typed -= (size_t)n;
	} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
		close_fd(&c->in); // it reads no more
		c->n_typed = 0;
	}
	if (c->typed_ends && !c->n_typed)
		close_fd(&c->in);
}

// False: the client is gone, or it says what no client says.
static bool hear(struct command *c)
{
	if (c->cap - c->n_got < PIPE) {
		c->cap = c->n_got + PIPE;
		c->got = td_standin_more(c->got, c->cap);
	}
	ssize_t n = recv(c->client, c->got + c->n_got, c->cap - c->n_got, MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	c->n_got += (size_t)n;
	return true;
}

static bool obey(struct command *c)
{
	struct standin_worker_frame f;
	size_t at = 0;
	long k;
	while ((k = td_standin_worker_frame(c->got + at, c->n_got - at, &f)) > 0) {
		at += (size_t)k;
		if (f.letter == 's')
			kill(-c->pid, f.data[0]);
		else if (f.letter == 'c')
			c->typed_ends = true;
		else if (f.letter == 'i' && f.n && c->in >= 0) {
			c->typed = td_standin_more(c->typed, c->n_typed + f.n);
			memcpy(c->typed + c->n_typed, f.data, f.n);
			c->n_typed += f.n;
		}
	}
	memmove(c->got, c->got + at, c->n_got - at);
	c->n_got -= at;
	feed(c);
	return k == 0;
}

// Whether the command is over; else it waits until there is something to do.
// *ret_client: what poll() says of the client.
static bool over(const struct command *c, int signals, short *ret_client, int *ret_status)
{
	struct signalfd_siginfo s;
	if (waitpid(c->pid, ret_status, WNOHANG) == c->pid)
		return true;
	bool full = c->n_typed >= STANDIN_WORKER_FRAME;
	struct pollfd p[] = {{c->client, (short)(POLLRDHUP | (full ? 0 : POLLIN)), 0},
			     {c->out, POLLIN, 0},
			     {c->err, POLLIN, 0},
			     {c->n_typed ? c->in : -1, POLLOUT, 0},
			     {signals, POLLIN, 0}};
	poll(p, sizeof(p) / sizeof(*p), -1);
	*ret_client = p[0].revents;
	while (read(signals, &s, sizeof(s)) == (ssize_t)sizeof(s))
		; // it is looked at again
	return false;
}

static void end(const struct command *c)
{
	int64_t until = td_standin_now_ms() + END_MS;
	kill(-c->pid, SIGTERM);
	while (waitpid(c->pid, NULL, WNOHANG) == 0 && td_standin_now_ms() < until)
		poll(NULL, 0, 20);
	kill(-c->pid, SIGKILL);
}

static void follow(struct command *c)
{
	sigset_t child;
	int status = 0;
	short client;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	while (!over(c, signals, &client, &status)) {
		bool there = (!client || hear(c)) && !(client & (POLLHUP | POLLERR));
		if (!there || !obey(c) || !carry(c, &c->out, 'o') || !carry(c, &c->err, 'e')) {
			end(c);
			return;
		}
	}
	// Of what it started and left behind nothing is waited for.
	uint8_t code = (uint8_t)(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
	if (carry(c, &c->out, 'o') && carry(c, &c->err, 'e'))
		td_standin_worker_send(c->client, 'x', &code, 1);
	close(signals);
}

void td_standin_worker_serve(int fd)
{
	struct command c = {.client = fd, .in = -1, .out = -1, .err = -1};
	struct standin_worker_frame f;
	int64_t until = td_standin_now_ms() + REQUEST_MS;
	long k = 0;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	while ((k = td_standin_worker_frame(c.got, c.n_got, &f)) == 0) {
		struct pollfd p = {fd, POLLIN, 0};
		int64_t left = until - td_standin_now_ms();
		if (left <= 0 || poll(&p, 1, (int)left) == 0 || !hear(&c))
			break;
	}
	struct standin_worker_request r;
	if (k > 0 && f.letter == 'r' && td_standin_worker_request(f.data, f.n, &r)) {
		bool began = start(&c, &r);
		td_standin_worker_request_done(&r);
		memmove(c.got, c.got + k, c.n_got - (size_t)k);
		c.n_got -= (size_t)k;
		if (began && obey(&c))
			follow(&c);
		else if (began)
			end(&c);
	}
	close_fd(&c.in);
	close_fd(&c.out);
	close_fd(&c.err);
	free(c.got);
	free(c.typed);
}

// ---- the server ----

static void told(int signal_)
{
	(void)signal_; // poll() returns
}

static void stop(int signal_)
{
	_exit(128 + signal_);
}

static _Noreturn void serve(int fd, const struct standin_key *key)
{
	struct line_reader in = {.fd = fd};
	td_standin_worker_tune(fd);
	signal(SIGTERM, SIG_DFL);
	// The client says nothing more until it has read "ok": nothing is left in the reader.
	if (td_standin_greet(key, true, &in, td_standin_now_ms() + GREET_MS) == 1 && !in.len)
		td_standin_worker_serve(fd);
	_exit(0);
}

// At a socket in a directory that only its owner enters: who is let in is he, which the kernel says.
static _Noreturn void serve_own(int fd)
{
	struct ucred who;
	socklen_t n = sizeof(who);
	signal(SIGTERM, SIG_DFL);
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) && who.uid == getuid())
		td_standin_worker_serve(fd);
	_exit(0);
}

static int listen_own(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	errno = ENAMETOOLONG;
	int fd = strlen(path) < sizeof(a.sun_path) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a)) && !listen(fd, CLIENTS))
		return fd;
	fprintf(stderr, "tandem-standin worker: %.200s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int listen_port(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
	    !bind(fd, (struct sockaddr *)&a, sizeof(a)) && !listen(fd, CLIENTS))
		return fd;
	fprintf(stderr, "tandem-standin worker: port %d: %s\n", port, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

int td_standin_worker(int argc, char **argv)
{
	static struct standin_key key;
	static pid_t clients[CLIENTS];
	const char *own = argc == 3 && !strcmp(argv[1], "--socket") ? argv[2] : NULL;
	int port = argc == 3 && !strcmp(argv[1], "--port") ? atoi(argv[2]) : 0;
	const char *secret = getenv("TANDEM_SESSION_KEY");
	if (!own && (port < 1 || port > 65535)) {
		fputs("usage: tandem-standin worker --port PORT|--socket PATH\n", stderr);
		return 2;
	}
	key.n = secret ? strlen(secret) : 0;
	if (!own && (key.n < 32 || key.n > sizeof(key.s))) {
		fputs("tandem-standin worker: TANDEM_SESSION_KEY has no key: anybody could come in\n", stderr);
		return 2;
	}
	if (!own)
		memcpy(key.s, secret, key.n);

	int fd = own ? listen_own(own) : listen_port(port);
	struct sigaction child = {.sa_handler = told}, end_ = {.sa_handler = stop};
	if (fd < 0 || sigaction(SIGCHLD, &child, NULL) || sigaction(SIGTERM, &end_, NULL))
		return 1;
	for (;;) {
		for (pid_t gone; (gone = waitpid(-1, NULL, WNOHANG)) > 0;)
			for (int i = 0; i < CLIENTS; i++)
				clients[i] = clients[i] == gone ? 0 : clients[i];
		int slot = 0;
		while (slot < CLIENTS && clients[slot])
			slot++;
		// A child may end between the look and the wait: so the wait has an end.
		struct pollfd p = {slot < CLIENTS ? fd : -1, POLLIN, 0};
		int at = poll(&p, 1, 1000) > 0 ? accept4(fd, NULL, NULL, SOCK_CLOEXEC) : -1;
		pid_t pid = at >= 0 ? fork() : -1;
		if (!pid) {
			close(fd);
			if (own)
				serve_own(at);
			serve(at, &key);
		}
		if (pid > 0)
			clients[slot] = pid;
		if (at >= 0)
			close(at);
	}
}
