// A Slurm node's share of its Kubernetes node, and the slurmd pod that runs there. Pure.
#include "operator/operator.h"

#include "api/kinds.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "base/names.h"

#include <string.h>
#include <strings.h>

char *td_op_slurmd_name(const char *cluster, const char *nodeset, const char *node)
{
	return td_asprintf("%s-%s-%s", cluster, nodeset, node);
}

const char *td_op_quantity(const yyjson_val *map, const char *key, char buf[32], const char *def)
{
	yyjson_val *v = td_jkey(map, key);
	if (yyjson_is_str(v))
		return yyjson_get_str(v);
	if (!yyjson_is_num(v))
		return def;
	snprintf(buf, 32, "%lld", td_jint(map, key, 0));
	return buf;
}

void td_op_others_add(const yyjson_val *spec, const char *resource, struct td_pool_reserve *v)
{
	v->others_milli += td_api_pod_request(spec, "cpu");
	v->others_memory += td_api_pod_request(spec, "memory");
	v->others_gpus += td_api_pod_devices(spec, resource); // parts of GPUs (MIG), too
}

bool td_op_share_of(const yyjson_val *cluster, const yyjson_val *nodeset, const yyjson_val *node,
		    const struct td_op_found *found, struct td_op_share *ret, struct td_error *why)
{
	char b[4][32];
	yyjson_val *alloc = td_jget(node, "status.allocatable"), *reserve = td_jget(cluster, "spec.reserve");
	int64_t cpu, cpu_off, mem, mem_off, gpus;
	if (td_quantity_milli(td_op_quantity(alloc, "cpu", b[0], "0"), &cpu, why) ||
	    td_quantity_ceil(td_op_quantity(alloc, "memory", b[1], "0"), &mem, why) ||
	    td_api_devices(alloc, td_op_node_resource(cluster, node), &gpus, why))
		return td_wrap(why, "status.allocatable"), false;
	struct td_op_found has = found ? *found : (struct td_op_found){.n = -1};
	if (has.n >= 0)
		gpus = has.n;
	has.n = gpus;
	td_auto(td_json_unref) struct td_json *told = has.told ? NULL : td_op_told_read(node);
	has.told = has.told ? has.told : told;
	if (!*has.types && !td_op_types_parts(cluster, node, &has, why))
		return false;
	if (!*has.types)
		td_op_types_label(cluster, node, &has);
	if (!*has.types)
		td_op_types_told(cluster, node, &has);
	struct td_op_vendor vendor;
	td_op_vendor_of(cluster, node, &has, &vendor);
	if (!*has.types && *vendor.type && gpus > 0)
		td_op_types_add(has.types, vendor.type, gpus);
	if (td_quantity_ceil(td_op_quantity(reserve, "cpu", b[3], "1"), &cpu_off, why))
		return td_wrap(why, "spec.reserve.cpu of the SlurmCluster"), false;
	if (td_quantity_ceil(td_op_quantity(reserve, "memory", b[3], "1Gi"), &mem_off, why))
		return td_wrap(why, "spec.reserve.memory of the SlurmCluster"), false;
	struct td_op_share s = {.cpus = cpu / 1000 - cpu_off, .memory_mb = (mem - mem_off) / (1 << 20), .gpus = gpus};
	const char *numa = td_jkey_str(td_jget(node, "metadata.annotations"), TD_ANN_GPU_NUMA);
	if (numa && gpus && !td_op_numa_read(numa, gpus, s.numa, why))
		return false;
	if (!numa)
		td_op_numa_told(cluster, node, &has, s.numa, &s.parts);
	if (s.cpus < 1 || s.memory_mb < 1) {
		td_fail(why, TD_INVALID,
			"the node's allocatable minus spec.reserve of the SlurmCluster leaves %lld CPUs and %lld MiB "
			"for Slurm; lower the reserve",
			s.cpus > 0 ? s.cpus : 0, s.memory_mb > 0 ? s.memory_mb : 0);
		return false;
	}

	const char *gres = td_jstr_or(nodeset, "spec.slurm.gres", "auto");
	if (td_streq(gres, "none")) {
		s.gpus = 0;
	} else if (!td_streq(gres, "auto")) {
		if (td_op_gres_read(gres, &has, why))
			return false;
		if (has.n > gpus) {
			td_fail(why, TD_INVALID, "spec.slurm.gres asks for %lld GPUs, the node has %lld", has.n,
				(long long)gpus);
			return false;
		}
		s.gpus = has.n;
	}
	if (s.gpus)
		memcpy(s.types, has.types, sizeof(s.types));
	td_op_shares_set(nodeset, &s);
	s.numa[s.gpus < TD_OP_NUMA ? s.gpus : TD_OP_NUMA - 1] = '\0';
	if (!*s.numa || (!numa && s.cpus < td_op_share_parts(&s)))
		s.parts = 0, *s.numa = '\0';
	// Each NUMA node has as many cores.
	long long parts = td_op_share_parts(&s);
	if (s.cpus < parts) {
		td_fail(why, TD_INVALID,
			"the node's allocatable minus spec.reserve of the SlurmCluster leaves %lld CPUs for the %lld "
			"NUMA nodes of annotation " TD_ANN_GPU_NUMA "; lower the reserve",
			s.cpus, parts);
		return false;
	}
	s.cpus -= s.cpus % parts;
	if (!td_streq(gres, "none") && !td_op_other_node(node)) {
		td_op_nics_find(cluster, node, &s, &vendor.nics);
		s.nics = vendor.nics.n;
	}

	*ret = s;
	return true;
}

char *td_op_share_text(const struct td_op_share *s, const char *resource)
{
	td_auto_free char *parts = s->parts ? td_asprintf(",\"" TD_SHARE_PARTS "\":%lld", s->parts) : td_strdup("");
	td_auto_free char *units =
		s->shared ? td_asprintf(",\"" TD_SHARE_UNITS "\":\"%lld\"", td_op_shares_units(s)) : td_strdup("");
	td_auto_free char *nics = s->nics ? td_asprintf(",\"" TD_NIC_RESOURCE "\":\"%lld\"", s->nics) : td_strdup("");
	return td_asprintf("{\"cpu\":\"%lld\",\"memory\":\"%lldMi\",\"%s\":\"%lld\"%s%s%s%s%s%s%s%s%s}", s->cpus,
			   s->memory_mb, resource, s->gpus, nics, units, *s->types ? ",\"" TD_SHARE_TYPES "\":\"" : "",
			   s->types, *s->types ? "\"" : "", *s->numa ? ",\"" TD_SHARE_NUMA "\":\"" : "", s->numa,
			   *s->numa ? "\"" : "", parts);
}

bool td_op_share_parse(const char *text, const char *resource, struct td_op_share *ret)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int64_t cpus, mem, gpus;
	if (td_json_parse(text, strlen(text), &j, NULL) ||
	    td_quantity_ceil(td_jkey_str(td_json_root(j), "cpu"), &cpus, NULL) ||
	    td_quantity_ceil(td_jkey_str(td_json_root(j), "memory"), &mem, NULL) ||
	    td_quantity_ceil(td_jkey_str(td_json_root(j), resource), &gpus, NULL) || cpus < 1 || mem >> 20 < 1 ||
	    gpus < 0)
		return false;
	*ret = (struct td_op_share){.cpus = cpus,
				    .memory_mb = mem >> 20,
				    .gpus = gpus,
				    .shared = gpus && td_jkey_str(td_json_root(j), TD_SHARE_UNITS)};
	const char *nics = td_jkey_str(td_json_root(j), TD_NIC_RESOURCE);
	if (nics && (!td_parse_i64(nics, &ret->nics) || ret->nics < 0 || ret->nics >= TD_OP_NUMA))
		ret->nics = 0;
	const char *types = td_jkey_str(td_json_root(j), TD_SHARE_TYPES),
		   *numa = td_jstr_or(td_json_root(j), TD_SHARE_NUMA, "");
	if (strlen(numa) == (size_t)gpus && gpus < TD_OP_NUMA && strspn(numa, "01234567") == (size_t)gpus)
		memcpy(ret->numa, numa, (size_t)gpus + 1);
	long long parts = td_jint(td_json_root(j), TD_SHARE_PARTS, 0);
	if (*ret->numa && parts > 0 && parts <= 8)
		ret->parts = parts;
	char type[64];
	long long n;
	while (types && td_op_types_next(&types, type, &n) && td_op_types_add(ret->types, type, n))
		;
	td_op_types_cut(ret->types, gpus);
	return true;
}

// True for keys of a node's line that Tandem writes itself.
static bool own_key(const char *k)
{
	static const char *const keys[] = {"NodeName",        "CPUs",           "Boards",         "Sockets",
					   "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore", "Procs",
					   "RealMemory",      "Gres",           "Feature",        "Features",
					   "State",           "Port",           "NodeAddr",       "NodeHostname",
					   "BcastAddr",       "Weight",         "Reason"};
	for (size_t i = 0; i < TD_LEN(keys); i++)
		if (!strcasecmp(keys[i], k))
			return true;
	return false;
}

const char *td_op_affinity_problem(const yyjson_val *ns)
{
#define TERMS "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	yyjson_val *affinity = td_jget(ns, "spec.affinity"), *terms = td_jget(affinity, TERMS), *t;
	size_t i, n;
	if (!affinity || yyjson_is_null(affinity) || (yyjson_is_obj(affinity) && yyjson_obj_size(affinity) == 0))
		return NULL;
	if (!yyjson_arr_size(terms))
		return "spec.affinity: it chooses no nodes: only " TERMS
		       " counts; write that, or remove the field to select by spec.nodeSelector alone";
	yyjson_arr_foreach (terms, i, n, t)
		if (!yyjson_arr_size(td_jget(t, "matchExpressions")) && !yyjson_arr_size(td_jget(t, "matchFields")))
			return "spec.affinity." TERMS
			       ": a term without matchExpressions and matchFields selects no node; fill or remove it";
	return NULL;
#undef TERMS
}

void td_op_nodeset_check(const yyjson_val *ns, struct td_strv *problems)
{
	const char *name = td_jstr_or(ns, "metadata.name", "");
	if (!td_slurm_is_name(name) || strchr(name, '.') || strlen(name) > 58)
		td_strv_addf(problems, "metadata.name: must be at most 58 letters, digits and '-', without dots: it "
				       "becomes a Slurm feature");
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(ns, "spec.slurm.features"), i, n, x) {
		const char *f = yyjson_get_str(x);
		if (!td_slurm_is_name(f) || td_starts(f, "set.") || td_starts(f, TD_DATA_FEATURE))
			td_strv_addf(problems,
				     "spec.slurm.features[%zu]: must be letters, digits, '_', '.', '-' (not first) and "
				     "not begin with \"set.\" or \"" TD_DATA_FEATURE "\"",
				     i);
	}

	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(ns, "spec.slurm.extraConf"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *key = yyjson_get_str(k), *value = yyjson_get_str(yyjson_obj_iter_get_val(k));
		if (!td_slurm_is_key(key))
			td_strv_addf(problems, "spec.slurm.extraConf: \"%.40s\" is not a key: letters and digits only",
				     key);
		else if (own_key(key))
			td_strv_addf(
				problems,
				"spec.slurm.extraConf.%s: Tandem sets this key from the Kubernetes node; remove it",
				key);
		else if (!td_slurm_is_value(value))
			td_strv_addf(problems,
				     "spec.slurm.extraConf.%s: the value must be printable characters without blanks, "
				     "'\"', '#' and '\\'",
				     key);
	}

	td_op_cutting_check(ns, problems);
	const char *affinity = td_op_affinity_problem(ns), *u = td_jstr(ns, "spec.updateStrategy.maxUnavailable");
	long long v;
	if (affinity)
		td_strv_add(problems, affinity);
	if (u && !td_ends(u, "%") && (!td_parse_i64(u, &v) || v < 1))
		td_strv_addf(
			problems,
			"spec.updateStrategy.maxUnavailable: must be a number of 1 or more, or a share such as 20%%");
}

// Returns what slurmd tells slurmctld about its node (--conf). Every part of it has passed a
// grammar.
static char *node_conf(const yyjson_val *nodeset, const yyjson_val *node, const struct td_op_share *s)
{
	struct td_buf b = {0};
	long long sockets = td_op_share_parts(s);
	td_buf_printf(&b, "CPUs=%lld Sockets=%lld CoresPerSocket=%lld ThreadsPerCore=1 RealMemory=%lld", s->cpus,
		      sockets, s->cpus / sockets, s->memory_mb);
	if (s->gpus || s->nics)
		td_buf_puts(&b, " Gres=");
	if (s->gpus) {
		td_op_gres_write(s, &b);
		td_op_shares_write(s, &b);
	}
	td_op_nics_write(s, &b);

	td_auto_free char *set = td_slurm_set_feature(td_jstr_or(nodeset, "metadata.name", ""));
	td_auto_strv struct td_strv f = {0};
	td_strv_add(&f, set);
	static const char *const topology[] = {TD_LABEL_BLOCK, TD_LABEL_RACK};
	for (size_t i = 0; i < TD_LEN(topology); i++) {
		const char *v = td_jkey_str(td_jget(node, "metadata.labels"), topology[i]);
		if (td_slurm_is_name(v) && !td_starts(v, "set.") && !td_strv_has(&f, v))
			td_strv_add(&f, v);
	}
	if (td_jkey(td_jget(node, "metadata.annotations"), TD_ANN_GDS))
		td_strv_add(&f, "gds");
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(nodeset, "spec.slurm.features"), i, n, x) {
		if (!td_strv_has(&f, yyjson_get_str(x)))
			td_strv_add(&f, yyjson_get_str(x));
	}
	for (i = 0; i < f.n; i++)
		td_buf_printf(&b, "%s%s", i ? "," : " Feature=", f.v[i]);
	// What is there already fills first.
	long long weight = td_jint(nodeset, "spec.slurm.weight", td_op_on_demand(nodeset) ? 1000 : 0);
	if (weight > 0)
		td_buf_printf(&b, " Weight=%lld", weight);
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(nodeset, "spec.slurm.extraConf"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *key = yyjson_get_str(k), *value = yyjson_get_str(yyjson_obj_iter_get_val(k));
		if (key && value)
			td_buf_printf(&b, " %s=%s", key, value);
	}
	return td_buf_take(&b);
}

void td_op_tolerate(yyjson_mut_doc *d, yyjson_mut_val *tolerations, const char *key, const char *effect)
{
	yyjson_mut_val *t = yyjson_mut_obj(d);
	td_jm_str(d, t, "key", key);
	td_jm_str(d, t, "operator", "Exists");
	td_jm_str(d, t, "effect", effect);
	yyjson_mut_arr_append(tolerations, t);
}

void td_op_tolerations(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *nodeset)
{
	yyjson_mut_val *tol = td_jm_arr(d, spec, "tolerations");
	static const char *const taints[][2] = {{"node.kubernetes.io/not-ready", "NoExecute"},
						{"node.kubernetes.io/not-ready", "NoSchedule"},
						{"node.kubernetes.io/unreachable", "NoExecute"},
						{"node.kubernetes.io/unreachable", "NoSchedule"},
						{"node.kubernetes.io/unschedulable", "NoSchedule"},
						{TD_TAINT_DRAIN, "NoSchedule"},
						{TD_TAINT_DOWN, "NoSchedule"}};
	for (size_t i = 0; i < TD_LEN(taints); i++)
		td_op_tolerate(d, tol, taints[i][0], taints[i][1]);
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(nodeset, "spec.tolerations"), i, n, x) {
		yyjson_mut_arr_append(tol, yyjson_val_mut_copy(d, x));
	}
}

// Changes the pod to what it needs beside a kubelet.
static void for_kubelet(yyjson_mut_doc *d, yyjson_mut_val *root, const char *image)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over = td_op_fill("slurmd-kubelet.yaml", NULL, 0);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *spec = td_jm_get(root, "spec"),
		       *c = td_jm_get(spec, "containers.[0]");
	td_op_bring_standin(d, spec, image);
	td_op_put(d, td_op_named(spec, "volumes", "tandem-run"), "hostPath", td_jm_get(o, "run"));
	td_op_put(d, td_jm_get(c, "env"), NULL, td_jm_get(o, "cgroups"));
	td_op_put(d, c, "securityContext.appArmorProfile", td_jm_get(o, "appArmorProfile"));
	td_jm_str(d, spec, "priorityClassName", TD_PRIORITY_SLURM);
}

// Changes the pod to one that only represents a node of another cluster: nothing but stand-ins runs there, so it has
// none of this cluster's devices and files, and little of the node that it is on, whose own slurmd is beside it.
static void for_other_cluster(yyjson_mut_doc *d, yyjson_mut_val *root, const struct td_op_share *share)
{
	yyjson_mut_val *c = td_jm_get(root, "spec.containers.[0]"), *env = yyjson_mut_obj(d);
	yyjson_mut_obj_remove_key(td_jm_get(root, "metadata.annotations"), TD_ANN_ALL_DEVICES);
	td_jm_str(d, c, "resources.requests.cpu", "20m");
	yyjson_mut_val *v;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(root, "spec.volumes"), i, n, v) {
		bool bin = td_streq(td_jm_getstr(v, "name"), "tandem-bin");
		if (bin || (!td_jm_get(v, "hostPath") && !td_jm_get(v, "persistentVolumeClaim")))
			continue;
		yyjson_mut_obj_remove_key(v, "hostPath");
		yyjson_mut_obj_remove_key(v, "persistentVolumeClaim");
		td_jm_obj(d, v, "emptyDir");
	}
	// Nor does it fetch images (prePull), which nobody would use.
	yyjson_mut_val *vars = td_jm_get(c, "env");
	for (size_t k = yyjson_mut_arr_size(vars); k--;)
		if (td_streq(td_jm_getstr(yyjson_mut_arr_get(vars, k), "name"), "TD_CONTAINERS"))
			yyjson_mut_arr_remove(vars, k);
	td_jm_str(d, env, "name", "TD_OTHER_CLUSTER");
	td_jm_strf(d, env, "value", "%lld", share->gpus);
	yyjson_mut_arr_append(td_jm_get(c, "env"), env);
}

// Returns a hash of everything but Tandem's own image, so that a new version of Tandem drains no
// node. Its tandem-standin comes when the pod is replaced for another reason. Until then the old
// one serves, because its words (standin/wire.h) are the same.
static char *revision(yyjson_mut_doc *d, yyjson_mut_val *root)
{
	yyjson_mut_val *bin = td_op_named(root, "spec.initContainers", TD_OP_STANDIN);
	td_auto_free char *image = bin ? td_strdup(td_jm_getstr(bin, "image")) : NULL;
	if (bin)
		td_jm_str(d, bin, "image", "");
	td_auto_free char *text = td_json_mut_text(root, NULL);
	if (bin)
		td_jm_str(d, bin, "image", image);
	return td_op_hash(text, strlen(text));
}

const char *td_op_slurmd_image(const yyjson_val *cluster, const yyjson_val *node)
{
	const char *image = td_jstr_or(cluster, "spec.slurm.image", TD_OP_SLURM_IMAGE),
		   *old = td_jstr(cluster, "spec.slurm.slurmdImage"),
		   *its = td_jkey_str(td_jget(node, "metadata.annotations"), TD_ANN_SLURMD_IMAGE);
	return !old || td_streq(its, image) ? image : old;
}

int td_op_slurmd_pod(const yyjson_val *cluster, const yyjson_val *nodeset, const yyjson_val *node,
		     const struct td_op_share *share, const char *image, struct td_json **ret, struct td_error *err)
{
	const char *ns = td_jstr(nodeset, "metadata.namespace"), *set = td_jstr(nodeset, "metadata.name"),
		   *sc = td_jstr(cluster, "metadata.name"), *name = td_jstr(node, "metadata.name"),
		   *slurm = td_op_slurmd_image(cluster, node);
	td_auto_free char *pod = td_op_slurmd_name(sc, set, name), *conf = node_conf(nodeset, node, share);
	if (strlen(pod) > 253)
		return td_fail(err, TD_INVALID,
			       "metadata.name: \"%s-%s-%s\" is longer than the 253 characters a pod's name may have",
			       sc, set, name);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_op_template(
		"slurmd.yaml", {"cluster", sc}, {"namespace", ns}, {"nodeset", set}, {"node", name}, {"conf", conf},
		{"dead-reason", TD_REASON_DEAD}, {"image", slurm}, {"program", td_op_program("slurmd.sh")});
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	if (image)
		for_kubelet(d, root, image);
	td_op_containers_slurmd(d, td_jm_get(root, "spec"), cluster);
	if (!td_op_other_node(node)) { // no job runs there, and its host's disk is not its own to give out
		td_op_scratch(d, td_jm_get(root, "spec"), cluster);
		td_op_filter(d, td_jm_get(root, "spec"), cluster);
	}
	td_op_datasets_mount(d, td_jm_get(root, "spec"), cluster);
	if (td_op_on_demand(nodeset)) {
		yyjson_mut_val *env = yyjson_mut_obj(d);
		td_jm_str(d, env, "name", "TD_ON_DEMAND");
		td_jm_str(d, env, "value", "yes");
		yyjson_mut_arr_append(td_jm_get(root, "spec.containers.[0].env"), env);
	}
	// A name with dots cannot be a hostname. slurmd is told its name in any case.
	if (td_is_dns_label(name)) {
		td_jm_str(d, root, "spec.hostname", name);
		td_jm_strf(d, root, "spec.subdomain", "%s-slurmd", sc);
	}
	td_op_storage_mount(d, td_jm_get(root, "spec"), cluster, td_op_other_node(node) ? "compute" : "slurmd");
	td_op_identity_add(d, td_jm_get(root, "spec"), cluster, slurm);
	td_op_munge_add(d, td_jm_get(root, "spec"), cluster, slurm);
	int r = 0;
	if (td_op_other_node(node))
		for_other_cluster(d, root, share);
	else // of another cluster: nobody's processes run here
		r = td_op_firewall(d, td_jm_get(root, "spec"),
				   &(struct td_op_firewall){.cluster = cluster,
							    .template = td_jget(nodeset, "spec.template"),
							    .field = "spec.template",
							    .standin = image,
							    .jobs = true},
				   err);
	if (r)
		return r;
	td_op_tolerations(d, td_jm_obj(d, root, "spec"), nodeset);
	r = td_op_merge_template(d, root, td_jget(nodeset, "spec.template"), "spec.template", err);
	if (r)
		return r;
	// The node is set after the merge, so that a template cannot change it.
	if (td_op_other_node(node)) {
		// It only represents the node; whoever places pods finds a place for it.
		td_jm_del(root, "spec.nodeName");
	} else if (td_op_dra(cluster) && share->gpus) {
		td_jm_del(root, "spec.nodeName");
		td_op_slurmd_claims(d, root, cluster, name);
	} else {
		td_jm_str(d, root, "spec.nodeName", name);
	}

	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", "Pod");
	td_jm_str(d, root, "metadata.name", pod);
	td_jm_str(d, root, "metadata.namespace", ns);
	td_auto_free char *rev = revision(d, root);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_REVISION, rev);
	td_op_own(d, root, nodeset, &td_nodesets);
	*ret = td_json_from_mut(root);
	return 0;
}
