// GPUs of a node that shall be cut in parts (MIG): whether that can be, and whether its slurmd has them.
#include "operator/health.h"

#include "api/gpuparts.h"
#include "api/selector.h"
#include "pool/cut.h"

#include <stdio.h>
#include <string.h>

// NVIDIA's MIG manager: where a node has this label, it cuts the GPUs as the label says.
#define MIG_CONFIG "nvidia.com/mig.config"

static size_t kinds_of(const yyjson_val *entry, struct td_cut_kind ret[TD_CUT_KINDS])
{
	yyjson_val *x;
	size_t i, n, k = 0;
	struct td_api_part p;
	yyjson_arr_foreach (td_jget(entry, "parts"), i, n, x) {
		if (k == TD_CUT_KINDS || !td_api_part_read(x, &p) || strlen(p.name) >= sizeof(ret->name))
			continue;
		ret[k] = (struct td_cut_kind){.size = p.size, .at = p.at, .most = p.most};
		memcpy(ret[k++].name, p.name, strlen(p.name));
	}
	return k;
}

int td_op_cut_check(const struct td_object *node, const yyjson_val *spec, struct td_error *err)
{
	const char *text = td_object_annotation(node, TD_ANN_GPU_PARTS), *wish[TD_CUT_PARTS];
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_val *x, *g;
	size_t i, n, k, m, n_wish = 0;
	const long long want = td_jint(spec, "gpu", -1);
	bool found = false;
	if (td_object_label(node, MIG_CONFIG))
		return td_fail(err, TD_INVALID,
			       "spec.action: NVIDIA's MIG manager cuts the GPUs of this node, as its label " MIG_CONFIG
			       " says: drain the node, change the label, and return the node; or take the label away");
	if (!text || td_json_parse(text, strlen(text), &j, NULL))
		return td_fail(err, TD_INVALID,
			       "spec.action: no GPU of this node can be cut: its agent has not said in which parts "
			       "(annotation " TD_ANN_GPU_PARTS "), as it does where it sees a driver with MIG");
	yyjson_arr_foreach (td_jget(spec, "parts"), i, n, x)
		if (n_wish < TD_CUT_PARTS)
			wish[n_wish++] = yyjson_get_str(x);
	yyjson_arr_foreach (td_json_root(j), i, n, x) {
		struct td_cut_kind kinds[TD_CUT_KINDS];
		int at[TD_CUT_PARTS];
		size_t n_kinds = kinds_of(x, kinds);
		yyjson_arr_foreach (td_jget(x, "gpus"), k, m, g) {
			if (want >= 0 && yyjson_get_sint(g) != want)
				continue;
			found = true;
			int r = td_pool_cut_place(kinds, n_kinds, wish, n_wish, at, err);
			if (r)
				return td_wrap(err, "spec.parts: GPU %lld", (long long)yyjson_get_sint(g));
		}
	}
	return found ? 0 : td_fail(err, TD_INVALID, "spec.gpu: this node has no GPU %lld that can be cut", want);
}

void td_op_cut_operation(yyjson_mut_doc *d, yyjson_mut_val *root, const yyjson_val *spec)
{
	td_auto_buf struct td_buf b = {0};
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(spec, "parts"), i, n, x)
		td_buf_printf(&b, "%s%s", i ? "," : "", yyjson_get_str(x));
	td_jm_str(d, root, "parts", td_buf_str(&b));
	if (td_jget(spec, "gpu"))
		td_jm_int(d, root, "gpu", td_jint(spec, "gpu", 0));
}

// Has its slurmd read a gres.conf that has the devices of now? Parts of the same names may have other files, and then
// neither its pod nor its record tells the two apart.
static bool config_anew(struct td_op_node *n, const struct td_object *sc, const yyjson_val *line,
			const struct td_op_share *share, const struct td_json *told)
{
	td_auto_free char *name = td_asprintf("%s-config", sc->name);
	td_auto(td_object_unref) struct td_object *cm = td_informer_get(n->op->configmaps, sc->ns, name);
	const char *config = td_jstr(line, "config");
	struct td_op_vendor vendor;
	td_op_vendor_of(sc->root, n->node->root, &(struct td_op_found){.n = share->gpus, .told = told}, &vendor);
	td_op_nics_find(sc->root, n->node->root, share, &vendor.nics);
	const struct td_op_of of = {share, &vendor, td_streq(td_object_label(n->node, TD_LABEL_FAKE_GPUS), "true")};
	return cm && config && td_streq(config, td_object_annotation(cm, TD_ANN_CONFIG)) &&
	       td_op_kinds_written(sc->root, n->name, &of, td_jkey_str(td_jget(cm->root, "data"), "gres.conf"));
}

bool td_op_cut_anew(struct td_op_node *n, const struct td_object *slurmd)
{
	struct td_op *op = n->op;
	td_auto(td_object_unref) struct td_object *set = td_op_claim(op, n->node);
	td_auto(td_object_unref) struct td_object *sc =
		set ? td_informer_get(op->clusters, set->ns, td_jstr_or(set->root, "spec.clusterName", "")) : NULL;
	struct td_op_found gpus;
	struct td_op_share share;
	struct td_error why = TD_ERROR_INIT;
	if (!sc)
		return true;
	td_auto(td_json_unref) struct td_json *in_force = td_op_in_force(op, sc), *want = NULL;
	if (!slurmd || td_object_deleting(slurmd) || !td_op_gpus(op, sc->root, n->node, &gpus, &why))
		return false;
	td_auto(td_json_unref) struct td_json *told = td_op_told_read(n->node->root);
	gpus.told = told;
	// What the agent says of the machine, and what a device plugin says, come one after the other.
	int64_t offered = 0;
	if (td_api_devices(td_jget(n->node->root, "status.capacity"), td_op_node_resource(sc->root, n->node->root),
			   &offered, &why) ||
	    (offered && (size_t)offered != yyjson_arr_size(td_jget(td_json_root(told), "gpus"))))
		return false;
	const yyjson_val *line = td_jfind(td_jget(set->root, "status.nodes"), "name", n->name);
	const char *record = td_jstr(line, "gres");
	return td_op_share_of(sc->root, set->root, n->node->root, &gpus, &share, &why) && record &&
	       !td_op_gpus_differ(record, &share) &&
	       !td_op_slurmd_pod(td_json_root(in_force), set->root, n->node->root, &share, op->image, &want, &why) &&
	       td_streq(td_object_annotation(slurmd, TD_ANN_REVISION),
			td_jkey_str(td_jget(td_json_root(want), "metadata.annotations"), TD_ANN_REVISION)) &&
	       config_anew(n, sc, line, &share, told);
}
