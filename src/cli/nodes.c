// tandem nodes: every node with its health, who works on it and what comes next. tandem history: what
// was done on a node.
#include "cli/acts.h"
#include "cli/nodeview.h"

#include "base/clock.h"
#include "base/names.h"
#include "base/term.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS = 80 };

static int failed(const char *cmd, const struct td_error *err)
{
	fprintf(stderr, "tandem %s: %s\n", cmd, err->msg);
	return 1;
}

static void print_json(yyjson_mut_val *root)
{
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
	td_auto_free char *text = td_json_pretty(td_json_root(j));
	puts(text);
}

// Prints text at a column; what does not fit goes on below it, cut between words.
static void wrap(const char *text, int at)
{
	int room = COLUMNS - at - 1;
	while (*text) {
		size_t n = strlen(text);
		if (n > (size_t)room) {
			n = (size_t)room;
			while (n > 1 && text[n] != ' ')
				n--;
			if (n <= 1)
				n = (size_t)room;
		}
		printf("%.*s\n", (int)n, text);
		text += n;
		while (*text == ' ')
			text++;
		if (*text)
			printf("%*s", at, "");
	}
}

static void row(yyjson_val *x, bool color)
{
	bool in = td_jbool(x, "inService", false);
	const char *person = td_jstr(x, "needsPerson"), *hold = td_jstr(x, "hold"), *step = td_jstr(x, "step"),
		   *next = td_jstr(x, "next");
	char age[16] = "-";
	int64_t ms;
	if (!td_time_parse(td_jstr_or(x, "since", ""), &ms))
		td_time_age(td_real_ms(&td_clock_system) - ms, age, sizeof(age));
	const char *slurm = td_jstr_or(x, "slurmState", "");
	const char *state = person                            ? "needs a person"
			    : step                            ? step
			    : hold                            ? "out of service"
			    : in && td_starts(slurm, "power") ? slurm
			    : in                              ? "in service"
			    : td_jbool(x, "ready", false)     ? "cordoned"
							      : "not ready";
	printf("%-14.14s %s%-15s%s %5s  ", td_jstr_or(x, "name", "?"),
	       td_term_color(color, person || !td_jbool(x, "ready", false) ? TD_TERM_BAD
				    : in                                   ? TD_TERM_GOOD
									   : TD_TERM_WARN),
	       state, td_term_color(color, TD_TERM_PLAIN), age);
	td_auto_buf struct td_buf b = {0};
	if (person)
		td_buf_puts(&b, person);
	else if (hold)
		td_buf_printf(&b, "%s%s%s", hold, next ? "; " : "", next ? next : "");
	else if (yyjson_arr_size(td_jget(x, "faults")))
		td_buf_puts(&b, td_jstr_or(td_jget(x, "faults.[0]"), "message", ""));
	else if (td_jstr(x, "devicesHeld"))
		td_buf_printf(&b, "%s out of service; the other devices work", td_jstr(x, "devicesHeld"));
	else if (in && td_jget(x, "shadow.twice"))
		td_buf_printf(
			&b,
			"%s CPUs and %s are given twice: to pods of other schedulers and to jobs; nothing new starts",
			td_jstr_or(x, "shadow.twice.cpu", "?"), td_jstr_or(x, "shadow.twice.memory", "?"));
	else if (in && td_jstr(x, "shadow.devices"))
		td_buf_printf(&b, "%s and %s CPUs and %s beyond spec.reserve are pods' of other schedulers",
			      td_jstr(x, "shadow.devices"), td_jstr_or(x, "shadow.cpu", "?"),
			      td_jstr_or(x, "shadow.memory", "?"));
	else if (in && !td_streq(td_jstr_or(x, "shadow.cpu", "0"), "0"))
		td_buf_printf(&b, "%s CPUs and %s beyond spec.reserve are pods' of other schedulers",
			      td_jstr(x, "shadow.cpu"), td_jstr_or(x, "shadow.memory", "?"));
	else if (in && td_streq(slurm, "powered down"))
		td_buf_puts(&b, "comes on demand: when Slurm gives it to a job");
	else if (in && td_streq(slurm, "powering up"))
		td_buf_puts(&b, "a job waits for its slurmd");
	else if (td_jstr(x, "image"))
		td_buf_printf(&b, "image %s", td_jstr(x, "image"));
	else
		td_buf_putc(&b, '-');
	wrap(td_buf_str(&b), 38);
}

int td_nodes_main(int argc, char **argv)
{
	struct td_remote remote = {0};
	const char *output = NULL;
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: the answer for machines",
		 TD_OPT_TEXT(&output),
		 .choices = "json"},
		TD_REMOTE_OPTIONS(&remote),
	};
	const struct td_command line = {.name = "nodes",
					.about = "Lists the nodes: which are in service, what is wrong with the others "
						 "since when, who works on\nthem and what comes next.",
					.options = options,
					.n = TD_LEN(options),
					.exits = "0 listed, 1 no answer, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	if (td_remote_check(&remote, &err))
		return td_command_wrong("nodes", "%s", err.msg);
	td_auto_nodeview struct td_nodeview v = {0};
	if (td_cli_nodes_open(&remote, &v, &err) || td_cli_nodes_list(&v, NULL, &err))
		return failed("nodes", &err);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "nodes");
	for (size_t i = 0; i < v.nodes.n; i++)
		td_cli_nodes_view(&v, v.nodes.v[i], d, list);
	if (output) {
		print_json(root);
		return 0;
	}
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
	yyjson_val *x;
	size_t i, n;
	printf("%-14s %-15s %5s  %s\n", "NODE", "STATE", "SINCE", "WHY, AND WHAT COMES NEXT");
	yyjson_arr_foreach (td_jget(td_json_root(j), "nodes"), i, n, x)
		row(x, td_term_colors(1));
	return 0;
}

int td_history_main(int argc, char **argv)
{
	struct td_remote remote = {0};
	const char *output = NULL;
	char **words;
	struct td_error err = TD_ERROR_INIT;
	int code;
	bool slurm = false;
	struct td_cli_acts acts = {.days = 30};
	const struct td_option options[] = {
		{.name = "slurm",
		 .help = "what people did on Slurm's side instead: sacctmgr, nodes that\nwere drained or set down, "
			 "jobs of "
			 "others that were cancelled;\nwithout NODE: everywhere",
		 TD_OPT_SWITCH(&slurm)},
		{.name = "days",
		 .value = "N",
		 .help = "with --slurm: of so many days (default 30)",
		 TD_OPT_INT(&acts.days, 1, 3650)},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: one record a line, the oldest first, for machines and archives",
		 TD_OPT_TEXT(&output),
		 .choices = "json"},
		TD_REMOTE_OPTIONS(&remote),
	};
	const struct td_command line = {.name = "history",
					.about = "Tells what was done on a node, by whom, why and how it ended: its "
						 "NodeActions, which are\nkept for at least 90 days.",
					.options = options,
					.n = TD_LEN(options),
					.max_args = 1,
					.args = "NODE",
					.exits = "0 told, 1 no answer, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (td_remote_check(&remote, &err))
		return td_command_wrong("history", "%s", err.msg);
	if (slurm) {
		acts.node = words[0];
		acts.json = output != NULL;
		return td_cli_acts_show(&remote, &acts);
	}
	if (!words[0])
		return td_command_wrong("history", "of which NODE? `tandem nodes` lists them; or --slurm");
	td_auto_nodeview struct td_nodeview v = {0};
	// Records outlive their node.
	if (td_cli_nodes_open(&remote, &v, &err) ||
	    (td_cli_nodes_list(&v, words[0], &err) &&
	     (err.code != TD_NOT_FOUND || td_cli_nodes_records(&v, words[0], &err))))
		return failed("history", &err);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "actions");
	td_cli_nodes_history(&v, words[0], d, list);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(list);
	yyjson_val *x;
	size_t i, n;
	if (!v.nodes.n && !yyjson_arr_size(td_json_root(j))) {
		td_fail(&err, TD_NOT_FOUND, "there is no node \"%s\", and no record of one", words[0]);
		return failed("history", &err);
	}
	const char *tests = v.nodes.n ? td_object_annotation(v.nodes.v[0], TD_ANN_TESTED_TOGETHER) : NULL;
	td_auto(td_json_unref) struct td_json *together = NULL;
	if (!output && tests && !td_json_parse(tests, strlen(tests), &together, NULL))
		td_cli_nodes_together(td_json_root(together), "Tested while idle: ");
	if (!output && !yyjson_arr_size(td_json_root(j)))
		printf("Nothing was done on node %s.\n", words[0]);
	yyjson_arr_foreach (td_json_root(j), i, n, x) {
		if (output) {
			td_auto_free char *text = td_json_text(x, NULL);
			puts(text);
		} else {
			td_cli_nodes_story(x);
		}
	}
	return 0;
}
