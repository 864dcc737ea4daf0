// `line PATH`: this process's input and output as a connection to a socket of the same user's. So the gateway reaches a
// session on a machine without a kubelet, by a step of its job.
#include "standin/standin.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { TRIES = 100, EACH_US = 100000, BLOCK = 65536 }; // the server may only just start

int td_standin_dial_own(const char *path, int flags)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct ucred who = {.uid = (uid_t)-1};
	socklen_t n = sizeof(who);
	if (strlen(path) >= sizeof(a.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(a.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) && who.uid == getuid())
			return fd;
		errno = EACCES; // somebody else's
	}
	int why = errno;
	if (fd >= 0)
		close(fd);
	errno = why;
	return -1;
}

static int dial(const char *path)
{
	for (int i = 0; i < TRIES; i++) {
		int fd = td_standin_dial_own(path, 0);
		if (fd >= 0 || (errno != ENOENT && errno != ECONNREFUSED))
			return fd;
		usleep(EACH_US);
	}
	return -1;
}

bool td_standin_put(int fd, const void *data, size_t n)
{
	const char *p = data;
	while (n) {
		ssize_t k = write(fd, p, n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		p += k;
		n -= (size_t)k;
	}
	return true;
}

// False: that end is over.
static bool carry(int from, int to)
{
	static char b[BLOCK];
	ssize_t k = read(from, b, sizeof(b));
	return k < 0 ? errno == EINTR || errno == EAGAIN : k > 0 && td_standin_put(to, b, (size_t)k);
}

int td_standin_line_main(int argc, char **argv)
{
	int fd = argc == 2 ? dial(argv[1]) : -1;
	if (argc != 2) {
		fputs("usage: tandem-standin line PATH\n", stderr);
		return 2;
	}
	if (fd < 0) {
		fprintf(stderr, "tandem-standin line: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	for (;;) {
		struct pollfd p[2] = {{0, POLLIN, 0}, {fd, POLLIN, 0}};
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return 1;
		// Whoever is gone on either side is gone for both: what is carried are whole connections.
		if ((p[0].revents && !carry(0, fd)) || (p[1].revents && !carry(fd, 1)))
			return 0;
	}
}
