// CustomResourceDefinitions. They are established and served at once; on deletion their objects are
// deleted first.
#include "apiserver/srv.h"

#include "api/condition.h"
#include "base/log.h"

#include <ctype.h>
#include <string.h>

#define CLEANUP "customresourcecleanup.apiextensions.k8s.io"

bool td_srv_is_crd(const struct td_kind *k)
{
	return !strcmp(k->group, "apiextensions.k8s.io") && !strcmp(k->plural, "customresourcedefinitions");
}

static void add_condition(struct td_req *q, yyjson_mut_doc *d, yyjson_mut_val *a, const struct td_item *old,
			  const struct td_condition_want *w)
{
	td_condition_add(d, a, old ? td_jget(td_item_root(old), "status.conditions") : NULL, w, q->now);
}

void td_srv_crd_prepare(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *names = td_jm_get(o, "spec.names");
	if (!yyjson_mut_is_obj(names))
		return; // validation reports what is missing
	const char *kind = td_jm_getstr(names, "kind");
	if (kind && !td_jm_getstr(names, "listKind"))
		td_jm_strf(d, names, "listKind", "%sList", kind);
	if (kind && !td_jm_getstr(names, "singular")) {
		td_auto_free char *low = td_strdup(kind);
		for (char *p = low; *p; p++)
			*p = (char)tolower((unsigned char)*p);
		td_jm_str(d, names, "singular", low);
	}

	if (!td_jm_get(o, "spec.conversion.strategy"))
		td_jm_str(d, o, "spec.conversion.strategy", "None");
	td_jm_set(d, o, "status.acceptedNames", yyjson_mut_val_mut_copy(d, names));
	yyjson_mut_val *stored = yyjson_mut_arr(d), *v;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(o, "spec.versions"), i, n, v) {
		const char *name = td_jm_getstr(v, "name");
		yyjson_mut_val *st = td_jm_get(v, "storage");
		if (name && st && yyjson_mut_get_bool(st))
			yyjson_mut_arr_add_strcpy(d, stored, name);
	}

	td_jm_set(d, o, "status.storedVersions", stored);
	yyjson_mut_val *a = yyjson_mut_arr(d);
	add_condition(q, d, a, old, TD_CONDITION("NamesAccepted", "True", "NoConflicts", "no conflicts found"));
	add_condition(
		q, d, a, old,
		TD_CONDITION("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"));
	if (old && td_jget(td_item_root(old), "metadata.deletionTimestamp"))
		add_condition(q, d, a, old,
			      TD_CONDITION("Terminating", "True", "InstanceDeletionInProgress",
					   "CustomResource deletion is in progress"));

	// Conditions of other writers stay.
	static const char *const own[] = {"NamesAccepted", "Established", "Terminating"};
	yyjson_mut_arr_foreach (td_jm_get(o, "status.conditions"), i, n, v) {
		bool ours = false;
		for (size_t k = 0; k < TD_LEN(own); k++)
			ours |= td_streq(td_jm_getstr(v, "type"), own[k]);
		if (!ours)
			yyjson_mut_arr_append(a, yyjson_mut_val_mut_copy(d, v));
	}

	td_jm_set(d, o, "status.conditions", a);
}

void td_srv_crd_written(struct td_srv *s)
{
	td_registry_reload(s->reg);
}

// Removes a CRD that is being deleted and has no objects left. Returns whether it is gone.
static bool release(struct td_req *q, const char *name)
{
	struct td_table *crds = td_store_table(q->s->store, "apiextensions.k8s.io", "customresourcedefinitions");
	for (int tries = 0; tries < 16; tries++) {
		td_auto(td_item_unref) struct td_item *crd = td_store_get(q->s->store, crds, "", name);
		if (!crd)
			return true;
		if (!td_jget(td_item_root(crd), "metadata.deletionTimestamp"))
			return false;

		struct td_table *t = td_store_table(q->s->store, td_jstr_or(td_item_root(crd), "spec.group", ""),
						    td_jstr_or(td_item_root(crd), "spec.names.plural", ""));
		if (td_store_count(q->s->store, t))
			return false;

		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_item_root(crd));
		yyjson_mut_val *f = td_jm_get(yyjson_mut_doc_get_root(d), "metadata.finalizers"), *v;
		size_t i, n, others = 0;
		yyjson_mut_arr_foreach (f, i, n, v)
			if (!td_streq(yyjson_mut_get_str(v), CLEANUP))
				others++;

		if (others) { // other finalizers remain: only ours is removed
			yyjson_mut_val *rest = yyjson_mut_arr(d);
			yyjson_mut_arr_foreach (f, i, n, v)
				if (!td_streq(yyjson_mut_get_str(v), CLEANUP))
					yyjson_mut_arr_add_strcpy(d, rest, yyjson_mut_get_str(v));
			td_jm_set(d, yyjson_mut_doc_get_root(d), "metadata.finalizers", rest);
		}

		const struct td_srv_write w = {
			.table = crds, .ns = "", .name = name, .base = crd->rv, .doc = others ? d : NULL};
		if (td_store_write(q->s->store, &w, NULL, NULL) == 0) {
			td_registry_reload(q->s->reg);
			return !others;
		}
	}

	return false;
}

bool td_srv_crd_drain(struct td_req *q, const struct td_item *crd)
{
	// The newest snapshot, which already refuses creates.
	td_auto(td_snap_unref) struct td_snap *snap = td_registry_snap(q->s->reg);
	const struct td_res *res = NULL;
	const char *group = td_jstr_or(td_item_root(crd), "spec.group", ""),
		   *plural = td_jstr_or(td_item_root(crd), "spec.names.plural", "");
	for (size_t i = 0; i < snap->n && !res; i++)
		if (!strcmp(snap->v[i].kind->group, group) && !strcmp(snap->v[i].kind->plural, plural))
			res = &snap->v[i];

	struct td_req sub = *q;
	const struct td_delete_opts o = {.grace = -1};
	if (res) {
		td_auto_items struct td_items l = {0};
		uint64_t rv;
		sub.res = res;
		sub.k = res->kind;
		sub.group = res->kind->group;
		sub.plural = res->kind->plural;
		sub.version = res->kind->version;

		if (td_store_list(q->s->store, res->table, NULL, 0, &l, &rv, NULL) == 0)
			for (size_t i = 0; i < l.n; i++) {
				td_auto_refusal struct td_refusal r = {0};
				struct td_deleted d = {0};
				sub.ns = l.v[i]->ns;
				if (td_delete_item(&sub, l.v[i]->ns, l.v[i]->name, &o, &d, &r) < 0 && r.http != 404)
					td_warn("CustomResourceDefinition %s: deleting %s/%s: %s", crd->name,
						l.v[i]->ns, l.v[i]->name, r.message);
				td_item_unref(d.left);
			}
	}

	return release(q, crd->name);
}

void td_srv_crd_removed(struct td_req *q, const struct td_item *gone)
{
	if (td_srv_is_crd(q->k)) {
		td_registry_reload(q->s->reg);
		return;
	}
	if (q->k->builtin)
		return;
	td_auto_free char *name = td_asprintf("%s.%s", q->k->plural, q->k->group);
	release(q, name);
}
