// `run`: the batch job that stands in for a pod. It holds a connection to the bridge and exits when
// told to.
//
// A lost connection is no end: the stand-in connects again for ever (back-off 0.1 s to 5 s), first
// to where it last heard the bridge, then to the addresses of the name in TD_WIRE_NAME_ENV. Another
// replica of the bridge may lead by then, and only the leader listens.
//
// TERM is reported and then obeyed at once, with exit code 143, because a COMPLETING job blocks its
// whole node. USR1 (preemption or the time limit is near) is only reported.
#include "standin/standin.h"
#include "standin/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BACKOFF_MIN = 100,
	BACKOFF_MAX = 5000,
	CONNECT_MS = 5000,
	// To connect, when there are other addresses to try.
	ONE_OF_MS = 1000,
	// To the bridge's first word. Also a frozen bridge is connected to, by its kernel.
	FIRST_MS = 5000,
	LOOKUP_MS = 5000,
	TERM_MS = 1000,
	ADDRS_MAX = 16
};

struct run {
	struct standin_addr addr; // last heard from here; at first that of --knock
	const char *name;         // NULL: no name to look up
	char hello[TD_WIRE_LINE];
	int sigfd, fd; // fd: the connection; -1: none
	bool usr1;     // to be reported on the next connection
	struct line_reader in;
	int64_t heard, pinged;
};

static bool parse_addr(const char *s, struct standin_addr *r)
{
	char host[64];
	const char *colon = strrchr(s, ':');
	if (!colon || colon == s || (size_t)(colon - s) >= sizeof(host))
		return false;
	memcpy(host, s, (size_t)(colon - s));
	host[colon - s] = '\0';

	char *end;
	unsigned long port = strtoul(colon + 1, &end, 10);
	if (*end || !colon[1] || port == 0 || port > 65535)
		return false;

	struct sockaddr_in *v4 = (struct sockaddr_in *)&r->sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&r->sa;
	size_t n = strlen(host);
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		r->len = sizeof(*v4);
		return true;
	}

	if (host[0] != '[' || host[n - 1] != ']')
		return false;
	host[n - 1] = '\0';
	if (inet_pton(AF_INET6, host + 1, &v6->sin6_addr) != 1)
		return false;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	r->len = sizeof(*v6);
	return true;
}

static void drop(struct run *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

static void say(struct run *r, const char *line, int64_t ms)
{
	if (r->fd >= 0 && line_write(r->fd, line, now_ms() + ms) < 0)
		drop(r);
}

// Handles the signals that have come. Exits on TERM.
static void on_signals(struct run *r)
{
	struct signalfd_siginfo si;
	while (read(r->sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGUSR1) {
			if (r->fd < 0)
				r->usr1 = true;
			else
				say(r, "signal name=USR1\n", TERM_MS);
			continue;
		}
		say(r, "signal name=TERM\n", TERM_MS);
		_exit(143);
	}
}

// Waits until fd has `events`, a signal came (handled here) or the time is over. True: fd is ready.
static bool wait_any(struct run *r, int fd, short events, int64_t deadline)
{
	int64_t left = deadline - now_ms();
	struct pollfd f[2] = {{r->sigfd, POLLIN, 0}, {fd, events, 0}};
	int n = poll(f, 2, left < 0 ? 0 : left > 60000 ? 60000 : (int)left);
	if (n > 0 && f[0].revents)
		on_signals(r);
	return n > 0 && f[1].revents;
}

// The same for the connection, which the handling of a signal may have closed.
static bool wait_fd(struct run *r, int fd, short events, int64_t deadline)
{
	return wait_any(r, fd, events, deadline) && r->fd == fd;
}

static bool connect_once(struct run *r, const struct standin_addr *a)
{
	r->fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->fd < 0)
		return false;
	if (connect(r->fd, (const struct sockaddr *)&a->sa, a->len) < 0 && errno != EINPROGRESS) {
		drop(r);
		return false;
	}

	int64_t deadline = now_ms() + (r->name ? ONE_OF_MS : CONNECT_MS);
	int fd = r->fd, e = ETIMEDOUT;
	while (r->fd == fd && now_ms() < deadline)
		if (wait_fd(r, fd, POLLOUT, deadline)) {
			socklen_t n = sizeof(e);
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n);
			break;
		}

	if (r->fd < 0 || e) {
		drop(r);
		return false;
	}

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	r->in = (struct line_reader){.fd = fd};
	r->heard = r->pinged = now_ms();
	say(r, r->hello, CONNECT_MS);
	if (r->fd >= 0 && r->usr1) {
		say(r, "signal name=USR1\n", TERM_MS);
		r->usr1 = r->fd < 0;
	}
	return r->fd >= 0;
}

// Handles one line from the bridge. Exits on end and gone.
static void on_line(struct run *r, const char *line)
{
	r->heard = now_ms();
	if (!strcmp(line, "ping")) {
		say(r, "pong\n", TERM_MS);
	} else if (!strcmp(line, "gone")) {
		_exit(0);
	} else if (!strncmp(line, "end code=", 9)) {
		char *end;
		long code = strtol(line + 9, &end, 10);
		if (end != line + 9 && !*end && code >= 0 && code <= 255)
			_exit((int)code);
		fprintf(stderr, "tandem stand-in: bad line \"%s\" from the bridge\n", line);
		_exit(1);
	} // "run", "pong" and words of later versions: hold on
}

// Holds the connection until it is lost. True when the bridge said anything at all.
static bool hold(struct run *r)
{
	bool spoke = false;
	while (r->fd >= 0) {
		int64_t now = now_ms(), dead = r->heard + (spoke ? TD_WIRE_DEAD_S * 1000 : FIRST_MS),
			ping = r->pinged + TD_WIRE_PING_S * 1000;
		if (now >= dead) {
			drop(r);
			break;
		}
		if (now >= ping) {
			r->pinged = now;
			say(r, "ping\n", TERM_MS);
			continue;
		}

		if (!wait_fd(r, r->fd, POLLIN, ping < dead ? ping : dead))
			continue;
		char *line;
		int k;
		while (r->fd >= 0 && (k = line_read(&r->in, now_ms(), &line)) != 0) {
			if (k < 0) {
				drop(r);
			} else {
				spoke = true;
				on_line(r, line);
			}
		}
	}

	return spoke;
}

// Looks up the name's addresses in a child, because a waiting resolver must not delay the answer to
// a signal.
static size_t look_up(struct run *r, struct standin_addr *v, size_t max)
{
	pid_t pid;
	size_t got = 0;
	int fd = standin_lookup(r->name, &pid);
	if (fd < 0)
		return 0;

	for (int64_t deadline = now_ms() + LOOKUP_MS; now_ms() < deadline && got < max * sizeof(*v);) {
		if (!wait_any(r, fd, POLLIN, deadline))
			continue;
		ssize_t n = read(fd, (char *)v + got, max * sizeof(*v) - got);
		if (n <= 0)
			break;
		got += (size_t)n;
	}

	close(fd);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return got / sizeof(*v);
}

static bool same_addr(const struct standin_addr *a, const struct standin_addr *b)
{
	return a->len == b->len && !memcmp(&a->sa, &b->sa, a->len);
}

// Finds the leader and holds a connection to it until it is lost. True when a leader was found.
static bool once(struct run *r)
{
	struct standin_addr others[ADDRS_MAX];
	if (connect_once(r, &r->addr) && hold(r))
		return true;
	size_t n = r->name ? look_up(r, others, ADDRS_MAX) : 0;
	for (size_t i = 0; i < n; i++)
		if (!same_addr(&others[i], &r->addr) && connect_once(r, &others[i]) && hold(r)) {
			r->addr = others[i];
			return true;
		}
	return false;
}

int standin_run(int argc, char **argv)
{
	static struct run r;
	r.fd = -1;
	const char *knock = NULL, *ask = NULL, *token = NULL, *job = getenv("SLURM_JOB_ID"),
		   *node = getenv("SLURMD_NODENAME");

	for (int i = 1; i < argc; i++) {
		const char **v = !strcmp(argv[i], "--knock")   ? &knock
				 : !strcmp(argv[i], "--ask")   ? &ask
				 : !strcmp(argv[i], "--token") ? &token
							       : NULL;
		if (!v || i + 1 >= argc) {
			fprintf(stderr, "tandem stand-in: unknown argument \"%s\"\n", argv[i]);
			return 2;
		}
		*v = argv[++i];
	}

	if (!knock || !parse_addr(knock, &r.addr)) {
		fprintf(stderr, "tandem stand-in: --knock \"%s\" is not ADDR:PORT with a numeric address\n",
			knock ? knock : "");
		return 2;
	}
	if (!ask || !*ask || !token || !*token || !job || !*job) {
		fputs("tandem stand-in: --ask, --token and SLURM_JOB_ID must be set: this runs as a Slurm batch job\n",
		      stderr);
		return 2;
	}

	const char *name = getenv(TD_WIRE_NAME_ENV);
	r.name = name && *name ? name : NULL;
	char host[256];
	if (!node || !*node) {
		gethostname(host, sizeof(host) - 1);
		host[sizeof(host) - 1] = '\0';
		node = host;
	}

	int n = snprintf(r.hello, sizeof(r.hello), "hello v=1 job=%s ask=%s token=%s node=%s\n", job, ask, token, node);
	if (n < 0 || (size_t)n >= sizeof(r.hello) || strchr(r.hello, '\n') != r.hello + n - 1 || strpbrk(ask, " ") ||
	    strpbrk(token, " ") || strpbrk(job, " ") || strpbrk(node, " ")) {
		fputs("tandem stand-in: --ask, --token, SLURM_JOB_ID and the node's name may not hold spaces\n",
		      stderr);
		return 2;
	}

	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, SIGTERM);
	sigaddset(&s, SIGINT);
	sigaddset(&s, SIGUSR1);
	sigprocmask(SIG_BLOCK, &s, NULL);
	signal(SIGPIPE, SIG_IGN);
	r.sigfd = signalfd(-1, &s, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r.sigfd < 0) {
		fprintf(stderr, "tandem stand-in: signalfd: %s\n", strerror(errno));
		return 1;
	}

	srandom((unsigned)getpid() ^ (unsigned)time(NULL));
	for (int64_t back_off = BACKOFF_MIN;;) {
		if (once(&r))
			back_off = BACKOFF_MIN;
		// Jitter, so that a restarted bridge does not meet all stand-ins at once.
		int64_t until = now_ms() + back_off / 2 + random() % back_off;
		while (now_ms() < until)
			wait_fd(&r, -1, 0, until);
		back_off = back_off * 2 > BACKOFF_MAX ? BACKOFF_MAX : back_off * 2;
	}
}
