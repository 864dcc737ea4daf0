// What /livez, /readyz and /metrics answer.
// rows: A12.2 A14.1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "http/client.h"
#include "kube/controller.h"
#include "kube/health.h"
#include "kube/test/fake.h"
#include "metrics/metrics.h"

#include <string.h>
#include <unistd.h>

static void stuck_loop(void **s)
{
	struct td_loop *l = td_loop_new("pods", 1000);
	int64_t now = td_mono_ms(&td_clock_system);
	td_auto_buf struct td_buf b = {0};
	assert_true(td_health_live(now + 100000, &b)); // idle: waiting has no limit

	td_loop_busy(l);
	assert_true(td_health_live(now + 900, &b));
	assert_int_equal(b.len, 0);
	assert_false(td_health_live(now + 5000, &b));
	assert_non_null(strstr(td_buf_str(&b), "loop pods"));
	td_loop_idle(l);
	assert_true(td_health_live(now + 5000, &b));
	td_loop_free(l);
}

static void never(struct td_http_x *x, void *ctx)
{
	td_http_send(x, 500, "text/plain", "no", 2);
}

static void readiness(void **s)
{
	td_auto_buf struct td_buf b = {0};
	assert_true(td_health_ready(&b));
	td_health_set("lease", "it was not read yet");
	assert_false(td_health_ready(&b));
	assert_string_equal(td_buf_str(&b), "lease: it was not read yet\n");
	td_health_set("lease", NULL);
	assert_true(td_health_ready(&b));

	// An informer that cannot list is not synced, and one that is freed is not waited for.
	struct fake *f = fake_start(never, NULL);
	td_auto(td_kube_free) struct td_kube *k = fake_client(f);
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	const struct td_informer_opts o = {.resource = &td_pods};
	struct td_informer *i = td_informer_new(k, &o);
	assert_int_equal(td_informer_start(i, c, NULL), 0);

	td_buf_reset(&b);
	assert_false(td_health_ready(&b));
	assert_string_equal(td_buf_str(&b), "informer pods: the first list is not in\n");

	td_cancel_fire(c);
	td_informer_free(i);
	assert_true(td_health_ready(&b));
	fake_stop(f);
}

static int ask(struct td_http_client *c, const char *path, struct td_http_reply *ret)
{
	const struct td_http_call call = {.method = "GET", .path = path};
	assert_int_equal(td_http_do(c, &call, NULL, ret, NULL), 0);
	return ret->status;
}

static void server(void **s)
{
	td_auto_free char *sock = td_asprintf("/tmp/tandem-health-%d", (int)getpid()),
			  *at = td_asprintf("unix:%s", sock);
	struct td_health *h;
	assert_int_equal(td_health_serve("test", NULL, &h, NULL), 0);
	assert_null(h);

	struct td_error err = TD_ERROR_INIT;
	assert_int_not_equal(td_health_serve("test", "nowhere", &h, &err), 0);
	assert_non_null(strstr(err.msg, "--metrics nowhere"));
	assert_int_equal(td_health_serve("test", at, &h, NULL), 0);

	const struct td_http_client_opts o = {.base_url = "http://x", .unix_socket = sock};
	td_auto(td_http_client_free) struct td_http_client *c = NULL;
	assert_int_equal(td_http_client_new(&o, &c, NULL), 0);
	static const struct {
		const char *path;
		int status;
		const char *text;
	} all[] = {{"/livez", 200, "ok\n"},
		   {"/readyz", 200, "ok\n"},
		   {"/metrics", 200, "tandem_build_info{role=\"test\",version=\""},
		   {"/metrics", 200, "\nprocess_resident_memory_bytes "},
		   {"/nothing", 404, "/readyz"}};

	for (size_t i = 0; i < TD_LEN(all); i++) {
		td_auto_reply struct td_http_reply r = {0};
		assert_int_equal(ask(c, all[i].path, &r), all[i].status);
		assert_non_null(strstr(td_buf_str(&r.body), all[i].text));
	}

	td_health_set("start", "starting");
	td_auto_reply struct td_http_reply r = {0};
	assert_int_equal(ask(c, "/readyz", &r), 503);
	assert_string_equal(td_buf_str(&r.body), "start: starting\n");
	td_health_set("start", NULL);
	td_health_end(h);
}

static void depth(void **s)
{
	struct td_queue *q = td_queue_new(NULL);
	td_queue_measure(q, "t");
	td_queue_add(q, "a");
	td_queue_add(q, "b");
	td_auto_buf struct td_buf b = {0};
	td_metrics_text(td_metrics_process(), &b);
	assert_non_null(strstr(td_buf_str(&b), "\ntandem_queue_depth{controller=\"t\"} 2\n"));
	td_queue_free(q);

	td_buf_reset(&b);
	td_metrics_text(td_metrics_process(), &b);
	assert_null(strstr(td_buf_str(&b), "tandem_queue_depth{"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(stuck_loop), cmocka_unit_test(readiness),
					   cmocka_unit_test(server), cmocka_unit_test(depth)};
	return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
