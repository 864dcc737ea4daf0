// What volumes and environments read: objects from the informers, or from the API itself where the
// informers do not show them (yet), and tokens from the API.
#include "kubelet/pods/sync.h"
#include "kubelet/pods/volumes.h"

#include <stdio.h>
#include <string.h>

static struct td_object *get(void *ctx, bool secret, const char *ns, const char *name)
{
	struct td_kubelet *a = ctx;
	struct td_object *o = td_informer_get(secret ? a->secrets : a->configmaps, ns, name);
	// A pod can be seen before an object that it refers to, although the object was made first,
	// because they come over two watches.
	if (!o && *name)
		td_kube_get(a->kube, secret ? &td_secrets : &td_configmaps, ns, name, a->cancel, &o, NULL);
	return o;
}

static int token(void *ctx, const yyjson_val *pod, const char *audience, int64_t expires_s, char **ret,
		 struct td_error *err)
{
	struct td_kubelet *a = ctx;
	const char *sa = td_jstr_or(pod, "spec.serviceAccountName", "default");

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "apiVersion", "authentication.k8s.io/v1");
	td_jm_str(d, o, "kind", "TokenRequest");
	td_jm_int(d, o, "spec.expirationSeconds", expires_s);
	if (audience)
		yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, o, "spec.audiences"), audience);
	td_jm_str(d, o, "spec.boundObjectRef.kind", "Pod");
	td_jm_str(d, o, "spec.boundObjectRef.apiVersion", "v1");
	td_jm_str(d, o, "spec.boundObjectRef.name", td_jstr(pod, "metadata.name"));
	td_jm_str(d, o, "spec.boundObjectRef.uid", td_jstr(pod, "metadata.uid"));

	size_t len;
	td_auto_free char *body = td_json_mut_text(o, &len);
	td_auto_free char *path = td_asprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token",
					      td_jstr_or(pod, "metadata.namespace", ""), sa);

	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_kube_raw(a->kube, "POST", path, &(struct td_kube_body){"application/json", body, len}, a->cancel, &j,
			    err);
	if (r)
		return td_wrap(err, "token of service account %s", sa);

	const char *t = td_jstr(td_json_root(j), "status.token");
	if (!t)
		return td_fail(err, TD_INVALID, "token of service account %s: the reply has none", sa);

	*ret = td_strdup(t);
	return 0;
}

static int claim(void *ctx, const char *ns, const char *name, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	td_auto(td_object_unref) struct td_object *o = NULL;
	return td_kube_get(a->kube, &td_pvcs, ns, name, a->cancel, &o, err);
}

void td_pod_sources(struct td_kubelet *a, const struct td_pod *p, const yyjson_val *pod, struct td_sources *ret)
{
	snprintf(ret->node, sizeof(ret->node), "n%d", p->node);
	ret->dir = td_pod_dir(a, p);
	ret->env = (struct td_env_src){
		.pod = pod,
		.host_ip = a->gateway,
		.pod_ip = p->host_network ? a->gateway : p->ip,
		.node = ret->node,
		.node_cpu_milli = (int64_t)a->o.cpus * 1000,
		.node_memory = a->memory_bytes,
		.get = get,
		.ctx = a,
	};

	yyjson_val *fs = td_jget(pod, "spec.securityContext.fsGroup");
	ret->vol = (struct td_vol_src){
		.env = &ret->env,
		.home = a->o.home,
		.run = a->o.run,
		.node = ret->node,
		.dir = ret->dir,
		.fs_group = fs ? yyjson_get_sint(fs) : -1,
		.token = token,
		.claim = claim,
		.api_ctx = a,
	};
}
