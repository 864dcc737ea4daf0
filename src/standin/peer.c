// `peer`: the server in each node's slurmd pod that takes part in the test of several nodes (peer.h). One process a
// connection; what a person who is nobody can do is to open one and be shown a nonce. However many he opens, they give
// way to whoever comes: else the node of a server that answers nobody would be blamed.
#include "standin/peer.h"
#include "standin/greet.h"
#include "standin/watch.h"
#include "standin/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	CHILDREN = 64,
	AUTH_MS = 5000,
	IDLE_MS = 60000,
	MS_MAX = 10000,
	KIB_MAX = 64 << 10,
	FILE_BYTES = 256 << 10,
	ASK_MS = 12000,
	AGAIN_MS = 2000,       // between two tries of a node that is to blame
	SLOW_AGAIN_MS = 15000, // of one that was slow: such a try moves more data
	PAIR_MS = 3000
};

struct peer_server {
	struct standin_key key;
	const char *node, *gate, *faults, *key_path;
};
struct peer_talk {
	const struct peer_server *s;
	int fd, data; // data: the socket for the ring; -1: none
	struct line_reader in;
};

// What the file of faults says of the node; NULL: nothing.
static const char *fault(const struct peer_server *s, const char *key)
{
	static char line[4096], value[32];
	const char *found = NULL;
	FILE *f = fopen(s->faults, "re");
	while (f && fgets(line, sizeof(line), f)) {
		char word[40];
		snprintf(word, sizeof(word), " %s=", key);
		const char *at = strncmp(line, "node ", 5) ? NULL : strstr(line, word);
		if (at && sscanf(at + strlen(word), "%31s", value) == 1)
			found = value;
	}
	if (f)
		fclose(f);
	return found;
}

static bool say(struct peer_talk *c, const char *word, const char *text)
{
	char line[512];
	snprintf(line, sizeof(line), "%s%s%.480s\n", word, *text ? " " : "", text);
	return td_standin_line_write(c->fd, line, td_standin_now_ms() + AUTH_MS) == 0;
}

// A socket for data at the address by which the leader came.
static int listen_for_data(struct peer_talk *c)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	if (c->data >= 0)
		close(c->data);
	c->data = -1;
	if (getsockname(c->fd, (struct sockaddr *)&a, &n) < 0)
		return 0;
	if (a.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&a)->sin6_port = 0;
	else
		((struct sockaddr_in *)&a)->sin_port = 0;
	c->data = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->data < 0 || bind(c->data, (struct sockaddr *)&a, n) < 0 || listen(c->data, 4) < 0 ||
	    getsockname(c->data, (struct sockaddr *)&a, &n) < 0)
		return 0;
	return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
					     : ((struct sockaddr_in *)&a)->sin_port);
}

// The connection from the node before; others, who do not know the token, are sent away.
static int accept_data(struct peer_talk *c, const char *token, int64_t deadline)
{
	for (;;) {
		int64_t left = deadline - td_standin_now_ms();
		struct pollfd p = {c->data, POLLIN, 0};
		if (left <= 0 || poll(&p, 1, (int)left) <= 0)
			return -1;
		int fd = accept4(c->data, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			continue;
		char got[32];
		size_t n = 0;
		while (n < sizeof(got)) {
			struct pollfd q = {fd, POLLIN, 0};
			left = deadline - td_standin_now_ms();
			if (left <= 0 || poll(&q, 1, left < 1000 ? (int)left : 1000) <= 0)
				break;
			ssize_t k = recv(fd, got + n, sizeof(got) - n, 0);
			if (k <= 0)
				break;
			n += (size_t)k;
		}
		if (n == sizeof(got) && !memcmp(got, token, n))
			return fd;
		close(fd);
	}
}

static bool hex32(const char *s)
{
	return strlen(s) == 32 && strspn(s, "0123456789abcdef") == 32;
}

static void ring(struct peer_talk *c, const char *args)
{
	char address[64], token[40], why[128] = "";
	int rank, n, port;
	long kib, ms;
	if (sscanf(args, "%d %d %63s %d %39s %ld %ld", &rank, &n, address, &port, token, &kib, &ms) != 7 || n < 1 ||
	    n > STANDIN_NODES + 1 || rank < 0 || rank >= n || kib < 1 || kib > KIB_MAX || ms < 1 || ms > MS_MAX ||
	    !hex32(token) || c->data < 0) {
		say(c, "bad", "it does not understand what it is to do");
		return;
	}
	int64_t deadline = td_standin_now_ms() + ms;
	struct standin_ring r = {.rank = rank, .n = n, .kib = (size_t)kib, .fault = fault(c->s, "link"), .from = -1};
	r.to = td_standin_connect(address, port, deadline);
	if (r.to < 0 || send(r.to, token, 32, MSG_NOSIGNAL) != 32)
		snprintf(why, sizeof(why), "%s: %s", address, strerror(errno));
	else if ((r.from = accept_data(c, token, deadline)) < 0)
		snprintf(why, sizeof(why), "nobody has come in time");
	bool well = !*why && td_standin_ring(&r, deadline, why, sizeof(why));
	if (r.to >= 0)
		close(r.to);
	if (r.from >= 0)
		close(r.from);
	say(c, well ? "ok" : "bad", why);
}

// ---- storage ----

// Names hold no slash, and the directory is the administrator's.
static bool path_of(char *path, size_t n, const char *dir, const char *token, const char *node)
{
	return dir[0] == '/' && hex32(token) && !strchr(node, '/') &&
	       snprintf(path, n, "%s/.tandem-preflight-%s-%s", dir, token, node) < (int)n;
}

static void fill(uint8_t *v, const char *token, const char *node)
{
	uint32_t seed = 2166136261U;
	for (const char *p = token; *p; p++)
		seed = (seed ^ (uint8_t)*p) * 16777619U;
	for (const char *p = node; *p; p++)
		seed = (seed ^ (uint8_t)*p) * 16777619U;
	for (size_t i = 0; i < FILE_BYTES; i++) {
		seed = seed * 1664525U + 1013904223U;
		v[i] = (uint8_t)(seed >> 24);
	}
}

static bool whole(int fd, uint8_t *v, bool out)
{
	for (size_t n = 0; n < FILE_BYTES;) {
		ssize_t k = out ? write(fd, v + n, FILE_BYTES - n) : read(fd, v + n, FILE_BYTES - n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k == 0)
			errno = EIO;
		if (k <= 0)
			return false;
		n += (size_t)k;
	}
	return true;
}

static bool same_file(const char *path, const char *token, const char *node, char *why, size_t n)
{
	static uint8_t want[FILE_BYTES], got[FILE_BYTES];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	bool read_all = fd >= 0 && whole(fd, got, false);
	if (!read_all)
		snprintf(why, n, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	fill(want, token, node);
	if (read_all && memcmp(want, got, FILE_BYTES) != 0)
		snprintf(why, n, "%s: another text than was written", path);
	return !*why;
}

static bool store(const struct peer_server *s, const char *dir, const char *token, char *why, size_t n)
{
	static uint8_t v[FILE_BYTES];
	char path[512];
	if (!path_of(path, sizeof(path), dir, token, s->node)) {
		snprintf(why, n, "%.100s is no directory's whole name", dir);
		return false;
	}
	fill(v, token, s->node);
	int fd = fault(s, "storage") ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fault(s, "storage"))
		errno = EIO;
	bool written = fd >= 0 && whole(fd, v, true) && !fsync(fd);
	if (!written)
		snprintf(why, n, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return written && same_file(path, token, s->node, why, n);
}

static void drop(const struct peer_server *s, const char *dir, const char *token)
{
	char path[512];
	if (path_of(path, sizeof(path), dir, token, s->node))
		unlink(path);
}

static void storage(struct peer_talk *c, const char *line)
{
	char verb[8], dir[256], token[40], node[256] = "", path[512], why[256] = "";
	sscanf(line, "%7s %255s %39s %255s", verb, dir, token, node);
	if (!strcmp(verb, "store"))
		store(c->s, dir, token, why, sizeof(why));
	else if (!strcmp(verb, "drop"))
		drop(c->s, dir, token);
	else if (path_of(path, sizeof(path), dir, token, node))
		same_file(path, token, node, why, sizeof(why));
	else
		snprintf(why, sizeof(why), "it does not understand what it is to do");
	say(c, *why ? "bad" : "ok", why);
}

// ---- a node that is to blame ----

struct accused {
	const char *job, *dir, *why; // dir "-", "=KIB:MS": it is about the exchange of data, so much of it in that time
};
static int tell_agent(const struct peer_server *s, const char *what, const struct accused *a)
{
	char line[TD_WIRE_LINE], text[160], said[TD_WIRE_LINE] = "";
	snprintf(text, sizeof(text), "%s", a->why);
	for (char *p = text; *p; p++)
		if (*p == ' ')
			*p = '_'; // values hold no blank; the agent puts them back
	snprintf(line, sizeof(line), "suspect job=%s node=%s devices=- state=%s result=%s timeout=%d why=%s\n", a->job,
		 s->node, what, a->dir[0] == '/' ? "storage" : "exchange", ASK_MS, *text ? text : "-");
	return td_standin_ask(s->gate, line, td_standin_now_ms() + ASK_MS, said, sizeof(said));
}

// The same once more: an exchange with the peer, or the file.
static bool well_again(const struct peer_server *s, const char *address, const char *own, const char *dir)
{
	char why[256] = "", token[33], bad[2][160];
	long kib = 256, ms = PAIR_MS;
	if (dir[0] == '/') {
		bool well = td_standin_random(token) && store(s, dir, token, why, sizeof(why));
		drop(s, dir, token);
		return well;
	}
	struct standin_peer v[2] = {{.fd = -1}, {.fd = -1}};
	snprintf(v[0].address, sizeof(v[0].address), "%s", own);
	snprintf(v[1].address, sizeof(v[1].address), "%s", address);
	int64_t deadline = td_standin_now_ms() + PAIR_MS;
	bool well = true;
	for (int i = 0; i < 2; i++)
		well = well && !td_standin_peer_open(&v[i], &s->key, deadline, why, sizeof(why));
	struct standin_peer *both[] = {&v[0], &v[1]};
	if (dir[0] == '=' && (sscanf(dir, "=%ld:%ld", &kib, &ms) != 2 || kib < 1 || kib > KIB_MAX || ms < 1))
		well = false;
	const struct standin_round r = {
		.v = both, .n = 2, .kib = (size_t)kib, .ms = ms < PAIR_MS ? ms : PAIR_MS, .bad = bad};
	well = well && td_standin_peers_ring(&r);
	td_standin_peer_close(&v[0]);
	td_standin_peer_close(&v[1]);
	return well;
}

static void suspect(struct peer_talk *c, const char *args)
{
	char job[24], address[64], dir[256], own[64] = "";
	int at = 0;
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	if (sscanf(args, "%23s %63s %255s %n", job, address, dir, &at) < 3 || !at) {
		say(c, "bad", "it does not understand what it is to do");
		return;
	}
	static char why[160];
	snprintf(why, sizeof(why), "%.150s", args + at);
	if (!getsockname(c->fd, (struct sockaddr *)&a, &n)) {
		if (a.ss_family == AF_INET6)
			inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&a)->sin6_addr, own, sizeof(own));
		else
			inet_ntop(AF_INET, &((struct sockaddr_in *)&a)->sin_addr, own, sizeof(own));
	}
	const struct accused x = {job, dir, why};
	say(c, tell_agent(c->s, "bad", &x) == 0 ? "ok" : "bad", "its agent was told");
	close(c->fd);
	if (c->data >= 0)
		close(c->data);
	// The agent forgets what is not said again.
	for (;;) {
		poll(NULL, 0, dir[0] == '=' ? SLOW_AGAIN_MS : AGAIN_MS);
		bool well = well_again(c->s, address, own, dir);
		if (tell_agent(c->s, well ? "well" : "bad", &x) == 0 && well)
			_exit(0);
	}
}

// ret_known: it is set when the other end has shown that it has the key.
static void serve(const struct peer_server *s, int fd, volatile bool *ret_known)
{
	struct peer_talk c = {.s = s, .fd = fd, .data = -1, .in = {.fd = fd}};
	char *line;
	if (td_standin_greet(&s->key, true, &c.in, td_standin_now_ms() + AUTH_MS) != 1)
		return;
	*ret_known = true;
	while (td_standin_line_read(&c.in, td_standin_now_ms() + IDLE_MS, &line) == 1) {
		if (!strcmp(line, "listen")) {
			char port[16];
			snprintf(port, sizeof(port), "%d", listen_for_data(&c));
			say(&c, "port", port);
		} else if (!strncmp(line, "ring ", 5)) {
			ring(&c, line + 5);
		} else if (!strncmp(line, "suspect ", 8)) {
			suspect(&c, line + 8);
		} else if (!strncmp(line, "store ", 6) || !strncmp(line, "fetch ", 6) || !strncmp(line, "drop ", 5)) {
			storage(&c, line);
		} else if (!strncmp(line, "signs ", 6) || !strncmp(line, "stacks ", 7)) {
			char said[160];
			td_standin_together(s->gate, s->node, line, said, sizeof(said));
			say(&c, said, "");
		} else if (!strncmp(line, "used ", 5)) {
			char said[160];
			td_standin_used(s->gate, s->node, line, said, sizeof(said));
			say(&c, said, "");
		} else {
			say(&c, "bad", "it does not know this word");
		}
	}
}

static int listen_all(int port)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int one = 1, off = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		if (!bind(fd, (struct sockaddr *)&a6, sizeof(a6)) && !listen(fd, 128))
			return fd;
		close(fd);
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); // a node without IPv6
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	return fd >= 0 && !bind(fd, (struct sockaddr *)&a4, sizeof(a4)) && !listen(fd, 128) ? fd : -1;
}

// ---- the processes ----

static struct {
	pid_t pid; // 0: the place is free
	int64_t born;
} child[CHILDREN];
static volatile bool *known; // of each, who sets it: its other end has the key

static void ended(pid_t pid)
{
	for (int i = 0; i < CHILDREN; i++)
		if (child[i].pid == pid)
			child[i].pid = 0;
}

// True: there are some left.
static bool reap(void)
{
	bool any = false;
	for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;)
		ended(pid);
	for (int i = 0; i < CHILDREN; i++)
		any |= child[i].pid > 0;
	return any;
}

// A place for one that has come: a free one, else that of who has been here longest without the key, else the next that
// ends.
static int place(void)
{
	int64_t now = td_standin_now_ms();
	reap();
	for (;;) {
		int oldest = -1;
		for (int i = 0; i < CHILDREN; i++) {
			if (!child[i].pid) {
				child[i].born = now;
				known[i] = false;
				return i;
			}
			if (!known[i] && (oldest < 0 || child[i].born < child[oldest].born))
				oldest = i;
		}
		if (oldest >= 0)
			kill(child[oldest].pid, SIGKILL);
		ended(waitpid(oldest >= 0 ? child[oldest].pid : -1, NULL, 0));
	}
}

int td_standin_peer(int argc, char **argv)
{
	static struct peer_server s = {.gate = TD_WIRE_GATE, .faults = TD_WIRE_FAULTS, .key_path = TD_WIRE_KEY};
	const char *port = NULL;
	for (int i = 1; i + 1 < argc; i += 2) {
		const char **to = !strcmp(argv[i], "--node")     ? &s.node
				  : !strcmp(argv[i], "--socket") ? &s.gate
				  : !strcmp(argv[i], "--faults") ? &s.faults
				  : !strcmp(argv[i], "--key")    ? &s.key_path
				  : !strcmp(argv[i], "--port")   ? &port
								 : NULL;
		if (!to)
			return 2;
		*to = argv[i + 1];
	}
	if (!s.node || argc % 2 == 0)
		return 2;
	if (!td_standin_key_read(s.key_path, &s.key)) {
		fprintf(stderr, "tandem peer: %s: %s\n", s.key_path, strerror(errno));
		return 1;
	}
	int n = port ? (int)strtol(port, NULL, 10) : STANDIN_PEER_PORT, fd = listen_all(n);
	if (fd < 0) {
		fprintf(stderr, "tandem peer: port %d: %s\n", n, strerror(errno));
		return 1;
	}
	known = mmap(NULL, CHILDREN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (known == MAP_FAILED) {
		fprintf(stderr, "tandem peer: %s\n", strerror(errno));
		return 1;
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	for (;;) {
		struct pollfd p = {fd, POLLIN, 0};
		if (poll(&p, 1, reap() ? 1000 : -1) <= 0)
			continue;
		int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (c < 0)
			continue;
		int at = place();
		pid_t pid = fork();
		if (!pid) {
			close(fd);
			serve(&s, c, &known[at]);
			_exit(0);
		}
		child[at].pid = pid > 0 ? pid : 0;
		close(c);
	}
}
