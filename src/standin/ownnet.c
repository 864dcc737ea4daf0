// `own-net PATH PORT CMD [ARG…]`: runs a program in a network of its own, in which there is nothing but itself, and leads
// connections to the socket PATH to its port. So a session on a machine without a kubelet may serve at a port, and
// nobody else of that machine or network reaches it. The socket is there once the port answers.
#include "standin/standin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EACH_US = 100000, BLOCK = 65536, BACKLOG = 64 };

static int port_number;
static const char *path_of;

static bool put_file(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	bool good = fd >= 0 && write(fd, text, n) == (ssize_t)n;
	if (fd >= 0)
		close(fd);
	return good;
}

// Its own network, with lo; everybody is who he was.
static bool enter(void)
{
	unsigned uid = getuid(), gid = getgid();
	char users[64], groups[64];
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	snprintf(users, sizeof(users), "%u %u 1\n", uid, uid);
	snprintf(groups, sizeof(groups), "%u %u 1\n", gid, gid);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) || !put_file("/proc/self/setgroups", "deny") ||
	    !put_file("/proc/self/uid_map", users) || !put_file("/proc/self/gid_map", groups))
		return false;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &lo);
	if (fd >= 0)
		close(fd);
	return good;
}

static int dial_port(void)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port_number), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || !connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	close(fd);
	return -1;
}

struct own_way {
	int from, to;
};

static bool send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		p += k;
		n -= (size_t)k;
	}
	return true;
}

// One direction, until an end of it is gone; then both are.
static void copy_way(int from, int to)
{
	char *b = malloc(BLOCK);
	for (ssize_t k; b;) {
		k = recv(from, b, BLOCK, 0);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0 || !send_all(to, b, (size_t)k))
			break;
	}
	free(b);
	shutdown(from, SHUT_RDWR);
	shutdown(to, SHUT_RDWR);
}

static void *back(void *arg)
{
	const struct own_way *w = arg;
	copy_way(w->to, w->from);
	return NULL;
}

static void *one(void *arg)
{
	struct own_way w = {.from = (int)(intptr_t)arg, .to = dial_port()};
	pthread_t t;
	if (w.to >= 0 && !pthread_create(&t, NULL, back, &w)) {
		copy_way(w.from, w.to);
		pthread_join(t, NULL);
	}
	if (w.to >= 0)
		close(w.to);
	close(w.from);
	return NULL;
}

// A thread's: waits for the port, and takes connections from then on.
static void *serve(void *arg)
{
	(void)arg;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	pthread_attr_t apart;
	int there, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	while ((there = dial_port()) < 0)
		usleep(EACH_US);
	close(there);
	strcpy(a.sun_path, path_of);
	umask(077);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, BACKLOG)) {
		fprintf(stderr, "tandem-standin own-net: %s: %s\n", path_of, strerror(errno));
		return NULL;
	}
	pthread_attr_init(&apart);
	pthread_attr_setdetachstate(&apart, PTHREAD_CREATE_DETACHED);
	for (;;) {
		pthread_t t;
		int at = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (at < 0)
			usleep(EACH_US); // it has no descriptor left, for now
		else if (pthread_create(&t, &apart, one, (void *)(intptr_t)at))
			close(at);
	}
}

int td_standin_own_net(int argc, char **argv)
{
	struct sockaddr_un a;
	path_of = argc > 3 ? argv[1] : "";
	port_number = argc > 3 ? atoi(argv[2]) : 0;
	if (port_number <= 0 || port_number > 65535 || strlen(path_of) >= sizeof(a.sun_path)) {
		fputs("usage: tandem-standin own-net PATH PORT COMMAND [ARGUMENT…]\n", stderr);
		return 2;
	}
	if (!enter()) {
		fprintf(stderr,
			"tandem-standin own-net: %s: this machine does not let people make a network of their own "
			"(user "
			"namespaces), in which alone a program may serve at a port there. Let it listen at the socket "
			"$TANDEM_SESSION_SOCKET and name that in the command\n",
			strerror(errno));
		return 1;
	}
	pid_t pid = fork();
	if (pid == 0)
		_exit(td_standin_exec(argv + 3));
	pthread_t t;
	int status = 0;
	if (pid < 0 || pthread_create(&t, NULL, serve, NULL)) {
		fprintf(stderr, "tandem-standin own-net: %s\n", strerror(errno));
		return 1;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
