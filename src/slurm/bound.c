// What binds a job to its place. Parser v0.0.42.
#include "slurm/bound.h"
#include "slurm/batch.h"

static int64_t number(const yyjson_val *v, const char *path)
{
	const yyjson_val *n = td_jget(v, path);
	return td_jbool(n, "set", true) && !td_jbool(n, "infinite", false) ? td_jint(n, "number", 0) : 0;
}

// *ret points into *ret_j.
static int read_one(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_json **ret_j, yyjson_val **ret,
		    struct td_error *err)
{
	int r = td_slurm_job_raw(s, NULL, id, c, ret_j, err);
	if (r)
		return r;
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(td_json_root(*ret_j), "jobs"), i, n, v)
		if (td_jint(v, "job_id", 0) == id)
			*ret = v;
	return *ret ? 0 : td_fail(err, TD_NOT_FOUND, "Slurm does not know job %lld", (long long)id);
}

void td_slurm_wishes_done(struct td_slurm_wishes *w)
{
	free(w->features);
	free(w->reservation);
	free(w->reserved);
	*w = (struct td_slurm_wishes){0};
}

int td_slurm_job_wishes(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_wishes *ret,
			struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL, *of = NULL;
	td_auto_buf struct td_buf text = {0};
	yyjson_val *mine = NULL, *v;
	size_t i, n;
	int r = read_one(s, id, c, &j, &mine, err);
	if (r)
		return r;
	const char *name = td_jstr_or(mine, "resv_name", ""), *nodes = "";
	if (*name) {
		td_auto_free char *path = td_asprintf("/reservation/%s", name);
		if ((r = td_slurm_raw(s, "GET", path, NULL, c, &text, err)) ||
		    (r = td_json_parse(td_buf_str(&text), text.len, &of, err)))
			return r;
	}
	yyjson_arr_foreach (td_jget(td_json_root(of), "reservations"), i, n, v)
		if (td_streq(td_jstr(v, "name"), name))
			nodes = td_jstr_or(v, "node_list", "");
	*ret = (struct td_slurm_wishes){td_strdup(td_jstr_or(mine, "features", "")), td_strdup(name), td_strdup(nodes)};
	return 0;
}

int td_slurm_job_bound(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_bound *ret,
		       struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_val *mine = NULL;
	int r = read_one(s, id, c, &j, &mine, err);
	if (r)
		return r;
	bool tied = *td_jstr_or(mine, "resv_name", "") || number(mine, "het_job_id") > 0;
	*ret = (struct td_slurm_bound){.requeue = td_jbool(mine, "requeue", false),
				       .tied = tied,
				       .bound = tied || *td_jstr_or(mine, "features", ""),
				       .eligible = number(mine, "eligible_time")};
	return 0;
}
