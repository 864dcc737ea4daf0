#include "gateway/need.h"

#include "base/embedded.h"
#include "base/fault.h"
#include "gateway/batch.h"
#include "gateway/home.h"

#include <string.h>

extern const struct td_embedded td_gateway_files[];

enum { LOCKS = 32, MEMORY_MB = 1024 };

// One look for a key of a person at a time: two runs that need the same thing at once share one job.
static pthread_mutex_t looking[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};

void td_gateway_needs_done(struct td_gateway_needs *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].step);
		free(l->v[i].key);
		free(l->v[i].want);
		free(l->v[i].partition);
		free(l->v[i].constraints);
		td_strv_done(&l->v[i].avoid);
		td_strv_done(&l->v[i].env);
	}
	free(l->v);
	*l = (struct td_gateway_needs){0};
}

struct td_gateway_need *td_gateway_need_add(struct td_gateway_needs *l)
{
	l->v = td_realloc(l->v, (l->n + 1) * sizeof(*l->v));
	l->v[l->n] = (struct td_gateway_need){.memory_mb = MEMORY_MB};
	return &l->v[l->n++];
}

// What its job carries in its comment.
static char *mark_of(const struct td_gateway_need *n)
{
	return td_asprintf("tandem %s/%s", n->place, n->key);
}

// The job that makes it now; 0: none does.
static int64_t live_job(const struct td_gateway_ask *q, const char *mark, const yyjson_val *all)
{
	size_t i, n, k, m;
	yyjson_val *v, *w;
	yyjson_arr_foreach (td_jget(all, "jobs"), i, n, v) {
		if (!td_streq(td_jstr(v, "user_name"), q->user.name) || !td_streq(td_jstr(v, "comment"), mark))
			continue;
		uint64_t states = 0;
		yyjson_arr_foreach (td_jget(v, "job_state"), k, m, w)
			states |= td_slurm_job_state_parse(yyjson_get_str(w));
		if (!td_slurm_job_ended(states))
			return td_jint(v, "job_id", 0);
	}
	return 0;
}

static int make(struct td_gateway_ask *q, struct td_slurm *client, struct td_gateway_need *n, const char *mark,
		const struct td_slurm_batch *like, struct td_error *err)
{
	td_auto_free char *name = td_asprintf("%s-%.8s", n->kind, n->key),
			  *cwd = td_asprintf("%s/tandem/%s", q->user.home, n->place),
			  *output = td_asprintf("%s/.log/%s-%%j.out", cwd, n->key);
	// data.py calls what stands in s3.py.
	td_auto_free char *script =
		td_asprintf("%s%s%s", td_streq(n->script, "data.py") ? "#!/usr/bin/env python3\n" : "",
			    td_streq(n->script, "data.py") ? td_embedded(td_gateway_files, "s3.py")->text : "",
			    td_embedded(td_gateway_files, n->script)->text);
	struct td_slurm_batch b = {.name = name,
				   .script = script,
				   .cwd = cwd,
				   .output = output,
				   .comment = mark,
				   .dependency = "singleton",
				   .memory_mb = n->memory_mb,
				   .partition = n->apart ? n->partition : like->partition,
				   .account = like->account,
				   .qos = like->qos,
				   .constraints = n->apart ? n->constraints : like->constraints,
				   .exclude = &n->avoid,
				   .reservation = like->reservation,
				   .env = n->env};
	n->env = (struct td_strv){0};
	td_strv_addf(&b.env, "HOME=%s", q->user.home);
	td_strv_addf(&b.env, "USER=%s", q->user.name);
	td_strv_addf(&b.env, "LOGNAME=%s", q->user.name);
	td_strv_addf(&b.env, "TANDEM_MAKE=%s", n->key);
	int r = td_gateway_batch(q, client, &b, &n->job, err);
	td_slurm_batch_done(&b);
	return r ? r : td_fault_at(err, "gateway.need.submitted");
}

static int get(struct td_gateway_ask *q, struct td_slurm *client, struct td_gateway_need *n,
	       const struct td_slurm_batch *like, struct td_error *err)
{
	td_auto_buf struct td_buf out = {0};
	const struct td_home_call k = {
		.user = &q->user, .verb = "want", .args = {n->place, n->key}, .in = n->want, .in_len = strlen(n->want)};
	int r = td_home_do(q->g, &k, td_gateway_cancel(q), &out, err);
	if (r || !strcmp(td_buf_str(&out), "made"))
		return r;
	// Its job may have ended between these two looks: then Slurm is asked after it, and the home once
	// more, so that what was just made is not made again.
	td_auto_free char *mark = mark_of(n);
	td_auto(td_json_unref) struct td_json *all = NULL;
	if ((r = td_slurm_jobs_raw(client, q->user.name, 0, td_gateway_cancel(q), &all, err)))
		return r;
	if ((n->job = live_job(q, mark, td_json_root(all))))
		return 0;
	td_buf_reset(&out);
	r = td_home_do(q->g, &k, td_gateway_cancel(q), &out, err);
	return r || !strcmp(td_buf_str(&out), "made") ? r : make(q, client, n, mark, like, err);
}

int td_gateway_needs_get(struct td_gateway_ask *q, struct td_slurm *client, struct td_gateway_needs *l,
			 const struct td_slurm_batch *like, struct td_error *err)
{
	for (size_t i = 0; i < l->n; i++) {
		pthread_mutex_t *lock = &looking[(unsigned char)l->v[i].key[0] % LOCKS];
		pthread_mutex_lock(lock);
		int r = get(q, client, &l->v[i], like, err);
		pthread_mutex_unlock(lock);
		if (r)
			return td_wrap(err, "%s", l->v[i].step);
	}
	return 0;
}

char *td_gateway_needs_dependency(const struct td_gateway_needs *l)
{
	struct td_buf b = {0};
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].job)
			td_buf_printf(&b, "%s%lld", b.len ? ":" : "afterok:", (long long)l->v[i].job);
	return b.len ? td_buf_take(&b) : NULL;
}

void td_gateway_needs_write(const struct td_gateway_needs *l, yyjson_mut_doc *d, yyjson_mut_val *jobs)
{
	for (size_t i = 0; i < l->n; i++) {
		if (!l->v[i].job)
			continue;
		yyjson_mut_val *j = yyjson_mut_arr_add_obj(d, jobs);
		td_jm_str(d, j, "step", l->v[i].step);
		td_jm_int(d, j, "id", l->v[i].job);
		td_jm_str(d, j, "makes", l->v[i].kind);
		td_jm_strf(d, j, "log", "tandem/%s/.log/%s-%lld.out", l->v[i].place, l->v[i].key,
			   (long long)l->v[i].job);
	}
}

bool td_gateway_need_is(const yyjson_val *entry)
{
	return td_jget(entry, "makes") != NULL;
}

int td_gateway_made_list(struct td_gateway_ask *q, const char *place, struct td_error *err)
{
	td_auto_buf struct td_buf out = {0};
	const struct td_home_call k = {.user = &q->user, .verb = "made", .args = {place}};
	int r = td_home_do(q->g, &k, td_gateway_cancel(q), &out, err);
	if (!r)
		td_http_send(q->x, 200, "application/json", td_buf_str(&out), out.len);
	return r;
}

int td_gateway_made_delete(struct td_gateway_ask *q, const char *place, struct td_error *err)
{
	const struct td_home_call k = {.user = &q->user, .verb = "unmake", .args = {place, q->args[0]}};
	int r = td_home_do(q->g, &k, td_gateway_cancel(q), NULL, err);
	return r ? r : td_gateway_done(q);
}
