// Fields that are valid in Kubernetes but that embedded nodes and the embedded API do not serve.
// They are refused by name, with the alternative, so that nothing is ignored silently.
// t/test_openapi.py walks the fields of a real Kubernetes and knows for each whether it is served,
// has no effect by nature (imagePullSecrets: images are local), or is in this file.
#include "api/kinds_priv.h"

#include <string.h>

enum when { SET, IS_TRUE, NOT_ZERO, NOT_IN };
struct rule {
	// Below the spec. "[]" stands for each element, "*." for each container and init container
	// of a pod.
	const char *path;
	enum when when;
	// For NOT_IN: the values that are served, separated by blanks.
	const char *values;
	const char *why;
};

#define SCHED                                                                                                          \
	"the embedded scheduler places by requests, nodeSelector, required nodeAffinity, required podAntiAffinity by " \
	"kubernetes.io/hostname, taints and tolerations"
#define APART "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[]."
#define DRA "device claims need a real Kubernetes with DRA; here ask for nvidia.com/gpu under resources.limits"
#define VOL                                                                                                            \
	"embedded nodes have configMap, secret, downwardAPI, projected, emptyDir, hostPath and persistentVolumeClaim " \
	"volumes"
#define PROBE "embedded nodes have exec, httpGet (HTTP) and tcpSocket probes"
#define SC "securityContext."

static const struct rule pod_rules[] = {
	{"ephemeralContainers", SET, NULL, "use `kubectl exec` to look into a running container"},
	{"hostPID", IS_TRUE, NULL, "every container has its own process namespace"},
	{"hostIPC", IS_TRUE, NULL, "every container has its own IPC namespace"},
	{"shareProcessNamespace", IS_TRUE, NULL, "every container has its own process namespace"},
	{"hostAliases", SET, NULL, "pods of a namespace share one hosts file; use a headless Service or pod names"},
	{"hostnameOverride", SET, NULL, "use hostname"},
	{"runtimeClassName", SET, NULL, "there is one runtime, runc; leave it out"},
	{"overhead", SET, NULL, "there are no RuntimeClasses; leave it out"},
	{"os.name", NOT_IN, "linux", "embedded nodes run Linux"},
	{"resources", SET, NULL, "set the resources of each container"},
	{"resourceClaims", SET, NULL, DRA},
	{"affinity.podAffinity", SET, NULL, SCHED},
	{"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution", SET, NULL, SCHED},
	{APART "topologyKey", NOT_IN, "kubernetes.io/hostname", SCHED},
	{APART "namespaces", SET, NULL, "pods of other namespaces are not looked at; leave it out"},
	{APART "namespaceSelector", SET, NULL, "pods of other namespaces are not looked at; leave it out"},
	{APART "matchLabelKeys", SET, NULL, "write the labels into labelSelector"},
	{APART "mismatchLabelKeys", SET, NULL, "write the labels into labelSelector"},
	{"affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", SET, NULL, SCHED},
	{"topologySpreadConstraints", SET, NULL, SCHED},
	{SC "sysctls", SET, NULL, "kernel settings are those of the machine"},
	{SC "appArmorProfile.type", NOT_IN, "Unconfined", "embedded nodes have no AppArmor"},
	{SC "windowsOptions", SET, NULL, "embedded nodes run Linux"},
	{"*." SC "procMount", NOT_IN, "Default", "/proc is masked as usual; privileged: true unmasks it"},
	{"*." SC "appArmorProfile.type", NOT_IN, "Unconfined", "embedded nodes have no AppArmor"},
	{"*." SC "windowsOptions", SET, NULL, "embedded nodes run Linux"},
	{"*.env[].valueFrom.fileKeyRef", SET, NULL,
	 "variables come from value, configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef"},
	{"*.ports[].hostIP", SET, NULL,
	 "nodes forward no ports; the pod answers at its own address, also from this machine"},
	{"*.resources.claims", SET, NULL, DRA},
	{"*.restartPolicyRules", SET, NULL, "use the pod's restartPolicy"},
	{"*.volumeMounts[].recursiveReadOnly", NOT_IN, "Disabled", "use readOnly"},
	{"*.volumeMounts[].mountPropagation", NOT_IN, "None HostToContainer",
	 "mounts made inside a container stay there"},
	{"*.volumeDevices", SET, NULL, VOL},
	{"*.livenessProbe.grpc", SET, NULL, PROBE},
	{"*.readinessProbe.grpc", SET, NULL, PROBE},
	{"*.startupProbe.grpc", SET, NULL, PROBE},
	{"*.livenessProbe.httpGet.scheme", NOT_IN, "HTTP", PROBE},
	{"*.readinessProbe.httpGet.scheme", NOT_IN, "HTTP", PROBE},
	{"*.startupProbe.httpGet.scheme", NOT_IN, "HTTP", PROBE},
	{"*.lifecycle.stopSignal", SET, NULL, "containers are stopped by SIGTERM"},
	{"*.lifecycle.postStart.httpGet.scheme", NOT_IN, "HTTP",
	 "embedded nodes have exec, httpGet (HTTP) and sleep hooks"},
	{"*.lifecycle.preStop.httpGet.scheme", NOT_IN, "HTTP",
	 "embedded nodes have exec, httpGet (HTTP) and sleep hooks"},
	{"*.lifecycle.postStart.tcpSocket", SET, NULL, "embedded nodes have exec, httpGet (HTTP) and sleep hooks"},
	{"*.lifecycle.preStop.tcpSocket", SET, NULL, "embedded nodes have exec, httpGet (HTTP) and sleep hooks"},
	{"volumes[].emptyDir.medium", NOT_IN, "Memory", "use \"\" or Memory"},
	{"volumes[].projected.sources[].clusterTrustBundle", SET, NULL, "use a configMap source"},
	{"volumes[].projected.sources[].podCertificate", SET, NULL, "use a secret source"},
	{"volumes[].ephemeral", SET, NULL, VOL},
	{"volumes[].image", SET, NULL, VOL},
	{"volumes[].csi", SET, NULL, VOL},
	{"volumes[].nfs", SET, NULL, VOL "; /shared is the same on every node"},
	{"volumes[].iscsi", SET, NULL, VOL},
	{"volumes[].cephfs", SET, NULL, VOL},
	{"volumes[].rbd", SET, NULL, VOL},
	{"volumes[].fc", SET, NULL, VOL},
	{"volumes[].gitRepo", SET, NULL, VOL},
	{"volumes[].glusterfs", SET, NULL, VOL},
	{"volumes[].flexVolume", SET, NULL, VOL},
	{"volumes[].awsElasticBlockStore", SET, NULL, VOL},
	{"volumes[].gcePersistentDisk", SET, NULL, VOL},
	{"volumes[].azureDisk", SET, NULL, VOL},
	{"volumes[].azureFile", SET, NULL, VOL},
	{"volumes[].vsphereVolume", SET, NULL, VOL},
	{"volumes[].portworxVolume", SET, NULL, VOL},
	{"volumes[].cinder", SET, NULL, VOL},
	{"volumes[].flocker", SET, NULL, VOL},
	{"volumes[].photonPersistentDisk", SET, NULL, VOL},
	{"volumes[].quobyte", SET, NULL, VOL},
	{"volumes[].scaleIO", SET, NULL, VOL},
	{"volumes[].storageos", SET, NULL, VOL},
};

#define INDEXES "failures of the whole Job are counted: use backoffLimit"
#define HEADLESS "Services are headless here, names lead to the pods themselves"
static const struct rule job_rules[] = {
	{"backoffLimitPerIndex", SET, NULL, INDEXES},
	{"maxFailedIndexes", SET, NULL, INDEXES},
	{"podFailurePolicy", SET, NULL, "every failure counts: use backoffLimit and the pods' restartPolicy"},
	{"successPolicy", SET, NULL, "a Job is done when its completions are"},
	{0},
};
static const struct rule set_rules[] = {
	{"volumeClaimTemplates", SET, NULL,
	 "claims are not made for each pod; name a PersistentVolumeClaim, or an emptyDir, in "
	 "spec.template.spec.volumes"},
	{"updateStrategy.rollingUpdate.partition", NOT_ZERO, NULL,
	 "old templates are not kept; use updateStrategy OnDelete"},
	{0},
};
static const struct rule service_rules[] = {
	{"type", NOT_IN, "ClusterIP", HEADLESS "; kubectl port-forward reaches a pod from outside"},
	{"externalName", SET, NULL, HEADLESS},
	{"externalIPs", SET, NULL, HEADLESS},
	{"ports[].nodePort", SET, NULL, HEADLESS},
	{"sessionAffinity", NOT_IN, "None", HEADLESS},
	{"sessionAffinityConfig", SET, NULL, HEADLESS},
	{"externalTrafficPolicy", SET, NULL, HEADLESS},
	{"internalTrafficPolicy", NOT_IN, "Cluster", HEADLESS},
	{"trafficDistribution", SET, NULL, HEADLESS},
	{"ipFamilyPolicy", NOT_IN, "SingleStack", "pods have IPv4 addresses only"},
	{"ipFamilies[]", NOT_IN, "IPv4", "pods have IPv4 addresses only"},
	{"allocateLoadBalancerNodePorts", SET, NULL, HEADLESS},
	{"healthCheckNodePort", SET, NULL, HEADLESS},
	{"loadBalancerIP", SET, NULL, HEADLESS},
	{"loadBalancerClass", SET, NULL, HEADLESS},
	{"loadBalancerSourceRanges", SET, NULL, HEADLESS},
	{0},
};
#define CLAIMS "every claim is a directory of the one shared tree"
static const struct rule claim_rules[] = {
	{"storageClassName", NOT_IN, "shared", CLAIMS ": leave the field out, or write shared"},
	{"volumeMode", NOT_IN, "Filesystem", CLAIMS},
	{"volumeName", SET, NULL, "there are no PersistentVolumes: " CLAIMS},
	{"selector", SET, NULL, "there are no PersistentVolumes: " CLAIMS},
	{"dataSource", SET, NULL, "a new claim is empty: copy into it from a pod"},
	{"dataSourceRef", SET, NULL, "a new claim is empty: copy into it from a pod"},
	{"volumeAttributesClassName", SET, NULL, CLAIMS},
	{0},
};
static const struct rule lease_rules[] = {
	{"strategy", SET, NULL, "there is no coordinator; whoever takes the Lease holds it"},
	{"preferredHolder", SET, NULL, "there is no coordinator; whoever takes the Lease holds it"},
	{0},
};
static const struct rule crd_rules[] = {
	{"conversion.strategy", NOT_IN, "None", "every version must have the same fields"},
	{"conversion.webhook", SET, NULL, "every version must have the same fields"},
	{0},
};
static const struct {
	const char *group, *kind;
	const struct rule *rules;
	bool template;
} kind_rules[] = {
	{"apps", "Deployment", NULL, true},
	{"apps", "ReplicaSet", NULL, true},
	{"apps", "StatefulSet", set_rules, true},
	{"batch", "Job", job_rules, true},
	{"", "Service", service_rules, false},
	{"", "PersistentVolumeClaim", claim_rules, false},
	{"coordination.k8s.io", "Lease", lease_rules, false},
	{"apiextensions.k8s.io", "CustomResourceDefinition", crd_rules, false},
};

static bool one_of(const char *list, const char *s)
{
	size_t n = strlen(s);
	for (const char *p = list; *p; p += strcspn(p, " "), p += *p == ' ')
		if (strcspn(p, " ") == n && !strncmp(p, s, n))
			return true;
	return false;
}

static bool hit(const struct rule *r, const yyjson_val *v)
{
	yyjson_val *m = td_unconst(v);
	switch (r->when) {
	// An empty list or text means nothing; an empty object has a meaning.
	case SET:
		return !yyjson_is_null(m) && !(yyjson_is_arr(m) && !yyjson_arr_size(m)) &&
		       !(yyjson_is_str(m) && !yyjson_get_len(m));
	case IS_TRUE:
		return yyjson_is_true(m);
	case NOT_ZERO:
		return yyjson_get_sint(m) != 0;
	case NOT_IN:
		return yyjson_is_str(m) && yyjson_get_len(m) && !one_of(r->values, yyjson_get_str(m));
	}
	return false;
}

// Walks `path` down from v. `at` is the place of v in the object.
static void walk(const struct rule *r, const char *path, const yyjson_val *v, const char *by, struct td_buf *at,
		 struct td_causes *ret)
{
	if (!v)
		return;
	if (!*path) {
		if (!hit(r, v))
			return;
		td_auto_free char *text = yyjson_is_str(td_unconst(v))
						  ? td_asprintf(" %s", yyjson_get_str(td_unconst(v)))
						  : td_strdup("");
		td_cause_at(ret, "FieldValueForbidden", td_buf_str(at), "", "Forbidden:%s is not served by %s: %s",
			    text, by, r->why);
		return;
	}

	size_t len = at->len, n = strcspn(path, ".["), i, max;
	td_auto_free char *key = td_strndup(path, n);
	const yyjson_val *x = td_jkey(v, key);

	td_buf_printf(at, ".%s", key);
	path += n;
	if (td_starts(path, "[]")) {
		yyjson_val *e;
		path += path[2] == '.' ? 3 : 2;
		yyjson_arr_foreach (td_unconst(x), i, max, e) {
			size_t here = at->len;
			td_buf_printf(at, "[%zu]", i);
			walk(r, path, e, by, at, ret);
			td_path_cut(at, here);
		}
	} else {
		walk(r, *path == '.' ? path + 1 : path, x, by, at, ret);
	}
	td_path_cut(at, len);
}

static void container_rules(const yyjson_val *spec, const char *path, struct td_causes *ret)
{
	static const char *const lists[] = {"initContainers", "containers"};
	bool host = td_jbool(spec, "hostNetwork", false);
	size_t i, max, k, n;
	yyjson_val *c, *p;

	for (size_t l = 0; l < TD_LEN(lists); l++)
		yyjson_arr_foreach (td_jkey(spec, lists[l]), i, max, c) {
			td_auto_free char *f = td_asprintf("%s.%s[%zu]", path, lists[l], i);
			const char *restart = td_jstr(c, "restartPolicy");
			if (restart && (l || strcmp(restart, "Always")))
				td_cause_at(ret, "FieldValueForbidden", f, ".restartPolicy",
					    "Forbidden: %s is not served by embedded nodes: only init containers may "
					    "say Always; use the pod's restartPolicy",
					    restart);

			yyjson_arr_foreach (td_jkey(c, "ports"), k, n, p) {
				if (host || !td_jint(p, "hostPort", 0))
					continue;
				td_auto_free char *tail = td_asprintf(".ports[%zu].hostPort", k);
				td_cause_at(ret, "FieldValueForbidden", f, tail,
					    "Forbidden: is not served by embedded nodes: nodes forward no ports; the "
					    "pod answers at its own address, also from this machine");
			}
		}
}

static void podspec(const yyjson_val *spec, const char *path, struct td_causes *ret)
{
	td_auto_buf struct td_buf at = {0};

	for (size_t i = 0; i < TD_LEN(pod_rules); i++) {
		static const char *const lists[] = {"initContainers[].", "containers[]."};
		const struct rule *r = &pod_rules[i];
		bool both = td_starts(r->path, "*.");
		for (size_t l = 0; l < (both ? TD_LEN(lists) : 1); l++) {
			td_auto_free char *p = td_asprintf("%s%s", both ? lists[l] : "", r->path + (both ? 2 : 0));
			td_buf_reset(&at);
			td_buf_puts(&at, path);
			walk(r, p, spec, "embedded nodes", &at, ret);
		}
	}
	container_rules(spec, path, ret);
}

// Refuses CEL rules anywhere in the schemas of a CRD: accepted without being checked they would
// promise something that nobody enforces.
static void cel(const yyjson_val *v, struct td_buf *at, struct td_causes *ret)
{
	size_t i, max, len = at->len;
	yyjson_val *k, *x;
	if (yyjson_arr_size(td_jkey(v, "x-kubernetes-validations")))
		td_cause_at(ret, "FieldValueForbidden", td_buf_str(at), ".x-kubernetes-validations",
			    "Forbidden: is not served by the embedded API: rules in CEL are not checked here; use "
			    "pattern, enum, minimum and the like");

	yyjson_arr_foreach (td_unconst(v), i, max, x) {
		td_buf_printf(at, "[%zu]", i);
		cel(x, at, ret);
		td_path_cut(at, len);
	}
	yyjson_obj_foreach (td_unconst(v), i, max, k, x) {
		td_api_path_key(at, td_keystr(k));
		cel(x, at, ret);
		td_path_cut(at, len);
	}
}

static void object(const struct td_kind *k, const yyjson_val *obj, struct td_causes *ret)
{
	const yyjson_val *spec = td_jkey(obj, "spec");
	td_auto_buf struct td_buf at = {0};
	if (!*k->group && !strcmp(k->kind, "Pod"))
		podspec(spec, "spec", ret);
	for (size_t i = 0; i < TD_LEN(kind_rules); i++) {
		if (strcmp(kind_rules[i].group, k->group) || strcmp(kind_rules[i].kind, k->kind))
			continue;
		if (kind_rules[i].template)
			podspec(td_jget(spec, "template.spec"), "spec.template.spec", ret);
		for (const struct rule *r = kind_rules[i].rules; r && r->path; r++) {
			td_buf_reset(&at);
			td_buf_puts(&at, "spec");
			walk(r, r->path, spec, "the embedded API", &at, ret);
		}
	}

	if (!strcmp(k->kind, "CustomResourceDefinition")) {
		td_buf_reset(&at);
		td_buf_puts(&at, "spec.versions");
		cel(td_jkey(spec, "versions"), &at, ret);
	}
}

size_t td_served_check(const struct td_kind *k, const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	td_auto_causes struct td_causes now = {0}, was = {0};
	size_t before = ret->n;

	object(k, obj, &now);
	if (now.n && old)
		object(k, old, &was);

	for (size_t i = 0; i < now.n; i++) {
		bool stored = false;
		for (size_t j = 0; j < was.n; j++)
			stored = stored || (!strcmp(now.v[i].field, was.v[j].field) &&
					    !strcmp(now.v[i].message, was.v[j].message));
		if (!stored)
			td_cause_add(ret, now.v[i].reason, now.v[i].field, "%s", now.v[i].message);
	}
	return ret->n - before;
}
