// The cells of built-in kinds (cells.h). Their rules are those of
// kubernetes/pkg/printers/internalversion.
#include "apiserver/cells.h"

#include "api/condition.h"
#include "api/selector.h"
#include "base/clock.h"

#include <string.h>

void td_cell_str(struct td_buf *out, const char *s)
{
	td_buf_putc(out, '"');
	for (const unsigned char *p = (const unsigned char *)(s ? s : ""); *p; p++) {
		if (*p == '"' || *p == '\\')
			td_buf_printf(out, "\\%c", *p);
		else if (*p == '\n')
			td_buf_puts(out, "\\n");
		else if (*p < 0x20)
			td_buf_printf(out, "\\u%04x", *p);
		else
			td_buf_putc(out, (char)*p);
	}
	td_buf_putc(out, '"');
}

void td_cell_age(struct td_buf *out, const char *since, int64_t now)
{
	char b[32];
	int64_t t;
	bool known = since && td_time_parse(since, &t) == 0;
	td_cell_str(out, known ? td_time_age(now - t < 0 ? 0 : now - t, b, sizeof(b)) : "<unknown>");
}

// ---- cells by what they read ----
void td_cell_text(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	const char *s = *c->path ? td_jstr(o, c->path) : NULL;
	td_cell_str(out, s && *s ? s : c->other);
}

void td_cell_since(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_cell_age(out, td_jstr(o, "metadata.creationTimestamp"), now);
}

static void number(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_buf_printf(out, "%lld", td_jint(o, c->path, 0));
}

static void flag(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_buf_puts(out, td_jbool(o, c->path, false) ? "true" : "false");
}

// "1/3": the numbers at path and at other.
static void share(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_buf_printf(out, "\"%lld/%lld\"", td_jint(o, c->path, 0), td_jint(o, c->other, 0));
}

// The number of entries at path and at other together.
static void entries(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	const char *const paths[] = {c->path, c->other};
	size_t n = 0;
	for (size_t i = 0; i < TD_LEN(paths); i++)
		if (paths[i])
			n += yyjson_get_len(td_jget(o, paths[i]));
	td_buf_printf(out, "%zu", n);
}

// A number, a percentage, or "N/A".
static void limit(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	yyjson_val *v = td_jget(o, c->path);
	if (yyjson_is_int(v))
		td_buf_printf(out, "\"%lld\"", (long long)yyjson_get_sint(v));
	else
		td_cell_str(out, yyjson_is_str(v) ? yyjson_get_str(v) : "N/A");
}

static void selector(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	yyjson_val *v = td_jget(o, "spec.selector");
	td_auto(td_selector_free) struct td_selector *s = NULL;
	td_auto_free char *text = NULL;
	if (v && td_selector_from_object(v, &s, NULL) == 0)
		text = td_selector_text(s);
	td_cell_str(out, text && *text ? text : "<none>");
}

// The field `path` of every container in the pod template.
static void containers(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_auto_buf struct td_buf b = {0};
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, "spec.template.spec.containers"), i, n, v)
		td_buf_printf(&b, "%s%s", i ? "," : "", td_jstr_or(v, c->path, ""));
	td_cell_str(out, td_buf_str(&b));
}

// ---- nodes ----
static void node_status(const struct td_cellspec *spec, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	const char *ready = !td_condition(o, "Ready")       ? "Unknown"
			    : td_condition_true(o, "Ready") ? "Ready"
							    : "NotReady";
	td_buf_printf(out, "\"%s%s\"", ready, td_jbool(o, "spec.unschedulable", false) ? ",SchedulingDisabled" : "");
}

static void node_roles(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	static const char prefix[] = "node-role.kubernetes.io/";
	td_auto_buf struct td_buf roles = {0};
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach (td_jget(o, "metadata.labels"), i, n, k, v) {
		const char *s = yyjson_get_str(k);
		if (td_starts(s, prefix) && s[sizeof(prefix) - 1])
			td_buf_printf(&roles, "%s%s", roles.len ? "," : "", s + sizeof(prefix) - 1);
	}
	td_cell_str(out, roles.len ? td_buf_str(&roles) : "<none>");
}

static void address(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	const char *found = "<none>";
	yyjson_val *a;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, "status.addresses"), i, n, a)
		if (td_streq(td_jstr(a, "type"), c->path)) {
			found = td_jstr_or(a, "address", found);
			break;
		}
	td_cell_str(out, found);
}

// ---- jobs ----
static void job_status(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	static const char *const before[] = {"Complete", "Failed"}, *const after[] = {"Suspended", "FailureTarget",
										      "SuccessCriteriaMet"};
	const char *s = td_jget(o, "metadata.deletionTimestamp") ? "Terminating" : NULL;
	for (size_t i = 0; !s && i < TD_LEN(after); i++)
		s = td_condition_true(o, after[i]) ? after[i] : NULL;
	for (size_t i = TD_LEN(before); i-- > 0;)
		s = td_condition_true(o, before[i]) ? before[i] : s;
	td_cell_str(out, s ? s : "Running");
}

static void job_completions(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	long long done = td_jint(o, "status.succeeded", 0), par = td_jint(o, "spec.parallelism", 1);
	if (td_jget(o, "spec.completions"))
		td_buf_printf(out, "\"%lld/%lld\"", done, td_jint(o, "spec.completions", 0));
	else if (par > 1)
		td_buf_printf(out, "\"%lld/1 of %lld\"", done, par);
	else
		td_buf_printf(out, "\"%lld/1\"", done);
}

static void job_duration(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	char b[32] = "";
	int64_t s, e = now;
	const char *st = td_jstr(o, "status.startTime"), *ct = td_jstr(o, "status.completionTime");
	if (st && td_time_parse(st, &s) == 0 && (!ct || td_time_parse(ct, &e) == 0))
		td_time_age(e - s < 0 ? 0 : e - s, b, sizeof(b));
	td_cell_str(out, b);
}

// ---- services ----
static void ports(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_auto_buf struct td_buf b = {0};
	yyjson_val *p;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, "spec.ports"), i, n, p)
		td_buf_printf(&b, "%s%lld/%s", i ? "," : "", td_jint(p, "port", 0), td_jstr_or(p, "protocol", "TCP"));
	td_cell_str(out, b.len ? td_buf_str(&b) : "<none>");
}

static void pairs(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_auto_buf struct td_buf b = {0};
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach (td_jget(o, c->path), i, n, k, v)
		td_buf_printf(&b, "%s%s=%s", i ? "," : "", yyjson_get_str(k),
			      yyjson_is_str(v) ? yyjson_get_str(v) : "");
	td_cell_str(out, b.len ? td_buf_str(&b) : "<none>");
}

// ---- events ----
// The age since the first of these times that is set: other (of a series), path, eventTime, the
// creation.
static void event_seen(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	const char *const paths[] = {c->other, c->path, "eventTime", "metadata.creationTimestamp"};
	const char *s = NULL;
	for (size_t i = 0; i < TD_LEN(paths) && (!s || !*s); i++)
		s = paths[i] ? td_jstr(o, paths[i]) : NULL;
	td_cell_age(out, s, now);
}

static void event_object(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_auto_free char *s = td_asprintf("%s/%s", td_jstr_or(o, "involvedObject.kind", ""),
					   td_jstr_or(o, "involvedObject.name", ""));
	for (char *p = s; *p && *p != '/'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p + 32);
	td_cell_str(out, s);
}

static void event_source(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	const char *from = td_jstr_or(o, "source.component", ""), *host = td_jstr_or(o, "source.host", "");
	td_auto_free char *s =
		td_asprintf("%s%s%s", *from ? from : td_jstr_or(o, "reportingComponent", ""), *host ? ", " : "", host);
	td_cell_str(out, s);
}

static void event_count(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_buf_printf(out, "\"%lld\"", td_jint(o, "series.count", td_jint(o, "count", 1)));
}

// "RWO,RWX"
static void claim_modes(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	static const char *const words[][2] = {{"ReadWriteOnce", "RWO"},
					       {"ReadOnlyMany", "ROX"},
					       {"ReadWriteMany", "RWX"},
					       {"ReadWriteOncePod", "RWOP"}};
	td_auto_buf struct td_buf b = {0};
	yyjson_val *list = td_jget(o, c->path), *m;
	size_t i, n;
	for (size_t k = 0; k < TD_LEN(words); k++)
		yyjson_arr_foreach (list, i, n, m)
			if (td_streq(yyjson_get_str(m), words[k][0])) {
				td_buf_printf(&b, "%s%s", b.len ? "," : "", words[k][1]);
				break;
			}
	td_cell_str(out, td_buf_str(&b));
}

// ---- the columns ----
#define NAME TD_CELL_NAME
#define AGE TD_CELL_AGE
#define CONTAINERS {"Containers", "string", "", "Names of each container in the template.", 1, containers, "name", NULL}
#define IMAGES                                                                                                         \
	{"Images", "string", "", "Images referenced by each container in the template.", 1, containers, "image", NULL}
#define SELECTOR {"Selector", "string", "", "Label selector for its pods.", 1, selector, NULL, NULL}
#define READY                                                                                                          \
	{"Ready", "string", "", "Number of the pod with ready state", 0, share, "status.readyReplicas", "spec.replicas"}
#define UNKNOWN "<unknown>"
#define NODEINFO "status.nodeInfo."

// clang-format off
static const struct td_cellspec nodes[] = {
	NAME,
	{"Status", "string", "", "The status of the node.", 0, node_status, NULL, NULL},
	{"Roles", "string", "", "The roles of the node.", 0, node_roles, NULL, NULL},
	AGE,
	{"Version", "string", "", "Version of its kubelet.", 0, td_cell_text, NODEINFO "kubeletVersion", NULL},
	{"Internal-IP", "string", "", "Its address.", 1, address, "InternalIP", NULL},
	{"External-IP", "string", "", "Its outer address.", 1, address, "ExternalIP", NULL},
	{"OS-Image", "string", "", "Operating system.", 1, td_cell_text, NODEINFO "osImage", UNKNOWN},
	{"Kernel-Version", "string", "", "Kernel.", 1, td_cell_text, NODEINFO "kernelVersion", UNKNOWN},
	{"Container-Runtime", "string", "", "Runtime.", 1, td_cell_text, NODEINFO "containerRuntimeVersion", UNKNOWN},
	{0},
};
static const struct td_cellspec deployments[] = {
	NAME, READY,
	{"Up-to-date", "string", "", "Pods of the newest template.", 0, number, "status.updatedReplicas", NULL},
	{"Available", "string", "", "Pods ready long enough.", 0, number, "status.availableReplicas", NULL},
	AGE, CONTAINERS, IMAGES, SELECTOR, {0},
};
static const struct td_cellspec replicasets[] = {
	NAME,
	{"Desired", "integer", "", "Pods wanted.", 0, number, "spec.replicas", NULL},
	{"Current", "integer", "", "Pods there.", 0, number, "status.replicas", NULL},
	{"Ready", "integer", "", "Pods ready.", 0, number, "status.readyReplicas", NULL},
	AGE, CONTAINERS, IMAGES, SELECTOR, {0},
};
static const struct td_cellspec statefulsets[] = {NAME, READY, AGE, CONTAINERS, IMAGES, {0}};
static const struct td_cellspec jobs[] = {
	NAME,
	{"Status", "string", "", "Status of the job.", 0, job_status, NULL, NULL},
	{"Completions", "string", "", "Done of wanted.", 0, job_completions, NULL, NULL},
	{"Duration", "string", "", "How long it ran.", 0, job_duration, NULL, NULL},
	AGE, CONTAINERS, IMAGES, SELECTOR, {0},
};
static const struct td_cellspec services[] = {
	NAME,
	{"Type", "string", "", "How it is reached.", 0, td_cell_text, "spec.type", "ClusterIP"},
	{"Cluster-IP", "string", "", "Its address.", 0, td_cell_text, "spec.clusterIP", "<none>"},
	{"External-IP", "string", "", "Its outer address.", 0, td_cell_text, "spec.externalName", "<none>"},
	{"Port(s)", "string", "", "Its ports.", 0, ports, NULL, NULL},
	AGE,
	{"Selector", "string", "", "Label selector for its pods.", 1, pairs, "spec.selector", NULL},
	{0},
};
static const struct td_cellspec configmaps[] = {
	NAME,
	{"Data", "string", "", "Number of entries.", 0, entries, "data", "binaryData"},
	AGE, {0}
};
static const struct td_cellspec secrets[] = {
	NAME,
	{"Type", "string", "", "What is in it.", 0, td_cell_text, "type", "Opaque"},
	{"Data", "string", "", "Number of entries.", 0, entries, "data", NULL},
	AGE, {0},
};
static const struct td_cellspec serviceaccounts[] = {
	NAME,
	{"Secrets", "string", "", "Number of its secrets.", 0, entries, "secrets", NULL},
	AGE, {0}
};
static const struct td_cellspec namespaces[] = {
	NAME,
	{"Status", "string", "", "The status of the namespace.", 0, td_cell_text, "status.phase", "Active"},
	AGE, {0}
};
static const struct td_cellspec claims[] = {
	NAME,
	{"Status", "string", "", "Whether it is bound.", 0, td_cell_text, "status.phase", NULL},
	{"Volume", "string", "", "What it is bound to.", 0, td_cell_text, "spec.volumeName", NULL},
	{"Capacity", "string", "", "How much it holds.", 0, td_cell_text, "status.capacity.storage", NULL},
	{"Access Modes", "string", "", "From where it can be used.", 0, claim_modes, "status.accessModes", NULL},
	{"StorageClass", "string", "", "Class of the storage.", 0, td_cell_text, "spec.storageClassName", NULL},
	{"VolumeAttributesClass", "string", "", "Class of attributes.", 0, td_cell_text,
	 "spec.volumeAttributesClassName", "<unset>"},
	AGE,
	{"VolumeMode", "string", "", "Directory or block device.", 1, td_cell_text, "spec.volumeMode", NULL},
	{0},
};
static const struct td_cellspec leases[] = {
	NAME,
	{"Holder", "string", "", "Who holds it.", 0, td_cell_text, "spec.holderIdentity", NULL},
	AGE, {0}
};
static const struct td_cellspec priorityclasses[] = {
	NAME,
	{"Value", "integer", "", "Its priority.", 0, number, "value", NULL},
	{"Global-Default", "boolean", "", "For pods that name none.", 0, flag, "globalDefault", NULL},
	AGE,
	{"PreemptionPolicy", "string", "", "Whether it preempts.", 0, td_cell_text, "preemptionPolicy",
	 "PreemptLowerPriority"},
	{0},
};
static const struct td_cellspec budgets[] = {
	NAME,
	{"Min Available", "string", "", "Pods that must stay healthy.", 0, limit, "spec.minAvailable", NULL},
	{"Max Unavailable", "string", "", "Pods that may be missing.", 0, limit, "spec.maxUnavailable", NULL},
	{"Allowed Disruptions", "integer", "", "Evictions that are allowed now.", 0, number,
	 "status.disruptionsAllowed", NULL},
	AGE, {0},
};
static const struct td_cellspec crds[] = {
	NAME,
	{"Created At", "date", "", "When it was created.", 0, td_cell_text, "metadata.creationTimestamp", NULL},
	{0}
};
static const struct td_cellspec events[] = {
	{"Last Seen", "string", "", "When it happened last.", 0, event_seen, "lastTimestamp",
	 "series.lastObservedTime"},
	{"Type", "string", "", "Normal or Warning.", 0, td_cell_text, "type", NULL},
	{"Reason", "string", "", "What, in one word.", 0, td_cell_text, "reason", NULL},
	{"Object", "string", "", "To what.", 0, event_object, NULL, NULL},
	{"Subobject", "string", "", "To which part.", 1, td_cell_text, "involvedObject.fieldPath", NULL},
	{"Source", "string", "", "Who says so.", 1, event_source, NULL, NULL},
	{"Message", "string", "", "What, in words.", 0, td_cell_text, "message", NULL},
	{"First Seen", "string", "", "When it happened first.", 1, event_seen, "firstTimestamp", NULL},
	{"Count", "string", "", "How often.", 1, event_count, NULL, NULL},
	{"Name", "string", "name", "Name of the event.", 1, td_cell_text, "metadata.name", NULL},
	{0},
};
// clang-format on

static const struct td_celltable tables[] = {
	{"", "pods", td_pod_cells},
	{"", "nodes", nodes},
	{"apps", "deployments", deployments},
	{"apps", "replicasets", replicasets},
	{"apps", "statefulsets", statefulsets},
	{"batch", "jobs", jobs},
	{"", "services", services},
	{"", "configmaps", configmaps},
	{"", "secrets", secrets},
	{"", "serviceaccounts", serviceaccounts},
	{"", "namespaces", namespaces},
	{"", "persistentvolumeclaims", claims},
	{"", "events", events},
	{"coordination.k8s.io", "leases", leases},
	{"scheduling.k8s.io", "priorityclasses", priorityclasses},
	{"policy", "poddisruptionbudgets", budgets},
	{"apiextensions.k8s.io", "customresourcedefinitions", crds},
	{"rbac.authorization.k8s.io", "roles", td_role_cells},
	{"rbac.authorization.k8s.io", "clusterroles", td_role_cells},
	{"rbac.authorization.k8s.io", "rolebindings", td_binding_cells},
	{"rbac.authorization.k8s.io", "clusterrolebindings", td_binding_cells},
	{"", "endpoints", td_endpoints_cells},
	{"discovery.k8s.io", "endpointslices", td_slice_cells},
};

const struct td_celltable *td_cells_find(const char *group, const char *plural)
{
	for (size_t i = 0; i < TD_LEN(tables); i++)
		if (!strcmp(tables[i].group, group) && !strcmp(tables[i].plural, plural))
			return &tables[i];
	return NULL;
}
