#include "cli/jobenv.h"

#include <string.h>

int td_jobdata_tandem(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err)
{
	static const char *const texts[] = {"path", "url",      "sha256", "git",      "ref",    "dataset",
					    "s3",   "endpoint", "region", "revision", "profile"};
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "data");
	size_t i, n, j, m;
	yyjson_val *name, *of, *k, *w;
	if (!yyjson_is_obj(v))
		return td_fail(err, TD_INVALID, "data: give NAME: PATH or NAME: {url: …, sha256: …}, a line each");
	yyjson_obj_foreach (v, i, n, name, of) {
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, "name", yyjson_get_str(name));
		if (yyjson_is_str(of)) {
			td_jm_str(d, o, "path", yyjson_get_str(of));
			continue;
		}
		if (!yyjson_is_obj(of))
			return td_fail(err, TD_INVALID,
				       "data: %.40s: give a path, or {url, sha256}, {git, ref} or {s3, endpoint}",
				       yyjson_get_str(name));
		yyjson_obj_foreach (of, j, m, k, w) {
			const char *key = yyjson_get_str(k);
			bool known = !strcmp(key, "unpack") && yyjson_is_bool(w);
			if (known)
				td_jm_bool(d, o, key, yyjson_get_bool(w));
			for (size_t t = 0; t < TD_LEN(texts) && !known; t++)
				if (!strcmp(key, texts[t]) && yyjson_is_str(w)) {
					td_jm_str(d, o, key, yyjson_get_str(w));
					known = true;
				}
			if (!known)
				return td_fail(err, TD_INVALID,
					       "data: %.40s: %.40s: there are path, dataset, url, sha256, git, ref, "
					       "s3, endpoint, "
					       "region, revision, profile (texts) and unpack (true or false)",
					       yyjson_get_str(name), key);
		}
	}
	return 0;
}

int td_jobdata_tuxiv(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err)
{
	size_t i, n;
	yyjson_val *w;
	if (yyjson_is_null(v) || (yyjson_is_arr(v) && !yyjson_arr_size(v)))
		return 0;
	if (!yyjson_is_arr(v))
		return td_fail(err, TD_INVALID, "datasets: give a list of names, such as [imagenet]");
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "data");
	yyjson_arr_foreach (v, i, n, w) {
		if (!yyjson_is_str(w))
			return td_fail(err, TD_INVALID, "datasets: each is a name, such as imagenet");
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, "name", yyjson_get_str(w));
		td_jm_str(d, o, "dataset", yyjson_get_str(w));
	}
	return 0;
}
