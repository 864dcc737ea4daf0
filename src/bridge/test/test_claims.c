// ResourceClaims: what they ask for, what a grant makes of them, and the next write from any state
// that a crash can leave.
// rows: A7.1
#include "bridge/scheduler/claims.h"
#include "bridge/test/given.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define UID "5c7f65f6-fdda-46b5-a964-0787cf79ec1d"
#define OTHER "00000000-fdda-46b5-a964-0787cf79ec1d"

static struct td_settings *settings(const char *devices)
{
	td_auto_free char *spec = td_asprintf("{\"scheduler\":{\"defaultUser\":\"u\"},\"devices\":[%s]}", devices);
	return given_settings(spec);
}

#define DRA                                                                                                            \
	"{\"resource\":\"nvidia.com/"                                                                                  \
	"gpu\",\"source\":\"DRA\",\"driver\":\"gpu.example.com\",\"indexAttribute\":\"index\","                        \
	"\"deviceClasses\":[\"gpu.example.com\",\"big\"]}"

// ---- an API of claims and classes ----
struct world {
	struct td_objects claims, classes;
};

static struct td_object *find(const struct td_objects *l, const char *ns, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i]->name, name) && (!ns || !strcmp(l->v[i]->ns, ns)))
			return td_object_ref(l->v[i]);
	return NULL;
}

static struct td_object *claim_of(void *ctx, const char *ns, const char *name)
{
	return find(&((struct world *)ctx)->claims, ns, name);
}

static struct td_object *class_of(void *ctx, const char *name)
{
	return find(&((struct world *)ctx)->classes, NULL, name);
}

static void world_done(struct world *w)
{
	td_objects_done(&w->claims);
	td_objects_done(&w->classes);
}

static void add_class(struct world *w, const char *name, const char *spec)
{
	td_auto_free char *s =
		td_asprintf("{\"metadata\":{\"name\":\"%s\",\"uid\":\"k-%s\"},\"spec\":{%s}}", name, name, spec);
	td_objects_add(&w->classes, td_object_new(given_json(s)));
}

static void add_claim(struct world *w, const char *name, const char *meta, const char *devices, const char *status)
{
	td_auto_free char *s = td_asprintf(
		"{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ml\",\"uid\":\"u-%s\",\"resourceVersion\":\"7\"%s},"
		"\"spec\":{\"devices\":{%s}},\"status\":{%s}}",
		name, name, meta, devices, status);
	td_objects_add(&w->claims, td_object_new(given_json(s)));
}

#define REQUEST(name, cls, more) "{\"name\":\"" name "\",\"exactly\":{\"deviceClassName\":\"" cls "\"" more "}}"
#define GPUS(n)                                                                                                        \
	"\"requests\":[" REQUEST("gpu", "gpu.example.com", ",\"allocationMode\":\"ExactCount\",\"count\":" #n) "]"

static struct td_json *pod(const char *claims, const char *statuses)
{
	td_auto_free char *s =
		td_asprintf("{\"metadata\":{\"name\":\"p\",\"namespace\":\"ml\",\"uid\":\"" UID
			    "\"},\"spec\":{\"resourceClaims\":[%s],"
			    "\"containers\":[{\"name\":\"m\"}]},\"status\":{\"resourceClaimStatuses\":[%s]}}",
			    claims, statuses);
	return given_json(s);
}

#define DIRECT(n, c) "{\"name\":\"" n "\",\"resourceClaimName\":\"" c "\"}"
#define TEMPLATE(n) "{\"name\":\"" n "\",\"resourceClaimTemplateName\":\"t\"}"

static long long reads(struct world *w, const char *devices, struct td_json *p, int want, const char *words)
{
	td_auto(td_json_unref) struct td_json *own = p;
	td_auto(td_settings_unref) struct td_settings *s = settings(devices);
	const struct td_claims_from from = {claim_of, class_of, w};
	td_auto_claims struct td_claims c = {0};
	struct td_error err = TD_ERROR_INIT;

	int r = td_claims_read(s, "SlurmCluster slurm/main", td_json_root(own), &from, &c, &err);
	if (r != want || (words && !strstr(err.msg, words)))
		fail_msg("%d, not %d with \"%s\": %s", r, want, words, err.msg);
	if (r)
		assert_int_equal(c.n, 0);

	return c.count;
}

static void test_read(void **state)
{
	__attribute__((cleanup(world_done))) struct world w = {0};
	add_class(&w, "gpu.example.com", "");
	add_class(&w, "big", "");
	add_claim(&w, "two", "", GPUS(2), "");
	add_claim(&w, "one", "", "\"requests\":[" REQUEST("gpu", "big", "") "]", "");
	add_claim(&w, "both", "",
		  "\"requests\":[" REQUEST("a", "big", "") "," REQUEST("b", "gpu.example.com", ",\"count\":3") "]", "");
	add_claim(&w, "made", ",\"ownerReferences\":[{\"kind\":\"Pod\",\"controller\":true,\"uid\":\"" UID "\"}]",
		  GPUS(4), "");

	assert_int_equal(reads(&w, DRA, pod("", ""), 0, NULL), 0);
	assert_int_equal(reads(&w, DRA, pod(DIRECT("x", "two"), ""), 0, NULL), 2);
	assert_int_equal(
		reads(&w, DRA, pod(DIRECT("x", "two") "," DIRECT("y", "one") "," DIRECT("z", "both"), ""), 0, NULL), 7);
	// One claim under two names counts once.
	assert_int_equal(reads(&w, DRA, pod(DIRECT("x", "two") "," DIRECT("y", "two"), ""), 0, NULL), 2);

	// Claims from templates: not made yet, made, not needed, and left by another pod of the
	// same name.
	reads(&w, DRA, pod(TEMPLATE("x"), ""), TD_NOT_FOUND, "\"x\" is not made yet from ResourceClaimTemplate t");
	assert_int_equal(reads(&w, DRA, pod(TEMPLATE("x"), DIRECT("x", "made")), 0, NULL), 4);
	assert_int_equal(reads(&w, DRA, pod(TEMPLATE("x"), "{\"name\":\"x\"}"), 0, NULL), 0);
	reads(&w, DRA, pod(TEMPLATE("x"), DIRECT("x", "two")), TD_NOT_FOUND, "is not this pod's");
	reads(&w, DRA, pod(DIRECT("x", "none"), ""), TD_NOT_FOUND, "ResourceClaim ml/none does not exist");
	reads(&w, "{\"resource\":\"nvidia.com/gpu\"}", pod(DIRECT("x", "two"), ""), TD_INVALID,
	      "by their resource nvidia.com/gpu");
}

static void refuses(const char *devices, int code, const char *words)
{
	__attribute__((cleanup(world_done))) struct world w = {0};
	add_class(&w, "gpu.example.com", "");
	add_claim(&w, "c", "", devices, "");
	reads(&w, DRA, pod(DIRECT("x", "c"), ""), code, words);
}

static void test_refusals_name_the_field(void **state)
{
	refuses("\"requests\":[" REQUEST("g", "nic", "") "]", TD_INVALID,
		"requests[0].exactly.deviceClassName: \"nic\" is not among spec.devices[0].deviceClasses of "
		"SlurmCluster slurm/main");
	refuses("\"requests\":[" REQUEST("g", "big", "") "]", TD_NOT_FOUND, "DeviceClass big does not exist");

	refuses("\"requests\":[" REQUEST("g", "gpu.example.com", ",\"allocationMode\":\"All\"") "]", TD_INVALID,
		"write ExactCount");
	refuses("\"requests\":[" REQUEST("g", "gpu.example.com",
					 ",\"selectors\":[{\"cel\":{\"expression\":\"true\"}}]") "]",
		TD_INVALID, "requests[0].exactly.selectors");
	refuses("\"requests\":[" REQUEST("g", "gpu.example.com", ",\"adminAccess\":true") "]", TD_INVALID,
		"adminAccess");
	refuses("\"requests\":[" REQUEST("g", "gpu.example.com",
					 ",\"capacity\":{\"requests\":{\"memory\":\"1Gi\"}}") "]",
		TD_INVALID, "whole devices");
	refuses("\"requests\":[" REQUEST("g", "gpu.example.com", ",\"count\":0") "]", TD_INVALID, "exactly.count: 0");
	refuses("\"requests\":[" REQUEST("g", "gpu.example.com", ",\"count\":1025") "]", TD_INVALID, "1025");
	refuses("\"requests\":[{\"name\":\"g\",\"firstAvailable\":[{\"name\":\"a\",\"deviceClassName\":\"gpu.example."
		"com\"}]}]",
		TD_INVALID, "firstAvailable");

	refuses(GPUS(2) ",\"constraints\":[{\"matchAttribute\":\"gpu.example.com/numa\"}]", TD_INVALID,
		"spec.devices.constraints");
	refuses(GPUS(2) ",\"constraints\":[]", 0, NULL);
}

static void test_one_pod_at_a_time(void **state)
{
	__attribute__((cleanup(world_done))) struct world w = {0};
	add_class(&w, "gpu.example.com", "");
	add_claim(&w, "held", "", GPUS(2),
		  "\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"first\",\"uid\":\"" OTHER "\"}]");
	add_claim(&w, "mine", "", GPUS(2),
		  "\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"p\",\"uid\":\"" UID "\"}]");
	add_claim(&w, "leaving", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"", GPUS(2), "");
	reads(&w, DRA, pod(DIRECT("x", "held"), ""), TD_NOT_FOUND, "is held by pod first");
	assert_int_equal(reads(&w, DRA, pod(DIRECT("x", "mine"), ""), 0, NULL), 2);
	reads(&w, DRA, pod(DIRECT("x", "leaving"), ""), TD_NOT_FOUND, "is being deleted");
}

// ---- a grant ----
static struct td_dra_device devs[] = {{"n0", "gpu-d", 0}, {"n0", "gpu-c", 1}, {"n0", "gpu-b", 2}, {"n0", "gpu-a", 3}};
static const struct td_dra_devices on = {devs, 4};

static int plan(struct world *w, const char *claims, const char *granted, struct td_json *ret[TD_CLAIMS],
		struct td_error *err)
{
	td_auto(td_settings_unref) struct td_settings *s = settings(DRA);
	td_auto(td_json_unref) struct td_json *p = pod(claims, "");
	const struct td_claims_from from = {claim_of, class_of, w};
	td_auto_claims struct td_claims c = {0};
	if (td_claims_read(s, "x", td_json_root(p), &from, &c, err))
		fail_msg("%s", err->msg);
	return td_claims_plan(&c, s, td_json_root(p), &(struct td_claims_grant){granted, "n0", &on}, ret, err);
}

static char *devices_in(const yyjson_val *allocation)
{
	struct td_buf b = {0};
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(allocation, "devices.results"), i, n, x)
		td_buf_printf(&b, "%s%s=%s", i ? " " : "", td_jstr(x, "request"), td_jstr(x, "device"));
	return td_buf_take(&b);
}

static void test_plan(void **state)
{
	__attribute__((cleanup(world_done))) struct world w = {0};
	struct td_json *want[TD_CLAIMS] = {0};
	struct td_error err = TD_ERROR_INIT;
	add_class(&w, "gpu.example.com",
		  "\"config\":[{\"opaque\":{\"driver\":\"gpu.example.com\",\"parameters\":{\"a\":1}}}]");
	add_class(&w, "big", "");
	add_claim(&w, "two", "",
		  GPUS(2) ",\"config\":[{\"requests\":[\"gpu\"],\"opaque\":{\"driver\":\"gpu.example.com\","
			  "\"parameters\":{\"b\":2}}}]",
		  "");
	add_claim(&w, "one", "", "\"requests\":[" REQUEST("x", "big", "") "]", "");
	assert_int_equal(
		plan(&w, DIRECT("x", "two") "," DIRECT("y", "one"), "{\"nvidia.com/gpu\":\"0,2-3\"}", want, &err), 0);

	yyjson_val *first = td_json_root(want[0]), *second = td_json_root(want[1]);
	td_auto_free char *a = devices_in(td_jkey(first, "allocation")), *b = devices_in(td_jkey(second, "allocation"));
	assert_string_equal(a, "gpu=gpu-d gpu=gpu-b"); // by the index attribute, not by name
	assert_string_equal(b, "x=gpu-a");
	assert_string_equal(td_jstr(first, "allocation.nodeSelector.nodeSelectorTerms.[0].matchFields.[0].values.[0]"),
			    "n0");
	assert_string_equal(td_jstr(first, "allocation.devices.results.[1].driver"), "gpu.example.com");
	assert_string_equal(td_jstr(first, "allocation.devices.results.[1].pool"), "n0");

	assert_string_equal(td_jstr(first, "reservedFor.[0].uid"), UID);
	assert_int_equal(yyjson_arr_size(td_jget(first, "reservedFor")), 1);

	assert_string_equal(td_jstr(first, "allocation.devices.config.[0].source"), "FromClass");
	assert_string_equal(td_jstr(first, "allocation.devices.config.[0].requests.[0]"), "gpu");
	assert_string_equal(td_jstr(first, "allocation.devices.config.[1].source"), "FromClaim");
	assert_int_equal(td_jint(first, "allocation.devices.config.[1].opaque.parameters.b", 0), 2);
	assert_null(td_jget(second, "allocation.devices.config"));

	td_json_unref(want[0]);
	td_json_unref(want[1]);

	static const char *const bad[] = {"{\"nvidia.com/gpu\":\"0\"}",
					  "{\"nvidia.com/gpu\":\"3-4\"}",
					  "{\"nvidia.com/gpu\":\"0-\"}",
					  "{\"nvidia.com/gpu\":\"2,2\"}", // one device is not two
					  "{\"nvidia.com/gpu\":\"0-99999999999999999999\"}",
					  "{}",
					  "?",
					  "{\"nvidia.com/gpu\":\"-1\"}"};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		struct td_error e = TD_ERROR_INIT;
		struct td_json *none[TD_CLAIMS] = {0};
		assert_int_equal(plan(&w, DIRECT("x", "two"), bad[i], none, &e), TD_INVALID);
		assert_null(none[0]);
	}

	// The grant is a whole node, the claim asks for two devices.
	assert_int_equal(plan(&w, DIRECT("x", "two"), "{\"nvidia.com/gpu\":\"0-3\"}", want, &err), 0);
	td_auto_free char *all = devices_in(td_jkey(td_json_root(want[0]), "allocation"));
	assert_string_equal(all, "gpu=gpu-d gpu=gpu-c");
	td_json_unref(want[0]);
}

// ---- the next write ----
#define FINALIZER ",\"finalizers\":[\"" TD_DRA_FINALIZER "\"]"
#define MINE "\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"p\",\"uid\":\"" UID "\"}]"
#define THEIRS "\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"q\",\"uid\":\"" OTHER "\"}]"
#define RESULT(d) "{\"request\":\"gpu\",\"driver\":\"gpu.example.com\",\"pool\":\"n0\",\"device\":\"" d "\"}"
#define GIVEN(d)                                                                                                       \
	"\"allocation\":{\"allocationTimestamp\":\"x\",\"devices\":{\"results\":[" RESULT("gpu-d") "," RESULT(d) "]}}"
#define WANT "{" GIVEN("gpu-c") "," MINE "}"

static enum td_claim_do next(const char *meta, const char *status, const char *want)
{
	td_auto_free char *s = td_asprintf("{\"metadata\":{\"name\":\"c\"%s},\"status\":{%s}}", meta, status);
	td_auto(td_json_unref) struct td_json *c = given_json(s), *w = want ? given_json(want) : NULL;
	return td_claim_next(td_json_root(c), UID, td_json_root(w)).what;
}

static void test_next(void **state)
{
	// With a grant, in the order of the writes: a crash leaves one of these states.
	assert_int_equal(next("", "", WANT), TD_CLAIM_FINALIZER);
	assert_int_equal(next(FINALIZER, "", WANT), TD_CLAIM_ALLOCATE);
	assert_int_equal(next(FINALIZER, GIVEN("gpu-c") "," MINE, WANT), TD_CLAIM_DONE);

	// Others may change the claim in between.
	assert_int_equal(next("", GIVEN("gpu-c") "," MINE, WANT), TD_CLAIM_FINALIZER); // the finalizer was taken off
	assert_int_equal(next(FINALIZER, GIVEN("gpu-c"), WANT), TD_CLAIM_ALLOCATE);    // the reservation was
	assert_int_equal(next(FINALIZER, GIVEN("gpu-c") "," THEIRS, WANT), TD_CLAIM_WAIT);
	assert_int_equal(next(FINALIZER, THEIRS, WANT), TD_CLAIM_WAIT);
	// A claim that is being deleted gets no devices.
	assert_int_equal(next(FINALIZER ",\"deletionTimestamp\":\"x\"", "", WANT), TD_CLAIM_WAIT);
	assert_int_equal(next(FINALIZER ",\"deletionTimestamp\":\"x\"", GIVEN("gpu-b") "," MINE, WANT), TD_CLAIM_CLEAR);

	// The grant changed, or the slices did, so that the same index is another device now.
	assert_int_equal(next(FINALIZER, GIVEN("gpu-b") "," MINE, WANT), TD_CLAIM_CLEAR);
	assert_int_equal(next(FINALIZER, GIVEN("gpu-b"), WANT), TD_CLAIM_CLEAR);
	assert_int_equal(next("", GIVEN("gpu-b") "," MINE, WANT), TD_CLAIM_CLEAR);
	assert_int_equal(
		next(FINALIZER, "\"allocation\":{\"devices\":{\"results\":[" RESULT("gpu-d") "]}}," MINE, WANT),
		TD_CLAIM_CLEAR);

	// The pod has no grant any more.
	assert_int_equal(next(FINALIZER, GIVEN("gpu-c") "," MINE, NULL), TD_CLAIM_CLEAR);
	assert_int_equal(next(FINALIZER, GIVEN("gpu-c") "," THEIRS, NULL), TD_CLAIM_WAIT);
	assert_int_equal(next(FINALIZER, "", NULL), TD_CLAIM_DONE);
	assert_int_equal(next("", "", NULL), TD_CLAIM_DONE);
}

// From every state that writes and crashes can leave, the next writes lead to the grant, in at most
// three.
static void test_converges(void **state)
{
	static const char *const meta[] = {"", FINALIZER},
				 *const given[] = {"", GIVEN("gpu-b"), GIVEN("gpu-c"), GIVEN("gpu-a")},
				 *const holder[] = {"", MINE};

	for (int m = 0; m < 2; m++)
		for (int g = 0; g < 4; g++)
			for (int h = 0; h < 2; h++) {
				int mm = m, gg = g, hh = h;
				enum td_claim_do what = TD_CLAIM_DONE;
				for (int i = 0; i < 4; i++) {
					td_auto_free char *st = td_asprintf(
						"%s%s%s", given[gg], *given[gg] && *holder[hh] ? "," : "", holder[hh]);
					what = next(meta[mm], st, WANT);
					if (what == TD_CLAIM_DONE)
						break;
					assert_int_not_equal(what, TD_CLAIM_WAIT);
					mm = what == TD_CLAIM_FINALIZER ? 1 : mm;
					gg = what == TD_CLAIM_ALLOCATE ? 2 : what == TD_CLAIM_CLEAR ? 0 : gg;
					hh = what == TD_CLAIM_ALLOCATE ? 1 : what == TD_CLAIM_CLEAR ? 0 : hh;
				}

				assert_int_equal(what, TD_CLAIM_DONE);
				assert_true(mm == 1 && gg == 2 && hh == 1);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_refusals_name_the_field),
		cmocka_unit_test(test_one_pod_at_a_time),
		cmocka_unit_test(test_plan),
		cmocka_unit_test(test_next),
		cmocka_unit_test(test_converges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
