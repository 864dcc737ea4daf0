// A connection to a node's server: who has no key is not served, and not obeyed; nobody can stand between.
// rows: B5.2 B5.5
#include "standin/greet.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LIMIT_MS = 120000 };
static const struct standin_key good = {.s = "Slurm's key", .n = 11}, bad = {.s = "no key", .n = 6};

static int listening(int family, int *ret_port)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_storage got;
	socklen_t n = sizeof(got);
	int off = 0, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool six = family == AF_INET6;
	if (six)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (fd < 0 || bind(fd, six ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4, six ? sizeof(a6) : sizeof(a4)) ||
	    listen(fd, 4) || getsockname(fd, (struct sockaddr *)&got, &n))
		return -1;
	*ret_port = ntohs(six ? ((struct sockaddr_in6 *)&got)->sin6_port : ((struct sockaddr_in *)&got)->sin_port);
	return fd;
}

static int to(int port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

// In a process of its own, because a line that was read is kept in one place. Ends with what the server found.
static pid_t serve(int fd, const struct standin_key *key)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	struct line_reader in = {.fd = accept(fd, NULL, NULL)};
	_exit(1 + td_standin_greet(key, true, &in, td_standin_now_ms() + LIMIT_MS));
}

static int found(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) - 1;
}

static int call(int port, const struct standin_key *key)
{
	struct line_reader in = {.fd = to(port)};
	int r = td_standin_greet(key, false, &in, td_standin_now_ms() + LIMIT_MS);
	close(in.fd);
	return r;
}

static void who_has_the_key_is_known_and_nobody_else(void **state)
{
	static const int families[] = {AF_INET, AF_INET6}; // the server's socket is of both
	for (int i = 0; i < 2; i++) {
		int port, fd = listening(families[i], &port);
		if (fd < 0 && i)
			continue; // a machine without IPv6
		assert_true(fd >= 0);
		pid_t pid = serve(fd, &good);
		assert_int_equal(call(port, &good), 1);
		assert_int_equal(found(pid), 1);

		pid = serve(fd, &good);
		assert_int_equal(call(port, &bad), -1);
		assert_int_equal(found(pid), -1);

		pid = serve(fd, &bad); // it refuses, which is no answer either
		assert_int_equal(call(port, &good), -1);
		assert_int_equal(found(pid), -1);
		close(fd);
	}
}

// Takes one connection at fd, and carries every byte of it to port and back.
static pid_t relay(int fd, int port)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	int v[2] = {accept(fd, NULL, NULL), to(port)};
	for (;;) {
		struct pollfd p[2] = {{v[0], POLLIN, 0}, {v[1], POLLIN, 0}};
		if (poll(p, 2, LIMIT_MS) <= 0)
			_exit(1);
		for (int i = 0; i < 2; i++) {
			char b[512];
			if (!p[i].revents)
				continue;
			ssize_t n = read(v[i], b, sizeof(b));
			if (n <= 0 || write(v[!i], b, (size_t)n) != n)
				_exit(0);
		}
	}
}

static void a_proof_that_is_carried_elsewhere_proves_nothing(void **state)
{
	int real_port, port, real = listening(AF_INET, &real_port), fd = listening(AF_INET, &port);
	pid_t server = serve(real, &good), between = relay(fd, real_port);
	assert_int_equal(call(port, &good), -1);
	assert_int_equal(found(server), -1);
	found(between);
	close(real);
	close(fd);
}

static void a_proof_is_of_one_end_of_one_connection(void **state)
{
	const struct standin_greet one = {"00000000000000000000000000000001", "00000000000000000000000000000002",
					  "10.0.0.1 40000", "10.0.0.2 7413"};
	struct standin_greet v[] = {one, one, one, one, one};
	v[1].asked[0] = v[2].answered[0] = 'a';
	strcpy(v[3].client, "10.0.0.1 40001");
	strcpy(v[4].server, "10.0.0.3 7413");
	char proofs[10][41];
	for (int i = 0; i < 10; i++) {
		td_standin_greet_proof(&good, &v[i / 2], i % 2, proofs[i]);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(proofs[i], proofs[k]);
	}
	char line[128];
	struct standin_greet g = one;
	for (int i = 0; i < 10; i++) {
		snprintf(line, sizeof(line), "auth %s %s", one.answered, proofs[i]);
		assert_int_equal(td_standin_greet_auth(&good, &g, line), !i);
		snprintf(line, sizeof(line), "ok %s", proofs[i]);
		assert_int_equal(td_standin_greet_ok(&good, &g, line), i == 1);
	}
}

static void what_is_no_line_of_it_is_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"ok",
		"ok ",
		"hello",
		"hello ",
		"hello 0000",
		"auth",
		"auth ",
		"bad no",
		"hello 0000000000000000000000000000000g",
		"hello 000000000000000000000000000000012",
		"auth 00000000000000000000000000000001",
		"auth 00000000000000000000000000000001 ",
		"auth 0000000000000000000000000000000g 0000000000000000000000000000000000000000"};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct standin_greet g = {0};
		assert_false(td_standin_greet_hello(&g, lines[i]));
		assert_false(td_standin_greet_auth(&good, &g, lines[i]));
		assert_false(td_standin_greet_ok(&good, &g, lines[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_the_key_is_known_and_nobody_else),
		cmocka_unit_test(a_proof_that_is_carried_elsewhere_proves_nothing),
		cmocka_unit_test(a_proof_is_of_one_end_of_one_connection),
		cmocka_unit_test(what_is_no_line_of_it_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
