#include "api/dataset.h"

#include "api/quantity.h"
#include "base/hash.h"
#include "base/names.h"

#include <string.h>

char *td_dataset_place(const yyjson_val *sc)
{
	return td_asprintf("%s/%s-%s", td_jstr_or(sc, "spec.datasets.path", TD_DATA_PATH),
			   td_jstr_or(sc, "metadata.namespace", ""), td_jstr_or(sc, "metadata.name", ""));
}

char *td_dataset_print(const yyjson_val *sc, const yyjson_val *dataset)
{
	td_auto_free char *source = td_json_text(td_jget(dataset, "spec.source"), NULL), *at = td_dataset_place(sc),
			  *all = td_asprintf("%s\n%s\n%s\n%s", source ? source : "",
					     td_jstr_or(dataset, "spec.group", ""),
					     td_jstr_or(dataset, "spec.maxSize", ""), at);
	return td_asprintf("%016llx", (unsigned long long)td_hash(TD_HASH, all, strlen(all)));
}

bool td_dataset_wants(const yyjson_val *dataset, const yyjson_val *labels)
{
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(dataset, "spec.nodeSelector"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (!td_streq(td_jkey_str(labels, yyjson_get_str(k)), yyjson_get_str(yyjson_obj_iter_get_val(k))))
			return false;
	return true;
}

bool td_dataset_wants_host(const yyjson_val *dataset, const char *name, const char *set)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_key_str(d, yyjson_mut_doc_get_root(d), "kubernetes.io/hostname", name);
	td_jm_key_str(d, yyjson_mut_doc_get_root(d), TD_LABEL_HOST, set);
	td_auto(td_json_unref) struct td_json *labels = td_json_from_mut(yyjson_mut_doc_get_root(d));
	return td_dataset_wants(dataset, td_json_root(labels));
}

void td_dataset_variables(const yyjson_val *dataset, struct td_strv *ret)
{
	static const char *const fields[][2] = {{"TD_GROUP", "spec.group"},
						{"TD_URL", "spec.source.http.url"},
						{"TD_SHA256", "spec.source.http.sha256"},
						{"TD_UNPACK", NULL},
						{"TD_GIT", "spec.source.git.url"},
						{"TD_REF", "spec.source.git.ref"},
						{"TD_S3", "spec.source.s3.endpoint"},
						{"TD_REGION", "spec.source.s3.region"},
						{"TD_BUCKET", "spec.source.s3.bucket"},
						{"TD_PREFIX", "spec.source.s3.prefix"},
						{"TD_PATH", "spec.source.directory.path"}};
	struct td_error err = TD_ERROR_INIT;
	int64_t max = 0;
	td_quantity_ceil(td_jstr_or(dataset, "spec.maxSize", "100Gi"), &max, &err);
	td_strv_addf(ret, "TD_MAX=%lld", (long long)max);
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		const char *value = fields[i][1] ? td_jstr(dataset, fields[i][1])
				    : td_jbool(dataset, "spec.source.http.unpack", false) ? "yes"
											  : "";
		if (value)
			td_strv_addf(ret, "%s=%s", fields[i][0], value);
	}
}

char *td_dataset_features(const char *have, const struct td_strv *held)
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

bool td_dataset_shared(const yyjson_val *sc, const char *path)
{
	yyjson_val *x, *g;
	size_t i, n, k, m;
	if (!path || path[0] != '/' || strstr(path, ".."))
		return false;
	yyjson_arr_foreach (td_jget(sc, "spec.storage"), i, n, x) {
		const char *at = td_jstr_or(x, "mountPath", "-");
		bool shared = !td_streq(td_jstr(x, "where"), "login") && td_starts(path, at) &&
			      (path[strlen(at)] == '/' || !path[strlen(at)]);
		yyjson_arr_foreach (td_jget(sc, "spec.storageGroups"), k, m, g)
			shared = shared && !td_jhas(td_jkey(g, "fileSystems"), td_jstr_or(x, "name", ""));
		if (shared)
			return true;
	}
	return false;
}
