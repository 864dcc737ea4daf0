// What Spark's pods and a SparkApplication say about gangs: the driver, which makes the executors when it runs, keeps
// places for them. Of an application of spark-operator the object says how many and how large they are; of others
// annotations do (docs/gangs.md, Spark).
#include "bridge/scheduler/gang.h"

#include "pool/spark.h"

#include <string.h>

#define SPARK_ROLE "spark-role"
#define SPARK_NAME "spark-app-name"
#define OPERATOR_APP "sparkoperator.k8s.io/app-name" // the name of the SparkApplication
#define RESOURCE "spark.executor.resource."
#define CONTAINER "spark-kubernetes-executor" // in a template of the application

static const char *label(const struct td_object *pod, const char *key)
{
	const char *s = td_object_label(pod, key);
	return s && *s ? s : NULL;
}

const char *td_gang_spark_role(const struct td_object *pod)
{
	return label(pod, TD_SPARK_APP) ? label(pod, SPARK_ROLE) : NULL;
}

const char *td_gang_spark_object(const struct td_object *pod)
{
	static const char *const said[] = {TD_ANN_GANG_MIN, TD_ANN_GANG_SIZE, TD_ANN_GANG_LATER};
	const char *role = td_gang_spark_role(pod);
	for (size_t i = 0; i < TD_LEN(said); i++)
		if (td_object_annotation(pod, said[i]))
			return NULL;
	return td_streq(role, "driver") || td_streq(role, "executor") ? label(pod, OPERATOR_APP) : NULL;
}

char *td_gang_spark_name(const struct td_object *pod)
{
	// Spark makes its executors by and by, and ends those that idle: they are a gang only with a minimum. The driver is
	// of it when it keeps places for them.
	const char *role = td_gang_spark_role(pod);
	bool driver = td_streq(role, "driver") && td_object_annotation(pod, TD_ANN_GANG_LATER),
	     says = td_object_annotation(pod, TD_ANN_GANG_MIN) && (driver || td_streq(role, "executor"));
	return says || td_gang_spark_object(pod) ? td_asprintf("spark:%s", label(pod, TD_SPARK_APP)) : NULL;
}

const char *td_gang_title(const struct td_object *pod)
{
	return label(pod, TD_SPARK_APP) && !label(pod, TD_LABEL_GANG) ? label(pod, SPARK_NAME) : NULL;
}

// ---- the SparkApplication ----

// What its field says, or else the setting of Spark's; NULL: neither. The operator gives Spark both, the field last.
static const char *said(const yyjson_val *spec, const char *field, const char *setting)
{
	const char *s = field ? td_jstr(spec, field) : NULL;
	return s && *s ? s : td_jkey_str(td_jget(spec, "sparkConf"), setting);
}

static int64_t count(const yyjson_val *spec, const char *field, const char *setting)
{
	long long n;
	const char *s = td_jkey_str(td_jget(spec, "sparkConf"), setting);
	n = td_jint(spec, field, -1);
	return n >= 0 || (s && td_parse_i64(s, &n) && n >= 0) ? n : -1;
}

static bool is_set(const yyjson_val *spec, const char *setting)
{
	return td_streq(td_jkey_str(td_jget(spec, "sparkConf"), setting), "true");
}

void td_gang_spark_size(const yyjson_val *spec, bool driver, struct td_gang_owned *ret)
{
	const struct td_pool_spark_counts c = {
		.dynamic = td_jbool(spec, "dynamicAllocation.enabled", is_set(spec, "spark.dynamicAllocation.enabled")),
		.instances = count(spec, "executor.instances", "spark.executor.instances"),
		.min = count(spec, "dynamicAllocation.minExecutors", "spark.dynamicAllocation.minExecutors"),
		.max = count(spec, "dynamicAllocation.maxExecutors", "spark.dynamicAllocation.maxExecutors")};
	const struct td_pool_spark_gang g = td_pool_spark_gang(&c, TD_GANG_MAX - 1);
	// Where places are kept, the driver is counted beside them (td_gang_read()). Without its driver the executors are a
	// gang of their own.
	bool alone = driver && !g.places;
	ret->keeps = driver && g.places;
	ret->min = g.places ? g.places : 1;
	ret->most = g.most + alone > ret->min ? g.most + alone : ret->min;
}

static int wrong(const char *field, const char *setting, const char *text, struct td_error *err)
{
	return td_fail(err, TD_INVALID,
		       "spec.%s or spec.sparkConf \"%s\": \"%.60s\" is not as Spark writes it (\"4g\", \"0.1\")", field,
		       setting, text);
}

// What Spark will ask for an executor, in MiB.
static int memory(const yyjson_val *spec, int64_t *ret, struct td_error *err)
{
	const char *file = td_jstr_or(spec, "mainApplicationFile", "");
	bool python = td_ends(file, ".py");
	struct td_pool_spark_memory m = {-1, -1, -1, -1, -1, -1, python || td_ends(file, ".R")};
	const struct {
		const char *field, *setting;
		char unit; // 0: a factor
		bool counts;
		int64_t *to;
	} v[] = {{"executor.memory", "spark.executor.memory", 'm', true, &m.heap},
		 {"executor.memoryOverhead", "spark.executor.memoryOverhead", 'm', true, &m.overhead},
		 {NULL, "spark.executor.minMemoryOverhead", 'm', true, &m.least_overhead},
		 {"memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor", 0, true, &m.millionths},
		 {NULL, "spark.executor.memoryOverheadFactor", 0, true, &m.millionths},
		 {NULL, "spark.executor.pyspark.memory", 'm', python, &m.python},
		 {NULL, "spark.memory.offHeap.size", 'b', is_set(spec, "spark.memory.offHeap.enabled"), &m.off_heap}};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		const char *text = v[i].counts ? said(spec, v[i].field, v[i].setting) : NULL;
		if (!text)
			continue;
		int64_t n = v[i].unit ? td_pool_spark_mib(text, v[i].unit) : td_pool_spark_millionths(text);
		if (n < 0)
			return wrong(v[i].field ? v[i].field : "executor", v[i].setting, text, err);
		*v[i].to = n;
	}
	*ret = td_pool_spark_memory(&m);
	return 0;
}

// The container of the template that becomes Spark's.
static yyjson_mut_val *spark_container(yyjson_mut_doc *d, yyjson_mut_val *pod)
{
	yyjson_mut_val *all = td_jm_arr(d, pod, "containers"), *v, *first = yyjson_mut_arr_get_first(all);
	size_t i, n;
	yyjson_mut_arr_foreach (all, i, n, v)
		if (td_streq(td_jm_getstr(v, "name"), CONTAINER))
			return v;
	return first ? first : yyjson_mut_arr_add_obj(d, all);
}

static void append(yyjson_mut_doc *d, yyjson_mut_val *pod, const char *list, yyjson_val *from)
{
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (from, i, n, v)
		yyjson_mut_arr_append(td_jm_arr(d, pod, list), yyjson_val_mut_copy(d, v));
}

// Devices by settings: spark.executor.resource.gpu.amount, and .vendor: nvidia.com.
static void devices(yyjson_mut_doc *d, yyjson_mut_val *limits, const yyjson_val *conf)
{
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach ((yyjson_val *)(uintptr_t)conf, i, n, k, v) {
		const char *key = yyjson_get_str(k), *name = key + strlen(RESOURCE);
		if (!td_starts(key, RESOURCE) || !td_ends(key, ".amount") || !yyjson_is_str(v))
			continue;
		size_t len = strlen(name) > strlen(".amount") ? strlen(name) - strlen(".amount") : 0;
		td_auto_free char *by = td_asprintf(RESOURCE "%.*s.vendor", (int)len, name);
		const char *vendor = td_jkey_str(conf, by);
		td_auto_free char *resource = td_asprintf("%s/%.*s", vendor ? vendor : "", (int)len, name);
		if (vendor && len)
			td_jm_key_str(d, limits, resource, yyjson_get_str(v));
	}
}

int td_gang_spark_later(const yyjson_val *spec, char **ret, struct td_error *err)
{
	int64_t mib = 0, cores = count(spec, "executor.cores", "spark.executor.cores"),
		gpus = td_jint(spec, "executor.gpu.quantity", 0);
	int r = memory(spec, &mib, err);
	if (r)
		return r;
	const char *cpu = said(spec, "executor.coreRequest", "spark.kubernetes.executor.request.cores"),
		   *gpu = td_jstr(spec, "executor.gpu.name");
	yyjson_val *template = td_jget(spec, "executor.template.spec");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = template ? td_jm_copy(template) : td_jm_new();
	yyjson_mut_val *pod = yyjson_mut_doc_get_root(d), *own = spark_container(d, pod),
		       *limits = td_jm_obj(d, own, "resources.limits");
	td_jm_strf(d, own, "resources.requests.memory", "%lldMi", (long long)mib);
	td_jm_strf(d, own, "resources.requests.cpu", "%lld", (long long)(cores > 0 ? cores : 1));
	if (cpu)
		td_jm_str(d, own, "resources.requests.cpu", cpu);
	devices(d, limits, td_jget(spec, "sparkConf"));
	if (gpu && *gpu && gpus > 0) {
		td_auto_free char *n = td_asprintf("%lld", (long long)gpus);
		td_jm_key_str(d, limits, gpu, n);
	}
	append(d, pod, "containers", td_jget(spec, "executor.sidecars"));
	append(d, pod, "initContainers", td_jget(spec, "executor.initContainers"));
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(pod);
	*ret = td_gang_asks_text(td_json_root(j));
	return 0;
}
