// Creates an object, or brings what we own of it to the wanted form. Writes only when something
// differs.
#include "operator/operator.h"

#include "api/condition.h"
#include "base/log.h"
#include "kube/people.h"

#include <string.h>

static struct td_informer *cache_of(struct td_op *op, const struct td_gvr *g)
{
	return g == &td_secrets                  ? op->secrets
	       : g == &td_configmaps             ? op->configmaps
	       : g == &td_services               ? op->services
	       : g == &td_statefulsets           ? op->statefulsets
	       : g == &td_pdbs                   ? op->budgets
	       : g == &td_resourceclaimtemplates ? op->templates
						 : op->deployments;
}

// Checks a Secret that exists. Only keys.c changes it, but it must hold what the pods mount.
static int check_keys(const struct td_object *live, const yyjson_val *want, struct td_error *err)
{
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(want, "data"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *v = td_jkey_str(td_jget(live->root, "data"), yyjson_get_str(k));
		if (!v || !*v)
			return td_fail(err, TD_INVALID,
				       "Secret %s/%s has no key %s: add it, or delete the Secret and a new one is made",
				       live->ns, live->name, yyjson_get_str(k));
	}
	return 0;
}

// Appends an operation to a JSON patch.
static yyjson_mut_val *op_add(yyjson_mut_doc *d, const char *what, const char *path, yyjson_mut_val *value)
{
	yyjson_mut_val *o = yyjson_mut_obj(d);
	td_jm_str(d, o, "op", what);
	td_jm_str(d, o, "path", path);
	if (value)
		td_jm_set(d, o, "value", value);
	yyjson_mut_arr_append(yyjson_mut_doc_get_root(d), o);
	return o;
}

// Adds an operation that merges a map, so that what others put there stays.
static void merged_map(yyjson_mut_doc *d, const yyjson_val *live, const yyjson_val *want, const char *path,
		       const char *pointer, const char *rev)
{
	yyjson_val *have = td_jget(live, path);
	yyjson_mut_val *m = have ? yyjson_val_mut_copy(d, have) : yyjson_mut_obj(d);
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(want, path));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		td_jm_key_str(d, m, yyjson_get_str(k), yyjson_get_str(yyjson_obj_iter_get_val(k)));
	if (rev)
		td_jm_key_str(d, m, TD_ANN_REVISION, rev);
	op_add(d, "add", pointer, m);
}

// Returns the wanted object with this image in Tandem's own init container. So comparisons leave
// the image out, and a new version of Tandem alone restarts nothing.
static struct td_json *with_image(const yyjson_val *want, const char *image)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(want);
	yyjson_mut_val *c = td_op_named(td_jm_get(yyjson_mut_doc_get_root(d), "spec.template.spec"), "initContainers",
					TD_OP_STANDIN);
	if (c)
		td_jm_str(d, c, "image", image);
	return td_json_from_mut(yyjson_mut_doc_get_root(d));
}

// Returns the wanted object with what nobody can change of the one that is there: StatefulSets made by an
// older Tandem start their pods one after the other.
static struct td_json *as_it_must_stay(const yyjson_val *want, const struct td_object *live)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(want);
	yyjson_val *policy = td_jget(live->root, "spec.podManagementPolicy");
	if (td_jget(want, "spec.podManagementPolicy") && policy)
		td_jm_copyval(d, yyjson_mut_doc_get_root(d), "spec.podManagementPolicy", policy);
	return td_json_from_mut(yyjson_mut_doc_get_root(d));
}

static const char *image_of(const struct td_object *live)
{
	return td_jstr_or(td_jfind(td_jget(live->root, "spec.template.spec.initContainers"), "name", TD_OP_STANDIN),
			  "image", "");
}

// The API refuses a template in words about the object that we made of it. The wrapped message
// names the field where the person wrote it.
static int refused(const struct td_op_want *w, int code, int wrapped, struct td_error *err)
{
	return code == TD_INVALID && w->field
		       ? td_wrap(err, "%s.template or %s.resources cannot be used; correct it", w->field, w->field)
		       : wrapped;
}

int td_op_ensure(struct td_op *op, const struct td_op_want *w, struct td_cancel *c, struct td_error *err)
{
	yyjson_val *want = td_json_root(w->obj);
	const char *ns = td_jstr(want, "metadata.namespace"), *name = td_jstr(want, "metadata.name");
	td_auto(td_object_unref) struct td_object *live = td_informer_get(cache_of(op, w->gvr), ns, name);
	int r;
	if (w->once) {
		// A Secret that somebody made beforehand has no label and is not in the cache.
		if (!live && (r = td_kube_get(op->k, w->gvr, ns, name, c, &live, err)) && r != TD_NOT_FOUND)
			return r;
		if (live)
			return check_keys(live, want, err);
	}

	td_auto(td_json_unref) struct td_json *plain = with_image(want, "");
	td_auto_free char *text = td_json_text(td_json_root(plain), NULL), *rev = td_op_hash(text, strlen(text));
	if (!live) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(want);
		if (!w->once)
			td_jm_key_str(d, td_jm_obj(d, yyjson_mut_doc_get_root(d), "metadata.annotations"),
				      TD_ANN_REVISION, rev);
		r = td_kube_create(op->k, w->gvr, ns, yyjson_mut_doc_get_root(d), c, NULL, err);
		// EXISTS means that our cache is a moment behind, or that it is somebody else's.
		// The next look tells.
		return r ? refused(w, r, td_wrap(err, "creating %s %s/%s", w->gvr->kind, ns, name), err) : 0;
	}

	yyjson_val *owner = td_object_owner(live);
	if (!td_streq(td_jstr(owner, "uid"), td_jstr(want, "metadata.ownerReferences.[0].uid")))
		return td_fail(err, TD_INVALID,
			       "%s %s/%s exists and belongs to somebody else: delete it, or rename the SlurmCluster",
			       w->gvr->kind, ns, name);

	td_auto(td_json_unref) struct td_json *fitted = as_it_must_stay(want, live);
	want = td_json_root(fitted);
	const char *part = td_jget(want, "spec") ? "spec" : "data";
	yyjson_val *have = td_jget(live->root, part), *need = td_jget(want, part);
	td_auto(td_json_unref) struct td_json *as_is = with_image(want, image_of(live));
	bool same =
		td_streq(part, "data") ? td_jequal(have, need) : td_op_covers(have, td_jget(td_json_root(as_is), part));
	if (same && td_streq(td_object_annotation(live, TD_ANN_REVISION), rev))
		return 0;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	yyjson_mut_doc_set_root(d, yyjson_mut_arr(d));
	op_add(d, "test", "/metadata/uid", yyjson_mut_strcpy(d, live->uid));
	op_add(d, "test", "/metadata/resourceVersion", yyjson_mut_strcpy(d, live->rv));
	merged_map(d, live->root, want, "metadata.labels", "/metadata/labels", NULL);
	merged_map(d, live->root, want, "metadata.annotations", "/metadata/annotations", rev);
	op_add(d, "add", td_streq(part, "data") ? "/data" : "/spec", yyjson_val_mut_copy(d, need));
	r = td_kube_patch(op->k, TD_AT(w->gvr, ns, name), TD_PATCH_JSON, yyjson_mut_doc_get_root(d), c, NULL, err);
	if (r)
		return refused(w, r, td_wrap(err, "changing %s %s/%s", w->gvr->kind, ns, name), err);
	td_info("%s %s/%s: brought to the wanted form", w->gvr->kind, ns, name);
	return 0;
}

int td_op_people_ensure(struct td_op *op, const struct td_object *sc, struct td_cancel *c, struct td_error *err)
{
	if (!td_jget(sc->root, "spec.identity.oidc"))
		return 0;
	// It has no owner: keys and passwords stay when the SlurmCluster is made anew.
	td_auto_free char *name = td_asprintf(TD_PEOPLE_SECRET, sc->name);
	td_auto(td_object_unref) struct td_object *live = td_informer_get(op->secrets, sc->ns, name);
	return td_people_ensure(op->k, sc->ns, sc->name, live, c, err);
}

void td_op_conditions(yyjson_mut_doc *d, yyjson_mut_val *list, const yyjson_val *old_status,
		      const struct td_pool_condition *v, size_t n, long long generation)
{
	for (size_t i = 0; i < n; i++) {
		const struct td_condition_want w = {.type = v[i].type,
						    .status = v[i].status,
						    .reason = v[i].reason,
						    .message = v[i].message,
						    .generation = generation};
		td_condition_add(d, list, td_jget(old_status, "conditions"), &w, td_real_ms(&td_clock_system));
	}
}

void td_op_status_patch(yyjson_mut_doc *d, yyjson_val *old, yyjson_val *now)
{
	if (!yyjson_is_obj(old)) {
		op_add(d, "add", "/status", yyjson_val_mut_copy(d, now));
		return;
	}
	yyjson_obj_iter it = yyjson_obj_iter_with(now);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *s = yyjson_get_str(k), *key = s ? s : "";
		td_auto_free char *at = td_asprintf("/status/%s", key);
		if (!td_jequal(td_jkey(old, key), yyjson_obj_iter_get_val(k)))
			op_add(d, "add", at, yyjson_val_mut_copy(d, yyjson_obj_iter_get_val(k)));
	}
	it = yyjson_obj_iter_with(old);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *s = yyjson_get_str(k), *key = s ? s : "";
		td_auto_free char *at = td_asprintf("/status/%s", key);
		if (!td_jkey(now, key))
			op_add(d, "remove", at, NULL);
	}
}

int td_op_status_write(struct td_op *op, const struct td_gvr *gvr, struct td_object *o, yyjson_mut_doc *status,
		       struct td_cancel *c, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *now = td_json_from_mut(yyjson_mut_doc_get_root(status));
	if (td_jequal(td_jget(o->root, "status"), td_json_root(now)))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	yyjson_mut_doc_set_root(d, yyjson_mut_arr(d));
	op_add(d, "test", "/metadata/uid", yyjson_mut_strcpy(d, o->uid));
	if (gvr == &td_slurmclusters) // a part of it is the bridge's, which may have written it since
		td_op_status_patch(d, td_jget(o->root, "status"), td_json_root(now));
	else
		op_add(d, "add", "/status", yyjson_val_mut_copy(d, td_json_root(now)));
	int r = td_kube_patch(op->k, TD_AT(gvr, o->ns, o->name, "status"), TD_PATCH_JSON, yyjson_mut_doc_get_root(d), c,
			      NULL, err);
	return r ? td_wrap(err, "writing the status of %s %s/%s", gvr->kind, o->ns, o->name) : 0;
}
