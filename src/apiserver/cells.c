// Cells: see cells.h. The rules are those of kubernetes/pkg/printers/internalversion.
#include "apiserver/cells.h"

#include "api/selector.h"
#include "base/clock.h"

#include <stdio.h>
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

static void age_text(const char *since, int64_t now, char *buf, size_t n)
{
	int64_t t;
	if (!since || td_time_parse(since, &t) < 0)
		snprintf(buf, n, "<unknown>");
	else
		td_time_age(now - t < 0 ? 0 : now - t, buf, n);
}

void td_cell_age(struct td_buf *out, const char *since, int64_t now)
{
	char b[32];
	age_text(since, now, b, sizeof(b));
	td_cell_str(out, b);
}

static void sep(struct td_buf *out)
{
	td_buf_putc(out, ',');
}
static void str(struct td_buf *out, const char *s)
{
	td_cell_str(out, s);
}
static void str_sep(struct td_buf *out, const char *s)
{
	td_cell_str(out, s);
	sep(out);
}
static void int_sep(struct td_buf *out, long long n)
{
	td_buf_printf(out, "%lld,", n);
}
static void name_sep(const yyjson_val *o, struct td_buf *out)
{
	str_sep(out, td_jstr_or(o, "metadata.name", ""));
}
static void age(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_cell_age(out, td_jstr(o, "metadata.creationTimestamp"), now);
}

static void containers(const yyjson_val *list, const char *field, struct td_buf *out)
{
	td_auto_buf struct td_buf b = {0};
	yyjson_val *c;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)list, i, n, c)
		td_buf_printf(&b, "%s%s", i ? "," : "", td_jstr_or(c, field, ""));
	str(out, td_buf_str(&b));
}

static void selector(const yyjson_val *v, struct td_buf *out)
{
	td_auto(td_selector_free) struct td_selector *s = NULL;
	td_auto_free char *text = NULL;
	if (v && td_selector_from_object(v, &s, NULL) == 0)
		text = td_selector_text(s);
	str(out, text && *text ? text : "<none>");
}

// ---- pods ----
static const struct td_cellspec pod_cols[] = {
	{"Name", "string", "name", "Name must be unique within a namespace.", 0},
	{"Ready", "string", "", "The aggregate readiness state of this pod for accepting traffic.", 0},
	{"Status", "string", "", "The aggregate status of the containers in this pod.", 0},
	{"Restarts", "string", "",
	 "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.", 0},
	{"Age", "string", "", "When the object was created.", 0},
	{"IP", "string", "", "The pod's address.", 1},
	{"Node", "string", "", "The node that the pod is on.", 1},
	{"Nominated Node", "string", "", "The node that the pod may get.", 1},
	{"Readiness Gates", "string", "", "Conditions that count for readiness.", 1},
	{0},
};

static bool container_ready(const yyjson_val *c)
{
	return td_jbool(c, "ready", false);
}

// The reason of the first init container that is not done; false: all are.
static bool init_reason(const yyjson_val *o, char *reason, size_t size)
{
	yyjson_val *list = td_jget(o, "status.initContainerStatuses"), *c;
	size_t i, n, total = yyjson_arr_size(td_jget(o, "spec.initContainers"));
	yyjson_arr_foreach (list, i, n, c) {
		yyjson_val *t = td_jget(c, "state.terminated");
		const char *why;
		if (t && td_jint(t, "exitCode", 0) == 0)
			continue;
		if (td_jbool(c, "started", false) && td_jget(c, "state.running")) // a sidecar
			continue;
		if (t) {
			why = td_jstr_or(t, "reason", "");
			if (*why)
				snprintf(reason, size, "Init:%s", why);
			else if (td_jint(t, "signal", 0))
				snprintf(reason, size, "Init:Signal:%lld", td_jint(t, "signal", 0));
			else
				snprintf(reason, size, "Init:ExitCode:%lld", td_jint(t, "exitCode", 0));
		} else if ((why = td_jstr(c, "state.waiting.reason")) && *why && strcmp(why, "PodInitializing") != 0) {
			snprintf(reason, size, "Init:%s", why);
		} else {
			snprintf(reason, size, "Init:%zu/%zu", i, total);
		}
		return true;
	}
	return false;
}

static void pod_reason(const yyjson_val *o, char *reason, size_t size)
{
	yyjson_val *c;
	size_t i, n;
	const char *r = td_jstr(o, "status.reason");
	snprintf(reason, size, "%s", r && *r ? r : td_jstr_or(o, "status.phase", ""));
	yyjson_arr_foreach (td_jget(o, "status.conditions"), i, n, c)
		if (td_streq(td_jstr(c, "type"), "PodScheduled") && td_streq(td_jstr(c, "reason"), "SchedulingGated"))
			snprintf(reason, size, "SchedulingGated");
	bool initializing = init_reason(o, reason, size), running = false;
	yyjson_val *list = td_jget(o, "status.containerStatuses");
	for (i = initializing ? 0 : yyjson_arr_size(list); i-- > 0;) {
		c = yyjson_arr_get(list, i);
		yyjson_val *t = td_jget(c, "state.terminated");
		const char *w = td_jstr_or(c, "state.waiting.reason", ""), *tr = td_jstr_or(t, "reason", "");
		if (*w)
			snprintf(reason, size, "%s", w);
		else if (t && *tr)
			snprintf(reason, size, "%s", tr);
		else if (t && td_jint(t, "signal", 0))
			snprintf(reason, size, "Signal:%lld", td_jint(t, "signal", 0));
		else if (t)
			snprintf(reason, size, "ExitCode:%lld", td_jint(t, "exitCode", 0));
		else if (container_ready(c) && td_jget(c, "state.running"))
			running = true;
	}
	if (!strcmp(reason, "Completed") && running) {
		bool ready = false;
		yyjson_arr_foreach (td_jget(o, "status.conditions"), i, n, c)
			if (td_streq(td_jstr(c, "type"), "Ready") && td_streq(td_jstr(c, "status"), "True"))
				ready = true;
		snprintf(reason, size, "%s", ready ? "Running" : "NotReady");
	}
	const char *phase = td_jstr_or(o, "status.phase", "");
	if (td_jget(o, "metadata.deletionTimestamp")) {
		if (td_streq(r, "NodeLost"))
			snprintf(reason, size, "Unknown");
		else if (strcmp(phase, "Failed") && strcmp(phase, "Succeeded"))
			snprintf(reason, size, "Terminating");
	}
}

static void pod_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	char b[192], reason[128];
	yyjson_val *c, *list = td_jget(o, "status.containerStatuses");
	size_t i, n, ready = 0, total = yyjson_arr_size(td_jget(o, "spec.containers"));
	long long restarts = 0;
	int64_t last = 0, t;
	yyjson_arr_foreach (list, i, n, c) {
		ready += container_ready(c) && td_jget(c, "state.running");
		restarts += td_jint(c, "restartCount", 0);
		const char *f = td_jstr(c, "lastState.terminated.finishedAt");
		if (f && td_time_parse(f, &t) == 0 && t > last)
			last = t;
	}
	pod_reason(o, reason, sizeof(reason));
	name_sep(o, out);
	snprintf(b, sizeof(b), "%zu/%zu", ready, total);
	str_sep(out, b);
	str_sep(out, reason);
	if (restarts && last) {
		char a[32];
		td_time_age(now - last < 0 ? 0 : now - last, a, sizeof(a));
		snprintf(b, sizeof(b), "%lld (%s ago)", restarts, a);
	} else {
		snprintf(b, sizeof(b), "%lld", restarts);
	}
	str_sep(out, b);
	age(o, now, out);
	sep(out);
	const char *ip = td_jstr(o, "status.podIP"), *node = td_jstr(o, "spec.nodeName"), *nom = td_jstr(o, "status.nominatedNodeName");
	str_sep(out, ip && *ip ? ip : "<none>");
	str_sep(out, node && *node ? node : "<none>");
	str_sep(out, nom && *nom ? nom : "<none>");
	str(out, "<none>");
}

// ---- nodes ----
static const struct td_cellspec node_cols[] = {
	{"Name", "string", "name", "Name of the node.", 0},
	{"Status", "string", "", "The status of the node.", 0},
	{"Roles", "string", "", "The roles of the node.", 0},
	{"Age", "string", "", "When the object was created.", 0},
	{"Version", "string", "", "Version of its kubelet.", 0},
	{"Internal-IP", "string", "", "Its address.", 1},
	{"External-IP", "string", "", "Its outer address.", 1},
	{"OS-Image", "string", "", "Operating system.", 1},
	{"Kernel-Version", "string", "", "Kernel.", 1},
	{"Container-Runtime", "string", "", "Runtime.", 1},
	{0},
};

static const char *address(const yyjson_val *o, const char *type)
{
	yyjson_val *a;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, "status.addresses"), i, n, a)
		if (td_streq(td_jstr(a, "type"), type))
			return td_jstr_or(a, "address", "<none>");
	return "<none>";
}

static void node_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	yyjson_val *c, *k;
	size_t i, n;
	const char *ready = "Unknown";
	td_auto_buf struct td_buf roles = {0};
	yyjson_arr_foreach (td_jget(o, "status.conditions"), i, n, c)
		if (td_streq(td_jstr(c, "type"), "Ready"))
			ready = td_streq(td_jstr(c, "status"), "True") ? "Ready" : "NotReady";
	yyjson_obj_foreach (td_jget(o, "metadata.labels"), i, n, k, c) {
		const char *s = yyjson_get_str(k);
		if (td_starts(s, "node-role.kubernetes.io/") && s[24])
			td_buf_printf(&roles, "%s%s", roles.len ? "," : "", s + 24);
	}
	name_sep(o, out);
	char b[64];
	snprintf(b, sizeof(b), "%s%s", ready, td_jbool(o, "spec.unschedulable", false) ? ",SchedulingDisabled" : "");
	str_sep(out, b);
	str_sep(out, roles.len ? td_buf_str(&roles) : "<none>");
	age(o, now, out);
	sep(out);
	str_sep(out, td_jstr_or(o, "status.nodeInfo.kubeletVersion", ""));
	str_sep(out, address(o, "InternalIP"));
	str_sep(out, address(o, "ExternalIP"));
	str_sep(out, td_jstr_or(o, "status.nodeInfo.osImage", "<unknown>"));
	str_sep(out, td_jstr_or(o, "status.nodeInfo.kernelVersion", "<unknown>"));
	str(out, td_jstr_or(o, "status.nodeInfo.containerRuntimeVersion", "<unknown>"));
}

// ---- workloads ----
#define NAME {"Name", "string", "name", "Name must be unique within a namespace.", 0}
#define AGE {"Age", "string", "", "When the object was created.", 0}
#define TEMPLATE_COLS                                                                                                                      \
	{"Containers", "string", "", "Names of each container in the template.", 1},                                                       \
		{"Images", "string", "", "Images referenced by each container in the template.", 1}
#define SELECTOR {"Selector", "string", "", "Label selector for its pods.", 1}

static void template_cells(const yyjson_val *o, struct td_buf *out)
{
	yyjson_val *c = td_jget(o, "spec.template.spec.containers");
	sep(out);
	containers(c, "name", out);
	sep(out);
	containers(c, "image", out);
}

static const struct td_cellspec deploy_cols[] = {NAME,
						 {"Ready", "string", "", "Number of the pod with ready state", 0},
						 {"Up-to-date", "integer", "", "Pods of the newest template.", 0},
						 {"Available", "integer", "", "Pods ready long enough.", 0},
						 AGE,
						 TEMPLATE_COLS,
						 SELECTOR,
						 {0}};
static void deploy_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	char b[64];
	name_sep(o, out);
	snprintf(b, sizeof(b), "%lld/%lld", td_jint(o, "status.readyReplicas", 0), td_jint(o, "spec.replicas", 0));
	str_sep(out, b);
	int_sep(out, td_jint(o, "status.updatedReplicas", 0));
	int_sep(out, td_jint(o, "status.availableReplicas", 0));
	age(o, now, out);
	template_cells(o, out);
	sep(out);
	selector(td_jget(o, "spec.selector"), out);
}

static const struct td_cellspec rs_cols[] = {NAME,
					     {"Desired", "integer", "", "Pods wanted.", 0},
					     {"Current", "integer", "", "Pods there.", 0},
					     {"Ready", "integer", "", "Pods ready.", 0},
					     AGE,
					     TEMPLATE_COLS,
					     SELECTOR,
					     {0}};
static void rs_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	name_sep(o, out);
	int_sep(out, td_jint(o, "spec.replicas", 0));
	int_sep(out, td_jint(o, "status.replicas", 0));
	int_sep(out, td_jint(o, "status.readyReplicas", 0));
	age(o, now, out);
	template_cells(o, out);
	sep(out);
	selector(td_jget(o, "spec.selector"), out);
}

static const struct td_cellspec sts_cols[] = {
	NAME, {"Ready", "string", "", "Number of the pod with ready state", 0}, AGE, TEMPLATE_COLS, {0}};
static void sts_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	char b[64];
	name_sep(o, out);
	snprintf(b, sizeof(b), "%lld/%lld", td_jint(o, "status.readyReplicas", 0), td_jint(o, "spec.replicas", 0));
	str_sep(out, b);
	age(o, now, out);
	template_cells(o, out);
}

static const struct td_cellspec job_cols[] = {NAME,
					      {"Status", "string", "", "Status of the job.", 0},
					      {"Completions", "string", "", "Done of wanted.", 0},
					      {"Duration", "string", "", "How long it ran.", 0},
					      AGE,
					      TEMPLATE_COLS,
					      SELECTOR,
					      {0}};
static bool has_condition(const yyjson_val *o, const char *type)
{
	yyjson_val *c;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, "status.conditions"), i, n, c)
		if (td_streq(td_jstr(c, "type"), type) && td_streq(td_jstr(c, "status"), "True"))
			return true;
	return false;
}
static void job_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	char b[64];
	int64_t s, e = now;
	long long done = td_jint(o, "status.succeeded", 0), par = td_jint(o, "spec.parallelism", 1);
	name_sep(o, out);
	str_sep(out, has_condition(o, "Complete")               ? "Complete"
		     : has_condition(o, "Failed")               ? "Failed"
		     : td_jget(o, "metadata.deletionTimestamp") ? "Terminating"
		     : has_condition(o, "Suspended")            ? "Suspended"
		     : has_condition(o, "FailureTarget")        ? "FailureTarget"
		     : has_condition(o, "SuccessCriteriaMet")   ? "SuccessCriteriaMet"
								: "Running");
	if (td_jget(o, "spec.completions"))
		snprintf(b, sizeof(b), "%lld/%lld", done, td_jint(o, "spec.completions", 0));
	else if (par > 1)
		snprintf(b, sizeof(b), "%lld/1 of %lld", done, par);
	else
		snprintf(b, sizeof(b), "%lld/1", done);
	str_sep(out, b);
	const char *st = td_jstr(o, "status.startTime"), *ct = td_jstr(o, "status.completionTime");
	b[0] = 0;
	if (st && td_time_parse(st, &s) == 0 && (!ct || td_time_parse(ct, &e) == 0))
		td_time_age(e - s < 0 ? 0 : e - s, b, sizeof(b));
	str_sep(out, b);
	age(o, now, out);
	template_cells(o, out);
	sep(out);
	selector(td_jget(o, "spec.selector"), out);
}

// ---- services, configuration, the rest ----
static const struct td_cellspec svc_cols[] = {NAME,
					      {"Type", "string", "", "How it is reached.", 0},
					      {"Cluster-IP", "string", "", "Its address.", 0},
					      {"External-IP", "string", "", "Its outer address.", 0},
					      {"Port(s)", "string", "", "Its ports.", 0},
					      AGE,
					      SELECTOR,
					      {0}};
static void svc_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_auto_buf struct td_buf ports = {0}, sel = {0};
	yyjson_val *p, *k;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, "spec.ports"), i, n, p)
		td_buf_printf(&ports, "%s%lld/%s", i ? "," : "", td_jint(p, "port", 0), td_jstr_or(p, "protocol", "TCP"));
	yyjson_obj_foreach (td_jget(o, "spec.selector"), i, n, k, p)
		td_buf_printf(&sel, "%s%s=%s", i ? "," : "", yyjson_get_str(k), yyjson_is_str(p) ? yyjson_get_str(p) : "");
	name_sep(o, out);
	str_sep(out, td_jstr_or(o, "spec.type", "ClusterIP"));
	str_sep(out, td_jstr_or(o, "spec.clusterIP", "<none>"));
	str_sep(out, td_jstr_or(o, "spec.externalName", "<none>"));
	str_sep(out, ports.len ? td_buf_str(&ports) : "<none>");
	age(o, now, out);
	sep(out);
	str(out, sel.len ? td_buf_str(&sel) : "<none>");
}

static const struct td_cellspec cm_cols[] = {NAME, {"Data", "integer", "", "Number of entries.", 0}, AGE, {0}};
static void cm_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	name_sep(o, out);
	int_sep(out, (long long)(yyjson_obj_size(td_jget(o, "data")) + yyjson_obj_size(td_jget(o, "binaryData"))));
	age(o, now, out);
}

static const struct td_cellspec secret_cols[] = {
	NAME, {"Type", "string", "", "What is in it.", 0}, {"Data", "integer", "", "Number of entries.", 0}, AGE, {0}};
static void secret_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	name_sep(o, out);
	str_sep(out, td_jstr_or(o, "type", "Opaque"));
	int_sep(out, (long long)yyjson_obj_size(td_jget(o, "data")));
	age(o, now, out);
}

static const struct td_cellspec sa_cols[] = {NAME, {"Secrets", "string", "", "Number of its secrets.", 0}, AGE, {0}};
static void sa_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	name_sep(o, out);
	int_sep(out, (long long)yyjson_arr_size(td_jget(o, "secrets")));
	age(o, now, out);
}

static const struct td_cellspec ns_cols[] = {NAME, {"Status", "string", "", "The status of the namespace.", 0}, AGE, {0}};
static void ns_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	name_sep(o, out);
	str_sep(out, td_jstr_or(o, "status.phase", "Active"));
	age(o, now, out);
}

static const struct td_cellspec lease_cols[] = {NAME, {"Holder", "string", "", "Who holds it.", 0}, AGE, {0}};
static void lease_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	name_sep(o, out);
	str_sep(out, td_jstr_or(o, "spec.holderIdentity", ""));
	age(o, now, out);
}

static const struct td_cellspec pc_cols[] = {NAME,
					     {"Value", "integer", "", "Its priority.", 0},
					     {"Global-Default", "boolean", "", "For pods that name none.", 0},
					     AGE,
					     {"PreemptionPolicy", "string", "", "Whether it preempts.", 0},
					     {0}};
static void pc_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	name_sep(o, out);
	int_sep(out, td_jint(o, "value", 0));
	td_buf_puts(out, td_jbool(o, "globalDefault", false) ? "true," : "false,");
	age(o, now, out);
	sep(out);
	str(out, td_jstr_or(o, "preemptionPolicy", "PreemptLowerPriority"));
}

static const struct td_cellspec pdb_cols[] = {NAME,
					      {"Min Available", "string", "", "Pods that must stay healthy.", 0},
					      {"Max Unavailable", "string", "", "Pods that may be missing.", 0},
					      {"Allowed Disruptions", "integer", "", "Evictions that are allowed now.", 0},
					      AGE,
					      {0}};
static void pdb_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	static const char *const limits[] = {"spec.minAvailable", "spec.maxUnavailable"};
	name_sep(o, out);
	for (size_t i = 0; i < TD_LEN(limits); i++) {
		yyjson_val *v = td_jget(o, limits[i]);
		char b[32] = "N/A";
		if (yyjson_is_int(v))
			snprintf(b, sizeof(b), "%lld", (long long)yyjson_get_sint(v));
		str_sep(out, yyjson_is_str(v) ? yyjson_get_str(v) : b);
	}
	int_sep(out, td_jint(o, "status.disruptionsAllowed", 0));
	age(o, now, out);
}

static const struct td_cellspec crd_cols[] = {NAME, {"Created At", "date", "", "When it was created.", 0}, {0}};
static void crd_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	(void)now;
	name_sep(o, out);
	str(out, td_jstr_or(o, "metadata.creationTimestamp", ""));
}

static const struct td_cellspec event_cols[] = {
	{"Last Seen", "string", "", "When it happened last.", 0},
	{"Type", "string", "", "Normal or Warning.", 0},
	{"Reason", "string", "", "What, in one word.", 0},
	{"Object", "string", "", "To what.", 0},
	{"Subobject", "string", "", "To which part.", 1},
	{"Source", "string", "", "Who says so.", 1},
	{"Message", "string", "", "What, in words.", 0},
	{"First Seen", "string", "", "When it happened first.", 1},
	{"Count", "string", "", "How often.", 1},
	{"Name", "string", "name", "Name of the event.", 1},
	{0},
};
static const char *first_of(const yyjson_val *o, const char *a, const char *b, const char *c)
{
	const char *s = td_jstr(o, a);
	if (!s || !*s)
		s = td_jstr(o, b);
	if (!s || !*s)
		s = td_jstr(o, c);
	return s;
}
static void event_row(const yyjson_val *o, int64_t now, struct td_buf *out)
{
	char first[32], last[32], kind[128], b[512];
	long long count = td_jint(o, "series.count", td_jint(o, "count", 1));
	age_text(first_of(o, "firstTimestamp", "eventTime", "metadata.creationTimestamp"), now, first, sizeof(first));
	const char *l = td_jstr(o, "series.lastObservedTime");
	age_text(l ? l : first_of(o, "lastTimestamp", "eventTime", "metadata.creationTimestamp"), now, last, sizeof(last));
	snprintf(kind, sizeof(kind), "%s", td_jstr_or(o, "involvedObject.kind", ""));
	for (char *p = kind; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p + 32);
	str_sep(out, last);
	str_sep(out, td_jstr_or(o, "type", ""));
	str_sep(out, td_jstr_or(o, "reason", ""));
	snprintf(b, sizeof(b), "%s/%s", kind, td_jstr_or(o, "involvedObject.name", ""));
	str_sep(out, b);
	str_sep(out, td_jstr_or(o, "involvedObject.fieldPath", ""));
	const char *host = td_jstr_or(o, "source.host", "");
	const char *from = td_jstr_or(o, "source.component", "");
	snprintf(b, sizeof(b), "%s%s%s", *from ? from : td_jstr_or(o, "reportingComponent", ""), *host ? ", " : "", host);
	str_sep(out, b);
	str_sep(out, td_jstr_or(o, "message", ""));
	str_sep(out, first);
	snprintf(b, sizeof(b), "%lld", count);
	str_sep(out, b);
	str(out, td_jstr_or(o, "metadata.name", ""));
}

static const struct td_celltable tables[] = {
	{"", "pods", pod_cols, pod_row},
	{"", "nodes", node_cols, node_row},
	{"apps", "deployments", deploy_cols, deploy_row},
	{"apps", "replicasets", rs_cols, rs_row},
	{"apps", "statefulsets", sts_cols, sts_row},
	{"batch", "jobs", job_cols, job_row},
	{"", "services", svc_cols, svc_row},
	{"", "configmaps", cm_cols, cm_row},
	{"", "secrets", secret_cols, secret_row},
	{"", "serviceaccounts", sa_cols, sa_row},
	{"", "namespaces", ns_cols, ns_row},
	{"", "events", event_cols, event_row},
	{"coordination.k8s.io", "leases", lease_cols, lease_row},
	{"scheduling.k8s.io", "priorityclasses", pc_cols, pc_row},
	{"policy", "poddisruptionbudgets", pdb_cols, pdb_row},
	{"apiextensions.k8s.io", "customresourcedefinitions", crd_cols, crd_row},
};

const struct td_celltable *td_cells_find(const char *group, const char *plural)
{
	for (size_t i = 0; i < TD_LEN(tables); i++)
		if (!strcmp(tables[i].group, group) && !strcmp(tables[i].plural, plural))
			return &tables[i];
	return NULL;
}
