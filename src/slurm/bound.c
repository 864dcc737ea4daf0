// What binds a job to its place. Parser v0.0.42.
#include "slurm/bound.h"
#include "slurm/batch.h"

static int64_t number(const yyjson_val *v, const char *path)
{
	const yyjson_val *n = td_jget(v, path);
	return td_jbool(n, "set", true) && !td_jbool(n, "infinite", false) ? td_jint(n, "number", 0) : 0;
}

int td_slurm_job_bound(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_bound *ret,
		       struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_slurm_job_raw(s, NULL, id, c, &j, err);
	if (r)
		return r;
	yyjson_val *v, *mine = NULL;
	size_t i, n;
	yyjson_arr_foreach (td_jget(td_json_root(j), "jobs"), i, n, v)
		if (td_jint(v, "job_id", 0) == id)
			mine = v;
	if (!mine)
		return td_fail(err, TD_NOT_FOUND, "Slurm does not know job %lld", (long long)id);
	bool tied = *td_jstr_or(mine, "resv_name", "") || number(mine, "het_job_id") > 0;
	*ret = (struct td_slurm_bound){.requeue = td_jbool(mine, "requeue", false),
				       .tied = tied,
				       .bound = tied || *td_jstr_or(mine, "features", ""),
				       .eligible = number(mine, "eligible_time")};
	return 0;
}
