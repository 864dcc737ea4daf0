#include "bridge/scheduler/private.h"

#include "bridge/scheduler/gang.h"

#include "base/log.h"
#include "http/pki.h"

#include <string.h>

enum { OWNERS = 64 }; // of one policy; more would not make it live longer

bool td_private_id(const struct td_settings *s, const struct td_object *pod, const char *gang, char ret[TD_PRIVATE_ID])
{
	const char *session = td_object_label(pod, TD_LABEL_SESSION);
	bool asks = td_streq(td_object_annotation(pod, TD_ANN_NETWORK), TD_NETWORK_PRIVATE);
	if (!asks && !((gang || session) && td_settings_private(s, pod->ns)))
		return false;
	yyjson_val *owner = td_object_owner(pod);
	td_auto_free char *what = gang      ? td_asprintf("gang %s", gang)
				  : session ? td_asprintf("session %s/%s", pod->ns, session)
				  : owner   ? td_asprintf("owner %s", td_jstr_or(owner, "uid", ""))
					    : td_asprintf("pod %s", pod->uid);
	char hex[65];
	td_sha256_hex(what, strlen(what), hex);
	snprintf(ret, TD_PRIVATE_ID, "%.16s", hex);
	return true;
}

// ---- the policy ----
static void add_owner(yyjson_mut_doc *d, yyjson_mut_val *list, const char *const who[4])
{
	static const char *const keys[] = {"apiVersion", "kind", "name", "uid"};
	yyjson_mut_val *x;
	size_t i, n;
	yyjson_mut_arr_foreach (list, i, n, x)
		if (td_streq(td_jm_getstr(x, "uid"), who[3]))
			return;
	if (n >= OWNERS)
		return;
	x = yyjson_mut_arr_add_obj(d, list);
	for (i = 0; i < TD_LEN(keys); i++)
		td_jm_str(d, x, keys[i], who[i]);
}

static void owners(yyjson_mut_doc *d, yyjson_mut_val *list, const struct td_object *const *pods, size_t n,
		   const struct td_object *live)
{
	yyjson_val *x;
	size_t i, k;
	yyjson_arr_foreach (td_jget(live ? live->root : NULL, "metadata.ownerReferences"), i, k, x)
		add_owner(d, list,
			  (const char *const[]){td_jstr_or(x, "apiVersion", ""), td_jstr_or(x, "kind", ""),
						td_jstr_or(x, "name", ""), td_jstr_or(x, "uid", "")});
	for (i = 0; i < n; i++) {
		yyjson_val *o = td_object_owner(pods[i]);
		add_owner(d, list,
			  (const char *const[]){td_jstr_or(o, "apiVersion", "v1"), td_jstr_or(o, "kind", "Pod"),
						td_jstr_or(o, "name", pods[i]->name),
						td_jstr_or(o, "uid", pods[i]->uid)});
	}
}

static void from_gateway(yyjson_mut_doc *d, yyjson_mut_val *from, const char *ns)
{
	yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, from);
	td_jm_key_str(d, td_jm_obj(d, x, "namespaceSelector.matchLabels"), "kubernetes.io/metadata.name", ns);
	td_jm_key_str(d, td_jm_obj(d, x, "podSelector.matchLabels"), "app.kubernetes.io/name", "tandem-gateway");
}

bool td_private_policy(yyjson_mut_doc *d, const char *id, const struct td_object *const *pods, size_t n,
		       const struct td_private_place *place, const struct td_object *live)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_auto_free char *name = td_asprintf("tandem-private-%s", id);
	td_jm_str(d, o, "apiVersion", "networking.k8s.io/v1");
	td_jm_str(d, o, "kind", "NetworkPolicy");
	td_jm_str(d, o, "metadata.name", name);
	td_jm_str(d, o, "metadata.namespace", pods[0]->ns);
	yyjson_mut_val *labels = td_jm_obj(d, o, "metadata.labels");
	td_jm_key_str(d, labels, "app.kubernetes.io/managed-by", "tandem");
	td_jm_key_str(d, labels, TD_LABEL_PRIVATE_NET, id);
	owners(d, td_jm_arr(d, o, "metadata.ownerReferences"), pods, n, live);

	td_jm_key_str(d, td_jm_obj(d, o, "spec.podSelector.matchLabels"), TD_LABEL_PRIVATE_NET, id);
	yyjson_mut_arr_append(td_jm_arr(d, o, "spec.policyTypes"), yyjson_mut_str(d, "Ingress"));
	yyjson_mut_val *rule = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "spec.ingress")),
		       *from = td_jm_arr(d, rule, "from"), *self = yyjson_mut_arr_add_obj(d, from);
	td_jm_key_str(d, td_jm_obj(d, self, "podSelector.matchLabels"), TD_LABEL_PRIVATE_NET, id);
	if (td_object_label(pods[0], TD_LABEL_SESSION)) {
		from_gateway(d, from, place->cluster);
		if (place->own && strcmp(place->own, place->cluster) != 0)
			from_gateway(d, from, place->own);
	}

	td_auto(td_json_unref) struct td_json *want = td_json_from_mut(o);
	return live && !td_object_deleting(live) &&
	       td_jequal(td_jget(live->root, "spec"), td_jget(td_json_root(want), "spec")) &&
	       yyjson_arr_size(td_jget(live->root, "metadata.ownerReferences")) ==
		       yyjson_arr_size(td_jget(td_json_root(want), "metadata.ownerReferences"));
}

int td_private_make(struct td_bridge_run *r, struct td_error *err)
{
	struct td_bridge *b = r->b;
	td_auto_free const struct td_object **pods = td_calloc((r->gang ? r->gang->n : 0) + 1, sizeof(*pods));
	td_auto_free char *gang = td_gang_of(r->pod);
	size_t n = 0;
	if (*r->net || !td_private_id(r->s, r->pod, gang, r->net))
		return 0;
	pods[n++] = r->pod;
	for (size_t i = 0; r->gang && i < r->gang->n; i++)
		pods[n++] = r->gang->v[i].pod;

	td_auto_free char *name = td_asprintf("tandem-private-%s", r->net);
	td_auto(td_object_unref) struct td_object *live = NULL;
	struct td_error e = TD_ERROR_INIT;
	int k = td_kube_get(b->kube, &td_networkpolicies, r->pod->ns, name, r->c, &live, &e);
	if (!k || k == TD_NOT_FOUND) {
		const struct td_private_place place = {b->o.ns, b->o.lease.ns};
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		k = td_private_policy(d, r->net, pods, n, &place, live)
			    ? 0
			    : td_kube_patch(b->kube, TD_AT(&td_networkpolicies, r->pod->ns, name), TD_PATCH_APPLY,
					    yyjson_mut_doc_get_root(d), r->c, NULL, &e);
	}
	if (!k)
		return 0;
	*r->net = '\0';
	return td_fail(err, k, "pod %s/%s waits for its private network, NetworkPolicy %s: %.400s", r->pod->ns,
		       r->pod->name, name, e.msg);
}

int td_private_label(struct td_bridge_run *r, const struct td_object *pod, struct td_object **ret, struct td_error *err)
{
	const char *has = td_object_label(pod, TD_LABEL_PRIVATE_NET);
	*ret = NULL;
	if (*r->net ? td_streq(has, r->net) : !has)
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "metadata.uid", pod->uid);
	td_jm_str(d, o, "metadata.resourceVersion", pod->rv);
	td_jm_key_set(d, td_jm_obj(d, o, "metadata.labels"), TD_LABEL_PRIVATE_NET,
		      *r->net ? yyjson_mut_strcpy(d, r->net) : yyjson_mut_null(d));
	return td_kube_patch(r->b->kube, TD_AT(&td_pods, pod->ns, pod->name), TD_PATCH_MERGE, o, r->c, ret, err);
}
