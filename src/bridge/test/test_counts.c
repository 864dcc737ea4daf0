// rows: A5.9
// How many native jobs a node has, where there are more of them than one look reads, and where Slurm does not answer.
#include "bridge/syncer/count.h"

#include "bridge/scheduler/ask.h"
#include "http/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { LOOK_MS = 2000, OLD_MS = 600000 };

static struct td_clock_manual at;
static struct td_bridge b;
static struct td_slurm *slurm;
static struct td_http_server *server;
static struct td_cancel *cancel;
static pthread_t thread;
static atomic_int jobs, asked; // jobs 1 … run on n1
static atomic_bool broken, drained;

static void handler(struct td_http_x *x, void *ctx)
{
	const char *path = td_http_target(x), *job = strstr(path, "/job/");
	td_auto_buf struct td_buf t = {0};
	atomic_fetch_add(&asked, 1);
	if (strstr(path, "/nodes/")) {
		td_buf_printf(&t, "{\"nodes\":[{\"name\":\"n1\",\"state\":[\"%s\"]}],\"errors\":[]}",
			      drained ? "DRAIN" : "IDLE");
	} else if (job) {
		td_buf_printf(&t,
			      "{\"jobs\":[{\"job_id\":%d,\"job_state\":[\"RUNNING\"],\"nodes\":\"n1\"}],\"errors\":[]}",
			      atoi(job + strlen("/job/")));
	} else {
		td_buf_puts(&t, "{\"jobs\":[");
		for (int i = 1; i <= jobs; i++)
			td_buf_printf(&t, "%s{\"job_id\":\"%d\",\"state\":[\"RUNNING\"]}", i > 1 ? "," : "", i);
		td_buf_puts(&t, "],\"errors\":[]}");
	}
	td_http_send(x, broken ? 500 : 200, "application/json", td_buf_str(&t), t.len);
}

static void *serve(void *p)
{
	td_http_server_run(server, cancel, NULL);
	return NULL;
}

static int setup(void **state)
{
	static const char key[] = "0123456789abcdef0123456789abcdef";
	const char *const listen[] = {"127.0.0.1:0", NULL};
	td_clock_manual_init(&at, 1790000000000);
	td_clock_manual_add(&at, 1000);
	b.clock = &at.clock;
	b.asks = td_asks_new();
	b.view = td_slurm_view_new();
	b.node_queue = td_queue_new(b.clock);
	b.counts = td_counts_new();
	b.cancel = cancel = td_cancel_new();
	if (td_http_server_new(&(struct td_http_server_opts){.listen = listen, .handler = handler}, &server, NULL))
		return -1;
	td_auto_free char *url = td_asprintf("http://127.0.0.1:%d", td_http_server_port(server));
	return pthread_create(&thread, NULL, serve, NULL) ||
	       td_slurm_new(&(struct td_slurm_opts){.url = url, .key = key, .key_len = strlen(key)}, &slurm, NULL);
}

static int teardown(void **state)
{
	td_slurm_free(slurm);
	td_cancel_fire(cancel);
	pthread_join(thread, NULL);
	td_http_server_free(server);
	td_counts_free(b.counts);
	td_queue_free(b.node_queue);
	td_slurm_view_free(b.view);
	td_asks_free(b.asks);
	td_cancel_unref(cancel);
	return 0;
}

static void node_changes(void)
{
	bool changed;
	drained = !drained;
	td_clock_manual_add(&at, 120000); // then the list is read
	assert_int_equal(td_slurm_view_poll_nodes(b.view, slurm, td_now(&b), NULL, &changed, NULL), 0);
	assert_true(changed);
}

// One look when the next one may be. Returns how many requests it made.
static int look(void)
{
	td_clock_manual_add(&at, LOOK_MS);
	int before = asked;
	assert_int_equal(td_counts_look(&b, slurm, NULL), 0);
	return asked - before;
}

static void look_until_quiet(void)
{
	int looks = 0;
	while (look())
		assert_true(++looks < 100);
}

static void counted(const char *n)
{
	td_auto_free char *s = td_counts_text(&b, "n1");
	assert_string_equal(s ? s : "none", n);
}

static void test_counts(void **state)
{
	jobs = 100;
	node_changes();
	assert_int_equal(look(), 1);
	counted("none"); // seen once
	assert_int_equal(look(), 1 + 64);
	counted("64");
	// Behind, it looks again at once: ten thousand jobs must not take hours.
	int before = asked;
	assert_int_equal(td_counts_look(&b, slurm, NULL), 0);
	assert_int_equal(asked - before, 1 + 36);
	counted("100");
	look_until_quiet();
	counted("100");

	// All of them are old by now: a new one is read before them.
	td_clock_manual_add(&at, OLD_MS);
	jobs = 101;
	node_changes();
	assert_int_equal(look(), 1 + 16);
	counted("100");
	assert_int_equal(look(), 1 + 16);
	counted("101");
	look_until_quiet();
	counted("101");

	// A look that fails is made up for, although no node changes meanwhile.
	jobs = 2;
	node_changes();
	broken = true;
	td_clock_manual_add(&at, LOOK_MS);
	struct td_error e = TD_ERROR_INIT;
	assert_int_not_equal(td_counts_look(&b, slurm, &e), 0);
	counted("101");
	broken = false;
	look_until_quiet();
	counted("2");

	// Nor is it asked at once again while it left new jobs to read.
	jobs = 200;
	node_changes();
	look();
	look(); // 64 of them
	broken = true;
	assert_int_not_equal(td_counts_look(&b, slurm, &e), 0);
	before = asked;
	td_clock_manual_add(&at, LOOK_MS - 1);
	assert_int_equal(td_counts_look(&b, slurm, &e), 0);
	assert_int_equal(asked, before);
	broken = false;
	look_until_quiet();
	counted("200");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts)};
	return cmocka_run_group_tests(tests, setup, teardown);
}
