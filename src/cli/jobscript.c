// Scripts that were written for sbatch: their #SBATCH lines become the job that the gateway's API takes.
#include "cli/jobfile.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { TASKS_MOST = 1000 };

enum sbatch_kind {
	SBATCH_TEXT,   // field: a name, as it is
	SBATCH_NUMBER, // field: a whole number, 1 or more
	SBATCH_MEMORY,
	SBATCH_TIME,
	SBATCH_GRES,  // gpu:2, gpu:h100:2
	SBATCH_GPUS,  // 2, h100:2: of each node
	SBATCH_ALL,   // the same of the whole job
	SBATCH_ARRAY, // 0-9%2
	SBATCH_LOG,   // where the log is: it has a place here
	SBATCH_MAIL,  // a run mails nobody
	SBATCH_NONE,  // says nothing that matters here
};

static const struct sbatch_option {
	const char *name;
	char letter;
	enum sbatch_kind kind;
	const char *field;
	bool bare; // it has no value
} options[] = {
	{"job-name", 'J', SBATCH_TEXT, "name", false},
	{"partition", 'p', SBATCH_TEXT, "partition", false},
	{"account", 'A', SBATCH_TEXT, "account", false},
	{"qos", 'q', SBATCH_TEXT, "qos", false},
	{"constraint", 'C', SBATCH_TEXT, "constraint", false},
	{"reservation", 0, SBATCH_TEXT, "reservation", false},
	{"nodes", 'N', SBATCH_NUMBER, "nodes", false},
	{"ntasks", 'n', SBATCH_NUMBER, "tasks", false},
	{"ntasks-per-node", 0, SBATCH_NUMBER, "tasksPerNode", false},
	{"cpus-per-task", 'c', SBATCH_NUMBER, "cpus", false},
	{"mem", 0, SBATCH_MEMORY, "memoryMiB", false},
	{"mem-per-cpu", 0, SBATCH_MEMORY, "memoryPerCpuMiB", false},
	{"time", 't', SBATCH_TIME, "minutes", false},
	{"gres", 0, SBATCH_GRES, NULL, false},
	{"gpus-per-node", 0, SBATCH_GPUS, NULL, false},
	{"gpus", 'G', SBATCH_ALL, NULL, false},
	{"array", 'a', SBATCH_ARRAY, NULL, false},
	{"output", 'o', SBATCH_LOG, NULL, false},
	{"error", 'e', SBATCH_LOG, NULL, false},
	{"open-mode", 0, SBATCH_LOG, NULL, false},
	{"mail-type", 0, SBATCH_MAIL, NULL, false},
	{"mail-user", 0, SBATCH_MAIL, NULL, false},
	{"comment", 0, SBATCH_NONE, NULL, false},
	{"parsable", 0, SBATCH_NONE, NULL, true},
	{"verbose", 'v', SBATCH_NONE, NULL, true},
	{"quiet", 'Q', SBATCH_NONE, NULL, true},
};

struct sbatch_script {
	yyjson_mut_doc *d;
	yyjson_mut_val *step;
	long long all_gpus; // --gpus; 0: not given
	bool logs, mail;    // it says where its log shall be; who is to be told
};

// The words of a line, as sbatch reads them: quoted ones stay together, "#" begins a comment.
static void split(const char *line, size_t n, struct td_strv *ret)
{
	for (size_t i = 0; i < n;) {
		td_auto_buf struct td_buf b = {0};
		while (i < n && isspace((unsigned char)line[i]))
			i++;
		if (i == n || line[i] == '#')
			return;
		char quote = 0;
		for (; i < n && (quote || !isspace((unsigned char)line[i])); i++) {
			if (quote ? line[i] == quote : line[i] == '"' || line[i] == '\'')
				quote = quote ? 0 : line[i];
			else
				td_buf_putc(&b, line[i]);
		}
		td_strv_add(ret, td_buf_str(&b));
	}
}

static void set_gpus(struct sbatch_script *s, long long n, const char *type)
{
	td_jm_int(s->d, s->step, "gpus", n);
	td_jm_del(s->step, "gpuType");
	td_jm_str(s->d, s->step, "gpuType", type);
}

// Slurm counts an array's tasks itself, from 0 on here: $SLURM_ARRAY_TASK_ID and $TASK are the same.
static int array(struct sbatch_script *s, const char *v, struct td_error *err)
{
	unsigned last = 0, most = 0;
	int used = 0;
	size_t n = strlen(v);
	bool digits = strspn(v, "0123456789-%") == n && strchr(v, '-') == strrchr(v, '-'); // %u takes blanks and signs
	bool all = digits && sscanf(v, "0-%4u%n", &last, &used) == 1 && (size_t)used == n;
	bool some = digits && !all && sscanf(v, "0-%4u%%%4u%n", &last, &most, &used) == 2 && (size_t)used == n && most;
	if ((!all && !some) || last >= TASKS_MOST)
		return td_fail(err, TD_INVALID,
			       "\"%.40s\": give 0-N or 0-N%%M, N up to %d; or sbatch it on the login pod", v,
			       TASKS_MOST - 1);
	yyjson_mut_val *a = td_jm_arr(s->d, td_jm_obj(s->d, s->step, "matrix"), "TASK");
	yyjson_mut_arr_clear(a);
	for (unsigned i = 0; i <= last; i++) {
		td_auto_free char *word = td_asprintf("%u", i);
		yyjson_mut_arr_append(a, yyjson_mut_strcpy(s->d, word));
	}
	td_jm_del(s->step, "parallel");
	if (most)
		td_jm_int(s->d, s->step, "parallel", most);
	return 0;
}

static int take(struct sbatch_script *s, const struct sbatch_option *o, const char *v, struct td_error *err)
{
	td_auto_free char *type = NULL;
	long long n = 0;
	int r = 0;
	switch (o->kind) {
	case SBATCH_TEXT:
		if (!*v)
			return td_fail(err, TD_INVALID, "give a name");
		if (strcmp(o->field, "name") != 0) {
			td_jm_str(s->d, s->step, o->field, v);
			return 0;
		}
		type = td_jobfile_name(v);
		td_jm_str(s->d, yyjson_mut_doc_get_root(s->d), "name", type);
		return 0;
	case SBATCH_NUMBER:
		if (!td_parse_i64(v, &n) || n < 1 || n > 1000000)
			return td_fail(err, TD_INVALID, "\"%.40s\": give a number, 1 or more", v);
		td_jm_int(s->d, s->step, o->field, n);
		return 0;
	case SBATCH_MEMORY:
		if ((r = td_jobfile_memory(v, &n, err)))
			return r;
		td_jm_del(s->step, "memoryMiB"); // the last one counts
		td_jm_del(s->step, "memoryPerCpuMiB");
		td_jm_int(s->d, s->step, o->field, n);
		return 0;
	case SBATCH_TIME:
		if (!(r = td_jobfile_minutes(v, &n, err)))
			td_jm_int(s->d, s->step, o->field, n);
		return r;
	case SBATCH_GRES:
		if (strcmp(v, "gpu") != 0 && !td_starts(v, "gpu:"))
			return td_fail(err, TD_INVALID,
				       "\"%.40s\": give gpu:N or gpu:TYPE:N; or sbatch it on the login pod", v);
		v = v[3] ? v + 4 : "1";
		// fall through
	case SBATCH_GPUS:
	case SBATCH_ALL:
		if ((r = td_jobfile_gpus(v, &n, &type, err)))
			return r;
		s->all_gpus = o->kind == SBATCH_ALL ? n : 0;
		set_gpus(s, n, type);
		return 0;
	case SBATCH_ARRAY:
		return array(s, v, err);
	case SBATCH_LOG:
		s->logs = true;
		return 0;
	case SBATCH_MAIL:
		s->mail = true;
		return 0;
	case SBATCH_NONE:
		return 0;
	}
	return 0;
}

// The option that a word names. *ret_value: what stands in the same word; NULL: nothing.
static const struct sbatch_option *option(const char *word, const char **ret_value)
{
	*ret_value = NULL;
	for (size_t i = 0; i < TD_LEN(options); i++) {
		size_t len = strlen(options[i].name);
		if (td_starts(word, "--") && !strncmp(word + 2, options[i].name, len) &&
		    (!word[2 + len] || word[2 + len] == '=')) {
			*ret_value = word[2 + len] ? word + 3 + len : NULL;
			return &options[i];
		}
		if (options[i].letter && word[0] == '-' && word[1] == options[i].letter) {
			*ret_value = word[2] ? word + 2 + (word[2] == '=') : NULL;
			return &options[i];
		}
	}
	return NULL;
}

static int one_line(struct sbatch_script *s, const struct td_strv *words, struct td_error *err)
{
	for (size_t i = 0; i < words->n; i++) {
		const char *value;
		const struct sbatch_option *o = option(words->v[i], &value);
		if (!o)
			return td_fail(
				err, TD_INVALID,
				"%.60s: tandem submit does not take it from a script: leave it out, or sbatch the "
				"script on the login pod (tandem shell)",
				words->v[i]);
		if (o->bare && value && value[strspn(value, (char[]){o->letter, 0})])
			return td_fail(err, TD_INVALID, "%.60s: give --%s a word of its own, and no value", words->v[i],
				       o->name);
		if (!o->bare && !value) {
			if (i + 1 == words->n)
				return td_fail(err, TD_INVALID, "%s needs a value", words->v[i]);
			value = words->v[++i];
		}
		int r = take(s, o, value ? value : "", err);
		if (r)
			return td_wrap(err, "--%s", o->name);
	}
	return 0;
}

// What counts the whole job's GPUs, once the number of nodes is known.
static int spread(struct sbatch_script *s, struct td_error *err)
{
	long long nodes = yyjson_mut_get_sint(td_jm_get(s->step, "nodes"));
	nodes = nodes > 1 ? nodes : 1;
	if (s->all_gpus % nodes)
		return td_fail(err, TD_INVALID,
			       "--gpus: %lld do not spread evenly over %lld nodes: write --gpus-per-node", s->all_gpus,
			       nodes);
	if (s->all_gpus)
		td_jm_int(s->d, s->step, "gpus", s->all_gpus / nodes);
	return 0;
}

int td_jobfile_sbatch(const char *text, const char *name, const char *command, yyjson_mut_doc **ret,
		      struct td_strv *notes, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	struct sbatch_script s = {.d = d};
	td_jm_str(d, root, "name", name);
	s.step = yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, "steps"));
	td_jm_str(d, s.step, "name", "main");
	yyjson_mut_arr_append(td_jm_arr(d, s.step, "entrypoint"), yyjson_mut_strcpy(d, command));
	int at = 1;
	for (const char *line = text; *line; at++) {
		size_t n = strcspn(line, "\n"), blank = strspn(line, " \t\r");
		// Slurm reads no further than the first line that is no comment.
		if (blank < n && line[0] != '#')
			break;
		if (td_starts(line, "#SBATCH") && n > 7 && isspace((unsigned char)line[7])) {
			td_auto_strv struct td_strv words = {0};
			split(line + 7, n - 7, &words);
			int r = one_line(&s, &words, err);
			if (r)
				return td_wrap(err, "line %d", at);
		}
		line += n + (line[n] == '\n');
	}
	int r = spread(&s, err);
	if (r)
		return r;
	if (s.logs)
		td_strv_add(notes,
			    "the log lies in the run's slurm_log/, and `tandem logs` shows it, wherever --output and "
			    "--error point");
	if (s.mail)
		td_strv_add(notes, "--mail-type, --mail-user: no mail is sent; `tandem ps` says how it ended");
	*ret = td_steal(d);
	return 0;
}
