// What Slurm gives out, for the admission policies that keep everybody else off it
// (deploy/kustomize/base/70-pool.yaml): one ConfigMap in the operator's namespace, for all
// SlurmClusters together. A policy's expressions cannot read JSON, so every value is a list with
// single blanks.
#include "operator/operator.h"

#include "api/selector.h"
#include "base/log.h"

#include <string.h>

#define NAME "tandem-pools"

enum { DRIVERS, NODES, RESOURCES, SCHEDULERS, SHADOWS, N_LISTS };
static const char *const keys[N_LISTS] = {"drivers", "nodes", "resources", "schedulers", "shadows"};

static void put(struct td_strv *l, const char *s)
{
	if (s && *s && !td_strv_has(l, s))
		td_strv_add(l, s);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// A node counts when Slurm gives out devices there; CPUs and memory the kubelet itself keeps apart.
static void of_node(const struct td_object *node, struct td_strv *lists)
{
	if (td_object_annotation(node, TD_ANN_SHADOW)) // its bridge holds what others' pods have there
		put(&lists[SHADOWS], node->name);
	const char *share = td_object_annotation(node, TD_ANN_SHARE);
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!share || td_json_parse(share, strlen(share), &j, NULL))
		return;
	static const char *const others[] = {"cpu",          "memory",      TD_SHARE_TYPES,
					     TD_SHARE_UNITS, TD_SHARE_NUMA, TD_SHARE_PARTS};
	yyjson_obj_iter it = yyjson_obj_iter_with(td_json_root(j));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *resource = yyjson_get_str(k);
		bool device = !td_streq(yyjson_get_str(yyjson_obj_iter_get_val(k)), "0");
		for (size_t i = 0; i < TD_LEN(others); i++)
			device &= !td_streq(resource, others[i]);
		if (!device)
			continue;
		put(&lists[NODES], node->name);
		put(&lists[RESOURCES], resource);
		// Parts of GPUs (MIG) are devices of the same resource by other names.
		yyjson_val *offered, *count;
		size_t i, n;
		yyjson_obj_foreach (td_jget(node->root, "status.capacity"), i, n, offered, count)
			if (td_api_is_device(yyjson_get_str(offered), resource))
				put(&lists[RESOURCES], yyjson_get_str(offered));
	}
}

struct td_json *td_op_pools_object(const char *own_ns, const struct td_objects *clusters,
				   const struct td_objects *nodes)
{
	struct td_strv lists[N_LISTS] = {0};
	for (size_t i = 0; i < clusters->n; i++) {
		const yyjson_val *sc = clusters->v[i]->root;
		if (td_object_deleting(clusters->v[i]))
			continue;
		put(&lists[SCHEDULERS], td_jstr_or(sc, "spec.scheduler.schedulerName", "tandem"));
		if (td_op_dra(sc))
			put(&lists[DRIVERS], td_jstr(sc, "spec.devices.[0].driver"));
	}
	for (size_t i = 0; i < nodes->n && lists[SCHEDULERS].n; i++)
		of_node(nodes->v[i], lists);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *data = td_jm_obj(d, root, "data");
	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", "ConfigMap");
	td_jm_str(d, root, "metadata.name", NAME);
	td_jm_str(d, root, "metadata.namespace", own_ns);
	yyjson_mut_val *labels = td_jm_obj(d, root, "metadata.labels");
	td_jm_key_str(d, labels, TD_LABEL_CLUSTER, ""); // our cache holds what has this label
	td_jm_key_str(d, labels, "app.kubernetes.io/managed-by", "tandem");
	for (size_t i = 0; i < N_LISTS; i++) {
		td_auto_buf struct td_buf b = {0};
		if (lists[i].n)
			qsort(lists[i].v, lists[i].n, sizeof(char *), by_text);
		for (size_t k = 0; k < lists[i].n; k++)
			td_buf_printf(&b, "%s%s", k ? " " : "", lists[i].v[k]);
		if (b.len)
			td_jm_key_str(d, data, keys[i], td_buf_str(&b));
		td_strv_done(&lists[i]);
	}
	return td_json_from_mut(root);
}

int td_op_pools_sync(struct td_op *op, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects clusters = {0}, nodes = {0};
	td_informer_list(op->clusters, NULL, &clusters);
	td_informer_list(op->nodes, NULL, &nodes);
	td_auto(td_json_unref) struct td_json *want = td_op_pools_object(op->own_ns, &clusters, &nodes);
	td_auto(td_object_unref) struct td_object *live = td_informer_get(op->configmaps, op->own_ns, NAME);
	yyjson_val *data = td_jget(td_json_root(want), "data");
	if (live ? td_jequal(td_jget(live->root, "data"), data) : !yyjson_obj_size(data))
		return 0;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(want));
	int r = td_kube_patch(op->k, TD_AT(&td_configmaps, op->own_ns, NAME), TD_PATCH_APPLY,
			      yyjson_mut_doc_get_root(d), c, NULL, err);
	if (r)
		return td_wrap(err, "applying ConfigMap %s/%s", op->own_ns, NAME);
	td_info("ConfigMap %s/%s: what Slurm gives out is written for the admission policies", op->own_ns, NAME);
	return 0;
}
