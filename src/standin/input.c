// The container's standard input, as the attach sessions of the node agent send it. standin.h
// describes the messages.
#include "standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct {
	int to;
	bool terminal, close;
	unsigned char in[PIPE_BUF + 4096]; // messages; the first may be incomplete
	size_t n;
	// Of the first message's data: where the next byte is, and how many are left.
	size_t at, left;
} s = {.to = -1};

int input_open(int to, bool terminal)
{
	// runc, which hands the descriptor on, makes every one a blocking one.
	if (fcntl(INIT_INPUT_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(INIT_INPUT_FD, F_SETFL, O_RDWR | O_NONBLOCK) < 0 ||
	    fcntl(to, F_SETFL, fcntl(to, F_GETFL) | O_NONBLOCK) < 0)
		return -1;
	s.to = to;
	s.terminal = terminal;
	return 0;
}

int input_to(void)
{
	return s.to;
}

short input_wants(void)
{
	return s.to >= 0 && !s.left && s.n < sizeof(s.in) ? POLLIN : 0;
}

short input_blocked(void)
{
	return s.left ? POLLOUT : 0;
}

static void shut(void)
{
	if (!s.terminal && s.to >= 0)
		close(s.to);
	if (!s.terminal)
		s.to = -1;
	s.left = s.n = 0;
}

static void drop(size_t n)
{
	memmove(s.in, s.in + n, s.n - n);
	s.n -= n;
}

// Writes the data of the first message. False: the reader takes no more for now.
static bool give(void)
{
	while (s.left) {
		ssize_t k = write(s.to, s.in + s.at, s.left);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EAGAIN)
			return false;
		if (k <= 0) { // nobody reads any more
			shut();
			return false;
		}
		s.at += (size_t)k;
		s.left -= (size_t)k;
	}
	return true;
}

static unsigned two(const unsigned char *p)
{
	return p[0] | (unsigned)p[1] << 8;
}

void input_move(void)
{
	for (;;) {
		if (s.to < 0 || !give())
			return;

		if (s.at) { // the message with these bytes is done
			drop(s.at);
			s.at = 0;
		}
		if (s.n < 3 || s.n < 3 + (size_t)two(s.in + 1)) {
			ssize_t k = read(INIT_INPUT_FD, s.in + s.n, sizeof(s.in) - s.n);
			if (k <= 0)
				return;
			s.n += (size_t)k;
			continue;
		}

		size_t len = two(s.in + 1);
		if (s.in[0] == 'd') {
			s.at = 3;
			s.left = len;
			if (!len)
				drop(3), s.at = 0;
			continue;
		}

		if (s.in[0] == 'w' && len == 4 && s.terminal) {
			struct winsize w = {.ws_row = (unsigned short)two(s.in + 3),
					    .ws_col = (unsigned short)two(s.in + 5)};
			ioctl(s.to, TIOCSWINSZ, &w);
		}

		bool end = s.in[0] == 'c';
		drop(3 + len);
		if (end && !s.terminal) {
			shut();
			return;
		}
	}
}
