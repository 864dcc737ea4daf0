// The knock port as stand-ins see it: who is let in, what a hello leaves behind, how a stand-in is
// told to end.
// rows: A6.6 A12.1
#define uthash_malloc(n) td_malloc(n)
#include "bridge/scheduler/ask.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define UID "5c7f65f6-fdda-46b5-a964-0787cf79ec1d"

static struct td_bridge b;
static struct td_link link_;
static struct td_cancel *cancel;
static pthread_t thread;
static char addr[32];
static int port;

static void *serve(void *p)
{
	td_knocks_run(b.knocks, cancel, NULL);
	return NULL;
}

// A port that is free now. The knock port cannot be 0, because stand-ins must know the number.
static int free_port(void)
{
	td_auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	if (bind(fd, (struct sockaddr *)&a, n) || getsockname(fd, (struct sockaddr *)&a, &n))
		return 0;
	return ntohs(a.sin_port);
}

static int setup(void **state)
{
	b.clock = &td_clock_system;
	pthread_mutex_init(&b.lock, NULL);
	pthread_mutex_init(&b.list_lock, NULL);
	b.poll_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	b.asks = td_asks_new();
	b.pod_queue = td_queue_new(b.clock);

	link_.refs = 1;
	snprintf(link_.secret, sizeof(link_.secret), "secret");
	b.link = &link_;

	cancel = b.cancel = td_cancel_new();
	for (int i = 0; i < 20 && !b.knocks; i++) {
		port = free_port();
		snprintf(addr, sizeof(addr), "127.0.0.1:%d", port);
		b.knocks = td_knocks_new(&b, addr, NULL);
	}

	return b.knocks ? pthread_create(&thread, NULL, serve, NULL) : -1;
}

static int teardown(void **state)
{
	td_cancel_fire(cancel);
	pthread_join(thread, NULL);
	td_knocks_free(b.knocks);
	td_asks_free(b.asks);
	td_queue_free(b.pod_queue);
	td_cancel_unref(cancel);
	close(b.poll_fd);
	return 0;
}

static int knock(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int knock(const char *fmt, ...)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *s = td_vasprintf(fmt, ap);
	va_end(ap);
	assert_int_equal(write(fd, s, strlen(s)), strlen(s));
	return fd;
}

// The next line that the bridge sends, or "closed".
static const char *hear(int fd)
{
	static char line[256];
	size_t n = 0;
	for (;;) {
		struct pollfd p = {fd, POLLIN, 0};
		assert_int_equal(poll(&p, 1, 5000), 1);
		ssize_t k = read(fd, line + n, 1);
		if (k <= 0)
			return "closed";
		if (line[n] == '\n') {
			line[n] = '\0';
			return line;
		}
		n++;
	}
}

static void test_wrong_ones_are_dropped(void **state)
{
	char token[33];
	td_knock_token(&link_, UID, token);
	const char *const bad[] = {
		"GET / HTTP/1.1\r\n\r\n",
		"hello v=1 job=5 ask=" UID " token=00000000000000000000000000000000 node=n0\n",
		"hello v=1 job=5 ask=" UID " node=n0\n",
		"hello v=2 job=5 ask=" UID " token=x node=n0\n",
		"hello v=1 job=-5 ask=" UID " token=x node=n0\n",
		"signal name=USR1\n",
	};

	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto_close int fd = knock("%s", bad[i]);
		if (strcmp(hear(fd), "closed") != 0)
			fail_msg("%s", bad[i]);
	}

	char big[2000];
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	td_auto_close int fd = knock("%s", big);
	assert_string_equal(hear(fd), "closed");

	// Another ask's token.
	td_auto_close int other =
		knock("hello v=1 job=5 ask=5c7f65f6-fdda-46b5-a964-0787cf79ec1e token=%s node=n0\n", token);
	assert_string_equal(hear(other), "closed");
}

static void test_hello_is_a_hint_to_look(void **state)
{
	char token[33], *key = NULL;
	bool is_new;
	td_knock_token(&link_, UID, token);
	td_auto(td_ask_unref) struct td_ask *a = td_ask_ensure(b.asks, UID, "ns/p", &is_new);
	assert_true(is_new);
	td_ask_set_job(b.asks, a, 5);

	td_auto_close int fd = knock("hello v=1 job=5 ask=" UID " token=%s node=n0\n", token);
	assert_string_equal(hear(fd), "run");
	assert_int_equal(td_queue_get(b.pod_queue, cancel, &key, NULL), 0);
	assert_string_equal(key, "ns/p");
	td_queue_done(b.pod_queue, key);
	free(key);

	pthread_mutex_lock(&b.asks->lock);
	assert_true(a->look);
	assert_int_equal(a->knocked, 5);
	assert_false(a->usr1);
	pthread_mutex_unlock(&b.asks->lock);

	assert_int_equal(write(fd, "ping\nsignal name=USR1\n", 22), 22);
	assert_string_equal(hear(fd), "pong");
	assert_int_equal(td_queue_get(b.pod_queue, cancel, &key, NULL), 0);
	td_queue_done(b.pod_queue, key);
	free(key);
	pthread_mutex_lock(&b.asks->lock);
	assert_true(a->usr1);
	pthread_mutex_unlock(&b.asks->lock);

	// A second job of the same ask is not believed: the bridge wants a listing.
	td_auto_close int extra = knock("hello v=1 job=6 ask=" UID " token=%s node=n0\n", token);
	assert_string_equal(hear(extra), "run");
	pthread_mutex_lock(&b.list_lock);
	assert_true(b.list_at > 0);
	pthread_mutex_unlock(&b.list_lock);
	pthread_mutex_lock(&b.asks->lock);
	assert_int_equal(a->knocked, 5);
	pthread_mutex_unlock(&b.asks->lock);
	td_knocks_gone(b.knocks, 6);
	assert_string_equal(hear(extra), "gone");

	assert_true(td_knocks_end(b.knocks, 5, 7));
	assert_string_equal(hear(fd), "end code=7");
	assert_false(td_knocks_end(b.knocks, 4, 7)); // not connected

	// The stand-in connects again: lines go to the new connection.
	td_auto_close int again = knock("hello v=1 job=5 ask=" UID " token=%s node=n0\n", token);
	assert_string_equal(hear(again), "run");
	assert_string_equal(hear(fd), "closed");
	assert_true(td_knocks_end(b.knocks, 5, 0));
	assert_string_equal(hear(again), "end code=0");
}

// Stand-ins of an earlier version run the script, too. They know no further arguments, so the name
// is in the environment.
static void test_the_script_names_all_replicas(void **state)
{
	const struct td_bridge_opts one = {.knock = "10.1.2.3:7411"},
				    two = {.knock = "10.1.2.3:7411", .knock_name = "b.ns.svc"};
	td_auto_free char *a = td_standin_script(&one, UID, "t"), *c = td_standin_script(&two, UID, "t");
	const char *run = "exec /opt/tandem/tandem-standin run --knock 10.1.2.3:7411 --ask " UID " --token t\n";
	td_auto_free char *plain = td_asprintf("#!/bin/sh\n%s", run),
			  *named = td_asprintf("#!/bin/sh\nexport TANDEM_KNOCK_NAME=b.ns.svc:7411\n%s", run);
	assert_string_equal(a, plain);
	assert_string_equal(c, named);
}

// Just after a change of leader a stand-in that is not connected may be on its way.
static void test_a_young_leader_waits(void **state)
{
	int64_t now = td_now(&b), left = td_knocks_settle(b.knocks, now);
	// A stand-in's longest pause, and the time to connect.
	assert_in_range(left, 7500 + 1000, 15000);
	assert_int_equal(td_knocks_settle(b.knocks, now + left), 0);
	assert_int_equal(td_knocks_settle(NULL, now), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_young_leader_waits), cmocka_unit_test(test_wrong_ones_are_dropped),
		cmocka_unit_test(test_hello_is_a_hint_to_look), cmocka_unit_test(test_the_script_names_all_replicas)};
	return cmocka_run_group_tests(tests, setup, teardown);
}
