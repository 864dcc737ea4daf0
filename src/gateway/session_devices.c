// The GPUs of a session: a number in its pod's limits, or, where a DRA driver gives them (spec.devices[0].source), a
// ResourceClaimTemplate beside the pod. The template belongs to the session's ConfigMap and goes with it.
#include "gateway/sessions.h"

static int make_template(struct td_gateway_ask *q, const struct td_object *kept, const char *class, long long gpus,
			 struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "apiVersion", "resource.k8s.io/v1");
	td_jm_str(d, o, "kind", "ResourceClaimTemplate");
	td_jm_str(d, o, "metadata.name", kept->name);
	td_jm_str(d, o, "metadata.namespace", kept->ns);
	yyjson_mut_val *owner = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "metadata.ownerReferences")),
		       *request = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "spec.spec.devices.requests"));
	td_jm_str(d, owner, "apiVersion", "v1");
	td_jm_str(d, owner, "kind", "ConfigMap");
	td_jm_str(d, owner, "name", kept->name);
	td_jm_str(d, owner, "uid", kept->uid);
	td_jm_str(d, request, "name", "gpu");
	td_jm_str(d, request, "exactly.deviceClassName", class);
	td_jm_int(d, request, "exactly.count", gpus);
	int r = td_kube_create(q->g->kube, &td_resourceclaimtemplates, kept->ns, o, td_gateway_cancel(q), NULL, err);
	return r == TD_EXISTS ? 0 : r ? td_wrap(err, "the ResourceClaimTemplate of the session's GPUs") : 0;
}

int td_session_devices(struct td_gateway_ask *q, const yyjson_val *sc, const char *record, yyjson_mut_doc *pod,
		       struct td_error *err)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(pod), *c = td_jm_get(o, "spec.containers.[0]");
	const yyjson_val *device = td_jget(sc, "spec.devices.[0]");
	long long gpus = td_jint(q->body, "gpus", 0);
	if (!gpus)
		return 0;
	if (!td_streq(td_jstr(device, "source"), "DRA")) {
		td_auto_free char *n = td_asprintf("%lld", gpus);
		td_jm_key_str(pod, td_jm_obj(pod, c, "resources.limits"),
			      td_jstr_or(device, "resource", "nvidia.com/gpu"), n);
		return 0;
	}
	const char *ns = td_jm_getstr(o, "metadata.namespace"), *class = td_jstr(device, "deviceClasses.[0]");
	td_auto(td_object_unref) struct td_object *kept = NULL;
	int r = td_kube_get(q->g->kube, &td_configmaps, ns, record, td_gateway_cancel(q), &kept, err);
	if (!r)
		r = make_template(q, kept, class ? class : "", gpus, err);
	if (r)
		return r;
	yyjson_mut_val *claim = yyjson_mut_arr_add_obj(pod, td_jm_arr(pod, o, "spec.resourceClaims"));
	td_jm_str(pod, claim, "name", "gpus");
	td_jm_str(pod, claim, "resourceClaimTemplateName", record);
	td_jm_str(pod, yyjson_mut_arr_add_obj(pod, td_jm_arr(pod, c, "resources.claims")), "name", "gpus");
	return 0;
}
