// How pods find this server: Service default/kubernetes with its Endpoints and EndpointSlice. There
// is no service proxy, so the Service's address and port are the server's own, which pods reach
// directly; KUBERNETES_SERVICE_HOST and _PORT say the same.
#include "apiserver/srv.h"

#include "base/rand.h"

#include <string.h>

// Makes the object of that kind as it should be.
static yyjson_mut_doc *wanted(const char *kind, const char *ip, int port)
{
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *p;

	td_jm_str(d, o, "kind", kind);
	td_jm_str(d, o, "metadata.name", "kubernetes");
	td_jm_str(d, o, "metadata.namespace", "default");
	yyjson_mut_val *labels = td_jm_obj(d, o, "metadata.labels");

	if (!strcmp(kind, "Service")) {
		td_jm_str(d, o, "apiVersion", "v1");
		td_jm_key_str(d, labels, "component", "apiserver");
		td_jm_key_str(d, labels, "provider", "kubernetes");
		td_jm_str(d, o, "spec.clusterIP", ip);
		yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, o, "spec.clusterIPs"), ip);
		td_jm_str(d, o, "spec.internalTrafficPolicy", "Cluster");
		yyjson_mut_arr_add_str(d, td_jm_arr(d, o, "spec.ipFamilies"), "IPv4");
		td_jm_str(d, o, "spec.ipFamilyPolicy", "SingleStack");
		p = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "spec.ports"));
		td_jm_int(d, p, "targetPort", port);
		td_jm_str(d, o, "spec.sessionAffinity", "None");
		td_jm_str(d, o, "spec.type", "ClusterIP");
		td_jm_obj(d, o, "status.loadBalancer");
	} else if (!strcmp(kind, "Endpoints")) {
		td_jm_str(d, o, "apiVersion", "v1");
		td_jm_key_str(d, labels, "endpointslice.kubernetes.io/skip-mirror", "true");
		yyjson_mut_val *s = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "subsets"));
		td_jm_str(d, yyjson_mut_arr_add_obj(d, td_jm_arr(d, s, "addresses")), "ip", ip);
		p = yyjson_mut_arr_add_obj(d, td_jm_arr(d, s, "ports"));
	} else {
		td_jm_str(d, o, "apiVersion", "discovery.k8s.io/v1");
		td_jm_key_str(d, labels, "kubernetes.io/service-name", "kubernetes");
		td_jm_str(d, o, "addressType", "IPv4");
		yyjson_mut_val *e = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "endpoints"));
		yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, e, "addresses"), ip);
		td_jm_bool(d, e, "conditions.ready", true);
		p = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "ports"));
	}

	td_jm_str(d, p, "name", "https");
	td_jm_int(d, p, "port", port);
	td_jm_str(d, p, "protocol", "TCP");

	return d;
}

// Creates the object, or corrects it. parts: the paths of the fields that are compared.
static int ensure(struct td_srv *s, const char *group, const char *plural, const char *kind, const char *const *parts,
		  struct td_error *err)
{
	struct td_table *t = td_store_table(s->store, group, plural);
	td_auto(td_item_unref) struct td_item *old = td_store_get(s->store, t, "default", "kubernetes");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = wanted(kind, s->address, s->port);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	char uid[TD_UUID_LEN], time[TD_TIME_LEN];

	td_jm_str(d, o, "metadata.uid", td_uuid(uid));
	td_jm_str(d, o, "metadata.creationTimestamp", td_time_format(td_real_ms(s->clock), time));
	if (old) {
		td_auto(td_json_unref) struct td_json *now = td_json_from_mut(o);
		bool same = true;
		for (size_t i = 0; parts[i]; i++)
			same &= td_jequal(td_jget(td_json_root(now), parts[i]), td_jget(td_item_root(old), parts[i]));
		if (same)
			return 0;
		td_jm_copyval(d, o, "metadata", td_jget(td_item_root(old), "metadata"));
		td_jm_del(o, "metadata.resourceVersion");
	}

	const struct td_srv_write w = {
		.table = t, .ns = "default", .name = "kubernetes", .base = old ? old->rv : 0, .doc = d};
	struct td_error e = TD_ERROR_INIT;
	int rc = td_store_write(s->store, &w, NULL, &e);

	// Another writer was faster: the next turn looks again.
	if (rc == TD_CONFLICT || rc == TD_EXISTS || rc == TD_NOT_FOUND)
		return 0;
	if (rc < 0 && err)
		*err = e;

	return rc;
}

int td_srv_bootstrap_api(struct td_srv *s, struct td_error *err)
{
	static const char *const service[] = {"spec.clusterIP", "spec.ports", "spec.type", NULL},
				 *const endpoints[] = {"subsets", NULL},
				 *const slice[] = {"endpoints", "ports", "addressType", NULL};
	if (!s->address)
		return 0;
	int rc = ensure(s, "", "services", "Service", service, err);
	if (rc == 0)
		rc = ensure(s, "", "endpoints", "Endpoints", endpoints, err);
	return rc < 0 ? rc : ensure(s, "discovery.k8s.io", "endpointslices", "EndpointSlice", slice, err);
}
