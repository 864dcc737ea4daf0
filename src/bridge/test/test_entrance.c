// Whose gate goes, while the caches lag behind: nobody gets room that another pod has already.
// rows: A17.2
#include "bridge/syncer/entrance.h"

#include "bridge/syncer/aside.h"
#include "bridge/syncer/shadow_priv.h"
#include "bridge/test/given.h"
#include "kube/informer.h"
#include "kube/test/fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LIST(items) "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[" items "]}"
// Of 2 CPUs, which wants the node n1.
#define POD(name, made, spec)                                                                                          \
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"x\",\"name\":\"" name                   \
	"\",\"uid\":\"u-" name "\",\"resourceVersion\":\"5\",\"creationTimestamp\":\"2026-01-01T00:00:0" made          \
	"Z\",\"annotations\":{\"" TD_ANN_SHADOW_NODE                                                                   \
	"\":\"n1\"}},\"spec\":{\"schedulerName\":\"default-scheduler\"," spec                                          \
	"\"containers\":[{\"name\":\"a\",\"resources\":{\"requests\":{\"cpu\":\"2\"}}}]}}"
#define GATED "\"schedulingGates\":[{\"name\":\"" TD_GATE_SHADOW "\"}],"

static struct api {
	atomic_bool bound,
		older; // is there a pod that no cache shows yet; another one at the gate, made before the first
	atomic_int lifted;
	char last[64];
	int seen;
} api;

static void handler(struct td_http_x *x, void *ctx)
{
	td_auto_free char *labels = td_strdup(td_http_query(x, "labelSelector"));
	bool waiting = td_streq(labels, "is=waiting");
	if (td_streq(td_http_method(x), "PATCH")) {
		snprintf(api.last, sizeof(api.last), "%s", td_http_target(x));
		atomic_fetch_add(&api.lifted, 1);
		td_http_send(x, 200, "application/json", "{}", 2);
		return;
	}
	if (!td_http_query(x, "watch")) {
		const char *text = waiting                ? LIST(POD("first", "5", GATED))
				   : labels || !api.bound ? LIST("")
							  : LIST(POD("bound", "6", "\"nodeName\":\"n1\","));
		td_http_send(x, 200, "application/json", text, strlen(text));
		return;
	}
	if (td_http_stream_begin(x, 200, "application/json", NULL))
		return;
	static const char event[] = "{\"type\":\"ADDED\",\"object\":" POD("older", "1", GATED) "}\n";
	for (bool said = false; !td_cancelled(td_http_cancel(x)); td_cancel_wait(td_http_cancel(x), 5))
		if (waiting && api.older && !said) {
			said = true;
			if (td_http_stream_write(x, event, strlen(event), NULL))
				return;
		}
}

static void on_change(void *ctx, struct td_object *old, struct td_object *now)
{
	__atomic_add_fetch(&api.seen, 1, __ATOMIC_RELEASE);
}

static void by_node(const struct td_object *o, struct td_strv *ret)
{
	if (td_jstr(o->root, "spec.nodeName"))
		td_strv_add(ret, td_jstr(o->root, "spec.nodeName"));
}

static void room_is_given_once(void **state)
{
	struct fake *fake = fake_start(handler, NULL);
	struct td_cancel *cancel = td_cancel_new();
	struct td_bridge b = {.clock = &td_clock_system,
			      .kube = fake_client(fake),
			      .asides = td_asides_new(),
			      .shadows = td_shadows_new(),
			      .entrance = td_entrance_new(&td_clock_system)};
	b.unplaced = td_informer_new(b.kube, &(struct td_informer_opts){.resource = &td_pods, .labels = "is=waiting"});
	b.others = td_informer_new(b.kube, &(struct td_informer_opts){.resource = &td_pods, .labels = "is=placed"});
	td_informer_add_index(b.unplaced, "shadow-node", td_entrance_index);
	td_informer_on_change(b.unplaced, on_change, NULL);
	td_informer_add_index(b.others, "node", by_node);
	assert_int_equal(td_informer_start(b.unplaced, cancel, NULL), 0);
	assert_int_equal(td_informer_start(b.others, cancel, NULL), 0);
	assert_true(fake_reached(&api.seen, 1));

	struct td_settings *s = given_settings("{\"shadows\":{\"enabled\":true}}");
	struct td_object *node = td_object_new(
		given_json("{\"metadata\":{\"name\":\"n1\",\"uid\":\"n\",\"labels\":{\"kubernetes.io/"
			   "hostname\":\"n1\"},\"annotations\":{"
			   "\"" TD_ANN_SHARE "\":\"{\\\"cpu\\\":\\\"8\\\",\\\"memory\\\":\\\"8Gi\\\"}\"}},\"status\":{"
			   "\"allocatable\":{\"cpu\":\"8\",\"memory\":\"8Gi\",\"pods\":\"110\"}}}"));
	struct td_slurm_node n = {.cpus = 8, .memory_mb = 8192, .alloc_cpus = 2};
	struct td_shadow_of *x = td_shadow_of_locked(b.shadows, "n1");
	x->n = 1;
	x->v[0] = (struct td_shadow_job){.job = 7, .is = {.has = {2, 1}, .runs = true}};
	struct td_error err = TD_ERROR_INIT;

	// What Slurm holds is a pod's that was placed a moment ago.
	api.bound = true;
	assert_int_equal(td_entrance_open(&b, s, node, &n, cancel, &err), 0);
	assert_int_equal(api.lifted, 0);
	api.bound = false;
	assert_int_equal(td_entrance_open(&b, s, node, &n, cancel, &err), 0);
	assert_int_equal(api.lifted, 1);
	assert_non_null(strstr(api.last, "/pods/first"));

	// The cache does not show that the gate is off, and there comes one that would be before it.
	api.older = true;
	assert_true(fake_reached(&api.seen, 2));
	assert_int_equal(td_entrance_open(&b, s, node, &n, cancel, &err), 0);
	assert_non_null(strstr(api.last, "/pods/first"));
	// With more held it goes, too.
	x->v[0].is.has.cpus = 4;
	assert_int_equal(td_entrance_open(&b, s, node, &n, cancel, &err), 0);
	assert_non_null(strstr(api.last, "/pods/older"));
	// Nothing where Slurm's node is drained.
	int lifted = api.lifted;
	n.states = TD_NODE(DRAIN);
	assert_int_equal(td_entrance_open(&b, s, node, &n, cancel, &err), 0);
	assert_int_equal(api.lifted, lifted);

	td_cancel_fire(cancel);
	td_informer_free(b.unplaced);
	td_informer_free(b.others);
	td_object_unref(node);
	td_settings_unref(s);
	td_entrance_free(b.entrance);
	td_shadows_free(b.shadows);
	td_asides_free(b.asides);
	td_kube_free(b.kube);
	fake_stop(fake);
	td_cancel_unref(cancel);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(room_is_given_once)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
