// Reading Slurm's history. Parser v0.0.42.
#include "slurm/history.h"
#include "slurm/rest_priv.h"

#include <inttypes.h>
#include <string.h>

void td_slurm_runs_done(struct td_slurm_runs *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct td_slurm_run *r = &l->v[i];
		for (size_t k = 0; k < r->n_types; k++)
			free(r->types[k].tres);
		free(r->types);
		free(r->account);
		free(r->user);
		free(r->state);
		free(r->admin_comment);
		free(r->nodes);
		free(r->partition);
	}
	free(l->v);
	*l = (struct td_slurm_runs){0};
}

const struct td_slurm_run *td_slurm_runs_last(const struct td_slurm_runs *l, int64_t id)
{
	const struct td_slurm_run *last = NULL;
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].id == id && l->v[i].end && (!last || l->v[i].end >= last->end))
			last = &l->v[i];
	return last;
}

void td_slurm_rights_done(struct td_slurm_rights *r)
{
	td_strv_done(&r->leads);
	*r = (struct td_slurm_rights){0};
}

// Allocated CPUs and GPUs. A TRES that is not known has a count below 0 (energy: -2).
static void read_tres(yyjson_val *list, struct td_slurm_run *r)
{
	size_t i, n;
	yyjson_val *t;
	r->types = td_calloc(yyjson_arr_size(list) + 1, sizeof(*r->types));
	yyjson_arr_foreach (list, i, n, t) {
		const char *type = td_jstr_or(t, "type", ""), *name = td_jstr_or(t, "name", "");
		int64_t count = td_jint(t, "count", 0);
		if (count < 0 || count > 1 << 24)
			continue;
		if (!strcmp(type, "cpu"))
			r->cpus = count;
		else if (!strcmp(type, "gres") && !strcmp(name, "gpu"))
			r->gpus = count;
		else if (!strcmp(type, "gres") && td_starts(name, "gpu:") && count)
			r->types[r->n_types++] =
				(struct td_slurm_limit){.tres = td_strdup(name + strlen("gpu:")), .count = count};
	}
}

static int64_t moment(const yyjson_val *j, const char *path)
{
	long long t = td_jint(j, path, 0);
	return t > 0 && t < INT64_C(1) << 40 ? t : 0;
}

int td_slurm_history_read(const yyjson_val *root, struct td_slurm_runs *ret, struct td_error *err)
{
	yyjson_val *list = td_jget(root, "jobs"), *j;
	size_t i, n;
	if (!yyjson_is_arr(list))
		return td_fail(err, TD_TRANSIENT, "slurmrestd: an answer without a list of jobs");
	ret->v = td_realloc(ret->v, (ret->n + yyjson_arr_size(list) + 1) * sizeof(*ret->v));
	yyjson_arr_foreach (list, i, n, j) {
		struct td_slurm_run *r = &ret->v[ret->n++];
		// Whoever has no association has his name in the record only.
		*r = (struct td_slurm_run){
			.account = td_strdup(td_jstr_or(j, "account", "")),
			.user = td_strdup(td_jstr_or(j, "user", td_jstr_or(j, "association.user", ""))),
			.state = td_strdup(td_jstr_or(j, "state.current.[0]", "")),
			.admin_comment = td_strdup(td_jstr_or(j, "comment.administrator", "")),
			.partition = td_strdup(td_jstr_or(j, "partition", "")),
			.nodes = td_strdup(td_jstr_or(j, "nodes", "")),
			.id = td_jint(j, "job_id", 0),
			.array = td_jint(j, "array.job_id", 0),
			.submit = moment(j, "time.submission"),
			.elapsed = moment(j, "time.elapsed"),
			.limit_min = td_jbool(j, "time.limit.set", false) ? moment(j, "time.limit.number") : 0,
			.eligible = moment(j, "time.eligible"),
			.start = moment(j, "time.start"),
			.end = moment(j, "time.end")};
		read_tres(td_jget(j, "tres.allocated"), r);
	}
	return 0;
}

// more: of the query, "&state=FAILED".
static int history(struct td_slurm *s, const char *cluster, const char *more, int64_t from, int64_t to,
		   struct td_cancel *c, struct td_slurm_runs *ret, struct td_error *err)
{
	enum { TIMEOUT_MS = 60000 };
	td_auto_buf struct td_buf q = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_runs struct td_slurm_runs all = {0};
	// Slurm would cut times to the part that is asked for.
	td_buf_printf(&q,
		      "/jobs/?skip_steps=true&show_duplicates=true&disable_truncate_usage_time=true"
		      "&start_time=%" PRId64 "&end_time=%" PRId64 "&cluster=",
		      from, to);
	td_url_escape(&q, cluster);
	td_buf_puts(&q, more);
	const struct td_slurm_call k = {.op = TD_SLURM_ACCOUNTING,
					.method = "GET",
					.path = td_buf_str(&q),
					.db = true,
					.timeout_ms = TIMEOUT_MS};
	struct td_error e = TD_ERROR_INIT;
	int r = td_slurm_call_ok(s, &k, c, &j, &e);
	if (r == TD_INVALID && !e.http) // a question that is refused has a status
		e.code = TD_UNSUPPORTED;
	if (!r)
		r = td_slurm_history_read(td_json_root(j), &all, &e);
	if (r) {
		td_wrap(&e, "reading Slurm's history");
		if (err)
			*err = e;
		return e.code;
	}
	*ret = all;
	all = (struct td_slurm_runs){0};
	return 0;
}

int td_slurm_history(struct td_slurm *s, const char *cluster, int64_t from, int64_t to, struct td_cancel *c,
		     struct td_slurm_runs *ret, struct td_error *err)
{
	return history(s, cluster, "", from, to, c, ret, err);
}

int td_slurm_history_ended(struct td_slurm *s, const char *cluster, int64_t from, int64_t to, struct td_cancel *c,
			   struct td_slurm_runs *ret, struct td_error *err)
{
	// With commas between them it answers 400.
	return history(s, cluster,
		       "&state=COMPLETED&state=FAILED&state=CANCELLED&state=TIMEOUT&state=PREEMPTED"
		       "&state=NODE_FAIL&state=BOOT_FAIL&state=DEADLINE&state=OUT_OF_MEMORY&state=REQUEUED",
		       from, to, c, ret, err);
}

int td_slurm_history_qos(struct td_slurm *s, const struct td_slurm_history_of *of, struct td_cancel *c,
			 struct td_slurm_runs *ret, struct td_error *err)
{
	td_auto_buf struct td_buf q = {0};
	td_buf_printf(&q, "&qos=%" PRId64, of->qos);
	if (of->user) {
		td_buf_puts(&q, "&users=");
		td_url_escape(&q, of->user);
	}
	return history(s, of->cluster, td_buf_str(&q), of->from, of->to, c, ret, err);
}

int td_slurm_history_job(struct td_slurm *s, const char *cluster, int64_t id, struct td_cancel *c,
			 struct td_slurm_runs *ret, struct td_error *err)
{
	enum { TIMEOUT_MS = 10000 };
	td_auto_buf struct td_buf q = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_runs struct td_slurm_runs all = {0};
	td_buf_printf(&q,
		      "/jobs/?skip_steps=true&show_duplicates=true&disable_truncate_usage_time=true&step=%" PRId64
		      "&cluster=",
		      id);
	td_url_escape(&q, cluster);
	const struct td_slurm_call k = {.op = TD_SLURM_ACCOUNTING,
					.method = "GET",
					.path = td_buf_str(&q),
					.db = true,
					.timeout_ms = TIMEOUT_MS};
	int r = td_slurm_call_ok(s, &k, c, &j, err);
	if (!r)
		r = td_slurm_history_read(td_json_root(j), &all, err);
	if (r)
		return td_wrap(err, "reading the runs of job %" PRId64, id);
	*ret = all;
	all = (struct td_slurm_runs){0};
	return 0;
}

int td_slurm_rights(struct td_slurm *s, const char *user, struct td_cancel *c, struct td_slurm_rights *ret,
		    struct td_error *err)
{
	td_auto_buf struct td_buf q = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!*user) // Slurm takes that for everybody
		return td_fail(err, TD_INTERNAL, "slurmdbd: a call without the name of the user");
	td_buf_puts(&q, "/user/");
	td_url_escape(&q, user);
	td_buf_puts(&q, "?with_coords=true");
	const struct td_slurm_call k = {.op = TD_SLURM_ACCOUNTING, .method = "GET", .path = td_buf_str(&q), .db = true};
	int r = td_slurm_call_ok(s, &k, c, &j, err);
	if (r == TD_NOT_FOUND)
		return 0;
	if (r)
		return td_wrap(err, "reading what Slurm lets %s do", user);
	size_t i, n;
	yyjson_val *v, *u = td_jfind(td_jget(td_json_root(j), "users"), "name", user);
	yyjson_arr_foreach (td_jget(u, "administrator_level"), i, n, v)
		ret->all = ret->all || td_streq(yyjson_get_str(v), "Administrator") ||
			   td_streq(yyjson_get_str(v), "Operator");
	yyjson_arr_foreach (td_jget(u, "coordinators"), i, n, v)
		if (*td_jstr_or(v, "name", ""))
			td_strv_add(&ret->leads, td_jstr(v, "name"));
	return 0;
}
