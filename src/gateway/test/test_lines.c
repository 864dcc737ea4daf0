// rows: D5.1
// Many connections over one way, with the other end as it is: `tandem-standin lines`, before a server that says back what it
// hears.
#include "gateway/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *standin;
static char dir[] = "/tmp/td-lines-XXXXXX", path[64];

struct lines_test_far {
	pid_t pid;
	int to, from;
};

static int far_send(void *ctx, const void *p, size_t n, struct td_cancel *c, struct td_error *err)
{
	(void)c;
	return td_write_all(((struct lines_test_far *)ctx)->to, p, n, err);
}

static int far_recv(void *ctx, struct td_cancel *c, struct td_buf *ret, struct td_error *err)
{
	char b[5000]; // frames come in pieces
	struct pollfd p[] = {{((struct lines_test_far *)ctx)->from, POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
	poll(p, 2, -1);
	ssize_t k = p[0].revents ? read(p[0].fd, b, sizeof(b)) : 0;
	if (k <= 0)
		return td_fail(err, TD_NOT_FOUND, "it is gone");
	td_buf_add(ret, b, (size_t)k);
	return 0;
}

static void far_done(void *ctx)
{
	struct lines_test_far *f = ctx;
	close(f->to);
	close(f->from);
	assert_int_equal(waitpid(f->pid, NULL, 0), f->pid);
}

static struct td_lines *begin(struct lines_test_far *f, const char *where)
{
	int in[2], out[2];
	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	f->pid = fork();
	if (f->pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(standin, "tandem-standin", "lines", where, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	f->to = in[1];
	f->from = out[0];
	const struct td_lines_way way = {.ctx = f, .send = far_send, .recv = far_recv, .done = far_done};
	struct td_lines *l = td_lines_new(&way);
	assert_non_null(l);
	return l;
}

static void *echo(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char b[4096];
	for (ssize_t k; (k = read(fd, b, sizeof(b))) > 0;)
		if (td_write_all(fd, b, (size_t)k, NULL))
			break;
	close(fd);
	return NULL;
}

static int listens(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(a.sun_path, path);
	unlink(path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg, n;
	pthread_t t[16];
	for (n = 0; n < 16; n++) {
		int at = accept(fd, NULL, NULL);
		if (at < 0 || pthread_create(&t[n], NULL, echo, (void *)(intptr_t)at))
			break;
	}
	while (n--)
		pthread_join(t[n], NULL);
	return NULL;
}

static void read_all(int fd, char *b, size_t n)
{
	for (ssize_t k; n; b += k, n -= (size_t)k)
		assert_true((k = read(fd, b, n)) > 0);
}

enum { MUCH = 3 << 20 };

struct lines_test_talk {
	int fd;
	char *b;
};
static void *writes(void *arg)
{
	const struct lines_test_talk *t = arg;
	td_write_all(t->fd, t->b, MUCH, NULL);
	return NULL;
}

static void each_byte_and_nobody_waits_for_another(void **state)
{
	(void)state;
	struct lines_test_far f;
	int server = listens(), a, b;
	pthread_t t, w;
	assert_int_equal(pthread_create(&t, NULL, serve, (void *)(intptr_t)server), 0);
	struct td_lines *l = begin(&f, path);
	struct td_line_one *one, *other;
	assert_int_equal(td_lines_open(l, NULL, &one, &a, NULL), 0);
	struct lines_test_talk much = {.fd = a, .b = td_malloc(MUCH)};
	char *back = td_malloc(MUCH);
	for (size_t i = 0; i < MUCH; i++)
		much.b[i] = (char)(i * 7 + i / 251);
	assert_int_equal(pthread_create(&w, NULL, writes, &much), 0); // all that it says back is read by nobody yet
	for (int i = 0; i < 3; i++) {
		char word[6] = {0};
		assert_int_equal(td_lines_open(l, NULL, &other, &b, NULL), 0);
		assert_int_equal(td_lines_count(l), 2);
		assert_int_equal(td_write_all(b, "hello", 5, NULL), 0);
		read_all(b, word, 5);
		assert_string_equal(word, "hello");
		close(b);
		td_line_one_close(other);
	}
	read_all(a, back, MUCH);
	assert_memory_equal(back, much.b, MUCH);
	pthread_join(w, NULL);
	free(back);
	free(much.b);
	// One that is closed here while the other end still speaks.
	assert_int_equal(td_write_all(a, "more", 4, NULL), 0);
	close(a);
	td_line_one_close(one);
	assert_int_equal(td_lines_count(l), 0);
	assert_false(td_lines_over(l));
	td_lines_free(l);
	shutdown(server, SHUT_RDWR);
	pthread_join(t, NULL);
	close(server);
}

static void the_end_of_the_way_is_the_end_of_each(void **state)
{
	(void)state;
	struct lines_test_far f;
	int server = listens(), a;
	char c;
	struct td_error e = TD_ERROR_INIT;
	struct td_line_one *one;
	struct td_lines *l = begin(&f, path);
	assert_int_equal(td_lines_open(l, NULL, &one, &a, NULL), 0);
	kill(f.pid, SIGKILL);
	assert_int_equal(read(a, &c, 1), 0);
	close(a);
	td_line_one_close(one);
	assert_true(td_lines_over(l));
	assert_int_equal(td_lines_open(l, NULL, &one, &a, &e), TD_TRANSIENT);
	td_lines_free(l);
	close(server);

	// A server that nobody could reach.
	char where[200];
	memset(where, 'x', sizeof(where) - 1);
	where[sizeof(where) - 1] = 0;
	l = begin(&f, where);
	assert_int_equal(td_lines_open(l, NULL, &one, &a, &e), TD_TRANSIENT);
	assert_non_null(strstr(e.msg, "too long"));
	td_lines_free(l);

	// Nobody waits for one that only just starts.
	td_auto(td_cancel_unref) struct td_cancel *cancel = td_cancel_new();
	td_cancel_fire(cancel);
	unlink(path);
	l = begin(&f, path);
	assert_int_equal(td_lines_open(l, cancel, &one, &a, &e), TD_CANCELLED);
	td_lines_free(l);
}

int main(int argc, char **argv)
{
	standin = argc > 1 ? argv[1] : "tandem-standin";
	signal(SIGPIPE, SIG_IGN);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/socket", dir);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_byte_and_nobody_waits_for_another),
		cmocka_unit_test(the_end_of_the_way_is_the_end_of_each),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(dir);
	return r;
}
