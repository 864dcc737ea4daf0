// The objects of one SlurmCluster except slurmd: keys, configuration, slurmctld, slurmrestd, login. Names and keys: docs/ARCHITECTURE.md.
#include "operator/operator.h"

#include "slurm/keys.h"
#include "slurm/where.h"

#include <string.h>

void td_op_wants_done(struct td_op_wants *w)
{
	for (size_t i = 0; i < w->n; i++) {
		td_json_unref(w->v[i].obj);
		free(w->v[i].field);
	}
	free(w->v);
	*w = (struct td_op_wants){0};
}

void td_op_wants_add(struct td_op_wants *w, struct td_op_want x)
{
	w->v = td_realloc(w->v, (w->n + 1) * sizeof(*w->v));
	w->v[w->n++] = x;
}

struct builder {
	const yyjson_val *sc;
	const char *ns, *name, *image, *hash;
	struct td_op_wants *out;
};

// Finishes an object: namespace, labels, owner.
static void add(struct builder *b, const struct td_gvr *gvr, yyjson_mut_doc *d, bool once)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.namespace", b->ns);
	yyjson_mut_val *labels = td_jm_obj(d, root, "metadata.labels");
	td_jm_key_str(d, labels, TD_OP_LABEL_CLUSTER, b->name);
	td_jm_key_str(d, labels, "app.kubernetes.io/managed-by", "tandem");
	td_op_own(d, root, b->sc, &td_slurmclusters);
	td_op_wants_add(b->out, (struct td_op_want){.gvr = gvr, .obj = td_json_from_mut(root), .once = once});
}

static yyjson_mut_doc *doc(struct td_json *j)
{
	yyjson_mut_doc *d = td_jm_copy(td_json_root(j));
	td_json_unref(j);
	return d;
}

static void secret(struct builder *b, const char *suffix, const char *key, size_t bytes)
{
	td_auto_free char *value = td_slurm_key_new(bytes);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		doc(td_op_yaml("apiVersion: v1\nkind: Secret\ntype: Opaque\nmetadata: {name: %s-%s}\n", b->name, suffix));
	td_jm_key_str(d, td_jm_obj(d, yyjson_mut_doc_get_root(d), "data"), key, value);
	explicit_bzero(value, strlen(value));
	add(b, &td_secrets, d, true);
}

static void config_map(struct builder *b, const struct td_slurm_files *f)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		doc(td_op_yaml("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-config}\n", b->name));
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *data = td_jm_obj(d, root, "data");
	for (size_t i = 0; i < f->n; i++)
		td_jm_key_str(d, data, f->v[i].name, f->v[i].text);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_OP_CONFIG, b->hash);
	add(b, &td_configmaps, d, false);
}

static void service(struct builder *b, const char *suffix, const char *app, int port)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = doc(td_op_yaml("apiVersion: v1\nkind: Service\n"
									"metadata: {name: %s-%s, labels: {app.kubernetes.io/name: %s}}\n"
									"spec:\n"
									"  type: ClusterIP\n"
									"  clusterIP: None\n"
									"  publishNotReadyAddresses: true\n"
									"  selector: {app.kubernetes.io/name: %s, tandem.dev/cluster: %s}\n"
									"  ports: [{name: %s, port: %d, targetPort: %d, protocol: TCP}]\n",
									b->name, suffix, app, app, b->name, app, port, port));
	add(b, &td_services, d, false);
}

// Where all nodes are drained in Slurm, slurmctld could start nowhere without it, and nothing could resume them.
static void tolerate_drain(yyjson_mut_doc *d, yyjson_mut_val *template)
{
	td_op_tolerate(d, td_jm_arr(d, template, "spec.tolerations"), TD_OP_TAINT_DRAIN, "NoSchedule");
}

// The workload's template: hash, image and resources, then the user's template over it.
static int workload(struct builder *b, const struct td_gvr *gvr, struct td_json *skeleton, const yyjson_val *part, const char *field,
		    struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = doc(skeleton);
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *t = td_jm_get(root, "spec.template"), *c;
	yyjson_mut_val *labels = td_jm_obj(d, t, "metadata.labels");
	td_jm_key_str(d, labels, TD_OP_LABEL_CLUSTER, b->name);
	td_jm_key_str(d, labels, "app.kubernetes.io/managed-by", "tandem");
	td_jm_key_str(d, td_jm_obj(d, t, "metadata.annotations"), TD_OP_CONFIG, b->hash);
	td_jm_bool(d, t, "spec.enableServiceLinks", false);
	td_jm_bool(d, t, "spec.automountServiceAccountToken", false);
	static const char *const lists[] = {"spec.initContainers", "spec.containers"};
	for (size_t k = 0; k < TD_LEN(lists); k++) {
		size_t i, n;
		yyjson_mut_arr_foreach (td_jm_get(t, lists[k]), i, n, c) {
			td_jm_str(d, c, "image", b->image);
			td_jm_str(d, c, "imagePullPolicy", "IfNotPresent");
			if (k == 1)
				td_jm_copyval(d, c, "resources", td_jget(part, "resources"));
		}
	}
	td_auto_free char *f = td_asprintf("%s.template", field);
	int r = td_op_merge_template(d, t, td_jget(part, "template"), f, err);
	if (r)
		return r;
	tolerate_drain(d, t);
	add(b, gvr, d, false);
	b->out->v[b->out->n - 1].field = td_strdup(field);
	return 0;
}

#define USERS_BY_FILE                                                                                                                      \
	"        - {name: config, mountPath: /etc/passwd, subPath: passwd, readOnly: true}\n"                                              \
	"        - {name: config, mountPath: /etc/group, subPath: group, readOnly: true}\n"
#define UNPRIVILEGED "        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}\n"

static int slurmctld(struct builder *b, struct td_error *err)
{
	yyjson_val *part = td_jget(b->sc, "spec.controller"), *host = td_jget(part, "storage.hostPath");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = doc(
		td_op_yaml("apiVersion: apps/v1\nkind: StatefulSet\n"
			   "metadata: {name: %s-slurmctld, labels: {app.kubernetes.io/name: slurmctld}}\n"
			   "spec:\n"
			   "  replicas: 1\n"
			   "  serviceName: %s-slurmctld\n"
			   "  selector: {matchLabels: {app.kubernetes.io/name: slurmctld, tandem.dev/cluster: %s}}\n"
			   "  template:\n"
			   "    metadata: {labels: {app.kubernetes.io/name: slurmctld}}\n"
			   "    spec:\n"
			   "      terminationGracePeriodSeconds: 30\n"
			   "      securityContext: {runAsUser: 64030, runAsGroup: 64030, fsGroup: 64030}\n"
			   "      initContainers:\n"
			   "      - name: state\n"
			   "        command: [chown, '64030:64030', " TD_SLURM_STATE "]\n"
			   "        securityContext: {runAsUser: 0, runAsGroup: 0, allowPrivilegeEscalation: false, capabilities: {drop: "
			   "[ALL], add: [CHOWN]}}\n"
			   "        volumeMounts: [{name: state, mountPath: " TD_SLURM_STATE "}]\n"
			   "      containers:\n"
			   "      - name: slurmctld\n"
			   "        command: [sh, " TD_SLURM_ETC "/slurmctld.sh, slurmctld, -D]\n"
			   "        env: [{name: SLURM_SACK_KEY, value: " TD_SLURM_KEYS "/slurm.key}]\n"
			   "        ports: [{name: slurmctld, containerPort: 6817, protocol: TCP}]\n" UNPRIVILEGED "        volumeMounts:\n"
			   "        - {name: config, mountPath: " TD_SLURM_ETC ", readOnly: true}\n" USERS_BY_FILE
			   "        - {name: key, mountPath: " TD_SLURM_KEYS ", readOnly: true}\n"
			   "        - {name: jwt, mountPath: " TD_SLURM_JWT ", readOnly: true}\n"
			   "        - {name: state, mountPath: " TD_SLURM_STATE "}\n"
			   "        - {name: run, mountPath: /run/slurmctld}\n"
			   "      volumes:\n"
			   "      - {name: config, configMap: {name: %s-config}}\n"
			   "      - {name: key, secret: {secretName: %s-slurm-key, defaultMode: 256}}\n"
			   "      - {name: jwt, secret: {secretName: %s-jwt-key, defaultMode: 256}}\n"
			   "      - {name: run, emptyDir: {medium: Memory}}\n"
			   "      - {name: state, emptyDir: {}}\n",
			   b->name, b->name, b->name, b->name, b->name, b->name));
	yyjson_mut_val *spec = td_jm_get(yyjson_mut_doc_get_root(d), "spec.template.spec");
	if (host) {
		yyjson_mut_val *state = td_jm_get(spec, "volumes.[4]");
		td_jm_del(state, "emptyDir");
		td_jm_str(d, state, "hostPath.path", td_jstr_or(host, "path", ""));
		td_jm_str(d, state, "hostPath.type", "DirectoryOrCreate");
		td_jm_key_str(d, td_jm_obj(d, spec, "nodeSelector"), "kubernetes.io/hostname", td_jstr_or(host, "node", ""));
	}
	return workload(b, &td_statefulsets, td_json_from_mut(yyjson_mut_doc_get_root(d)), part, "spec.controller", err);
}

static void claim_template(struct builder *b)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = doc(td_op_claim_template_object(b->sc));
	add(b, &td_resourceclaimtemplates, d, false);
}

// Evictions (kubectl drain, autoscalers) keep off slurmd pods as long as a job is or could be there: all but those that the operator
// labels, because a node that takes no more jobs cannot get one between the look and the eviction. A number, not maxUnavailable: that is
// counted against the replicas of the NodeSet, which nobody needs to set. Until the node is drained (cordon it) an eviction is refused and
// tried again by who asked.
static void budget(struct builder *b)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		doc(td_op_yaml("apiVersion: policy/v1\nkind: PodDisruptionBudget\n"
			       "metadata: {name: %s-drain-first, labels: {app.kubernetes.io/name: slurmd}}\n"
			       "spec:\n"
			       "  minAvailable: 2147483647\n"
			       "  selector:\n"
			       "    matchLabels: {app.kubernetes.io/name: slurmd, tandem.dev/cluster: %s}\n"
			       "    matchExpressions: [{key: " TD_OP_EVICTABLE ", operator: DoesNotExist}]\n",
			       b->name, b->name));
	add(b, &td_pdbs, d, false);
}

static bool by_socket(const struct builder *b)
{
	return td_streq(td_jstr(b->sc, "spec.restApi.access"), "socket");
}

// A refused request of anybody can freeze slurmctld (docs/facts/slurm.md S-T1), so with access "socket" slurmrestd has no port at all: its
// socket is in a volume that no other pod can mount (slurm/where.h).
static int slurmrestd(struct builder *b, struct td_error *err)
{
	bool sock = by_socket(b);
	const char *command =
		sock ? "[sh, -c, 'umask 077 && mkdir -p /run/slurmrestd/private && exec slurmrestd -a rest_auth/jwt -s slurmctld "
		       "unix:/run/slurmrestd/" TD_SLURM_REST_SOCKET "']"
		     : "[slurmrestd, -a, rest_auth/jwt, -s, slurmctld, '0.0.0.0:6820']";
	return workload(b, &td_deployments,
			td_op_yaml("apiVersion: apps/v1\nkind: Deployment\n"
				   "metadata: {name: %s-slurmrestd, labels: {app.kubernetes.io/name: slurmrestd}}\n"
				   "spec:\n"
				   "  replicas: %lld\n"
				   "  selector: {matchLabels: {app.kubernetes.io/name: slurmrestd, tandem.dev/cluster: %s}}\n"
				   "  template:\n"
				   "    metadata:\n"
				   "      labels: {app.kubernetes.io/name: slurmrestd}\n"
				   "      annotations: {" TD_SLURM_ACCESS ": %s}\n"
				   "    spec:\n"
				   "      terminationGracePeriodSeconds: 5\n"
				   "      securityContext: {runAsUser: 65534, runAsGroup: 65534, runAsNonRoot: true}\n"
				   "      containers:\n"
				   "      - name: slurmrestd\n"
				   "        command: %s\n"
				   "        env:\n"
				   "        - {name: SLURM_JWT, value: daemon}\n"
				   "        - {name: SLURM_JSON, value: compact}\n"      // half of a reply would be spaces
				   "        - {name: SLURMRESTD_JSON, value: compact}\n" // the name that 24.11 knows
				   "        ports: [%s]\n" UNPRIVILEGED "        volumeMounts:\n"
				   "        - {name: config, mountPath: " TD_SLURM_ETC ", readOnly: true}\n" USERS_BY_FILE "%s"
				   "      volumes:\n"
				   "      - {name: config, configMap: {name: %s-config}}\n%s",
				   b->name, td_jint(b->sc, "spec.restApi.replicas", 1), b->name, sock ? "socket" : "network", command,
				   sock ? "" : "{name: slurmrestd, containerPort: 6820, protocol: TCP}",
				   sock ? "        - {name: " TD_SLURM_REST_VOLUME ", mountPath: /run/slurmrestd}\n" : "", b->name,
				   sock ? "      - {name: " TD_SLURM_REST_VOLUME ", emptyDir: {}}\n" : ""),
			td_jget(b->sc, "spec.restApi"), "spec.restApi", err);
}

// Homes are made here because only here somebody logs in; sackd lets every user prove who he is without seeing the key.
static const char login_script[] = "for f in passwd group; do ln -sf /etc/tandem/users/$f /etc/$f; done\n"
				   "while IFS=: read -r name pw uid gid gecos home shell; do\n"
				   "  case $home in /home/?*) [ \"$uid\" -lt 1000 ] || [ -e \"$home\" ] || install -d -o \"$uid\" -g "
				   "\"$gid\" -m 0755 \"$home\" ;; esac\n"
				   "done < /etc/tandem/users/passwd\n"
				   "mkdir -p /run/slurm\n"
				   "command -v sackd >/dev/null && exec sackd -D\n"
				   "echo 'tandem: this image has no sackd: only slurmd pods can talk to Slurm' >&2\n"
				   "exec sleep infinity\n";

// Headless: its name leads to one pod, or (NULL) to all that are ready.
static void login_service(struct builder *b, const char *group, const char *pod)
{
	td_auto_free char *set = td_asprintf("%s-%s", b->name, group);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = doc(td_op_yaml(
		"apiVersion: v1\nkind: Service\n"
		"metadata: {name: %s, labels: {app.kubernetes.io/name: login, tandem.dev/login: '%s'}}\n"
		"spec:\n"
		"  type: ClusterIP\n"
		"  clusterIP: None\n%s"
		"  selector: {app.kubernetes.io/name: login, tandem.dev/cluster: %s, tandem.dev/login: '%s'}\n"
		"  ports: [{name: ssh, port: 22, targetPort: 22, protocol: TCP}]\n",
		pod ? pod : set, group, pod ? "  publishNotReadyAddresses: true\n" : "", b->name, group)); // "false" is not stored
	if (pod)
		td_jm_key_str(d, td_jm_get(yyjson_mut_doc_get_root(d), "spec.selector"), "statefulset.kubernetes.io/pod-name", pod);
	add(b, &td_services, d, false);
}

// slurmctld calls back the srun of a step at the first label of its host's name (24.11: srun/launch.c, stepmgr/srun_comm.c), and blocks for
// 10 s on a name that it cannot look up; the nodes of such a job stay COMPLETING for a minute or two (seen on a real cluster). One label is
// the name of a Service of the namespace, so each login pod has a Service of its own name; a StatefulSet's pods have names that stay.
static int login(struct builder *b, const yyjson_val *part, size_t at, struct td_error *err)
{
	const char *name = td_jstr_or(part, "name", "login");
	long long replicas = td_jint(part, "replicas", 1);
	td_auto_free char *field = td_asprintf("spec.login[%zu]", at), *set = td_asprintf("%s-%s", b->name, name);
	login_service(b, name, NULL);
	for (long long i = 0; i < replicas; i++) {
		td_auto_free char *pod = td_asprintf("%s-%lld", set, i);
		login_service(b, name, pod);
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = doc(td_op_yaml(
		"apiVersion: apps/v1\nkind: StatefulSet\n"
		"metadata: {name: %s, labels: {app.kubernetes.io/name: login}}\n"
		"spec:\n"
		"  replicas: %lld\n"
		"  serviceName: %s\n"
		"  podManagementPolicy: Parallel\n"
		"  selector: {matchLabels: {app.kubernetes.io/name: login, tandem.dev/cluster: %s, tandem.dev/login: '%s'}}\n"
		"  template:\n"
		"    metadata: {labels: {app.kubernetes.io/name: login, tandem.dev/login: '%s'}}\n"
		"    spec:\n"
		"      terminationGracePeriodSeconds: 5\n"
		"      containers:\n"
		"      - name: login\n"
		"        command: [sh, -c]\n"
		"        env: [{name: SLURM_SACK_KEY, value: " TD_SLURM_KEYS "/slurm.key}]\n"
		"        volumeMounts:\n"
		"        - {name: config, mountPath: " TD_SLURM_ETC ", readOnly: true}\n"
		"        - {name: users, mountPath: /etc/tandem/users, readOnly: true}\n"
		"        - {name: key, mountPath: " TD_SLURM_KEYS ", readOnly: true}\n"
		"      volumes:\n"
		"      - {name: config, configMap: {name: %s-config}}\n"
		"      - {name: users, configMap: {name: %s-config, items: [{key: passwd, path: passwd}, {key: group, path: group}]}}\n"
		"      - {name: key, secret: {secretName: %s-slurm-key, defaultMode: 256}}\n",
		set, replicas, set, b->name, name, name, b->name, b->name, b->name));
	yyjson_mut_val *cmd = td_jm_get(yyjson_mut_doc_get_root(d), "spec.template.spec.containers.[0].command");
	yyjson_mut_arr_add_strcpy(d, cmd, login_script);
	return workload(b, &td_statefulsets, td_json_from_mut(yyjson_mut_doc_get_root(d)), part, field, err);
}

int td_op_cluster_objects(const yyjson_val *sc, const struct td_slurm_files *files, struct td_op_wants *ret, struct td_error *err)
{
	td_auto_free char *hash = td_op_files_hash(files);
	td_auto_wants struct td_op_wants out = {0};
	struct builder b = {sc,
			    td_jstr(sc, "metadata.namespace"),
			    td_jstr(sc, "metadata.name"),
			    td_jstr_or(sc, "spec.slurm.image", "tandem/slurm:24.11"),
			    hash,
			    &out};
	secret(&b, "slurm-key", "slurm.key", TD_SLURM_KEY_BYTES);
	secret(&b, "jwt-key", "jwt_hs256.key", TD_SLURM_JWT_KEY_BYTES);
	config_map(&b, files);
	service(&b, "slurmctld", "slurmctld", TD_SLURMCTLD_PORT);
	if (!by_socket(&b))
		service(&b, "slurmrestd", "slurmrestd", TD_SLURMRESTD_PORT);
	service(&b, "slurmd", "slurmd", TD_SLURMD_PORT);
	if (td_op_dra(sc))
		claim_template(&b);
	budget(&b);
	int r;
	if ((r = slurmctld(&b, err)) || (r = slurmrestd(&b, err)))
		return r;
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.login"), i, n, x)
		if ((r = login(&b, x, i, err)))
			return r;
	*ret = out;
	out = (struct td_op_wants){0};
	return 0;
}
