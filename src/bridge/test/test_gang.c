// What pods say about their gangs: names, places and the ask's UID.
// rows: A8.1 A8.2 A8.3 A8.4 A8.5 A8.6 A8.7 A8.9 C9.2
#include "bridge/scheduler/gang.h"
#include "bridge/scheduler/private.h"
#include "bridge/test/given.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

// A pod of namespace ml. Labels and annotations are the inside of JSON objects.
static struct td_object *pod(const char *name, const char *uid, const char *labels, const char *notes, const char *node)
{
	td_auto_free char *text = td_asprintf("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":"
					      "\"ml\",\"name\":\"%s\",\"uid\":\"%s\","
					      "\"labels\":{%s},\"annotations\":{%s}},\"spec\":{%s%s%s}}",
					      name, uid, labels, notes, node ? "\"nodeName\":\"" : "", node ? node : "",
					      node ? "\"" : "");
	td_auto(td_json_unref) struct td_json *j = given_json(text);
	return td_object_kept(td_json_root(j));
}

static void is_of(const char *gang, const char *labels, const char *notes, const char *node)
{
	td_auto(td_object_unref) struct td_object *o = pod("p", "u", labels, notes, node);
	td_auto_free char *got = td_gang_of(o);
	if (gang)
		assert_string_equal(got, gang);
	else
		assert_null(got);
}

static void spec_is_of(const char *want, const char *spec)
{
	td_auto_free char *text =
		td_asprintf("{\"metadata\":{\"namespace\":\"ml\",\"name\":\"p\"},\"spec\":{%s}}", spec);
	td_auto(td_json_unref) struct td_json *j = given_json(text);
	td_auto(td_object_unref) struct td_object *o = td_object_kept(td_json_root(j));
	td_auto_free char *of = td_gang_of(o);
	assert_string_equal(of, want);
	assert_true(td_gang_stretches(o));
}

#define SPARK(role) "\"spark-app-selector\":\"s1\",\"spark-app-name\":\"pi\",\"spark-role\":\"" role "\""
#define OPERATOR(role) SPARK(role) ",\"sparkoperator.k8s.io/app-name\":\"pi\""

static void test_names(void **state)
{
	is_of(NULL, "", "", NULL);
	is_of("ml/train", "\"tandem.dev/gang\":\"train\"", "", NULL);
	// Bound alone, it stays alone; bound as a member, the grant says of which gang, whatever the
	// label says by then.
	is_of(NULL, "\"tandem.dev/gang\":\"train\"", "", "n0");
	is_of("ml/train", "\"tandem.dev/gang\":\"other\"",
	      "\"tandem.dev/gang-uid\":\"g\",\"tandem.dev/gang-name\":\"train\"", "n0");
	// One that was bound beyond the core of its gang is an ask of its own, and still of the gang.
	is_of("ml/train", "\"tandem.dev/gang\":\"train\"",
	      "\"tandem.dev/gang-core\":\"g\",\"tandem.dev/gang-name\":\"train\"", "n0");
	// Owners' marks; the own label comes first.
	is_of("ml/lws:serve:2",
	      "\"leaderworkerset.sigs.k8s.io/name\":\"serve\",\"leaderworkerset.sigs.k8s.io/group-index\":\"2\"", "",
	      NULL);
	// Kubernetes' own groups name the gang in the spec.
	spec_is_of("ml/group:g", "\"schedulingGroup\":{\"podGroupName\":\"g\"}");
	spec_is_of("ml/workload:w:workers:1",
		   "\"workloadRef\":{\"name\":\"w\",\"podGroup\":\"workers\",\"podGroupReplicaKey\":\"1\"}");
	spec_is_of("ml/workload:w:workers:", "\"workloadRef\":{\"name\":\"w\",\"podGroup\":\"workers\"}");
	is_of("ml/podgroup:pg", "\"scheduling.x-k8s.io/pod-group\":\"pg\"", "", NULL);
	is_of("ml/mine", "\"scheduling.x-k8s.io/pod-group\":\"pg\",\"tandem.dev/gang\":\"mine\"", "", NULL);
	is_of("ml/training:mpi",
	      "\"training.kubeflow.org/job-name\":\"mpi\",\"training.kubeflow.org/job-role\":\"worker\"", "", NULL);
	is_of("ml/training:mpi",
	      "\"training.kubeflow.org/job-name\":\"mpi\",\"training.kubeflow.org/job-role\":\"launcher\"", "", NULL);
	// An empty label takes a pod out of it.
	is_of(NULL,
	      "\"training.kubeflow.org/job-name\":\"mpi\",\"training.kubeflow.org/job-role\":\"launcher\","
	      "\"tandem.dev/gang\":\"\"",
	      "", NULL);
	// Spark's executors are one when they say a minimum; the driver is alone, unless it keeps places for them.
	is_of("ml/spark:s1", "\"spark-app-selector\":\"s1\",\"spark-role\":\"driver\"",
	      "\"tandem.dev/gang-min\":\"2\",\"tandem.dev/gang-later\":\"{}\"", NULL);
	is_of("ml/spark:s1", "\"spark-app-selector\":\"s1\",\"spark-role\":\"executor\"",
	      "\"tandem.dev/gang-min\":\"2\"", NULL);
	is_of(NULL, "\"spark-app-selector\":\"s1\",\"spark-role\":\"executor\"", "", NULL);
	is_of(NULL, "\"spark-app-selector\":\"s1\",\"spark-role\":\"driver\"", "\"tandem.dev/gang-min\":\"2\"", NULL);
	// Those of a SparkApplication are one without asking: the object has the numbers, unless they have them themselves.
	is_of("ml/spark:s1", OPERATOR("driver"), "", NULL);
	is_of("ml/spark:s1", OPERATOR("executor"), "", NULL);
	is_of(NULL, OPERATOR("driver"), "\"tandem.dev/gang-min\":\"2\"", NULL); // alone, as without an object
	is_of(NULL, OPERATOR("driver") ",\"tandem.dev/gang\":\"\"", "", NULL);
	is_of(NULL, "\"sparkoperator.k8s.io/app-name\":\"pi\"", "", NULL);
	// A Job or JobSet is a gang only when it asks for it.
	is_of(NULL, "\"jobset.sigs.k8s.io/jobset-name\":\"js\"", "\"batch.kubernetes.io/job-completion-index\":\"0\"",
	      NULL);
}

static struct td_settings *tenant_settings(const char *network)
{
	td_auto_free char *text =
		td_asprintf("{\"metadata\":{\"name\":\"t\"},\"spec\":{\"network\":\"%s\"},\"status\":{"
			    "\"account\":\"t\",\"namespaces\":[{\"name\":\"ml\"}]}}",
			    network);
	td_auto(td_json_unref) struct td_json *j = given_json(text), *sc = given_json("{\"metadata\":{\"uid\":\"c\"}}");
	const yyjson_val *one = td_json_root(j);
	return td_settings_read_with(td_json_root(sc), &(const struct td_tenant_list){&one, 1});
}

// Whose network: a gang's, a session's, an owner's or the pod's own; by the Tenant, or by the pod itself.
static void test_private_networks(void **state)
{
	td_auto(td_settings_unref) struct td_settings *open = tenant_settings("isolated"),
						      *shut = tenant_settings("private");
	td_auto(td_object_unref) struct td_object *plain = pod("p", "u1", "", "", NULL),
						  *asks = pod("q", "u2", "", "\"tandem.dev/network\":\"private\"",
							      NULL),
						  *session = pod("s", "u3", "\"tandem.dev/session\":\"web\"", "", NULL),
						  *replica =
							  pod("s1", "u4", "\"tandem.dev/session\":\"web\"", "", NULL);
	char x[TD_PRIVATE_ID], y[TD_PRIVATE_ID];
	assert_false(td_private_id(open, plain, "ml/train", x) || td_private_id(open, session, NULL, x));
	assert_false(td_private_id(shut, plain, NULL, x)); // neither a gang's nor a session's
	assert_true(td_private_id(shut, plain, "ml/train", x) && td_private_id(open, asks, "ml/train", y));
	assert_string_equal(x, y);
	assert_true(td_private_id(shut, session, NULL, x) && td_private_id(shut, replica, NULL, y));
	assert_string_equal(x, y);
	assert_true(td_private_id(open, asks, NULL, y));
	assert_string_not_equal(x, y);
	assert_string_not_equal(open->text, shut->text);

	// The policy belongs to all who are there, and to those whom it had before; the same once more changes nothing.
	const struct td_private_place place = {"slurm", "tandem-system"};
	const struct td_object *both[] = {session, replica}, *more[] = {plain};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new(), *again = td_jm_new(), *wider = td_jm_new();
	assert_false(td_private_policy(d, "id", both, 2, &place, NULL));
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	td_auto(td_object_unref) struct td_object *live = td_object_kept(td_json_root(j));
	yyjson_val *from = td_jget(live->root, "spec.ingress.[0].from");
	assert_string_equal(live->name, "tandem-private-id");
	assert_string_equal(td_jkey_str(td_jget(live->root, "spec.podSelector.matchLabels"), TD_LABEL_PRIVATE_NET),
			    "id");
	assert_int_equal(yyjson_arr_size(from), 3); // each other, and the gateways
	assert_string_equal(td_jstr(live->root, "metadata.ownerReferences.[1].uid"), "u4");
	assert_true(td_private_policy(again, "id", both, 2, &place, live));
	assert_false(td_private_policy(wider, "id", more, 1, &place, live));
	assert_int_equal(yyjson_mut_arr_size(td_jm_get(yyjson_mut_doc_get_root(wider), "metadata.ownerReferences")), 3);
}

static void test_order(void **state)
{
	// "w-2" before "w-10"; a master before the workers; the Jobs of a JobSet one after the other.
	td_auto(td_object_unref) struct td_object *a = pod("w-10", "a", "", "", NULL),
						  *b = pod("w-2", "b", "", "", NULL);
	const struct td_object *names[] = {a, b};
	td_gang_sort(names, 2);
	assert_ptr_equal(names[0], b);

	td_auto(td_object_unref) struct td_object *w = pod("a", "w",
							   "\"training.kubeflow.org/replica-type\":\"worker\","
							   "\"training.kubeflow.org/replica-index\":\"0\"",
							   "", NULL),
						  *m = pod("b", "m",
							   "\"training.kubeflow.org/replica-type\":\"master\","
							   "\"training.kubeflow.org/replica-index\":\"0\"",
							   "", NULL);
	const struct td_object *roles[] = {w, m};
	td_gang_sort(roles, 2);
	assert_ptr_equal(roles[0], m);

	td_auto(td_object_unref) struct td_object *x = pod("a", "x", "\"jobset.sigs.k8s.io/job-global-index\":\"1\"",
							   "\"batch.kubernetes.io/job-completion-index\":\"0\"", NULL),
						  *y = pod("b", "y", "\"jobset.sigs.k8s.io/job-global-index\":\"0\"",
							   "\"batch.kubernetes.io/job-completion-index\":\"1\"", NULL);
	const struct td_object *sets[] = {x, y};
	td_gang_sort(sets, 2);
	assert_ptr_equal(sets[0], y);
	assert_false(td_gang_place_of(x).fixed);

	td_auto(td_object_unref) struct td_object *i =
		pod("a", "i", "", "\"batch.kubernetes.io/job-completion-index\":\"3\"", NULL);
	assert_true(td_gang_place_of(i).fixed && td_gang_place_of(i).index == 3);
	td_auto(td_object_unref) struct td_object *bad =
		pod("a", "i", "", "\"batch.kubernetes.io/job-completion-index\":\"-3\"", NULL);
	assert_false(td_gang_place_of(bad).fixed);
}

static void plays(const char *role, const char *labels)
{
	td_auto(td_object_unref) struct td_object *o = pod("p", "u", labels, "", NULL);
	char got[TD_GANG_ROLE_LEN];
	td_gang_role_of(o, got);
	assert_string_equal(got, role);
}

static void test_roles(void **state)
{
	plays("", "");
	plays("ps", "\"training.kubeflow.org/job-name\":\"tf\",\"training.kubeflow.org/replica-type\":\"PS\"");
	plays("launcher", "\"training.kubeflow.org/job-name\":\"mpi\",\"training.kubeflow.org/job-role\":\"launcher\"");
	// The first worker of a PyTorchJob without a master has the job-role "master" and is a worker.
	plays("worker",
	      "\"training.kubeflow.org/replica-type\":\"worker\",\"training.kubeflow.org/job-role\":\"master\"");
	plays("leader",
	      "\"leaderworkerset.sigs.k8s.io/name\":\"s\",\"leaderworkerset.sigs.k8s.io/worker-index\":\"0\"");
	plays("worker",
	      "\"leaderworkerset.sigs.k8s.io/name\":\"s\",\"leaderworkerset.sigs.k8s.io/worker-index\":\"10\"");
	plays("driver",
	      "\"jobset.sigs.k8s.io/jobset-name\":\"js\",\"jobset.sigs.k8s.io/replicatedjob-name\":\"driver\"");
	plays("mine", "\"tandem.dev/gang-role\":\"Mine\",\"training.kubeflow.org/replica-type\":\"worker\"");

	assert_true(td_gang_role_cmp("launcher", "a") < 0 && td_gang_role_cmp("ps", "worker") < 0);
	assert_true(td_gang_role_cmp("worker", "master") > 0 && !td_gang_role_cmp("x", "x"));

	// A launcher by itself comes first, and the workers after the parameter servers.
	td_auto(td_object_unref) struct td_object *l = pod("z", "l", "\"tandem.dev/gang-role\":\"launcher\"", "", NULL),
						  *p = pod("y", "p", "\"tandem.dev/gang-role\":\"ps\"", "", NULL),
						  *w = pod("x", "w", "\"tandem.dev/gang-role\":\"worker\"", "", NULL);
	const struct td_object *all[] = {w, p, l};
	td_gang_sort(all, 3);
	assert_ptr_equal(all[0], l);
	assert_ptr_equal(all[1], p);

	// Whoever is bound comes first among them.
	struct td_gang_member v[] = {{.pod = w}, {.pod = l}, {.pod = p}, {.pod = w}};
	const struct td_gang_run run = {.v = v, .n = 4};
	struct td_gang_roles roles;
	assert_true(td_gang_roles_read(&run, &roles));
	td_auto_free char *text = td_gang_roles_text(&roles);
	assert_string_equal(text, "launcher=1,ps=1,worker=2");
}

#define LATER(text) "\"tandem.dev/gang-min\":\"2\",\"tandem.dev/gang-later\":\"" text "\""

static void later_is_wrong(const char *labels, const char *notes, const char *says)
{
	td_auto(td_object_unref) struct td_object *o = pod("p", "u", labels, notes, NULL), *none = NULL;
	struct td_gang_says got;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_gang_read(NULL, (const struct td_object *const[]){o}, 1, &got, NULL, &err), TD_INVALID);
	if (!strstr(err.msg, says))
		fail_msg("%s", err.msg);
}

// A driver with places for two executors: one of three is enough to ask, and the job is for three.
static void test_later(void **state)
{
	const char *asks = LATER("{\\\"cpu\\\":\\\"2\\\",\\\"memory\\\":\\\"1Gi\\\"}");
	td_auto(td_object_unref) struct td_object *d = pod("d", "d", SPARK("driver"), asks, NULL),
						  *e = pod("d-exec-1", "e", SPARK("executor"),
							   "\"tandem.dev/gang-min\":\"2\"", NULL);
	const struct td_object *all[] = {e, d};
	struct td_gang_says says;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_gang_read(NULL, all + 1, 1, &says, NULL, &err), 0);
	assert_int_equal(says.size, 3);
	assert_int_equal(says.now, 1);
	assert_int_equal(says.most, TD_GANG_MAX);
	assert_int_equal(says.on_loss, TD_GANG_REPLACE);
	assert_int_equal(td_gang_read(NULL, all, 1, &says, NULL, &err), 0); // without the driver, as they ever were
	assert_int_equal(says.size, 2);
	assert_int_equal(says.now, 2);
	assert_string_equal(td_gang_title(d), "pi");
	td_gang_sort(all, 2);
	assert_ptr_equal(all[0], d);

	// Its roles are the same whoever has come.
	for (size_t n = 1; n <= 2; n++) {
		struct td_gang_member v[] = {{.pod = d}, {.pod = e}};
		struct td_gang_run run = {.v = v, .n = n, .says = {.size = 3}};
		struct td_gang_roles roles;
		assert_non_null(td_gang_later_of(&run));
		assert_int_equal(td_want_cpus(td_jget(run.later->root, "spec")), 2);
		assert_true(td_gang_roles_read(&run, &roles));
		td_auto_free char *text = td_gang_roles_text(&roles);
		assert_string_equal(text, "driver=1,executor=2");
		assert_ptr_equal(roles.v[1].pod, run.later);
		td_object_unref(run.later);
	}

	// Also when those who come say another role, or none.
	td_auto(td_object_unref) struct td_object
		*head = pod("h", "h", "\"tandem.dev/gang\":\"g\",\"tandem.dev/gang-role\":\"head\"", asks, NULL),
		*x = pod("x", "x", "\"tandem.dev/gang\":\"g\"", "", NULL),
		*y = pod("y", "y", "\"tandem.dev/gang\":\"g\",\"tandem.dev/gang-role\":\"agent\"", "", NULL);
	for (size_t n = 1; n <= 3; n++) {
		struct td_gang_member v[] = {{.pod = head}, {.pod = x}, {.pod = y}};
		struct td_gang_run run = {.v = v, .n = n, .says = {.size = 3}};
		struct td_gang_roles roles;
		assert_non_null(td_gang_later_of(&run));
		assert_true(td_gang_roles_read(&run, &roles));
		td_auto_free char *text = td_gang_roles_text(&roles);
		assert_string_equal(text, "head=1,worker=2");
		td_object_unref(run.later);
	}

	// The Binding says of the driver what it is: the others are executors all the same.
	td_auto(td_object_unref) struct td_object *bound =
		pod("d", "d", SPARK("driver"),
		    "\"tandem.dev/gang-uid\":\"g\",\"tandem.dev/gang-role\":\"driver\",\"tandem.dev/gang-rank\":\"0\","
		    "\"tandem.dev/gang-later\":\"{\\\"cpu\\\":\\\"2\\\",\\\"memory\\\":\\\"1Gi\\\"}\"",
		    "n0");
	struct td_gang_member one = {.pod = bound};
	struct td_gang_run run = {.v = &one, .n = 1, .says = {.size = 3}};
	assert_non_null(td_gang_later_of(&run));
	assert_string_equal(td_gang_role(run.later), "executor");
	td_object_unref(run.later);

	// A worker of a LeaderWorkerSet has its index, whoever comes first; and it is one, whatever the leader's label says.
	td_auto(td_object_unref) struct td_object *leader =
		pod("l", "l",
		    "\"leaderworkerset.sigs.k8s.io/name\":\"s\",\"leaderworkerset.sigs.k8s.io/group-index\":\"0\","
		    "\"leaderworkerset.sigs.k8s.io/worker-index\":\"0\",\"tandem.dev/gang-role\":\"head\"",
		    "\"tandem.dev/gang-later\":\"{\\\"cpu\\\":\\\"2\\\",\\\"memory\\\":\\\"1Gi\\\"}\"", NULL);
	struct td_gang_member lead = {.pod = leader};
	struct td_gang_run set = {.v = &lead, .n = 1, .says = {.size = 3}};
	assert_non_null(td_gang_later_of(&set));
	assert_true(td_gang_place_of(set.later).fixed);
	assert_string_equal(td_gang_role(set.later), "worker");
	td_object_unref(set.later);
	assert_false(td_gang_place_of(d).fixed);

	later_is_wrong(SPARK("driver"),
		       "\"tandem.dev/gang-min\":\"4096\",\"tandem.dev/gang-later\":\"{\\\"cpu\\\":\\\"2\\\","
		       "\\\"memory\\\":\\\"1Gi\\\"}\"",
		       "with the one that leads");
	later_is_wrong(SPARK("driver"), LATER("2"), "does not say what a pod asks for");
	later_is_wrong(SPARK("driver"), LATER("{\\\"cpu\\\":\\\"2\\\"}"), "does not say what a pod asks for");
	later_is_wrong(SPARK("driver"), LATER("{\\\"cpu\\\":\\\"2\\\",\\\"memory\\\":\\\"much\\\"}"),
		       "does not say what a pod asks for");
	later_is_wrong("\"tandem.dev/gang\":\"g\"", asks, "does not lead its gang");
}

// Who comes later gets a place when the one that leads runs, it asks for what was said, and the job has that much.
static void test_later_come(void **state)
{
	static const char asks[] = "{\"metadata\":{\"namespace\":\"ml\",\"name\":\"%s\",\"uid\":\"%s\",\"labels\":{" //
		SPARK("%s") "},\"annotations\":{%s}},\"spec\":{\"containers\":[{\"name\":\"c\","
			    "\"resources\":{\"requests\":{\"cpu\":\"%d\",\"memory\":\"1Gi\"}}}]}}";
	td_auto_free char *d = td_asprintf(asks, "d", "d", "driver",
					   LATER("{\\\"cpu\\\":\\\"2\\\",\\\"memory\\\":\\\"1Gi\\\"}"), 1),
			  *big = td_asprintf(asks, "e-1", "u1", "executor", "", 3),
			  *good = td_asprintf(asks, "e-2", "u2", "executor", "", 2);
	td_auto(td_json_unref) struct td_json *x = given_json(d), *y = given_json(big), *z = given_json(good);
	td_auto(td_object_unref) struct td_object *o = td_object_kept(td_json_root(x)),
						  *p = td_object_kept(td_json_root(y)),
						  *q = td_object_kept(td_json_root(z));
	struct td_gang_member v[] = {{.pod = o, .state = TD_POD_BOUND}};
	struct td_gang_run run = {.v = v, .n = 1, .says = {.size = 3}};
	struct td_ask_part part = {.cpus = 5, .memory_mb = 3072};
	struct td_ask a = {.size = 3, .parts = &part, .n_parts = 1};
	const struct td_object *come[] = {p, q};
	assert_non_null(td_gang_later_of(&run));
	assert_int_equal(td_gang_later_come(&a, &run, come, 2), 1);
	assert_ptr_equal(come[0], q);
	part.memory_mb = 2048; // whatever the annotation says by now
	assert_int_equal(td_gang_later_come(&a, &run, come, 2), 0);
	part.memory_mb = 3072;
	v[0].state = TD_POD_DONE;
	assert_int_equal(td_gang_later_come(&a, &run, come, 2), 0);
	td_object_unref(run.later);

	// By now it says so much that all of them together are nothing in 64 bits.
	td_auto_free char *much =
		td_asprintf(asks, "d", "d", "driver",
			    LATER("{\\\"cpu\\\":\\\"9007199254740992\\\",\\\"memory\\\":\\\"1Gi\\\"}"), 1);
	td_auto(td_json_unref) struct td_json *w = given_json(much);
	td_auto(td_object_unref) struct td_object *m = td_object_kept(td_json_root(w));
	v[0] = (struct td_gang_member){.pod = m, .state = TD_POD_BOUND};
	run.later = NULL;
	a.size = 2049;
	part.memory_mb = INT64_C(1) << 40;
	assert_non_null(td_gang_later_of(&run));
	assert_int_equal(td_gang_later_come(&a, &run, come, 2), 0);
	td_object_unref(run.later);
	const struct td_pool_want one = {.cpus = INT64_C(1) << 53, .memory_mb = 7, .gres = {1}},
				  all = td_pool_gang_most(&one, 2048);
	assert_true(all.cpus == INT64_MAX && all.memory_mb == 7 * 2048 && all.gres[0] == 2048);
}

// What owners say of those that come later, and of how many start together.
static void test_owners_say(void **state)
{
	td_auto(td_json_unref) struct td_json
		*lws = given_json("{\"startupPolicy\":\"LeaderReady\",\"leaderWorkerTemplate\":{\"size\":3,"
				  "\"workerTemplate\":{\"spec\":{"
				  "\"containers\":[{\"name\":\"a\",\"resources\":{\"requests\":{\"cpu\":\"1500m\","
				  "\"memory\":\"1Gi\"},"
				  "\"limits\":{\"example.com/"
				  "gpu\":\"2\"}}},{\"name\":\"b\",\"resources\":{\"requests\":{\"cpu\":\"1\","
				  "\"example.com/gpu\":\"1\"}}}]}}}}"),
		*now = given_json("{\"startupPolicy\":\"LeaderCreated\"}");
	td_auto_free char *asks = NULL, *none = NULL;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_gang_lws_later(td_json_root(lws), &asks, &err), 0);
	assert_string_equal(asks, "{\"cpu\":\"2500m\",\"memory\":\"1073741824\",\"example.com/gpu\":\"3\"}");
	assert_int_equal(td_gang_lws_later(td_json_root(now), &none, &err), 0);
	assert_null(none);
	// Places for workers with claims would be places without devices, and the leader would run without them.
	td_auto(td_json_unref) struct td_json *by_claim =
		given_json("{\"startupPolicy\":\"LeaderReady\",\"leaderWorkerTemplate\":{\"workerTemplate\":{\"spec\":{"
			   "\"resourceClaims\":[{\"name\":\"gpu\"}]}}}}");
	assert_int_equal(td_gang_lws_later(td_json_root(by_claim), &none, &err), TD_INVALID);
}

// What a PodGroup of Kubernetes itself asks for, and what it is told of its pods.
static void test_groups_of_kubernetes(void **state)
{
	td_auto(td_json_unref) struct td_json
		*gang = given_json("{\"gang\":{\"minCount\":4}}"),
		*basic = given_json("{\"basic\":{}}"),
		*plain = given_json("{\"schedulingPolicy\":{\"gang\":{\"minCount\":4}}}"),
		*placed = given_json("{\"schedulingConstraints\":{\"topology\":[{\"key\":\"example.com/rack\"}]}}"),
		*shares = given_json("{\"resourceClaims\":[{\"name\":\"link\"}]}");
	assert_int_equal(td_gang_group_min(td_json_root(gang)), 4);
	assert_int_equal(td_gang_group_min(td_json_root(basic)), 0);
	assert_int_equal(td_gang_group_min(td_json_root(plain)), -1); // no policy, nor is none
	assert_int_equal(td_gang_group_min(NULL), -1);
	assert_null(td_gang_group_lacks(td_json_root(plain)));
	td_auto_free char *place = td_gang_group_lacks(td_json_root(placed)),
			  *claim = td_gang_group_lacks(td_json_root(shares));
	assert_non_null(strstr(place, "example.com/rack"));
	assert_non_null(strstr(claim, "claim \"link\""));

	// Nothing is said of those that have just come; then what they are told; and in the end that they have their nodes.
	static const char *const says[] = {"", "\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":"
					       "\"False\",\"message\":\"It waits.\"}]},"};
	struct td_object *v[3];
	for (int round = 0; round < 5; round++) {
		bool scheduled = false;
		td_auto_free char *text = NULL;
		for (int i = 0; i < 3; i++) {
			bool bound = round == 4 || (round >= 2 && i < 2), over = round == 4 && i == 0;
			// In round 3 the third is one that is beyond the core of two.
			const char *world = round == 3 ? "2" : "3";
			td_auto_free char *t = td_asprintf(
				"{%s\"metadata\":{\"namespace\":\"ml\",\"name\":\"p%d\",\"uid\":\"u%d\","
				"\"annotations\":{%s%s%s}},\"spec\":{%s},\"st\":1}",
				over ? "\"status\":{\"phase\":\"Succeeded\"}," : says[round >= 1 && !bound], i, i,
				bound ? "\"tandem.dev/gang-uid\":\"g\",\"tandem.dev/job-id\":\"7\","
					"\"tandem.dev/gang-world\":\""
				      : "",
				bound ? world : "", bound ? "\"" : "", bound ? "\"nodeName\":\"n0\"" : "");
			td_auto(td_json_unref) struct td_json *j = given_json(t);
			v[i] = td_object_kept(td_json_root(j));
		}
		assert_int_equal(td_gang_group_news((const struct td_object *const *)v, 3, &scheduled, &text),
				 round > 0);
		assert_int_equal(scheduled, round >= 3);
		if (round > 0)
			assert_string_equal(text, round < 3    ? "It waits."
						  : round == 3 ? "Its 2 pods have their nodes, as Slurm job 7."
							       : "Its 3 pods have their nodes, as Slurm job 7.");
		for (int i = 0; i < 3; i++)
			td_object_unref(v[i]);
	}
}

// What the driver's gang is, as a SparkApplication says it, and what an executor asks for; NULL: it is refused.
static void spark_says(const char *spec, int64_t min, int64_t most, const char *asks)
{
	td_auto(td_json_unref) struct td_json *j = given_json(spec);
	td_auto_free char *got = NULL;
	struct td_gang_owned o = {0};
	struct td_error err = TD_ERROR_INIT;
	td_gang_spark_size(td_json_root(j), true, &o);
	if (o.min != min || o.most != most)
		fail_msg("%s: %lld to %lld", spec, (long long)o.min, (long long)o.most);
	int r = td_gang_spark_later(td_json_root(j), &got, &err);
	assert_int_equal(r, asks ? 0 : TD_INVALID);
	if (asks)
		assert_string_equal(got, asks);
	else
		assert_non_null(strstr(err.msg, "is not as Spark writes it"));
}

// Objects as spark-operator's own examples have them, and what Spark made of such ones.
static void test_spark_application(void **state)
{
	// A fixed number, of a program in Python: 1408 MiB would be what Java's has.
	spark_says("{\"type\":\"Python\",\"mainApplicationFile\":\"local:///opt/pi.py\",\"driver\":{\"cores\":1},"
		   "\"executor\":{\"instances\":3,\"cores\":2,\"memory\":\"4g\"}}",
		   3, 3, "{\"cpu\":\"2000m\",\"memory\":\"6012534784\"}"); // 4096 + 1638 MiB
	// Nothing is said but settings of Spark's own; the field comes before the setting.
	spark_says(
		"{\"mainApplicationFile\":\"local:///a.jar\",\"executor\":{\"coreRequest\":\"500m\",\"memoryOverhead\":"
		"\"1g\"},"
		"\"sparkConf\":{\"spark.executor.instances\":\"4\",\"spark.executor.memory\":\"2g\","
		"\"spark.executor.memoryOverhead\":\"9g\",\"spark.executor.cores\":\"7\","
		"\"spark.executor.resource.gpu.amount\":\"2\",\"spark.executor.resource.gpu.vendor\":\"nvidia.com\","
		"\"spark.executor.resource.odd.amount\":\"1\"}}",
		4, 4, "{\"cpu\":\"500m\",\"memory\":\"3221225472\",\"nvidia.com/gpu\":\"2\"}");
	// Dynamic allocation: places for the minimum; the driver's own counts where there is none.
	spark_says("{\"executor\":{\"instances\":5,\"gpu\":{\"name\":\"nvidia.com/gpu\",\"quantity\":1}},"
		   "\"dynamicAllocation\":{\"enabled\":true,\"initialExecutors\":4,\"minExecutors\":2,\"maxExecutors\":"
		   "9}}",
		   2, 9, "{\"cpu\":\"1000m\",\"memory\":\"1476395008\",\"nvidia.com/gpu\":\"1\"}");
	spark_says("{\"dynamicAllocation\":{\"enabled\":true,\"maxExecutors\":9}}", 1, 10,
		   "{\"cpu\":\"1000m\",\"memory\":\"1476395008\"}");
	spark_says(
		"{\"sparkConf\":{\"spark.dynamicAllocation.enabled\":\"true\",\"spark.dynamicAllocation.minExecutors\":"
		"\"1\"}}",
		1, TD_GANG_MAX - 1, "{\"cpu\":\"1000m\",\"memory\":\"1476395008\"}");
	// What lies beside Spark's container counts, too: of the template, and of the application.
	spark_says("{\"executor\":{\"instances\":1,\"template\":{\"spec\":{\"containers\":[{\"name\":\"log\","
		   "\"resources\":{"
		   "\"requests\":{\"cpu\":\"100m\"}}},{\"name\":\"spark-kubernetes-executor\",\"resources\":{"
		   "\"requests\":{"
		   "\"cpu\":\"64\"},\"limits\":{\"example.com/"
		   "nic\":\"1\"}}}]}},\"sidecars\":[{\"name\":\"s\",\"resources\":{"
		   "\"requests\":{\"memory\":\"1Gi\"}}}]}}",
		   1, 1, "{\"cpu\":\"1100m\",\"memory\":\"2550136832\",\"example.com/nic\":\"1\"}");
	spark_says("{\"executor\":{\"memory\":\"4Gi\"}}", 2, 2, NULL);
	spark_says("{\"memoryOverheadFactor\":\"much\"}", 2, 2, NULL);

	// Executors whose driver is none of Tandem's start together, so many as the driver needs.
	td_auto(td_json_unref) struct td_json *j = given_json("{\"dynamicAllocation\":{\"enabled\":true}}");
	struct td_gang_owned o = {0};
	td_gang_spark_size(td_json_root(j), false, &o);
	assert_true(o.min == 1 && !o.keeps);
}

static void test_uid(void **state)
{
	td_auto(td_object_unref) struct td_object *a = pod("a", "u1", "", "", NULL), *b = pod("b", "u2", "", "", NULL);
	const struct td_object *ab[] = {a, b}, *ba[] = {b, a};
	char one[40], two[40], less[40];
	td_gang_uid(ab, 2, one);
	td_gang_uid(ba, 2, two);
	td_gang_uid(ab, 1, less);
	assert_string_equal(one, two);
	assert_string_not_equal(one, less);

	// It has the form of a UID, as a job's mark wants it.
	td_auto_free char *comment = td_comment("c1", "ml", "gang:train", one);
	const struct td_slurm_job j = {.admin_comment = NULL, .comment = comment};
	assert_string_equal(td_bridge_job_uid(&j, "c1"), one);
}

// The same, made at a time.
static struct td_object *made(const char *name, const char *time)
{
	td_auto_free char *text = td_asprintf("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":"
					      "\"ml\",\"name\":\"%s\",\"uid\":\"uid-of-%s\","
					      "\"creationTimestamp\":\"2026-01-01T00:00:%sZ\"},\"spec\":{}}",
					      name, name, time);
	td_auto(td_json_unref) struct td_json *j = given_json(text);
	return td_object_kept(td_json_root(j));
}

// A pod of a role that asks for so much.
static struct td_object *asks(const char *role, const char *cpu, const char *more)
{
	td_auto_free char *text = td_asprintf(
		"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"ml\",\"name\":\"p\",\"uid\":"
		"\"u\","
		"\"labels\":{\"tandem.dev/gang-role\":\"%s\"}},\"spec\":{\"containers\":[{\"resources\":{\"requests\":{"
		"\"cpu\":\"%s\",\"memory\":\"1Gi\"%s}}}]}}",
		role, cpu, more);
	td_auto(td_json_unref) struct td_json *j = given_json(text);
	return td_object_kept(td_json_root(j));
}

// Its job stays as it was: a pod that asks for more would have it past the queue.
static void test_who_may_take_a_lost_place(void **state)
{
	static const struct {
		const char *role, *cpu, *more;
		bool may;
	} cases[] = {
		{"worker", "2", "", true},
		{"worker", "2000m", "", true},
		{"worker", "2", ",\"ephemeral-storage\":\"9Gi\"", true},
		{"worker", "64", "", false},
		{"worker", "2", ",\"example.com/gpu\":\"1\"", false},
		{"launcher", "1", "", true},
		{"launcher", "2", "", false},
		{"head", "2", "", false}, // nobody of it is there, and not all others ask for that
	};
	td_auto(td_object_unref) struct td_object *a = asks("launcher", "1", ""), *b = asks("worker", "2", "");
	const struct td_object *members[] = {a, b};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto(td_object_unref) struct td_object *o = asks(cases[i].role, cases[i].cpu, cases[i].more);
		if (td_gang_like(members, 2, o) != cases[i].may)
			fail_msg("%s %s%s", cases[i].role, cases[i].cpu, cases[i].more);
	}
	td_auto(td_object_unref) struct td_object *head = asks("head", "2", "");
	assert_true(td_gang_like(members + 1, 1, head));
}

static void test_a_lost_member_has_a_time_of_its_own(void **state)
{
	struct td_ask a = {.bind_ms = 1000};
	assert_false(td_gang_late(&a, true, 31000));
	assert_true(td_gang_late(&a, true, 31001));
	assert_false(td_gang_late(&a, false, 90000));  // all are bound
	assert_false(td_gang_late(&a, true, 3600000)); // one of them is lost, and another pod takes its place
}

static void test_pick(void **state)
{
	// w-3 and w-4 were there first and are the core; w-0 and w-1 came later, w-2 in between.
	td_auto(td_object_unref) struct td_object *w0 = made("w-0", "30"), *w1 = made("w-1", "30"),
						  *w2 = made("w-2", "20"), *w3 = made("w-3", "10"),
						  *w4 = made("w-4", "10");
	const struct td_object *core[] = {w3, w4}, *waiting[] = {w0, w1, w2, w3, w4};
	char uid[40];
	td_gang_uid(core, 2, uid);
	assert_true(td_gang_pick(NULL, 0, waiting, 5, 2, uid));
	assert_ptr_equal(waiting[0], w3);
	assert_ptr_equal(waiting[1], w4);
	assert_ptr_equal(waiting[2], w0); // the others stay in their order
	assert_ptr_equal(waiting[4], w2);

	// One of them is bound already.
	const struct td_object *again[] = {w0, w1, w2, w4}, *bound[] = {w3};
	assert_true(td_gang_pick(bound, 1, again, 4, 1, uid));
	assert_ptr_equal(again[0], w4);

	// One of them is gone: no set of the others is that gang.
	const struct td_object *left[] = {w0, w1, w2, w3};
	assert_false(td_gang_pick(NULL, 0, left, 4, 2, uid));
	assert_false(td_gang_pick(NULL, 0, left, 1, 2, uid));
	assert_ptr_equal(left[0], w0);
}

static void says(int want, const char *words, int64_t size, int64_t most, const char *notes)
{
	td_auto(td_object_unref) struct td_object *o = pod("p", "u", "\"tandem.dev/gang\":\"train\"", notes, NULL);
	const struct td_object *both[] = {o, o};
	struct td_gang_says got;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_gang_read(NULL, both, 2, &got, NULL, &err), want);
	if (want) {
		assert_non_null(strstr(err.msg, words));
		return;
	}
	assert_int_equal(got.size, size);
	assert_int_equal(got.most, most);
	const struct td_objects none = {0};
	assert_int_equal(td_gang_there(&none, both, 2, &got), size < 2 ? size : 2);
}

static void test_minimum(void **state)
{
	says(0, NULL, 8, 8, "\"tandem.dev/gang-size\":\"8\"");
	says(0, NULL, 2, 8, "\"tandem.dev/gang-size\":\"8\",\"tandem.dev/gang-min\":\"2\"");
	says(0, NULL, 2, TD_GANG_MAX, "\"tandem.dev/gang-min\":\"2\"");
	says(0, NULL, 1, 8, "\"tandem.dev/gang-size\":\"8\",\"tandem.dev/gang-min\":\"1\"");
	says(TD_INVALID, "write annotation tandem.dev/gang-min as a number from 1 to 4", 0, 0,
	     "\"tandem.dev/gang-size\":\"4\",\"tandem.dev/gang-min\":\"5\"");
	says(TD_INVALID, "annotation tandem.dev/gang-min: \"0\" is no number of pods", 0, 0,
	     "\"tandem.dev/gang-min\":\"0\"");
	says(TD_INVALID, "write annotation tandem.dev/gang-size", 0, 0, "");
}

static struct td_object *indexed(const char *index, const char *phase)
{
	td_auto_free char *text =
		td_asprintf("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":"
			    "\"ml\",\"name\":\"x\",\"uid\":\"u%s\",\"annotations\":{\"batch.kubernetes."
			    "io/job-completion-index\":\"%s\"}},\"status\":{\"phase\":\"%s\"}}",
			    index, index, phase);
	td_auto(td_json_unref) struct td_json *j = given_json(text);
	return td_object_kept(td_json_root(j));
}

static void test_there(void **state)
{
	// Index 0 fills the gap before the core of 1 and 2 only when it has succeeded.
	td_auto(td_object_unref) struct td_object *one = indexed("1", "Pending"), *two = indexed("2", "Pending");
	const struct td_object *waiting[] = {one, two};
	const struct td_gang_says says = {.size = 2, .most = 4};
	static const char *const phases[] = {"Succeeded", "Failed"};
	for (size_t i = 0; i < 2; i++) {
		td_auto_objects struct td_objects all = {0};
		td_objects_add(&all, indexed("0", phases[i]));
		td_objects_add(&all, td_object_ref(one));
		td_objects_add(&all, td_object_ref(two));
		assert_int_equal(td_gang_there(&all, waiting, 2, &says), i ? 0 : 2);
	}
}

static struct td_object *of_job(const char *role, const char *job, const char *api, const char *kind)
{
	td_auto_free char *text =
		td_asprintf("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"ml\",\"name\":\"x\","
			    "\"uid\":\"u\",\"labels\":{\"tandem.dev/gang\":\"both\","
			    "\"training.kubeflow.org/job-name\":\"%s\",\"training.kubeflow.org/job-role\":\"%s\"},"
			    "\"ownerReferences\":[{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"name\":\"%s\","
			    "\"uid\":\"o\",\"controller\":true}]}}",
			    job, role, api, kind, job);
	td_auto(td_json_unref) struct td_json *j = given_json(text);
	return td_object_kept(td_json_root(j));
}

// Which ended pods go when a launcher waits: workers of its own MPIJob, and of no other that shares the gang.
static void test_again(void **state)
{
	td_auto(td_object_unref) struct td_object *launcher = of_job("launcher", "a", "batch/v1", "Job"),
						  *worker = of_job("worker", "a", "kubeflow.org/v2beta1", "MPIJob"),
						  *other = of_job("worker", "b", "kubeflow.org/v2beta1", "MPIJob"),
						  *first = of_job("worker", "a", "kubeflow.org/v1", "MPIJob");
	assert_true(td_gang_leads_it(launcher, worker));
	assert_false(td_gang_leads_it(launcher, other));
	assert_false(td_gang_leads_it(worker, worker));
	assert_true(td_gang_stays(worker));
	assert_false(td_gang_stays(first));
	assert_false(td_gang_stays(launcher));
	// Had the core one that leads? Else such a one takes nobody's place in it.
	assert_true(td_gang_roles_lead("launcher=1,worker=2") && td_gang_roles_lead("a=1,Master=1"));
	assert_false(td_gang_roles_lead("worker=2") || td_gang_roles_lead(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
					   cmocka_unit_test(test_order),
					   cmocka_unit_test(test_private_networks),
					   cmocka_unit_test(test_roles),
					   cmocka_unit_test(test_uid),
					   cmocka_unit_test(test_pick),
					   cmocka_unit_test(test_who_may_take_a_lost_place),
					   cmocka_unit_test(test_a_lost_member_has_a_time_of_its_own),
					   cmocka_unit_test(test_minimum),
					   cmocka_unit_test(test_there),
					   cmocka_unit_test(test_again),
					   cmocka_unit_test(test_later),
					   cmocka_unit_test(test_later_come),
					   cmocka_unit_test(test_spark_application),
					   cmocka_unit_test(test_owners_say),
					   cmocka_unit_test(test_groups_of_kubernetes)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
