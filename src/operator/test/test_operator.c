// Unit tests of the operator's pure parts: the objects of the embedded manifests, a node's share
// and pod, and the decision about nodes.
// rows: A1.8 A10.2 A2.2 A2.3 A2.4 A2.6 A2.8 A3.1 A3.2 A3.6 A3.7 A4.1 A4.2 A4.3 A5.8 B7.3
#include "api/test/testlib.h"
#include "base/file.h"
#include "kube/tenant.h"
#include "operator/health.h"
#include "operator/nodeset.h"
#include "operator/operator.h"
#include "operator/tenant.h"
#include "slurm/gres.h"
#include "slurm/topology.h"
#include "slurm/where.h"

static struct td_json *embedded(const char *kind)
{
	td_auto_free char *path = td_asprintf("%s/deploy/embedded.yaml", getenv("TD_SOURCE_ROOT"));
	td_auto_buf struct td_buf b = {0};
	struct td_error err = TD_ERROR_INIT;
	td_auto_json_list struct td_json_list l = {0};
	if (td_file_read(path, 1 << 20, &b, &err) || td_yaml_parse(td_buf_str(&b), b.len, &l, &err))
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < l.n; i++)
		if (td_streq(td_jstr(td_json_root(l.v[i]), "kind"), kind))
			return td_json_ref(l.v[i]);
	fail_msg("no %s in deploy/embedded.yaml", kind);
	return NULL;
}

#define NODE                                                                                                           \
	"metadata: {name: n0, labels: {topology.tandem.dev/block: b0, topology.tandem.dev/rack: r0, "                  \
	"tandem.dev/fake-gpus: 'true'}}\n"                                                                             \
	"status: {allocatable: {cpu: '16', memory: 32Gi, nvidia.com/gpu: '8'}}\n"

// NULL: it is not wanted.
static const yyjson_val *among(const struct td_op_wants *w, const struct td_gvr *gvr, const char *name)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->v[i].gvr == gvr && td_streq(td_jstr(td_json_root(w->v[i].obj), "metadata.name"), name))
			return td_json_root(w->v[i].obj);
	return NULL;
}

static const yyjson_val *wanted(const struct td_op_wants *w, const struct td_gvr *gvr, const char *name)
{
	const yyjson_val *o = among(w, gvr, name);
	if (!o)
		fail_msg("no %s %s", gvr->kind, name);
	return o;
}

static void objects_of(const struct td_json *sc, struct td_slurm_files *f, struct td_op_wants *ret)
{
	td_auto_strv struct td_strv p = {0};
	const struct td_slurm_facts facts = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_true(td_slurm_files_make(td_json_root(sc), &facts, f, &p));
	if (td_op_cluster_objects(td_json_root(sc), f, NULL, ret, &err))
		fail_msg("%s", err.msg);
}

// The toleration that lets slurmctld start where every node is drained in Slurm stays when the
// site's template has tolerations of its own.
static void test_tolerations(void **state)
{
	td_auto(td_json_unref) struct td_json *usual = embedded("SlurmCluster"),
					      *mine = Y("[{key: mine, operator: Exists}]");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(usual));
	td_jm_copyval(d, yyjson_mut_doc_get_root(d), "spec.controller.template.spec.tolerations", td_json_root(mine));
	td_auto(td_json_unref) struct td_json *sc = td_json_from_mut(yyjson_mut_doc_get_root(d));
	td_auto_slurm_files struct td_slurm_files f = {0};
	td_auto_wants struct td_op_wants w = {0};
	objects_of(sc, &f, &w);
	yyjson_val *got = td_jget(wanted(&w, &td_statefulsets, "main-slurmctld"), "spec.template.spec.tolerations");
	assert_int_equal(yyjson_arr_size(got), 3);
	assert_string_equal(td_jstr(yyjson_arr_get(got, 0), "key"), "mine");
	assert_string_equal(td_jstr(yyjson_arr_get(got, 1), "key"), TD_TAINT_DRAIN);
	assert_string_equal(td_jstr(yyjson_arr_get(got, 2), "key"), TD_TAINT_DOWN);
	got = td_jget(wanted(&w, &td_statefulsets, "main-login"), "spec.template.spec.tolerations");
	assert_string_equal(td_jstr(yyjson_arr_get(got, 0), "key"), TD_TAINT_DRAIN);
}

static void test_objects(void **state)
{
	td_auto(td_json_unref) struct td_json *sc = embedded("SlurmCluster");
	td_auto_slurm_files struct td_slurm_files f = {0};
	td_auto_wants struct td_op_wants w = {0};
	struct td_error err = TD_ERROR_INIT;
	objects_of(sc, &f, &w);
	const yyjson_val *key = wanted(&w, &td_secrets, "main-slurm-key");
	assert_non_null(td_jkey_str(td_jget(key, "data"), "slurm.key"));
	assert_non_null(td_jkey_str(td_jget(wanted(&w, &td_secrets, "main-jwt-key"), "data"), "jwt_hs256.key"));
	static const char *const files[] = {"slurm.conf",   "gres.conf",   "cgroup.conf", "gate.sh",
					    "slurmctld.sh", "accounts.sh", "passwd",      "group"};
	for (size_t i = 0; i < TD_LEN(files); i++)
		assert_non_null(td_jkey_str(td_jget(wanted(&w, &td_configmaps, "main-config"), "data"), files[i]));

	const yyjson_val *ctl = wanted(&w, &td_statefulsets, "main-slurmctld");
	assert_string_equal(td_jstr(ctl, "spec.serviceName"), "main-slurmctld");
	const yyjson_val *spec = td_jget(ctl, "spec.template.spec");
	assert_string_equal(td_jkey_str(td_jget(spec, "nodeSelector"), "kubernetes.io/hostname"), "n0");
	assert_string_equal(td_jstr(spec, "volumes.[4].hostPath.path"), "/var/lib/slurm-main");
	assert_null(td_jget(spec, "volumes.[4].emptyDir"));
	assert_string_equal(td_jstr(spec, "containers.[0].resources.requests.cpu"), "100m");
	assert_int_equal(td_jint(spec, "volumes.[1].secret.defaultMode", 0), 0400);
	assert_non_null(td_jkey_str(td_jget(ctl, "spec.template.metadata.annotations"), TD_ANN_RESTART));

	// The login template is merged by name, so its mount is added to ours.
	const yyjson_val *login = td_jget(wanted(&w, &td_statefulsets, "main-login"), "spec.template.spec");
	bool home = false, conf = false;
	size_t i, n;
	yyjson_val *x;
	yyjson_arr_foreach (td_jget(login, "containers.[0].volumeMounts"), i, n, x) {
		home |= td_streq(td_jstr(x, "mountPath"), "/home");
		conf |= td_streq(td_jstr(x, "mountPath"), "/etc/slurm");
	}
	assert_true(home && conf);
	// The plug-ins that plugstack.conf names lie where srun looks for them: without containers, too.
	for (int containers = 0; containers < 2; containers++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *with = td_jm_copy(td_json_root(sc));
		yyjson_mut_val *root = yyjson_mut_doc_get_root(with);
		td_jm_bool(with, root, "spec.containers.enabled", containers);
		td_jm_bool(with, root, "spec.accounting.enabled", !containers);
		td_jm_del(root, "spec.scratch");
		td_auto(td_json_unref) struct td_json *other = td_json_from_mut(root);
		td_auto_slurm_files struct td_slurm_files of = {0};
		td_auto_wants struct td_op_wants ow = {0};
		objects_of(other, &of, &ow);
		const yyjson_val *data = td_jget(wanted(&ow, &td_configmaps, "main-config"), "data");
		assert_non_null(strstr(td_jkey_str(data, "plugstack.conf"), "/opt/tandem/"));
		const yyjson_val *pod = td_jget(wanted(&ow, &td_statefulsets, "main-login"), "spec.template.spec");
		assert_non_null(td_jfind(td_jget(pod, "containers.[0].volumeMounts"), "mountPath", "/opt/tandem"));
	}
	wanted(&w, &td_deployments, "main-slurmrestd");
	wanted(&w, &td_services, "main-slurmctld");
	const yyjson_val *pdb = td_jget(wanted(&w, &td_pdbs, "main-drain-first"), "spec");
	assert_true(td_jint(pdb, "minAvailable", 0) == INT32_MAX && !td_jget(pdb, "maxUnavailable"));
	assert_string_equal(td_jstr(pdb, "selector.matchExpressions.[0].key"), TD_LABEL_EVICTABLE);

	// slurmrestd has a socket in a volume of its own, and no port to connect to from outside.
	const yyjson_val *rest = td_jget(wanted(&w, &td_deployments, "main-slurmrestd"), "spec.template");
	assert_int_equal(yyjson_arr_size(td_jget(rest, "spec.containers.[0].ports")), 0);
	assert_non_null(strstr(td_jstr(rest, "spec.containers.[0].command.[4]"), "/run/slurmrestd/private/api.sock"));
	assert_non_null(td_jget(rest, "spec.volumes.[1].emptyDir"));
	assert_string_equal(td_jkey_str(td_jget(rest, "metadata.annotations"), TD_ANN_REST_ACCESS), "socket");
	for (i = 0; i < w.n; i++)
		assert_false(w.v[i].gvr == &td_services &&
			     td_streq(td_jstr(td_json_root(w.v[i].obj), "metadata.name"), "main-slurmrestd"));

	// slurmctld finds a login pod by the pod's name alone, so there is a Service for each pod,
	// and one for all.
	assert_null(td_jkey_str(td_jget(wanted(&w, &td_services, "main-login"), "spec.selector"),
				"statefulset.kubernetes.io/pod-name"));
	const yyjson_val *own = td_jget(wanted(&w, &td_services, "main-login-0"), "spec");
	assert_string_equal(td_jkey_str(td_jget(own, "selector"), "statefulset.kubernetes.io/pod-name"),
			    "main-login-0");
	assert_true(td_jbool(own, "publishNotReadyAddresses", false));
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *many = td_jm_copy(td_json_root(sc));
	td_jm_int(many, yyjson_mut_doc_get_root(many), "spec.login.[0].replicas", 70);
	td_auto(td_json_unref) struct td_json *crowd = td_json_from_mut(yyjson_mut_doc_get_root(many));
	td_auto_wants struct td_op_wants seventy = {0};
	assert_int_equal(td_op_cluster_objects(td_json_root(crowd), &f, NULL, &seventy, &err), 0);
	wanted(&seventy, &td_services, "main-login-69");
	assert_int_equal(seventy.n, w.n + 69);

	// Two runs differ in nothing but the keys.
	td_auto_wants struct td_op_wants again = {0};
	assert_int_equal(td_op_cluster_objects(td_json_root(sc), &f, NULL, &again, &err), 0);
	for (i = 0; i < w.n; i++)
		assert_true(td_jequal(td_json_root(w.v[i].obj), td_json_root(again.v[i].obj)) == !w.v[i].once);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(sc));
	td_jm_str(d, yyjson_mut_doc_get_root(d), "spec.restApi.access", "network");
	td_auto(td_json_unref) struct td_json *open = td_json_from_mut(yyjson_mut_doc_get_root(d));
	td_auto_wants struct td_op_wants net = {0};
	assert_int_equal(td_op_cluster_objects(td_json_root(open), &f, NULL, &net, &err), 0);
	wanted(&net, &td_services, "main-slurmrestd");
	rest = td_jget(wanted(&net, &td_deployments, "main-slurmrestd"), "spec.template");
	assert_int_equal(td_jint(rest, "spec.containers.[0].ports.[0].containerPort", 0), 6820);
	assert_string_equal(td_jkey_str(td_jget(rest, "metadata.annotations"), TD_ANN_REST_ACCESS), "network");
}

// Templates spell out paths and names; programs and slurm.conf take them from constants.
static void test_templates_agree_with_constants(void **state)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *ctl = td_op_fill("slurmctld.yaml", NULL, 0),
						    *d = td_op_fill("slurmd.yaml", NULL, 0),
						    *sock = td_op_fill("slurmrestd-socket.yaml", NULL, 0),
						    *pdb = td_op_fill("budget.yaml", NULL, 0),
						    *rest = td_op_fill("slurmrestd.yaml", NULL, 0);
	const yyjson_mut_val *spec = td_jm_get(yyjson_mut_doc_get_root(ctl), "spec.template.spec"),
			     *c = td_jm_get(spec, "containers.[0]");
	static const char *const mounts[][2] = {
		{"config", TD_SLURM_ETC}, {"key", TD_SLURM_KEYS}, {"jwt", TD_SLURM_JWT}, {"state", TD_SLURM_STATE}};
	for (size_t i = 0; i < TD_LEN(mounts); i++)
		assert_string_equal(td_jm_getstr(td_op_named(c, "volumeMounts", mounts[i][0]), "mountPath"),
				    mounts[i][1]);
	assert_int_equal(yyjson_mut_get_int(td_jm_get(spec, "securityContext.runAsUser")), TD_SLURM_UID);
	assert_int_equal(yyjson_mut_get_int(td_jm_get(c, "ports.[0].containerPort")), TD_SLURMCTLD_PORT);

	c = td_jm_get(yyjson_mut_doc_get_root(d), "spec.containers.[0]");
	assert_string_equal(td_jm_getstr(td_op_named(c, "volumeMounts", "spool"), "mountPath"), TD_SLURM_SPOOL);
	assert_int_equal(yyjson_mut_get_int(td_jm_get(c, "ports.[0].containerPort")), TD_SLURMD_PORT);
	assert_string_equal(td_jm_getstr(yyjson_mut_doc_get_root(sock), "volume.name"), TD_SLURM_REST_VOLUME);
	assert_string_equal(td_jm_getstr(yyjson_mut_doc_get_root(pdb), "spec.selector.matchExpressions.[0].key"),
			    TD_LABEL_EVICTABLE);
	c = td_jm_get(yyjson_mut_doc_get_root(rest), "spec.template");
	assert_int_equal(yyjson_mut_get_int(td_jm_get(c, "spec.containers.[0].ports.[0].containerPort")),
			 TD_SLURMRESTD_PORT);

	assert_non_null(strstr(td_op_program("slurmd.sh"), "/opt/tandem/tandem-standin clear-dead"));
	td_auto_free char *path = td_asprintf("%s/src/slurm/programs/slurmctld.sh", getenv("TD_SOURCE_ROOT"));
	td_auto_buf struct td_buf text = {0};
	assert_int_equal(td_file_read(path, 1 << 20, &text, NULL), 0);
	assert_non_null(strstr(td_buf_str(&text), "--state " TD_SLURM_STATE " "));
}

static void test_share(void **state)
{
	td_auto(td_json_unref) struct td_json *sc = embedded("SlurmCluster"), *set = embedded("NodeSet"),
					      *node = Y(NODE),
					      *small = Y("status: {allocatable: {cpu: '1', memory: 32Gi}}"),
					      *four = Y("spec: {slurm: {gres: 'gpu:4'}}"),
					      *nine = Y("spec: {slurm: {gres: 'gpu:9'}}");
	struct td_op_share s = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_true(td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(node), NULL, &s, &err));
	td_auto_free char *text = td_op_share_text(&s, "nvidia.com/gpu");
	assert_string_equal(text, "{\"cpu\":\"15\",\"memory\":\"31744Mi\",\"nvidia.com/gpu\":\"8\"}");

	struct td_op_share back = {0};
	assert_true(td_op_share_parse(text, "nvidia.com/gpu", &back) && back.cpus == 15 && back.memory_mb == 31744 &&
		    back.gpus == 8);
	static const char *const bad[] = {"",
					  "{}",
					  "[]",
					  "{\"cpu\":\"0\",\"memory\":\"1Gi\",\"nvidia.com/gpu\":\"0\"}",
					  "{\"cpu\":\"many\",\"memory\":\"1Gi\",\"nvidia.com/gpu\":\"0\"}",
					  "{\"cpu\":\"1\",\"memory\":\"1Gi\"}"};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_false(td_op_share_parse(bad[i], "nvidia.com/gpu", &back));
	assert_false(td_op_share_parse(text, "example.com/gpu", &back)); // of another resource

	assert_false(td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(small), NULL, &s, &err));
	assert_non_null(strstr(err.msg, "spec.reserve"));
	assert_true(td_op_share_of(td_json_root(sc), td_json_root(four), td_json_root(node), NULL, &s, &err));
	assert_int_equal(s.gpus, 4);
	assert_false(td_op_share_of(td_json_root(sc), td_json_root(nine), td_json_root(node), NULL, &s, &err));
	assert_non_null(strstr(err.msg, "spec.slurm.gres"));
}

static void type_of(const char *product, const char *want)
{
	td_auto(td_json_unref) struct td_json *sc = Y("spec: {devices: [{resource: nvidia.com/gpu, types: {odd: fine, "
						      "NVIDIA-A10: a10-24}}]}");
	td_auto_free char *got = td_op_gpu_type(td_json_root(sc), product);
	if (want ? !td_streq(got, want) : got != NULL)
		fail_msg("%s: %s", product ? product : "-", got ? got : "none");
}

static void read_gres(const char *text, const char *types, long long n)
{
	struct td_op_found f = {0};
	struct td_error err = TD_ERROR_INIT;
	int r = td_op_gres_read(text, &f, &err);
	if (types ? r || f.n != n || strcmp(f.types, types) != 0
		  : r != TD_INVALID || !strstr(err.msg, "spec.slurm.gres"))
		fail_msg("%s: %d %s %lld", text, r, f.types, f.n);
}

static void test_types(void **state)
{
	static const char *const products[][2] = {{"NVIDIA-H100-80GB-HBM3", "h100"},
						  {"NVIDIA H200", "h200"},
						  {"NVIDIA-A100-SXM4-40GB", "a100"},
						  {"Tesla-V100-SXM2-32GB", "v100"},
						  {"NVIDIA-GeForce-RTX-4090", "rtx_4090"},
						  {"NVIDIA-RTX-A6000", "rtx_a6000"},
						  {"AMD_Instinct_MI300X_OAM", "mi300x"},
						  {"NVIDIA-L40S", "l40s"},
						  {"NVIDIA-A10", "a10-24"},
						  {"odd", "fine"},
						  {"NVIDIA", NULL},
						  {"4090", NULL},
						  {"", NULL},
						  {NULL, NULL}};
	for (size_t i = 0; i < TD_LEN(products); i++)
		type_of(products[i][0], products[i][1]);

	read_gres("gpu:8", "", 8);
	read_gres("gpu:h100:8", "h100:8", 8);
	read_gres("gpu:h100:4,gpu:a100:2,gpu:a100:2", "h100:4,a100:4", 8);
	static const char *const bad[] = {"gpu",
					  "gpu:",
					  "gpu:h100",
					  "gpu:h100:0",
					  "gpu:4,gpu:h100:4",
					  "shard:4",
					  "gpu:1g:4",

					  "gpu:a:1,gpu:b:1,gpu:a:1",
					  "gpu:h100:-1",
					  "gpu:h 1:1"};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		read_gres(bad[i], NULL, 0);

	struct td_op_share s = {8, 1024, 6, "h100:4,a100:2"};
	td_auto_buf struct td_buf b = {0};
	td_op_gres_write(&s, &b);
	assert_string_equal(td_buf_str(&b), "gpu:h100:4,gpu:a100:2");
	assert_false(td_op_gpus_differ("gpu:a100:2,gpu:h100:4(S:0)", &s));
	assert_true(td_op_gpus_differ("gpu:6", &s));
	assert_true(td_op_gpus_differ("gpu:a100:4,gpu:h100:2", &s));
	td_auto_free char *text = td_op_share_text(&s, "a.com/gpu");
	struct td_op_share back = {0};
	assert_true(td_op_share_parse(text, "a.com/gpu", &back));
	assert_string_equal(back.types, s.types);
	td_op_types_cut(back.types, 5);
	assert_string_equal(back.types, "h100:4,a100:1");
	td_op_types_cut(back.types, 8); // nothing is known of three
	assert_string_equal(back.types, "");
	*s.types = '\0';
	assert_false(td_op_gpus_differ("gpu:6", &s));
	assert_true(td_op_gpus_differ("gpu:h100:6", &s));
}

static void numa_refused(const char *text, const char *words)
{
	char numa[TD_OP_NUMA] = "";
	struct td_error err = TD_ERROR_INIT;
	assert_false(td_op_numa_read(text, 4, numa, &err));
	if (!strstr(err.msg, words) || *numa)
		fail_msg("%s: %s", text, err.msg);
}

// The NUMA nodes of GPUs: what is read, and the cores that follow from it.
// What the machine itself tells counts where nobody says anything.
static void told(void)
{
	static const struct {
		const char *cluster, *notes, *labels, *types, *numa;
		long long parts, cpus; // cpus of 9; 0: all
	} rows[] = {
#define GPUS(a, b, x, y, nodes)                                                                                        \
	TD_ANN_GPUS ": '{\"gpus\":[{\"product\":\"" a "\",\"numa\":" x "},{\"product\":\"" b "\",\"numa\":" y          \
		    "}],\"numaNodes\":" nodes "}'"
#define H100 "NVIDIA H100 80GB HBM3"
		{"{}", GPUS(H100, H100, "0", "1", "2"), "", "h100:2", "01", 2, 8},
		{"{}", GPUS(H100, "NVIDIA L40S", "0", "0", "2"), "", "h100:1,l40s:1", "00", 2, 8}, // all at one
		{"{}", GPUS(H100, H100, "0", "1", "4"), "", "h100:2", "01", 4, 8}, // NUMA nodes without GPUs
		{"{}", GPUS(H100, H100, "1", "1", "2"), "", "h100:2", "11", 2, 8}, // a gap
		{"{}", GPUS(H100, H100, "1", "2", "2"), "", "h100:2", ""},         // more than there are
		{"{}", GPUS(H100, H100, "1", "2", "9"), "", "h100:2", ""},
		{"{}", GPUS(H100, H100, "-1", "-1", "1"), "", "h100:2", ""},
		{"{}", GPUS(H100, "Tandem fake GPU", "0", "1", "2"), "", "", "01", 2, 8},
		{"{}", GPUS(H100, H100, "0", "1", "2"), "nvidia.com/gpu.product: NVIDIA-A100", "a100:2", "01", 2, 8},
		{"{types: {" H100 ": big}}", GPUS(H100, H100, "0", "1", "2"), "", "big:2", "01", 2, 8},
		{"{typeLabel: ''}", GPUS(H100, H100, "0", "1", "2"), "", "", "01", 2, 8},
		{"{}", GPUS(H100, H100, "0", "1", "2") ", " TD_ANN_GPU_NUMA ": '1,0'", "", "h100:2", "10", 0, 8},
		{"{}", TD_ANN_GPUS ": '{\"gpus\":[{\"product\":\"" H100 "\"}]}'", "", "", ""}, // of one GPU only
		{"{}", TD_ANN_GPUS ": '{'", "", "", ""},
	};
	td_auto(td_json_unref) struct td_json *set = Y("spec: {slurm: {gres: auto}}");
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto_free char *sc_text = td_asprintf("spec: {devices: [%s]}", rows[i].cluster),
				  *node_text = td_asprintf(
					  "metadata: {annotations: {%s}, labels: {%s}}\nstatus: {allocatable: "
					  "{cpu: '10', memory: 8Gi, nvidia.com/gpu: '2'}}",
					  rows[i].notes, rows[i].labels);
		td_auto(td_json_unref) struct td_json *sc = Y(sc_text), *node = Y(node_text);
		struct td_op_share s;
		assert_true(td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(node), NULL, &s, NULL));
		if (strcmp(s.types, rows[i].types) != 0 || strcmp(s.numa, rows[i].numa) != 0 ||
		    s.parts != rows[i].parts || s.cpus != (rows[i].cpus ? rows[i].cpus : 9))
			fail_msg("%zu: %s, %s, %lld, %lld", i, s.types, s.numa, s.parts, s.cpus);
	}
}

// On a machine with one NUMA node, islands of linked GPUs take the place of NUMA nodes.
static void linked(void)
{
	static const struct {
		const char *peers[4], *cpus, *numa;
		long long parts, share;
	} rows[] = {
		{{"1", "0", "3", "2"}, "10", "0011", 0, 8},
		{{"2", "3", "0", "1"}, "10", "0101", 0, 8},
		{{"1-3", "0,2-3", "0-1,3", "0-2"}, "10", "", 0, 9}, // all: no island
		{{"", "", "", ""}, "10", "", 0, 9},
		{{"1", "0", "", ""}, "10", "", 0, 9},    // of two sizes
		{{"1", "0,2", "1", ""}, "10", "", 0, 9}, // a chain
		{{"1", "", "3", "2"}, "10", "", 0, 9},   // of one side only
		{{"1", "0", "9", "9"}, "10", "", 0, 9},  // of GPUs that there are not
		{{"x", "0", "3", "2"}, "10", "", 0, 9},
		{{"1", "0", "3", "2"}, "2", "", 0, 1}, // a core for each there is not
	};
	td_auto(td_json_unref) struct td_json *set = Y("spec: {slurm: {gres: auto}}"), *sc = Y("spec: {}");
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto_free char *text = td_asprintf(
			"metadata: {annotations: {" TD_ANN_GPUS
			": '{\"gpus\":[{\"peers\":\"%s\"},{\"peers\":\"%s\"},{\"peers\":\"%s\"},{\"peers\":\"%s\"}],"
			"\"numaNodes\":1}'}}\nstatus: {allocatable: {cpu: '%s', memory: 8Gi, nvidia.com/gpu: '4'}}",
			rows[i].peers[0], rows[i].peers[1], rows[i].peers[2], rows[i].peers[3], rows[i].cpus);
		td_auto(td_json_unref) struct td_json *node = Y(text);
		struct td_op_share s;
		assert_true(td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(node), NULL, &s, NULL));
		if (strcmp(s.numa, rows[i].numa) != 0 || s.parts != rows[i].parts || s.cpus != rows[i].share)
			fail_msg("%zu: %s, %lld, %lld", i, s.numa, s.parts, s.cpus);
	}
}

static void vendor_of(const struct td_json *sc, const struct td_json *node, long long n, struct td_op_vendor *ret)
{
	td_auto(td_json_unref) struct td_json *told = td_op_told_read(td_json_root(node));
	td_op_vendor_of(td_json_root(sc), td_json_root(node), &(struct td_op_found){.n = n, .told = told}, ret);
}

// Pools with devices of two vendors: which a node has, Slurm's types of them, and their files.
static void test_vendors(void **state)
{
#define BOTH "{devices: [{resource: nvidia.com/gpu}, {resource: amd.com/gpu}]}"
#define AMD "{devices: [{resource: amd.com/gpu}]}"
#define TOLD(resource, a, b)                                                                                           \
	TD_ANN_GPUS ": '{\"resource\":\"" resource "\",\"gpus\":[{\"product\":\"Instinct MI300X\",\"file\":\"" a       \
		    "\"},{\"product\":\"Instinct MI300X\",\"file\":\"" b "\"}]}'"
	static const struct {
		const char *spec, *notes, *labels, *has, *resource, *types, *files, *flags;
	} rows[] = {
		{BOTH, "", "", "nvidia.com/gpu", "nvidia.com/gpu", "nvidia:2", "/dev/nvidia[0-1]", NULL},
		{BOTH, "", "nvidia.com/gpu.product: NVIDIA-L40S", "nvidia.com/gpu", "nvidia.com/gpu", "l40s:2",
		 "/dev/nvidia[0-1]", NULL},
		// What the machine tells; without it, as AMD's usually are.
		{BOTH, TOLD("amd.com/gpu", "/dev/dri/renderD129", "/dev/dri/renderD130"), "", "amd.com/gpu",
		 "amd.com/gpu", "mi300x:2", "/dev/dri/renderD[129-130]", "amd_gpu_env"},
		{BOTH, TOLD("amd.com/gpu", "/dev/dri/renderD128", "/dev/dri/renderD136"), "", "amd.com/gpu",
		 "amd.com/gpu", "mi300x:2", "/dev/dri/renderD128,/dev/dri/renderD136", "amd_gpu_env"},
		{BOTH, "", "", "amd.com/gpu", "amd.com/gpu", "amd:2", "/dev/dri/renderD[128-129]", "amd_gpu_env"},
		{BOTH, "", "amd.com/gpu.product-name: AMD_Instinct_MI250X", "amd.com/gpu", "amd.com/gpu", "mi250x:2",
		 "/dev/dri/renderD[128-129]", "amd_gpu_env"},
		// What it told of others says nothing, nor does what is no file of a device.
		{BOTH, TOLD("habana.ai/gaudi", "/dev/accel/accel0", "/dev/accel/accel1"), "", "amd.com/gpu",
		 "amd.com/gpu", "amd:2", "/dev/dri/renderD[128-129]", "amd_gpu_env"},
		{BOTH, TOLD("amd.com/gpu", "/dev/x Flags=", "/dev/y"), "", "amd.com/gpu", "amd.com/gpu", "mi300x:2",
		 "/dev/dri/renderD[128-129]", "amd_gpu_env"},
		// A kubelet that says none for the moment: what it had counts.
		{BOTH, "tandem.dev/slurm-share: '{\"amd.com/gpu\":\"2\"}'", "", "cpu", "amd.com/gpu", "amd:2",
		 "/dev/dri/renderD[128-129]", "amd_gpu_env"},
		// One vendor needs no types. A file that the spec names counts where the machine tells nothing.
		{AMD, "", "", "amd.com/gpu", "amd.com/gpu", "", "/dev/dri/renderD[128-129]", "amd_gpu_env"},
		{"{devices: [{resource: amd.com/gpu, file: /dev/mine}]}", "", "", "amd.com/gpu", "amd.com/gpu", "",
		 "/dev/mine[0-1]", "amd_gpu_env"},
	};
	td_auto(td_json_unref) struct td_json *set = Y("spec: {slurm: {gres: auto}}");
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto_free char *sc_text = td_asprintf("spec: %s", rows[i].spec),
				  *node_text =
					  td_asprintf("metadata: {annotations: {%s}, labels: {%s}}\nstatus: "
						      "{allocatable: {cpu: '10', memory: 8Gi}, capacity: {%s: '2'}}",
						      rows[i].notes, rows[i].labels, rows[i].has);
		td_auto(td_json_unref) struct td_json *sc = Y(sc_text), *node = Y(node_text);
		struct td_op_found found = {.n = 2};
		struct td_op_vendor v;
		struct td_op_share s;
		assert_true(td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(node), &found, &s, NULL));
		vendor_of(sc, node, 2, &v);
		td_auto_free char *files = td_op_device_files(td_json_root(sc), &v, false, 0, 2);
		if (strcmp(s.types, rows[i].types) != 0 || strcmp(files, rows[i].files) != 0 ||
		    strcmp(v.resource, rows[i].resource) != 0 || !td_streq(v.flags, rows[i].flags))
			fail_msg("%zu: %s, %s, %s, %s", i, v.resource, s.types, files, v.flags ? v.flags : "-");
	}
}

// What a machine tells is read once for a look at its node: what was read is not read again.
static void test_told_once(void **state)
{
	(void)state;
	td_auto(td_json_unref) struct td_json
		*sc = Y("spec: {}"),
		*set = Y("spec: {slurm: {gres: auto}}"),
		*node = Y("metadata: {annotations: {tandem.dev/gpus: 'none'}}\n"
			  "status: {allocatable: {cpu: '10', memory: 8Gi, nvidia.com/gpu: '2'}}"),
		*other = Y("metadata: {annotations: {tandem.dev/gpus: "
			   "'{\"gpus\":[{\"product\":\"NVIDIA L40S\"},"
			   "{\"product\":\"NVIDIA L40S\"}]}'}}");
	td_auto(td_json_unref) struct td_json *told = td_op_told_read(td_json_root(other));
	struct td_op_share s;
	const struct td_op_found kept = {.n = 2, .told = told}, none = {.n = 2};
	assert_null(td_op_told_read(td_json_root(node)));
	assert_true(td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(node), &none, &s, NULL));
	assert_string_equal(s.types, "");
	assert_true(td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(node), &kept, &s, NULL));
	assert_string_equal(s.types, "l40s:2");
}

// A node whose second GPU is cut (MIG): types, and the files of each part in a line of its own.
// rows: A7.3
static void test_parts_of_gpus(void **state)
{
#define CAP(n) "/dev/nvidia-caps/nvidia-cap" #n
#define CUT(whole)                                                                                                     \
	"tandem.dev/gpus: '{\"gpus\":[{" whole "\"files\":[\"/dev/nvidia0\"],\"gpu\":0},"                              \
	"{\"mig\":\"1g.10gb\",\"files\":[\"/dev/nvidia1\",\"" CAP(3) "\",\"" CAP(                                      \
		4) "\"],\"gpu\":1},"                                                                                   \
		   "{\"mig\":\"1g.10gb\",\"files\":[\"/dev/nvidia1\",\"" CAP(5) "\",\"" CAP(6) "\"],\"gpu\":1}]}'"
	static const struct {
		const char *notes, *labels, *capacity, *types, *words;
	} rows[] = {
		{CUT("\"product\":\"NVIDIA H100 80GB HBM3\","), "", "nvidia.com/gpu: '1', nvidia.com/mig-1g.10gb: '2'",
		 "h100:1,1g.10gb:2", NULL},
		{CUT(""), "", "nvidia.com/gpu: '1', nvidia.com/mig-1g.10gb: '2'", "nvidia:1,1g.10gb:2", NULL},
		{CUT(""), "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3",
		 "nvidia.com/gpu: '1', nvidia.com/mig-1g.10gb: '2'", "h100:1,1g.10gb:2", NULL},
		// Nobody has told which files they are, or of another number of them.
		{"", "", "nvidia.com/gpu: '1', nvidia.com/mig-1g.10gb: '2'", NULL,
		 "does not name all of its 3 devices"},
		{CUT(""), "", "nvidia.com/gpu: '1', nvidia.com/mig-1g.10gb: '4'", NULL,
		 "does not name all of its 5 devices"},
		// The device plugin calls parts that are all alike as it calls whole GPUs.
		{"", "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/gpu: '7'", NULL,
		 "does not name all of its 7 devices"},
		{"", "", "nvidia.com/gpu: '2', nvidia.com/mig-1g.10gb: '0'", "", NULL},
	};
	td_auto(td_json_unref) struct td_json *sc = Y("spec: {}"), *set = Y("spec: {slurm: {gres: auto}}"),
					      *few = Y("spec: {slurm: {gres: 'gpu:h100:1,gpu:1g.10gb:1'}}");
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto_free char *text =
			td_asprintf("metadata: {annotations: {%s}, labels: {%s}}\nstatus: "
				    "{allocatable: {cpu: '10', memory: 8Gi, %s}, capacity: {%s}}",
				    rows[i].notes, rows[i].labels, rows[i].capacity, rows[i].capacity);
		td_auto(td_json_unref) struct td_json *node = Y(text);
		struct td_op_share s = {0}, less = {0};
		struct td_error err = TD_ERROR_INIT;
		bool good = td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(node), NULL, &s, &err);
		if (rows[i].words) {
			assert_false(good);
			assert_non_null(strstr(err.msg, rows[i].words));
			continue;
		}
		assert_true(good);
		assert_string_equal(s.types, rows[i].types);
		if (!*rows[i].types)
			continue;
		assert_int_equal(s.gpus, 3);
		td_auto_buf struct td_buf gres = {0};
		td_op_gres_write(&s, &gres);
		assert_true(td_ends(td_buf_str(&gres), ":1,gpu:1g.10gb:2"));
		assert_false(td_op_gpus_differ(td_buf_str(&gres), &s));
		struct td_op_vendor v;
		for (long long n = 3; n > 1; n--) { // a NodeSet may give out fewer
			vendor_of(sc, node, n, &v);
			td_auto_free char *whole = td_op_device_files(td_json_root(sc), &v, false, 0, 1),
					  *part = td_op_device_files(td_json_root(sc), &v, false, 1, 1);
			assert_string_equal(whole, "/dev/nvidia0");
			assert_string_equal(part, "/dev/nvidia1," CAP(3) "," CAP(4));
			assert_true(!td_op_device_several(&v, 0) && td_op_device_several(&v, 1) &&
				    td_op_device_several(&v, 2) && !td_op_device_several(&v, 3));
			assert_true(td_op_device_run(&v, 0, 3) == 1 && td_op_device_run(&v, 1, 2) == 1);
			assert_true(td_op_device_run(&v, 3, 1LL << 60) == 1LL << 60); // as many as a node may say
		}
		assert_true(td_op_share_of(td_json_root(sc), td_json_root(few), td_json_root(node), NULL, &less, &err));
		assert_string_equal(less.types, "h100:1,1g.10gb:1");
	}
	// Slurm gives out no node where a stranger's pod has a part.
	td_auto(td_json_unref) struct td_json *pod =
		Y("containers: [{name: a, resources: {limits: {cpu: 500m, nvidia.com/mig-1g.10gb: 2}}}]");
	struct td_pool_reserve others = {.cpu_milli = 10000, .share_cpus = 2, .share_gpus = 3};
	assert_int_equal(td_pool_reserve_lacks(&others), TD_LACK_NOTHING);
	td_op_others_add(td_json_root(pod), "nvidia.com/gpu", &others);
	assert_int_equal(others.others_gpus, 2);
	assert_int_equal(td_pool_reserve_lacks(&others), TD_LACK_DEVICES);
}

// Adapters that are given out: the node's GRES and share, and gres.conf with the cores of the GPUs that each is near to.
// rows: A10.3 D1.1
static void test_nics(void **state)
{
	(void)state;
#define NIC(name, file, more)                                                                                          \
	"{\"name\":\"" name "\",\"link\":\"RoCE\",\"files\":[\"/dev/infiniband/" file "\"]" more "}"
	td_auto(td_json_unref) struct td_json
		*sc = Y("spec: {fabric: {nics: {grant: true}}}"),
		*plain = Y("spec: {}"), *set = Y("metadata: {name: pool}"), *none = Y("spec: {slurm: {gres: none}}"),
		*node = Y("metadata: {name: n1, annotations: {tandem.dev/gpu-numa: '0,0,1,1', tandem.dev/nics: "
			  "'{\"nics\":[" NIC("m0", "uverbs3\",\"/dev/infiniband/umad3", ",\"near\":[1,1,4,4]") "," NIC(
				  "m1", "uverbs1", ",\"numa\":0") "," NIC("m2", "uverbs2",
									  "") "]}'}}\n"
									      "status: {allocatable: {cpu: '9', "
									      "memory: 9Gi, nvidia.com/gpu: '4'}}");
	struct td_op_share s, back;
	struct td_error why = TD_ERROR_INIT;
	if (!td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(node), NULL, &s, &why))
		fail_msg("%s", why.msg);
	assert_int_equal(s.nics, 3);
	td_auto_free char *text = td_op_share_text(&s, "nvidia.com/gpu");
	assert_non_null(strstr(text, "\"tandem.dev/nic\":\"3\""));
	assert_true(td_op_share_parse(text, "nvidia.com/gpu", &back));
	assert_int_equal(back.nics, 3);
	td_auto_buf struct td_buf b = {0};
	td_op_nics_write(&s, &b);
	assert_string_equal(td_buf_str(&b), ",nic:3");
	assert_false(td_op_nics_differ("gpu:4(S:0-1),nic:3(S:0-1)", &s));
	assert_true(td_op_nics_differ("gpu:4", &s));
	assert_true(td_op_nics_differ(NULL, &s));

	__attribute__((cleanup(td_op_kinds_done))) struct td_op_kinds k = {0};
	struct td_op_vendor v = {0};
	td_op_nics_find(td_json_root(sc), td_json_root(node), &s, &v.nics);
	s.gpus = 0;
	td_op_kinds_add(&k, "n1", &(struct td_op_of){&s, &v, true, false});
	td_op_kinds_lines(&k, td_json_root(sc));
	td_auto_free char *conf = td_slurm_gres_conf(&(struct td_slurm_facts){.gres = k.lines, .n_gres = k.n_lines});
	assert_string_equal(conf,
			    "AutoDetect=off\n"
			    "Name=nic MultipleFiles=/dev/infiniband/uverbs3,/dev/infiniband/umad3 Cores=4-7\n"
			    "Name=nic File=/dev/infiniband/uverbs1 Cores=0-3\nName=nic File=/dev/infiniband/uverbs2\n");
	td_op_nics_write(&s, &b);
	assert_string_equal(td_buf_str(&b), ",nic:3nic:3");

	// A NodeSet without GRES, and a cluster that gives none out.
	assert_true(td_op_share_of(td_json_root(sc), td_json_root(none), td_json_root(node), NULL, &s, &why));
	assert_int_equal(s.nics, 0);
	assert_true(td_op_share_of(td_json_root(plain), td_json_root(set), td_json_root(node), NULL, &s, &why));
	assert_int_equal(s.nics, 0);
	assert_false(td_op_nics_differ("gpu:4", &s));
#undef NIC
}

// However many kinds of nodes there are, each has its lines, and all count: twenty layouts of MIG here, and machines
// without GPUs.
// rows: A7.3
static void test_kinds_of_nodes(void **state)
{
	(void)state;
	enum { KINDS = 20 };
	td_auto(td_json_unref) struct td_json *sc = Y("spec: {}");
	__attribute__((cleanup(td_op_kinds_done))) struct td_op_kinds k = {0};
	for (long long i = 0; i < 2 * KINDS; i++) {
		struct td_op_share s = {.cpus = 8, .memory_mb = 1024, .gpus = 1 + i % KINDS};
		struct td_op_vendor v = {0};
		vendor_of(sc, NULL, s.gpus, &v);
		snprintf(s.types, sizeof(s.types), "h100:1%s", i % KINDS ? ",1g.10gb:" : "");
		if (i % KINDS)
			snprintf(s.types + strlen(s.types), sizeof(s.types) - strlen(s.types), "%lld", i % KINDS);
		td_auto_free char *name = td_asprintf("n%lld", i);
		td_op_kinds_add(&k, name, &(struct td_op_of){&s, &v, true, false});
	}
	const struct td_op_share plain = {.cpus = 9};
	const struct td_op_vendor none = {0};
	td_op_kinds_add(&k, "plain", &(struct td_op_of){&plain, &none, false, false});
	td_op_kinds_lines(&k, td_json_root(sc));
	assert_int_equal(k.n, KINDS + 1);
	assert_int_equal(k.gpu_nodes, 2 * KINDS);
	assert_int_equal(k.gpus, KINDS * (KINDS + 1));
	td_auto_free char *conf = td_slurm_gres_conf(&(struct td_slurm_facts){.gres = k.lines, .n_gres = k.n_lines});
	for (int i = 0; i < KINDS; i++) {
		td_auto_free char *line = td_asprintf("NodeName=n[%d,%d] Name=gpu Type=", i, i + KINDS);
		assert_non_null(strstr(conf, line));
	}
	assert_null(strstr(conf, "plain"));

	// Whether it has a node's devices of now, also where their types and number are those of before.
	struct td_op_share s = {.cpus = 8, .memory_mb = 1024, .gpus = 2};
	struct td_op_vendor v = {0};
	vendor_of(sc, NULL, s.gpus, &v);
	snprintf(s.types, sizeof(s.types), "h100:1,1g.10gb:1");
	const struct td_op_of of = {&s, &v, false}, first = {&s, &v, true};
	const yyjson_val *root = td_json_root(sc);
	assert_true(td_op_kinds_written(root, "n1", &first, conf));
	assert_true(td_op_kinds_written(root, "n21", &first, conf));
	assert_false(td_op_kinds_written(root, "n1", &of, conf)); // other files
	assert_false(td_op_kinds_written(root, "n2", &first, conf));
	assert_false(td_op_kinds_written(root, "n1", &first, NULL));
	assert_true(td_op_kinds_written(root, "plain", &(struct td_op_of){&plain, &none, false, false}, conf));
	struct td_op_kinds all = {0};
	td_op_kinds_add(&all, "n1", &of);
	td_op_kinds_lines(&all, root);
	td_auto_free char *one = td_slurm_gres_conf(&(struct td_slurm_facts){.gres = all.lines, .n_gres = all.n_lines});
	td_op_kinds_done(&all);
	assert_true(td_op_kinds_written(root, "n1", &of, one)); // one kind: lines name nobody
	snprintf(v.files, sizeof(v.files),
		 "/dev/nvidia0+/dev/nvidia-caps/nvidia-cap3,/dev/nvidia0+/dev/nvidia-caps/nvidia-cap4");
	assert_false(td_op_kinds_written(root, "n1", &of, one));
}

static void test_numa(void **state)
{
	static const struct {
		long long gpu, run;
		const char *cores;
	} rows[] = {{0, 2, "0-6"}, {1, 1, "0-6"}, {2, 2, "7-13"}, {3, 1, "7-13"}};
	struct td_op_share s = {.cpus = 14, .memory_mb = 1024, .gpus = 4}, back = {0};
	assert_int_equal(td_op_numa_parts(s.numa), 1);
	assert_int_equal(td_op_numa_run(s.numa, 0, 4), 4);
	assert_null(td_op_numa_cores(&s, 0));
	assert_true(td_op_numa_read("0,0,1,1", 4, s.numa, NULL));
	assert_string_equal(s.numa, "0011");
	assert_int_equal(td_op_numa_parts(s.numa), 2);
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto_free char *cores = td_op_numa_cores(&s, rows[i].gpu);
		assert_int_equal(td_op_numa_run(s.numa, rows[i].gpu, 4), rows[i].run);
		assert_string_equal(cores, rows[i].cores);
	}
	assert_int_equal(td_op_numa_run(s.numa, 1, 2), 1); // a type that ends inside
	td_auto_free char *text = td_op_share_text(&s, "a.com/gpu");
	assert_true(td_op_share_parse(text, "a.com/gpu", &back));
	assert_string_equal(back.numa, "0011");
	assert_true(td_op_share_parse("{\"cpu\":\"14\",\"memory\":\"1Gi\",\"a.com/gpu\":\"3\",\"numa\":\"0011\"}",
				      "a.com/gpu", &back));
	assert_string_equal(back.numa, ""); // of other GPUs
	// Four NUMA nodes, and GPUs at the first two only.
	struct td_op_share wide = {.cpus = 16, .memory_mb = 1024, .gpus = 4, .numa = "0011", .parts = 4};
	td_auto_free char *wide_text = td_op_share_text(&wide, "a.com/gpu"), *wide_cores = td_op_numa_cores(&wide, 2);
	assert_true(td_op_share_parse(wide_text, "a.com/gpu", &back));
	assert_int_equal(td_op_share_parts(&back), 4);
	assert_string_equal(wide_cores, "4-7");

	assert_true(td_op_numa_read("1,0,1,0", 4, s.numa, NULL)); // they need not lie together
	assert_string_equal(s.numa, "1010");
	s.cpus = 2;
	td_auto_free char *one = td_op_numa_cores(&s, 0);
	assert_string_equal(one, "1");

	// What a NodeSet leaves of the GPUs decides how many parts the cores have.
	static const struct {
		const char *numa, *gres, *left;
		long long cpus;
	} cuts[] = {{"0,1,2", "auto", "012", 9},
		    {"0,1,2", "gpu:2", "01", 8},
		    {"0,1,2", "gpu:1", "0", 9},
		    {"0,1,2", "none", "", 9},
		    {NULL, "auto", "", 9}};
	td_auto(td_json_unref) struct td_json *sc = Y("spec: {devices: [{resource: a.com/gpu}]}");
	for (size_t i = 0; i < TD_LEN(cuts); i++) {
		td_auto_free char *set_text = td_asprintf("spec: {slurm: {gres: '%s'}}", cuts[i].gres),
				  *note = cuts[i].numa ? td_asprintf(TD_ANN_GPU_NUMA ": '%s'", cuts[i].numa)
						       : td_strdup(""),
				  *node_text = td_asprintf("metadata: {annotations: {%s}}\nstatus: {allocatable: "
							   "{cpu: '10', memory: 8Gi, a.com/gpu: '3'}}",
							   note);
		td_auto(td_json_unref) struct td_json *set = Y(set_text), *node = Y(node_text);
		struct td_op_share cut;
		assert_true(td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(node), NULL, &cut, NULL));
		assert_string_equal(cut.numa, cuts[i].left);
		assert_int_equal(cut.cpus, cuts[i].cpus);
	}

	told();
	linked();
	numa_refused("0,0,1", "is of 3 GPUs, the node has 4");
	numa_refused("0,0,2,2", "no GPU is at 1");
	numa_refused("1,1,1,1", "no GPU is at 0");
	numa_refused("0,0,1,x", "write the number");
	numa_refused("0,0,1,8", "write the number");
	numa_refused("0,0,1,-1", "write the number");
	numa_refused("", "is of 0 GPUs, the node has 4");
}

// Finds a volume by name: where a template adds volumes, the merge decides their order.
static yyjson_val *volume(const yyjson_val *pod, const char *name)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(pod, "spec.volumes"), i, n, x) {
		if (td_streq(td_jstr(x, "name"), name))
			return x;
	}
	return NULL;
}

static void test_slurmd(void **state)
{
	td_auto(td_json_unref) struct td_json *sc = embedded("SlurmCluster"), *set = embedded("NodeSet"),
					      *node = Y(NODE), *pod = NULL, *again = NULL, *other = NULL;
	const struct td_op_share s = {15, 31744, 8}, s2 = {14, 31744, 8};
	struct td_error err = TD_ERROR_INIT;
	if (td_op_slurmd_pod(td_json_root(sc), td_json_root(set), td_json_root(node), &s, NULL, &pod, &err))
		fail_msg("%s", err.msg);
	yyjson_val *p = td_json_root(pod);
	assert_string_equal(td_jstr(p, "metadata.name"), "main-pool-n0");
	assert_string_equal(td_jstr(p, "spec.nodeName"), "n0");
	assert_string_equal(td_jstr(p, "spec.hostname"), "n0");
	assert_string_equal(td_jkey_str(td_jget(p, "metadata.annotations"), "tandem.dev/all-devices"), "true");
	assert_string_equal(td_jkey_str(td_jget(p, "metadata.labels"), TD_LABEL_NODESET), "pool");
	assert_string_equal(td_jstr(p, "spec.containers.[0].env.[3].value"),
			    "CPUs=15 Sockets=1 CoresPerSocket=15 ThreadsPerCore=1 RealMemory=31744 Gres=gpu:8 "
			    "Feature=set.pool,b0,r0");

	td_op_slurmd_pod(td_json_root(sc), td_json_root(set), td_json_root(node), &s, NULL, &again, &err);
	td_op_slurmd_pod(td_json_root(sc), td_json_root(set), td_json_root(node), &s2, NULL, &other, &err);
	const char *rev = td_jkey_str(td_jget(p, "metadata.annotations"), TD_ANN_REVISION);
	assert_string_equal(rev, td_jkey_str(td_jget(td_json_root(again), "metadata.annotations"), TD_ANN_REVISION));
	assert_string_not_equal(rev,
				td_jkey_str(td_jget(td_json_root(other), "metadata.annotations"), TD_ANN_REVISION));

	// For a pod on a kubelet, tandem-standin comes from Tandem's image.
	td_auto(td_json_unref) struct td_json *real = NULL;
	assert_int_equal(
		td_op_slurmd_pod(td_json_root(sc), td_json_root(set), td_json_root(node), &s, "tandem:1", &real, &err),
		0);
	yyjson_val *k = td_json_root(real);
	assert_string_equal(td_jstr(k, "spec.initContainers.[0].image"), "tandem:1");
	assert_string_equal(td_jstr(k, "spec.initContainers.[0].volumeMounts.[0].name"), "tandem-bin");
	assert_non_null(td_jget(volume(k, "tandem-bin"), "emptyDir"));
	assert_string_equal(td_jstr(volume(k, "tandem-run"), "hostPath.type"), "DirectoryOrCreate");
	assert_string_equal(td_jstr(k, "spec.containers.[0].env.[6].name"), "TD_CGROUPS");

	// A new version of Tandem drains no node.
	td_auto(td_json_unref) struct td_json *next = NULL;
	assert_int_equal(
		td_op_slurmd_pod(td_json_root(sc), td_json_root(set), td_json_root(node), &s, "tandem:2", &next, &err),
		0);
	assert_string_equal(td_jstr(td_json_root(next), "spec.initContainers.[0].image"), "tandem:2");
	assert_string_equal(td_jkey_str(td_jget(k, "metadata.annotations"), TD_ANN_REVISION),
			    td_jkey_str(td_jget(td_json_root(next), "metadata.annotations"), TD_ANN_REVISION));
}

#define DRA                                                                                                            \
	"metadata: {name: main, namespace: slurm, uid: u1}\n"                                                          \
	"spec: {devices: [{resource: nvidia.com/gpu, source: DRA, driver: gpu.example.com, deviceClasses: "            \
	"[gpu.example.com], file: "                                                                                    \
	"/dev/fake}]}\n"

// The firewall between users would filter the whole machine.
static void test_firewall_and_the_machines_network(void **state)
{
	td_auto(td_json_unref) struct td_json
		*sc = Y("metadata: {name: main, namespace: slurm}\n"
			"spec: {jobNetwork: {separate: users}}\n"),
		*set = Y("metadata: {name: cpu, namespace: slurm}\n"
			 "spec: {clusterName: main, template: {spec: {hostNetwork: true}}}\n"),
		*node = Y(NODE), *pod = NULL;
	const struct td_op_share s = {15, 31744, 8};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(
		td_op_slurmd_pod(td_json_root(sc), td_json_root(set), td_json_root(node), &s, NULL, &pod, &err),
		TD_INVALID);
	assert_string_equal(err.msg,
			    "spec.template.spec.hostNetwork: spec.jobNetwork.separate of the SlurmCluster would "
			    "filter the whole machine there; remove the one or the other");
}

// The slurmd of a node of another cluster runs anywhere here, and shares nothing with the one that is there.
static void test_other_cluster(void **state)
{
	td_auto(td_json_unref) struct td_json *sc = embedded("SlurmCluster"), *set = embedded("NodeSet"),
					      *node = Y(NODE), *far = NULL, *pod = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(node));
	td_jm_key_str(d, td_jm_obj(d, yyjson_mut_doc_get_root(d), "metadata.annotations"), TD_ANN_OTHER_SET,
		      "slurm/pool");
	far = td_json_from_mut(yyjson_mut_doc_get_root(d));
	const struct td_op_share s = {15, 31744, 8};
	struct td_error err = TD_ERROR_INIT;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *own = td_jm_copy(td_json_root(sc));
	td_jm_str(own, yyjson_mut_doc_get_root(own), "spec.scratch.tmp", "private");
	td_jm_str(own, yyjson_mut_doc_get_root(own), "spec.jobNetwork.separate", "users");
	td_jm_bool(own, yyjson_mut_doc_get_root(own), "spec.containers.enabled", true);
	td_auto(td_json_unref) struct td_json *scratch = td_json_from_mut(yyjson_mut_doc_get_root(own)), *usual = NULL;
	if (td_op_slurmd_pod(td_json_root(scratch), td_json_root(set), td_json_root(far), &s, NULL, &pod, &err) ||
	    td_op_slurmd_pod(td_json_root(scratch), td_json_root(set), td_json_root(node), &s, NULL, &usual, &err))
		fail_msg("%s", err.msg);
	yyjson_val *p = td_json_root(pod), *v;
	size_t i, n;
	assert_null(td_jget(p, "spec.nodeName"));
	assert_null(td_jkey(td_jget(p, "metadata.annotations"), TD_ANN_ALL_DEVICES));
	yyjson_arr_foreach (td_jget(p, "spec.volumes"), i, n, v) {
		assert_null(td_jget(v, "persistentVolumeClaim"));
		assert_true(!td_jget(v, "hostPath") || td_streq(td_jstr(v, "name"), "tandem-bin"));
	}
	struct td_object o = {.root = p};
	assert_string_equal(td_op_pod_node(&o), "n0"); // whatever node it runs on
	// Jobs that run elsewhere have no /tmp here, the host's disk is not this node's to give out, and nobody uses images.
	assert_null(td_jfind(td_jget(p, "spec.volumes"), "name", "scratch"));
	assert_null(td_jfind(td_jget(p, "spec.initContainers"), "name", "firewall"));
	assert_non_null(td_jfind(td_jget(td_json_root(usual), "spec.initContainers"), "name", "firewall"));
	assert_non_null(td_jfind(td_jget(td_json_root(usual), "spec.volumes"), "name", "scratch"));
	assert_non_null(td_jfind(td_jget(td_json_root(usual), "spec.containers.[0].env"), "name", "TD_CONTAINERS"));
	yyjson_arr_foreach (td_jget(p, "spec.containers.[0].env"), i, n, v)
		assert_false(td_streq(td_jstr(v, "name"), "TD_SCRATCH") ||
			     td_streq(td_jstr(v, "name"), "TD_CONTAINERS"));

	// Its GPUs are files that slurmd.sh makes.
	struct td_op_vendor none = {0};
	__attribute__((cleanup(td_op_kinds_done))) struct td_op_kinds k = {0};
	td_op_kinds_add(&k, "east-n0", &(struct td_op_of){&s, &none, true, true});
	td_op_kinds_add(&k, "n0", &(struct td_op_of){&s, &none, true, false});
	td_op_kinds_lines(&k, td_json_root(sc));
	assert_int_equal(k.n_lines, 2);
	assert_string_equal(k.lines[0].file, "/run/slurm/other-cluster/gpu[0-7]");
	assert_string_equal(k.lines[0].nodes, "east-n0");

	// It is chosen there, not here, and somebody must be able to use it.
	static const char bad[] = "metadata: {name: east}\nspec: {otherCluster: {kubeconfigSecret: s}, nodeSelector: "
				  "{a: b}, onDemand: {}}\n";
	td_auto(td_json_unref) struct td_json *wrong = Y(bad);
	td_auto_strv struct td_strv problems = {0};
	td_op_other_check(td_json_root(sc), td_json_root(wrong), &problems);
	assert_int_equal(problems.n, 3);
	assert_true(td_starts(problems.v[0], "spec.nodeSelector: ") && td_starts(problems.v[1], "spec.onDemand: ") &&
		    td_starts(problems.v[2], "spec.otherCluster: nobody could use"));
}

// With DRA, kube-scheduler allocates slurmd's claim, so the pod names its node by affinity.
static void test_dra(void **state)
{
	td_auto(td_json_unref) struct td_json *sc = Y(DRA), *set = embedded("NodeSet"), *node = Y(NODE), *pod = NULL,
					      *none = NULL;
	const struct td_op_share s = {15, 31744, 8}, cpu_only = {15, 31744, 0};
	struct td_op_share found = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_true(td_op_share_of(td_json_root(sc), td_json_root(set), td_json_root(node),
				   &(struct td_op_found){.n = 6}, &found, &err));
	assert_int_equal(found.gpus, 6); // not the node's extended resource
	if (td_op_slurmd_pod(td_json_root(sc), td_json_root(set), td_json_root(node), &s, "tandem:1", &pod, &err))
		fail_msg("%s", err.msg);
	yyjson_val *p = td_json_root(pod);
	td_auto_free char *template = td_op_claim_template(td_json_root(sc));
	assert_null(td_jget(p, "spec.nodeName"));
	assert_string_equal(td_jstr(p, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
				       "nodeSelectorTerms.[0].matchFields.[0].values.[0]"),
			    "n0");
	assert_string_equal(td_jstr(p, "spec.resourceClaims.[0].resourceClaimTemplateName"), template);
	assert_string_equal(td_jstr(p, "spec.containers.[0].resources.claims.[0].name"),
			    td_jstr(p, "spec.resourceClaims.[0].name"));
	struct td_object o = {.root = p};
	assert_string_equal(td_op_pod_node(&o), "n0"); // known before it is scheduled

	// A node without devices gets no claim: a claim for all devices could not be allocated
	// there.
	assert_int_equal(td_op_slurmd_pod(td_json_root(sc), td_json_root(set), td_json_root(node), &cpu_only,
					  "tandem:1", &none, &err),
			 0);
	assert_string_equal(td_jstr(td_json_root(none), "spec.nodeName"), "n0");
	assert_null(td_jget(td_json_root(none), "spec.resourceClaims"));

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *made = td_op_claim_template_object(td_json_root(sc));
	td_auto(td_json_unref) struct td_json *obj = td_json_from_mut(yyjson_mut_doc_get_root(made));
	yyjson_val *x = td_jget(td_json_root(obj), "spec.spec.devices.requests.[0].exactly");
	assert_true(td_jbool(x, "adminAccess", false));
	assert_string_equal(td_jstr(x, "allocationMode"), "All");
	struct td_op_vendor its;
	vendor_of(sc, node, 8, &its);
	td_auto_free char *files = td_op_device_files(td_json_root(sc), &its, false, 0, 8),
			  *one = td_op_device_files(td_json_root(sc), &its, true, 0, 1);
	assert_string_equal(files, "/dev/fake[0-7]");
	assert_string_equal(one, "/dev/fake0");

	td_auto(td_json_unref) struct td_json *bare = Y("spec: {devices: [{resource: nvidia.com/gpu, source: DRA}]}");
	td_auto_strv struct td_strv problems = {0}, fine = {0};
	td_op_devices_check(td_json_root(bare), false, &problems);
	td_op_devices_check(td_json_root(sc), true, &fine);
	assert_int_equal(problems.n, 3);
	assert_int_equal(fine.n, 0);
}

// Checks what is said about spec.devices. words: the beginning of the one problem; "": there is
// none.
static void devices_say(const char *spec, const char *words)
{
	td_auto_free char *text = td_asprintf("spec: %s", spec);
	td_auto(td_json_unref) struct td_json *sc = Y(text);
	td_auto_strv struct td_strv p = {0};
	td_op_devices_check(td_json_root(sc), true, &p);
	if (p.n != (*words ? 1 : 0) || (p.n && !strstr(p.v[0], words)))
		fail_msg("%s: %zu problems, the first: %s", spec, p.n, p.n ? p.v[0] : "none");
}

static void test_devices_check(void **state)
{
	devices_say("{}", "");
	devices_say("{scheduler: {gresMap: {}}}", ""); // no devices for pods
	devices_say("{devices: [{resource: nvidia.com/gpu, shared: true}]}", "");
	devices_say("{devices: [{resource: a.com/gpu, file: /dev/a}], scheduler: {gresMap: {a.com/gpu: gpu}}}", "");
	devices_say("{devices: [{resource: a.com/gpu}], scheduler: {gresMap: {a.com/gpu: gpu}}}",
		    "spec.devices[0].file: ");
	devices_say("{devices: [{resource: nvidia.com/gpu}, {resource: amd.com/gpu}], scheduler: {gresMap: "
		    "{nvidia.com/gpu: gpu, amd.com/gpu: gpu}}}",
		    "");
	devices_say("{devices: [{resource: nvidia.com/gpu}, {resource: amd.com/gpu}], scheduler: {gresMap: "
		    "{nvidia.com/gpu: gpu}}}",
		    "spec.devices[1].resource: amd.com/gpu is not in");
	devices_say(
		"{devices: [{resource: nvidia.com/gpu}, {resource: amd.com/gpu, source: DRA}], scheduler: {gresMap: "
		"{nvidia.com/gpu: gpu, amd.com/gpu: gpu}}}",
		"spec.devices[1].source: ");
	devices_say("{devices: [{resource: a.com/gpu, file: /dev/a}]}",
		    "spec.devices[0].resource: a.com/gpu is not in");
	devices_say("{scheduler: {gresMap: {a.com/gpu: gpu}}}", "spec.devices[0].resource: nvidia.com/gpu is not in");
	devices_say("{scheduler: {gresMap: {nvidia.com/gpu: fpga}}}",
		    "spec.scheduler.gresMap: nvidia.com/gpu is mapped to fpga");
	devices_say("{devices: [{resource: nvidia.com/gpu, deviceClasses: [x]}]}",
		    "spec.devices[0].deviceClasses: only source DRA");
	devices_say("{devices: [{resource: nvidia.com/gpu, driver: x}]}", "spec.devices[0].driver: only source DRA");
	devices_say("{devices: [{resource: nvidia.com/gpu, source: DRA, driver: x, deviceClasses: [x], shared: true}]}",
		    "spec.devices[0].shared: with source DRA");
}

// Checks what is said about spec.scheduler. words: the beginning of the one problem; "": there is
// none.
static void references_say(const char *spec, const char *words)
{
	td_auto_free char *text = td_asprintf("spec: %s", spec);
	td_auto(td_json_unref) struct td_json *sc = Y(text);
	td_auto_strv struct td_strv p = {0};
	td_op_references_check(td_json_root(sc), &p);
	if (p.n != (*words ? 1 : 0) || (p.n && !td_starts(p.v[0], words)))
		fail_msg("%s: %zu problems, the first: %s", spec, p.n, p.n ? p.v[0] : "none");
}

static void test_references(void **state)
{
#define PARTS "partitions: [{name: gpu, allowAccounts: [ml]}, {name: cpu}], users: [{name: ann, uid: 1000}]"
	references_say("{}", "");
	references_say("{scheduler: {defaultPartition: all}}", "");
	references_say("{scheduler: {defaultPartition: gpu}}", "spec.scheduler.defaultPartition: there is no partition "
							       "\"gpu\" (without spec.partitions there is only");
	references_say("{" PARTS ", scheduler: {defaultPartition: gpu, defaultUser: ann}}", "");
	references_say("{" PARTS ", scheduler: {defaultPartition: all}}",
		       "spec.scheduler.defaultPartition: there is no partition \"all\"; add it");
	references_say("{" PARTS ", scheduler: {defaultUser: bob}}",
		       "spec.scheduler.defaultUser: there is no user \"bob\"; add it to spec.users");
	references_say("{" PARTS ", scheduler: {namespaces: [{namespace: a, user: ann}, {namespace: b, user: bob}]}}",
		       "spec.scheduler.namespaces[1].user: ");
	references_say("{" PARTS ", scheduler: {namespaces: [{namespace: a, partition: cpus}]}}",
		       "spec.scheduler.namespaces[0].partition: ");
	references_say("{" PARTS ", scheduler: {namespaces: [{namespace: a, partition: gpu, account: ml}]}}", "");
	references_say("{" PARTS ", scheduler: {namespaces: [{namespace: a, partition: cpu, account: any}]}}", "");
	references_say("{" PARTS ", scheduler: {defaultPartition: gpu, namespaces: [{namespace: a, account: bio}]}}",
		       "spec.scheduler.namespaces[0].account: partition \"gpu\" does not take account \"bio\"");
#undef PARTS
}

// Checks what is said about spec.storage. words: the beginning of the one problem; "": there is
// none.
static void storage_says(const char *spec, const char *words)
{
	td_auto_free char *text = td_asprintf("spec: %s", spec);
	td_auto(td_json_unref) struct td_json *sc = Y(text);
	td_auto_strv struct td_strv p = {0};
	td_op_storage_check(td_json_root(sc), &p);
	if (p.n != (*words ? 1 : 0) || (p.n && !td_starts(p.v[0], words)))
		fail_msg("%s: %zu problems, the first: %s", spec, p.n, p.n ? p.v[0] : "none");
}

static void test_storage(void **state)
{
#define HOME "{name: home, mountPath: /home, claim: home}"
	storage_says("{}", "");
	storage_says("{storage: [" HOME ", {name: s, mountPath: /scratch, hostPath: /mnt, where: compute}]}", "");
	storage_says("{storage: [{name: x, mountPath: /x}]}",
		     "spec.storage[0]: nothing says what is mounted; write one");
	storage_says("{storage: [{name: x, mountPath: /x, claim: a, hostPath: /b}]}",
		     "spec.storage[0]: claim and hostPath are both there");
	storage_says("{storage: [" HOME ", {name: x, mountPath: /etc/slurm, claim: a}]}",
		     "spec.storage[1].mountPath: /etc/slurm lies in or over /etc");
	storage_says("{storage: [{name: x, mountPath: /opt, claim: a}]}",
		     "spec.storage[0].mountPath: /opt lies in or over /opt/tandem");
	storage_says("{storage: [{name: x, mountPath: /optional, claim: a}]}", "");
	storage_says("{storage: [" HOME ", {name: y, mountPath: /home, claim: b, where: login}]}",
		     "spec.storage[1].mountPath: /home is the path of \"home\" too");
	storage_says("{storage: [{name: x, mountPath: /s, claim: a, where: login}, {name: y, mountPath: /s, claim: b, "
		     "where: compute}]}",
		     "");
	storage_says("{storage: [{name: x, mountPath: /x/../etc, claim: a}]}",
		     "spec.storage[0].mountPath: must have no");
	storage_says("{storage: [{name: x, mountPath: /x, claim: a, subPath: ../b}]}", "spec.storage[0].subPath: must");
	storage_says("{storage: [{name: x, mountPath: /x, claim: a, perUser: true, perGroup: true}]}",
		     "spec.storage[0]: perUser and perGroup are both true");
	storage_says("{storage: [{name: x, mountPath: /x, claim: a, perUser: true, readOnly: true}]}",
		     "spec.storage[0].readOnly: ");
	storage_says("{controller: {storage: {claim: a, hostPath: {path: /x, node: n}}}}",
		     "spec.controller.storage: hostPath and claim are both there");
#define V(more, group)                                                                                                 \
	"{scratch: {}, storage: [" HOME ", {name: v, mountPath: " more "}], storageGroups: [{name: g, " group "}]}"
	storage_says(V("/v, claim: v, where: compute", "fileSystems: [v], users: [ann]"), "");
	storage_says(V("/v, claim: v", "storageClasses: [nvme]"), "");
	storage_says(V("/v, claim: v, where: compute", "users: [ann]"),
		     "spec.storageGroups[0]: group \"g\" has neither storageClasses nor fileSystems; write");
	storage_says(V("/v, claim: v, where: compute", "fileSystems: [w]"),
		     "spec.storageGroups[0].fileSystems: spec.storage has no entry \"w\"; add it");
	storage_says(V("/v, claim: v", "fileSystems: [v]"), "");
	storage_says(V("/v, claim: v, where: login", "fileSystems: [v]"),
		     "spec.storage: \"v\" is in storage group \"g\" and for login pods only, and none of spec.login");
	storage_says("{scratch: {}, login: [{name: l, storageGroups: true}], storage: [{name: v, mountPath: /v, claim: "
		     "v, where: login}], storageGroups: [{name: g, fileSystems: [v]}]}",
		     "");
	storage_says(V("/v, claim: v, where: compute, perGroup: true", "fileSystems: [v]"),
		     "spec.storage: \"v\" is in storage group \"g\", where nothing makes directories");
	storage_says(V("/home/v, claim: v, where: compute", "fileSystems: [v]"),
		     "spec.storage: \"v\" is of a storage group, and its mountPath /home/v lies in or over /home of");
	storage_says("{scratch: {}, storage: [{name: v, mountPath: /home/ann/v, claim: v, where: compute}], "
		     "storageGroups: [{name: g, fileSystems: [v]}]}",
		     "spec.storage: \"v\" is of a storage group, and its mountPath /home/ann/v lies in or over /home, "
		     "where");
	storage_says(V("/var/lib/tandem/groups/v, claim: v, where: compute", "fileSystems: [v]"),
		     "spec.storage[1].mountPath: /var/lib/tandem/groups/v lies in or over /var/lib/tandem, which");
	storage_says(
		"{storage: [{name: v, mountPath: /v, claim: v, where: compute}], storageGroups: [{name: g, "
		"fileSystems: [v]}]}",
		"spec.storageGroups: file systems are shown to jobs by what makes their own /tmp; write spec.scratch");
#undef V
#undef HOME

	td_auto(td_json_unref) struct td_json *sc = Y("spec: {storage: [{name: deep, mountPath: /home/data, claim: d, "
						      "readOnly: true}, {name: home, mountPath: /home, "
						      "hostPath: /h, subPath: x}, {name: p, mountPath: /p, claim: c, "
						      "perGroup: true}, {name: s, mountPath: /s, claim: c, "
						      "where: compute, perUser: true}]}");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *spec = yyjson_mut_doc_get_root(d);
	yyjson_mut_arr_append(td_jm_arr(d, spec, "containers"), yyjson_mut_obj(d));
	td_op_storage_mount(d, spec, td_json_root(sc), "login");
	td_auto_free char *text = td_json_mut_text(td_jm_get(spec, "containers.[0].volumeMounts"), NULL),
			  *list = td_op_storage_list(td_json_root(sc));
	// A directory comes before what lies inside of it.
	assert_string_equal(text, "[{\"name\":\"storage-home\",\"mountPath\":\"/home\",\"subPath\":\"x\"},"
				  "{\"name\":\"storage-deep\",\"mountPath\":\"/home/data\",\"readOnly\":true},"
				  "{\"name\":\"storage-p\",\"mountPath\":\"/p\"}]");
	assert_string_equal(list, "home /home\ngroup /p\nuser /s\nhome /home\n");
}

static void identity_says(const char *ldap, const char *words)
{
	td_auto_free char *text = td_asprintf("spec: {identity: {ldap: %s}}", ldap);
	td_auto(td_json_unref) struct td_json *sc = Y(text);
	td_auto_strv struct td_strv p = {0};
	td_op_identity_check(td_json_root(sc), &p);
	if (p.n != (*words ? 1 : 0) || (p.n && !td_starts(p.v[0], words)))
		fail_msg("%s: %zu problems, the first: %s", ldap, p.n, p.n ? p.v[0] : "none");
}

static void test_identity(void **state)
{
	identity_says("{uris: ['ldaps://a', 'ldaps://b:6360'], baseDN: 'dc=x'}", "");
	identity_says("{uris: ['ldap://a'], baseDN: 'dc=x', tls: {startTLS: true}}", "");
	identity_says("{uris: ['ldaps://a', 'ldap://b'], baseDN: 'dc=x'}",
		      "spec.identity.ldap.uris[1]: anybody on the way");
	identity_says("{uris: ['ldaps://a'], baseDN: \"dc=x\\nldap_uri = y\"}",
		      "spec.identity.ldap.baseDN: must be one line");
	identity_says("{uris: ['ldaps://a'], baseDN: 'dc=x', bind: {dn: \"a\\nb\", secret: s}}",
		      "spec.identity.ldap.bind.dn: ");
	identity_says("{uris: ['ldaps://a'], baseDN: 'dc=x', options: {ldap_tls_reqcert: never}}",
		      "spec.identity.ldap.options.ldap_tls_reqcert: Tandem sets this option (whoever");
	identity_says("{uris: ['ldaps://a'], baseDN: 'dc=x', options: {\"a]\\n[sssd\": x}}",
		      "spec.identity.ldap.options.?: must");
	identity_says("{uris: ['ldaps://a'], baseDN: 'dc=x', options: {ldap_x: \"a\\nb\"}}",
		      "spec.identity.ldap.options.ldap_x: must");

	td_auto(td_json_unref) struct td_json
		*sc = Y("metadata: {name: c}\nspec: {identity: {ldap: {uris: ['ldaps://a', 'ldaps://b'], baseDN: "
			"'dc=x', bind: {dn: 'cn=r', "
			"secret: s}, tls: {caConfigMap: ca}, schema: rfc2307bis, options: {ldap_page_size: '9'}}}}"),
		*none = Y("spec: {}");
	td_auto_free char *conf = td_op_identity_conf(td_json_root(sc));
	static const char *const lines[] = {"\nldap_uri = ldaps://a,ldaps://b\n",
					    "\nldap_search_base = dc=x\n",
					    "\nldap_schema = rfc2307bis\n",
					    "\nldap_tls_reqcert = demand\n",
					    "\nldap_tls_cacert = /etc/tandem/ldap-ca/ca.crt\n",
					    "\nldap_page_size = 9\n"};
	for (size_t i = 0; i < TD_LEN(lines); i++)
		if (!strstr(conf, lines[i]))
			fail_msg("missing:%sin\n%s", lines[i], conf);
	// The password is added behind the last line.
	assert_true(td_ends(conf, "\nldap_default_bind_dn = cn=r\n") &&
		    strrchr(conf, '[') == strstr(conf, "[domain/ldap]"));

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *spec = yyjson_mut_doc_get_root(d);
	yyjson_mut_arr_append(td_jm_arr(d, spec, "containers"), yyjson_mut_obj(d));
	td_op_identity_add(d, spec, td_json_root(none), "image");
	assert_null(td_jm_get(spec, "initContainers"));
	td_op_identity_add(d, spec, td_json_root(sc), "image");
	assert_string_equal(td_jm_getstr(spec, "initContainers.[0].restartPolicy"), "Always");
	assert_string_equal(td_jm_getstr(spec, "initContainers.[0].image"), "image");
	// Only SSSD's own container has the password.
	td_auto_free char *mounts = td_json_mut_text(td_jm_get(spec, "containers.[0].volumeMounts"), NULL);
	assert_string_equal(mounts, "[{\"name\":\"sssd-pipes\",\"mountPath\":\"/var/lib/sss/pipes\"}]");
	assert_non_null(td_op_named(spec, "volumes", "ldap-bind"));
}

// An affinity that says nothing would select every node.
static void test_affinity(void **state)
{
#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution: "
#define TERMS(t) "spec: {affinity: {nodeAffinity: {" REQUIRED "{nodeSelectorTerms: " t "}}}}"
	static const struct {
		const char *set;
		bool fine;
	} cases[] = {
		{"spec: {}", true},
		{"spec: {affinity: {}}", true},
		{TERMS("[{matchExpressions: [{key: a, operator: Exists}]}]"), true},
		{TERMS("[{matchFields: [{key: metadata.name, operator: In, values: [n0]}]}]"), true},
		{TERMS("[]"), false},
		{TERMS("[{}]"), false},
		{TERMS("[{matchExpressions: [{key: a, operator: Exists}]}, {matchExpression: [{key: b}]}]"), false},
		{"spec: {affinity: {" REQUIRED "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: "
		 "Exists}]}]}}}",
		 false},
		{"spec: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}}",
		 false},
		{"spec: {affinity: {podAffinity: {}}}", false},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto(td_json_unref) struct td_json *set = Y(cases[i].set);
		const char *problem = td_op_affinity_problem(td_json_root(set));
		if (cases[i].fine != !problem)
			fail_msg("%s: %s", cases[i].set, problem ? problem : "no problem");
	}
#undef TERMS
#undef REQUIRED
}

static void stuck_says(const char *status, const char *want, bool image)
{
	td_auto_free char *text = td_asprintf("metadata: {name: p}\nstatus: %s", status);
	td_auto(td_json_unref) struct td_json *j = Y(text);
	td_auto(td_object_unref) struct td_object *pod = td_object_new(td_json_ref(j));
	bool of_image = !image;
	const char *got = td_op_stuck(pod, &of_image);
	if (!td_streq(got, want) || of_image != image)
		fail_msg("%s: %s", status, got ? got : "nothing");
}

static void test_stuck(void **state)
{
#define WAITS(w) "{containerStatuses: [{state: {waiting: {" w "}}}]}"
	stuck_says("{}", NULL, false);
	stuck_says(WAITS("reason: ContainerCreating"), NULL, false);
	stuck_says(WAITS("reason: ErrImagePull, message: not there"), "not there", true);
	stuck_says(WAITS("reason: InvalidImageName"), "InvalidImageName", true);
	stuck_says(WAITS("reason: CrashLoopBackOff, message: back-off 10s"), "back-off 10s", false);
	stuck_says("{containerStatuses: [{state: {running: {}}}]}", NULL, false);
	stuck_says("{conditions: [{type: PodScheduled, status: 'False', message: no node}]}", "no node", false);
#undef WAITS
}

static void says_still(const char *event, const char *now, const char *want)
{
	td_auto(td_json_unref) struct td_json *j = Y(event);
	int64_t ms = 0;
	assert_int_equal(td_time_parse(now, &ms), 0);
	const char *got = td_op_login_words(td_json_root(j), ms);
	if (!td_streq(got, want))
		fail_msg("%s at %s: %s", event, now, got ? got : "nothing");
}

// What has failed in a login pod is in the kubelet's events about its probe, which come seldom after a while.
static void test_what_a_login_says(void **state)
{
#define EVENT(more, words)                                                                                             \
	"{reason: Unhealthy, involvedObject: {kind: Pod}, lastTimestamp: '2026-11-28T10:00:00Z', " more                \
	" message: '" words "'}"
#define FAILS "Liveness probe failed: tandem: service a: exit 3"
	says_still(EVENT("", FAILS), "2026-11-28T10:00:20Z", "service a: exit 3");
	says_still(EVENT("", FAILS), "2026-11-28T10:00:31Z", NULL);
	says_still(EVENT("count: 25,", "(combined from similar events): " FAILS), "2026-11-28T10:05:30Z",
		   "service a: exit 3");
	says_still(EVENT("count: 25,", FAILS), "2026-11-28T10:07:00Z", NULL);
	says_still(EVENT("", "Liveness probe failed: command timed out"), "2026-11-28T10:00:20Z", NULL);
	says_still(EVENT("", "Startup probe failed: tandem: x"), "2026-11-28T10:00:20Z", NULL);
	says_still(
		"{reason: Killing, involvedObject: {kind: Pod}, lastTimestamp: '2026-11-28T10:00:00Z', message: '" FAILS
		"'}",
		"2026-11-28T10:00:20Z", NULL);
	says_still("{reason: Unhealthy, involvedObject: {kind: Pod}, message: '" FAILS "'}", "2026-11-28T10:00:20Z",
		   NULL);
#undef FAILS
#undef EVENT
}

// Appends what a change replaces: the pods whose template it changes.
static void replaced(const struct td_op_wants *a, const struct td_op_wants *b, struct td_buf *out)
{
	static const struct {
		const struct td_gvr *gvr;
		const char *name;
	} parts[] = {{&td_statefulsets, "slurmdbd"},
		     {&td_statefulsets, "slurmctld"},
		     {&td_deployments, "slurmrestd"},
		     {&td_statefulsets, "login"}};
	for (size_t i = 0; i < TD_LEN(parts); i++) {
		td_auto_free char *name = td_asprintf("main-%s", parts[i].name);
		if (!td_jequal(td_jget(among(a, parts[i].gvr, name), "spec.template"),
			       td_jget(among(b, parts[i].gvr, name), "spec.template")))
			td_buf_printf(out, "%s%s", out->len ? ", " : "", parts[i].name);
	}
}

static struct td_json *patched(const struct td_json *o, const char *over)
{
	td_auto_free char *text = td_asprintf("spec: %s", over);
	td_auto(td_json_unref) struct td_json *p = Y(text), *ret = NULL;
	assert_int_equal(td_json_merge_patch(td_json_root(o), td_json_root(p), &ret, NULL), 0);
	return td_steal(ret);
}

// The table "What a change costs" of docs/api.md, held against the objects that a change makes.
static void test_costs(void **state)
{
	static const struct {
		const char *field, *over; // JSON merge patch of the spec
		bool set;                 // of the NodeSet; else of the SlurmCluster
		const char *cost;
	} rows[] = {
		{"spec.users", "{users: [{name: pods, uid: 2000}, {name: ann, uid: 3000}]}", false, "nothing"},
		{"spec.scheduler", "{scheduler: {defaultUser: researcher, endGrace: 1m}}", false, "nothing"},
		{"spec.slurm.version", "{slurm: {version: '24.05'}}", false, "nothing"},
		{"spec.partitions", "{partitions: [{name: all, maxTime: '60'}]}", false, "nothing"},
		{"spec.config", "{config: {slurmConf: {KillWait: '20'}}}", false, "nothing"},
		{"spec.scripts", "{scripts: {epilog: {configMap: ours, key: e}}}", false, "nothing"},
		{"spec.services", "{services: [{name: a, command: [id]}]}", false, "nothing"},
		{"spec.controller", "{controller: {resources: {requests: {cpu: '1'}}}}", false, "slurmctld"},
		{"spec.restApi", "{restApi: {resources: {requests: {cpu: '1'}}}}", false, "slurmrestd"},
		{"spec.login", "{login: [{name: login, resources: {requests: {cpu: '1'}}}]}", false, "login"},
		{"spec.accounting.enabled", "{accounting: {enabled: false}}", false, "slurmdbd, slurmctld, slurmrestd"},
		{"spec.accounting.database",
		 "{accounting: {database: {embedded: {storage: {hostPath: {path: /other}}}}}}", false,
		 "slurmdbd, slurmctld"},
		{"spec.accounting.slurmdbdConf", "{accounting: {slurmdbdConf: {PurgeJobAfter: 12months}}}", false,
		 "slurmdbd"},
		{"spec.slurm.image", "{slurm: {image: other}}", false,
		 "slurmdbd, slurmctld, slurmrestd, login, slurmd"},
		{"spec.slurm.features", "{slurm: {features: [big]}}", true, "slurmd"},
		{"spec.slurm.weight", "{slurm: {weight: 7}}", true, "slurmd"},
		{"spec.slurm.extraConf", "{slurm: {extraConf: {TmpDisk: '1'}}}", true, "slurmd"},
		{"spec.template", "{template: {spec: {priorityClassName: high}}}", true, "slurmd"},
		{"spec.replicas", "{replicas: 1}", true, "nothing"},
		{"spec.updateStrategy", "{updateStrategy: {maxUnavailable: 2}}", true, "nothing"},
	};
	const struct td_op_share share = {15, 31744, 8};
	td_auto_free char *path = td_asprintf("%s/docs/api.md", getenv("TD_SOURCE_ROOT"));
	td_auto_buf struct td_buf doc = {0};
	assert_int_equal(td_file_read(path, 1 << 20, &doc, NULL), 0);
	td_auto(td_json_unref) struct td_json *sc = embedded("SlurmCluster"), *set = embedded("NodeSet"),
					      *node = Y(NODE);
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto(td_json_unref) struct td_json *other = patched(rows[i].set ? set : sc, rows[i].over),
						      *pod = NULL, *pod_then = NULL;
		const struct td_json *sc_then = rows[i].set ? sc : other, *set_then = rows[i].set ? other : set;
		td_auto_slurm_files struct td_slurm_files f0 = {0}, f1 = {0};
		td_auto_wants struct td_op_wants w0 = {0}, w1 = {0};
		td_auto_buf struct td_buf cost = {0};
		objects_of(sc, &f0, &w0);
		objects_of(sc_then, &f1, &w1);
		replaced(&w0, &w1, &cost);
		assert_int_equal(td_op_slurmd_pod(td_json_root(sc), td_json_root(set), td_json_root(node), &share, NULL,
						  &pod, NULL),
				 0);
		assert_int_equal(td_op_slurmd_pod(td_json_root(sc_then), td_json_root(set_then), td_json_root(node),
						  &share, NULL, &pod_then, NULL),
				 0);
		if (!td_jequal(td_json_root(pod), td_json_root(pod_then)))
			td_buf_printf(&cost, "%sslurmd", cost.len ? ", " : "");
		if (strcmp(cost.len ? td_buf_str(&cost) : "nothing", rows[i].cost) != 0)
			fail_msg("%s: %s", rows[i].field, td_buf_str(&cost));
		td_auto_free char *row = td_asprintf("| %s `%s` | %s |", rows[i].set ? "NodeSet" : "SlurmCluster",
						     rows[i].field, rows[i].cost);
		if (!strstr(td_buf_str(&doc), row))
			fail_msg("docs/api.md has no row \"%s\"", row);
	}
}

// Each daemon's own requests and limits come out at its own container, and at no other one.
static void test_resources_of_each(void **state)
{
	static const char over[] = "{controller: {resources: {requests: {cpu: '1'}, limits: {memory: 1Gi}}},"
				   " restApi: {resources: {requests: {cpu: '2'}, limits: {memory: 2Gi}}},"
				   " accounting: {resources: {requests: {cpu: '3'}, limits: {memory: 3Gi}}},"
				   " login: [{name: login, resources: {requests: {cpu: '4'}, limits: {memory: 4Gi}}}]}",
			  set_over[] =
				  "{template: {spec: {containers: [{name: slurmd, resources: {requests: {cpu: '5'},"
				  " limits: {memory: 5Gi}}}]}}}";
	static const struct {
		const struct td_gvr *gvr;
		const char *name, *container, *cpu, *memory;
	} rows[] = {
		{&td_statefulsets, "main-slurmctld", "slurmctld", "1", "1Gi"},
		{&td_deployments, "main-slurmrestd", "slurmrestd", "2", "2Gi"},
		{&td_statefulsets, "main-slurmdbd", "slurmdbd", "3", "3Gi"},
		{&td_statefulsets, "main-login", "login", "4", "4Gi"},
		{&td_pods, NULL, "slurmd", "5", "5Gi"},
	};
	td_auto(td_json_unref) struct td_json *plain = embedded("SlurmCluster"), *sc = patched(plain, over),
					      *plain_set = embedded("NodeSet"), *set = patched(plain_set, set_over),
					      *node = Y(NODE), *pod = NULL;
	td_auto_slurm_files struct td_slurm_files f = {0};
	td_auto_wants struct td_op_wants w = {0};
	const struct td_op_share share = {15, 31744, 8};
	objects_of(sc, &f, &w);
	assert_int_equal(
		td_op_slurmd_pod(td_json_root(sc), td_json_root(set), td_json_root(node), &share, NULL, &pod, NULL), 0);
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		yyjson_val *spec = rows[i].name ? td_jget(wanted(&w, rows[i].gvr, rows[i].name), "spec.template.spec")
						: td_jget(td_json_root(pod), "spec"),
			   *c;
		size_t k, n, seen = 0;
		yyjson_arr_foreach (td_jget(spec, "containers"), k, n, c) {
			bool its = td_streq(td_jstr(c, "name"), rows[i].container);
			bool has = td_streq(td_jstr(c, "resources.requests.cpu"), rows[i].cpu) &&
				   td_streq(td_jstr(c, "resources.limits.memory"), rows[i].memory);
			assert_int_equal(its, has);
			seen += its;
		}
		assert_int_equal(seen, 1);
	}
}

// Which devices a node keeps while its kubelet offers none.
static void test_offered(void **state)
{
	static const struct {
		const char *share, *there, *image;
		long long want;
	} cases[] = {
		// The plugin is being replaced.
		{"{\"cpu\":\"1\",\"memory\":\"1Gi\",\"a.com/gpu\":\"8\"}", "'0'", "x", 8},
		{"{\"cpu\":\"1\",\"memory\":\"1Gi\",\"a.com/gpu\":\"8\"}", "'6'", "x", 6},
		// Embedded: our own agent says it.
		{"{\"cpu\":\"1\",\"memory\":\"1Gi\",\"a.com/gpu\":\"8\"}", "'0'", NULL, -1},
		// The share is of another resource.
		{"{\"cpu\":\"1\",\"memory\":\"1Gi\",\"b.com/gpu\":\"8\"}", "'0'", "x", 0},
		{"", "'0'", "x", 0},
		{"", "'8'", "x", 8},
	};
	td_auto(td_json_unref) struct td_json *sc = Y("spec: {devices: [{resource: a.com/gpu, file: /dev/a}], "
						      "scheduler: {gresMap: {a.com/gpu: gpu}}}"),
					      *slip = Y(
						      "metadata: {name: main}\nspec: {devices: [{resource: a.com/gqu, "
						      "file: /dev/a}], scheduler: {gresMap: {a.com/gpu: gpu}}}");

	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto_free char *text =
			td_asprintf("metadata: {name: n0, annotations: {tandem.dev/slurm-share: '%s'}}\n"
				    "status: {capacity: {a.com/gpu: %s}, allocatable: {a.com/gpu: '0'}}\n",
				    cases[i].share, cases[i].there);
		td_auto(td_json_unref) struct td_json *j = Y(text);
		td_auto(td_object_unref) struct td_object *node = td_object_new(td_json_ref(j));
		struct td_op op = {.image = cases[i].image};
		struct td_op_found got = {0};
		assert_true(td_op_gpus(&op, td_json_root(sc), node, &got, NULL));
		if (got.n != cases[i].want)
			fail_msg("case %zu: %lld", i, got.n);
		struct td_error why = TD_ERROR_INIT;
		// With a wrong name the node goes on as it is.
		assert_false(td_op_gpus(&op, td_json_root(slip), node, &got, &why));
		assert_non_null(strstr(why.msg, "SlurmCluster main: spec.devices[0].resource: a.com/gqu"));
	}
}

static void test_nodeset_check(void **state)
{
	static const char *const bad[][2] = {
		{"{features: ['a b']}", "spec.slurm.features[0]"},
		{"{features: ['a,b Gres=gpu:9']}", "spec.slurm.features[0]"},
		{"{features: [set.other]}", "spec.slurm.features[0]"},
		{"{extraConf: {CPUs: '99'}}", "spec.slurm.extraConf.CPUs"},
		{"{extraConf: {TmpDisk: '1 CPUs=99'}}", "spec.slurm.extraConf.TmpDisk"},
		{"{extraConf: {TmpDisk: \"1\\nCPUs=99\"}}", "spec.slurm.extraConf.TmpDisk"},
		{"{extraConf: {'TmpDisk=1 CPUs': '99'}}", "spec.slurm.extraConf"},
	};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto_free char *text = td_asprintf("metadata: {name: pool}\nspec: {slurm: %s}\n", bad[i][0]);
		td_auto(td_json_unref) struct td_json *o = Y(text);
		td_auto_strv struct td_strv p = {0};
		td_op_nodeset_check(td_json_root(o), &p);
		if (p.n == 0 || !td_starts(p.v[0], bad[i][1]))
			fail_msg("%s: %s", bad[i][0], p.n ? p.v[0] : "accepted");
	}

	td_auto(td_json_unref) struct td_json *o = embedded("NodeSet");
	td_auto_strv struct td_strv p = {0};
	td_op_nodeset_check(td_json_root(o), &p);
	assert_int_equal(p.n, 0);
}

// spec.gpuCutting: what is wrong with it, and what its nodes say of it.
// rows: D2.5
static void test_cutting(void **state)
{
	static const struct {
		const char *spec, *problem, *says;
	} cases[] = {
		{"{}", NULL, NULL},
		{"{gpuCutting: {}}", NULL,
		 "{\"set\":\"ml/pool\",\"keepWhole\":1,\"idleSeconds\":600,\"pauseSeconds\":300}"},
		{"{gpuCutting: {keepWhole: 0, idleTime: 1h, pause: 0s, parts: [1g.10gb]}, slurm: {gres: auto}}", NULL,
		 "{\"set\":\"ml/"
		 "pool\",\"keepWhole\":0,\"idleSeconds\":3600,\"pauseSeconds\":0,\"parts\":[\"1g.10gb\"]}"},
		{"{gpuCutting: {}, slurm: {gres: 'gpu:8'}}",
		 "spec.gpuCutting: spec.slurm.gres is \"gpu:8\", so Slurm would not see the parts: set that to auto, "
		 "or "
		 "leave gpuCutting out",
		 NULL},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto_free char *text =
			td_asprintf("metadata: {name: pool, namespace: ml}\nspec: %s\n", cases[i].spec);
		td_auto(td_json_unref) struct td_json *o = Y(text);
		td_auto_strv struct td_strv p = {0};
		td_op_cutting_check(td_json_root(o), &p);
		td_auto_free char *says = td_op_cutting_text(td_json_root(o));
		if (p.n != (cases[i].problem != NULL) || (p.n && strcmp(p.v[0], cases[i].problem) != 0) ||
		    (!p.n && !td_streq(says, cases[i].says)))
			fail_msg("case %zu: %s; %s", i, p.n ? p.v[0] : "no problem", says ? says : "nothing");
	}
}

// Whoever carries on after a crash finds what he made, and does not refuse the wish because of it.
static void test_a_wish_that_was_taken(void **state)
{
	td_auto_objects struct td_objects acts = {0};
	assert_false(td_op_cutting_made(&acts, "n0-cut-gpu-1"));
	td_auto(td_json_unref) struct td_json *j = Y("metadata: {name: n0-cut-gpu-1}");
	td_objects_add(&acts, td_object_new(td_json_ref(j)));
	assert_true(td_op_cutting_made(&acts, "n0-cut-gpu-1"));
	assert_false(td_op_cutting_made(&acts, "n0-cut-gpu-2"));
}

static void test_covers(void **state)
{
	static const struct {
		const char *live, *want;
		bool same;
	} t[] = {
		{"{a: 1, b: 2}", "{a: 1}", true},   {"{a: 1}", "{a: 2}", false},
		{"{a: 1}", "{b: 1}", false},        {"{l: [{x: 1, y: 2}]}", "{l: [{x: 1}]}", true},
		{"{l: [1, 2]}", "{l: [1]}", false}, {"{m: 1Gi}", "{m: 1024Mi}", true},
		{"{m: 500m}", "{m: '0.5'}", true},  {"{m: abc}", "{m: abd}", false},
		{"{e: {}}", "{e: {}}", true},       {"{}", "{e: {}}", true},
		{"{c: [a]}", "{c: [a, b]}", false}, {"{s: null}", "{s: x}", false},
	};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto(td_json_unref) struct td_json *l = Y(t[i].live), *w = Y(t[i].want);
		if (td_op_covers(td_json_root(l), td_json_root(w)) != t[i].same)
			fail_msg("%s against %s", t[i].live, t[i].want);
	}
}

// ---- decisions: t/scenarios/nodeset.txt has the others ----
static void test_missing(void **state)
{
	struct td_op_missing m = {0};
	assert_int_equal(td_op_missing_look(&m, "n0", "a", TD_SIGHT_PRESENT, 0), -1);
	// It has just started.
	assert_int_equal(td_op_missing_look(&m, "n0", "a", TD_SIGHT_ABSENT, 1000), -1);
	assert_int_equal(td_op_missing_look(&m, "n0", "a", TD_SIGHT_ABSENT, 2000), 14000);
	assert_int_equal(td_op_missing_look(&m, "n1", "x", TD_SIGHT_ABSENT, 9000), -1);
	assert_int_equal(td_op_missing_look(&m, "n0", "a", TD_SIGHT_ABSENT, 15000), 1000);
	assert_int_equal(td_op_missing_look(&m, "n0", "a", TD_SIGHT_ABSENT, 16000), 0);
	// The pod could not be deleted, so that is still due.
	assert_int_equal(td_op_missing_look(&m, "n0", "a", TD_SIGHT_ABSENT, 16500), 0);

	// A restart in vain doubles the wait.
	td_op_missing_restarted(&m, "n0");
	assert_int_equal(td_op_missing_look(&m, "n0", "b", TD_SIGHT_ABSENT, 17000), -1);
	assert_int_equal(td_op_missing_look(&m, "n0", "b", TD_SIGHT_ABSENT, 18000), 29000);

	// An unknown answer is no sign of absence: the time starts again, and the tries are kept.
	assert_int_equal(td_op_missing_look(&m, "n0", "b", TD_SIGHT_UNSEEN, 46000), -1);
	assert_int_equal(td_op_missing_look(&m, "n0", "b", TD_SIGHT_ABSENT, 47000), -1);
	assert_int_equal(td_op_missing_look(&m, "n0", "b", TD_SIGHT_ABSENT, 48000), 29000);
	for (int i = 0; i < 9; i++)
		td_op_missing_restarted(&m, "n0");
	assert_int_equal(td_op_missing_look(&m, "n0", "c", TD_SIGHT_ABSENT, 50000), -1);
	assert_int_equal(td_op_missing_look(&m, "n0", "c", TD_SIGHT_ABSENT, 51000), 479000);

	// When it came, everything starts again.
	assert_int_equal(td_op_missing_look(&m, "n0", "c", TD_SIGHT_PRESENT, 60000), -1);
	assert_int_equal(td_op_missing_look(&m, "n0", "c", TD_SIGHT_ABSENT, 61000), -1);
	assert_int_equal(td_op_missing_look(&m, "n0", "c", TD_SIGHT_ABSENT, 63000), 13000);

	// Each node and each pod has a time of its own.
	assert_int_equal(td_op_missing_look(&m, "n1", "x", TD_SIGHT_ABSENT, 24000), 0);
	assert_int_equal(td_op_missing_look(&m, "n1", "y", TD_SIGHT_ABSENT, 25000), -1);
	assert_int_equal(m.n, 2);

	// Nodes that left are dropped after a while.
	td_op_missing_look(&m, "n2", NULL, TD_SIGHT_UNSEEN, 4000000);
	assert_int_equal(m.n, 0);
	td_op_missing_look(&m, "n2", "z", TD_SIGHT_ABSENT, 4000000);
	td_op_missing_done(&m);
}

static void test_names(void **state)
{
	assert_true(td_op_name_cmp("n2", "n10") < 0 && td_op_name_cmp("n10", "n9") > 0 &&
		    td_op_name_cmp("a", "a") == 0);
	assert_true(td_op_name_cmp("n02", "n2") == 0 && td_op_name_cmp("a", "ab") < 0 &&
		    td_op_name_cmp("a1b", "a1c") < 0);
}

// Slurm runs nothing on a node that its topology does not name: a machine that is none of Kubernetes' is in it, too.
static void test_places_of_hosts(void **state)
{
	static const char *const specs[] = {"spec: {topology: {type: auto}}",
					    "spec: {topology: {type: auto, fabric: {configMap: f, key: k}}}"};
	const struct td_slurm_text text = {
		.map = "f", .key = "k", .text = "Switch 40 \"S-0a\" # \"leaf-1\"\n[1] \"H-0b\"[1] # \"h0 mlx5_0\"\n"};
	static const char *const wants[] = {NULL, "leaf-1"};
	for (size_t i = 0; i < TD_LEN(specs); i++) {
		td_auto(td_json_unref) struct td_json *sc = Y(specs[i]);
		struct td_op_places p = {0};
		td_auto_strv struct td_strv problems = {0};
		td_op_places_add(&p, td_json_root(sc), "h0", NULL);
		td_op_places_find(&p, td_json_root(sc), &(struct td_slurm_facts){.texts = &text, .n_texts = 1},
				  &problems);
		assert_int_equal(problems.n, 0);
		assert_int_equal(p.n, 1);
		assert_string_equal(p.v[0].node, "h0");
		if (!td_streq(p.v[0].at[0], wants[i]))
			fail_msg("%s: %s", specs[i], p.v[0].at[0] ? p.v[0].at[0] : "none");
		td_op_places_done(&p);
	}
}

// A filter of native jobs goes by their account.
static void test_whether_users_are_kept_to_their_accounts(void **state)
{
	(void)state;
	static const struct {
		const char *spec;
		bool kept;
	} rows[] = {
		{"{accounting: {enabled: true}}", false},
		{"{accounting: {enabled: true, enforce: none}}", false},
		{"{accounting: {enabled: true, enforce: limits}}", true},
		{"{accounting: {enforce: limits}}", false},
		{"{accounting: {enabled: true}, config: {slurmConf: {AccountingStorageEnforce: associations}}}", true},
		{"{accounting: {enabled: true}, config: {slurmConf: {AccountingStorageEnforce: nojobs}}}", false},
	};
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto_free char *text = td_asprintf("spec: %s", rows[i].spec);
		td_auto(td_json_unref) struct td_json *sc = Y(text);
		if (td_op_tenant_filter_kept(td_json_root(sc)) != rows[i].kept)
			fail_msg("%s", rows[i].spec);
	}
}

// As whom a Tenant's pods run.
// rows: A13.3 A13.4
static void test_people_of_a_tenant(void **state)
{
	static const struct {
		const char *storage, *people, *fault, *faceless;
	} rows[] = {
		{"", NULL, NULL, NULL},
		{"storage: {mode: posix}, ", "posix\n3000:3000:5000:ann:/home/ann:ann\n3001:100::bob:/srv/bob:oidc:bob",
		 NULL, "lea, sys"},
		// The first group is the Tenant's, whoever he is; his own stay.
		{"storage: {mode: project, group: physics}, ",
		 "project\n3000:5000:3000:ann:/home/ann:ann\n3001:5000:100:bob:/srv/bob:oidc:bob", NULL, "lea, sys"},
		{"storage: {mode: project}, ", "project", "spec.groups of the SlurmCluster has no group \"optics\"",
		 NULL},
		{"storage: {mode: project, group: sudo}, ", "project", "no group \"sudo\"", NULL},
	};
	td_auto(td_json_unref) struct td_json *sc = Y(
		"spec: {groups: [{name: physics, gid: 5000}], users: [{name: ann, uid: 3000, groups: [physics, sudo]}, "
		"{name: bob, uid: 3001, gid: 100, home: /srv/bob}, {name: eve, uid: 3002}, {name: sys, uid: 64030}], "
		"storage: [{name: home, mountPath: /home, claim: home, subPath: h}, {name: in, mountPath: /in, "
		"hostPath: "
		"/mnt, where: login}, {name: all, mountPath: /all, hostPath: /mnt, subPath: a/b, readOnly: true}]}");
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto_free char *text = td_asprintf(
			"metadata: {name: optics}\nspec: {%smembers: [{user: ann, role: admin}, {user: bob, "
			"kubernetesUser: 'oidc:bob'}, {user: eve, role: viewer}, {user: lea}, {user: sys}]}",
			rows[i].storage);
		td_auto(td_arena_free) struct td_arena *a = td_arena_new();
		td_auto(td_object_unref) struct td_object *o = td_object_new(Y(text)),
							  *cluster = td_object_new(td_json_ref(sc));
		struct td_op_tenant t = {.o = o};
		struct td_pool_tenant tenant = {.name = "optics"};
		struct td_op_tenant_pass p = {.sc = cluster, .v = &t, .p = &tenant, .n = 1, .arena = a};
		td_op_tenant_people(&p, 0);
		if (!td_streq(t.people, rows[i].people) || !td_streq(t.faceless, rows[i].faceless) ||
		    !t.storage_fault != !rows[i].fault)
			fail_msg("%zu: %s, %s, %s", i, t.people, t.faceless, t.storage_fault);
		if (rows[i].fault)
			assert_non_null(strstr(t.storage_fault, rows[i].fault));
		assert_string_equal(td_op_tenant_storage(&p, 0),
				    "rw:claim:home:home:/home:h\nro:host:all:/mnt/a/b:/all:");
		// While there is no cluster nobody knows; what the namespaces say is left.
		p.sc = NULL;
		t = (struct td_op_tenant){.o = o};
		td_op_tenant_people(&p, 0);
		assert_true(!t.people && !t.mode == !rows[i].people);
	}
}

// Who has a file system of a storage group, and which pods. rows: C8.1
static void test_file_systems_of_groups(void **state)
{
	(void)state;
	td_auto(td_json_unref) struct td_json *sc = Y(
		"spec: {storage: [{name: home, mountPath: /home, claim: h}, {name: v, mountPath: /v, claim: c, where: "
		"compute}, {name: w, mountPath: /w, claim: c}], storageGroups: [{name: g, fileSystems: "
		"[v], users: [eve]}, {name: h, fileSystems: [v, w]}, {name: s, storageClasses: [nvme]}]}");
	static const char *const specs[] = {
		"metadata: {name: a}\nspec: {storageGroups: [g], members: [{user: ann}, {user: bob, role: viewer}]}",
		"metadata: {name: b}\nspec: {parent: a, members: [{user: lea}, {user: ann}]}",
		"metadata: {name: c}\nspec: {storageGroups: [s], members: [{user: sam}]}",
	};
	td_auto(td_arena_free) struct td_arena *a = td_arena_new();
	td_auto(td_object_unref) struct td_object *cluster = td_object_new(td_json_ref(sc));
	struct td_op_tenant t[TD_LEN(specs)] = {0};
	struct td_pool_tenant pt[TD_LEN(specs)] = {0};
	for (size_t i = 0; i < TD_LEN(specs); i++) {
		t[i].o = td_object_new(Y(specs[i]));
		pt[i].name = t[i].o->name;
		pt[i].parent = td_jstr(t[i].o->root, "spec.parent");
	}
	struct td_op_tenant_pass p = {.sc = cluster, .v = t, .p = pt, .n = TD_LEN(specs), .arena = a};
	size_t left = 1;
	td_auto_free char *people = td_op_storage_people(&p, &left);
	assert_string_equal(people, "file v /v\nfile w /w\npeople v ann eve lea\n");
	assert_int_equal(left, 0);
	assert_string_equal(td_op_tenant_storage(&p, 1), "rw:claim:home:h:/home:\nrw:claim:v:c:/v:");
	assert_string_equal(td_op_tenant_storage(&p, 2), "rw:claim:home:h:/home:");
	static const struct {
		const char *where, *paths;
	} rows[] = {{"login", "/home "}, // nobody has asked for it there
		    {"logins", "/home /var/lib/tandem/groups/w "},
		    {"compute", "/home "},
		    {"slurmd", "/home /var/lib/tandem/groups/v /var/lib/tandem/groups/w "}};
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *m;
		yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, "containers"));
		td_op_storage_mount(d, root, td_json_root(sc), rows[i].where);
		td_auto_buf struct td_buf b = {0};
		size_t k, n;
		yyjson_mut_arr_foreach (td_jm_get(root, "containers.[0].volumeMounts"), k, n, m)
			td_buf_printf(&b, "%s ", td_jm_getstr(m, "mountPath"));
		assert_string_equal(td_buf_str(&b), rows[i].paths);
		// A login pod that has one has what shows it; one without has no such rights.
		td_op_storage_logins(d, root, td_json_root(sc), true);
		assert_string_equal(td_jm_getstr(root, "containers.[0].securityContext.capabilities.add.[0]"),
				    "SYS_ADMIN");
		assert_non_null(td_op_named(root, "volumes", "filters"));
	}
	td_auto(td_json_unref) struct td_json *none = Y("spec: {storage: [{name: v, mountPath: /v, claim: c, where: "
							"compute}, {name: w, mountPath: /w, claim: c}], "
							"storageGroups: [{name: g, fileSystems: [v]}]}");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *bare = td_jm_new();
	yyjson_mut_arr_add_obj(bare, td_jm_arr(bare, yyjson_mut_doc_get_root(bare), "containers"));
	td_op_storage_logins(bare, yyjson_mut_doc_get_root(bare), td_json_root(none), true);
	assert_null(td_jm_get(yyjson_mut_doc_get_root(bare), "containers.[0].securityContext"));
	td_auto(td_json_unref) struct td_json *two =
		Y("spec: {storageGroups: [{name: t, storageClasses: [nvme, tape], users: "
		  "[bob]}, {name: u, storageClasses: [nvme], users: [ann, bob]}, {name: w, "
		  "storageClasses: [slow]}]}");
	td_auto_objects struct td_objects both = {0};
	td_objects_add(&both, td_object_ref(cluster));
	td_objects_add(&both, td_object_new(td_json_ref(two)));
	static const struct {
		const char *class, *users;
	} who[] = {{"nvme", "bob ann"}, {"tape", "bob"}, {"slow", ""}, {"disk", NULL}};
	for (size_t i = 0; i < TD_LEN(who); i++) {
		td_auto_free char *said = td_op_storage_class_users(&both, who[i].class);
		assert_true(!said == !who[i].users && (!said || !strcmp(said, who[i].users)));
	}
	td_auto_free char *made = td_op_storage_list(td_json_root(sc));
	assert_null(strstr(made, "/v"));
	for (size_t i = 0; i < TD_LEN(specs); i++)
		td_object_unref(t[i].o);
}

// What a Node says counts only where the SlurmCluster names the image. rows: B7.2
static void test_image_of_a_slurmd(void **state)
{
	(void)state;
	static const struct {
		const char *slurm, *node, *want;
	} rows[] = {
		{"image: new", "old", "new"},
		{"image: new, slurmdImage: old", "none", "old"},
		{"image: new, slurmdImage: old", "new", "new"},
		{"image: new, slurmdImage: old", "old", "old"},
		{"image: new, slurmdImage: old", "evil", "old"},
		{"slurmdImage: old", TD_OP_SLURM_IMAGE, TD_OP_SLURM_IMAGE},
		{"version: '24.11'", "evil", TD_OP_SLURM_IMAGE},
	};
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto_free char *sc_text = td_asprintf("spec: {slurm: {%s}}", rows[i].slurm),
				  *node_text = td_asprintf("metadata: {annotations: {tandem.dev/slurmd-image: '%s'}}",
							   rows[i].node);
		td_auto(td_json_unref) struct td_json *sc = Y(sc_text), *node = Y(node_text);
		assert_string_equal(td_op_slurmd_image(td_json_root(sc), td_json_root(node)), rows[i].want);
	}
}

// A namespace that carries a Tenant's label only is not the Tenant's, nor are Projects in it. rows: C10.3
static void test_whose_namespace(void **state)
{
	(void)state;
	static const struct {
		const char *spec;
		bool physics, lab;
	} t_[] = {{"{}", true, false},
		  {"{\"namespaces\":[]}", false, false},
		  {"{\"namespaces\":[\"lab\"]}", false, true},
		  {"{\"namespaces\":[\"physics\",\"lab\"]}", true, true}};
	for (size_t i = 0; i < TD_LEN(t_); i++) {
		td_auto_free char *text = td_asprintf("{\"metadata\":{\"name\":\"physics\"},\"spec\":%s}", t_[i].spec);
		struct td_json *j = NULL;
		assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
		td_auto(td_object_unref) struct td_object *o = td_object_new(j);
		assert_int_equal(td_kube_tenant_names(o, "physics"), t_[i].physics);
		assert_int_equal(td_kube_tenant_names(o, "lab"), t_[i].lab);
		assert_false(td_kube_tenant_names(o, "squat"));
	}
}

static bool news(bool (*of)(const struct td_object *, const struct td_object *), const char *old, const char *now)
{
	td_auto(td_object_unref) struct td_object *x = td_object_new(Y(old)), *y = td_object_new(Y(now));
	return of(x, y);
}

// A whole look follows what it is made of, and neither heartbeats nor what the bridge says of jobs.
static void test_news(void **state)
{
#define OF(notes, rest) "metadata: {name: n0, labels: {a: b}, annotations: {x: '1'" notes "}}\n" rest
	static const struct {
		const char *now;
		bool news;
	} nodes[] = {
		{OF("", "spec: {}\n"), false},
		{OF(", " TD_ANN_SLURM_USE ": '{}', " TD_ANN_SLURM_JOBS ": '3'", "spec: {}\n"), false},
		{OF("",
		    "spec: {}\nstatus: {conditions: [{type: DiskPressure, status: 'False', lastHeartbeatTime: t}]}\n"),
		 false},
		{OF(", y: '2'", "spec: {}\n"), true},
		{"metadata: {name: n0, labels: {a: b}}\nspec: {}\n", true},
		{"metadata: {name: n0, labels: {a: c}, annotations: {x: '1'}}\nspec: {}\n", true},
		{OF("", "spec: {unschedulable: true}\n"), true},
		{OF("", "spec: {}\nstatus: {allocatable: {cpu: '1'}}\n"), true},
		{OF("", "spec: {}\nstatus: {conditions: [{type: Ready, status: 'True'}]}\n"), true},
	};
	for (size_t i = 0; i < TD_LEN(nodes); i++)
		assert_int_equal(news(td_op_node_news, nodes[0].now, nodes[i].now), nodes[i].news);

	static const char *const pods[] = {
		OF("", "status: {phase: Running}\n"),
		"metadata: {name: n0, labels: {a: b, " TD_LABEL_NODE_STATE
		": allocated}, annotations: {x: '1', " TD_ANN_SLURM_STATE ": drain}}\nstatus: {phase: Running}\n",
		OF("", "status: {phase: Failed}\n"),
	};
	assert_false(news(td_op_pod_news, pods[0], pods[1]));
	assert_true(news(td_op_pod_news, pods[0], pods[2]));
#undef OF
}

// The status that a look found comes back as an event, and is no news. Any other one is: somebody changed it, or the look
// before had written it after this one had read.
static void test_status_news(void **state)
{
	(void)state;
	struct td_op op = {.lock = PTHREAD_MUTEX_INITIALIZER};
#define SET(phase) "metadata: {name: s, uid: u, generation: 1}\nstatus: {phase: " phase ", n: 1}\n"
	td_auto(td_object_unref) struct td_object *a = td_object_new(Y(SET("A"))), *b = td_object_new(Y(SET("B")));
#undef SET
	td_op_news_spec(&op, a, b);
	assert_int_equal(op.news, 0); // there was no look
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *found = td_jm_copy(td_jget(b->root, "status"));
	td_op_status_found(&op, a, found);
	td_op_news_spec(&op, a, b);
	assert_int_equal(op.news, 0);
	td_op_news_spec(&op, b, a);
	assert_int_equal(op.news, 1);
	td_op_news_spec(&op, b, NULL);
	assert_int_equal(op.news, 2);
	assert_null(op.statuses);
	td_op_status_found(&op, a, found);
	td_op_statuses_free(&op);
	assert_null(op.statuses);
}

// Whatever differs in Slurm's list gives another print.
static void test_print_of_nodes(void **state)
{
	char a[] = "a", b[] = "b";
	struct td_slurm_node v[] = {{.name = a}, {.name = b}};
	const struct td_slurm_nodes l = {.v = v, .n = 2};
	uint64_t was = td_op_nodes_print(&l, false);
	assert_true(td_op_nodes_print(&l, false) == was);
	v[1].states = TD_NODE(DRAIN);
	uint64_t drained = td_op_nodes_print(&l, false);
	assert_true(drained != was);
	v[1].comment = a;
	assert_true(td_op_nodes_print(&l, false) != drained);
	v[1].comment = NULL;
	v[1].reason = a;
	uint64_t reason = td_op_nodes_print(&l, false);
	v[1].reason = NULL;
	v[1].features = a; // not the same word in another place
	assert_true(td_op_nodes_print(&l, false) != reason);

	// What jobs have there is told apart, of nodes that are in order.
	v[1] = (struct td_slurm_node){.name = b, .states = TD_NODE(IDLE) | TD_NODE(DYNAMIC_NORM)};
	uint64_t idle = td_op_nodes_print(&l, false), none = td_op_nodes_print(&l, true);
	v[1].states = TD_NODE(MIXED) | TD_NODE(DYNAMIC_NORM);
	v[1].alloc_cpus = 3;
	v[1].busy_at = 7;
	assert_true(td_op_nodes_print(&l, false) == idle);
	assert_true(td_op_nodes_print(&l, true) != none);
	v[1].states |= TD_NODE(DRAIN); // whoever drains it waits for their end
	uint64_t draining = td_op_nodes_print(&l, false);
	assert_true(draining != idle);
	v[1].alloc_cpus = 0;
	assert_true(td_op_nodes_print(&l, false) != draining);
}

// What is remembered of a node's pod is what would be built now, whatever has changed; the pod is not built again while
// nothing has.
static void test_wishes(void **state)
{
	static const char *const nodes[] = {
		NODE, "metadata: {name: n0, labels: {topology.tandem.dev/block: b1}}\n",
		"metadata: {name: n0, labels: {topology.tandem.dev/block: b1}, annotations: {" TD_ANN_GDS ": 'yes'}}\n",
		"metadata: {name: n0, labels: {topology.tandem.dev/block: b1}, annotations: {" TD_ANN_GDS ": 'yes'}}\n"
		"status: {allocatable: {cpu: '1'}}\n", // of which the share is made, and nothing else
	};
	td_auto(td_json_unref) struct td_json *sc = embedded("SlurmCluster"), *usual = embedded("NodeSet");
	static const char *const changes[] = {"status.ready", "spec.slurm.weight", NULL};
	struct td_op op = {0};
	struct td_op_view view = {0};
	const struct td_op_pass p = {.op = &op, .v = &view, .in_force = td_json_root(sc)};
	struct td_op_row x = {.name = (char *)(uintptr_t)"n0", .share = {15, 31744, 8}};
	struct td_error err = TD_ERROR_INIT;
	const struct td_op_wish *last = NULL;
	char was[24] = "";
	for (size_t c = 0; c < TD_LEN(changes); c++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(usual));
		for (size_t k = 0; k <= c && changes[k]; k++)
			td_jm_int(d, yyjson_mut_doc_get_root(d), changes[k], 7);
		td_auto(td_object_unref) struct td_object *set =
			td_object_new(td_json_from_mut(yyjson_mut_doc_get_root(d)));
		x.share.cpus -= c == 2;
		for (size_t i = 0; i < TD_LEN(nodes); i++) {
			td_auto(td_object_unref) struct td_object *node = td_object_new(Y(nodes[i]));
			td_auto(td_json_unref) struct td_json *pod = NULL;
			x.node = node;
			assert_int_equal(td_op_row_wish(&p, set, td_op_wish_base(&p, set), &x, &err), 0);
			assert_int_equal(td_op_row_pod(&p, set, &x, &pod, &err), 0);
			assert_string_equal(
				x.want->revision,
				td_jkey_str(td_jget(td_json_root(pod), "metadata.annotations"), TD_ANN_REVISION));
			assert_string_equal(x.want->conf, td_op_pod_conf(td_json_root(pod)));
			assert_true(!last || last == x.want); // the same entry
			last = x.want;
			bool same = i == 3; // nothing of the pod has changed
			assert_int_equal(!strcmp(was, x.want->revision), same);
			snprintf(was, sizeof(was), "%s", x.want->revision);
		}
	}
	const uint64_t print = last->print;
	{
		td_auto(td_object_unref) struct td_object *set = td_object_new(td_json_ref(usual)),
							  *node = td_object_new(Y(nodes[3]));
		const uint64_t a = td_op_wish_base(&p, set);
		op.image = "tandem:1";
		assert_true(td_op_wish_base(&p, set) != a);
		x.node = node;
		assert_int_equal(td_op_row_wish(&p, set, td_op_wish_base(&p, set), &x, &err), 0);
		assert_true(last->print != print);
	}
	td_op_wishes_forget(&view, false); // it was asked for
	assert_ptr_equal(view.wishes, last);
	td_op_wishes_forget(&view, false);
	assert_null(view.wishes);
}

// Classes of storage groups: what a Tenant has not been granted is 0 in its namespaces, and in no others.
static void test_storage_groups(void **state)
{
	static const char *const specs[] = {
		"metadata: {name: physics}\nspec: {storageGroups: [fast]}",
		"metadata: {name: quarks}\nspec: {parent: physics}",
		"metadata: {name: biology}\nspec: {quota: {x: 1}}",
		"metadata: {name: genes}\nspec: {parent: biology, storageGroups: [archive]}",
	};
	static const char *const denied[] = {
		"tape.storageclass.storage.k8s.io/persistentvolumeclaims "
		"tape.storageclass.storage.k8s.io/requests.storage ",
		"tape.storageclass.storage.k8s.io/persistentvolumeclaims "
		"tape.storageclass.storage.k8s.io/requests.storage ",
		"nvme.storageclass.storage.k8s.io/persistentvolumeclaims "
		"nvme.storageclass.storage.k8s.io/requests.storage "
		"tape.storageclass.storage.k8s.io/persistentvolumeclaims "
		"tape.storageclass.storage.k8s.io/requests.storage ",
		"",
	};
	static const char *const said[] = {
		"[{\"tenant\":\"physics\",\"hard\":{\"tape.storageclass.storage.k8s.io/persistentvolumeclaims\":0,"
		"\"tape.storageclass.storage.k8s.io/requests.storage\":0}}]",
		"[{\"tenant\":\"quarks\",\"hard\":{\"tape.storageclass.storage.k8s.io/persistentvolumeclaims\":0,"
		"\"tape.storageclass.storage.k8s.io/requests.storage\":0}}]",
		"[{\"tenant\":\"biology\",\"hard\":{\"nvme.storageclass.storage.k8s.io/persistentvolumeclaims\":0,"
		"\"nvme.storageclass.storage.k8s.io/requests.storage\":0,"
		"\"tape.storageclass.storage.k8s.io/persistentvolumeclaims\":0,"
		"\"tape.storageclass.storage.k8s.io/requests.storage\":0}}]",
		// Its own are none; the limit of the one above it counts for it, too.
		"[{\"tenant\":\"biology\",\"hard\":{\"nvme.storageclass.storage.k8s.io/requests.storage\":7}}]",
	};
	td_auto(td_arena_free) struct td_arena *a = td_arena_new();
	td_auto(td_object_unref) struct td_object *sc =
		td_object_new(Y("metadata: {name: main}\nspec: {storageGroups: [{name: fast, storageClasses: [nvme]}, "
				"{name: archive, storageClasses: [nvme, tape]}]}"));
	struct td_op_tenants ts = {.quotas = NULL};
	struct td_op_tenant_hard hard = {.word = "nvme.storageclass.storage.k8s.io/requests.storage", .quota = 7};
	struct td_op_tenant t[TD_LEN(specs)] = {0};
	struct td_pool_tenant w[TD_LEN(specs)] = {0};
	struct td_op_tenant_pass p = {.ts = &ts, .sc = sc, .v = t, .p = w, .n = TD_LEN(specs), .arena = a};
	for (size_t i = 0; i < TD_LEN(specs); i++) {
		t[i].o = td_object_new(Y(specs[i]));
		w[i] = (struct td_pool_tenant){.name = t[i].o->name, .parent = td_jstr(t[i].o->root, "spec.parent")};
	}
	t[2].hards = &hard;
	t[2].n_hards = 1;
	for (size_t i = 0; i < TD_LEN(specs); i++) {
		td_auto_buf struct td_buf b = {0};
		const char *const *v;
		size_t n = td_op_tenant_denied(&p, i, &v);
		for (size_t k = 0; k < n; k++)
			td_buf_printf(&b, "%s ", v[k]);
		assert_string_equal(td_buf_str(&b), denied[i]);
		assert_string_equal(td_op_tenant_claims(&p, i), said[i]);
	}
	p.sc = NULL; // the next pass, which knows nothing of groups
	p.storage_groups = NULL;
	t[0].denied = NULL;
	const char *const *v;
	assert_int_equal(td_op_tenant_denied(&p, 0, &v), 0);
	for (size_t i = 0; i < TD_LEN(specs); i++)
		td_object_unref(t[i].o);
}

// What the bridge has written of it since stays: a field in which nothing differs is not in the patch.
static void a_status_changes_where_it_differs(void **state)
{
	static const struct {
		const char *old, *now, *want;
	} cases[] = {
		{"phase: Running\nwanted: [{nodeSet: a}]", "phase: Degraded\nwanted: [{nodeSet: a}]",
		 "[{\"op\":\"add\",\"path\":\"/status/phase\",\"value\":\"Degraded\"}]"},
		{"phase: Running\nautoscale: [{nodeSet: a}]", "phase: Running\nrestUrl: x",
		 "[{\"op\":\"add\",\"path\":\"/status/restUrl\",\"value\":\"x\"},"
		 "{\"op\":\"remove\",\"path\":\"/status/autoscale\"}]"},
		{NULL, "phase: Running", "[{\"op\":\"add\",\"path\":\"/status\",\"value\":{\"phase\":\"Running\"}}]"},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto(td_json_unref) struct td_json *old = cases[i].old ? Y(cases[i].old) : NULL,
						      *now = Y(cases[i].now);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
		yyjson_mut_doc_set_root(d, yyjson_mut_arr(d));
		td_op_status_patch(d, old ? td_json_root(old) : NULL, td_json_root(now));
		char *text = yyjson_mut_write(d, 0, NULL);
		assert_string_equal(text, cases[i].want);
		free(text);
	}
}

static void what_a_new_node_must_reach(void **state)
{
	td_auto_buf struct td_buf text = {0};
	const int percent[TD_FIGURES] = {80, 80, 50, 50, 95};
	const size_t others[TD_FIGURES] = {5, 1, 0, 0, 3};
	struct td_pool_figure_want want[TD_FIGURES] = {
		{16, false, 20}, {8, false, 10}, {100, true, 0}, {0}, {380, false, 400}};
	td_op_test_wants(want, percent, others, &text);
	assert_string_equal(td_buf_str(&text),
			    "gflops 16.00 1 80 % of 20.00, the median of 5 other nodes of its group\n"
			    "memoryMBps 8.00 0 80 % of 10.00, the median of 1 other node of its group\n"
			    "diskWriteMBps 100.00 1 the least that the policy allows\n"
			    "linkMbps 380.00 0 95 % of 400.00, the median of 3 other nodes of its group");

	td_auto(td_json_unref) struct td_json *node =
		Y("metadata: {name: n0, annotations: {tandem.dev/nics: '{\"nics\": [{\"name\": \"mlx5_0\", \"active\": "
		  "true, "
		  "\"rate\": 400000}, {\"name\": \"mlx5_1\", \"rate\": 400000}, {\"name\": \"eno1\", \"active\": true, "
		  "\"rate\": 25000}]}'}}\n");
	assert_true(td_op_test_links(td_json_root(node)) == 425000);
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(what_a_new_node_must_reach),
		cmocka_unit_test(a_status_changes_where_it_differs),
		cmocka_unit_test(test_places_of_hosts),
		cmocka_unit_test(test_whose_namespace),
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_what_a_login_says),
		cmocka_unit_test(test_tolerations),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_slurmd),
		cmocka_unit_test(test_news),
		cmocka_unit_test(test_status_news),
		cmocka_unit_test(test_print_of_nodes),
		cmocka_unit_test(test_wishes),
		cmocka_unit_test(test_devices_check),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_affinity),
		cmocka_unit_test(test_costs),
		cmocka_unit_test(test_vendors),
		cmocka_unit_test(test_parts_of_gpus),
		cmocka_unit_test(test_told_once),
		cmocka_unit_test(test_kinds_of_nodes),
		cmocka_unit_test(test_nics),
		cmocka_unit_test(test_numa),
		cmocka_unit_test(test_resources_of_each),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_offered),
		cmocka_unit_test(test_firewall_and_the_machines_network),
		cmocka_unit_test(test_other_cluster),
		cmocka_unit_test(test_dra),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_nodeset_check),
		cmocka_unit_test(test_cutting),
		cmocka_unit_test(test_a_wish_that_was_taken),
		cmocka_unit_test(test_covers),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_storage),
		cmocka_unit_test(test_image_of_a_slurmd),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_people_of_a_tenant),
		cmocka_unit_test(test_file_systems_of_groups),
		cmocka_unit_test(test_whether_users_are_kept_to_their_accounts),
		cmocka_unit_test(test_templates_agree_with_constants),
		cmocka_unit_test(test_storage_groups),
	};
	return cmocka_run_group_tests(t, NULL, NULL);
}
