// What the owners of pods say about gangs: Job, JobSet, LeaderWorkerSet, the training jobs of Kubeflow,
// SparkApplication (gang_spark.c) and PodGroup, by the labels and annotations that their controllers write. None of their controllers
// is replaced, and none of their kinds has to be served.
#include "bridge/scheduler/gang.h"

#include "api/selector.h"

#include <ctype.h>
#include <string.h>

#define JOB_INDEX "batch.kubernetes.io/job-completion-index" // an annotation
#define SET_NAME "jobset.sigs.k8s.io/jobset-name"
#define SET_INDEX "jobset.sigs.k8s.io/job-global-index"
#define SET_ROLE "jobset.sigs.k8s.io/replicatedjob-name"
#define LWS_NAME "leaderworkerset.sigs.k8s.io/name"
#define LWS_GROUP "leaderworkerset.sigs.k8s.io/group-index"
#define LWS_WORKER "leaderworkerset.sigs.k8s.io/worker-index"
#define LWS_SIZE "leaderworkerset.sigs.k8s.io/size" // an annotation
#define KF_JOB "training.kubeflow.org/job-name"
#define KF_TYPE "training.kubeflow.org/replica-type"
#define KF_ROLE "training.kubeflow.org/job-role"
#define KF_INDEX "training.kubeflow.org/replica-index"
#define POD_GROUP "scheduling.x-k8s.io/pod-group"

static const char *label(const struct td_object *pod, const char *key)
{
	const char *s = td_jkey_str(td_jget(pod->root, "metadata.labels"), key);
	return s && *s ? s : NULL;
}

// -1: no number from 0 up.
static int64_t number(const char *s)
{
	long long n;
	return s && td_parse_i64(s, &n) && n >= 0 && n < TD_GANG_MAX ? n : -1;
}

char *td_gang_name(const struct td_object *pod)
{
	const char *name = td_jkey_str(td_jget(pod->root, "metadata.labels"), TD_LABEL_GANG);
	if (name) // an empty one takes the pod out of its owner's gang
		return *name ? td_strdup(name) : NULL;
	if ((name = label(pod, LWS_NAME)) && label(pod, LWS_GROUP))
		return td_asprintf("lws:%s:%s", name, label(pod, LWS_GROUP));
	if ((name = label(pod, KF_JOB)))
		return td_asprintf("training:%s", name);
	if ((name = label(pod, POD_GROUP)))
		return td_asprintf("podgroup:%s", name);
	if ((name = td_jstr(pod->root, TD_IN_GROUP)))
		return td_asprintf(TD_GANG_GROUP "%s", name);
	if ((name = td_jstr(pod->root, TD_IN_WORKLOAD)))
		return td_asprintf("workload:%s:%s:%s", name, td_jstr_or(pod->root, "spec.workloadRef.podGroup", ""),
				   td_jstr_or(pod->root, "spec.workloadRef.podGroupReplicaKey", ""));
	return td_gang_spark_name(pod);
}

// The roles whose pod is the first of its gang: the one that the others come to, or that starts the program in them.
static bool leads(const char *role)
{
	static const char *const first[] = {"launcher", "master", "chief", "leader", "head", "driver", "coordinator"};
	for (size_t i = 0; role && i < TD_LEN(first); i++)
		if (!strcasecmp(role, first[i]))
			return true;
	return false;
}

bool td_gang_leads(const struct td_object *pod)
{
	return leads(td_gang_role(pod));
}

bool td_gang_roles_lead(const char *roles)
{
	td_auto_strv struct td_strv v = {0};
	td_strv_split(&v, roles, ',');
	bool found = false;
	for (size_t i = 0; i < v.n && !found; i++) {
		td_auto_free char *role = td_strndup(v.v[i], strcspn(v.v[i], "="));
		found = leads(role);
	}
	return found;
}

bool td_gang_leads_it(const struct td_object *leader, const struct td_object *pod)
{
	return td_gang_leads(leader) && td_streq(label(leader, KF_JOB), td_jstr(td_object_owner(pod), "name"));
}

bool td_gang_stays(const struct td_object *pod)
{
	yyjson_val *owner = td_object_owner(pod);
	return td_streq(td_jstr(owner, "kind"), "MPIJob") &&
	       td_starts(td_jstr_or(owner, "apiVersion", ""), "kubeflow.org/v2");
}

const char *td_gang_role(const struct td_object *pod)
{
	// A label may change after the Binding.
	const char *role = td_object_annotation(pod, TD_ANN_GANG_UID) ? td_object_annotation(pod, TD_LABEL_GANG_ROLE)
								      : NULL,
		   *n;
	if (role || (role = label(pod, TD_LABEL_GANG_ROLE)))
		return role;
	if ((role = label(pod, SET_ROLE)))
		return role;
	if (label(pod, LWS_NAME) && (n = label(pod, LWS_WORKER)))
		return strcmp(n, "0") ? "worker" : "leader";
	if ((role = td_gang_spark_role(pod)))
		return role;
	// Of a PyTorchJob without a master the first worker has the job-role "master".
	role = label(pod, KF_TYPE);
	role = role ? role : label(pod, KF_ROLE);
	return role ? role : "";
}

void td_gang_role_of(const struct td_object *pod, char ret[TD_GANG_ROLE_LEN])
{
	snprintf(ret, TD_GANG_ROLE_LEN, "%s", td_gang_role(pod));
	for (char *p = ret; *p; p++)
		*p = (char)tolower((unsigned char)*p);
}

int td_gang_role_cmp(const char *x, const char *y)
{
	if (!strcasecmp(x, y))
		return 0;
	bool p = leads(x), q = leads(y);
	return p != q ? (p ? -1 : 1) : strcasecmp(x, y);
}

struct td_gang_place_in td_gang_place_of(const struct td_object *pod)
{
	int64_t job = number(td_object_annotation(pod, JOB_INDEX)), n;
	if ((n = number(label(pod, SET_INDEX))) >= 0)
		return (struct td_gang_place_in){n, job, false};
	if (job >= 0)
		return (struct td_gang_place_in){0, job, true};
	if ((n = number(label(pod, LWS_WORKER))) >= 0)
		return (struct td_gang_place_in){0, n, true};
	if ((n = number(label(pod, KF_INDEX))) >= 0) {
		return (struct td_gang_place_in){leads(label(pod, KF_TYPE)) ? 0 : 1, n, false};
	}
	return (struct td_gang_place_in){0, -1, false};
}

// ---- sizes ----

int td_gang_look_up(struct td_bridge *b, const struct td_object *pod, const struct td_gvr *gvr, const char *name,
		    struct td_cancel *c, struct td_object **ret, struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	int r = td_kube_get(b->kube, gvr, pod->ns, name, c, ret, &e);
	return r ? td_fail(err, r, "%s %s/%s: %.300s", gvr->kind, pod->ns, name, e.msg) : 0;
}

static const struct td_gvr spark_apps = {"sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication",
					 true};

static int64_t at_once(const yyjson_val *job_spec)
{
	int64_t all = td_jint(job_spec, "completions", 1), most = td_jint(job_spec, "parallelism", 1);
	return most < all ? most : all;
}

static int64_t set_size(const yyjson_val *spec)
{
	int64_t n = 0;
	yyjson_val *v;
	size_t i, max;
	yyjson_arr_foreach (td_jget(spec, "replicatedJobs"), i, max, v)
		n += td_jint(v, "replicas", 1) * at_once(td_jget(v, "template.spec"));
	return n;
}

// The replicas of all roles: spec.<kind>ReplicaSpecs.<Role>.replicas. And how few may start: spec.elasticPolicy, as in a
// PyTorchJob. A launcher that is made when all workers are ready joins them then.
static void training_size(const yyjson_val *spec, struct td_gang_owned *ret)
{
	bool late = td_streq(td_jstr(spec, "launcherCreationPolicy"), "WaitForWorkersReady");
	int64_t launchers = 0;
	ret->first = 1; // no pod of it comes before its workers
	yyjson_val *k, *v, *role, *of;
	size_t i, max, j, m;
	yyjson_obj_foreach ((yyjson_val *)(uintptr_t)spec, i, max, k, v) {
		if (!td_ends(yyjson_get_str(k), "ReplicaSpecs"))
			continue;
		yyjson_obj_foreach (v, j, m, role, of) {
			int64_t n = td_jint(of, "replicas", 1);
			if (late && !strcasecmp(yyjson_get_str(role), "launcher")) {
				launchers += n;
				continue;
			}
			ret->size += n;
			if (n && leads(yyjson_get_str(role)))
				ret->first = 0;
		}
	}
	if (launchers && ret->size) {
		ret->min = ret->size;
		ret->most = ret->size = ret->size + launchers;
		ret->late = true;
		return;
	}
	ret->min = td_jint(spec, "elasticPolicy.minReplicas", 0);
	ret->min = ret->min > 0 ? ret->min : 0;
	ret->most = ret->min ? td_jint(spec, "elasticPolicy.maxReplicas", 0) : 0;
}

// The kind of the owner as a resource: its plural is the kind in small letters with an "s".
static int training(struct td_bridge *b, const struct td_object *pod, yyjson_val *owner, struct td_gang_owned *ret,
		    struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *job = NULL;
	if (td_streq(td_jstr(owner, "kind"), "Job")) { // of a launcher, whose Job is the MPIJob's
		int k = td_gang_look_up(b, pod, &td_jobs, td_jstr_or(owner, "name", ""), c, &job, err);
		if (k)
			return k == TD_NOT_FOUND ? 0 : k;
		owner = td_object_owner(job);
	}
	const char *api = td_jstr_or(owner, "apiVersion", ""), *kind = td_jstr_or(owner, "kind", ""),
		   *slash = strchr(api, '/');
	if (!slash || !td_starts(api, "kubeflow.org/"))
		return 0;
	td_auto_free char *plural = td_asprintf("%ss", kind);
	for (char *p = plural; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	const struct td_gvr gvr = {"kubeflow.org", slash + 1, plural, kind, true};
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_gang_look_up(b, pod, &gvr, td_jstr_or(owner, "name", ""), c, &o, err);
	if (!r)
		training_size(td_jget(o->root, "spec"), ret);
	return r == TD_NOT_FOUND ? 0 : r; // it is going, and its pods with it
}

char *td_gang_asks_text(const yyjson_val *pod_spec)
{
	td_auto_strv struct td_strv names = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_strv_add(&names, "cpu");
	td_strv_add(&names, "memory");
	td_api_pod_request_names(pod_spec, &names);
	for (size_t i = 0; i < names.n; i++) {
		td_auto_free char *n = td_asprintf("%lld%s", (long long)td_api_pod_request(pod_spec, names.v[i]),
						   strcmp(names.v[i], "cpu") ? "" : "m");
		td_jm_key_str(d, o, names.v[i], n);
	}
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(o);
	return td_json_text(td_json_root(j), NULL);
}

int td_gang_lws_later(const yyjson_val *spec, char **ret, struct td_error *err)
{
	yyjson_val *asks = td_jget(spec, "leaderWorkerTemplate.workerTemplate.spec");
	if (!td_streq(td_jstr(spec, "startupPolicy"), "LeaderReady"))
		return 0;
	if (td_jget(asks, "resourceClaims.[0]")) // its leader would run, and wait for them in vain
		return td_fail(
			err, TD_INVALID,
			"spec.leaderWorkerTemplate.workerTemplate: places are kept for no pods with "
			"resourceClaims: ask for devices by their resource, or leave startupPolicy LeaderReady out");
	*ret = td_gang_asks_text(asks);
	return 0;
}

// The SparkApplication whose driver it is, and what its executors ask for.
static int spark_later(struct td_bridge *b, const struct td_object *pod, const char *name, char **ret,
		       struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	struct td_error e = TD_ERROR_INIT;
	int r = td_gang_look_up(b, pod, &spark_apps, name, c, &o, err);
	if (r)
		return r;
	r = td_gang_spark_later(td_jget(o->root, "spec"), ret, &e);
	return r ? td_fail(err, r, "SparkApplication %s/%s: %.300s", pod->ns, name, e.msg) : 0;
}

int td_gang_owner_later(struct td_bridge *b, const struct td_object *pod, char **ret, struct td_cancel *c,
			struct td_error *err)
{
	static const struct td_gvr sets = {"leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet",
					   true};
	const char *name = label(pod, LWS_NAME), *spark = td_gang_spark_object(pod);
	if (label(pod, TD_LABEL_GANG))
		return 0;
	if (!name && spark)
		return td_streq(td_gang_spark_role(pod), "driver") ? spark_later(b, pod, spark, ret, c, err) : 0;
	if (!name || !td_streq(label(pod, LWS_WORKER), "0"))
		return 0;
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_gang_look_up(b, pod, &sets, name, c, &o, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : r; // it is going, or its kind is not served
	struct td_error e = TD_ERROR_INIT;
	r = td_gang_lws_later(td_jget(o->root, "spec"), ret, &e);
	return r ? td_fail(err, r, "LeaderWorkerSet %s/%s: %.400s", pod->ns, name, e.msg) : 0;
}

static bool has_group(const struct td_object *pod)
{
	return td_jstr(pod->root, TD_IN_GROUP) || td_jstr(pod->root, TD_IN_WORKLOAD);
}

bool td_gang_stretches(const struct td_object *pod)
{
	return td_object_annotation(pod, TD_ANN_GANG_MIN) || label(pod, POD_GROUP) || label(pod, KF_JOB) ||
	       has_group(pod) || td_gang_spark_object(pod);
}

int td_gang_owner_size(struct td_bridge *b, const struct td_object *pod, struct td_gang_owned *ret, struct td_cancel *c,
		       struct td_error *err)
{
	static const struct td_gvr sets = {"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", true},
				   groups = {"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};
	yyjson_val *owner = td_object_owner(pod);
	td_auto(td_object_unref) struct td_object *o = NULL;
	const char *set = label(pod, SET_NAME), *group = label(pod, POD_GROUP);
	int r = 0;
	*ret = (struct td_gang_owned){.whose = "owner"};

	if (set) {
		ret->whose = "JobSet";
		r = td_gang_look_up(b, pod, &sets, set, c, &o, err);
		ret->size = r ? 0 : set_size(td_jget(o->root, "spec"));
		return r == TD_NOT_FOUND ? 0 : r;
	}
	if (label(pod, TD_LABEL_GANG) && td_streq(td_jstr(owner, "kind"), "Job") &&
	    td_starts(td_jstr_or(owner, "apiVersion", ""), "batch/")) {
		ret->whose = "Job";
		r = td_gang_look_up(b, pod, &td_jobs, td_jstr_or(owner, "name", ""), c, &o, err);
		if (!r && td_streq(td_jstr(o->root, "spec.completionMode"), "Indexed"))
			ret->size = at_once(td_jget(o->root, "spec"));
		return r == TD_NOT_FOUND ? 0 : r;
	}
	if (label(pod, TD_LABEL_GANG))
		return 0;
	if (label(pod, LWS_NAME)) {
		ret->whose = "LeaderWorkerSet";
		int64_t n = number(td_object_annotation(pod, LWS_SIZE));
		ret->size = n > 0 ? n : 0;
		return 0;
	}
	if (label(pod, KF_JOB)) {
		ret->whose = "training job";
		return training(b, pod, owner, ret, c, err);
	}
	if (!group && has_group(pod))
		return td_gang_group_owned(b, pod, ret, c, err);
	if (group) {
		ret->whose = "PodGroup";
		r = td_gang_look_up(b, pod, &groups, group, c, &o, err);
		ret->min = r ? 0 : td_jint(o->root, "spec.minMember", 0);
		return r;
	}
	if ((set = td_gang_spark_object(pod))) {
		ret->whose = "SparkApplication";
		r = td_gang_look_up(b, pod, &spark_apps, set, c, &o, err);
		if (!r)
			td_gang_spark_size(td_jget(o->root, "spec"), td_streq(td_gang_spark_role(pod), "driver"), ret);
	}
	return r;
}
