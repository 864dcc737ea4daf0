#include "cli/jobfile.h"

#include "cli/jobenv.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MOST = 32, GPUS_MOST = 64 };

// ---- words ----

char *td_jobfile_name(const char *s)
{
	struct td_buf b = {0};
	for (; *s && b.len < NAME_MOST; s++)
		if (isalnum((unsigned char)*s) || (b.len && strchr("._-", *s)))
			td_buf_putc(&b, *s);
		else if (b.len && b.s[b.len - 1] != '-')
			td_buf_putc(&b, '-');
	while (b.len && b.s[b.len - 1] == '-')
		b.s[--b.len] = '\0';
	if (!b.len)
		td_buf_puts(&b, "run");
	return td_buf_take(&b);
}

void td_jobfile_quote(struct td_buf *b, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
	if (*word && strspn(word, plain) == strlen(word)) {
		td_buf_puts(b, word);
		return;
	}
	td_buf_quote(b, word);
}

int td_jobfile_memory(const char *text, long long *ret_mib, struct td_error *err)
{
	char *end = NULL;
	double v = isdigit((unsigned char)*text) ? strtod(text, &end) : -1, mib = -1;
	if (end)
		mib = !*end || !strcmp(end, "M") || !strcmp(end, "Mi") || !strcmp(end, "MB") ? v
		      : !strcmp(end, "G") || !strcmp(end, "Gi") || !strcmp(end, "GB")        ? v * 1024
		      : !strcmp(end, "T") || !strcmp(end, "Ti") || !strcmp(end, "TB")        ? v * 1024 * 1024
		      : !strcmp(end, "K") || !strcmp(end, "Ki")                              ? v / 1024
											     : -1;
	if (!(mib > 0 && mib <= 1e8))
		return td_fail(err, TD_INVALID, "\"%.40s\" is no memory size: write 512M or 8G", text);
	*ret_mib = (long long)mib + (mib > (double)(long long)mib);
	return 0;
}

int td_jobfile_minutes(const char *text, long long *ret, struct td_error *err)
{
	unsigned d = 0, h = 0, m = 0, s = 0;
	int used = 0;
	size_t n = strlen(text);
	char *end = NULL;
	double v = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;
	long long minutes = -1;
	if (end && end[0] && !end[1] && strchr("smhd", *end) && v < 1e7)
		v = *end == 's' ? v / 60 : *end == 'm' ? v : *end == 'h' ? v * 60 : v * 1440;
	else if (!end || *end)
		v = -1;
	if (v > 0 && v <= 5256000)
		minutes = (long long)v + (v > (double)(long long)v);
	else if (sscanf(text, "%4u-%2u:%2u:%2u%n", &d, &h, &m, &s, &used) == 4 && (size_t)used == n)
		minutes = d * 1440LL + h * 60 + m + (s > 0);
	else if (sscanf(text, "%4u-%2u:%2u%n", &d, &h, &m, &used) == 3 && (size_t)used == n)
		minutes = d * 1440LL + h * 60 + m;
	else if (sscanf(text, "%4u-%2u%n", &d, &h, &used) == 2 && (size_t)used == n)
		minutes = d * 1440LL + h * 60;
	else if (sscanf(text, "%6u:%2u:%2u%n", &h, &m, &s, &used) == 3 && (size_t)used == n)
		minutes = h * 60LL + m + (s > 0);
	else if (sscanf(text, "%6u:%2u%n", &m, &s, &used) == 2 && (size_t)used == n)
		minutes = m + (s > 0);
	if (minutes <= 0 || minutes > 5256000)
		return td_fail(err, TD_INVALID, "\"%.40s\" is no time: write 30m, 2h, 1d or H:MM:SS", text);
	*ret = minutes;
	return 0;
}

int td_jobfile_gpus(const char *text, long long *ret, char **ret_type, struct td_error *err)
{
	const char *colon = strchr(text, ':');
	long long n;
	size_t len = colon ? (size_t)(colon - text) : 0;
	if (!td_parse_i64(colon ? colon + 1 : text, &n) || n < 0 || (colon && (!len || len > 63)))
		return td_fail(err, TD_INVALID, "\"%.40s\" is no number of GPUs: write 2 or h100:2", text);
	if (n > GPUS_MOST)
		return td_fail(err, TD_INVALID,
			       "\"%.40s\" is more than a node can have: write %d or less, and more nodes", text,
			       GPUS_MOST);
	*ret_type = colon ? td_strndup(text, len) : NULL;
	*ret = n;
	return 0;
}

// ---- tandem.yaml ----

// A scalar as text; the caller frees it. NULL: it is none.
static char *scalar(yyjson_val *v)
{
	if (yyjson_is_str(v))
		return td_strdup(yyjson_get_str(v));
	if (yyjson_is_bool(v))
		return td_strdup(yyjson_get_bool(v) ? "true" : "false");
	if (yyjson_is_sint(v))
		return td_asprintf("%" PRId64, yyjson_get_sint(v));
	if (yyjson_is_uint(v))
		return td_asprintf("%" PRIu64, yyjson_get_uint(v));
	return yyjson_is_num(v) ? td_json_text(v, NULL) : NULL;
}

struct job_step {
	yyjson_mut_doc *d;
	yyjson_mut_val *o; // of the step
	const char *where; // "step train: ", or ""
};

static int wrong(const struct job_step *m, const char *key, const char *fix, struct td_error *err)
{
	return td_fail(err, TD_INVALID, "%s%.60s: %s", m->where, key, fix);
}

static int lines(const struct job_step *m, const char *key, yyjson_val *v, struct td_error *err)
{
	yyjson_mut_val *a = td_jm_arr(m->d, m->o, "entrypoint");
	yyjson_mut_arr_clear(a);
	size_t i, n;
	yyjson_val *line;
	td_auto_free char *one = scalar(v); // `true` is a command, too
	if (one) {
		yyjson_mut_arr_append(a, yyjson_mut_strcpy(m->d, one));
		return 0;
	}
	if (!yyjson_is_arr(v) || !yyjson_arr_size(v))
		return wrong(m, key, "give a command, or a list of lines of shell", err);
	yyjson_arr_foreach (v, i, n, line) {
		td_auto_free char *s = scalar(line);
		if (!s)
			return wrong(m, key, "every line is a text", err);
		// As in TACC's examples: a line that begins with an option goes on with the one before.
		size_t have = yyjson_mut_arr_size(a);
		if (td_starts(s, "-") && have) {
			const char *last = yyjson_mut_get_str(yyjson_mut_arr_remove_last(a));
			td_auto_free char *both = td_asprintf("%s %s", last ? last : "", s);
			yyjson_mut_arr_append(a, yyjson_mut_strcpy(m->d, both));
		} else {
			yyjson_mut_arr_append(a, yyjson_mut_strcpy(m->d, s));
		}
	}
	return 0;
}

static int variables(const struct job_step *m, yyjson_val *v, struct td_error *err)
{
	size_t i, n;
	yyjson_val *k, *w;
	if (!yyjson_is_obj(v))
		return wrong(m, "env", "give NAME: value, a line each", err);
	yyjson_mut_val *env = td_jm_obj(m->d, m->o, "env");
	yyjson_obj_foreach (v, i, n, k, w) {
		td_auto_free char *s = scalar(w);
		if (!s)
			return wrong(m, "env", "every value is a text or a number", err);
		td_jm_key_str(m->d, env, yyjson_get_str(k), s);
	}
	return 0;
}

static int matrix(const struct job_step *m, yyjson_val *v, struct td_error *err)
{
	size_t i, n, j, l;
	yyjson_val *k, *w, *x;
	if (!yyjson_is_obj(v))
		return wrong(m, "matrix", "give NAME: [value, …], a line each", err);
	yyjson_mut_val *o = yyjson_mut_obj(m->d);
	yyjson_obj_foreach (v, i, n, k, w) {
		yyjson_mut_val *a = yyjson_mut_arr(m->d);
		if (!yyjson_is_arr(w) || !yyjson_arr_size(w))
			return wrong(m, "matrix", "every variable has a list of values", err);
		yyjson_arr_foreach (w, j, l, x) {
			td_auto_free char *s = scalar(x);
			if (!s)
				return wrong(m, "matrix", "every value is a text or a number", err);
			yyjson_mut_arr_append(a, yyjson_mut_strcpy(m->d, s));
		}
		td_jm_key_set(m->d, o, yyjson_get_str(k), a);
	}
	td_jm_set(m->d, m->o, "matrix", o);
	return 0;
}

// One field that a step, or the file for all steps, may have. *ret_known: it is such a field.
static int field(const struct job_step *m, const char *key, yyjson_val *v, bool *ret_known, struct td_error *err)
{
	static const char *const texts[] = {"partition", "account", "qos", "constraint", "reservation"},
				 *const numbers[] = {"nodes", "tasks", "cpus", "parallel", "checkpoints"};
	td_auto_free char *s = scalar(v), *type = NULL;
	long long n;
	int r;
	*ret_known = true;
	if (!strcmp(key, "run") || !strcmp(key, "entrypoint"))
		return lines(m, key, v, err);
	if (!strcmp(key, "env"))
		return variables(m, v, err);
	if (!strcmp(key, "matrix"))
		return matrix(m, v, err);
	for (size_t i = 0; i < TD_LEN(texts); i++)
		if (!strcmp(key, texts[i])) {
			if (!s)
				return wrong(m, key, "give a name", err);
			td_jm_str(m->d, m->o, key, s);
			return 0;
		}
	for (size_t i = 0; i < TD_LEN(numbers); i++)
		if (!strcmp(key, numbers[i])) {
			if (!s || !td_parse_i64(s, &n) || n < 1)
				return wrong(m, key, "give a number, 1 or more", err);
			td_jm_int(m->d, m->o, key, n);
			return 0;
		}
	if (!strcmp(key, "gpus")) {
		if ((r = td_jobfile_gpus(s ? s : "", &n, &type, err)))
			return td_wrap(err, "%sgpus", m->where);
		td_jm_int(m->d, m->o, "gpus", n);
		td_jm_del(m->o, "gpuType");
		td_jm_str(m->d, m->o, "gpuType", type);
		return 0;
	}
	if (!strcmp(key, "memory") || !strcmp(key, "time")) {
		bool memory = *key == 'm';
		r = memory ? td_jobfile_memory(s ? s : "", &n, err) : td_jobfile_minutes(s ? s : "", &n, err);
		if (r)
			return td_wrap(err, "%s%s", m->where, key);
		td_jm_int(m->d, m->o, memory ? "memoryMiB" : "minutes", n);
		return 0;
	}
	*ret_known = false;
	return 0;
}

// What a step has, and a file for all of its steps.
#define FIELDS                                                                                                         \
	"run, gpus, nodes, tasks, cpus, memory, time, env, matrix, parallel, checkpoints, partition, account, qos, "   \
	"constraint, reservation"

// What the whole file has, but no step.
static bool of_file(const char *key)
{
	return !strcmp(key, "name") || !strcmp(key, "steps") || !strcmp(key, "environment") || !strcmp(key, "data") ||
	       !strcmp(key, "schedule");
}

static int step(yyjson_mut_doc *d, yyjson_mut_val *list, const yyjson_val *file, yyjson_val *of, struct td_error *err)
{
	td_auto_free char *name = of ? td_strdup(td_jstr(of, "name")) : td_strdup("main");
	if (!name)
		return td_fail(err, TD_INVALID, "steps: every step has a name");
	td_auto_free char *where = of ? td_asprintf("step %.40s: ", name) : td_strdup("");
	struct job_step m = {d, yyjson_mut_arr_add_obj(d, list), where};
	td_jm_str(d, m.o, "name", name);
	size_t i, n, j, l;
	yyjson_val *k, *v, *a;
	bool known;
	// First what the file says for all, then what the step says itself.
	yyjson_obj_foreach ((yyjson_val *)(uintptr_t)file, i, n, k, v) {
		int r = of_file(yyjson_get_str(k)) ? 0 : field(&m, yyjson_get_str(k), v, &known, err);
		if (r)
			return r;
		if (!of_file(yyjson_get_str(k)) && !known)
			return td_fail(err, TD_INVALID,
				       "%.60s: there is no such field; there are name, environment, data, schedule, "
				       "steps, " FIELDS,
				       yyjson_get_str(k));
	}
	yyjson_obj_foreach (of, i, n, k, v) {
		const char *key = yyjson_get_str(k);
		if (!strcmp(key, "name"))
			continue;
		if (!strcmp(key, "after")) {
			yyjson_mut_val *list_ = td_jm_arr(d, m.o, "after");
			if (yyjson_is_str(v))
				yyjson_mut_arr_append(list_, yyjson_mut_strcpy(d, yyjson_get_str(v)));
			yyjson_arr_foreach (v, j, l, a)
				yyjson_mut_arr_append(list_,
						      yyjson_mut_strcpy(d, yyjson_get_str(a) ? yyjson_get_str(a) : ""));
			continue;
		}
		int r = field(&m, key, v, &known, err);
		if (r)
			return r;
		if (!known)
			return wrong(&m, key, "there is no such field of a step; there are name, after, " FIELDS, err);
	}
	if (!td_jm_get(m.o, "entrypoint"))
		return td_fail(err, TD_INVALID, "%srun: say what to run", where);
	return 0;
}

// The one document of a text.
static int parse(const char *text, size_t len, struct td_json **ret, struct td_error *err)
{
	td_auto_json_list struct td_json_list docs = {0};
	int r = td_yaml_parse(text, len, &docs, err);
	if (r)
		return r;
	if (docs.n != 1 || !yyjson_is_obj(td_json_root(docs.v[0])))
		return td_fail(err, TD_INVALID, "a job file is one YAML document with fields");
	*ret = td_json_ref(docs.v[0]);
	return 0;
}

int td_jobfile_tandem(const char *text, size_t len, const char *name, yyjson_mut_doc **ret, struct td_strv *notes,
		      struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = parse(text, len, &j, err);
	if (r)
		return r;
	yyjson_val *root = td_json_root(j), *steps = td_jget(root, "steps"), *v;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_str(d, yyjson_mut_doc_get_root(d), "name", td_jstr_or(root, "name", name));
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "steps");
	if (steps && !yyjson_arr_size(steps))
		return td_fail(err, TD_INVALID, "steps: give a list of steps");
	size_t i, n;
	if (td_jget(root, "environment"))
		r = td_jobenv_tandem(td_jget(root, "environment"), d, err);
	yyjson_val *schedule = td_jget(root, "schedule");
	if (schedule && !yyjson_is_str(schedule))
		return td_fail(err, TD_INVALID,
			       "schedule: give five fields of cron in quotes, such as \"0 3 * * *\" (UTC)");
	td_jm_str(d, yyjson_mut_doc_get_root(d), "schedule", yyjson_get_str(schedule));
	if (td_jget(root, "data") && !r)
		r = td_jobdata_tandem(td_jget(root, "data"), d, err);
	if (!steps && !r)
		r = step(d, list, root, NULL, err);
	yyjson_arr_foreach (steps, i, n, v)
		if (!r)
			r = yyjson_is_obj(v) ? step(d, list, root, v, err)
					     : td_fail(err, TD_INVALID, "steps: every step has fields");
	if (r)
		return r;
	*ret = td_steal(d);
	return 0;
}

// ---- tuxiv.conf ----

// One "key=value" of job.general, as sbatch takes it.
static int general(const struct job_step *m, const char *line, struct td_strv *notes, struct td_error *err)
{
	const char *eq = strchr(line, '=');
	if (!eq)
		return wrong(m, line, "job.general: write key=value", err);
	td_auto_free char *key = td_strndup(line, (size_t)(eq - line)), *value = td_strdup(eq + 1), *type = NULL;
	while (*key && key[strlen(key) - 1] == ' ')
		key[strlen(key) - 1] = '\0';
	static const struct {
		const char *slurm, *ours;
		bool number;
	} as[] = {{"nodes", "nodes", true},
		  {"ntasks", "tasks", true},
		  {"cpus-per-task", "cpus", true},
		  {"partition", "partition", false},
		  {"account", "account", false},
		  {"qos", "qos", false},
		  {"constraint", "constraint", false},
		  {"reservation", "reservation", false}};
	long long n;
	int r;
	for (size_t i = 0; i < TD_LEN(as); i++) {
		if (strcmp(key, as[i].slurm) != 0)
			continue;
		if (as[i].number && (!td_parse_i64(value, &n) || n < 1))
			return wrong(m, line, "job.general: give a number, 1 or more", err);
		if (as[i].number)
			td_jm_int(m->d, m->o, as[i].ours, n);
		else
			td_jm_str(m->d, m->o, as[i].ours, value);
		return 0;
	}
	if (!strcmp(key, "gres") && td_starts(value, "gpu")) {
		if ((r = td_jobfile_gpus(value[3] ? value + 4 : "1", &n, &type, err)))
			return td_wrap(err, "job.general: %.60s", line);
		td_jm_int(m->d, m->o, "gpus", n);
		td_jm_str(m->d, m->o, "gpuType", type);
	} else if (!strcmp(key, "mem")) {
		if ((r = td_jobfile_memory(value, &n, err)))
			return td_wrap(err, "job.general: %.60s", line);
		td_jm_int(m->d, m->o, "memoryMiB", n);
	} else if (!strcmp(key, "time")) {
		if ((r = td_jobfile_minutes(value, &n, err)))
			return td_wrap(err, "job.general: %.60s", line);
		td_jm_int(m->d, m->o, "minutes", n);
	} else if (!strcmp(key, "ntasks-per-node")) {
		if (!td_parse_i64(value, &n) || n < 1)
			return wrong(m, line, "job.general: give a number, 1 or more", err);
		td_jm_int(m->d, m->o, "tasksPerNode", n);
	} else if (!strcmp(key, "output") || !strcmp(key, "error")) {
		td_strv_addf(notes,
			     "job.general %.80s: the log is at slurm_log/slurm-JOB.out, and `tandem logs` shows it",
			     line);
	} else {
		return wrong(m, line, "job.general: this option is not known here", err);
	}
	return 0;
}

int td_jobfile_tuxiv(const char *text, size_t len, const char *name, yyjson_mut_doc **ret, struct td_strv *notes,
		     struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = parse(text, len, &j, err);
	if (r)
		return r;
	yyjson_val *root = td_json_root(j), *v;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto_free char *fit = td_jobfile_name(td_jstr_or(root, "job.name", name));
	td_jm_str(d, yyjson_mut_doc_get_root(d), "name", fit);
	struct job_step m = {d, yyjson_mut_arr_add_obj(d, td_jm_arr(d, yyjson_mut_doc_get_root(d), "steps")), ""};
	td_jm_str(d, m.o, "name", "main");

	if ((r = lines(&m, "entrypoint", td_jget(root, "entrypoint"), err)))
		return r;
	size_t i, n;
	yyjson_arr_foreach (td_jget(root, "job.general"), i, n, v) {
		td_auto_free char *s = scalar(v);
		if ((r = general(&m, s ? s : "", notes, err)))
			return r;
	}
	if ((r = td_jobenv_tuxiv(td_jget(root, "environment"), d, err)))
		return r;
	if (td_jget(root, "datasets") && (r = td_jobdata_tuxiv(td_jget(root, "datasets"), d, err)))
		return r;
	*ret = td_steal(d);
	return 0;
}
