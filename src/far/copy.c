#include "far/copy.h"

#include "far/refs.h"
#include "http/pki.h"

#include "api/condition.h"
#include "api/othercluster.h"
#include "base/clock.h"
#include "base/names.h"

#include <ctype.h>
#include <string.h>

enum { NAME_CUT = 50, UID_DIGITS = 12, TD_FAR_GANG = 4096 };
// The headless Service there that gives the members of gangs their names (deploy/examples/other-cluster.yaml).
#define GANGS "copies"
#define CLAIM "persistentVolumeClaim"

// What becomes of a field there.
enum go {
	GO_AS_IS, // copied
	GO_WITH,  // copied when what is in it may go; looked at by name below
	GO_NOT,   // not copied, and no harm: it is about this cluster
};
struct copy_field {
	const char *name;
	enum go go;
};
static const struct copy_field pod_fields[] = {
	{"containers", GO_WITH},
	{"initContainers", GO_WITH},
	{"volumes", GO_WITH},
	{"imagePullSecrets", GO_WITH},
	{"securityContext", GO_WITH},
	{"serviceAccountName", GO_WITH},
	{"serviceAccount", GO_WITH},
	{"hostNetwork", GO_WITH},
	{"hostPID", GO_WITH},
	{"hostIPC", GO_WITH},
	{"restartPolicy", GO_AS_IS},
	{"terminationGracePeriodSeconds", GO_AS_IS},
	{"activeDeadlineSeconds", GO_AS_IS},
	{"hostUsers", GO_AS_IS},
	{"hostname", GO_AS_IS},
	{"subdomain", GO_NOT},
	{"setHostnameAsFQDN", GO_NOT},
	{"shareProcessNamespace", GO_AS_IS},
	{"os", GO_AS_IS},
	// Where it runs is decided here, by Slurm.
	{"nodeName", GO_NOT},
	{"nodeSelector", GO_NOT},
	{"affinity", GO_NOT},
	{"tolerations", GO_NOT},
	{"schedulerName", GO_NOT},
	{"topologySpreadConstraints", GO_NOT},
	{"priority", GO_NOT},
	{"priorityClassName", GO_NOT},
	{"preemptionPolicy", GO_NOT},
	// A copy has no account there.
	{"automountServiceAccountToken", GO_NOT},
	{"enableServiceLinks", GO_NOT},
	{"dnsPolicy", GO_NOT},
	{"ephemeralContainers", GO_NOT},
};
static const struct copy_field container_fields[] = {
	{"env", GO_WITH},
	{"envFrom", GO_WITH},
	{"volumeMounts", GO_WITH},
	{"ports", GO_WITH},
	{"securityContext", GO_WITH},
	{"resources", GO_WITH},
	{"name", GO_AS_IS},
	{"image", GO_AS_IS},
	{"imagePullPolicy", GO_AS_IS},
	{"command", GO_AS_IS},
	{"args", GO_AS_IS},
	{"workingDir", GO_AS_IS},
	{"restartPolicy", GO_AS_IS},
	{"resizePolicy", GO_AS_IS}, // some API servers write it into every pod
	{"lifecycle", GO_AS_IS},
	{"livenessProbe", GO_AS_IS},
	{"readinessProbe", GO_AS_IS},
	{"startupProbe", GO_AS_IS},
	{"terminationMessagePath", GO_AS_IS},
	{"terminationMessagePolicy", GO_AS_IS},
	{"stdin", GO_AS_IS},
	{"stdinOnce", GO_AS_IS},
	{"tty", GO_AS_IS},
};
// What an environment variable can say of its pod, and what it says there: of the pod here, whose the name and namespace
// are. NULL: the same words mean the right thing there, too.
static const struct {
	const char *path, *here;
} env_fields[] = {{"metadata.name", "metadata.name"},
		  {"metadata.namespace", "metadata.namespace"},
		  {"metadata.uid", "metadata.uid"},
		  {"spec.nodeName", "spec.nodeName"},
		  {"status.podIP", NULL},
		  {"status.podIPs", NULL},
		  {"status.hostIP", NULL}};

static const struct copy_field *field_of(const struct copy_field *f, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(f[i].name, name))
			return &f[i];
	return NULL;
}

static bool empty(const yyjson_val *value)
{
	yyjson_val *v = (yyjson_val *)value;
	return !v || yyjson_is_null(v) || yyjson_is_false(v) ||
	       ((yyjson_is_arr(v) || yyjson_is_obj(v)) && !unsafe_yyjson_get_len(v));
}

static const char *const env_sources[] = {"prefix", "configMapRef", "secretRef"};
static const char *const volume_kinds[] = {"name", "emptyDir", "configMap", "secret", CLAIM};
static const char *const projections[] = {"configMap", "secret"};

static int refuse(struct td_error *err, const char *field, const char *why)
{
	return td_fail(err, TD_INVALID, "%s: it cannot go to another cluster: %s", field, why);
}

// Refuses every field that no list knows.
static int known(const yyjson_val *o, const struct copy_field *f, size_t n_fields, const char *at, struct td_error *err)
{
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach ((yyjson_val *)o, i, n, k, v) {
		if (empty(v) || field_of(f, n_fields, yyjson_get_str(k)))
			continue;
		td_auto_free char *where = td_asprintf("%s.%s", at, yyjson_get_str(k));
		return refuse(err, where, "it is about what is in this one; leave it out");
	}
	return 0;
}

static int check_security(const yyjson_val *s, const char *at, struct td_error *err)
{
	static const char *const no[] = {"privileged", "capabilities.add", "procMount",
					 "sysctls",    "seLinuxOptions",   "appArmorProfile"};
	for (size_t i = 0; i < TD_LEN(no); i++)
		if (!empty(td_jget(s, no[i]))) {
			td_auto_free char *where = td_asprintf("%s.securityContext.%s", at, no[i]);
			return refuse(err, where, "it would give rights on a node there; leave it out");
		}
	return 0;
}

static bool one_of(const char *s, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(s, v[i]))
			return true;
	return false;
}

// Of "metadata.annotations['KEY']" and "metadata.labels['KEY']" the key; NULL: it is neither. The caller frees it.
static char *meta_key(const char *path, const char **ret_of)
{
	static const char *const of[] = {"metadata.annotations", "metadata.labels"};
	for (size_t i = 0; i < TD_LEN(of); i++) {
		size_t n = strlen(of[i]), all = strlen(path);
		if (all < n + 5 || strncmp(path, of[i], n) != 0 || strncmp(path + n, "['", 2) != 0 ||
		    strcmp(path + all - 2, "']") != 0)
			continue;
		if (ret_of)
			*ret_of = of[i];
		return td_strndup(path + n + 2, all - n - 4);
	}
	return NULL;
}

// Of a list whose elements each name one thing that goes along, and how.
static int check_sources(const yyjson_val *list, const char *at, const char *const *kinds, size_t n_kinds,
			 struct td_error *err)
{
	yyjson_val *s, *key, *val;
	size_t i, n, k, m;
	yyjson_arr_foreach ((yyjson_val *)list, i, n, s)
		yyjson_obj_foreach (s, k, m, key, val) {
			const char *kind = unsafe_yyjson_get_str(key); // a key is a string
			td_auto_free char *where = td_asprintf("%s[%zu].%s", at, i, kind);
			if (!yyjson_is_null(val) && !one_of(kind, kinds, n_kinds))
				return refuse(err, where, "only ConfigMaps and Secrets go there; leave it out");
		}
	return 0;
}

static int check_env(const yyjson_val *c, const char *at, struct td_error *err)
{
	yyjson_val *e;
	size_t i, n;
	yyjson_arr_foreach (td_jget(c, "env"), i, n, e) {
		const yyjson_val *from = td_jget(e, "valueFrom");
		const char *path = td_jstr(from, "fieldRef.fieldPath");
		bool ok = empty(from) || td_jget(from, "resourceFieldRef") || td_jget(from, "secretKeyRef") ||
			  td_jget(from, "configMapKeyRef");
		for (size_t k = 0; path && k < TD_LEN(env_fields); k++)
			ok |= !strcmp(path, env_fields[k].path);
		td_auto_free char *meta = path ? meta_key(path, NULL) : NULL;
		ok |= meta != NULL;
		td_auto_free char *where = td_asprintf("%s.env[%zu].valueFrom", at, i);
		if (!ok)
			return refuse(
				err, where,
				"of the pod only its name, namespace, uid, node, addresses, labels and annotations are "
				"known there; write a value");
	}
	td_auto_free char *from = td_asprintf("%s.envFrom", at);
	return check_sources(td_jget(c, "envFrom"), from, env_sources, TD_LEN(env_sources), err);
}

// A probe or hook that names a host is a request of the node's, to whatever the node can reach.
static int check_hosts(const yyjson_val *c, const char *at, struct td_error *err)
{
	static const char *const handlers[] = {"livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart",
					       "lifecycle.preStop"};
	static const char *const ways[] = {"httpGet.host", "tcpSocket.host"};
	for (size_t i = 0; i < TD_LEN(handlers); i++)
		for (size_t k = 0; k < TD_LEN(ways); k++)
			if (td_jstr_or(td_jget(c, handlers[i]), ways[k], "")[0]) {
				td_auto_free char *where = td_asprintf("%s.%s.%s", at, handlers[i], ways[k]);
				return refuse(err, where, "a node there would call that host; leave it out");
			}
	return 0;
}

static int check_container(const yyjson_val *c, const char *at, struct td_error *err)
{
	yyjson_val *x;
	size_t i, n;
	int r = known(c, container_fields, TD_LEN(container_fields), at, err);
	if (!r)
		r = check_security(td_jget(c, "securityContext"), at, err);
	if (!r)
		r = check_env(c, at, err);
	if (!r)
		r = check_hosts(c, at, err);
	yyjson_arr_foreach (td_jget(c, "ports"), i, n, x) {
		td_auto_free char *where = td_asprintf("%s.ports[%zu].hostPort", at, i);
		if (!r && td_jint(x, "hostPort", 0))
			r = refuse(err, where, "it would be a port of a node there; leave it out");
	}
	td_auto_free char *claims = td_asprintf("%s.resources.claims", at);
	if (!r && !empty(td_jget(c, "resources.claims")))
		r = refuse(err, claims, "the devices of claims are here; ask for the resource instead");
	return r;
}

static int check_volumes(const yyjson_val *spec, struct td_error *err)
{
	yyjson_val *v, *key, *val;
	size_t i, n, k, m;
	yyjson_arr_foreach (td_jget(spec, "volumes"), i, n, v) {
		if (td_far_token_volume(td_jstr_or(v, "name", "")))
			continue;
		yyjson_obj_foreach (v, k, m, key, val) {
			const char *kind = unsafe_yyjson_get_str(key); // a key is a string
			if (one_of(kind, volume_kinds, TD_LEN(volume_kinds)) || yyjson_is_null(val))
				continue;
			td_auto_free char *where = td_asprintf("spec.volumes[%zu].%s", i, kind);
			if (strcmp(kind, "projected") != 0)
				return refuse(
					err, where,
					"what it holds is here; emptyDir, ConfigMaps, Secrets, and claims that the "
					"NodeSet names go there, and other files come and go over the network");
			td_auto_free char *in = td_asprintf("%s.sources", where);
			int r = check_sources(td_jget(val, "sources"), in, projections, TD_LEN(projections), err);
			if (r)
				return r;
		}
	}
	return 0;
}

int td_far_copy_check(const yyjson_val *pod, struct td_error *err)
{
	static const char *const lists[] = {"initContainers", "containers"};
	static const char *const host[] = {"hostNetwork", "hostPID", "hostIPC"};
	const yyjson_val *spec = td_jget(pod, "spec");
	const char *account = td_jstr_or(spec, "serviceAccountName", "default");
	yyjson_val *c;
	size_t i, n;
	int r = known(spec, pod_fields, TD_LEN(pod_fields), "spec", err);
	for (i = 0; i < TD_LEN(host) && !r; i++) {
		td_auto_free char *where = td_asprintf("spec.%s", host[i]);
		if (td_jbool(spec, host[i], false))
			r = refuse(err, where, "it would reach into a node there; leave it out");
	}
	if (!r && strcmp(account, "default") != 0)
		r = refuse(err, "spec.serviceAccountName", "accounts are this one's; leave it out");
	if (!r)
		r = check_security(td_jget(spec, "securityContext"), "spec", err);
	if (!r)
		r = check_volumes(spec, err);
	for (size_t l = 0; l < TD_LEN(lists); l++)
		yyjson_arr_foreach (td_jget(spec, lists[l]), i, n, c) {
			td_auto_free char *at = td_asprintf("spec.%s[%zu]", lists[l], i);
			r = r ? r : check_container(c, at, err);
		}
	return r;
}

int td_far_claims_check(const yyjson_val *pod, const yyjson_val *set, struct td_error *err)
{
	const char *ns = td_jstr_or(pod, "metadata.namespace", "");
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(pod, "spec.volumes"), i, n, v) {
		const char *claim = td_jstr(v, CLAIM ".claimName");
		if (!claim || td_api_other_claim(set, ns, claim))
			continue;
		return td_fail(err, TD_INVALID,
			       "spec.volumes[%zu]." CLAIM ": the claim \"%.63s\" is here, and NodeSet %s/%s names none "
			       "there for it: an administrator adds {namespace: %s, claim: %.63s, there: NAME} to its "
			       "spec.otherCluster.claims; or leave the volume out",
			       i, claim, td_jstr_or(set, "metadata.namespace", ""),
			       td_jstr_or(set, "metadata.name", ""), ns, claim);
	}
	return 0;
}

static void copy_claims(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *set, const char *ns)
{
	yyjson_mut_val *v;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(spec, "volumes"), i, n, v) {
		const char *claim = td_jm_getstr(v, CLAIM ".claimName");
		const yyjson_val *there = claim ? td_api_other_claim(set, ns, claim) : NULL;
		if (!there)
			continue;
		td_jm_str(d, v, CLAIM ".claimName", td_jstr_or(there, "there", ""));
		if (td_jbool(there, "readOnly", false))
			td_jm_bool(d, v, CLAIM ".readOnly", true);
	}
}

char *td_far_copy_name(const yyjson_val *pod)
{
	char digits[UID_DIGITS + 1];
	size_t n = 0;
	for (const char *u = td_jstr_or(pod, "metadata.uid", ""); *u && n < UID_DIGITS; u++)
		if (isxdigit((unsigned char)*u))
			digits[n++] = *u;
	digits[n] = '\0';
	char *s = td_asprintf("%s-%s", td_jstr_or(pod, "metadata.namespace", ""), td_jstr_or(pod, "metadata.name", ""));
	for (char *p = s; *p; p++)
		*p = *p == '.' ? '-' : *p;
	if (strlen(s) > NAME_CUT)
		s[NAME_CUT] = '\0';
	for (size_t k = strlen(s); k && s[k - 1] == '-';)
		s[--k] = '\0';
	char *name = td_asprintf("%s-%s", s, digits);
	free(s);
	return name;
}

// ---- the copy ----

static void copy_known(yyjson_mut_doc *d, yyjson_mut_val *to, const yyjson_val *from, const struct copy_field *f,
		       size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (f[i].go != GO_NOT && !empty(td_jkey(from, f[i].name)))
			td_jm_key_set(d, to, f[i].name, yyjson_val_mut_copy(d, td_jkey(from, f[i].name)));
}

// ---- gangs ----

static const char *note(const yyjson_val *pod, const char *key)
{
	return td_jkey_str(td_jget(pod, "metadata.annotations"), key);
}

static const char *gang_of(const yyjson_val *pod)
{
	const char *uid = note(pod, TD_ANN_GANG_UID);
	return uid ? uid : note(pod, TD_ANN_GANG_CORE);
}

// What the names of its members there begin with: with "-RANK" it is one's, whichever pod has the rank. The caller frees it.
static char *gang_stem(const yyjson_val *pod)
{
	char hex[65];
	const char *gang = gang_of(pod);
	td_sha256_hex(gang, strlen(gang), hex);
	return td_asprintf("g%.*s", UID_DIGITS, hex);
}

// The names of all ranks, joined by commas. The caller frees it.
static char *gang_hosts(const yyjson_val *pod)
{
	long long world = 0;
	struct td_buf b = {0};
	td_auto_free char *stem = gang_stem(pod);
	td_parse_i64(note(pod, TD_ANN_GANG_WORLD) ?: "", &world);
	for (long long i = 0; i < world && i < TD_FAR_GANG; i++)
		td_buf_printf(&b, "%s%s-%lld." GANGS, i ? "," : "", stem, i);
	return td_buf_take(&b);
}

// Puts a variable before the others, so that these may use it. What the pod says itself wins.
static void gang_var(yyjson_mut_doc *d, yyjson_mut_val *container, const char *name, const char *value)
{
	yyjson_mut_val *list = td_jm_arr(d, container, "env"), *e, *o;
	size_t i, n;
	if (!value)
		return;
	yyjson_mut_arr_foreach (list, i, n, e)
		if (td_streq(td_jm_getstr(e, "name"), name))
			return;
	o = yyjson_mut_obj(d);
	td_jm_str(d, o, "name", name);
	td_jm_str(d, o, "value", value);
	yyjson_mut_arr_prepend(list, o);
}

// What a member finds in its environment, as on the embedded plane (docs/gangs.md).
static void gang_env(yyjson_mut_doc *d, yyjson_mut_val *container, const yyjson_val *pod)
{
	if (!gang_of(pod) || !note(pod, TD_ANN_GANG_WORLD))
		return;
	td_auto_free char *hosts = gang_hosts(pod), *first = td_strndup(hosts, strcspn(hosts, ","));
	const char *rank = note(pod, TD_ANN_GANG_RANK), *roles = note(pod, TD_ANN_GANG_ROLES);
	gang_var(d, container, "TANDEM_GANG_ROLES", roles);
	gang_var(d, container, "TANDEM_GANG_ROLE", roles ? note(pod, TD_LABEL_GANG_ROLE) : NULL);
	gang_var(d, container, "TANDEM_GANG_HOSTS", hosts);
	gang_var(d, container, "MASTER_PORT", "29500");
	gang_var(d, container, "MASTER_ADDR", first);
	gang_var(d, container, "WORLD_SIZE", rank ? note(pod, TD_ANN_GANG_WORLD) : NULL);
	gang_var(d, container, "RANK", rank);
}

// The label by which the Service there knows it, and its name in that.
static void gang_name(yyjson_mut_doc *d, yyjson_mut_val *labels, yyjson_mut_val *spec, const yyjson_val *pod)
{
	long long rank = -1;
	td_parse_i64(note(pod, TD_ANN_GANG_RANK) ?: "", &rank);
	if (!gang_of(pod) || !note(pod, TD_ANN_GANG_WORLD))
		return;
	td_auto_free char *stem = gang_stem(pod), *host = td_asprintf("%s-%lld", stem, rank);
	td_jm_key_str(d, labels, TD_LABEL_FROM_GANG, "true");
	td_jm_str(d, spec, "subdomain", GANGS);
	if (rank >= 0)
		td_jm_str(d, spec, "hostname", host);
	else
		yyjson_mut_obj_remove_key(spec, "hostname"); // it might be a member's
}

// What a variable says of the pod, it says of the one that its owner made.
static void copy_env(yyjson_mut_doc *d, yyjson_mut_val *container, const yyjson_val *pod)
{
	yyjson_mut_val *e;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(container, "env"), i, n, e) {
		const char *path = td_jm_getstr(e, "valueFrom.fieldRef.fieldPath");
		for (size_t k = 0; path && k < TD_LEN(env_fields); k++)
			if (env_fields[k].here && !strcmp(path, env_fields[k].path)) {
				td_jm_str(d, e, "value", td_jstr_or(pod, env_fields[k].here, ""));
				yyjson_mut_obj_remove_key(e, "valueFrom");
				path = NULL;
			}
		const char *of = NULL;
		td_auto_free char *key = path ? meta_key(path, &of) : NULL;
		if (!key)
			continue;
		td_auto_free char *hosts = gang_of(pod) && !strcmp(key, TD_ANN_GANG_HOSTS) ? gang_hosts(pod) : NULL;
		const char *v = hosts ? hosts : td_jkey_str(td_jget(pod, of), key);
		td_jm_str(d, e, "value", v ? v : "");
		yyjson_mut_obj_remove_key(e, "valueFrom");
	}
}

static void drop_token(yyjson_mut_val *list)
{
	for (size_t i = yyjson_mut_arr_size(list); i--;)
		if (td_far_token_volume(td_jm_getstr(yyjson_mut_arr_get(list, i), "name") ?: ""))
			yyjson_mut_arr_remove(list, i);
}

static void copy_containers(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *pod, const char *list)
{
	td_auto_free char *path = td_asprintf("spec.%s", list);
	yyjson_val *c;
	size_t i, n;
	if (empty(td_jget(pod, path)))
		return;
	yyjson_mut_val *to = td_jm_arr(d, spec, list);
	yyjson_mut_arr_clear(to);
	yyjson_arr_foreach (td_jget(pod, path), i, n, c) {
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, to);
		copy_known(d, o, c, container_fields, TD_LEN(container_fields));
		copy_env(d, o, pod);
		gang_env(d, o, pod);
		drop_token(td_jm_get(o, "volumeMounts"));
	}
}

yyjson_mut_doc *td_far_copy_make(const yyjson_val *pod, const struct td_far_copy *c)
{
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *spec = td_jm_obj(d, root, "spec");
	td_auto_free char *name = td_far_copy_name(pod);
	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", "Pod");
	td_jm_str(d, root, "metadata.name", name);
	td_jm_str(d, root, "metadata.namespace", c->ns);
	yyjson_mut_val *labels = td_jm_obj(d, root, "metadata.labels"),
		       *notes = td_jm_obj(d, root, "metadata.annotations");
	const char *set_uid = td_jstr_or(c->set, "metadata.uid", ""), *ns = td_jstr_or(pod, "metadata.namespace", "");
	td_jm_key_str(d, labels, TD_LABEL_FROM_SET, set_uid);
	td_jm_key_str(d, labels, TD_LABEL_FROM_POD, td_jstr_or(pod, "metadata.uid", ""));
	if (td_jkey(td_jget(pod, "metadata.labels"), TD_LABEL_SESSION))
		td_jm_key_str(d, labels, TD_LABEL_FROM_SESSION, "true");
	td_auto_free char *from = td_asprintf("%s/%s", ns, td_jstr_or(pod, "metadata.name", ""));
	td_jm_key_str(d, notes, TD_ANN_FROM_NAME, from);
	td_jm_key_str(d, notes, TD_ANN_OTHER_NODE, c->node);

	const yyjson_val *own = td_jget(pod, "spec");
	copy_known(d, spec, own, pod_fields, TD_LEN(pod_fields));
	static const char *const accounts[] = {"serviceAccountName", "serviceAccount"};
	for (size_t i = 0; i < TD_LEN(accounts); i++)
		yyjson_mut_obj_remove_key(spec, accounts[i]);
	copy_containers(d, spec, pod, "containers");
	copy_containers(d, spec, pod, "initContainers");
	gang_name(d, labels, spec, pod);
	drop_token(td_jm_get(spec, "volumes"));
	td_far_refs_rename(d, spec, set_uid, ns);
	copy_claims(d, spec, c->set, ns);
	td_jm_bool(d, spec, "automountServiceAccountToken", false);
	td_jm_bool(d, spec, "enableServiceLinks", false);

	// The scheduler there has the last word: its taints, its quotas, and what came in between.
	yyjson_mut_val *terms = td_jm_arr(
		d, spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
	yyjson_mut_val *field =
		yyjson_mut_arr_add_obj(d, td_jm_arr(d, yyjson_mut_arr_add_obj(d, terms), "matchFields"));
	td_jm_str(d, field, "key", "metadata.name");
	td_jm_str(d, field, "operator", "In");
	yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, field, "values"), c->node);
	return d;
}

// ---- how it is ----

// The conditions that a kubelet says.
static bool mirrored(const char *type)
{
	static const char *const types[] = {"Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers"};
	return one_of(type, types, TD_LEN(types));
}

const char *td_far_copy_waits(const yyjson_val *copy)
{
	const yyjson_val *c = td_condition(copy, "PodScheduled");
	const char *words = td_streq(td_jstr(c, "status"), "False") ? td_jstr(c, "message") : NULL;
	return td_jstr(copy, "spec.nodeName") || !words || !*words ? NULL : words;
}

static void conditions(yyjson_mut_doc *d, yyjson_mut_val *status, const yyjson_val *pod, const yyjson_val *copy,
		       int64_t now_ms)
{
	yyjson_mut_val *list = td_jm_arr(d, status, "conditions");
	yyjson_val *was = td_jget(pod, "status.conditions"), *c;
	size_t i, n;
	yyjson_arr_foreach (was, i, n, c)
		if (!mirrored(td_jstr_or(c, "type", "")) && !td_streq(td_jstr(c, "type"), TD_COND_OTHER))
			yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, c));
	yyjson_arr_foreach (td_jget(copy, "status.conditions"), i, n, c)
		if (mirrored(td_jstr_or(c, "type", ""))) {
			yyjson_mut_val *o = yyjson_val_mut_copy(d, c);
			yyjson_mut_obj_remove_key(o, "observedGeneration");
			yyjson_mut_arr_append(list, o);
		}
	td_auto_free char *text =
		td_asprintf("its copy in the other cluster is %s/%s", td_jstr_or(copy, "metadata.namespace", ""),
			    td_jstr_or(copy, "metadata.name", ""));
	const char *waits = td_far_copy_waits(copy);
	td_auto_free char *more = waits ? td_asprintf("%s, and finds no node: %.400s", text, waits) : NULL;
	td_condition_add(d, list, was,
			 TD_CONDITION(TD_COND_OTHER, "True", waits ? "WaitsThere" : "Made", waits ? more : text),
			 now_ms);
}

yyjson_mut_doc *td_far_copy_status(const yyjson_val *pod, const yyjson_val *copy, int64_t now_ms)
{
	static const char *const fields[] = {"phase",  "startTime", "containerStatuses", "initContainerStatuses",
					     "reason", "message"};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *status = td_jm_obj(d, root, "status");
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		yyjson_val *v = td_jkey(td_jget(copy, "status"), fields[i]);
		if (v && !yyjson_is_null(v))
			td_jm_key_set(d, status, fields[i], yyjson_val_mut_copy(d, v));
	}
	conditions(d, status, pod, copy, now_ms);

	td_auto(td_json_unref) struct td_json *want = td_json_from_mut(status);
	yyjson_val *k, *v;
	size_t i, n;
	bool same = true;
	yyjson_obj_foreach (td_json_root(want), i, n, k, v)
		same = same && td_jequal(v, td_jkey(td_jget(pod, "status"), yyjson_get_str(k)));
	if (same)
		return NULL;
	td_jm_str(d, root, "metadata.uid", td_jstr(pod, "metadata.uid"));
	td_jm_str(d, root, "metadata.resourceVersion", td_jstr(pod, "metadata.resourceVersion"));
	return td_steal(d);
}

static void over_list(yyjson_mut_doc *d, yyjson_mut_val *status, const yyjson_val *from, const char *list,
		      const char *now)
{
	enum { KILLED = 137 };
	yyjson_val *c;
	size_t i, n;
	if (empty(td_jget(from, list)))
		return;
	yyjson_mut_val *to = td_jm_arr(d, status, list);
	yyjson_arr_foreach (td_jget(from, list), i, n, c) {
		yyjson_mut_val *o = yyjson_val_mut_copy(d, c);
		yyjson_mut_arr_append(to, o);
		if (td_jget(c, "state.terminated"))
			continue;
		td_jm_bool(d, o, "ready", false);
		td_jm_bool(d, o, "started", false);
		yyjson_mut_val *state = yyjson_mut_obj(d);
		td_jm_int(d, state, "terminated.exitCode", KILLED);
		td_jm_str(d, state, "terminated.reason", "ContainerStatusUnknown");
		td_jm_str(d, state, "terminated.startedAt", td_jstr(c, "state.running.startedAt"));
		td_jm_str(d, state, "terminated.finishedAt", now);
		td_jm_set(d, o, "state", state);
	}
}

void td_far_copy_over(yyjson_mut_doc *d, yyjson_mut_val *status, const yyjson_val *pod, const yyjson_val *copy,
		      int64_t now_ms)
{
	static const char *const lists[] = {"containerStatuses", "initContainerStatuses"};
	char now[TD_TIME_LEN];
	td_time_format(now_ms, now);
	for (size_t i = 0; i < TD_LEN(lists); i++)
		over_list(d, status,
			  td_jget(td_jget(copy, "status"), lists[i]) ? td_jget(copy, "status") : td_jget(pod, "status"),
			  lists[i], now);

	yyjson_mut_val *list = td_jm_arr(d, status, "conditions");
	yyjson_val *was = td_jget(pod, "status.conditions"), *c;
	size_t i, n;
	yyjson_arr_foreach (was, i, n, c) {
		const char *type = td_jstr_or(c, "type", "");
		if (!strcmp(type, "Ready") || !strcmp(type, "ContainersReady"))
			td_condition_add(d, list, was, TD_CONDITION(type, "False", "PodFailed", ""), now_ms);
		else
			yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, c));
	}
}
