// The ConfigMaps of a site that a SlurmCluster refers to. The operator watches only those that carry
// the label TD_LABEL_SITE, and gives it to each that is referred to: every ConfigMap of a cluster would
// be too much to keep.
#include "operator/operator.h"

#include "base/log.h"

#include <string.h>

#define FABRIC "spec.topology.fabric"                // which is read here, and goes into no object of Tandem's
enum { TEXT_MAX = 256 << 10, SITE_MAX = 900 << 10 }; // an object of Kubernetes may have a MiB

void td_op_texts_done(struct td_op_texts *t)
{
	free(t->v);
	td_objects_done(&t->held);
	*t = (struct td_op_texts){0};
}

// Gives the label to a ConfigMap, so that the cache has it from now on.
static int mark(struct td_op *op, const struct td_object *cm, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", cm->uid);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.labels"), TD_LABEL_SITE, "true");
	int r = td_kube_patch(op->k, TD_AT(&td_configmaps, cm->ns, cm->name), TD_PATCH_MERGE, root, c, NULL, err);
	return r ? td_wrap(err, "labelling ConfigMap %s/%s, which a SlurmCluster refers to", cm->ns, cm->name) : 0;
}

// Finds a ConfigMap. *ret NULL: there is none.
static int find(struct td_op *op, const struct td_object *sc, const char *name, struct td_object **ret,
		struct td_cancel *c, struct td_error *err)
{
	*ret = td_informer_get(op->site, sc->ns, name);
	if (*ret)
		return 0;
	int r = td_kube_get(op->k, &td_configmaps, sc->ns, name, c, ret, err);
	if (r == TD_NOT_FOUND)
		return 0;
	if (!r && (r = mark(op, *ret, c, err)))
		*ret = td_object_unref(*ret);
	return r;
}

static int add(struct td_op *op, struct td_object *sc, const char *field, const yyjson_val *ref,
	       struct td_op_texts *ret, struct td_strv *problems, struct td_cancel *c, struct td_error *err)
{
	const char *map = td_jstr_or(ref, "configMap", ""), *key = td_jstr_or(ref, "key", "");
	const bool fabric = td_streq(field, FABRIC);
	td_auto(td_object_unref) struct td_object *cm = NULL;
	int r = find(op, sc, map, &cm, c, err);
	if (r)
		return r;
	const char *text = cm ? td_jkey_str(td_jget(cm->root, "data"), key) : NULL;
	if (!cm)
		td_strv_addf(problems,
			     "%s.configMap: there is no ConfigMap %s in namespace %s; make it, or correct the name",
			     field, map, sc->ns);
	else if (!text)
		td_strv_addf(problems, "%s.key: ConfigMap %s has no key %s in its data; add it, or correct the name",
			     field, map, key);
	else if (strlen(text) > TEXT_MAX && !fabric)
		td_strv_addf(problems, "%s: key %s of ConfigMap %s is longer than %d KiB; shorten it", field, key, map,
			     TEXT_MAX >> 10);
	else if (!fabric)
		ret->bytes += strlen(text);
	if (ret->bytes > SITE_MAX && text)
		td_strv_addf(problems,
			     "%s: with it, the site's programs are longer than %d KiB together; put what is "
			     "long on a shared file system",
			     field, SITE_MAX >> 10);
	if (!text)
		return 0;
	ret->v = td_realloc(ret->v, (ret->n + 1) * sizeof(*ret->v));
	ret->v[ret->n++] = (struct td_slurm_text){map, key, text};
	td_objects_add(&ret->held, td_steal(cm));
	return 0;
}

int td_op_texts_gather(struct td_op *op, struct td_object *sc, struct td_op_texts *ret, struct td_strv *problems,
		       struct td_cancel *c, struct td_error *err)
{
	td_auto_texts struct td_op_texts t = {0};
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(sc->root, "spec.scripts"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		td_auto_free char *field = td_asprintf("spec.scripts.%s", yyjson_get_str(k));
		int r = add(op, sc, field, yyjson_obj_iter_get_val(k), &t, problems, c, err);
		if (r)
			return r;
	}
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc->root, "spec.services"), i, n, x) {
		td_auto_free char *field = td_asprintf("spec.services[%zu]", i);
		int r = td_jget(x, "configMap") ? add(op, sc, field, x, &t, problems, c, err) : 0;
		if (r)
			return r;
	}
	yyjson_val *fabric = td_jget(sc->root, FABRIC);
	int r = fabric ? add(op, sc, FABRIC, fabric, &t, problems, c, err) : 0;
	if (r)
		return r;
	*ret = t;
	t = (struct td_op_texts){0};
	return 0;
}

void td_op_on_site(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op *op = ctx;
	td_auto_objects struct td_objects l = {0};
	td_informer_list(op->clusters, (now ? now : old)->ns, &l);
	for (size_t i = 0; i < l.n; i++) {
		td_auto_free char *key = td_asprintf("%s/%s", l.v[i]->ns, l.v[i]->name);
		if (td_jget(l.v[i]->root, "spec.scripts") || td_jget(l.v[i]->root, "spec.services") ||
		    td_jget(l.v[i]->root, FABRIC))
			td_queue_add(op->q, key);
	}
}
