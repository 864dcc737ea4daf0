// Parsers v0.0.42 to v0.0.44. The first is the only one that both 24.11 and 26.05 have; in what is
// read and written here the others are the same (docs/facts/slurm.md S-R7, S-V1). v0.0.45 is not: it does
// not say which jobs want whole nodes. Numbers are objects {set, infinite, number}: a number that
// is not set is not zero.
#include "slurm/adapter.h"
#include "slurm/hostlist.h"

#include <stdio.h>
#include <string.h>

#define SITE_ZERO INT64_C(2147483648) // Slurm counts a site factor from here (S-Q9)

// ---- writing ----

static void number(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, long long n)
{
	yyjson_mut_val *v = td_jm_obj(d, o, key);
	td_jm_bool(d, v, "set", true);
	td_jm_int(d, v, "number", n);
}

// Adds a hostlist as a list of names. NULL: nothing. "" stays a string, which clears the field:
// slurmctld ignores an empty list (S-J7).
static void names(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const char *s)
{
	if (!s)
		return;

	td_auto_strv struct td_strv l = {0};
	if (!*s || td_hostlist_parse(s, &l, NULL)) {
		td_jm_str(d, o, key, s);
		return;
	}

	yyjson_mut_val *a = td_jm_arr(d, o, key);
	for (size_t i = 0; i < l.n; i++)
		yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, l.v[i]));
}

static void strings(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const char *s)
{
	yyjson_mut_val *a = td_jm_arr(d, o, key);
	yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, s));
}

static char *ask_body(const struct td_slurm_ask *a, bool immediate)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *j = td_jm_obj(d, root, "job");
	if (!immediate)
		td_jm_str(d, root, "script", a->script);

	td_jm_str(d, j, "name", a->name);
	if (a->uid > 0)
		td_jm_strf(d, j, "user_id", "%lld", (long long)a->uid);
	td_jm_str(d, j, "account", a->account);
	td_jm_str(d, j, "partition", a->partition);
	td_jm_str(d, j, "qos", a->qos);
	td_jm_str(d, j, "constraints", a->constraints);
	td_jm_str(d, j, "reservation", a->reservation);
	td_jm_str(d, j, "licenses", a->licenses);
	td_jm_str(d, j, "dependency", a->dependency);
	td_jm_str(d, j, "comment", a->comment);
	td_jm_str(d, j, "admin_comment", a->admin_comment);
	// A job with segments that asks by task is refused (S-G12); it has a task on each node.
	td_jm_str(d, j, a->tasks && !a->segment ? "tres_per_task" : "tres_per_node", a->tres_per_node);

	if (a->excluded_nodes && *a->excluded_nodes)
		names(d, j, "excluded_nodes", a->excluded_nodes);
	names(d, j, "required_nodes", a->required_nodes);

	long long cpus = a->cpus > 0 ? a->cpus : 1, memory = a->memory_mb > 0 ? a->memory_mb : 1;
	if (!a->tasks)
		td_jm_str(d, j, "nodes", "1");
	else if (a->alone)
		td_jm_strf(d, j, "nodes", "%lld", (long long)a->tasks);
	else if (a->most_nodes)
		td_jm_strf(d, j, "nodes", "1-%lld", (long long)a->most_nodes);
	if (a->tasks && a->alone)
		td_jm_int(d, j, "tasks_per_node", 1);
	if (a->segment > 0)
		number(d, j, "segment_size", a->segment);
	td_jm_int(d, j, "tasks", a->tasks ? a->tasks : 1);
	td_jm_int(d, j, "cpus_per_task", cpus);
	if (a->tasks)
		number(d, j, "memory_per_cpu", (memory + cpus - 1) / cpus);
	else
		number(d, j, "memory_per_node", memory);

	if (a->time_limit_min > 0)
		number(d, j, "time_limit", a->time_limit_min);
	if (a->no_limit) {
		yyjson_mut_val *v = td_jm_obj(d, j, "time_limit");
		td_jm_bool(d, v, "set", true);
		td_jm_bool(d, v, "infinite", true);
	}
	if (a->priority)
		number(d, j, "priority", a->priority);
	if (a->begin > 0 && !immediate)
		number(d, j, "begin_time", a->begin);
	if (a->nice)
		td_jm_int(d, j, "nice", a->nice);
	if (a->exclusive || a->exclusive_user)
		strings(d, j, "shared", a->exclusive ? "none" : "user");

	if (immediate)
		td_jm_bool(d, j, "immediate", true);
	td_jm_bool(d, j, "requeue", false);
	td_jm_str(d, j, "current_working_directory", "/");
	strings(d, j, "environment", "PATH=/usr/local/bin:/usr/bin:/bin");

	if (!immediate) {
		td_jm_str(d, j, "standard_output", "/dev/null");
		td_jm_str(d, j, "standard_error", "/dev/null");
		td_jm_str(d, j, "standard_input", "/dev/null");
	}

	if (a->warn_usr1 && !immediate) {
		td_jm_str(d, j, "kill_warning_signal", "USR1");
		number(d, j, "kill_warning_delay", a->warn_delay_s > 0 ? a->warn_delay_s : 60);
		strings(d, j, "kill_warning_flags", "BATCH_JOB");
	}

	return td_json_mut_text(root, NULL);
}

static char *job_change_body(const struct td_slurm_job_change *c)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "admin_comment", c->admin_comment);
	if (c->nice || c->nice_too)
		td_jm_int(d, root, "nice", c->nice);
	td_jm_str(d, root, "comment", c->comment);
	names(d, root, "excluded_nodes", c->excluded_nodes);
	if (c->release)
		td_jm_bool(d, root, "hold", false);
	if (c->site)
		td_jm_int(d, root, "site_factor", SITE_ZERO + c->site_factor);
	if (c->time_limit_min > 0)
		number(d, root, "time_limit", c->time_limit_min);
	if (c->begin > 0)
		number(d, root, "begin_time", c->begin);
	if (c->no_requeue)
		td_jm_bool(d, root, "requeue", false);
	return td_json_mut_text(root, NULL);
}

static char *job_end_body(int64_t id, const char *name, const struct td_slurm_signal *signal)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	char text[24];
	snprintf(text, sizeof(text), "%lld", (long long)id);
	strings(d, root, "jobs", text); // an empty list would mean every job
	td_jm_str(d, root, "job_name", name);
	if (signal) {
		td_jm_str(d, root, "signal", signal->name);
		if (signal->batch)
			strings(d, root, "flags", "BATCH_JOB");
	}
	return td_json_mut_text(root, NULL);
}

static char *node_change_body(const char *state, const char *reason)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_strv struct td_strv states = {0};
	td_strv_split(&states, state ? state : "", ',');
	for (size_t i = 0; i < states.n; i++)
		yyjson_mut_arr_append(td_jm_arr(d, root, "state"), yyjson_mut_strcpy(d, states.v[i]));
	td_jm_str(d, root, "reason", reason);
	return td_json_mut_text(root, NULL);
}

static char *node_features_body(const char *features, const char *active)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "features", features);
	td_jm_str(d, root, "features_act", active);
	return td_json_mut_text(root, NULL);
}

// ---- reading ----

// A number object {set, infinite, number}, or a plain number. def when it is not set or infinite.
static long long num(const yyjson_val *v, const char *path, long long def)
{
	const yyjson_val *n = td_jget(v, path);
	if (!yyjson_is_obj((yyjson_val *)(uintptr_t)n))
		return td_jint(v, path, def);
	if (!td_jbool(n, "set", true) || td_jbool(n, "infinite", false))
		return def;
	return td_jint(n, "number", def);
}

static char *str(const yyjson_val *v, const char *path)
{
	return td_strdup(td_jstr_or(v, path, ""));
}

// A list of strings joined by commas, or a string as it is.
static char *joined(const yyjson_val *v, const char *path)
{
	yyjson_val *l = td_jget(v, path), *e;
	struct td_buf b = {0};
	size_t i, n;

	if (yyjson_is_str(l))
		return td_strdup(yyjson_get_str(l));

	yyjson_arr_foreach (l, i, n, e)
		if (yyjson_is_str(e))
			td_buf_printf(&b, "%s%s", b.len ? "," : "", yyjson_get_str(e));
	return td_buf_take(&b);
}

// A list of flags, or one flag, as bits.
static uint64_t flags(const yyjson_val *v, const char *path, uint64_t (*parse)(const char *))
{
	yyjson_val *l = td_jget(v, path), *e;
	uint64_t s = 0;
	size_t i, n;

	if (yyjson_is_str(l))
		return parse(yyjson_get_str(l));

	yyjson_arr_foreach (l, i, n, e)
		if (yyjson_is_str(e))
			s |= parse(yyjson_get_str(e));
	return s;
}

static bool read_state(const yyjson_val *v, struct td_slurm_state *ret)
{
	const char *s = td_jstr(v, "job_id"); // a string here, a number elsewhere (S-W1)
	long long id = 0;
	if (!s || !td_parse_i64(s, &id)) // "12_3" is an array task, which is never a stand-in
		id = td_jint(v, "job_id", 0);
	if (id <= 0)
		return false;

	ret->id = id;
	ret->states = flags(v, "state", td_slurm_job_state_parse);
	return true;
}

// "6_1" is a task of an array that has begun and "5_2" one that waits, whose record is 5, that of the array; "8+0" is a
// part of a heterogeneous job.
static bool read_any_state(const yyjson_val *v, struct td_slurm_state *ret)
{
	const char *s = td_jstr(v, "job_id");
	td_auto_free char *digits = s ? td_strndup(s, strspn(s, "0123456789")) : NULL;
	long long id = 0;
	if (!digits || !td_parse_i64(digits, &id))
		return read_state(v, ret);
	ret->id = id;
	ret->part = strlen(digits) < strlen(s);
	ret->states = flags(v, "state", td_slurm_job_state_parse);
	return id > 0;
}

// The core indexes on the node, as Slurm numbers them: socket * cores a socket + core. Caller
// frees.
static char *cores(const yyjson_val *alloc)
{
	struct td_ranges r = {0};
	yyjson_val *sockets = td_jget(alloc, "sockets"), *s, *c, *f;
	size_t i, n, k, m, x, y;
	long long per = 1;

	yyjson_arr_foreach (sockets, i, n, s)
		yyjson_arr_foreach (td_jget(s, "cores"), k, m, c)
			if (td_jint(c, "index", 0) >= per)
				per = td_jint(c, "index", 0) + 1;

	yyjson_arr_foreach (sockets, i, n, s)
		yyjson_arr_foreach (td_jget(s, "cores"), k, m, c) {
			long long at = td_jint(s, "index", -1) * per + td_jint(c, "index", -1);
			bool ours = false;
			yyjson_arr_foreach (td_jget(c, "status"), x, y, f)
				ours |= yyjson_equals_str(f, "ALLOCATED");
			if (ours && at >= 0 && at < TD_RANGE_MAX)
				r.bits[at / 64] |= UINT64_C(1) << (at % 64);
		}

	return td_ranges_write(&r);
}

static int read_job(const yyjson_val *v, struct td_slurm_job *j, struct td_error *err)
{
	j->id = td_jint(v, "job_id", 0);
	if (j->id <= 0)
		return td_fail(err, TD_INVALID, "a job without a job_id in slurmrestd's reply");

	j->states = flags(v, "job_state", td_slurm_job_state_parse);
	j->name = str(v, "name");
	j->user = str(v, "user_name");
	j->account = str(v, "account");
	j->partition = str(v, "partition");
	j->qos = str(v, "qos");
	j->admin_comment = str(v, "admin_comment");
	j->comment = str(v, "comment");
	j->description = str(v, "state_description");
	// One reason stands for nodes that are out of service and for nodes where others come first; only the words differ
	// (docs/facts/slurm.md S-Q22).
	j->reason =
		str(v, td_streq(j->description, "ReqNodeNotAvail, May be reserved for other job") ? "state_description"
												  : "state_reason");
	j->excluded_nodes = str(v, "excluded_nodes");
	j->nodes_text = str(v, "nodes");

	j->uid = td_jint(v, "user_id", -1);
	j->start = num(v, "start_time", 0);
	j->end = num(v, "end_time", 0);
	j->submit = num(v, "submit_time", 0);
	j->preempt = num(v, "preempt_time", 0);
	j->eligible = num(v, "eligible_time", 0);
	j->restarts = num(v, "restart_cnt", 0);
	j->priority = num(v, "priority", 0);
	j->time_limit_min = num(v, "time_limit", 0);
	j->want_cpus = num(v, "cpus", 0);
	j->want_memory_mb = num(v, "memory_per_node", 0);
	j->want_nodes = num(v, "node_count", 1);
	j->want_tasks = num(v, "tasks", 0);
	j->want_tasks_per_node = num(v, "tasks_per_node", 0);
	j->want_cpus_per_task = num(v, "cpus_per_task", 0);
	j->want_memory_per_cpu_mb = num(v, "memory_per_cpu", 0);
	j->required_nodes = str(v, "required_nodes");
	j->tres_per_node = str(v, "tres_per_node");
	j->tres_per_job = str(v, "tres_per_job");
	j->tres_per_task = str(v, "tres_per_task");
	j->tres_per_socket = str(v, "tres_per_socket");
	j->shared = joined(v, "shared");
	j->nice = num(v, "nice", 0);
	j->tres_req = str(v, "tres_req_str");
	j->tres_alloc = str(v, "tres_alloc_str");
	j->array = num(v, "array_job_id", 0);
	j->task = num(v, "array_task_id", -1);
	j->tasks = str(v, "array_task_string");
	j->exit_code = num(v, "exit_code.return_code", 0);
	j->exit_signal = num(v, "exit_code.signal.id", 0);

	j->batch = td_jbool(v, "batch_flag", false);
	j->hold = td_jbool(v, "hold", false);

	td_auto_strv struct td_strv hosts = {0};
	int r = td_hostlist_parse(j->nodes_text, &hosts, err);
	if (r)
		return td_wrap(err, "nodes of job %lld", (long long)j->id);
	if (!hosts.n)
		return 0;

	j->nodes = td_calloc(hosts.n, sizeof(*j->nodes));
	j->n_nodes = hosts.n;

	yyjson_val *gres = td_jget(v, "gres_detail"), *alloc = td_jget(v, "job_resources.nodes.allocation"), *a;
	for (size_t i = 0; i < hosts.n; i++) {
		struct td_slurm_job_node *n = &j->nodes[i];
		// gres_detail has the order of `nodes` (S-D1).
		const char *g = yyjson_get_str(yyjson_arr_get(gres, i));
		n->name = td_strdup(hosts.v[i]);
		n->gres = td_strdup(g && strcmp(g, "(null)") != 0 ? g : "");
		size_t k, m;
		yyjson_arr_foreach (alloc, k, m, a) {
			if (!td_streq(td_jstr(a, "name"), n->name))
				continue;
			n->cpus = num(a, "cpus.count", 0);
			n->memory_mb = num(a, "memory.allocated", 0);
			free(n->cores);
			n->cores = cores(a);
		}
		if (!n->cores)
			n->cores = td_strdup("");
	}
	return 0;
}

// "24.11.5" as 2411; 0: another form.
static int release_of(const char *v)
{
	bool form = v && strspn(v, "0123456789") == 2 && v[2] == '.' && strspn(v + 3, "0123456789") == 2;
	return form ? (v[0] - '0') * 1000 + (v[1] - '0') * 100 + (v[3] - '0') * 10 + (v[4] - '0') : 0;
}

static int read_node(const yyjson_val *v, struct td_slurm_node *n, struct td_error *err)
{
	n->name = str(v, "name");
	if (!*n->name)
		return td_fail(err, TD_INVALID, "a node without a name in slurmrestd's reply");

	n->states = flags(v, "state", td_slurm_node_state_parse);
	n->reason = str(v, "reason");
	n->reason_by = str(v, "reason_set_by_user");
	n->comment = str(v, "comment");
	n->address = str(v, "address");
	n->arch = str(v, "architecture");
	n->release = release_of(td_jstr(v, "version"));
	n->gres = str(v, "gres");
	n->gres_used = str(v, "gres_used");

	n->features = joined(v, "features");
	n->active = joined(v, "active_features");
	n->partitions = joined(v, "partitions");
	n->reason_at = num(v, "reason_changed_at", 0);
	n->busy_at = num(v, "last_busy", 0);

	n->cpus = num(v, "effective_cpus", num(v, "cpus", 0));
	n->kept_cpus = num(v, "cpus", n->cpus) - n->cpus;
	n->sockets = num(v, "sockets", 0);
	n->alloc_cpus = num(v, "alloc_cpus", 0);
	n->kept_memory_mb = num(v, "specialized_memory", 0);
	n->memory_mb = num(v, "real_memory", 0) - n->kept_memory_mb;
	n->alloc_memory_mb = num(v, "alloc_memory", 0);
	return 0;
}

static const char *const versions[] = {"v0.0.42", "v0.0.43", "v0.0.44", NULL};

const struct td_slurm_adapter td_slurm_v0042 = {
	.versions = versions,
	.ask_body = ask_body,
	.job_change_body = job_change_body,
	.job_end_body = job_end_body,
	.node_change_body = node_change_body,
	.node_features_body = node_features_body,
	.read_job = read_job,
	.read_node = read_node,
	.read_state = read_state,
	.read_any_state = read_any_state,
};
