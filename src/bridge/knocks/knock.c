// The knock port: stand-ins connect here and keep the connection open (standin/wire.h). A knock is
// a hint to look. The open connection is how a stand-in waits for its end; a lost connection means
// nothing. One epoll thread serves all connections.
#define uthash_malloc(n) td_malloc(n)
#include "bridge/knocks/line.h"
#include "bridge/scheduler/ask.h"
#include "standin/wire.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	CONNS_MAX = 20000,
	HELLO_MS = 10000, // a connection without a hello is dropped after this
	SETTLE_MS = 12000 // longer than a stand-in's longest pause plus one attempt
};

struct conn {
	int fd;
	int64_t job;           // 0: no hello yet
	char uid[64];          // of the ask whose token it has
	int64_t heard, pinged; // mono, ms
	char line[512];        // a hello holds about 150 bytes
	size_t n;
	struct conn *next, *prev;
	UT_hash_handle hh; // by job, after the hello
};
struct word { // a line that the thread must send
	int64_t job;
	int code; // exit code; -1: "gone"
	struct word *next;
};
struct td_knocks {
	struct td_bridge *b;
	int64_t opened; // mono, ms
	int listen_fd, epoll_fd, wake_fd;
	struct conn *conns; // all connections; only the thread uses the list
	size_t n;
	pthread_mutex_t lock; // guards the next two
	struct conn *by_job;
	struct word *words;
};

static int parse_addr(const char *s, struct sockaddr_storage *ret, socklen_t *ret_len, struct td_error *err)
{
	char host[64];
	const char *colon = strrchr(s, ':');
	long long port;
	if (!colon || (size_t)(colon - s) >= sizeof(host) || !td_parse_i64(colon + 1, &port) || port < 1 ||
	    port > 65535)
		return td_fail(err, TD_INVALID, "--knock \"%s\" is not ADDR:PORT", s);

	memcpy(host, s, (size_t)(colon - s));
	host[colon - s] = '\0';

	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
	memset(ret, 0, sizeof(*ret));

	size_t n = strlen(host);
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		*ret_len = sizeof(*v4);
		return 0;
	}

	if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		if (inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1) {
			v6->sin6_family = AF_INET6;
			v6->sin6_port = htons((uint16_t)port);
			*ret_len = sizeof(*v6);
			return 0;
		}
	}

	return td_fail(err, TD_INVALID, "--knock \"%s\": a numeric address is needed, stand-ins have no names", s);
}

struct td_knocks *td_knocks_new(struct td_bridge *b, const char *listen_at, struct td_error *err)
{
	struct sockaddr_storage a = {0};
	socklen_t len = 0;
	if (parse_addr(listen_at, &a, &len, err))
		return NULL;

	td_auto_close int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		td_fail_errno(err, TD_INTERNAL, errno, "knock port: socket");
		return NULL;
	}

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 1024) < 0) {
		td_fail_errno(err, TD_TRANSIENT, errno, "knock port %s", listen_at);
		return NULL;
	}

	struct td_knocks *k = td_calloc(1, sizeof(*k));
	k->b = b;
	k->opened = td_now(b);
	k->listen_fd = td_steal_fd(&fd);
	k->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	k->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	pthread_mutex_init(&k->lock, NULL);
	epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, k->listen_fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL});
	epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, k->wake_fd,
		  &(struct epoll_event){.events = EPOLLIN, .data.ptr = &k->wake_fd});

	return k;
}

// Closes a connection and takes it out of both lists.
static void drop(struct td_knocks *k, struct conn *c)
{
	pthread_mutex_lock(&k->lock);
	struct conn *found = NULL;
	if (c->job)
		HASH_FIND(hh, k->by_job, &c->job, sizeof(c->job), found);
	if (found == c)
		HASH_DEL(k->by_job, c);
	pthread_mutex_unlock(&k->lock);

	if (c->prev)
		c->prev->next = c->next;
	else
		k->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;

	k->n--;
	close(c->fd);
	free(c);
}

bool td_knocks_has(struct td_knocks *k, int64_t job, const char *uid)
{
	struct conn *found = NULL;
	pthread_mutex_lock(&k->lock);
	HASH_FIND(hh, k->by_job, &job, sizeof(job), found);
	bool its = found && !strcmp(found->uid, uid); // the number of the job is what it says, the token proves the ask
	pthread_mutex_unlock(&k->lock);
	return its;
}

struct td_knocks *td_knocks_free(struct td_knocks *k)
{
	if (!k)
		return NULL;
	while (k->conns)
		drop(k, k->conns);
	while (k->words) {
		struct word *w = k->words;
		k->words = w->next;
		free(w);
	}

	close(k->listen_fd);
	close(k->epoll_fd);
	close(k->wake_fd);
	pthread_mutex_destroy(&k->lock);
	free(k);
	return NULL;
}

// Sends a line. False: the peer is dead, since the socket does not take even a short line at once.
static bool say(struct conn *c, const char *line)
{
	size_t n = strlen(line);
	return send(c->fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

static void accept_all(struct td_knocks *k)
{
	for (;;) {
		int fd = accept4(k->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		if (k->n >= CONNS_MAX) {
			close(fd);
			continue;
		}

		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));

		struct conn *c = td_calloc(1, sizeof(*c));
		c->fd = fd;
		c->heard = c->pinged = td_now(k->b);
		c->next = k->conns;
		if (c->next)
			c->next->prev = c;
		k->conns = c;
		k->n++;

		if (epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, fd,
			      &(struct epoll_event){.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c}) < 0)
			drop(k, c);
	}
}

// Compares in constant time.
static bool same_token(const char *a, const char *b)
{
	unsigned char d = 0;
	if (strlen(a) != 32)
		return false;
	for (int i = 0; i < 32; i++)
		d |= (unsigned char)(a[i] ^ b[i]);
	return d == 0;
}

// Handles a hello. False: drop the connection.
static bool hello(struct td_knocks *k, struct conn *c, const struct td_knock_line *line)
{
	struct td_bridge *b = k->b;
	const char *uid = line->uid;
	char want[33];

	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, NULL);
	if (!l)
		return false; // no secret to check the token with; the stand-in will connect again

	td_knock_token(l, uid, want);
	if (!same_token(line->token, want)) {
		td_debug("knock of job %lld for ask %.40s with a wrong token", (long long)line->job, uid);
		return false;
	}

	c->job = line->job;
	snprintf(c->uid, sizeof(c->uid), "%s", uid);

	pthread_mutex_lock(&k->lock);
	struct conn *old = NULL;
	HASH_FIND(hh, k->by_job, &c->job, sizeof(c->job), old);
	if (old) {
		HASH_DEL(k->by_job, old);
		shutdown(old->fd, SHUT_RDWR); // a dead connection that was not noticed yet
	}
	HASH_ADD(hh, k->by_job, job, sizeof(c->job), c);
	pthread_mutex_unlock(&k->lock);

	td_auto(td_ask_unref) struct td_ask *a = td_ask_get(b->asks, uid);
	if (!a) {
		// Before the first listing no ask may be known. After it this is a job that nobody
		// wants: a listing leads to its end.
		if (atomic_load(&b->listed))
			td_bridge_want_list(b, 1000);
		return say(c, "run\n");
	}

	pthread_mutex_lock(&b->asks->lock);
	bool its = a->job == c->job, other = a->job && a->job != c->job;
	if (!other) {
		a->knocked = c->job;
		a->look = true;
		if (!its)
			a->found = c->job;
	}
	td_auto_free char *key = td_strdup(a->key);
	pthread_mutex_unlock(&b->asks->lock);

	// Another job than the ask's: a lost reply made an extra one. A listing compares both and
	// ends one.
	if (other)
		td_bridge_want_list(b, 0);
	else
		td_queue_add(b->pod_queue, key);
	return say(c, "run\n");
}

// Handles one line. False: drop the connection.
static bool on_line(struct td_knocks *k, struct conn *c, const char *line)
{
	struct td_bridge *b = k->b;
	struct td_knock_line l;
	c->heard = td_now(b);
	if (!td_knock_line_parse(line, &l))
		return false;

	if (l.what == TD_KNOCK_PING)
		return say(c, "pong\n");
	if (l.what == TD_KNOCK_PONG)
		return true;
	if (l.what == TD_KNOCK_HELLO)
		return !c->job && hello(k, c, &l);

	if (l.what == TD_KNOCK_SIGNAL && c->job) {
		td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(b->asks, c->job);
		if (!a || !l.name[0])
			return true;

		pthread_mutex_lock(&b->asks->lock);
		a->look = true;
		if (!strcmp(l.name, "USR1"))
			a->usr1 = true;
		td_auto_free char *key = td_strdup(a->key);
		pthread_mutex_unlock(&b->asks->lock);

		td_queue_add(b->pod_queue, key);
		td_bridge_poll_now(b);
		return true;
	}

	return c->job != 0; // a word of a later version is ignored, but only after a hello
}

static bool on_readable(struct td_knocks *k, struct conn *c)
{
	for (;;) {
		ssize_t r = recv(c->fd, c->line + c->n, sizeof(c->line) - c->n, 0);
		if (r < 0)
			return errno == EAGAIN || errno == EINTR;
		if (r == 0)
			return false;

		c->n += (size_t)r;
		char *nl;
		while ((nl = memchr(c->line, '\n', c->n))) {
			*nl = '\0';
			if (!on_line(k, c, c->line))
				return false;
			size_t used = (size_t)(nl - c->line) + 1;
			memmove(c->line, c->line + used, c->n - used);
			c->n -= used;
		}

		if (c->n == sizeof(c->line))
			return false; // no line of the protocol is that long
	}
}

// Sends the lines that other threads have left.
static void speak(struct td_knocks *k)
{
	uint64_t n;
	(void)!read(k->wake_fd, &n, sizeof(n));

	pthread_mutex_lock(&k->lock);
	struct word *w = k->words;
	k->words = NULL;
	pthread_mutex_unlock(&k->lock);

	while (w) {
		struct word *next = w->next;
		struct conn *c = NULL;
		pthread_mutex_lock(&k->lock);
		HASH_FIND(hh, k->by_job, &w->job, sizeof(w->job), c);
		pthread_mutex_unlock(&k->lock);
		char line[32];
		snprintf(line, sizeof(line), w->code < 0 ? "gone\n" : "end code=%d\n", w->code);
		if (c)
			say(c, line); // a lost one shows at the next read of the job
		free(w);
		w = next;
	}
}

// Drops silent connections and pings the others.
static void tick(struct td_knocks *k)
{
	int64_t now = td_now(k->b);

	for (struct conn *c = k->conns, *next; c; c = next) {
		next = c->next;
		if (now - c->heard > TD_WIRE_DEAD_S * 1000 || (!c->job && now - c->heard > HELLO_MS)) {
			drop(k, c);
			continue;
		}

		if (c->job && now - c->pinged >= TD_WIRE_PING_S * 1000) {
			c->pinged = now;
			if (!say(c, "ping\n"))
				drop(k, c);
		}
	}
}

int td_knocks_run(struct td_knocks *k, struct td_cancel *cancel, struct td_error *err)
{
	int tag = 0;
	epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, td_cancel_fd(cancel),
		  &(struct epoll_event){.events = EPOLLIN, .data.ptr = &tag});

	int64_t ticked = td_now(k->b);

	while (!td_cancelled(cancel)) {
		struct epoll_event ev[64];
		int n = epoll_wait(k->epoll_fd, ev, 64, 1000);

		for (int i = 0; i < n; i++) {
			void *p = ev[i].data.ptr;
			if (!p)
				accept_all(k);
			else if (p == &k->wake_fd)
				speak(k);
			else if (p != &tag && !on_readable(k, p))
				drop(k, p);
		}

		if (td_now(k->b) - ticked >= 1000) {
			ticked = td_now(k->b);
			tick(k);
		}
	}

	return 0;
}

// Leaves a line for the thread to send. False: the stand-in is not connected.
static bool tell(struct td_knocks *k, int64_t job, int code)
{
	struct conn *c = NULL;
	if (!k)
		return false;

	struct word *w = td_calloc(1, sizeof(*w));
	w->job = job;
	w->code = code;

	pthread_mutex_lock(&k->lock);
	HASH_FIND(hh, k->by_job, &job, sizeof(job), c);
	if (c) {
		w->next = k->words;
		k->words = w;
	}
	pthread_mutex_unlock(&k->lock);

	if (!c) {
		free(w);
		return false;
	}

	uint64_t one = 1;
	(void)!write(k->wake_fd, &one, sizeof(one));
	return true;
}

bool td_knocks_end(struct td_knocks *k, int64_t job, int code)
{
	return tell(k, job, code);
}

int64_t td_knocks_settle(const struct td_knocks *k, int64_t now)
{
	int64_t left = k ? k->opened + SETTLE_MS - now : 0;
	return left > 0 ? left : 0;
}

void td_knocks_gone(struct td_knocks *k, int64_t job)
{
	tell(k, job, -1);
}
