// Who is listened to when GPUs are cut on demand: nobody who waits for what never comes stands before others, and nobody
// is held for what nobody does any more.
// rows: D2.5
#include "bridge/cuts.h"

#include "bridge/policy/policies.h"
#include "bridge/scheduler/ask.h"
#include "bridge/test/given.h"
#include "kube/informer.h"
#include "kube/test/fake.h"
#include "slurm/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LIST "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":["
#define CUTTING                                                                                                        \
	"\"" TD_ANN_GPU_CUTTING "\":\"{\\\"set\\\":\\\"x/s\\\",\\\"keepWhole\\\":0,\\\"idleSeconds\\\":600,"           \
	"\\\"pauseSeconds\\\":0}\","

// Both servers in one: a node of two GPUs that can be cut, some pods, and Slurm.
static struct {
	atomic_int released, cut, jobs, reads[31]; // jobs 1 … wait, held by their user
	char wish[1024], change[256];
	bool was; // cut on demand once, but not any more
} world;
static struct td_clock_manual at;
static struct td_bridge b;
static struct td_slurm *slurm;
static struct fake *fake;
static struct td_cancel *cancel;

static void nodes(struct td_buf *t)
{
	td_buf_printf(t,
		      LIST "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\",\"uid\":\"n\","
			   "\"resourceVersion\":\"5\",\"labels\":{},\"annotations\":{%s\"" TD_ANN_GPU_PARTS
			   "\":\"[{\\\"parts\\\":[{\\\"name\\\":\\\"1g.10gb\\\",\\\"size\\\":1,\\\"at\\\":127}],"
			   "\\\"gpus\\\":[0,1]}]\"}},\"spec\":{}}]}",
		      world.was ? "\"" TD_ANN_GPU_CUT_AT "\":\"5\"," : CUTTING);
}

static void pods(struct td_buf *t)
{
	td_buf_puts(t, LIST);
	for (int i = 0; i < 41; i++)
		td_buf_printf(t,
			      "%s{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"%s\",\"name\":"
			      "\"p%d\",\"uid\":\"u%d\",\"resourceVersion\":\"5\"},\"spec\":{\"containers\":[]}}",
			      i ? "," : "", i == 40 ? "bob" : "eve", i, i);
	td_buf_puts(t, "]}");
}

static void handler(struct td_http_x *x, void *ctx)
{
	const char *target = td_http_target(x), *method = td_http_method(x);
	td_auto_buf struct td_buf t = {0};
	size_t len = 0;
	if (td_http_query(x, "watch")) {
		if (!td_http_stream_begin(x, 200, "application/json", NULL))
			td_cancel_wait(td_http_cancel(x), -1);
		return;
	}
	if (td_streq(method, "PATCH")) {
		const char *body = td_http_body(x, &len);
		snprintf(world.wish, sizeof(world.wish), "%.*s", (int)len, body);
		atomic_fetch_add(&world.cut, 1);
		td_buf_puts(&t, "{}");
	} else if (strstr(target, "/job/") && td_streq(method, "GET")) {
		const int id = atoi(strstr(target, "/job/") + strlen("/job/"));
		atomic_fetch_add(&world.reads[id < 31 ? id : 0], 1);
		td_buf_printf(&t,
			      "{\"jobs\":[{\"job_id\":%d,\"job_state\":[\"PENDING\"],\"priority\":{\"set\":true,"
			      "\"number\":0}}],\"errors\":[]}",
			      id);
	} else if (strstr(target, "/jobs/")) {
		td_buf_puts(&t, "{\"jobs\":[");
		for (int i = 1; i <= world.jobs; i++)
			td_buf_printf(&t, "%s{\"job_id\":\"%d\",\"state\":[\"PENDING\"]}", i > 1 ? "," : "", i);
		td_buf_puts(&t, "],\"errors\":[]}");
	} else if (strstr(target, "/slurm/") && strstr(target, "/job/")) {
		const char *body = td_http_body(x, &len);
		snprintf(world.change, sizeof(world.change), "%s %.*s", method, (int)len, body);
		atomic_fetch_add(&world.released, 1);
		td_buf_puts(&t, "{\"results\":[],\"errors\":[]}");
	} else if (strstr(target, "/slurm/")) {
		td_buf_puts(&t, "{\"nodes\":[{\"name\":\"n1\",\"state\":[\"IDLE\"],\"cpus\":8,\"gres\":\"gpu:h100:2\","
				"\"gres_used\":\"gpu:h100:0\",\"partitions\":[\"all\"]}],\"errors\":[]}");
	} else if (strstr(target, "/nodes")) {
		nodes(&t);
	} else {
		pods(&t);
	}
	td_http_send(x, 200, "application/json", td_buf_str(&t), t.len);
}

static void by_uid(const struct td_object *o, struct td_strv *ret)
{
	td_strv_add(ret, o->uid);
}

static void begin(bool was)
{
	static const char key[] = "0123456789abcdef0123456789abcdef";
	memset(&world, 0, sizeof(world));
	world.was = was;
	fake = fake_start(handler, NULL);
	cancel = td_cancel_new();
	td_clock_manual_init(&at, 1790000000000);
	td_clock_manual_add(&at, 1000);
	b = (struct td_bridge){.clock = &at.clock,
			       .kube = fake_client(fake),
			       .cancel = cancel,
			       .cuts = td_cuts_new(),
			       .view = td_slurm_view_new()};
	pthread_mutex_init(&b.lock, NULL);
	b.settings = given_settings("{}");
	b.nodes = td_informer_new(b.kube, &(struct td_informer_opts){.resource = &td_nodes});
	b.pods = td_informer_new(b.kube, &(struct td_informer_opts){.resource = &td_pods});
	td_informer_add_index(b.nodes, TD_CUTS_INDEX, td_cuts_index);
	td_informer_add_index(b.pods, "uid", by_uid);
	assert_int_equal(td_informer_start(b.nodes, cancel, NULL), 0);
	assert_int_equal(td_informer_start(b.pods, cancel, NULL), 0);
	struct td_informer *const both[] = {b.nodes, b.pods};
	assert_int_equal(td_informers_fill(both, 2, "the test waits", cancel, NULL), 0);
	const struct td_slurm_opts o = {.url = fake_url(fake), .key = key, .key_len = strlen(key)};
	bool changed;
	assert_int_equal(td_slurm_new(&o, &slurm, NULL), 0);
	assert_int_equal(td_slurm_view_poll_nodes(b.view, slurm, td_now(&b), NULL, &changed, NULL), 0);
}

static void end(void)
{
	td_cancel_fire(cancel);
	td_slurm_free(slurm);
	td_informer_free(b.nodes);
	td_informer_free(b.pods);
	td_kube_free(b.kube);
	fake_stop(fake);
	td_cuts_free(b.cuts);
	td_slurm_view_free(b.view);
	td_settings_unref(b.settings);
	pthread_mutex_destroy(&b.lock);
	td_cancel_unref(cancel);
}

static void wait_for(int pod, const char *ns, int64_t n)
{
	char uid[8];
	snprintf(uid, sizeof(uid), "u%d", pod);
	const struct td_cuts_note note = {
		.kind = "1g.10gb", .n = n, .since_s = 1000 + pod, .ask = uid, .pod = uid, .ns = ns};
	assert_true(td_cuts_wait(&b, &note));
}

// Forty pods of eve's want fifty parts on one node, which no GPU has; then comes bob, who wants one.
static void nobody_stands_before_others_for_good(void **state)
{
	begin(false);
	struct td_policies_facts none = {0};
	assert_true(td_cuts_on(&b));
	for (int i = 0; i < 40; i++)
		wait_for(i, "eve", 50);
	td_cuts_pass(&b, slurm, &none);
	assert_int_equal(world.cut, 0);
	td_auto_buf struct td_buf why = {0};
	td_cuts_words(&b, 0, "u0", &why);
	assert_non_null(strstr(td_buf_str(&why), "it wants more of them on one node"));

	// Nor before others of its own namespace: 16 of it are known, and four are looked at in each pass.
	td_clock_manual_add(&at, 31000);
	for (int i = 0; i < 12; i++)
		wait_for(i, "eve", 50);
	wait_for(39, "eve", 1);
	for (int i = 0; i < 5 && !world.cut; i++) {
		td_clock_manual_add(&at, 2000);
		td_cuts_pass(&b, slurm, &none);
	}
	assert_int_equal(world.cut, 1);
	world.cut = 0;

	wait_for(40, "bob", 1);
	td_clock_manual_add(&at, 2000);
	td_cuts_pass(&b, slurm, &none);
	assert_int_equal(world.cut, 1);
	assert_non_null(strstr(world.wish, "\\\"gpu\\\":0"));
	assert_non_null(strstr(world.wish, "\\\"parts\\\":[\\\"1g.10gb\\\""));
	end();
}

// A job that was held for a cut is let go when no NodeSet cuts any more, also by a bridge that has just begun to lead.
static void nobody_is_held_for_what_is_off(void **state)
{
	begin(true);
	struct td_policies_known v[] = {
		{.id = 7, .label = "7", .user = "bob", .phase = TD_PHASE_WAITING, .read = true},
		{.id = 8, .label = "8", .user = "bob", .phase = TD_PHASE_WAITING, .read = true}};
	for (size_t i = 0; i < TD_LEN(v); i++)
		snprintf(v[i].part, sizeof(v[i].part), "1g.10gb"), v[i].held = v[i].parked = true;
	v[1].marked = true; // Slurm itself holds the other one
	struct td_policies_facts f = {.v = v, .n = 2, .more = true}, gone = {0};
	assert_true(td_cuts_on(&b));
	td_cuts_pass(&b, slurm, &f);
	assert_int_equal(world.released, 0); // it may be a NodeSet whose pods are made anew
	td_clock_manual_add(&at, 301000);
	assert_true(td_cuts_on(&b));
	td_cuts_pass(&b, slurm, &f);
	assert_int_equal(world.released, 1);
	assert_non_null(strstr(world.change, "\"admin_comment\":\"\""));
	assert_non_null(strstr(world.change, "\"hold\":false"));
	td_clock_manual_add(&at, 2000);
	td_cuts_pass(&b, slurm, &f); // it is not known to be free yet
	assert_int_equal(world.released, 1);
	td_clock_manual_add(&at, 2000);
	assert_true(td_cuts_on(&b));
	td_cuts_pass(&b, slurm, &gone);
	td_clock_manual_add(&at, 2000);
	assert_false(td_cuts_on(&b)); // and from then on it costs nothing
	end();
}

// Some that are held for good are not all that is read again: a job that Slurm has begun to hold would never be seen.
static void each_is_read_again_in_its_turn(void **state)
{
	begin(false);
	struct td_policies_facts f = {0};
	world.jobs = 30;
	assert_int_equal(td_policies_facts_read(&f, slurm, true, td_now(&b), NULL, NULL), 0);
	for (int i = 0; i < 4; i++) {
		td_clock_manual_add(&at, 5001);
		assert_int_equal(td_policies_facts_read(&f, slurm, true, td_now(&b), NULL, NULL), 0);
	}
	for (int i = 1; i <= world.jobs; i++)
		if (world.reads[i] < 2)
			fail_msg("job %d was not read again", i);
	td_policies_facts_done(&f);
	end();
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(nobody_stands_before_others_for_good),
				       cmocka_unit_test(nobody_is_held_for_what_is_off),
				       cmocka_unit_test(each_is_read_again_in_its_turn)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
