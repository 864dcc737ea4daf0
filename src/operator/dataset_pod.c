// Builds what data sets on nodes need: the mount in slurmd pods, the pods that fetch, and nodes' features. Pure.
#include "operator/dataset.h"

#include "api/quantity.h"
#include "slurm/conf.h"

#include <string.h>

#define TD_S3_KEYS "/etc/tandem/s3" // templates/datasets.yaml

static yyjson_mut_doc *templates(const yyjson_val *sc, const struct td_op_dataset_pod *p)
{
	td_auto_free char *program = td_asprintf("%s\n%s", td_op_program("s3.py"), td_op_program("dataset.py"));
	const char *cluster = td_jstr_or(sc, "metadata.name", ""),
		   *image = td_jstr_or(sc, "spec.slurm.image", TD_OP_SLURM_IMAGE);
	td_auto_free char *name = p ? td_op_dataset_pod_name(cluster, p->name, p->node) : NULL,
			  *at = td_dataset_place(sc);
	return td_op_template("datasets.yaml", {"place", at}, {"namespace", td_jstr_or(sc, "metadata.namespace", "")},
			      {"cluster", cluster}, {"name", name ? name : ""}, {"dataset", p ? p->name : ""},
			      {"print", p && p->dataset ? p->print : ""}, {"node", p ? p->node : ""},
			      {"image", td_jstr_or(sc, "spec.datasets.image", image)},
			      {"what", p && p->dataset ? "fetch" : "remove"}, {"program", program},
			      {"secret", p && p->dataset ? td_jstr_or(p->dataset, "spec.source.s3.secret", "") : ""});
}

void td_op_datasets_mount(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc)
{
	if (!td_jget(sc, "spec.datasets"))
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over = templates(sc, NULL);
	yyjson_mut_val *o = td_jm_get(yyjson_mut_doc_get_root(over), "slurmd"), *c = td_jm_get(spec, "containers.[0]");
	td_op_put(d, td_jm_get(c, "volumeMounts"), NULL, td_jm_get(o, "volumeMount"));
	td_op_put(d, td_jm_get(spec, "volumes"), NULL, td_jm_get(o, "volume"));
}

bool td_op_dataset_mounted(const yyjson_val *cluster, const yyjson_val *slurmd)
{
	td_auto_free char *at = td_dataset_place(cluster);
	return td_streq(td_jstr(td_jfind(td_jget(slurmd, "spec.volumes"), "name", TD_DATA_VOLUME), "hostPath.path"),
			at);
}

void td_op_dataset_check(const yyjson_val *o, struct td_strv *problems)
{
	static const char *const kinds[] = {"spec.source.http", "spec.source.git", "spec.source.s3",
					    "spec.source.directory"};
	int n = 0;
	for (size_t i = 0; i < TD_LEN(kinds); i++)
		n += td_jget(o, kinds[i]) != NULL;
	if (n != 1)
		td_strv_add(problems, "spec.source: say where it comes from: http, git, s3 or directory, one of them");
	const char *name = td_jstr_or(o, "metadata.name", "");
	if (!td_slurm_is_name(name) || strlen(name) > 58)
		td_strv_add(problems, "metadata.name: must be at most 58 letters, digits, '-' and '.': it becomes a "
				      "Slurm feature");
	struct td_error err = TD_ERROR_INIT;
	int64_t max;
	if (td_quantity_ceil(td_jstr_or(o, "spec.maxSize", "100Gi"), &max, &err) || max <= 0)
		td_strv_add(problems, "spec.maxSize: must be a size, such as 100Gi");
	const char *path = td_jstr_or(o, "spec.source.directory.path", "");
	if (strstr(path, ".."))
		td_strv_add(problems, "spec.source.directory.path: must have no \"..\"");
}

char *td_op_dataset_pod_name(const char *cluster, const char *name, const char *node)
{
	td_auto_free char *both = td_asprintf("%s/%s", name, node), *hash = td_op_hash(both, strlen(both));
	return td_asprintf("%s-data-%s", cluster, hash);
}

// text: "NAME=VALUE".
static void variable(yyjson_mut_doc *d, yyjson_mut_val *env, const char *text)
{
	yyjson_mut_val *e = yyjson_mut_obj(d);
	const size_t n = strcspn(text, "=");
	td_auto_free char *name = td_strndup(text, n);
	td_jm_str(d, e, "name", name);
	td_jm_str(d, e, "value", text + n + 1);
	yyjson_mut_arr_append(env, e);
}

struct td_json *td_op_dataset_pod(const struct td_op_dataset_pod *p)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *all = templates(p->cluster, p);
	td_auto(td_json_unref) struct td_json *json = td_json_from_mut(td_jm_get(yyjson_mut_doc_get_root(all), "pod"));
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(json));
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *spec = td_jm_get(root, "spec"),
		       *env = td_jm_get(spec, "containers.[0].env");
	const yyjson_val *o = p->dataset;
	if (o) {
		td_auto_strv struct td_strv its = {0};
		td_dataset_variables(o, &its);
		for (size_t i = 0; i < its.n; i++)
			variable(d, env, its.v[i]);
		if (td_jget(o, "spec.source.s3.secret")) {
			yyjson_mut_val *keys = td_jm_get(yyjson_mut_doc_get_root(all), "keys");
			variable(d, env, "TD_S3_KEYS=" TD_S3_KEYS);
			td_op_put(d, td_jm_get(spec, "containers.[0].volumeMounts"), NULL,
				  td_jm_get(keys, "volumeMount"));
			td_op_put(d, td_jm_get(spec, "volumes"), NULL, td_jm_get(keys, "volume"));
		}
		if (td_jget(o, "spec.source.directory"))
			td_op_storage_mount(d, spec, p->cluster, "compute");
	}
	td_jm_copyval(d, spec, "tolerations", td_jget(p->slurmd, "spec.tolerations"));
	td_jm_copyval(d, spec, "imagePullSecrets", td_jget(p->slurmd, "spec.imagePullSecrets"));
	td_op_own(d, root, p->cluster, &td_slurmclusters);
	return td_json_from_mut(root);
}
