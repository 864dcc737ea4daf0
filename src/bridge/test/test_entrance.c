// Whose gate goes, while the caches lag behind: nobody gets room that another pod has already.
// rows: A17.2 A17.5
#include "bridge/syncer/entrance.h"

#include "bridge/syncer/aside.h"
#include "bridge/syncer/near.h"
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
#define POD(name, made, spec) ASKS(name, made, spec, "2")
#define ASKS(name, made, spec, cpus)                                                                                   \
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"x\",\"name\":\"" name                   \
	"\",\"uid\":\"u-" name "\",\"resourceVersion\":\"5\",\"creationTimestamp\":\"2026-01-01T00:00:0" made          \
	"Z\",\"annotations\":{\"" TD_ANN_SHADOW_NODE                                                                   \
	"\":\"n1\"}},\"spec\":{\"schedulerName\":\"default-scheduler\"," spec                                          \
	"\"containers\":[{\"name\":\"a\",\"resources\":{\"requests\":{\"cpu\":\"" cpus "\"}}}]}}"
#define GATED "\"schedulingGates\":[{\"name\":\"" TD_GATE_SHADOW "\"}],"

static struct api {
	atomic_bool bound,
		older; // is there a pod that no cache shows yet; another one at the gate, made before the first
	atomic_int lifted;
	char last[64];
	int seen;
} api;

// ---- near.h ----
#define NODE(name, zone)                                                                                               \
	"{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"" name "\",\"uid\":\"" name                 \
	"\",\"resourceVersion\":\"5\",\"labels\":{\"kubernetes.io/hostname\":\"" name "\",\"zone\":\"" zone "\"}}}"
#define AT(name, app, place, more)                                                                                     \
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"x\",\"name\":\"" name                   \
	"\",\"uid\":\"u-" name "\",\"resourceVersion\":\"5\",\"labels\":{\"app\":\"" app "\"}" place                   \
	",\"containers\":[{\"name\":\"a\"}]" more "}}"
#define ON(node) "},\"spec\":{\"nodeName\":\"" node "\""
#define TERM(key, app) "[{\"topologyKey\":\"" key "\",\"labelSelector\":{\"matchLabels\":{\"app\":\"" app "\"}}}]"
#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution"

static atomic_int claims_read;

// Three nodes in two zones. web is on a1; lone, on b1, lets no pod of app "noisy" into its zone; a pod of app "spread" is on
// a1, and one is promised a2.
static void world(struct td_http_x *x, void *ctx)
{
	static const struct {
		const char *path, *text;
	} all[] = {
		{"/api/v1/nodes", LIST(NODE("a1", "a") "," NODE("a2", "a") "," NODE("b1", "b"))},
		{"/api/v1/pods",
		 LIST(AT("web", "web", ON("a1"), "") "," AT(
			 "lone", "lone", ON("b1"),
			 ",\"affinity\":{\"podAntiAffinity\":{\"" REQUIRED
			 "\":" TERM("zone", "noisy") "}}") "," AT("s1", "spread", ON("a1"),
								  "") "," AT("s2", "spread",
									     ",\"annotations\":{\"" TD_ANN_SHADOW_NODE
									     "\":\"a2\"}},\"spec\":{\"x\":1",
									     ""))},
		{"/api/v1/namespaces/x/persistentvolumeclaims/data", "{\"spec\":{\"volumeName\":\"pv1\"}}"},
		{"/api/v1/namespaces/x/persistentvolumeclaims/new", "{\"spec\":{\"storageClassName\":\"zonal\"}}"},
		{"/api/v1/persistentvolumes/pv1",
		 "{\"spec\":{\"nodeAffinity\":{\"required\":{\"nodeSelectorTerms\":[{\"matchExpressions\":["
		 "{\"key\":\"zone\",\"operator\":\"In\",\"values\":[\"b\"]}]}]}}}}"},
		{"/apis/storage.k8s.io/v1/storageclasses/zonal",
		 "{\"allowedTopologies\":[{\"matchLabelExpressions\":[{\"key\":\"zone\",\"values\":[\"a\"]}]}]}"},
	};
	const char *target = td_http_target(x);
	if (td_http_query(x, "watch")) {
		if (!td_http_stream_begin(x, 200, "application/json", NULL))
			td_cancel_wait(td_http_cancel(x), -1);
		return;
	}
	if (strstr(target, "/persistentvolumeclaims/"))
		atomic_fetch_add(&claims_read, 1);
	for (size_t i = 0; i < TD_LEN(all); i++)
		if (!strncmp(target, all[i].path, strlen(all[i].path)) &&
		    (!target[strlen(all[i].path)] || target[strlen(all[i].path)] == '?')) {
			td_http_send(x, 200, "application/json", all[i].text, strlen(all[i].text));
			return;
		}
	td_http_send(x, 404, "application/json", "{}", 2);
}

static struct td_bridge *near_bridge;

// On which of a1, a2 and b1 a pod of this app with this in its spec may be: "a1 b1".
static void may(const char *app, const char *spec, const char *where)
{
	static const char *const names[] = {"a1", "a2", "b1"};
	td_auto_free char *text =
		td_asprintf("{\"metadata\":{\"namespace\":\"x\",\"name\":\"p\",\"uid\":\"u\",\"labels\":"
			    "{\"app\":\"%s\"}},\"spec\":{%s}}",
			    app, spec);
	td_auto(td_object_unref) struct td_object *pod = td_object_new(given_json(text));
	td_auto(td_near_free) struct td_near *near = NULL;
	struct td_error e = TD_ERROR_INIT;
	td_auto_buf struct td_buf got = {0};
	assert_int_equal(td_near_read(near_bridge, pod, true, NULL, &near, &e), 0);
	for (size_t i = 0; i < TD_LEN(names); i++) {
		td_auto(td_object_unref) struct td_object *node = td_informer_get(near_bridge->nodes, NULL, names[i]);
		if (td_near_fits(near, node, NULL))
			td_buf_printf(&got, "%s%s", got.len ? " " : "", names[i]);
	}
	assert_string_equal(td_buf_str(&got), where);
}

static void what_must_be_near_is_near(void **state)
{
	struct fake *fake = fake_start(world, NULL);
	struct td_cancel *cancel = td_cancel_new();
	struct td_bridge b = {.clock = &td_clock_system, .kube = fake_client(fake)};
	b.nodes = td_informer_new(b.kube, &(struct td_informer_opts){.resource = &td_nodes});
	b.others = td_informer_new(b.kube, &(struct td_informer_opts){.resource = &td_pods});
	td_informer_add_index(b.others, "anti", td_near_index);
	assert_int_equal(td_informer_start(b.nodes, cancel, NULL), 0);
	assert_int_equal(td_informer_start(b.others, cancel, NULL), 0);
	struct td_informer *const both[] = {b.nodes, b.others};
	assert_int_equal(td_informers_fill(both, 2, "the test waits", cancel, NULL), 0);
	near_bridge = &b;

	may("plain", "", "a1 a2 b1");
	may("web", "\"affinity\":{\"podAntiAffinity\":{\"" REQUIRED "\":" TERM("kubernetes.io/hostname", "web") "}}",
	    "a2 b1");
	may("web", "\"affinity\":{\"podAntiAffinity\":{\"" REQUIRED "\":" TERM("zone", "web") "}}", "b1");
	may("noisy", "", "a1 a2"); // whom another one keeps away
	may("db", "\"affinity\":{\"podAffinity\":{\"" REQUIRED "\":" TERM("zone", "web") "}}", "a1 a2");
	may("db", "\"affinity\":{\"podAffinity\":{\"" REQUIRED "\":" TERM("zone", "none") "}}", "");
	may("none", "\"affinity\":{\"podAffinity\":{\"" REQUIRED "\":" TERM("zone", "none") "}}",
	    "a1 a2 b1"); // the first one
			 // Two are in zone a, one of them by promise only, and none in b.
#define SPREAD(key, more)                                                                                              \
	"\"topologySpreadConstraints\":[{\"maxSkew\":1,\"topologyKey\":\"" key                                         \
	"\",\"whenUnsatisfiable\":\"DoNotSchedule\",\"labelSelector\":{\"matchLabels\":{\"app\":\"spread\"}}" more     \
	"}]"
	may("spread", SPREAD("zone", ""), "b1");
	may("spread", SPREAD("kubernetes.io/hostname", ""), "b1");
	may("other", SPREAD("zone", ""), "b1");
	// Only zone a counts, where it may be by its nodeSelector: there is no other one to be even with.
	may("spread", "\"nodeSelector\":{\"zone\":\"a\"}," SPREAD("zone", ""), "a1 a2");
	may("spread", "\"nodeSelector\":{\"zone\":\"a\"}," SPREAD("zone", ",\"minDomains\":2"), "");
	may("spread", SPREAD("rack", ""), "");
#define CLAIM(name) "\"volumes\":[{\"name\":\"v\",\"persistentVolumeClaim\":{\"claimName\":\"" name "\"}}]"
	may("plain", CLAIM("data"), "b1");
	may("plain", CLAIM("new"), "a1 a2");
	may("plain", CLAIM("missing"), "a1 a2 b1");
	// The same with terms.
	td_auto_buf struct td_buf terms = {0};
	td_buf_puts(&terms, "\"affinity\":{\"podAntiAffinity\":{\"" REQUIRED "\":[");
	for (int i = 0; i < 32; i++)
		td_buf_puts(&terms,
			    "{\"topologyKey\":\"zone\",\"labelSelector\":{\"matchLabels\":{\"app\":\"none\"}}},");
	td_buf_puts(&terms, "{\"topologyKey\":\"zone\",\"labelSelector\":{\"matchLabels\":{\"app\":\"web\"}}}]}}");
	may("web", td_buf_str(&terms), "a1 a2 b1");
	// One worker serves all pods: one with hundreds of claims does not have it to itself.
	td_auto_buf struct td_buf many = {0};
	td_buf_puts(&many, "\"volumes\":[");
	for (int i = 0; i < 300; i++)
		td_buf_printf(&many, "%s{\"name\":\"v%d\",\"persistentVolumeClaim\":{\"claimName\":\"missing\"}}",
			      i ? "," : "", i);
	td_buf_puts(&many, "]");
	atomic_store(&claims_read, 0);
	may("plain", td_buf_str(&many), "a1 a2 b1");
	assert_int_equal(claims_read, 64);

	td_cancel_fire(cancel);
	td_informer_free(b.nodes);
	td_informer_free(b.others);
	td_kube_free(b.kube);
	fake_stop(fake);
	td_cancel_unref(cancel);
}

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
		const char *text = waiting ? LIST(POD("first", "5", GATED) "," ASKS("big", "0", GATED, "100"))
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
	td_informer_add_index(b.others, "anti", td_near_index);
	td_informer_add_index(b.unplaced, "anti", td_near_index);
	assert_int_equal(td_informer_start(b.unplaced, cancel, NULL), 0);
	assert_int_equal(td_informer_start(b.others, cancel, NULL), 0);
	assert_true(fake_reached(&api.seen, 2));
	// All the time the oldest one is "big", for which the node is too small now: it holds nobody up.

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
	assert_true(fake_reached(&api.seen, 3));
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
	const struct CMUnitTest t[] = {cmocka_unit_test(room_is_given_once),
				       cmocka_unit_test(what_must_be_near_is_near)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
