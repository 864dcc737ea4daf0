// Fields that are valid Kubernetes, but that embedded nodes do not serve: refused at the door by name, with what to do instead. Nothing
// is ignored silently: t/test_pods_fields.py walks the schema and knows for every field whether it is served, without effect by nature
// (imagePullSecrets: images are local), or in this table.
#include "api/kinds_priv.h"

#include <string.h>

enum when { SET, IS_TRUE, IS_FALSE, NOT_IN };
struct rule {
	const char *path; // below the spec; "[]": each element; "*.": containers and init containers
	enum when when;
	const char *values; // NOT_IN: what is served, " " between
	const char *why;
};

#define SCHED "the embedded scheduler places by requests, nodeSelector, required nodeAffinity, taints and tolerations"
#define DRA "device claims need a real Kubernetes with DRA; here ask for nvidia.com/gpu under resources.limits"
#define VOL "embedded nodes have configMap, secret, downwardAPI, projected, emptyDir and hostPath volumes"
#define PROBE "embedded nodes have exec, httpGet (HTTP) and tcpSocket probes"
#define SC "securityContext."

static const struct rule rules[] = {
	{"ephemeralContainers", SET, NULL, "use `kubectl exec` to look into a running container"},
	{"hostPID", IS_TRUE, NULL, "every container has its own process namespace"},
	{"hostIPC", IS_TRUE, NULL, "every container has its own IPC namespace"},
	{"hostUsers", IS_FALSE, NULL, "user namespaces are not there; leave it out"},
	{"shareProcessNamespace", IS_TRUE, NULL, "every container has its own process namespace"},
	{"hostAliases", SET, NULL, "pods of a namespace share one hosts file; use a headless Service or pod names"},
	{"hostnameOverride", SET, NULL, "use hostname"},
	{"runtimeClassName", SET, NULL, "there is one runtime, runc; leave it out"},
	{"overhead", SET, NULL, "there are no RuntimeClasses; leave it out"},
	{"os.name", NOT_IN, "linux", "embedded nodes run Linux"},
	{"resources", SET, NULL, "set the resources of each container"},
	{"resourceClaims", SET, NULL, DRA},
	{"affinity.podAffinity", SET, NULL, SCHED},
	{"affinity.podAntiAffinity", SET, NULL, SCHED},
	{"affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", SET, NULL, SCHED},
	{"topologySpreadConstraints", SET, NULL, SCHED},
	{SC "sysctls", SET, NULL, "kernel settings are those of the machine"},
	{SC "seLinuxOptions", SET, NULL, "embedded nodes have no SELinux"},
	{SC "seLinuxChangePolicy", SET, NULL, "embedded nodes have no SELinux"},
	{SC "seccompProfile.type", NOT_IN, "RuntimeDefault Unconfined", "profiles of your own are not loaded"},
	{SC "appArmorProfile.type", NOT_IN, "Unconfined", "embedded nodes have no AppArmor"},
	{SC "windowsOptions", SET, NULL, "embedded nodes run Linux"},
	{"*." SC "procMount", NOT_IN, "Default", "/proc is masked as usual; privileged: true unmasks it"},
	{"*." SC "seLinuxOptions", SET, NULL, "embedded nodes have no SELinux"},
	{"*." SC "seccompProfile.type", NOT_IN, "RuntimeDefault Unconfined", "profiles of your own are not loaded"},
	{"*." SC "appArmorProfile.type", NOT_IN, "Unconfined", "embedded nodes have no AppArmor"},
	{"*." SC "windowsOptions", SET, NULL, "embedded nodes run Linux"},
	{"*.ports[].hostIP", SET, NULL, "nodes forward no ports; the pod answers at its own address, also from this machine"},
	{"*.resources.claims", SET, NULL, DRA},
	{"*.restartPolicyRules", SET, NULL, "use the pod's restartPolicy"},
	{"*.volumeMounts[].recursiveReadOnly", NOT_IN, "Disabled", "use readOnly"},
	{"*.volumeMounts[].mountPropagation", NOT_IN, "None HostToContainer", "mounts made inside a container stay there"},
	{"*.volumeDevices", SET, NULL, VOL},
	{"*.livenessProbe.grpc", SET, NULL, PROBE},
	{"*.readinessProbe.grpc", SET, NULL, PROBE},
	{"*.startupProbe.grpc", SET, NULL, PROBE},
	{"*.livenessProbe.httpGet.scheme", NOT_IN, "HTTP", PROBE},
	{"*.readinessProbe.httpGet.scheme", NOT_IN, "HTTP", PROBE},
	{"*.startupProbe.httpGet.scheme", NOT_IN, "HTTP", PROBE},
	{"*.lifecycle.stopSignal", SET, NULL, "containers are stopped by SIGTERM"},
	{"*.lifecycle.postStart.httpGet.scheme", NOT_IN, "HTTP", "embedded nodes have exec, httpGet (HTTP) and sleep hooks"},
	{"*.lifecycle.preStop.httpGet.scheme", NOT_IN, "HTTP", "embedded nodes have exec, httpGet (HTTP) and sleep hooks"},
	{"*.lifecycle.postStart.tcpSocket", SET, NULL, "embedded nodes have exec, httpGet (HTTP) and sleep hooks"},
	{"*.lifecycle.preStop.tcpSocket", SET, NULL, "embedded nodes have exec, httpGet (HTTP) and sleep hooks"},
	{"volumes[].emptyDir.medium", NOT_IN, "Memory", "use \"\" or Memory"},
	{"volumes[].projected.sources[].clusterTrustBundle", SET, NULL, "use a configMap source"},
	{"volumes[].persistentVolumeClaim", SET, NULL, VOL},
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
	case SET: // an empty list or text says nothing; an empty object does
		return !yyjson_is_null(m) && !(yyjson_is_arr(m) && !yyjson_arr_size(m)) && !(yyjson_is_str(m) && !yyjson_get_len(m));
	case IS_TRUE:
		return yyjson_is_true(m);
	case IS_FALSE:
		return yyjson_is_false(m);
	case NOT_IN:
		return yyjson_is_str(m) && yyjson_get_len(m) && !one_of(r->values, yyjson_get_str(m));
	}
	return false;
}

// Walks `path` down from v; `at` is where v lies in the object.
static void walk(const struct rule *r, const char *path, const yyjson_val *v, struct td_buf *at, struct td_causes *ret)
{
	if (!v)
		return;
	if (!*path) {
		if (!hit(r, v))
			return;
		td_auto_free char *text = yyjson_is_str(td_unconst(v)) ? td_asprintf(" %s", yyjson_get_str(td_unconst(v))) : td_strdup("");
		td_cause_at(ret, "FieldValueForbidden", td_buf_str(at), "", "Forbidden:%s is not served by embedded nodes: %s", text,
			    r->why);
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
			walk(r, path, e, at, ret);
			td_path_cut(at, here);
		}
	} else {
		walk(r, *path == '.' ? path + 1 : path, x, at, ret);
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
				td_cause_at(
					ret, "FieldValueForbidden", f, ".restartPolicy",
					"Forbidden: %s is not served by embedded nodes: only init containers may say Always; use the pod's "
					"restartPolicy",
					restart);
			yyjson_arr_foreach (td_jkey(c, "ports"), k, n, p) {
				if (host || !td_jint(p, "hostPort", 0))
					continue;
				td_auto_free char *tail = td_asprintf(".ports[%zu].hostPort", k);
				td_cause_at(
					ret, "FieldValueForbidden", f, tail,
					"Forbidden: is not served by embedded nodes: nodes forward no ports; the pod answers at its own "
					"address, also from this machine");
			}
		}
}

void td_podspec_served(const yyjson_val *spec, const char *path, struct td_causes *ret)
{
	td_auto_buf struct td_buf at = {0};
	if (!yyjson_is_obj(td_unconst(spec)))
		return;
	for (size_t i = 0; i < TD_LEN(rules); i++) {
		static const char *const lists[] = {"initContainers[].", "containers[]."};
		bool both = td_starts(rules[i].path, "*.");
		for (size_t l = 0; l < (both ? TD_LEN(lists) : 1); l++) {
			td_auto_free char *p = td_asprintf("%s%s", both ? lists[l] : "", rules[i].path + (both ? 2 : 0));
			td_buf_reset(&at);
			td_buf_puts(&at, path);
			walk(&rules[i], p, spec, &at, ret);
		}
	}
	container_rules(spec, path, ret);
}
