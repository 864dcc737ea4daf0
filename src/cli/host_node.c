// The machine's Kubernetes Node, where no kubelet makes one (tandem host --kubernetes-node): so that its health is kept as
// that of every node (docs/health.md). No pod comes to it: it offers room for none, is tainted, and Tandem's own part that
// places pods leaves it out. A kubelet's Node is left as it is.
#include "cli/host.h"

#include "api/condition.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/names.h"
#include "kube/nodelease.h"

#include <string.h>
#include <sys/utsname.h>

enum { SAID_MS = 240000 }; // SAID_MS: how old the status may become when nothing changes

static int make(struct td_kube *k, const struct td_host_who *w, struct td_cancel *c, struct td_object **ret,
		struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *labels = td_jm_obj(d, root, "metadata.labels"),
		       *taint = yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, "spec.taints"));
	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", "Node");
	td_jm_str(d, root, "metadata.name", w->name);
	// Not kubernetes.io/os: most DaemonSets that tolerate every taint ask for it, and would wait here for ever.
	td_jm_key_str(d, labels, "kubernetes.io/hostname", w->name);
	td_jm_key_str(d, labels, TD_LABEL_HOST, w->set);
	td_jm_str(d, taint, "key", TD_LABEL_HOST);
	td_jm_str(d, taint, "value", w->set);
	td_jm_str(d, taint, "effect", "NoSchedule");
	return td_kube_create(k, &td_nodes, NULL, root, c, ret, err);
}

// It is of another NodeSet now. The taint keeps the old one's name: a node may not change its own, and its key counts.
static int moves(struct td_kube *k, const struct td_host_who *w, struct td_object **node, struct td_cancel *c,
		 struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	struct td_object *now = NULL;
	td_jm_str(d, root, "metadata.uid", (*node)->uid);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.labels"), TD_LABEL_HOST, w->set);
	int r = td_kube_patch(k, TD_AT(&td_nodes, NULL, w->name, NULL), TD_PATCH_MERGE, root, c, &now, err);
	if (r)
		return r;
	td_object_unref(*node);
	*node = now;
	return 0;
}

static int say(struct td_kube *k, const struct td_host_who *w, const struct td_object *node, struct td_cancel *c,
	       struct td_error *err)
{
	td_auto_buf struct td_buf boot = {0};
	struct utsname u = {0};
	yyjson_val *was = td_condition(node->root, "Ready");
	int64_t now = td_real_ms(&td_clock_system), said;
	td_file_read("/proc/sys/kernel/random/boot_id", 128, &boot, NULL);
	while (boot.len && boot.s[boot.len - 1] == '\n')
		boot.s[--boot.len] = '\0';
	if (td_condition_true(node->root, "Ready") && !td_time_parse(td_jstr_or(was, "lastHeartbeatTime", ""), &said) &&
	    now - said < SAID_MS && now >= said &&
	    td_streq(td_jstr(node->root, "status.nodeInfo.bootID"), td_buf_str(&boot)))
		return 0;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *status = td_jm_obj(d, root, "status");
	static const char *const offers[] = {"capacity", "allocatable"};
	for (size_t i = 0; i < TD_LEN(offers); i++) {
		yyjson_mut_val *o = td_jm_obj(d, status, offers[i]);
		td_jm_strf(d, o, "cpu", "%lld", w->cpus);
		td_jm_strf(d, o, "memory", "%lldMi", w->memory_mb);
		td_jm_str(d, o, "pods", "0");
	}
	uname(&u);
	td_jm_str(d, status, "nodeInfo.bootID", td_buf_str(&boot));
	td_jm_str(d, status, "nodeInfo.kernelVersion", u.release);
	td_jm_str(d, status, "nodeInfo.operatingSystem", "linux");
	td_jm_str(d, status, "nodeInfo.architecture",
		  !strcmp(u.machine, "x86_64")    ? "amd64"
		  : !strcmp(u.machine, "aarch64") ? "arm64"
						  : u.machine);
	td_condition_add(d, td_jm_arr(d, status, "conditions"), td_jget(node->root, "status.conditions"),
			 TD_CONDITION(.type = "Ready", .status = "True", .reason = "TandemHost",
				      .message = "tandem host keeps slurmd here; there is no kubelet, and no pod comes",
				      .heartbeat = true),
			 now);
	td_jm_str(d, root, "metadata.uid", node->uid);
	return td_kube_patch(k, TD_AT(&td_nodes, NULL, node->name, "status"), TD_PATCH_STRATEGIC, root, c, NULL, err);
}

int td_host_node_keep(struct td_kube *k, const struct td_host_who *w, bool member, struct td_cancel *c,
		      struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *node = NULL;
	int r = td_kube_get(k, &td_nodes, NULL, w->name, c, &node, err);
	if (r == TD_NOT_FOUND && !member)
		return 0; // it has left, and `tandem node dismiss` has taken its Node away
	if (r == TD_NOT_FOUND)
		r = make(k, w, c, &node, err);
	if (!r && !td_object_label(node, TD_LABEL_HOST))
		return 0; // a kubelet's
	if (!r && member && !td_streq(td_object_label(node, TD_LABEL_HOST), w->set))
		r = moves(k, w, &node, c, err);
	if (!r)
		r = say(k, w, node, c, err);
	if (!r)
		r = td_kube_node_beat(k, node, NULL, NULL, c, err);
	return r && r != TD_CONFLICT ? td_wrap(err, "--kubernetes-node: Node %s", w->name) : 0;
}

int td_host_node_drop(struct td_kube *k, const char *set, const char *name, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *node = NULL;
	int r = td_kube_get(k, &td_nodes, NULL, name, NULL, &node, err);
	if (r || !td_streq(td_object_label(node, TD_LABEL_HOST), set))
		return r == TD_NOT_FOUND ? 0 : r;
	const struct td_kube_delete_opts how = {.uid = node->uid, .grace_s = -1};
	r = td_kube_delete(k, &td_nodes, NULL, name, &how, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r;
}
