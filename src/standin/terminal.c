// `terminal`: a shell on a terminal, shown over WebSockets to who has the token. It runs in a
// session's pod behind the gateway, as its owner, in any image.
//
// One shell for all that look: who comes back sees what was written last, and goes on. Binary frames
// are bytes, from the keyboard and to the screen; a text frame "COLUMNSxROWS" is the window's size.
// The program ends when the shell does. The port is open to the whole network of the pool, so what
// comes without the token gets nothing but a refusal, and has five seconds to say its head.
#include "standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	VIEWERS = 16,
	HEAD_MAX = 16 * 1024,
	PAST = 64 * 1024,   // what a new one is shown
	FULL = 128 * 1024,  // from here on the shell waits for the viewer
	HEAD_MS = 5000,     // for a head
	STALLED_MS = 20000, // one that takes nothing any more is let go
	IN_MAX = STANDIN_FRAME_MAX + 16,
};

struct viewer {
	int fd; // -1: free
	bool open, ending;
	int64_t since; // its start, and later when it last took something
	uint8_t *in;   // HEAD_MAX or IN_MAX bytes
	size_t n_in;
	uint8_t *out;
	size_t n_out, cap_out;
};

static struct viewer viewers[VIEWERS];
static int terminal = -1;
static uint8_t past[PAST];
static size_t n_past;
static uint8_t typed[PAST]; // not yet taken by the terminal
static size_t n_typed;

static int failed(const char *what)
{
	fprintf(stderr, "tandem-standin terminal: %s: %s\n", what, strerror(errno));
	return 1;
}

static void let_go(struct viewer *v)
{
	if (v->fd >= 0)
		close(v->fd);
	free(v->in);
	free(v->out);
	*v = (struct viewer){.fd = -1};
}

static void put(struct viewer *v, const void *p, size_t n)
{
	if (v->n_out + n > v->cap_out) {
		size_t cap = 2 * (v->n_out + n);
		uint8_t *b = realloc(v->out, cap);
		if (!b)
			abort();
		v->out = b;
		v->cap_out = cap;
	}
	if (!v->n_out)
		v->since = td_standin_now_ms();
	memcpy(v->out + v->n_out, p, n);
	v->n_out += n;
}

static void put_frame(struct viewer *v, int op, const void *p, size_t n)
{
	uint8_t head[4];
	put(v, head, td_standin_frame_head(op, n, head));
	put(v, p, n);
}

static void put_screen(struct viewer *v, const uint8_t *p, size_t n)
{
	for (size_t at = 0; at < n; at += 16384)
		put_frame(v, 2, p + at, n - at < 16384 ? n - at : 16384);
}

// ---- what comes ----

static void welcome(struct viewer *v, const char *token)
{
	static const char *const words[] = {"400 Bad Request", "401 Unauthorized", "426 Upgrade Required"};
	char accept_[29], reply[256];
	v->in[v->n_in] = '\0';
	char *end = strstr((char *)v->in, "\r\n\r\n");
	if (!end) {
		v->ending = v->n_in >= HEAD_MAX - 1;
		return;
	}
	size_t head = (size_t)(end - (char *)v->in) + 4;
	int status = td_standin_upgrade_read((char *)v->in, head, token, accept_);
	if (status != 101) {
		int n = snprintf(reply, sizeof(reply), "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
				 words[status == 400   ? 0
				       : status == 401 ? 1
						       : 2]);
		put(v, reply, (size_t)n);
		v->ending = true;
		return;
	}
	int n = snprintf(reply, sizeof(reply),
			 "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: "
			 "Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
			 accept_);
	put(v, reply, (size_t)n);
	v->open = true;
	put_screen(v, past, n_past);
	memmove(v->in, v->in + head, v->n_in - head);
	v->n_in -= head;
	uint8_t *bigger = realloc(v->in, IN_MAX > HEAD_MAX ? IN_MAX : HEAD_MAX);
	if (!bigger)
		abort();
	v->in = bigger;
}

static void resize(const struct standin_frame *f)
{
	char text[16] = "";
	unsigned columns, rows;
	memcpy(text, f->data, f->n < sizeof(text) ? f->n : sizeof(text) - 1);
	if (sscanf(text, "%4ux%4u", &columns, &rows) == 2 && columns && rows) {
		struct winsize w = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
		ioctl(terminal, TIOCSWINSZ, &w);
	}
}

static void frames(struct viewer *v)
{
	size_t at = 0;
	long k = 0;
	struct standin_frame f;
	while (!v->ending && (k = td_standin_frame_read(v->in + at, v->n_in - at, &f)) > 0) {
		if (f.op == 8)
			v->ending = true;
		else if (f.op == 9)
			put_frame(v, 10, f.data, f.n);
		else if (f.op == 1)
			resize(&f);
		else if (f.op != 10 && f.n <= sizeof(typed) - n_typed) {
			memcpy(typed + n_typed, f.data, f.n);
			n_typed += f.n;
		} else if (f.op != 10) {
			break; // the terminal takes what is before it first
		}
		at += (size_t)k;
	}
	if (k < 0)
		v->ending = true;
	memmove(v->in, v->in + at, v->n_in - at);
	v->n_in -= at;
}

static size_t room(const struct viewer *v)
{
	return v->open ? IN_MAX - v->n_in : HEAD_MAX - 1 - v->n_in;
}

static void hear(struct viewer *v, const char *token)
{
	ssize_t k = recv(v->fd, v->in + v->n_in, room(v), MSG_DONTWAIT);
	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (k <= 0) {
		let_go(v);
		return;
	}
	v->n_in += (size_t)k;
	if (!v->open)
		welcome(v, token);
	if (v->open)
		frames(v);
}

static void tell(struct viewer *v)
{
	ssize_t k = send(v->fd, v->out, v->n_out, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (k <= 0) {
		let_go(v);
		return;
	}
	v->since = td_standin_now_ms();
	v->n_out -= (size_t)k;
	memmove(v->out, v->out + k, v->n_out);
}

static void greet(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct viewer *at = NULL;
	for (int i = 0; fd >= 0 && i < VIEWERS; i++) {
		struct viewer *v = &viewers[i];
		// A full house: the one that says nothing for longest makes room, never one that is in.
		if (v->fd < 0 || (!v->open && (!at || (at->fd >= 0 && v->since < at->since))))
			at = v;
		if (v->fd < 0)
			break;
	}
	if (!at) {
		if (fd >= 0)
			close(fd);
		return;
	}
	let_go(at);
	*at = (struct viewer){.fd = fd, .since = td_standin_now_ms(), .in = malloc(HEAD_MAX)};
	if (!at->in)
		abort();
}

// ---- the shell ----

static pid_t begin(char **argv)
{
	terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	char name[128];
	if (terminal < 0 || grantpt(terminal) || unlockpt(terminal) || ptsname_r(terminal, name, sizeof(name)))
		return -1;
	struct winsize w = {.ws_col = 80, .ws_row = 24};
	ioctl(terminal, TIOCSWINSZ, &w);
	pid_t pid = fork();
	if (pid)
		return pid;
	sigset_t none;
	sigemptyset(&none);
	setsid();
	int fd = open(name, O_RDWR);
	if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) < 0)
		_exit(failed("open the terminal"));
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
	sigprocmask(SIG_SETMASK, &none, NULL);
	_exit(td_standin_exec(argv));
}

// Copies from the shell to all. False: nobody has the terminal any more.
static bool show(void)
{
	uint8_t b[16384];
	ssize_t k = read(terminal, b, sizeof(b));
	if (k <= 0)
		return k < 0 && (errno == EAGAIN || errno == EINTR);
	size_t n = (size_t)k, keep = n_past + n > PAST ? PAST - n : n_past;
	memmove(past, past + n_past - keep, keep);
	memcpy(past + keep, b, n);
	n_past = keep + n;
	for (int i = 0; i < VIEWERS; i++)
		if (viewers[i].open && !viewers[i].ending)
			put_screen(&viewers[i], b, n);
	return true;
}

static void type(void)
{
	ssize_t k = write(terminal, typed, n_typed);
	if (k > 0) {
		n_typed -= (size_t)k;
		memmove(typed, typed + k, n_typed);
	}
}

// ---- the loop ----

// One round. False: the shell's terminal is closed.
static bool round_(int listener, int signals, const char *token)
{
	struct pollfd p[VIEWERS + 3] = {{signals, POLLIN, 0}, {listener, POLLIN, 0}, {terminal, 0, 0}};
	int64_t now = td_standin_now_ms(), wait = -1;
	bool full = false;
	for (int i = 0; i < VIEWERS; i++) {
		struct viewer *v = &viewers[i];
		int64_t until = v->since + (v->open ? STALLED_MS : HEAD_MS);
		if (v->fd >= 0 && ((v->ending && !v->n_out) || ((!v->open || v->n_out) && now >= until)))
			let_go(v);
		p[3 + i] = (struct pollfd){v->fd, 0, 0};
		if (v->fd < 0)
			continue;
		if (!v->open || v->n_out)
			wait = wait < 0 || until - now < wait ? until - now : wait;
		full = full || v->n_out > FULL;
		if (!v->ending && room(v) && n_typed < PAST / 2)
			p[3 + i].events |= POLLIN;
		if (v->n_out)
			p[3 + i].events |= POLLOUT;
	}
	p[2].events = (short)((full ? 0 : POLLIN) | (n_typed ? POLLOUT : 0));
	if (poll(p, VIEWERS + 3, wait < 0 ? -1 : (int)wait) < 0)
		return errno == EINTR;
	if (p[1].revents)
		greet(listener);
	for (int i = 0; i < VIEWERS; i++) {
		struct viewer *v = &viewers[i];
		if (v->fd >= 0 && v->fd == p[3 + i].fd && p[3 + i].revents & POLLOUT)
			tell(v);
		if (v->fd >= 0 && v->fd == p[3 + i].fd && p[3 + i].revents & (POLLIN | POLLHUP | POLLERR))
			hear(v, token);
	}
	if (p[2].revents & POLLOUT)
		type();
	for (int i = 0; i < VIEWERS; i++) // what waited for room
		if (viewers[i].open && viewers[i].n_in && n_typed < PAST / 2)
			frames(&viewers[i]);
	return !(p[2].revents & (POLLIN | POLLHUP)) || show();
}

// Whether the shell has ended, or somebody tells it to end.
static bool over(int signals, pid_t shell)
{
	struct signalfd_siginfo s;
	bool end = false;
	while (read(signals, &s, sizeof(s)) == sizeof(s)) {
		pid_t p;
		if (s.ssi_signo != SIGCHLD) {
			kill(-shell, SIGHUP);
			end = true;
		}
		while ((p = waitpid(-1, NULL, WNOHANG)) > 0)
			end = end || p == shell;
	}
	return end;
}

static void farewell(void)
{
	static const uint8_t normal[2] = {1000 >> 8, 1000 & 255};
	while (show()) {
		struct pollfd p = {terminal, POLLIN, 0};
		if (poll(&p, 1, 0) <= 0)
			break;
	}
	for (int i = 0; i < VIEWERS; i++) {
		struct viewer *v = &viewers[i];
		if (!v->open)
			continue;
		put_frame(v, 8, normal, 2);
		// The last words, as far as the sockets take them at once.
		tell(v);
	}
}

static int listen_at(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 64))
		return -1;
	return fd;
}

// Who may not enter its directory does not reach it.
static int listen_on(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (strlen(path) >= sizeof(a.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(a.sun_path, path);
	return fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 64) ? -1 : fd;
}

int td_standin_terminal(int argc, char **argv)
{
	char *token = getenv("TANDEM_SESSION_TOKEN");
	int port = argc > 2 && !strcmp(argv[1], "--port") ? atoi(argv[2]) : 0;
	const char *path = argc > 2 && !strcmp(argv[1], "--socket") ? argv[2] : NULL;
	if ((!path && (port < 1 || port > 65535)) || argc < 4) {
		fputs("usage: tandem-standin terminal --port PORT|--socket PATH COMMAND [ARGUMENT…]\n", stderr);
		return 2;
	}
	if (!token || strlen(token) < 16) {
		fputs("tandem-standin terminal: TANDEM_SESSION_TOKEN has no token: anybody could come in\n", stderr);
		return 2;
	}
	token = strdup(token);
	unsetenv("TANDEM_SESSION_TOKEN");
	setenv("TERM", "xterm-256color", 1);
	signal(SIGPIPE, SIG_IGN);

	sigset_t all;
	sigemptyset(&all);
	sigaddset(&all, SIGTERM);
	sigaddset(&all, SIGINT);
	sigaddset(&all, SIGCHLD);
	sigprocmask(SIG_BLOCK, &all, NULL);
	int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK),
	    listener = path ? listen_on(path) : listen_at(port);
	for (int i = 0; i < VIEWERS; i++)
		viewers[i].fd = -1;
	if (!token || signals < 0 || listener < 0)
		return failed("listen");
	pid_t shell = begin(argv + 3);
	if (shell < 0 || fcntl(terminal, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return failed("a terminal");
	bool shown = true;
	while (!over(signals, shell)) {
		if (shown)
			shown = round_(listener, signals, token);
		else {
			struct pollfd p = {signals, POLLIN, 0};
			poll(&p, 1, -1);
		}
	}
	farewell();
	return 0;
}
