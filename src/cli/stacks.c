// tandem stacks: where the processes of a job or a pod stand, now: of each thread what the kernel says, and of Python the
// functions, where py-spy is there. Of a job by a step of it, as its user (programs/stacks-job.sh), of a pod by kubectl exec: what
// these refuse, nobody is shown.
#include "cli/stacks.h"

#include "api/status.h"
#include "base/embedded.h"
#include "base/proc.h"
#include "cli/loginpod.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct td_embedded td_cli_files[];

enum { STACKS_COLUMNS = 80, STACKS_MS = 90000, STACKS_FIELDS = 5 };

static size_t fields_of(char *line, char *v[STACKS_FIELDS])
{
	size_t n = 0;
	// What processes are called is their user's word: nothing of it may steer a terminal.
	for (char *p = line; *p; p++)
		if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
			*p = '?';
		else if ((unsigned char)*p == 0xc2 && (unsigned char)p[1] < 0xa0) // as some terminals know them, too
			p[0] = p[1] = '?';
	for (char *p = line; p && n < STACKS_FIELDS;) {
		v[n++] = p;
		p = n < STACKS_FIELDS ? strchr(p, '\t') : NULL;
		if (p)
			*p++ = '\0';
	}
	return n;
}

void td_cli_stacks_read(const char *text, long long rank, yyjson_mut_doc *d, yyjson_mut_val *root, struct td_buf *other)
{
	yyjson_mut_val *list = td_jm_arr(d, root, "processes"), *notes = td_jm_arr(d, root, "notes"), *of = NULL;
	td_auto_free char *copy = td_text_clean(text); // a command is cut, perhaps within a letter
	char *save = NULL, *v[STACKS_FIELDS];
	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		size_t n = fields_of(line, v);
		if (n == 5 && !strcmp(v[0], "P")) {
			long long has = -1;
			bool known = td_parse_i64(v[2], &has);
			of = rank >= 0 && (!known || has != rank) ? NULL : yyjson_mut_arr_add_obj(d, list);
			if (!of)
				continue;
			td_jm_str(d, of, "node", v[1]);
			if (known)
				td_jm_int(d, of, "rank", has);
			td_jm_int(d, of, "pid", strtoll(v[3], NULL, 10));
			td_jm_str(d, of, "command", v[4]);
			td_jm_arr(d, of, "threads");
		} else if (n == 5 && !strcmp(v[0], "T")) {
			yyjson_mut_val *t = of ? yyjson_mut_arr_add_obj(d, td_jm_arr(d, of, "threads")) : NULL;
			if (!t)
				continue;
			td_jm_int(d, t, "count", strtoll(v[1], NULL, 10));
			td_jm_str(d, t, "state", v[2]);
			td_jm_str(d, t, "kernel", strcmp(v[3], "0") ? v[3] : NULL); // it runs, or may not be seen
			td_jm_str(d, t, "name", v[4]);
		} else if (n >= 2 && !strcmp(v[0], "F")) {
			if (of)
				yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, of, "functions"), v[1]);
		} else if (n == 3 && !strcmp(v[0], "N")) {
			td_auto_free char *note = td_asprintf("%s: %s", v[1], v[2]);
			yyjson_mut_arr_add_strcpy(d, notes, note);
		} else if (strncmp(v[0], "command terminated with exit code", strlen("command terminated"))) {
			td_buf_printf(other, "%s%s", other->len ? "\n" : "", line);
		}
	}
}

static void say(const char *line)
{
	// A character is cut whole.
	size_t n = 0, columns = 0;
	for (; line[n] && columns < STACKS_COLUMNS; columns++)
		for (n++; ((unsigned char)line[n] & 0xc0) == 0x80; n++)
			;
	printf("%.*s\n", (int)n, line);
}

void td_cli_stacks_print(yyjson_val *root)
{
	yyjson_val *p, *t;
	size_t i, n, k, m;
	yyjson_arr_foreach (td_jget(root, "processes"), i, n, p) {
		td_auto_free char *rank = td_jget(p, "rank") ? td_asprintf(" rank %lld", td_jint(p, "rank", 0)) : NULL;
		td_auto_free char *head = td_asprintf("%s%s  %lld  %s", td_jstr_or(p, "node", "?"), rank ? rank : "",
						      td_jint(p, "pid", 0), td_jstr_or(p, "command", "?"));
		say(head);
		yyjson_arr_foreach (td_jget(p, "threads"), k, m, t) {
			long long count = td_jint(t, "count", 1);
			td_auto_free char *more = count > 1 ? td_asprintf(" (%lld threads)", count) : td_strdup("");
			td_auto_free char *line =
				td_asprintf("    %s %s%s%s%s", td_jstr_or(t, "name", "?"), td_jstr_or(t, "state", "?"),
					    td_jstr(t, "kernel") ? " in " : "", td_jstr_or(t, "kernel", ""), more);
			say(line);
		}
		yyjson_arr_foreach (td_jget(p, "functions"), k, m, t) {
			td_auto_free char *line = td_asprintf("      %s", yyjson_is_str(t) ? yyjson_get_str(t) : "");
			say(line);
		}
	}
	yyjson_arr_foreach (td_jget(root, "notes"), i, n, t)
		fprintf(stderr, "note: %s\n", yyjson_is_str(t) ? yyjson_get_str(t) : "");
}

struct stacks_ask {
	struct td_remote remote;
	const char *what, *user, *ns, *container;
};

static void job_argv(const struct td_cli_login *l, const struct stacks_ask *q, struct td_strv *a)
{
	const char *const program[] = {"sh", "-c",    td_embedded(td_cli_files, "stacks-job.sh")->text,
				       "sh", q->what, td_embedded(td_cli_files, "stacks.sh")->text};
	td_cli_login_as(l, NULL, q->user, a);
	for (size_t n = 0; n < TD_LEN(program); n++)
		td_strv_add(a, program[n]);
}

// Fills l, which is empty.
static int pod_argv(struct td_cli_login *l, const struct stacks_ask *q, struct td_strv *a)
{
	struct td_error err = TD_ERROR_INIT;
	const char *slash = strchr(q->what, '/');
	if (!q->remote.kubeconfig && td_instance_load(&l->instance, &err)) {
		fprintf(stderr, "tandem stacks: %s\n", err.msg);
		return err.code;
	}
	l->ns = slash ? td_strndup(q->what, (size_t)(slash - q->what)) : td_strdup(q->ns);
	l->conf =
		q->remote.kubeconfig ? td_strdup(q->remote.kubeconfig) : td_instance_kubeconfig(&l->instance, "admin");
	td_auto_free char *container = q->container ? td_asprintf("--container=%s", q->container) : NULL;
	const char *const program[] = {"sh", "-c", td_embedded(td_cli_files, "stacks.sh")->text, "sh", ""};
	td_cli_login_beside(l, slash ? slash + 1 : q->what, container, a);
	for (size_t n = 0; n < TD_LEN(program); n++)
		td_strv_add(a, program[n]);
	return 0;
}

int td_stacks_main(int argc, char **argv)
{
	struct stacks_ask q = {.user = "", .ns = "default"};
	const char *output = NULL;
	struct td_error err = TD_ERROR_INIT;
	int rank = -1, code;
	char **words;
	const struct td_option options[] = {
		{.name = "rank", .value = "N", .help = "of this rank only", TD_OPT_INT(&rank, 0, 1000000)},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: the same for programs",
		 TD_OPT_TEXT(&output),
		 .choices = "json"},
		{.name = "user",
		 .letter = 'u',
		 .value = "NAME",
		 .help = "of a job: who asks, as in `tandem shell`",
		 TD_OPT_TEXT(&q.user)},
		{.name = "namespace",
		 .letter = 'n',
		 .value = "NS",
		 .help = "of a pod (default: default)",
		 TD_OPT_TEXT(&q.ns)},
		{.name = "container",
		 .letter = 'c',
		 .value = "NAME",
		 .help = "of a pod (default: its first one)",
		 TD_OPT_TEXT(&q.container)},
		TD_REMOTE_OPTIONS(&q.remote),
	};
	const struct td_command line = {
		.name = "stacks",
		.about = "Shows where the processes of a job of yours, or of a pod, stand now: of each\n"
			 "thread its state and the function of the kernel that it waits in, and the\n"
			 "functions of Python where py-spy is there. It reads, and stops nobody.",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = 1,
		.args = "JOB|POD",
		.exits = "0 shown, 1 no answer, or there is none such, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (td_remote_check(&q.remote, &err))
		return td_command_wrong("stacks", "%s", err.msg);
	q.what = words[0];
	size_t digits = strspn(q.what, "0123456789");
	bool job = digits && strspn(q.what + digits, "_0123456789") == strlen(q.what + digits);
	if (!job && (q.what[0] == '-' || strspn(q.what, "abcdefghijklmnopqrstuvwxyz0123456789.-/") != strlen(q.what)))
		return td_command_wrong(
			"stacks", "\"%s\" is neither a job, such as 12 or 12_3, nor a pod, NAME or NAMESPACE/NAME",
			q.what);
	td_auto_login struct td_cli_login l = {0};
	td_auto_strv struct td_strv a = {0};
	if (job ? td_cli_login_open("stacks", &q.remote, &l) : pod_argv(&l, &q, &a))
		return 1;
	if (job)
		job_argv(&l, &q, &a);

	td_auto_buf struct td_buf said = {0}, other = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	int status = 0;
	if (td_run(a.v, NULL, STACKS_MS, NULL, &status, &said, &err)) {
		fprintf(stderr, "tandem stacks: %s\n", err.msg);
		return 1;
	}
	td_cli_stacks_read(td_buf_str(&said), rank, d, root, &other);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
	size_t n = yyjson_arr_size(td_jget(td_json_root(j), "processes"));
	if (n && output) {
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
	} else if (n) {
		td_cli_stacks_print(td_json_root(j));
	}
	if (other.len)
		fprintf(stderr, "tandem stacks: %s\n", td_buf_str(&other));
	else if (!n && rank >= 0 && !status)
		fprintf(stderr, "tandem stacks: no process of %s says that it is rank %d\n", q.what, rank);
	else if (!n)
		fprintf(stderr, "tandem stacks: no process of %s is there\n", q.what);
	return n && !status ? 0 : 1;
}
