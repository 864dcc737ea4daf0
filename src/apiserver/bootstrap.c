// Objects that always exist: namespaces and system PriorityClasses. For roles see bootstrap_rbac.c.
#include "apiserver/srv.h"

#include "base/rand.h"

#include <string.h>

static int ensure(struct td_srv *s, const char *group, const char *plural, const char *name, yyjson_mut_doc *d,
		  struct td_error *err)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	char uid[TD_UUID_LEN], t[TD_TIME_LEN];
	td_jm_str(d, o, "metadata.name", name);
	td_jm_str(d, o, "metadata.uid", td_uuid(uid));
	td_jm_str(d, o, "metadata.creationTimestamp", td_time_format(td_real_ms(s->clock), t));
	struct td_error e = TD_ERROR_INIT;
	const struct td_srv_write w = {
		.table = td_store_table(s->store, group, plural), .ns = "", .name = name, .doc = d};
	int rc = td_store_write(s->store, &w, NULL, &e);
	if (rc == 0 || rc == TD_EXISTS)
		return 0;
	if (err)
		*err = e;
	return rc;
}

int td_srv_bootstrap(struct td_srv *s, struct td_error *err)
{
	static const char *const spaces[] = {"default", "kube-system", "kube-public", "kube-node-lease"};
	for (size_t i = 0; i < TD_LEN(spaces); i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
		td_jm_str(d, o, "kind", "Namespace");
		td_jm_str(d, o, "apiVersion", "v1");
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), "kubernetes.io/metadata.name", spaces[i]);
		yyjson_mut_arr_add_str(d, td_jm_arr(d, o, "spec.finalizers"), "kubernetes");
		td_jm_str(d, o, "status.phase", "Active");
		int rc = ensure(s, "", "namespaces", spaces[i], d, err);
		if (rc < 0 || (rc = td_account_ensure(s, spaces[i], err)) < 0)
			return rc;
	}

	static const struct {
		const char *name, *text;
		long long value;
	} classes[] = {
		{"system-node-critical",
		 "Used for system critical pods that must not be moved from their current node.", 2000001000},
		{"system-cluster-critical",
		 "Used for system critical pods that must run in the cluster, but can be moved to another node if "
		 "necessary.",
		 2000000000},
	};
	for (size_t i = 0; i < TD_LEN(classes); i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
		td_jm_str(d, o, "kind", "PriorityClass");
		td_jm_str(d, o, "apiVersion", "scheduling.k8s.io/v1");
		td_jm_int(d, o, "value", classes[i].value);
		td_jm_str(d, o, "description", classes[i].text);
		td_jm_str(d, o, "preemptionPolicy", "PreemptLowerPriority");
		td_jm_int(d, o, "metadata.generation", 1);
		int rc = ensure(s, "scheduling.k8s.io", "priorityclasses", classes[i].name, d, err);
		if (rc < 0)
			return rc;
	}

	return td_srv_bootstrap_rbac(s, err);
}
