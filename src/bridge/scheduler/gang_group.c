// Groups of Kubernetes itself (scheduling.k8s.io): how many of their pods start together, and the condition that says on the
// group what becomes of them. kube-scheduler writes it too, of groups whose pods are its own (docs/facts/kubernetes.md K-W13).
#include "bridge/scheduler/gang.h"

#include "api/condition.h"
#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS "scheduling.k8s.io"
#define SCHEDULED "PodGroupInitiallyScheduled"
#define PARENT "parentCompositePodGroupName"
enum { DEPTH = 4 }; // of groups of groups

// In the order in which they are asked for. What is read and written here is the same in all of them.
static const char *const versions[] = {"v1beta1", "v1alpha3", "v1alpha2"};

struct told {
	char *gang, *text;
};
struct td_groups {
	pthread_mutex_t lock; // guards the rest
	struct told *v;       // of each gang that has pods
	size_t n;
};

struct td_groups *td_groups_new(void)
{
	struct td_groups *g = td_calloc(1, sizeof(*g));
	pthread_mutex_init(&g->lock, NULL);
	return g;
}

static void forget(struct td_groups *g, size_t i)
{
	free(g->v[i].gang);
	free(g->v[i].text);
	g->v[i] = g->v[--g->n];
}

struct td_groups *td_groups_free(struct td_groups *g)
{
	if (!g)
		return NULL;
	while (g->n)
		forget(g, 0);
	free(g->v);
	pthread_mutex_destroy(&g->lock);
	free(g);
	return NULL;
}

// Was just this told of the gang? Nothing is known of it any more when text is NULL.
static bool was_told(struct td_groups *g, const char *gang, const char *text)
{
	bool told = false;
	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < g->n; i++)
		if (!strcmp(g->v[i].gang, gang)) {
			told = text && !strcmp(g->v[i].text, text);
			if (!told)
				forget(g, i);
			break;
		}
	pthread_mutex_unlock(&g->lock);
	return told;
}

// After was_told() said no. A gang is passed over by one thread at a time.
static void keep_told(struct td_groups *g, const char *gang, const char *text)
{
	pthread_mutex_lock(&g->lock);
	g->v = td_realloc(g->v, (g->n + 1) * sizeof(*g->v));
	g->v[g->n++] = (struct told){td_strdup(gang), td_strdup(text)};
	pthread_mutex_unlock(&g->lock);
}

// ---- what is read ----

int64_t td_gang_group_min(const yyjson_val *policy)
{
	return td_jget(policy, "gang") ? td_jint(policy, "gang.minCount", 1) : td_jget(policy, "basic") ? 0 : -1;
}

char *td_gang_group_lacks(const yyjson_val *spec)
{
	const char *key = td_jstr(spec, "schedulingConstraints.topology.[0].key"),
		   *claim = td_jstr(spec, "resourceClaims.[0].name");
	if (claim)
		return td_asprintf(
			"spec.resourceClaims: claim \"%.60s\" is one for all of its pods, and Slurm gives each "
			"pod devices of its own: leave it out, and give the pods a resourceClaimTemplateName",
			claim);
	if (key)
		return td_asprintf(
			"spec.schedulingConstraints: that all of its pods lie in one place of label \"%.60s\" "
			"is not kept: leave it out, and write a nodeSelector or annotation " TD_ANN_ASK_PREFIX
			"segment on the pods (docs/topology.md)",
			key);
	return NULL;
}

static int find_group(struct td_bridge *b, const struct td_object *pod, const char *name, struct td_gvr *ret_gvr,
		      struct td_object **ret, struct td_cancel *c, struct td_error *err)
{
	int r = TD_NOT_FOUND;
	for (size_t i = 0; i < TD_LEN(versions) && r == TD_NOT_FOUND; i++) {
		*ret_gvr = (struct td_gvr){GROUPS, versions[i], "podgroups", "PodGroup", true};
		r = td_gang_look_up(b, pod, ret_gvr, name, c, ret, err);
	}
	return r == TD_NOT_FOUND ? td_fail(err, r, "its PodGroup %s/%s (" GROUPS ") is not there", pod->ns, name) : r;
}

// A group of groups of which several start together: which pods they have no pod says.
static int no_parent(struct td_bridge *b, const struct td_object *pod, const struct td_object *group,
		     struct td_cancel *c, struct td_error *err)
{
	static const struct td_gvr composites = {GROUPS, "v1alpha3", "compositepodgroups", "CompositePodGroup", true};
	td_auto(td_object_unref) struct td_object *o = td_object_ref((struct td_object *)(uintptr_t)group);
	for (int i = 0; i < DEPTH; i++) {
		const char *name = td_jstr(o->root, "spec." PARENT);
		td_auto(td_object_unref) struct td_object *up = NULL;
		if (!name)
			return 0;
		int r = td_gang_look_up(b, pod, &composites, name, c, &up, err);
		if (r == TD_NOT_FOUND)
			return td_fail(err, r, "its CompositePodGroup %s/%s is not there", pod->ns, name);
		if (r)
			return r;
		if (td_jget(up->root, "spec.schedulingPolicy.gang"))
			return td_fail(
				err, TD_INVALID,
				"PodGroup %s/%s: its CompositePodGroup %s has the policy gang, and groups of groups "
				"do not start together here: write one label " TD_LABEL_GANG
				" and annotation " TD_ANN_GANG_SIZE " on the pods of all of them",
				pod->ns, group->name, name);
		td_object_unref(o);
		o = td_steal(up);
	}
	return 0;
}

int td_gang_group_owned(struct td_bridge *b, const struct td_object *pod, struct td_gang_owned *ret,
			struct td_cancel *c, struct td_error *err)
{
	static const struct td_gvr workloads = {GROUPS, "v1alpha1", "workloads", "Workload", true};
	const char *name = td_jstr(pod->root, TD_IN_GROUP), *of = td_jstr(pod->root, TD_IN_WORKLOAD);
	td_auto(td_object_unref) struct td_object *o = NULL;
	struct td_gvr gvr;
	yyjson_val *policy = NULL, *v;
	size_t i, n;
	ret->whose = name ? "PodGroup" : "Workload";
	int r = name ? find_group(b, pod, name, &gvr, &o, c, err) : td_gang_look_up(b, pod, &workloads, of, c, &o, err);
	if (r)
		return r;
	td_auto_free char *lacks = name ? td_gang_group_lacks(td_jget(o->root, "spec")) : NULL;
	if (name)
		policy = td_jget(o->root, "spec.schedulingPolicy");
	else
		yyjson_arr_foreach (td_jget(o->root, "spec.podGroups"), i, n, v)
			if (td_streq(td_jkey_str(v, "name"), td_jstr(pod->root, "spec.workloadRef.podGroup")))
				policy = td_jget(v, "policy");
	int64_t min = td_gang_group_min(policy);
	if (!name && !policy)
		return td_fail(err, TD_NOT_FOUND, "its Workload %s/%s has no group %s", pod->ns, of,
			       td_jstr_or(pod->root, "spec.workloadRef.podGroup", ""));
	if (min < 0)
		return td_fail(err, TD_INVALID,
			       "%s %s/%s: its policy is neither gang nor basic: write one of them, or an empty "
			       "label " TD_LABEL_GANG " on pods that shall start one by one",
			       ret->whose, pod->ns, o->name);
	ret->min = min;
	ret->alone = !min;
	if (lacks)
		return td_fail(err, TD_INVALID, "PodGroup %s/%s: %s", pod->ns, o->name, lacks);
	return name ? no_parent(b, pod, o, c, err) : 0;
}

int td_gang_group_apart(struct td_bridge *b, const struct td_object *const *pods, size_t n, struct td_cancel *c,
			struct td_error *err)
{
	for (size_t i = 0; i < n; i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		td_jm_str(d, root, "metadata.uid", pods[i]->uid);
		td_jm_key_str(d, td_jm_obj(d, root, "metadata.labels"), TD_LABEL_GANG, "");
		int r = td_kube_patch(b->kube, TD_AT(&td_pods, pods[i]->ns, pods[i]->name), TD_PATCH_MERGE, root, c,
				      NULL, err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return td_wrap(err, "taking pod %s/%s out of its group", pods[i]->ns, pods[i]->name);
	}
	return 0;
}

// ---- what is told ----

bool td_gang_group_news(const struct td_object *const *pods, size_t n, bool *ret_scheduled, char **ret_text)
{
	const char *uid = NULL, *job = NULL, *says = NULL, *world = NULL;
	long long size = 0, have = 0;
	for (size_t i = 0; i < n; i++) { // those that run, before those that have ended
		const char *its = td_object_annotation(pods[i], TD_ANN_GANG_UID);
		if (!its || !td_jstr(pods[i]->root, "spec.nodeName") || (uid && td_kube_pod_ended(pods[i]->root)))
			continue;
		if (!uid || !td_kube_pod_ended(pods[i]->root)) {
			uid = its;
			job = td_object_annotation(pods[i], TD_ANN_JOB);
			world = td_object_annotation(pods[i], TD_ANN_GANG_WORLD);
		}
	}
	for (size_t i = 0; i < n; i++) {
		yyjson_val *cond = td_condition(pods[i]->root, "PodScheduled");
		if (uid && td_jstr(pods[i]->root, "spec.nodeName"))
			have += td_streq(td_object_annotation(pods[i], TD_ANN_GANG_UID), uid);
		else if (!says && td_streq(td_jstr(cond, "status"), "False"))
			says = td_jstr(cond, "message");
	}
	if (uid && world && td_parse_i64(world, &size) && have >= size) {
		*ret_scheduled = true;
		*ret_text = td_asprintf("Its %lld pods have their nodes, as Slurm job %s.", size, job ? job : "?");
		return true;
	}
	if (!says || !*says)
		return false;
	*ret_scheduled = false;
	*ret_text = td_strdup(says);
	return true;
}

// TD_NOT_FOUND: the group is not there. What is True stays so, as kube-scheduler keeps it.
static int tell(struct td_bridge *b, const struct td_object *pod, bool scheduled, const char *text, struct td_cancel *c,
		struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	struct td_gvr gvr;
	int r = find_group(b, pod, td_jstr_or(pod->root, TD_IN_GROUP, ""), &gvr, &o, c, err);
	if (r)
		return r;
	yyjson_val *was = td_condition(o->root, SCHEDULED);
	if (td_condition_true(o->root, SCHEDULED) ||
	    (!scheduled && td_streq(td_jstr(was, "status"), "False") && td_streq(td_jstr(was, "message"), text)))
		return 0;
	const struct td_condition_want w = {.type = SCHEDULED,
					    .status = scheduled ? "True" : "False",
					    .reason = scheduled ? "Scheduled" : "Unschedulable",
					    .message = text,
					    .generation = td_jint(o->root, "metadata.generation", 0)};
	td_jm_str(d, root, "metadata.uid", o->uid);
	td_jm_str(d, root, "metadata.resourceVersion", o->rv); // whoever writes it True in between is right
	td_condition_add(d, td_jm_arr(d, root, "status.conditions"), td_jget(o->root, "status.conditions"), &w,
			 td_real_ms(b->clock));
	return td_kube_patch(b->kube, TD_AT(&gvr, o->ns, o->name, "status"), TD_PATCH_STRATEGIC, root, c, NULL, err);
}

void td_gang_group_tell(struct td_bridge *b, const char *gang, const struct td_objects *pods, struct td_cancel *c)
{
	const char *slash = strchr(gang, '/');
	bool scheduled;
	td_auto_free char *text = NULL;
	if (!slash || !td_starts(slash + 1, TD_GANG_GROUP))
		return;
	if (!pods->n || !td_jstr(pods->v[0]->root, TD_IN_GROUP) ||
	    !td_gang_group_news((const struct td_object *const *)pods->v, pods->n, &scheduled, &text)) {
		was_told(b->groups, gang, NULL);
		return;
	}
	if (was_told(b->groups, gang, text))
		return;
	struct td_error e = TD_ERROR_INIT;
	int r = tell(b, pods->v[0], scheduled, text, c, &e);
	if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
		td_warn("gang %s: its PodGroup does not say how it goes: %s", gang, e.msg);
	if (!r || r == TD_DENIED || r == TD_INVALID) // else the next pass tries again
		keep_told(b->groups, gang, text);
}
