// `lines PATH`: this process's input and output as many connections to a socket of the same user's (lines.h). So the
// requests of a session on a machine without a kubelet need one step of its job, and not one each.
#include "standin/lines.h"
#include "standin/standin.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EACH_MS = 100, GOING_MS = 30000, IN_SIZE = 4 * LINES_PIECE };

enum lines_state { FREE, DIALS, OPEN, GOING }; // GOING: the gateway has closed it, and some bytes are not passed on yet
struct lines_stream {
	enum lines_state state;
	uint32_t number;
	int fd;
	int64_t until; // DIALS, GOING: then it is given up; monotonic ms
	size_t may;    // bytes that may still be sent to the gateway
	uint8_t *out;  // LINES_WINDOW bytes for the server, of which those from at to n are not passed on yet
	size_t at, n;
};
static struct lines_stream streams[LINES_MOST];

static bool say(char letter, uint32_t number, uint32_t n)
{
	uint8_t head[LINES_HEAD];
	lines_head(head, letter, number, n);
	return td_standin_put(1, head, sizeof(head));
}

static void drop(struct lines_stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->out);
	*s = (struct lines_stream){.fd = -1};
}

static struct lines_stream *stream_of(uint32_t number)
{
	for (int i = 0; i < LINES_MOST; i++)
		if (streams[i].state != FREE && streams[i].number == number)
			return &streams[i];
	return NULL;
}

// Tries to reach the server, once. False: the gateway is gone.
static bool dial(const char *path, struct lines_stream *s)
{
	s->fd = td_standin_dial_own(path, SOCK_NONBLOCK);
	if (s->fd >= 0) {
		s->state = OPEN;
		return say(LINES_OPENED, s->number, 0);
	}
	if ((errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN) && td_standin_now_ms() < s->until)
		return true;
	uint32_t number = s->number, why = (uint32_t)errno;
	drop(s);
	return say(LINES_REFUSED, number, why);
}

static bool opens(const char *path, uint32_t number)
{
	struct lines_stream *s = streams;
	while (s < streams + LINES_MOST && s->state != FREE)
		s++;
	if (s == streams + LINES_MOST)
		return say(LINES_REFUSED, number, EMFILE);
	*s = (struct lines_stream){.state = DIALS,
				   .number = number,
				   .fd = -1,
				   .until = td_standin_now_ms() + LINES_DIAL_MS,
				   .may = LINES_WINDOW,
				   .out = malloc(LINES_WINDOW)};
	if (!s->out)
		abort();
	return dial(path, s);
}

// Passes on what the server takes now. False: the gateway is gone.
static bool flush(struct lines_stream *s)
{
	size_t sent = 0;
	while (s->at < s->n) {
		ssize_t k = write(s->fd, s->out + s->at, s->n - s->at);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			if (k < 0 && errno != EAGAIN)
				s->at = s->n; // the server is gone, which its end tells: nobody waits for room there
			break;
		}
		s->at += (size_t)k;
		sent += (size_t)k;
	}
	if (s->at == s->n)
		s->at = s->n = 0;
	if (s->state == GOING && !s->n) {
		drop(s);
		return true;
	}
	return !sent || s->state == GOING || say(LINES_ACK, s->number, (uint32_t)sent);
}

// From the server. False: the gateway is gone.
static bool carry(struct lines_stream *s)
{
	static uint8_t b[LINES_HEAD + LINES_PIECE];
	ssize_t k = read(s->fd, b + LINES_HEAD, s->may < LINES_PIECE ? s->may : LINES_PIECE);
	if (k < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (k <= 0) {
		uint32_t number = s->number;
		drop(s);
		return say(LINES_CLOSE, number, 0);
	}
	s->may -= (size_t)k;
	lines_head(b, LINES_DATA, s->number, (uint32_t)k);
	return td_standin_put(1, b, LINES_HEAD + (size_t)k);
}

// One frame of the gateway's. False: it breaks the rules, or is gone.
static bool hear(const char *path, const struct lines_frame *f)
{
	struct lines_stream *s = stream_of(f->number);
	if (f->letter == LINES_OPEN)
		return !s && opens(path, f->number);
	if (!s || s->state == GOING)
		return true; // it is over here
	if (f->letter == LINES_ACK) {
		s->may += f->n;
		return s->may <= LINES_WINDOW;
	}
	if (f->letter == LINES_CLOSE) {
		s->state = s->state == OPEN && s->n ? GOING : FREE;
		s->until = td_standin_now_ms() + GOING_MS;
		if (s->state == FREE)
			drop(s);
		return true;
	}
	if (f->letter != LINES_DATA || s->n - s->at + f->n > LINES_WINDOW)
		return false;
	if (s->n + f->n > LINES_WINDOW) {
		memmove(s->out, s->out + s->at, s->n - s->at);
		s->n -= s->at;
		s->at = 0;
	}
	memcpy(s->out + s->n, f->data, f->n);
	s->n += f->n;
	return s->state != OPEN || flush(s);
}

// From the gateway. False: it is gone, or breaks the rules.
static bool input(const char *path)
{
	static uint8_t in[IN_SIZE];
	static size_t have;
	ssize_t k = read(0, in + have, sizeof(in) - have);
	if (k < 0 && errno == EINTR)
		return true;
	if (k <= 0)
		return false;
	have += (size_t)k;
	size_t at = 0;
	struct lines_frame f;
	long n;
	while ((n = lines_read(in + at, have - at, &f)) > 0) {
		if (!hear(path, &f))
			return false;
		at += (size_t)n;
	}
	memmove(in, in + at, have - at);
	have -= at;
	return n == 0;
}

// One look at a connection for which something has happened. False: the gateway is gone.
static bool look(const char *path, struct lines_stream *s, short seen)
{
	if (s->state == DIALS)
		return dial(path, s);
	if (s->state == GOING && td_standin_now_ms() >= s->until) {
		drop(s);
		return true;
	}
	if (seen & POLLOUT && !flush(s))
		return false;
	if (s->state == GOING && seen & (POLLERR | POLLHUP))
		drop(s);
	return s->state != OPEN || !(seen & (POLLIN | POLLERR | POLLHUP)) || !s->may || carry(s);
}

int td_standin_lines_main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: tandem-standin lines PATH\n", stderr);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < LINES_MOST; i++)
		streams[i].fd = -1;
	for (;;) {
		struct pollfd p[LINES_MOST + 1] = {{0, POLLIN, 0}};
		bool waits = false;
		for (int i = 0; i < LINES_MOST; i++) {
			const struct lines_stream *s = &streams[i];
			short events =
				(short)((s->state == OPEN && s->may ? POLLIN : 0) | (s->n > s->at ? POLLOUT : 0));
			// One of which nothing is wanted would be told of its end again and again.
			p[i + 1] = (struct pollfd){s->fd >= 0 && events ? s->fd : -1, events, 0};
			waits = waits || s->state == DIALS || s->state == GOING;
		}
		if (poll(p, LINES_MOST + 1, waits ? EACH_MS : -1) < 0) {
			if (errno == EINTR)
				continue;
			return 1;
		}
		for (int i = 0; i < LINES_MOST; i++)
			if (streams[i].state != FREE && !look(argv[1], &streams[i], p[i + 1].revents))
				return 0;
		if (p[0].revents && !input(argv[1]))
			return 0;
	}
}
