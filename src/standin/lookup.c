// Looks up the addresses behind a DNS name. getaddrinfo() does not work in a static program,
// because it needs libc's plugins. The resolver below it needs none: it reads resolv.conf and asks.
// It blocks, so a child process does it.
#include "standin/standin.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <resolv.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { ANSWER_MAX = 4096, TRY_S = 1, TRIES = 2 };

static void put(int fd, const unsigned char *data, size_t len, in_port_t port)
{
	struct standin_addr a;
	memset(&a, 0, sizeof(a)); // zeroed, because addresses are compared as bytes
	struct sockaddr_in *v4 = (struct sockaddr_in *)&a.sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a.sa;

	if (len == sizeof(v4->sin_addr)) {
		v4->sin_family = AF_INET;
		v4->sin_port = port;
		memcpy(&v4->sin_addr, data, len);
		a.len = sizeof(*v4);
	} else if (len == sizeof(v6->sin6_addr)) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = port;
		memcpy(&v6->sin6_addr, data, len);
		a.len = sizeof(*v6);
	} else {
		return;
	}
	while (write(fd, &a, sizeof(a)) < 0 && errno == EINTR)
		; // smaller than PIPE_BUF: written whole or not at all
}

static void ask(int fd, const char *host, ns_type type, in_port_t port)
{
	static unsigned char answer[ANSWER_MAX];
	int n = res_search(host, ns_c_in, (int)type, answer, sizeof(answer));
	ns_msg m;
	if (n < 0 || n > (int)sizeof(answer) || ns_initparse(answer, n, &m) < 0)
		return;

	for (int i = 0; i < ns_msg_count(m, ns_s_an); i++) {
		ns_rr rr;
		if (ns_parserr(&m, ns_s_an, i, &rr) < 0)
			return;
		if (ns_rr_type(rr) == type && ns_rr_class(rr) == ns_c_in)
			put(fd, ns_rr_rdata(rr), ns_rr_rdlen(rr), port);
	}
}

int standin_lookup(const char *name, pid_t *ret_pid)
{
	int fd[2];
	if (pipe2(fd, O_CLOEXEC) < 0)
		return -1;

	pid_t parent = getpid(), pid = fork();
	if (pid < 0) {
		close(fd[0]);
		close(fd[1]);
		return -1;
	}

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // a job ends when its last process does
		if (getppid() != parent)
			_exit(1);
		char *host = strdup(name), *colon = host ? strrchr(host, ':') : NULL;
		if (!colon || res_init() < 0)
			_exit(1);
		*colon = '\0';

		_res.retrans = TRY_S;
		_res.retry = TRIES;
		in_port_t port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
		ask(fd[1], host, ns_t_a, port);
		ask(fd[1], host, ns_t_aaaa, port);
		_exit(0);
	}

	close(fd[1]);
	*ret_pid = pid;
	return fd[0];
}
