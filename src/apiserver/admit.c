// Admission: what the server adds to an object, or refuses in it, beyond the schema. It runs on
// every create and update of the main resource and on bindings, and changes d in place.
#include "apiserver/srv.h"

#include "base/names.h"
#include "http/pki.h"

#include <stdlib.h>
#include <string.h>

struct td_item *td_srv_space(const struct td_req *q)
{
	return td_store_get(q->s->store, td_store_table(q->s->store, "", "namespaces"), "", q->ns);
}

static bool is(const struct td_kind *k, const char *group, const char *plural)
{
	return !strcmp(k->group, group) && !strcmp(k->plural, plural);
}

int td_srv_forbid(struct td_req *q, struct td_refusal *r, const char *name, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *m = td_vasprintf(fmt, ap);
	va_end(ap);
	name = name ? name : "";
	td_refuse(r, 403, NULL, "%s%s%s \"%s\" is forbidden: %s", q->plural, *q->group ? "." : "", q->group, name, m);
	return td_refuse_about(r, q->group, q->plural, name);
}

bool td_srv_container_next(struct td_srv_container *c)
{
	static const char *const lists[] = {"spec.containers", "spec.initContainers"};
	for (;;) {
		while ((c->is = yyjson_mut_arr_iter_next(&c->in)))
			if (yyjson_mut_is_obj(c->is)) {
				c->at = c->in.idx - 1;
				return true;
			}
		if (c->lists == TD_LEN(lists))
			return false;
		c->list = lists[c->lists++];
		yyjson_mut_arr_iter_init(td_jm_get(c->pod, c->list), &c->in);
	}
}

// ---- the annotations of a grant ----
static const char *const grant_keys[] = {
	TD_ANN_JOB,         TD_ANN_START,          TD_ANN_RESTARTS,    TD_ANN_DEVICES,   TD_ANN_CPUS,
	TD_ANN_EPOCH,       TD_ANN_ENDED,          TD_ANN_GANG_UID,    TD_ANN_GANG_NAME, TD_ANN_GANG_RANK,
	TD_ANN_GANG_WORLD,  TD_ANN_GANG_HOSTS,     TD_ANN_GANG_MOST,   TD_ANN_GANG_CORE, TD_ANN_GANG_ROLES,
	TD_LABEL_GANG_ROLE, TD_ANN_SHADOW_DEVICES, TD_ANN_SHADOW_NODE, TD_ANN_ACCOUNT,   TD_ANN_NICS_GRANTED};

static bool changed(yyjson_val *old, yyjson_mut_val *now, const char *key)
{
	const char *a = td_jkey_str(old, key);
	yyjson_mut_val *v = now ? yyjson_mut_obj_get(now, key) : NULL;
	const char *b = v ? yyjson_mut_get_str(v) : NULL;
	return !td_streq(a, b);
}

// Refuses changes of a grant's annotations. template_: those of spec.template, where nobody may put
// a grant.
static int grant_check(struct td_req *q, const struct td_item *old, yyjson_mut_val *o, const char *name, bool template_,
		       struct td_refusal *r)
{
	const char *where = template_ ? "spec.template.metadata.annotations" : "metadata.annotations";
	yyjson_val *was = old ? td_jget(td_item_root(old), where) : NULL;
	yyjson_mut_val *now = td_jm_get(o, where);
	bool bridge = td_streq(q->user.name, "system:tandem:bridge") && td_auth_is_role(&q->user);

	for (size_t i = 0; i < TD_LEN(grant_keys); i++)
		if (changed(was, now, grant_keys[i]) && (template_ || !bridge))
			return td_srv_forbid(
				q, r, name,
				"%s[\"%s\"] is part of a grant, which only Tandem's bridge writes when it binds "
				"a pod: remove it; devices are asked for by resources.limits[\"nvidia.com/gpu\"]",
				where, grant_keys[i]);

	bool makes_slurmds = td_streq(q->user.name, "system:tandem:operator") && td_auth_is_role(&q->user);
	if (changed(was, now, TD_ANN_ALL_DEVICES) && !makes_slurmds)
		return td_srv_forbid(
			q, r, name,
			"%s[\"" TD_ANN_ALL_DEVICES
			"\"] shows every device of a node and is for Tandem's own pods only: remove it; devices "
			"are asked for by resources.limits[\"nvidia.com/gpu\"]",
			where);

	return 0;
}

static int grants(struct td_req *q, const struct td_item *old, yyjson_mut_val *o, const char *name,
		  struct td_refusal *r)
{
	const struct td_kind *k = q->k;
	if (is(k, "", "pods")) {
		int rc = grant_check(q, old, o, name, false, r);
		if (rc < 0)
			return rc;
		yyjson_val *was = old ? td_item_root(old) : NULL;
		if (td_jkey(td_jget(was, "metadata.annotations"), TD_ANN_JOB) &&
		    changed(td_jget(was, "metadata.labels"), td_jm_get(o, "metadata.labels"), TD_LABEL_OTHER))
			return td_srv_forbid(
				q, r, name,
				"metadata.labels[\"" TD_LABEL_OTHER
				"\"] says where its copy is, for which Slurm has granted it a node: leave it as it "
				"is, or delete the pod");
		const char *scheduler = td_jm_getstr(o, "spec.schedulerName");
		yyjson_mut_val *notes = td_jm_get(o, "metadata.annotations");
		if (notes && yyjson_mut_obj_get(notes, TD_ANN_DEVICES) &&
		    (!scheduler || !strcmp(scheduler, "default-scheduler")))
			return td_srv_forbid(
				q, r, name,
				"spec.schedulerName is \"%s\": only pods that Slurm placed get pool devices; set "
				"spec.schedulerName to the SlurmCluster's scheduler (\"tandem\")",
				scheduler ? scheduler : "");
		return 0;
	}

	// Controllers copy templates into pods with their own rights, so what a user may not write
	// into a pod is refused in a template too.
	if (is(k, "apps", "deployments") || is(k, "apps", "replicasets") || is(k, "apps", "statefulsets") ||
	    is(k, "batch", "jobs"))
		return grant_check(q, old, o, name, true, r);

	return 0;
}

// ---- pods ----
static int priority(struct td_req *q, yyjson_mut_doc *d, yyjson_mut_val *o, const char *name, struct td_refusal *r)
{
	struct td_table *t = td_store_table(q->s->store, "scheduling.k8s.io", "priorityclasses");
	const char *class = td_jm_getstr(o, "spec.priorityClassName");
	td_auto(td_item_unref) struct td_item *pc = NULL;

	if (class && *class) {
		pc = td_store_get(q->s->store, t, "", class);
		if (!pc)
			return td_srv_forbid(
				q, r, name,
				"no PriorityClass with name %s was found: create it, or correct spec.priorityClassName",
				class);
	} else {
		td_auto_items struct td_items l = {0};
		uint64_t rv;
		if (td_store_list(q->s->store, t, NULL, 0, &l, &rv, NULL) == 0)
			for (size_t i = 0; i < l.n && !pc; i++)
				if (td_jbool(td_item_root(l.v[i]), "globalDefault", false))
					pc = td_item_ref(l.v[i]);
		if (pc)
			td_jm_str(d, o, "spec.priorityClassName", pc->name);
	}

	long long value = pc ? td_jint(td_item_root(pc), "value", 0) : 0;
	yyjson_mut_val *given = td_jm_get(o, "spec.priority");
	if (given && !yyjson_mut_is_null(given) && yyjson_mut_get_sint(given) != value)
		return td_srv_forbid(q, r, name,
				     "the integer value of priority (%lld) must not be provided in pod spec; priority "
				     "admission controller computed %lld from the given PriorityClass name",
				     (long long)yyjson_mut_get_sint(given), value);

	td_jm_int(d, o, "spec.priority", value);
	if (!td_jm_get(o, "spec.preemptionPolicy"))
		td_jm_str(d, o, "spec.preemptionPolicy",
			  pc ? td_jstr_or(td_item_root(pc), "preemptionPolicy", "PreemptLowerPriority")
			     : "PreemptLowerPriority");

	return 0;
}

static bool same_requests(yyjson_mut_val *c, bool *any)
{
	static const char *const both[] = {"cpu", "memory"};
	bool guaranteed = true;
	for (size_t i = 0; i < TD_LEN(both); i++) {
		yyjson_mut_val *rq = td_jm_get(c, "resources.requests"), *lm = td_jm_get(c, "resources.limits");
		yyjson_mut_val *a = rq ? yyjson_mut_obj_get(rq, both[i]) : NULL,
			       *b = lm ? yyjson_mut_obj_get(lm, both[i]) : NULL;
		if (a || b)
			*any = true;
		if (!b || (a && !yyjson_mut_equals(a, b)))
			guaranteed = false;
	}
	return guaranteed;
}

static const char *qos(yyjson_mut_val *o)
{
	bool any = false, guaranteed = true;
	for (struct td_srv_container c = {.pod = o}; td_srv_container_next(&c);)
		if (!same_requests(c.is, &any))
			guaranteed = false;
	return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

// As admission plugin DefaultTolerationSeconds: adds tolerations for these two taints to a pod that
// has none, so that it stays on such a node for a while.
static void tolerations(yyjson_mut_doc *d, yyjson_mut_val *o)
{
	static const char *const keys[] = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"};
	yyjson_mut_val *list = td_jm_get(o, "spec.tolerations"), *t;
	bool said[TD_LEN(keys)] = {0};
	size_t i, n;

	if (list && !yyjson_mut_is_arr(list))
		return; // validation refuses it
	yyjson_mut_arr_foreach (list, i, n, t) {
		const char *key = td_jm_getstr(t, "key"), *effect = td_jm_getstr(t, "effect");
		for (size_t k = 0; k < TD_LEN(keys); k++)
			said[k] = said[k] || ((!key || !*key || !strcmp(key, keys[k])) &&
					      (!effect || !*effect || !strcmp(effect, "NoExecute")));
	}

	for (size_t k = 0; k < TD_LEN(keys); k++) {
		if (said[k])
			continue;
		t = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "spec.tolerations"));
		td_jm_str(d, t, "key", keys[k]);
		td_jm_str(d, t, "operator", "Exists");
		td_jm_str(d, t, "effect", "NoExecute");
		td_jm_int(d, t, "tolerationSeconds", 300);
	}
}

static int pod_create(struct td_req *q, yyjson_mut_doc *d, yyjson_mut_val *o, const char *name, struct td_refusal *r)
{
	int rc = priority(q, d, o, name, r);
	if (rc < 0 || (rc = td_srv_filter(q, d, r)) < 0 || (rc = td_srv_users(q, d, r)) < 0 ||
	    (rc = td_srv_disk(q, d, r)) < 0 || (rc = td_srv_identity(q, d, r)) < 0)
		return rc;
	td_srv_through(q, d);
	td_jm_str(d, o, "status.phase", "Pending");
	td_jm_str(d, o, "status.qosClass", qos(o));
	if (yyjson_mut_arr_size(td_jm_get(o, "spec.schedulingGates"))) {
		yyjson_mut_val *c = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "status.conditions"));
		td_jm_str(d, c, "type", "PodScheduled");
		td_jm_str(d, c, "status", "False");
		td_jm_str(d, c, "reason", "SchedulingGated");
		td_jm_str(d, c, "message", "Scheduling is blocked due to non-empty scheduling gates");
	}
	return td_account_admit(q, d, name, r);
}

// ---- the others ----
// Does not replace a label that is there: validation refuses a wrong one.
static void add_label(yyjson_mut_doc *d, yyjson_mut_val *labels, const char *key, const char *value)
{
	if (yyjson_mut_is_obj(labels) && !yyjson_mut_obj_get(labels, key))
		td_jm_key_str(d, labels, key, value);
}

static void job_create(yyjson_mut_doc *d, yyjson_mut_val *o, const char *name)
{
	yyjson_mut_val *manual = td_jm_get(o, "spec.manualSelector");
	if (manual && yyjson_mut_get_bool(manual))
		return;
	const char *uid = td_jm_getstr(o, "metadata.uid");
	yyjson_mut_val *labels = td_jm_obj(d, o, "spec.template.metadata.labels");
	add_label(d, labels, "batch.kubernetes.io/controller-uid", uid);
	add_label(d, labels, "batch.kubernetes.io/job-name", name);
	add_label(d, labels, "controller-uid", uid);
	add_label(d, labels, "job-name", name);
	add_label(d, td_jm_obj(d, o, "spec.selector.matchLabels"), "batch.kubernetes.io/controller-uid", uid);
}

static void secret_data(yyjson_mut_doc *d, yyjson_mut_val *o)
{
	yyjson_mut_val *plain = td_jm_get(o, "stringData"), *key, *v;
	size_t i, n;
	if (!plain)
		return;
	yyjson_mut_obj_foreach (plain, i, n, key, v) {
		td_auto_buf struct td_buf b = {0};
		if (!yyjson_mut_is_str(v))
			continue; // validation refuses it
		td_base64(&b, yyjson_mut_get_str(v), yyjson_mut_get_len(v));
		td_jm_key_str(d, td_jm_obj(d, o, "data"), yyjson_mut_get_str(key), td_buf_str(&b));
	}
	td_jm_del(o, "stringData");
}

static int secret(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, yyjson_mut_val *o, const char *name,
		  struct td_refusal *r)
{
	static const char token[] = "kubernetes.io/service-account-token";
	if (!old && td_streq(td_jm_getstr(o, "type"), token)) {
		td_cause_add(&r->causes, "FieldValueNotSupported", "type",
			     "Unsupported value: \"%s\": the embedded API makes no tokens that never end: use `kubectl "
			     "create token`, or spec.volumes[].projected.sources[].serviceAccountToken in the pod",
			     token);
		return td_refuse_invalid(r, "", "Secret", name);
	}
	secret_data(d, o);
	return 0;
}

static int service(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, yyjson_mut_val *o, const char *name,
		   struct td_refusal *r)
{
	bool create = !old;
	const char *type = td_jm_getstr(o, "spec.type"), *ip = td_jm_getstr(o, "spec.clusterIP");
	if (type && !strcmp(type, "ExternalName"))
		return 0;

	// There is no service proxy: names resolve to the pods themselves.
	if (create && (!ip || !*ip)) {
		td_jm_str(d, o, "spec.clusterIP", "None");
		td_reply_warn(
			q,
			"services \"%s\": the embedded API has headless services only, spec.clusterIP was set to None",
			name);
	} else if (old && ip && td_streq(ip, td_jstr(td_item_root(old), "spec.clusterIP"))) {
		return 0; // default/kubernetes has an address
	} else if (ip && *ip && strcmp(ip, "None") != 0) {
		td_cause_add(&r->causes, "FieldValueInvalid", "spec.clusterIP",
			     "Invalid value: \"%.64s\": the embedded API has headless services only: leave it out or "
			     "write None",
			     ip);
		return td_refuse_invalid(r, "", "Service", name);
	}

	if (!td_jm_get(o, "spec.clusterIPs")) {
		yyjson_mut_val *a = td_jm_arr(d, o, "spec.clusterIPs");
		yyjson_mut_arr_add_str(d, a, "None");
	}

	return 0;
}

static void namespace_create(yyjson_mut_doc *d, yyjson_mut_val *o, const char *name)
{
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), "kubernetes.io/metadata.name", name);
	yyjson_mut_val *f = td_jm_arr(d, o, "spec.finalizers");
	if (!yyjson_mut_arr_size(f))
		yyjson_mut_arr_add_str(d, f, "kubernetes");
	td_jm_str(d, o, "status.phase", "Active");
}

// Warns of a label that restricts pods on other clusters and has no effect here.
static void pod_security(struct td_req *q, const struct td_item *old, yyjson_mut_val *o, const char *name)
{
	static const char key[] = "pod-security.kubernetes.io/enforce";
	yyjson_mut_val *labels = td_jm_get(o, "metadata.labels"), *v = labels ? yyjson_mut_obj_get(labels, key) : NULL;
	const char *level = v ? yyjson_mut_get_str(v) : NULL;
	if (!level || !strcmp(level, "privileged") ||
	    (old && td_streq(td_jkey_str(td_jget(td_item_root(old), "metadata.labels"), key), level)))
		return;
	td_reply_warn(q,
		      "namespaces \"%s\": the embedded API does not enforce pod security: with %s=%.40s pods are not "
		      "refused here (docs/SECURITY.md)",
		      name, key, level);
}

int td_admit_grants(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	const char *name = td_jm_getstr(o, "metadata.name");
	td_srv_maker(q, old, d);
	int rc = q->k->builtin ? grants(q, old, o, name ? name : "", r) : 0;
	return rc < 0 || !q->k->builtin ? rc : td_srv_whose(q, old, d, r);
}

int td_admit(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r)
{
	const struct td_kind *k = q->k;
	td_srv_maker(q, old, d);
	if (!k->builtin)
		return 0;

	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	const char *name = td_jm_getstr(o, "metadata.name");
	if (!name)
		name = "";

	int rc = grants(q, old, o, name, r);
	if (rc < 0 || (rc = td_srv_whose(q, old, d, r)) < 0 || (rc = td_srv_networks(q, old, d, r)) < 0 ||
	    (rc = td_srv_grant_check(q, old, d, r)) < 0)
		return rc;

	if (is(k, "", "pods") && old && (rc = td_srv_identity_kept(q, old, d, r)) < 0)
		return rc;
	if (is(k, "", "pods"))
		tolerations(d, o);
	if (is(k, "", "pods") && !old)
		return pod_create(q, d, o, name, r);
	if (is(k, "", "secrets"))
		return secret(q, old, d, o, name, r);
	if (is(k, "", "services"))
		return service(q, old, d, o, name, r);
	if (is(k, "", "namespaces"))
		pod_security(q, old, o, name);

	if (is(k, "batch", "jobs") && !old)
		job_create(d, o, name);
	else if (is(k, "", "namespaces") && !old)
		namespace_create(d, o, name);
	else if (is(k, "", "namespaces") && old && td_jget(td_item_root(old), "spec.finalizers"))
		// spec.finalizers changes only through the finalize subresource.
		td_jm_copyval(d, o, "spec.finalizers", td_jget(td_item_root(old), "spec.finalizers"));

	return 0;
}
