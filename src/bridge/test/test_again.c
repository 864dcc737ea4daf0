// rows: B6.2
// Jobs that were queued again, beside a slurmrestd of the test's own: which are looked at, which begin, and which wait as
// Slurm wants them to, because of a node that failed, of a hold, or of whom they made room for.
#include "bridge/again.h"
#include "bridge/test/given.h"

#include "http/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SUBMIT = 1790000000, JOB = 17, LOOK_MS = 2000 };

static struct td_clock_manual at;
static struct td_bridge b;
static struct td_http_server *server;
static pthread_t thread;
static struct {
	const char *states, *node; // of the job, as a list; of n1
	const char *admin, *waiter;
	int priority, restarts, pause, refuse;
	char body[512];
	int reads, writes;
	bool meanwhile; // it is queued again while its record is read
} fake;

static void handler(struct td_http_x *x, void *ctx)
{
	const char *path = td_http_target(x), *job = strstr(path, "/job/");
	td_auto_buf struct td_buf t = {0};
	int status = 200;
	if (strstr(path, "/nodes/")) {
		td_buf_printf(&t,
			      "{\"nodes\":[{\"name\":\"n0\",\"state\":[\"IDLE\"]},{\"name\":\"n1\",\"state\":[%s]}],"
			      "\"errors\":[]}",
			      fake.node);
	} else if (job && !strcmp(td_http_method(x), "POST")) {
		fake.writes++;
		snprintf(fake.body, sizeof(fake.body), "%s", td_http_body(x, NULL));
		status = fake.refuse ? 500 : 200;
		if (fake.refuse)
			td_buf_printf(&t, "{\"errors\":[{\"error_number\":%d,\"error\":\"no\"}]}", fake.refuse);
		else
			td_buf_puts(&t, "{\"errors\":[]}");
	} else if (job) {
		fake.reads++;
		struct td_slurm_state one = {.id = JOB, .states = TD_JOB(PENDING)};
		if (fake.meanwhile)
			td_agains_back(&b, &(struct td_slurm_states){.v = &one, .n = 1}, td_now(&b) - 1, td_now(&b));
		td_buf_printf(&t,
			      "{\"jobs\":[{\"job_id\":%d,\"job_state\":[%s],\"batch_flag\":true,\"restart_cnt\":%d,"
			      "\"priority\":%d,\"submit_time\":%d,\"eligible_time\":%d,\"admin_comment\":\"%s\"}],"
			      "\"errors\":[]}",
			      JOB, fake.states, fake.restarts, fake.priority, SUBMIT, SUBMIT + fake.pause, fake.admin);
	} else if (strstr(path, "job_id=30")) {
		td_buf_printf(&t, "{\"jobs\":[{\"job_id\":\"30\",\"state\":[%s]}],\"errors\":[]}", fake.waiter);
	} else {
		td_buf_printf(
			&t,
			"{\"jobs\":[{\"job_id\":\"%d\",\"state\":[%s]},{\"job_id\":\"18\",\"state\":[\"PENDING\"]}],"
			"\"errors\":[]}",
			JOB, fake.states);
	}
	td_http_send(x, status, "application/json", td_buf_str(&t), t.len);
}

static void *serve(void *p)
{
	td_http_server_run(server, b.cancel, NULL);
	return NULL;
}

static int setup(void **state)
{
	static const char key[] = "0123456789abcdef0123456789abcdef";
	const char *const listen[] = {"127.0.0.1:0", NULL};
	td_clock_manual_init(&at, 1790000000000);
	td_clock_manual_add(&at, 1000000);
	b.clock = &at.clock;
	b.cancel = td_cancel_new();
	b.link = td_calloc(1, sizeof(*b.link));
	b.link->refs = 1;
	b.settings = given_settings("{\"config\": {\"slurmConf\": {\"killwait\": \"1\"}}}");
	pthread_mutex_init(&b.lock, NULL);
	if (td_http_server_new(&(struct td_http_server_opts){.listen = listen, .handler = handler}, &server, NULL))
		return -1;
	td_auto_free char *url = td_asprintf("http://127.0.0.1:%d", td_http_server_port(server));
	const struct td_slurm_opts o = {.url = url, .key = key, .key_len = strlen(key)};
	return pthread_create(&thread, NULL, serve, NULL) || td_slurm_new(&o, &b.link->slurm, NULL);
}

static int teardown(void **state)
{
	td_cancel_fire(b.cancel);
	pthread_join(thread, NULL);
	td_link_unref(b.link);
	td_settings_unref(b.settings);
	td_http_server_free(server);
	td_cancel_unref(b.cancel);
	pthread_mutex_destroy(&b.lock);
	return 0;
}

// What poll.c does, once, LOOK_MS later.
static void poll_once(void)
{
	static int64_t seen;
	bool diff = false;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *old = td_slurm_view_nodes(b.view);
	td_auto_states struct td_slurm_states back = {0};
	seen = old ? seen : -1;
	td_clock_manual_add(&at, LOOK_MS);
	assert_int_equal(td_slurm_view_poll_nodes(b.view, b.link->slurm, td_now(&b), b.cancel, &diff, NULL), 0);
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *now = td_slurm_view_nodes(b.view);
	if (diff && old)
		td_agains_nodes(&b, old, now);
	assert_int_equal(td_slurm_view_poll_waiting(b.view, b.link->slurm, b.cancel, &back, NULL), 0);
	td_agains_back(&b, &back, seen, td_now(&b));
	seen = td_now(&b);
}

static void begin(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.states = "\"RUNNING\"";
	fake.node = "\"IDLE\"";
	fake.admin = "";
	fake.priority = 100;
	fake.restarts = 1;
	fake.pause = 121;
	b.view = td_slurm_view_new();
	b.agains = td_agains_new();
	b.again_queue = td_queue_new(b.clock);
	poll_once();
	poll_once();
	assert_int_equal(td_queue_len(b.again_queue), 0); // 18 waits from the begin
}

static void end(void)
{
	b.again_queue = td_queue_free(b.again_queue);
	b.agains = td_agains_free(b.agains);
	b.view = td_slurm_view_free(b.view);
}

// The job waits again; the nodes are known as they were after that.
static void queued_again(void)
{
	fake.states = "\"PENDING\"";
	poll_once();
	assert_int_equal(td_queue_len(b.again_queue), 1);
	poll_once();
	poll_once();
	assert_int_equal(td_queue_len(b.again_queue), 1); // once
}

static int64_t reconcile(void)
{
	int64_t again_ms = 0;
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_agains_reconcile(&b, "17", &again_ms, b.cancel, &e), 0);
	return again_ms;
}

static void it_begins_when_its_pause_is_over(void **state)
{
	begin();
	queued_again();
	assert_int_equal(reconcile(), 2000); // 4 s after it was seen
	assert_int_equal(fake.writes, 0);
	td_clock_manual_add(&at, 2000);
	assert_int_equal(reconcile(), 0);
	assert_int_equal(fake.writes, 1);
	assert_string_equal(fake.body, "{\"begin_time\":{\"set\":true,\"number\":1790000006}}");
	assert_int_equal(td_agains_count(&b), 1);

	td_auto_buf struct td_buf t = {0};
	const struct td_slurm_job j = {.id = JOB, .submit = SUBMIT};
	td_agains_words(&b, &j, &t);
	assert_string_equal(
		td_buf_str(&t),
		" It was queued again at 14:13:20 UTC, and begins 6 s later instead of Slurm's two minutes.");
	fake.pause = 6;
	reconcile();
	assert_int_equal(fake.writes, 1);
	end();
}

static void what_cannot_be_written_any_more_is_left(void **state)
{
	begin();
	queued_again();
	td_clock_manual_add(&at, 60000);
	fake.refuse = 2017; // it has just ended
	assert_int_equal(reconcile(), 0);
	assert_int_equal(td_agains_count(&b), 0);
	fake.refuse = 1800; // slurmctld is away
	int64_t again_ms = 0;
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_agains_reconcile(&b, "17", &again_ms, b.cancel, &e), TD_TRANSIENT); // the queue tries again
	fake.refuse = 0;
	assert_int_equal(reconcile(), 0);
	assert_int_equal(td_agains_count(&b), 1);
	td_clock_manual_add(&at, 180000);
	int reads = fake.reads;
	assert_int_equal(reconcile(), 0); // nothing asks for it any more
	assert_int_equal(fake.reads, reads);
	end();
}

static void a_node_that_may_come_back_keeps_it_waiting(void **state)
{
	begin();
	fake.node = "\"DOWN\"";
	queued_again();
	assert_true(reconcile() > 0);
	td_clock_manual_add(&at, 30000);
	assert_true(reconcile() > 0);
	fake.node = "\"IDLE\""; // it has
	poll_once();
	poll_once();
	assert_true(reconcile() > 0);
	assert_int_equal(fake.writes, 0);
	assert_int_equal(fake.reads, 0);  // Slurm is not asked for it meanwhile
	fake.node = "\"DOWN\",\"DRAIN\""; // it takes no job
	poll_once();
	poll_once();
	fake.node = "\"IDLE\""; // and was mended soon
	poll_once();
	assert_int_equal(reconcile(), 0);
	assert_int_equal(fake.writes, 1);
	end();
}

static void it_begins_also_when_it_was_looked_at_why_the_time_before(void **state)
{
	begin();
	fake.node = "\"DOWN\",\"DRAIN\"";
	queued_again();
	td_clock_manual_add(&at, 10000);
	b.o.cluster = "pool";
	b.settings->accounting = true;
	assert_int_equal(reconcile(), 5000);
	assert_int_equal(fake.writes, 1);
	fake.meanwhile = true;
	reconcile();
	fake.meanwhile = b.settings->accounting = false;
	poll_once();
	td_clock_manual_add(&at, 10000);
	assert_int_equal(reconcile(), 0);
	assert_int_equal(fake.writes, 2);
	end();
}

static void a_node_that_failed_long_before_is_not_its_own(void **state)
{
	begin();
	fake.node = "\"DOWN\"";
	for (int i = 0; i < 5; i++)
		poll_once();
	queued_again();
	td_clock_manual_add(&at, 6000);
	assert_int_equal(reconcile(), 0);
	assert_int_equal(fake.writes, 1);
	end();
}

static void a_node_counts_from_when_its_run_began_to_end(void **state)
{
	begin();
	fake.node = "\"DOWN\"";
	fake.states = "\"PENDING\",\"COMPLETING\"";
	for (int i = 0; i < 30; i++)
		poll_once();
	assert_int_equal(td_queue_len(b.again_queue), 0);
	queued_again();
	td_clock_manual_add(&at, 6000);
	assert_true(reconcile() > 0);
	assert_int_equal(fake.writes, 0);
	end();
}

// Of many nodes the list is seldom (slurm/view.h).
static void a_node_counts_also_when_its_failure_is_seen_late(void **state)
{
	begin();
	td_slurm_view_paced(b.view, &(struct td_slurm_list_pace){.times = 1, .least_ms = 30000, .few = 1});
	fake.node = "\"MIXED\""; // a list that says something else: the next one is kept back
	td_clock_manual_add(&at, 60000);
	poll_once();
	fake.node = "\"DOWN\"";
	queued_again();
	td_clock_manual_add(&at, 30000);
	poll_once();
	assert_true(reconcile() > 0);
	assert_int_equal(fake.writes, 0);
	end();
}

static void nothing_is_done_when_nodes_were_not_to_be_read(void **state)
{
	begin();
	queued_again();
	td_agains_blind(&b);
	td_clock_manual_add(&at, 10000);
	assert_int_equal(reconcile(), 0);
	assert_int_equal(fake.reads, 0);

	fake.states = "\"RUNNING\""; // the next run
	for (int i = 0; i < 5; i++)
		poll_once();
	fake.states = "\"PENDING\"";
	for (int i = 0; i < 5; i++)
		poll_once();
	assert_int_equal(reconcile(), 0);
	assert_int_equal(fake.writes, 1);
	end();
}

static void what_ended_before_the_bridge_began_is_left(void **state)
{
	memset(&fake, 0, sizeof(fake));
	fake.states = "\"PENDING\",\"COMPLETING\"";
	fake.node = "\"IDLE\"";
	fake.admin = "";
	b.view = td_slurm_view_new();
	b.agains = td_agains_new();
	b.again_queue = td_queue_new(b.clock);
	poll_once();
	queued_again();
	assert_int_equal(reconcile(), 0);
	assert_int_equal(fake.reads, 0);
	end();
}

static void holds_begins_and_waiters_are_heeded(void **state)
{
	begin();
	queued_again();
	td_clock_manual_add(&at, 10000);
	fake.priority = 0;
	assert_true(reconcile() > 0);
	fake.priority = 100;
	fake.pause = 3600;
	assert_int_equal(reconcile(), 0);
	fake.pause = 121;
	fake.admin = "tandem: moved off n0, so that job 30 has room, which waits for 4 gpu";
	fake.waiter = "\"PENDING\"";
	assert_true(reconcile() > 0);
	assert_int_equal(fake.writes, 0);
	fake.waiter = "\"RUNNING\"";
	assert_int_equal(reconcile(), 0);
	assert_int_equal(fake.writes, 1);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_begins_when_its_pause_is_over),
		cmocka_unit_test(what_cannot_be_written_any_more_is_left),
		cmocka_unit_test(a_node_that_may_come_back_keeps_it_waiting),
		cmocka_unit_test(it_begins_also_when_it_was_looked_at_why_the_time_before),
		cmocka_unit_test(a_node_that_failed_long_before_is_not_its_own),
		cmocka_unit_test(a_node_counts_from_when_its_run_began_to_end),
		cmocka_unit_test(a_node_counts_also_when_its_failure_is_seen_late),
		cmocka_unit_test(nothing_is_done_when_nodes_were_not_to_be_read),
		cmocka_unit_test(what_ended_before_the_bridge_began_is_left),
		cmocka_unit_test(holds_begins_and_waiters_are_heeded),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
