// A Slurm node's share of its Kubernetes node, and the slurmd pod that runs there. Pure.
#include "operator/operator.h"

#include "api/kinds.h"
#include "api/quantity.h"

#include <string.h>
#include <strings.h>

char *td_op_slurmd_name(const char *cluster, const char *nodeset, const char *node)
{
	return td_asprintf("%s-%s-%s", cluster, nodeset, node);
}

static const char *quantity(const yyjson_val *map, const char *key, char buf[32], const char *def)
{
	yyjson_val *v = td_jkey(map, key);
	if (yyjson_is_str(v))
		return yyjson_get_str(v);
	if (!yyjson_is_num(v))
		return def;
	snprintf(buf, 32, "%lld", td_jint(map, key, 0));
	return buf;
}

// "gpu:4" → name and count; false for anything else.
static bool explicit_gres(const char *s, char name[64], long long *ret)
{
	const char *colon = strchr(s, ':');
	if (!colon || colon - s >= 64 || !td_parse_i64(colon + 1, ret) || *ret < 0)
		return false;
	memcpy(name, s, (size_t)(colon - s));
	name[colon - s] = '\0';
	return td_slurm_is_name(name);
}

bool td_op_share_of(const yyjson_val *cluster, const yyjson_val *nodeset, const yyjson_val *node, long long found, struct td_op_share *ret,
		    struct td_error *why)
{
	char b[4][32];
	yyjson_val *alloc = td_jget(node, "status.allocatable"), *reserve = td_jget(cluster, "spec.reserve");
	int64_t cpu, cpu_off, mem, mem_off, gpus;
	if (td_quantity_milli(quantity(alloc, "cpu", b[0], "0"), &cpu, why) ||
	    td_quantity_ceil(quantity(alloc, "memory", b[1], "0"), &mem, why) ||
	    td_quantity_ceil(quantity(alloc, td_op_resource(cluster), b[2], "0"), &gpus, why))
		return td_wrap(why, "status.allocatable"), false;
	if (found >= 0)
		gpus = found;
	if (td_quantity_ceil(quantity(reserve, "cpu", b[3], "1"), &cpu_off, why))
		return td_wrap(why, "spec.reserve.cpu of the SlurmCluster"), false;
	if (td_quantity_ceil(quantity(reserve, "memory", b[3], "1Gi"), &mem_off, why))
		return td_wrap(why, "spec.reserve.memory of the SlurmCluster"), false;
	struct td_op_share s = {cpu / 1000 - cpu_off, (mem - mem_off) / (1 << 20), gpus};
	if (s.cpus < 1 || s.memory_mb < 1) {
		td_fail(why, TD_INVALID,
			"the node's allocatable minus spec.reserve of the SlurmCluster leaves %lld CPUs and %lld MiB for Slurm; lower the "
			"reserve",
			s.cpus > 0 ? s.cpus : 0, s.memory_mb > 0 ? s.memory_mb : 0);
		return false;
	}
	const char *gres = td_jstr_or(nodeset, "spec.slurm.gres", "auto");
	char name[64];
	long long want;
	if (td_streq(gres, "none")) {
		s.gpus = 0;
	} else if (!td_streq(gres, "auto")) {
		if (!explicit_gres(gres, name, &want) || strcmp(name, "gpu")) {
			td_fail(why, TD_INVALID, "spec.slurm.gres \"%.40s\": write auto, none or gpu:COUNT", gres);
			return false;
		}
		if (want > gpus) {
			td_fail(why, TD_INVALID, "spec.slurm.gres asks for %lld GPUs, the node has %lld", want, (long long)gpus);
			return false;
		}
		s.gpus = want;
	}
	*ret = s;
	return true;
}

char *td_op_share_text(const struct td_op_share *s, const char *resource)
{
	return td_asprintf("{\"cpu\":\"%lld\",\"memory\":\"%lldMi\",\"%s\":\"%lld\"}", s->cpus, s->memory_mb, resource, s->gpus);
}

bool td_op_share_parse(const char *text, const char *resource, struct td_op_share *ret)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int64_t cpus, mem, gpus;
	if (td_json_parse(text, strlen(text), &j, NULL) || td_quantity_ceil(td_jkey_str(td_json_root(j), "cpu"), &cpus, NULL) ||
	    td_quantity_ceil(td_jkey_str(td_json_root(j), "memory"), &mem, NULL) ||
	    td_quantity_ceil(td_jkey_str(td_json_root(j), resource), &gpus, NULL) || cpus < 1 || mem >> 20 < 1 || gpus < 0)
		return false;
	*ret = (struct td_op_share){cpus, mem >> 20, gpus};
	return true;
}

// Keys of a node's line that Tandem writes.
static bool own_key(const char *k)
{
	static const char *const keys[] = {"NodeName",       "CPUs",           "Boards", "Sockets",    "SocketsPerBoard",
					   "CoresPerSocket", "ThreadsPerCore", "Procs",  "RealMemory", "Gres",
					   "Feature",        "Features",       "State",  "Port",       "NodeAddr",
					   "NodeHostname",   "BcastAddr",      "Weight", "Reason"};
	for (size_t i = 0; i < TD_LEN(keys); i++)
		if (!strcasecmp(keys[i], k))
			return true;
	return false;
}

void td_op_nodeset_check(const yyjson_val *ns, struct td_strv *problems)
{
	const char *name = td_jstr_or(ns, "metadata.name", "");
	if (!td_slurm_is_name(name) || strchr(name, '.') || strlen(name) > 58)
		td_strv_addf(problems,
			     "metadata.name: must be at most 58 letters, digits and '-', without dots: it becomes a Slurm feature");
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(ns, "spec.slurm.features"), i, n, x) {
		const char *f = yyjson_get_str(x);
		if (!td_slurm_is_name(f) || td_starts(f, "set."))
			td_strv_addf(
				problems,
				"spec.slurm.features[%zu]: must be letters, digits, '_', '.', '-' (not first) and not begin with \"set.\"",
				i);
	}
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(ns, "spec.slurm.extraConf"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *key = yyjson_get_str(k), *value = yyjson_get_str(yyjson_obj_iter_get_val(k));
		if (!td_slurm_is_key(key))
			td_strv_addf(problems, "spec.slurm.extraConf: \"%.40s\" is not a key: letters and digits only", key);
		else if (own_key(key))
			td_strv_addf(problems, "spec.slurm.extraConf.%s: Tandem sets this key from the Kubernetes node; remove it", key);
		else if (!td_slurm_is_value(value))
			td_strv_addf(problems,
				     "spec.slurm.extraConf.%s: the value must be printable characters without blanks, '\"', '#' and '\\'",
				     key);
	}
	const char *u = td_jstr(ns, "spec.updateStrategy.maxUnavailable");
	long long v;
	if (u && !td_ends(u, "%") && (!td_parse_i64(u, &v) || v < 1))
		td_strv_addf(problems, "spec.updateStrategy.maxUnavailable: must be a number of 1 or more, or a share such as 20%%");
}

// What slurmd tells slurmctld about its node (--conf). Every piece has passed a grammar.
static char *node_conf(const yyjson_val *nodeset, const yyjson_val *node, const struct td_op_share *s)
{
	struct td_buf b = {0};
	td_buf_printf(&b, "CPUs=%lld Sockets=1 CoresPerSocket=%lld ThreadsPerCore=1 RealMemory=%lld", s->cpus, s->cpus, s->memory_mb);
	if (s->gpus)
		td_buf_printf(&b, " Gres=gpu:%lld", s->gpus);
	td_auto_free char *set = td_slurm_set_feature(td_jstr_or(nodeset, "metadata.name", ""));
	td_auto_strv struct td_strv f = {0};
	td_strv_add(&f, set);
	static const char *const topology[] = {"topology.tandem.dev/block", "topology.tandem.dev/rack"};
	for (size_t i = 0; i < TD_LEN(topology); i++) {
		const char *v = td_jkey_str(td_jget(node, "metadata.labels"), topology[i]);
		if (td_slurm_is_name(v) && !td_starts(v, "set.") && !td_strv_has(&f, v))
			td_strv_add(&f, v);
	}
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(nodeset, "spec.slurm.features"), i, n, x) {
		if (!td_strv_has(&f, yyjson_get_str(x)))
			td_strv_add(&f, yyjson_get_str(x));
	}
	for (i = 0; i < f.n; i++)
		td_buf_printf(&b, "%s%s", i ? "," : " Feature=", f.v[i]);
	long long weight = td_jint(nodeset, "spec.slurm.weight", 0);
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

// A slurmd that finds no controller tries again only after 10 s, so the pod looks every 20 ms before it starts one (`read` on a pipe that
// nobody writes is a sleep without a process). A try that hangs, on the address of a controller's pod that is gone, is given up after a
// second and the name is looked up again.
//
// Then the dead are cleared away. What Slurm counts on this node before its slurmd starts ran in a container before this one, so its
// processes are gone (a container has its own PID namespace); Slurm by itself sees that late (a batch job: after up to 5 minutes) or never
// (srun: measured for 10 minutes). A node that nobody has marked is drained, so that nothing new starts meanwhile; the operator resumes it
// when slurmd has registered. With no pod's stand-in there it is then set DOWN: Slurm requeues what may be requeued and fails the rest, and
// takes the node back when slurmd registers (ReturnToService=2). Else one by one: what may be requeued is, what srun or salloc lost a step
// of is cancelled, and the batch script of a job that may not be requeued is left to slurmctld, which ends it as NODE_FAIL. Stand-ins are
// never touched: their pods live beside this container (a stand-in's mark is its comment until its admin comment is written).
// Clients need sackd's socket until slurmd has its own.
//
// On a kubelet a container sees its own cgroups read-only; proctrack/cgroup and ConstrainDevices need to write there. With SYS_ADMIN the
// mounts, which are this container's own, become writable; nothing of the host's does.
static const char slurmd_script[] = "[ -z \"$TD_CGROUPS\" ] || for m in /sys/fs/cgroup /sys/fs/cgroup/*; do\n"
				    "  mountpoint -q $m && mount -o remount,bind,rw $m\n"
				    "done\n"
				    "for f in passwd group; do ln -sf /etc/tandem/users/$f /etc/$f; done\n"
				    "exec 8<> <(:) 9<> <(:)\n"
				    "conf=/etc/tandem/users/slurm.conf sack=\n"
				    "mkdir -p /run/slurm\n"
				    "command -v sackd >/dev/null && { sackd -D -f $conf 2>/dev/null & sack=$!; }\n"
				    "while :; do\n"
				    "  (until : 3<>\"/dev/tcp/$TD_CONTROLLER/6817\"; do read -rt 0.02 -u 8; done; echo up >&9) &\n"
				    "  read -rt 1 -u 9 && break\n"
				    "  kill $!\n"
				    "done 2>/dev/null\n"
				    "slurm() { SLURM_CONF=$conf timeout 10 \"$@\" </dev/null; }\n"
				    "list() {\n"
				    "  for _ in {1..100}; do [ -S /run/slurm/sack.socket ] && break; read -rt 0.02 -u 8; done\n"
				    "  lost=$(slurm squeue -h -w \"$TD_NODE\" -t R,S,ST -O "
				    "JobID:24,BatchFlag:8,Requeue:8,BatchHost:256,admin_comment:8,comment:8 2>&1) && return\n"
				    "  [[ $lost = *'Invalid node name'* ]] || echo \"tandem: which jobs died here is not known: $lost\"\n"
				    "  lost=\n"
				    "}\n"
				    "node() { slurm scontrol update nodename=\"$TD_NODE\" \"$@\"; }\n"
				    "one_by_one() {\n"
				    "  local job batch requeue host ask\n"
				    "  while read -r job batch requeue host ask; do\n"
				    "    case $ask in *tandem/*) continue ;; esac\n"
				    "    [ -n \"$(slurm squeue -h -s -w \"$TD_NODE\" -j \"$job\" -o %i)\" ] || continue\n"
				    "    echo \"tandem: job $job had processes in a slurmd container that died\"\n"
				    "    if [ \"$batch\" != 0 ] && [ \"$requeue\" = 1 ]; then slurm scontrol requeue \"$job\"\n"
				    "    elif [ \"$batch\" = 0 ] || [ \"$host\" != \"$TD_NODE\" ]; then slurm scancel \"$job\"; fi\n"
				    "  done <<<\"$lost\"\n"
				    "}\n"
				    "clear_dead() {\n"
				    "  local lost state why='reason=" TD_OP_REASON_DEAD "'\n"
				    "  list\n"
				    "  [ -n \"$lost\" ] || return\n"
				    "  state=$(slurm sinfo -h -N -n \"$TD_NODE\" -o %T)\n"
				    "  case ${state%%$'\\n'*} in\n"
				    "  idle|idle\\*|mixed|mixed\\*|allocated|allocated\\*|completing|completing\\*)\n"
				    "    node state=DRAIN \"$why\"\n" // nothing new starts between the look and the deed
				    "    list\n"
				    "    if [[ $lost != *tandem/* ]]; then node state=DOWN \"$why\"; else one_by_one; fi ;;\n"
				    "  *) one_by_one ;;\n"
				    "  esac\n"
				    "}\n"
				    "[ -z \"$sack\" ] || { clear_dead; kill $sack; wait $sack; } >&2\n"
				    "exec 8>&- 9>&-\n"
				    "exec slurmd -D -Z -N \"$TD_NODE\" --conf-server \"$TD_CONTROLLER:6817\" --conf \"$TD_NODE_CONF\"\n";

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
	static const char *const taints[][2] = {
		{"node.kubernetes.io/not-ready", "NoExecute"},      {"node.kubernetes.io/not-ready", "NoSchedule"},
		{"node.kubernetes.io/unreachable", "NoExecute"},    {"node.kubernetes.io/unreachable", "NoSchedule"},
		{"node.kubernetes.io/unschedulable", "NoSchedule"}, {TD_OP_TAINT_DRAIN, "NoSchedule"}};
	for (size_t i = 0; i < TD_LEN(taints); i++)
		td_op_tolerate(d, tol, taints[i][0], taints[i][1]);
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(nodeset, "spec.tolerations"), i, n, x) {
		yyjson_mut_arr_append(tol, yyjson_val_mut_copy(d, x));
	}
}

// On a kubelet, where no `up` has put tandem-standin beside the pods: an init container brings it. AppArmor's usual profile for containers
// forbids the mounts that the script makes.
static void for_kubelet(yyjson_mut_doc *d, yyjson_mut_val *root, const char *image)
{
	td_auto(td_json_unref) struct td_json *more = td_op_yaml("spec:\n"
								 "  initContainers:\n"
								 "  - name: tandem\n"
								 "    image: '%s'\n"
								 "    imagePullPolicy: IfNotPresent\n"
								 "    command: [tandem-standin, copy, /opt/tandem]\n"
								 "    resources: {requests: {cpu: 10m, memory: 16Mi}}\n"
								 "    securityContext:\n"
								 "      runAsUser: 0\n"
								 "      allowPrivilegeEscalation: false\n"
								 "      readOnlyRootFilesystem: true\n"
								 "      capabilities: {drop: [ALL]}\n"
								 "      seccompProfile: {type: RuntimeDefault}\n"
								 "    volumeMounts:\n"
								 "    - {name: tandem-bin, mountPath: /opt/tandem}\n"
								 "bin: {name: tandem-bin, emptyDir: {}}\n"
								 "run: {path: /run/tandem, type: DirectoryOrCreate}\n"
								 "cgroups: {name: TD_CGROUPS, value: remount}\n",
								 image);
	yyjson_val *m = td_json_root(more);
	td_jm_copyval(d, root, "spec.initContainers", td_jget(m, "spec.initContainers"));
	td_jm_copyval(d, td_jm_get(root, "spec.volumes.[4]"), "hostPath", td_jget(m, "run"));
	yyjson_mut_val *vols = td_jm_get(root, "spec.volumes"), *env = td_jm_get(root, "spec.containers.[0].env");
	yyjson_mut_arr_replace(vols, 3, yyjson_val_mut_copy(d, td_jget(m, "bin")));
	yyjson_mut_arr_append(env, yyjson_val_mut_copy(d, td_jget(m, "cgroups")));
	td_jm_str(d, td_jm_get(root, "spec.containers.[0].securityContext"), "appArmorProfile.type", "Unconfined");
}

// Of everything but Tandem's own image: a new version of Tandem drains no node. Its tandem-standin comes when the pod is replaced for
// another reason; until then the old one does (its words, standin/wire.h, are the same).
static char *revision(yyjson_mut_doc *d, yyjson_mut_val *root)
{
	yyjson_mut_val *c, *bin = NULL;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(root, "spec.initContainers"), i, n, c)
		bin = td_streq(td_jm_getstr(c, "name"), "tandem") ? c : bin;
	td_auto_free char *image = bin ? td_strdup(td_jm_getstr(bin, "image")) : NULL;
	if (bin)
		td_jm_str(d, bin, "image", "");
	td_auto_free char *text = td_json_mut_text(root, NULL);
	if (bin)
		td_jm_str(d, bin, "image", image);
	return td_op_hash(text, strlen(text));
}

int td_op_slurmd_pod(const yyjson_val *cluster, const yyjson_val *nodeset, const yyjson_val *node, const struct td_op_share *share,
		     const char *image, struct td_json **ret, struct td_error *err)
{
	const char *ns = td_jstr(nodeset, "metadata.namespace"), *set = td_jstr(nodeset, "metadata.name"),
		   *sc = td_jstr(cluster, "metadata.name"), *name = td_jstr(node, "metadata.name");
	td_auto_free char *pod = td_op_slurmd_name(sc, set, name), *conf = node_conf(nodeset, node, share);
	if (strlen(pod) > 253)
		return td_fail(err, TD_INVALID, "metadata.name: \"%s-%s-%s\" is longer than the 253 characters a pod's name may have", sc,
			       set, name);
	td_auto(td_json_unref) struct td_json *skeleton =
		td_op_yaml("metadata:\n"
			   "  labels: {app.kubernetes.io/name: slurmd, app.kubernetes.io/managed-by: tandem, tandem.dev/cluster: %s, "
			   "tandem.dev/nodeset: %s}\n"
			   "  annotations: {tandem.dev/all-devices: 'true', tandem.dev/slurm-node: '%s'}\n"
			   "spec:\n"
			   "  nodeName: '%s'\n"
			   "  restartPolicy: Always\n"
			   "  terminationGracePeriodSeconds: 10\n"
			   "  enableServiceLinks: false\n"
			   "  automountServiceAccountToken: false\n"
			   "  containers:\n"
			   "  - name: slurmd\n"
			   "    imagePullPolicy: IfNotPresent\n"
			   "    command: [bash, -c]\n"
			   "    env:\n"
			   "    - {name: SLURM_SACK_KEY, value: " TD_SLURM_KEYS "/slurm.key}\n"
			   "    - {name: TD_CONTROLLER, value: %s-slurmctld-0.%s-slurmctld.%s.svc.cluster.local}\n"
			   "    - {name: TD_NODE, value: '%s'}\n"
			   "    - {name: TD_NODE_CONF}\n"
			   "    ports: [{name: slurmd, containerPort: 6818, protocol: TCP}]\n"
			   "    resources: {requests: {cpu: 100m, memory: 128Mi}}\n"
			   "    securityContext:\n"
			   "      runAsUser: 0\n"
			   "      allowPrivilegeEscalation: false\n"
			   "      capabilities: {drop: [ALL], add: [CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, SYS_ADMIN]}\n"
			   "    volumeMounts:\n"
			   "    - {name: key, mountPath: " TD_SLURM_KEYS ", readOnly: true}\n"
			   "    - {name: users, mountPath: /etc/tandem/users, readOnly: true}\n"
			   "    - {name: spool, mountPath: " TD_SLURM_SPOOL "}\n"
			   "    - {name: tandem-bin, mountPath: /opt/tandem, readOnly: true}\n"
			   "    - {name: tandem-run, mountPath: /run/tandem}\n"
			   "  volumes:\n"
			   "  - {name: key, secret: {secretName: %s-slurm-key, defaultMode: 256}}\n"
			   "  - {name: users, configMap: {name: %s-config, items: [{key: passwd, path: passwd}, {key: group, path: group}, "
			   "{key: slurm.conf, "
			   "path: slurm.conf}]}}\n"
			   "  - {name: spool, emptyDir: {}}\n"
			   "  - {name: tandem-bin, hostPath: {path: /opt/tandem}}\n"
			   "  - {name: tandem-run, hostPath: {path: /run/tandem}}\n",
			   sc, set, name, name, sc, sc, ns, name, sc, sc);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(skeleton));
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *c = td_jm_get(root, "spec.containers.[0]");
	td_jm_str(d, c, "image", td_jstr_or(cluster, "spec.slurm.image", "tandem/slurm:24.11"));
	td_jm_str(d, td_jm_get(c, "env.[3]"), "value", conf);
	if (image)
		for_kubelet(d, root, image);
	yyjson_mut_arr_add_strcpy(d, td_jm_get(c, "command"), slurmd_script);
	if (td_is_dns_label(name)) { // a name with dots cannot be a hostname; slurmd is told its name anyway
		td_jm_str(d, root, "spec.hostname", name);
		td_jm_strf(d, root, "spec.subdomain", "%s-slurmd", sc);
	}
	td_op_tolerations(d, td_jm_obj(d, root, "spec"), nodeset);
	int r = td_op_merge_template(d, root, td_jget(nodeset, "spec.template"), "spec.template", err);
	if (r)
		return r;
	if (td_op_dra(cluster) && share->gpus) { // a template cannot move it
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
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_OP_REVISION, rev);
	td_op_own(d, root, nodeset, &td_nodesets);
	*ret = td_json_from_mut(root);
	return 0;
}
