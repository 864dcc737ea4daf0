// Builds what data sets on nodes need: the mount in slurmd pods, the pods that fetch, and nodes' features. Pure.
#include "operator/dataset.h"

#include "api/quantity.h"
#include "slurm/conf.h"

#include <string.h>

#define TD_S3_KEYS "/etc/tandem/s3" // templates/datasets.yaml

// Where a cluster's copies lie on its nodes. Caller frees.
static char *place(const yyjson_val *sc)
{
	return td_asprintf("%s/%s-%s", td_jstr_or(sc, "spec.datasets.path", TD_DATA_PATH),
			   td_jstr_or(sc, "metadata.namespace", ""), td_jstr_or(sc, "metadata.name", ""));
}

static yyjson_mut_doc *templates(const yyjson_val *sc, const struct td_op_dataset_pod *p)
{
	td_auto_free char *program = td_asprintf("%s\n%s", td_op_program("s3.py"), td_op_program("dataset.py"));
	const char *cluster = td_jstr_or(sc, "metadata.name", ""),
		   *image = td_jstr_or(sc, "spec.slurm.image", TD_OP_SLURM_IMAGE);
	td_auto_free char *name = p ? td_op_dataset_pod_name(cluster, p->name, p->node) : NULL, *at = place(sc);
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
	td_auto_free char *at = place(cluster);
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

char *td_op_dataset_print(const yyjson_val *cluster, const yyjson_val *o)
{
	td_auto_free char *source = td_json_text(td_jget(o, "spec.source"), NULL), *at = place(cluster),
			  *all = td_asprintf("%s\n%s\n%s\n%s", source ? source : "", td_jstr_or(o, "spec.group", ""),
					     td_jstr_or(o, "spec.maxSize", ""), at);
	return td_op_hash(all, strlen(all));
}

bool td_op_dataset_wants(const yyjson_val *o, const yyjson_val *node)
{
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(o, "spec.nodeSelector"));
	const yyjson_val *labels = td_jget(node, "metadata.labels");
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (!td_streq(td_jkey_str(labels, yyjson_get_str(k)), yyjson_get_str(yyjson_obj_iter_get_val(k))))
			return false;
	return true;
}

char *td_op_dataset_pod_name(const char *cluster, const char *name, const char *node)
{
	td_auto_free char *both = td_asprintf("%s/%s", name, node), *hash = td_op_hash(both, strlen(both));
	return td_asprintf("%s-data-%s", cluster, hash);
}

static void variable(yyjson_mut_doc *d, yyjson_mut_val *env, const char *name, const char *value)
{
	if (!value)
		return;
	yyjson_mut_val *e = yyjson_mut_obj(d);
	td_jm_str(d, e, "name", name);
	td_jm_str(d, e, "value", value);
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
		struct td_error err = TD_ERROR_INIT;
		int64_t max = 0;
		td_quantity_ceil(td_jstr_or(o, "spec.maxSize", "100Gi"), &max, &err);
		td_auto_free char *bytes = td_asprintf("%lld", (long long)max);
		variable(d, env, "TD_MAX", bytes);
		variable(d, env, "TD_GROUP", td_jstr(o, "spec.group"));
		variable(d, env, "TD_URL", td_jstr(o, "spec.source.http.url"));
		variable(d, env, "TD_SHA256", td_jstr(o, "spec.source.http.sha256"));
		variable(d, env, "TD_UNPACK", td_jbool(o, "spec.source.http.unpack", false) ? "yes" : "");
		variable(d, env, "TD_GIT", td_jstr(o, "spec.source.git.url"));
		variable(d, env, "TD_REF", td_jstr(o, "spec.source.git.ref"));
		variable(d, env, "TD_S3", td_jstr(o, "spec.source.s3.endpoint"));
		variable(d, env, "TD_REGION", td_jstr(o, "spec.source.s3.region"));
		variable(d, env, "TD_BUCKET", td_jstr(o, "spec.source.s3.bucket"));
		variable(d, env, "TD_PREFIX", td_jstr(o, "spec.source.s3.prefix"));
		if (td_jget(o, "spec.source.s3.secret")) {
			yyjson_mut_val *keys = td_jm_get(yyjson_mut_doc_get_root(all), "keys");
			variable(d, env, "TD_S3_KEYS", TD_S3_KEYS);
			td_op_put(d, td_jm_get(spec, "containers.[0].volumeMounts"), NULL,
				  td_jm_get(keys, "volumeMount"));
			td_op_put(d, td_jm_get(spec, "volumes"), NULL, td_jm_get(keys, "volume"));
		}
		variable(d, env, "TD_PATH", td_jstr(o, "spec.source.directory.path"));
		if (td_jget(o, "spec.source.directory"))
			td_op_storage_mount(d, spec, p->cluster, "compute");
	}
	td_jm_copyval(d, spec, "tolerations", td_jget(p->slurmd, "spec.tolerations"));
	td_jm_copyval(d, spec, "imagePullSecrets", td_jget(p->slurmd, "spec.imagePullSecrets"));
	td_op_own(d, root, p->cluster, &td_slurmclusters);
	return td_json_from_mut(root);
}

char *td_op_dataset_features(const char *have, const struct td_strv *held)
{
	td_auto_strv struct td_strv l = {0};
	td_auto_buf struct td_buf b = {0};
	td_strv_split(&l, have ? have : "", ',');
	size_t there = 0;
	bool right = true;
	for (size_t i = 0; i < l.n; i++) {
		bool data = td_starts(l.v[i], TD_DATA_FEATURE);
		bool keep = !data || td_strv_has(held, l.v[i] + strlen(TD_DATA_FEATURE));
		right &= keep;
		there += data && keep;
		if (!data)
			td_buf_printf(&b, "%s%s", b.len ? "," : "", l.v[i]);
	}
	if (right && there == held->n)
		return NULL;
	for (size_t i = 0; i < held->n; i++)
		td_buf_printf(&b, "%s" TD_DATA_FEATURE "%s", b.len ? "," : "", held->v[i]);
	return td_strdup(td_buf_str(&b));
}
