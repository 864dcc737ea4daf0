// tandem upgrade: upgrades of many nodes, each by a NodeAction of its own (docs/upgrade.md).
#include "cli/nodeview.h"

#include "base/clock.h"
#include "base/term.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct upgrade_request {
	struct td_remote remote;
	const char *nodes, *selector, *program, *most, *on_failure, *rollback_program, *reason, *output, *signal,
		*image, *cluster;
	bool reboot, rollback_reboot, no_test, paused, wait, rollback;
	int jobs_s, deadline_s, grace_s;
};

static int failed(const struct td_error *err)
{
	fprintf(stderr, "tandem upgrade: %s\n", err->msg);
	return 1;
}

static void print_json(const yyjson_val *v)
{
	td_auto_free char *text = td_json_pretty(v);
	puts(text);
}

static int get(struct td_kube *k, const char *name, struct td_object **ret, struct td_error *err)
{
	int r = td_kube_get(k, &td_nodeupgrades, NULL, name, NULL, ret, err);
	return r == TD_NOT_FOUND ? td_fail(err, r, "there is no upgrade \"%s\": `tandem upgrade list` lists them", name)
				 : r;
}

// ---- what is ----

static const char *age(const char *since, char *buf, size_t n)
{
	int64_t ms;
	if (!since || td_time_parse(since, &ms))
		return "-";
	return td_time_age(td_real_ms(&td_clock_system) - ms, buf, n);
}

static int list(const struct upgrade_request *q)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_nodeview struct td_nodeview v = {0};
	td_auto_objects struct td_objects l = {0};
	int r = td_cli_nodes_open(&q->remote, &v, &err);
	if (r || (r = td_kube_list(v.kube, &td_nodeupgrades, NULL, NULL, NULL, NULL, &l, &err)))
		return failed(&err);
	if (q->output) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *a = td_jm_arr(d, root, "upgrades");
		for (size_t i = 0; i < l.n; i++)
			yyjson_mut_arr_append(a, yyjson_val_mut_copy(d, l.v[i]->root));
		td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
		print_json(td_json_root(j));
		return 0;
	}
	if (!l.n) {
		puts("There are no upgrades. `tandem help upgrade` says how one is started.");
		return 0;
	}
	printf("%-24s %-12s %9s %8s %7s %6s\n", "UPGRADE", "PHASE", "UPGRADED", "AT WORK", "FAILED", "AGE");
	for (size_t i = 0; i < l.n; i++) {
		char buf[16];
		yyjson_val *s = td_jget(l.v[i]->root, "status");
		td_auto_free char *done = td_asprintf("%lld of %lld", (long long)td_jint(s, "nodesUpgraded", 0),
						      (long long)td_jint(s, "nodesTotal", 0));
		printf("%-24.40s %-12s %9s %8lld %7lld %6s\n", l.v[i]->name, td_jstr_or(s, "phase", "Pending"), done,
		       (long long)td_jint(s, "nodesAtWork", 0), (long long)td_jint(s, "nodesFailed", 0),
		       age(td_jstr(l.v[i]->root, "metadata.creationTimestamp"), buf, sizeof(buf)));
	}
	return 0;
}

static void show(const struct td_object *o)
{
	yyjson_val *s = td_jget(o->root, "status"), *what = td_jget(o->root, "spec.what"), *x;
	const char *program = td_jstr(what, "program"), *why = td_jstr(o->root, "spec.reason");
	size_t i, n;
	printf("Upgrade   %s, asked for by %s\n", o->name, td_jstr_or(o->root, "spec.requestedBy", "?"));
	if (td_jstr(what, "slurmImage"))
		printf("What      Slurm of %s, from %s to %s\n", td_jstr_or(s, "slurm.cluster", "the SlurmCluster"),
		       td_jstr_or(s, "slurm.imageBefore", "?"), td_jstr(what, "slurmImage"));
	else
		printf("What      %s%s%s\n", program ? program : "",
		       program && td_jbool(what, "reboot", false) ? ", then " : "",
		       td_jbool(what, "reboot", false) ? "a reboot" : "");
	if (why)
		printf("Why       %s\n", why);
	printf("Phase     %s\n", td_jstr_or(s, "phase", "Pending"));
	if (td_jstr(s, "message"))
		printf("          %s\n", td_jstr(s, "message"));
	if (td_jbool(o->root, "spec.paused", false) && !td_jstr(s, "finishedAt"))
		printf("          It is paused: tandem upgrade resume %s\n", o->name);
	if (!yyjson_arr_size(td_jget(s, "nodes")))
		return;
	printf("\n%-16s %-15s %6s  %s\n", "NODE", "PHASE", "SINCE", "MESSAGE");
	yyjson_arr_foreach (td_jget(s, "nodes"), i, n, x) {
		static const char *const times[] = {"rollbackFinishedAt", "rollbackStartedAt", "finishedAt",
						    "startedAt"};
		const char *at = NULL;
		char buf[16];
		for (size_t k = 0; !at && k < TD_LEN(times); k++)
			at = td_jstr(x, times[k]);
		printf("%-16.40s %-15s %6s  %.120s\n", td_jstr_or(x, "name", "?"), td_jstr_or(x, "phase", "?"),
		       age(at, buf, sizeof(buf)), td_jstr_or(x, "message", "-"));
	}
}

static int status(const struct upgrade_request *q, const char *name)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_nodeview struct td_nodeview v = {0};
	td_auto(td_object_unref) struct td_object *o = NULL;
	if (td_cli_nodes_open(&q->remote, &v, &err) || get(v.kube, name, &o, &err))
		return failed(&err);
	if (q->output)
		print_json(o->root);
	else
		show(o);
	return 0;
}

// Waits until it has ended, and tells on the way how far it is.
static int follow(const struct upgrade_request *q, struct td_kube *k, const char *name)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *said = td_strdup("");
	for (;;) {
		td_auto(td_object_unref) struct td_object *o = NULL;
		int r = get(k, name, &o, &err);
		if (r && r != TD_TRANSIENT)
			return failed(&err);
		const char *phase = o ? td_jstr_or(o->root, "status.phase", "Pending") : "";
		td_auto_free char *now =
			td_asprintf("%s%s%s", phase, o && td_jstr(o->root, "status.message") ? ": " : "",
				    o ? td_jstr_or(o->root, "status.message", "") : "");
		if (o && !q->output && strcmp(now, said) != 0) {
			puts(now);
			fflush(stdout);
			free(said);
			said = td_steal(now);
		}
		if (o && td_jstr(o->root, "status.finishedAt")) {
			if (q->output)
				print_json(o->root);
			return td_streq(phase, "Succeeded") ? 0 : 1;
		}
		nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL); // between two looks
	}
}

// ---- what is to be ----

// "a=b,c=d" into an object. TD_INVALID: another text.
static int labels(const char *text, yyjson_mut_doc *d, yyjson_mut_val *o, struct td_error *err)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, text, ',');
	for (size_t i = 0; i < l.n; i++) {
		char *eq = strchr(l.v[i], '=');
		if (!eq || eq == l.v[i])
			return td_fail(err, TD_INVALID, "--selector \"%s\": give labels as KEY=VALUE,…", text);
		*eq = '\0';
		td_jm_key_str(d, o, l.v[i], eq + 1);
	}
	return 0;
}

// The number of --max-unavailable, or its share. TD_INVALID: neither.
static int at_most(const char *text, yyjson_mut_doc *d, yyjson_mut_val *spec, struct td_error *err)
{
	td_auto_free char *number = td_strdup(text);
	size_t n = strlen(number);
	long long v;
	bool share = n && number[n - 1] == '%';
	if (share)
		number[n - 1] = '\0';
	if (!td_parse_i64(number, &v) || v < 1 || v > (share ? 100 : 99999))
		return td_fail(err, TD_INVALID,
			       "--max-unavailable \"%s\": give a number of nodes, or a share from 1%% to 100%%", text);
	if (share)
		td_jm_str(d, spec, "maxUnavailable", text);
	else
		td_jm_int(d, spec, "maxUnavailable", v);
	return 0;
}

// "NAMESPACE/NAME". TD_INVALID: another text.
static int slurm_cluster(const char *text, yyjson_mut_doc *d, yyjson_mut_val *spec, struct td_error *err)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, text, '/');
	if (l.n != 2 || !*l.v[0] || !*l.v[1])
		return td_fail(err, TD_INVALID, "--slurm-cluster \"%s\": give its NAMESPACE/NAME", text);
	td_jm_str(d, spec, "what.slurmCluster.namespace", l.v[0]);
	td_jm_str(d, spec, "what.slurmCluster.name", l.v[1]);
	return 0;
}

static int spec_of(const struct upgrade_request *q, yyjson_mut_doc *d, yyjson_mut_val *spec, struct td_error *err)
{
	int r = 0;
	td_auto_strv struct td_strv names = {0};
	td_strv_split(&names, q->nodes ? q->nodes : "", ',');
	for (size_t i = 0; i < names.n; i++)
		yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, spec, "nodes"), names.v[i]);
	if (q->selector)
		r = labels(q->selector, d, td_jm_obj(d, spec, "selector"), err);
	td_jm_obj(d, spec, "what");
	td_jm_str(d, spec, "what.program", q->program);
	td_jm_str(d, spec, "what.slurmImage", q->image);
	if (q->image && !q->nodes && !q->selector)
		td_jm_obj(d, spec, "selector"); // every node
	if (!r && q->cluster)
		r = slurm_cluster(q->cluster, d, spec, err);
	if (q->reboot)
		td_jm_bool(d, spec, "what.reboot", true);
	if (!r && q->most)
		r = at_most(q->most, d, spec, err);
	if (q->rollback_program || q->rollback_reboot)
		td_jm_obj(d, spec, "rollback");
	td_jm_str(d, spec, "rollback.program", q->rollback_program);
	if (q->rollback_reboot)
		td_jm_bool(d, spec, "rollback.reboot", true);
	td_jm_str(d, spec, "onFailure", q->on_failure);
	td_jm_str(d, spec, "reason", q->reason);
	td_jm_strf(d, spec, "requestedBy", "%.120s", td_cli_me());
	if (q->jobs_s >= 0)
		td_jm_int(d, spec, "jobsEndAfterSeconds", q->jobs_s);
	if (q->grace_s) {
		td_jm_str(d, spec, "checkpoint.signal", q->signal ? q->signal : "USR1");
		td_jm_int(d, spec, "checkpoint.graceSeconds", q->grace_s);
	}
	if (q->deadline_s)
		td_jm_int(d, spec, "deadlineSeconds", q->deadline_s);
	if (q->no_test)
		td_jm_bool(d, spec, "test", false);
	if (q->paused)
		td_jm_bool(d, spec, "paused", true);
	return r;
}

static int start(const struct upgrade_request *q, const char *name)
{
	struct td_error err = TD_ERROR_INIT;
	if (q->image && (q->program || q->reboot))
		return td_command_wrong("upgrade",
					"start: --slurm-image goes alone: make another upgrade for --program or "
					"--reboot");
	if (q->cluster && !q->image)
		return td_command_wrong("upgrade", "start: --slurm-cluster goes with --slurm-image");
	if (q->nodes ? !!q->selector : !q->selector && !q->image)
		return td_command_wrong("upgrade", "start: give --nodes NAME,… or --selector KEY=VALUE,…");
	if (!q->program && !q->reboot && !q->image)
		return td_command_wrong(
			"upgrade",
			"start: what is to be done? Give --program NAME, or --reboot, or both, or --slurm-image "
			"IMAGE");
	if (td_streq(q->on_failure, "rollback") && !q->rollback_program && !q->rollback_reboot && !q->image)
		return td_command_wrong("upgrade", "start: --on-failure rollback needs --rollback-program NAME, or "
						   "--rollback-reboot, or both");
	if (q->signal && !q->grace_s)
		return td_command_wrong("upgrade",
					"start: --signal needs --grace TIME, after which the jobs are ended");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, root, "kind", "NodeUpgrade");
	td_jm_str(d, root, "metadata.name", name);
	if (spec_of(q, d, td_jm_obj(d, root, "spec"), &err))
		return td_command_wrong("upgrade", "%s", err.msg);

	td_auto_nodeview struct td_nodeview v = {0};
	td_auto(td_object_unref) struct td_object *made = NULL;
	int r = td_cli_nodes_open(&q->remote, &v, &err);
	td_auto_strv struct td_strv names = {0};
	td_strv_split(&names, q->nodes ? q->nodes : "", ',');
	// Said at once instead of in the object's status.
	for (size_t i = 0; !r && i < names.n; i++) {
		r = td_kube_get(v.kube, &td_nodes, NULL, names.v[i], NULL, NULL, &err);
		if (r == TD_NOT_FOUND)
			td_fail(&err, r, "--nodes: there is no node \"%s\": `tandem nodes` lists them", names.v[i]);
	}
	if (!r)
		td_cli_made_by(v.kube, d, root);
	if (!r)
		r = td_kube_create(v.kube, &td_nodeupgrades, NULL, root, NULL, &made, &err);
	if (r)
		return failed(&err);
	if (!q->output)
		printf("NodeUpgrade %s. `tandem upgrade status %s` tells how it goes.\n", name, name);
	else if (!q->wait)
		print_json(made->root);
	fflush(stdout);
	return q->wait ? follow(q, v.kube, name) : 0;
}

// Changes a field of the spec of one that runs.
static int change(const struct upgrade_request *q, const char *name, const char *field, const char *text)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_nodeview struct td_nodeview v = {0};
	td_auto(td_object_unref) struct td_object *o = NULL, *got = NULL;
	if (td_cli_nodes_open(&q->remote, &v, &err) || get(v.kube, name, &o, &err))
		return failed(&err);
	if (td_jstr(o->root, "status.finishedAt")) {
		td_fail(&err, TD_INVALID, "upgrade %s has ended: %s", name, td_jstr_or(o->root, "status.phase", "?"));
		return failed(&err);
	}
	yyjson_val *back = td_jget(o->root, "spec.rollback");
	if (td_streq(text, "rollback") && !td_jstr(back, "program") && !td_jbool(back, "reboot", false) &&
	    !td_jstr(o->root, "spec.what.slurmImage")) {
		td_fail(&err, TD_INVALID,
			"upgrade %s has no spec.rollback, so it cannot be rolled back: abort it without --rollback",
			name);
		return failed(&err);
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *spec = td_jm_obj(d, root, "spec");
	td_jm_str(d, root, "metadata.uid", o->uid);
	if (!strcmp(field, "paused"))
		td_jm_bool(d, spec, field, text != NULL);
	else
		td_jm_str(d, spec, field, text);
	if (td_kube_patch(v.kube, TD_AT(&td_nodeupgrades, NULL, name), TD_PATCH_MERGE, root, NULL, &got, &err))
		return failed(&err);
	if (q->output && !q->wait)
		print_json(got->root);
	return q->wait ? follow(q, v.kube, name) : 0;
}

int td_upgrade_main(int argc, char **argv)
{
	struct upgrade_request q = {.jobs_s = -1};
	char **words;
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		{.name = "nodes",
		 .value = "NAME,…",
		 TD_OPT_TEXT(&q.nodes),
		 .help = "of start: the nodes, in their order"},
		{.name = "selector",
		 .letter = 'l',
		 .value = "KEY=VALUE,…",
		 TD_OPT_TEXT(&q.selector),
		 .help = "of start: nodes with these labels, instead of --nodes"},
		{.name = "program",
		 .value = "NAME",
		 TD_OPT_TEXT(&q.program),
		 .help = "the site's program that upgrades a node; it is in the agent's directory of actions"},
		{.name = "reboot", TD_OPT_SWITCH(&q.reboot), .help = "reboot each node, after the program"},
		{.name = "slurm-image",
		 .value = "IMAGE",
		 TD_OPT_TEXT(&q.image),
		 .help = "upgrade Slurm to this image: its daemons, then slurmd on the nodes (default: all)"},
		{.name = "slurm-cluster",
		 .value = "NAMESPACE/NAME",
		 TD_OPT_TEXT(&q.cluster),
		 .help = "of which SlurmCluster (default: the only one)"},
		{.name = "max-unavailable",
		 .value = "N|N%",
		 TD_OPT_TEXT(&q.most),
		 .help = "so many nodes at once (default 1)"},
		{.name = "end-jobs-after",
		 .value = "TIME",
		 .kind = TD_OPTION_SECONDS,
		 .to = &q.jobs_s,
		 .min = 0,
		 .max = 2592000,
		 .help = "then batch jobs are requeued and others cancelled (default: they are waited for)"},
		{.name = "grace",
		 .value = "TIME",
		 .kind = TD_OPTION_SECONDS,
		 .to = &q.grace_s,
		 .min = 1,
		 .max = 604800,
		 .help = "jobs get a signal so long before they are ended, to save themselves"},
		{.name = "signal",
		 .value = "NAME",
		 TD_OPT_TEXT(&q.signal),
		 .choices = "USR1|USR2|HUP|INT|TERM",
		 .help = "that signal (default USR1)"},
		{.name = "deadline",
		 .value = "TIME",
		 .kind = TD_OPTION_SECONDS,
		 .to = &q.deadline_s,
		 .min = 1,
		 .max = 31536000,
		 .help = "begin no more nodes then"},
		{.name = "no-test", TD_OPT_SWITCH(&q.no_test), .help = "return the nodes without a test"},
		{.name = "on-failure",
		 .value = "stop|rollback",
		 TD_OPT_TEXT(&q.on_failure),
		 .choices = "stop|rollback",
		 .help = "what follows when a node fails (default stop)"},
		{.name = "rollback-program",
		 .value = "NAME",
		 TD_OPT_TEXT(&q.rollback_program),
		 .help = "the site's program that undoes it"},
		{.name = "rollback-reboot",
		 TD_OPT_SWITCH(&q.rollback_reboot),
		 .help = "reboot a node that is rolled back"},
		{.name = "reason",
		 .value = "TEXT",
		 TD_OPT_TEXT(&q.reason),
		 .help = "why; it is in each node's history"},
		{.name = "paused", TD_OPT_SWITCH(&q.paused), .help = "of start: begin no node before `resume`"},
		{.name = "rollback", TD_OPT_SWITCH(&q.rollback), .help = "of abort: undo what was done, too"},
		{.name = "wait", TD_OPT_SWITCH(&q.wait), .help = "wait until it has ended, and fail when it fails"},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: the answer for machines",
		 TD_OPT_TEXT(&q.output),
		 .choices = "json"},
		TD_REMOTE_OPTIONS(&q.remote),
	};
	const struct td_command line = {
		.name = "upgrade",
		.about = "Upgrades nodes one after the other, under running work (NodeUpgrade):\n"
			 "  tandem upgrade start NAME    each node: drain, program, reboot, test, return\n"
			 "  tandem upgrade [list]        all upgrades\n"
			 "  tandem upgrade status NAME   one of them, with its nodes\n"
			 "  tandem upgrade pause NAME    begin no more nodes\n"
			 "  tandem upgrade resume NAME   go on\n"
			 "  tandem upgrade abort NAME    end it, or (--rollback) undo it",
		.options = options,
		.n = TD_LEN(options),
		.max_args = 2,
		.args = "ACTION [NAME]",
		.choices = "start|list|status|pause|resume|abort",
		.exits = "0 shown, begun or (--wait) done, 1 failed, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (td_remote_check(&q.remote, &err))
		return td_command_wrong("upgrade", "%s", err.msg);
	const char *act = words[0] ? words[0] : "list", *name = words[0] ? words[1] : NULL;
	if (q.wait && strcmp(act, "start") && strcmp(act, "resume") && strcmp(act, "abort"))
		return td_command_wrong("upgrade", "--wait goes with start, resume and abort");
	if (!strcmp(act, "list") && !name)
		return list(&q);
	if (strcmp(act, "start") && strcmp(act, "status") && strcmp(act, "pause") && strcmp(act, "resume") &&
	    strcmp(act, "abort"))
		return td_command_wrong("upgrade",
					"\"%s\" is no action: give start, list, status, pause, resume or abort", act);
	if (!name)
		return td_command_wrong("upgrade", "%s: which upgrade? Give its NAME", act);
	if (!strcmp(act, "start"))
		return start(&q, name);
	if (!strcmp(act, "status"))
		return status(&q, name);
	if (!strcmp(act, "abort"))
		return change(&q, name, "abort", q.rollback ? "rollback" : "stop");
	return change(&q, name, "paused", !strcmp(act, "pause") ? "yes" : NULL);
}
