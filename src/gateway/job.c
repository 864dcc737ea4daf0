#include "gateway/job.h"

#include "base/embedded.h"
#include "gateway/path.h"
#include "pool/dataset.h"

#include <string.h>

extern const struct td_embedded td_gateway_files[];

enum { TASKS_MOST = 10000 };

void td_gateway_plan_done(struct td_gateway_plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		td_slurm_batch_done(&p->steps[i].batch);
	td_arena_free(p->arena);
	yyjson_mut_doc_free(p->texts);
	*p = (struct td_gateway_plan){0};
}

char *td_gateway_mark(const char *run, const char *step)
{
	return td_asprintf("tandem %s %s", run, step);
}

static bool variable(const char *s)
{
	static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_",
			  more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	return s && *s && strlen(s) <= 64 && strchr(first, *s) && strspn(s, more) == strlen(s);
}

// Variables that lead the job's own programs, or that Slurm sets.
static bool reserved(const char *s)
{
	return td_starts(s, "SLURM_") || td_starts(s, "TANDEM_") || !strcmp(s, "HOME") || !strcmp(s, "USER") ||
	       !strcmp(s, "LOGNAME");
}

// One line of shell for each task of the sweep, the last variable changing first.
static int sweep(yyjson_val *matrix, const char *step, struct td_buf *ret, long long *ret_tasks, struct td_error *err)
{
	size_t i, n;
	yyjson_val *k, *v;
	long long tasks = 1;
	yyjson_obj_foreach (matrix, i, n, k, v) {
		if (!variable(yyjson_get_str(k)) || reserved(yyjson_get_str(k)))
			return td_fail(
				err, TD_INVALID,
				"step %s: matrix: \"%.40s\" cannot be a variable: use letters, digits and \"_\", and "
				"not HOME, USER, SLURM_… or TANDEM_…",
				step, yyjson_get_str(k));
		tasks *= (long long)yyjson_arr_size(v);
		if (tasks > TASKS_MOST)
			return td_fail(err, TD_INVALID, "step %s: matrix: more than %d combinations", step, TASKS_MOST);
	}
	for (long long t = 0; t < tasks; t++) {
		long long rest = t, of = tasks;
		td_buf_puts(ret, "export");
		yyjson_obj_foreach (matrix, i, n, k, v) {
			of /= (long long)yyjson_arr_size(v);
			const char *value = yyjson_get_str(yyjson_arr_get(v, (size_t)(rest / of)));
			rest %= of;
			if (strpbrk(value, "\n\r"))
				return td_fail(err, TD_INVALID, "step %s: matrix: %s: a value has one line", step,
					       yyjson_get_str(k));
			td_buf_printf(ret, " %s=", yyjson_get_str(k));
			td_buf_quote(ret, value);
		}
		td_buf_putc(ret, '\n');
	}
	*ret_tasks = tasks;
	return 0;
}

static int environment(const struct td_gateway_plan_in *in, const yyjson_val *step, struct td_slurm_batch *b,
		       struct td_error *err)
{
	const char *name = td_jstr(step, "name");
	td_strv_addf(&b->env, "HOME=%s", in->home);
	td_strv_addf(&b->env, "USER=%s", in->user);
	td_strv_addf(&b->env, "LOGNAME=%s", in->user);
	td_strv_addf(&b->env, "TANDEM_RUN=%s", in->id);
	td_strv_addf(&b->env, "TANDEM_STEP=%s", name);
	if (td_jint(step, "cpus", 0)) // as sbatch does; slurmrestd does not
		td_strv_addf(&b->env, "SLURM_CPUS_PER_TASK=%lld", (long long)td_jint(step, "cpus", 0));
	if (in->hub)
		td_strv_addf(&b->env, "TANDEM_HUB=%s", in->hub);
	if (in->env && strchr(in->env, '='))
		td_strv_addf(&b->env, "TANDEM_ENVS=%s", in->env);
	else if (in->env)
		td_strv_addf(&b->env, "TANDEM_ENV=%s/tandem/envs/%s", in->home, in->env);
	if (in->data)
		td_strv_addf(&b->env, "TANDEM_DATASETS=%s", in->data);
	if (td_jint(step, "checkpoints", 0))
		td_strv_addf(&b->env, "TANDEM_CHECKPOINTS_KEEP=%lld", (long long)td_jint(step, "checkpoints", 0));
	size_t i, n;
	yyjson_val *k, *v;
	yyjson_obj_foreach (td_jget(step, "env"), i, n, k, v) {
		if (!variable(yyjson_get_str(k)) || reserved(yyjson_get_str(k)))
			return td_fail(
				err, TD_INVALID,
				"step %s: env: \"%.40s\" cannot be set: use letters, digits and \"_\", and not HOME, "
				"USER, SLURM_… or TANDEM_…",
				name, yyjson_get_str(k));
		td_strv_addf(&b->env, "%s=%s", yyjson_get_str(k), yyjson_get_str(v));
	}
	return 0;
}

static int step_of(const struct td_gateway_plan_in *in, const yyjson_val *v, struct td_gateway_plan *p,
		   struct td_gateway_step *s, struct td_error *err)
{
	struct td_slurm_batch *b = &s->batch;
	const char *run = td_jstr(in->job, "name");
	s->name = td_jstr(v, "name");
	int r = td_gateway_name_check("step", s->name, err);
	if (r || (r = environment(in, v, b, err)))
		return r;

	bool only = yyjson_arr_size(td_jget(in->job, "steps")) == 1;
	td_auto_free char *mark = td_gateway_mark(in->id, s->name);
	b->name = only ? run : td_arena_printf(p->arena, "%s-%s", run, s->name);
	b->script = td_embedded(td_gateway_files, "run.sh")->text;
	b->cwd = td_arena_printf(p->arena, "%s/tandem/runs/%s", in->home, in->id);
	b->comment = td_arena_strdup(p->arena, mark);
	b->gpus = td_jint(v, "gpus", 0);
	b->gpu_type = td_jstr(v, "gpuType");
	b->nodes = td_jint(v, "nodes", 0);
	b->tasks = td_jint(v, "tasks", 0);
	b->tasks_per_node = td_jint(v, "tasksPerNode", 0);
	b->cpus = td_jint(v, "cpus", 0);
	b->memory_mb = td_jint(v, "memoryMiB", 0);
	b->memory_per_cpu_mb = td_jint(v, "memoryPerCpuMiB", 0);
	b->time_limit_min = td_jint(v, "minutes", 0);
	b->partition = td_jstr(v, "partition");
	b->account = td_jstr(v, "account");
	b->qos = td_jstr(v, "qos");
	b->constraints = td_jstr(v, "constraint");
	if (in->node_data && in->node_data->n) {
		td_auto_free char *joined = NULL;
		if ((r = td_pool_data_constraint(b->constraints, in->node_data, &joined, err)))
			return td_wrap(err, "step %s", s->name);
		b->constraints = td_arena_strdup(p->arena, joined);
	}
	b->reservation = td_jstr(v, "reservation");
	b->begin = td_jint(v, "begin", 0);
	b->requeue = td_jint(v, "checkpoints", 0); // what cannot go on would only begin anew

	td_auto_buf struct td_buf text = {0}, lines = {0};
	size_t i, n;
	yyjson_val *line;
	yyjson_arr_foreach (td_jget(v, "entrypoint"), i, n, line)
		td_buf_printf(&text, "%s\n", yyjson_get_str(line));
	td_auto_free char *file = td_asprintf("%s.sh", s->name), *params = td_asprintf("%s.params", s->name);
	td_jm_key_str(p->texts, yyjson_mut_doc_get_root(p->texts), file, td_buf_str(&text));
	if (yyjson_obj_size(td_jget(v, "matrix"))) {
		if ((r = sweep(td_jget(v, "matrix"), s->name, &lines, &s->tasks, err)))
			return r;
		td_jm_key_str(p->texts, yyjson_mut_doc_get_root(p->texts), params, td_buf_str(&lines));
		long long most = td_jint(v, "parallel", 0);
		b->array = most ? td_arena_printf(p->arena, "0-%lld%%%lld", s->tasks - 1, most)
				: td_arena_printf(p->arena, "0-%lld", s->tasks - 1);
	}
	b->output = td_arena_printf(p->arena, "%s/slurm_log/slurm-%s.out", b->cwd, s->tasks ? "%A_%a" : "%j");
	return 0;
}

static size_t index_of(yyjson_val *steps, const char *name)
{
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (steps, i, n, v)
		if (td_streq(td_jstr(v, "name"), name))
			return i;
	return SIZE_MAX;
}

// Puts steps in order: each round takes those whose needs are placed already.
static int order(yyjson_val *steps, size_t *ret_order, struct td_error *err)
{
	size_t n = yyjson_arr_size(steps), placed = 0, i, j, m;
	yyjson_val *v, *a;
	td_auto_free bool *is = td_calloc(n, sizeof(*is));
	yyjson_arr_foreach (steps, i, m, v) {
		if (index_of(steps, td_jstr(v, "name")) != i)
			return td_fail(err, TD_INVALID, "two steps are called %.40s", td_jstr(v, "name"));
		size_t k, l;
		yyjson_arr_foreach (td_jget(v, "after"), k, l, a)
			if (index_of(steps, yyjson_get_str(a)) == SIZE_MAX)
				return td_fail(err, TD_INVALID, "step %.40s: after: there is no step %.40s",
					       td_jstr(v, "name"), yyjson_get_str(a));
	}
	while (placed < n) {
		size_t before = placed;
		yyjson_arr_foreach (steps, i, m, v) {
			bool ready = !is[i];
			size_t l;
			yyjson_arr_foreach (td_jget(v, "after"), j, l, a)
				ready = ready && is[index_of(steps, yyjson_get_str(a))];
			if (ready) {
				is[i] = true;
				ret_order[placed++] = i;
			}
		}
		if (placed == before)
			return td_fail(err, TD_INVALID, "steps wait for each other in a circle (after)");
	}
	return 0;
}

int td_gateway_plan(const struct td_gateway_plan_in *in, struct td_gateway_plan *ret, struct td_error *err)
{
	yyjson_val *steps = td_jget(in->job, "steps");
	size_t n = yyjson_arr_size(steps);
	td_auto_free size_t *at = td_calloc(n + 1, sizeof(*at));
	int r = td_gateway_name_check("name", td_jstr(in->job, "name"), err);
	if (r || (r = order(steps, at, err)))
		return r;

	td_auto_plan struct td_gateway_plan p = {.arena = td_arena_new(), .texts = td_jm_new()};
	p.steps = td_arena_alloc(p.arena, (n + 1) * sizeof(*p.steps));
	p.n = n;
	for (size_t i = 0; i < n; i++) {
		yyjson_val *v = yyjson_arr_get(steps, at[i]), *a;
		struct td_gateway_step *s = &p.steps[i];
		if ((r = step_of(in, v, &p, s, err)))
			return r;
		s->after = td_arena_alloc(p.arena, (yyjson_arr_size(td_jget(v, "after")) + 1) * sizeof(*s->after));
		size_t j, m;
		yyjson_arr_foreach (td_jget(v, "after"), j, m, a)
			for (size_t k = 0; k < i; k++)
				if (at[k] == index_of(steps, yyjson_get_str(a)))
					s->after[s->n_after++] = k;
	}
	*ret = p;
	p = (struct td_gateway_plan){0};
	return 0;
}
