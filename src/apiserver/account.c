// The service account of a pod, and the token that the pod finds in its containers: what a real API
// server's ServiceAccount admission does.
#include "apiserver/srv.h"

#include "base/rand.h"

#include <string.h>

#define MOUNT_PATH "/var/run/secrets/kubernetes.io/serviceaccount"
#define VOLUME "kube-api-access-"
// As in a real API server: an hour, but distinguishable from what people ask for.
enum { TOKEN_SECONDS = 3607 };

int td_account_ensure(struct td_srv *s, const char *ns, struct td_error *err)
{
	char uid[TD_UUID_LEN], t[TD_TIME_LEN];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);

	td_jm_str(d, o, "kind", "ServiceAccount");
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_str(d, o, "metadata.name", "default");
	td_jm_str(d, o, "metadata.namespace", ns);
	td_jm_str(d, o, "metadata.uid", td_uuid(uid));
	td_jm_str(d, o, "metadata.creationTimestamp", td_time_format(td_real_ms(s->clock), t));
	struct td_error e = TD_ERROR_INIT;
	const struct td_srv_write w = {.table = td_store_table(s->store, "", "serviceaccounts"),
				       .ns = ns,
				       .name = "default",
				       .doc = d,
				       .in_namespace = true};
	int rc = td_store_write(s->store, &w, NULL, &e);
	if (rc == 0 || rc == TD_EXISTS)
		return 0;
	if (err)
		*err = e;

	return rc;
}

// The name of the pod's volume that begins with VOLUME; if there is none, a new random name.
// *ret_there: whether the pod has such a volume.
static char *volume_name(yyjson_mut_val *o, bool *ret_there)
{
	yyjson_mut_val *v, *volumes = td_jm_get(o, "spec.volumes");
	size_t i, n;
	*ret_there = false;
	yyjson_mut_arr_foreach (volumes, i, n, v) {
		const char *name = yyjson_mut_is_obj(v) ? td_jm_getstr(v, "name") : NULL;
		if (name && td_starts(name, VOLUME)) {
			*ret_there = true;
			return td_strdup(name);
		}
	}
	char tail[6];
	td_random_name(tail, 5);
	return td_asprintf(VOLUME "%s", tail);
}

static bool mounted(yyjson_mut_val *c)
{
	yyjson_mut_val *m;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(c, "volumeMounts"), i, n, m)
		if (yyjson_mut_is_obj(m) && td_streq(td_jm_getstr(m, "mountPath"), MOUNT_PATH))
			return true;
	return false;
}

static bool mount_in(yyjson_mut_doc *d, yyjson_mut_val *containers, const char *volume)
{
	yyjson_mut_val *c;
	size_t i, n;
	bool any = false;
	yyjson_mut_arr_foreach (containers, i, n, c) {
		// Validation refuses the first, the user wants the second.
		if (!yyjson_mut_is_obj(c) || mounted(c))
			continue;
		yyjson_mut_val *m = yyjson_mut_arr_add_obj(d, td_jm_arr(d, c, "volumeMounts"));
		td_jm_str(d, m, "name", volume);
		td_jm_bool(d, m, "readOnly", true);
		td_jm_str(d, m, "mountPath", MOUNT_PATH);
		any = true;
	}
	return any;
}

static void add_volume(yyjson_mut_doc *d, yyjson_mut_val *o, const char *name)
{
	yyjson_mut_val *v = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "spec.volumes"));
	td_jm_str(d, v, "name", name);
	yyjson_mut_val *sources = td_jm_arr(d, v, "projected.sources"), *s, *i;
	td_jm_int(d, v, "projected.defaultMode", 0644);
	s = yyjson_mut_arr_add_obj(d, sources);
	td_jm_int(d, s, "serviceAccountToken.expirationSeconds", TOKEN_SECONDS);
	td_jm_str(d, s, "serviceAccountToken.path", "token");
	s = yyjson_mut_arr_add_obj(d, sources);
	td_jm_str(d, s, "configMap.name", "kube-root-ca.crt");
	i = yyjson_mut_arr_add_obj(d, td_jm_arr(d, s, "configMap.items"));
	td_jm_str(d, i, "key", "ca.crt");
	td_jm_str(d, i, "path", "ca.crt");
	s = yyjson_mut_arr_add_obj(d, sources);
	i = yyjson_mut_arr_add_obj(d, td_jm_arr(d, s, "downwardAPI.items"));
	td_jm_str(d, i, "path", "namespace");
	td_jm_str(d, i, "fieldRef.apiVersion", "v1");
	td_jm_str(d, i, "fieldRef.fieldPath", "metadata.namespace");
}

static void mount_token(yyjson_mut_doc *d, yyjson_mut_val *o)
{
	bool there;
	td_auto_free char *name = volume_name(o, &there);
	bool init = mount_in(d, td_jm_get(o, "spec.initContainers"), name),
	     main_ = mount_in(d, td_jm_get(o, "spec.containers"), name);
	if ((init || main_) && !there)
		add_volume(d, o, name);
}

int td_account_admit(struct td_req *q, yyjson_mut_doc *d, const char *pod, struct td_refusal *r)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	const char *name = td_jm_getstr(o, "spec.serviceAccountName"),
		   *old_word = td_jm_getstr(o, "spec.serviceAccount");
	if (!name || !*name)
		td_jm_str(d, o, "spec.serviceAccountName", old_word && *old_word ? old_word : "default");
	name = td_jm_getstr(o, "spec.serviceAccountName");
	td_jm_str(d, o, "spec.serviceAccount", name);
	td_auto(td_item_unref) struct td_item *sa =
		td_store_get(q->s->store, td_store_table(q->s->store, "", "serviceaccounts"), q->ns, name);
	if (!sa) {
		// If the namespace is absent or terminating, the store refuses the write.
		td_auto(td_item_unref) struct td_item *ns = td_srv_space(q);
		if (!ns || td_jget(td_item_root(ns), "metadata.deletionTimestamp"))
			return 0;
		return td_srv_forbid(q, r, pod,
				     "error looking up service account %s/%s: serviceaccount \"%s\" not found", q->ns,
				     name, name);
	}

	yyjson_val *root = td_item_root(sa), *of_account = td_jget(root, "automountServiceAccountToken");
	yyjson_mut_val *of_pod = td_jm_get(o, "spec.automountServiceAccountToken");
	if (yyjson_mut_is_bool(of_pod) ? yyjson_mut_get_bool(of_pod)
				       : !yyjson_is_bool(of_account) || yyjson_get_bool(of_account))
		mount_token(d, o);
	if (!yyjson_mut_arr_size(td_jm_get(o, "spec.imagePullSecrets")) &&
	    yyjson_arr_size(td_jget(root, "imagePullSecrets")))
		td_jm_copyval(d, o, "spec.imagePullSecrets", td_jget(root, "imagePullSecrets"));

	return 0;
}
