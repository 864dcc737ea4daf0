// The virtual nodes' objects and heartbeats. A Node is created once and then patched field by
// field, so that what others put on it stays. Heartbeats are Leases.
#include "kubelet/kubelet.h"

#include "api/condition.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "kubelet/accels.h"
#include "kubelet/nics.h"
#include "kubelet/realgpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

enum { BEAT_MS = 10000, LEASE_S = 40, STATUS_MS = 300000, RETRY_MS = 500 };

int td_kubelet_gpus(const struct td_kubelet *a, int node)
{
	const struct td_accel_found *f = td_kubelet_accel(a, node);
	const struct td_checkup_facts *parts = td_kubelet_parts(a, node);
	return a->real ? td_realgpu_count(a->real, node) : f ? f->n : parts ? parts->gpus : a->o.gpus;
}

int td_kubelet_node_index(const struct td_kubelet *a, const char *name)
{
	long long n;
	if (!name || name[0] != 'n' || !td_parse_i64(name + 1, &n) || n < 0 || n >= a->o.nodes ||
	    (name[1] == '0' && name[2]))
		return -1;
	return (int)n;
}

// Sets the labels that are kept up, as a kubelet keeps them: if somebody changes one, it is set
// back.
static void well_known(yyjson_mut_doc *d, yyjson_mut_val *o, const char *name, const char *arch)
{
	yyjson_mut_val *l = td_jm_obj(d, o, "metadata.labels");
	td_jm_key_str(d, l, "kubernetes.io/hostname", name);
	td_jm_key_str(d, l, "kubernetes.io/os", "linux");
	td_jm_key_str(d, l, "kubernetes.io/arch", arch);
}

// Sets all labels of a new node. The labels beyond well_known() are set only here, like a kubelet's
// --node-labels: if somebody changes one to take a node out of the pool, the node stays out.
static void labels(yyjson_mut_doc *d, yyjson_mut_val *o, int i, const char *name, const char *arch)
{
	char block[16], rack[16];
	snprintf(block, sizeof(block), "b%d", i / 4);
	snprintf(rack, sizeof(rack), "r%d", i / 2);

	well_known(d, o, name, arch);
	yyjson_mut_val *l = td_jm_obj(d, o, "metadata.labels");
	td_jm_key_str(d, l, TD_LABEL_FAKE_GPUS, "true"); // by their names, also where they are real
	td_jm_key_str(d, l, TD_LABEL_BLOCK, block);
	td_jm_key_str(d, l, TD_LABEL_RACK, rack);
}

// Parts of GPUs as NVIDIA's device plugin offers them, beside the whole ones. live: what the Node says now; a kind that
// is not there any more goes.
static void devices(struct td_kubelet *a, int node, yyjson_val *live, yyjson_mut_doc *d, yyjson_mut_val *m)
{
	const struct td_checkup_facts *f = td_kubelet_parts(a, node);
	const char *resource = td_kubelet_resource(a, node);
	int whole = f ? 0 : td_kubelet_gpus(a, node);
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach (live, i, n, k, v)
		if (td_api_is_device(yyjson_get_str(k), "nvidia.com/gpu") && strcmp(yyjson_get_str(k), resource) != 0)
			td_jm_key_set(d, m, yyjson_get_str(k), yyjson_mut_null(d));
	for (int g = 0, same = 0; f && g < f->gpus; g++) {
		const char *profile = f->gpu[g].profile;
		whole += !*profile;
		same = g && !strcmp(profile, f->gpu[g - 1].profile) ? same + 1 : 1;
		if (*profile) {
			td_auto_free char *key = td_asprintf("nvidia.com/mig-%s", profile),
					  *count = td_asprintf("%d", same);
			td_jm_key_str(d, m, key, count);
		}
	}
	td_auto_free char *count = td_asprintf("%d", whole);
	td_jm_key_str(d, m, resource, count);
}

static void adapters(int nics, const yyjson_val *live, yyjson_mut_doc *d, yyjson_mut_val *m)
{
	td_auto_free char *count = td_asprintf("%d", nics);
	if (nics)
		td_jm_key_str(d, m, TD_NIC_RESOURCE, count);
	else if (td_jkey(live, TD_NIC_RESOURCE))
		td_jm_key_set(d, m, TD_NIC_RESOURCE, yyjson_mut_null(d));
}

static void resources(struct td_kubelet *a, int node, const yyjson_val *live, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	char mem[32];
	td_quantity_format_bytes(a->memory_bytes, mem, sizeof(mem));

	// All virtual nodes share the machine's disk, so each shows all of it, as `df` does.
	struct statvfs fs;
	char disk[32] = "";
	if (!statvfs(a->o.home, &fs))
		snprintf(disk, sizeof(disk), "%lluKi", (unsigned long long)fs.f_blocks * fs.f_frsize / 1024);

	int nics = td_kubelet_nics(a, node);
	const char *maps[] = {"status.capacity", "status.allocatable"};
	for (size_t k = 0; k < TD_LEN(maps); k++) {
		yyjson_mut_val *m = td_jm_obj(d, o, maps[k]);
		char cpu[16];
		snprintf(cpu, sizeof(cpu), "%d", a->o.cpus);
		td_jm_key_str(d, m, "cpu", cpu);
		td_jm_key_str(d, m, "memory", mem);
		td_jm_key_str(d, m, "pods", "110");
		if (disk[0])
			td_jm_key_str(d, m, "ephemeral-storage", disk);
		devices(a, node, td_jget(live, maps[k]), d, m);
		adapters(nics, td_jget(live, maps[k]), d, m);
		// Its machine may have had others.
		td_auto_strv struct td_strv not = {0};
		td_kubelet_resources_not(a, node, &not);
		for (size_t i = 0; i < not.n; i++)
			td_jm_key_set(d, m, not.v[i], yyjson_mut_null(d));
	}
}

static void status(struct td_kubelet *a, yyjson_mut_doc *d, yyjson_mut_val *o, const char *name, const yyjson_val *live)
{
	struct utsname u = {0};
	uname(&u);

	resources(a, td_kubelet_node_index(a, name), live, d, o);

	yyjson_mut_val *arr = td_jm_arr(d, o, "status.addresses"), *v;
	v = yyjson_mut_arr_add_obj(d, arr);
	// Every virtual node is this machine, so all have its address on the pod switch. Pods reach
	// it, and hostNetwork pods listen on it. An address per node would lead to the same
	// sockets.
	td_jm_str(d, v, "type", "InternalIP");
	td_jm_str(d, v, "address", a->gateway);
	v = yyjson_mut_arr_add_obj(d, arr);
	td_jm_str(d, v, "type", "Hostname");
	td_jm_str(d, v, "address", name);

	arr = td_jm_arr(d, o, "status.conditions");
	static const struct td_condition_want conditions[] = {
		{.type = "MemoryPressure",
		 .status = "False",
		 .reason = "KubeletHasSufficientMemory",
		 .message = "kubelet has sufficient memory available",
		 .heartbeat = true},
		{.type = "DiskPressure",
		 .status = "False",
		 .reason = "KubeletHasNoDiskPressure",
		 .message = "kubelet has no disk pressure",
		 .heartbeat = true},
		{.type = "PIDPressure",
		 .status = "False",
		 .reason = "KubeletHasSufficientPID",
		 .message = "kubelet has sufficient PID available",
		 .heartbeat = true},
		{.type = "Ready",
		 .status = "True",
		 .reason = "KubeletReady",
		 .message = "the node agent is running",
		 .heartbeat = true},
	};

	for (size_t i = 0; i < TD_LEN(conditions); i++)
		td_condition_add(d, arr, td_jget(live, "status.conditions"), &conditions[i], td_real_ms(a->clock));

	v = td_jm_obj(d, o, "status.nodeInfo");
	td_jm_str(d, v, "operatingSystem", "linux");
	td_jm_str(d, v, "architecture",
		  !strcmp(u.machine, "x86_64")    ? "amd64"
		  : !strcmp(u.machine, "aarch64") ? "arm64"
						  : u.machine);
	td_jm_str(d, v, "kernelVersion", u.release);
	td_jm_str(d, v, "osImage", "Tandem virtual node");
	td_jm_str(d, v, "containerRuntimeVersion", "tandem://" TD_VERSION);
	td_jm_str(d, v, "kubeletVersion", "v1.34.0-tandem." TD_VERSION);
	td_jm_str(d, v, "kubeProxyVersion", "");
	td_jm_str(d, v, "machineID", a->o.id);
	td_jm_str(d, v, "systemUUID", name);

	td_auto_free char *boot = td_kubelet_boot(a, td_kubelet_node_index(a, name));
	td_jm_str(d, v, "bootID", boot);
}

int td_kubelet_node_write(struct td_kubelet *a, int i, struct td_cancel *c, struct td_error *err)
{
	char name[16];
	snprintf(name, sizeof(name), "n%d", i);
	struct utsname u = {0};
	uname(&u);
	const char *arch = !strcmp(u.machine, "x86_64") ? "amd64" : !strcmp(u.machine, "aarch64") ? "arm64" : u.machine;

	td_auto(td_object_unref) struct td_object *live = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new(), *s = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *so = yyjson_mut_doc_get_root(s);

	int r = td_kube_get(a->kube, &td_nodes, NULL, name, c, &live, err);
	if (r == TD_NOT_FOUND) {
		td_jm_str(d, o, "apiVersion", "v1");
		td_jm_str(d, o, "kind", "Node");
		td_jm_str(d, o, "metadata.name", name);
		labels(d, o, i, name, arch);
		r = td_kube_create(a->kube, &td_nodes, NULL, o, c, &live, err);
		if (r && r != TD_EXISTS)
			return r;
	} else if (r) {
		return r;
	} else {
		well_known(d, o, name, arch);
		bool differs = false;
		yyjson_mut_val *k, *v;
		size_t at, n;
		yyjson_mut_obj_foreach (td_jm_obj(d, o, "metadata.labels"), at, n, k, v) {
			const char *is = td_object_label(live, yyjson_mut_get_str(k));
			differs = differs || !td_streq(is, yyjson_mut_get_str(v));
		}
		r = differs ? td_kube_patch(a->kube, TD_AT(&td_nodes, NULL, name), TD_PATCH_MERGE, o, c, NULL, err) : 0;
		if (r)
			return r;
	}

	status(a, s, so, name, live ? live->root : NULL);
	return td_kube_patch(a->kube, TD_AT(&td_nodes, NULL, name, "status"), TD_PATCH_STRATEGIC, so, c, NULL, err);
}

static int beat(struct td_kubelet *a, int i, struct td_cancel *c, struct td_error *err)
{
	char name[16], now[TD_TIME_LEN];
	snprintf(name, sizeof(name), "n%d", i);
	td_time_format_micro(td_real_ms(a->clock), now);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "spec.renewTime", now);
	td_jm_str(d, o, "spec.holderIdentity", name);
	td_jm_int(d, o, "spec.leaseDurationSeconds", LEASE_S);

	int r = td_kube_patch(a->kube, TD_AT(&td_leases, "kube-node-lease", name), TD_PATCH_MERGE, o, c, NULL, err);
	if (r != TD_NOT_FOUND)
		return r;

	td_jm_str(d, o, "apiVersion", "coordination.k8s.io/v1");
	td_jm_str(d, o, "kind", "Lease");
	td_jm_str(d, o, "metadata.name", name);
	td_jm_str(d, o, "metadata.namespace", "kube-node-lease");
	r = td_kube_create(a->kube, &td_leases, "kube-node-lease", o, c, NULL, err);
	return r == TD_EXISTS ? 0 : r;
}

// Is the node Ready in the API? It is not after somebody deleted it, or after the node controller
// found it silent while this process was away; then the status is written again at once.
static bool shown_ready(struct td_kubelet *a, int i)
{
	char name[16];
	snprintf(name, sizeof(name), "n%d", i);
	td_auto(td_object_unref) struct td_object *o = td_informer_get(a->nodes, NULL, name);
	return o && td_condition_true(o->root, "Ready");
}

int td_kubelet_nodes_run(struct td_kubelet *a, struct td_cancel *c, struct td_error *err)
{
	// When each node's status is due, in monotonic ms; 0 means now.
	td_auto_free int64_t *next = td_calloc((size_t)a->o.nodes, sizeof(*next));

	while (!td_cancelled(c)) {
		bool soon = false;
		for (int i = 0; i < a->o.nodes && !td_cancelled(c); i++) {
			struct td_error e = TD_ERROR_INIT;
			int64_t now = td_mono_ms(a->clock);
			if (td_informer_synced(a->nodes) && !shown_ready(a, i)) {
				next[i] = 0;
				// Look again soon: the node controller may not have seen the
				// heartbeat yet and overrule what is written below.
				soon = true;
			}
			// Send the heartbeat first: with an old heartbeat the node controller would
			// overrule the status.
			int r = beat(a, i, c, &e);
			if (!r && (!next[i] || now >= next[i])) {
				r = td_kubelet_node_write(a, i, c, &e);
				if (!r)
					next[i] = now + STATUS_MS;
			}
			if (r && r != TD_CANCELLED) {
				td_warn("kubelet: node n%d: %s", i, e.msg);
				next[i] = 0;
				soon = true;
			}
		}
		td_cancel_wait(c, soon ? RETRY_MS : BEAT_MS);
	}
	return 0;
}
