// tandem node: one node in full, or an act on it.
#include "cli/client.h"
#include "cli/machine.h"
#include "cli/node_host.h"
#include "cli/node_token.h"
#include "cli/nodeview.h"

#include "api/selector.h"
#include "base/clock.h"
#include "cmd/roles.h"
#include "pool/aside.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const acts[] = {"drain", "reset-gpu", "reboot", "run", "cut", "test", "return", "out", "in"};

struct node_request {
	struct td_remote remote;
	const char *reason, *device, *program, *output, *scope, *parts;
	int deadline_s, jobs_s, gpu;
	bool no_test, wait;
};

static void measured(const yyjson_val *t)
{
	static const char *const of[][3] = {{"gflops", "", " GFLOPS"},
					    {"memoryMBps", "memory ", " MB/s"},
					    {"diskWriteMBps", "disk ", " MB/s written"},
					    {"diskReadMBps", "", " read"}};
	const char *sep = "; ";
	if (!t)
		return;
	printf("Measured  at %s while it was idle: %s", td_jstr_or(t, "at", "?"), td_jstr_or(t, "result", "?"));
	if (td_jstr(t, "message"))
		printf(": %s", td_jstr(t, "message"));
	for (size_t i = 0; i < TD_LEN(of); i++) {
		yyjson_val *v = td_jget(t, of[i][0]);
		if (!yyjson_is_num(v))
			continue;
		printf("%s%s%.10g%s", sep, of[i][1], yyjson_get_num(v), of[i][2]);
		sep = i == 2 ? " and " : ", ";
	}
	putchar('\n');
}

// Which devices are out of service, and on what the others wait that shall be.
static void devices_out(yyjson_val *x)
{
	uint64_t want;
	td_pool_aside_both(td_jstr(x, "devicesOut"), td_jstr(x, "devicesHold"), &want);
	td_auto_free char *out = td_pool_aside_write(want);
	const char *held = td_jstr(x, "devicesHeld");
	yyjson_val *k, *v;
	size_t i, n;
	if (!out && !held)
		return;
	printf("Devices   out of service: %s%s%s%s\n", held ? held : "none yet",
	       td_streq(out, held) ? "" : " (wanted: ",
	       td_streq(out, held) ? ""
	       : out               ? out
				   : "none",
	       td_streq(out, held) ? "" : ")");
	yyjson_obj_foreach (td_jget(x, "devicesHeldBy"), i, n, k, v)
		if (yyjson_get_sint(v) > 0)
			printf("          %s when job %lld has ended\n", yyjson_get_str(k),
			       (long long)yyjson_get_sint(v));
	if (td_jstr(x, "devicesHold"))
		printf("Mended    %s, while the others work: %s\n", td_jstr(x, "devicesHold"),
		       td_jstr_or(x, "devicesHoldWhy", "?"));
}

static int show(const struct node_request *q, const char *name)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_nodeview struct td_nodeview v = {0};
	if (td_cli_nodes_open(&q->remote, &v, &err) || td_cli_nodes_list(&v, name, &err))
		return td_client_failed("node", &err);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "l");
	td_cli_nodes_view(&v, v.nodes.v[0], d, list);
	yyjson_mut_val *o = yyjson_mut_arr_get(list, 0);
	td_cli_nodes_history(&v, name, d, td_jm_arr(d, o, "history"));
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(o);
	yyjson_val *x = td_json_root(j), *f;
	if (q->output) {
		td_auto_free char *text = td_json_pretty(x);
		puts(text);
		return 0;
	}

	const char *hold = td_jstr(x, "hold"), *person = td_jstr(x, "needsPerson");
	printf("Node      %s, %s, %s\n", name, td_jbool(x, "ready", false) ? "ready" : "not ready",
	       td_jbool(x, "inService", false) ? "in service" : "out of service");
	printf("Boot      %s\n", td_jstr_or(x, "bootID", "-"));
	if (td_jstr(x, "image"))
		printf("Image     %s\n", td_jstr(x, "image"));
	if (td_jstr(x, "slurmState"))
		printf("Slurm     %s\n", td_jstr(x, "slurmState"));
	if (td_jstr(x, "gpuTypes"))
		printf("GPUs      %s\n", td_jstr(x, "gpuTypes"));
	measured(td_jget(x, "idleTest"));
	td_cli_nodes_together(td_jget(x, "idleTestsTogether"), "Together  ");
	devices_out(x);
	if (hold)
		printf("Why       %s\n", hold);
	if (person)
		printf("Needed    a person: %s\n          then: tandem node return %s\n", person, name);
	size_t i, n;
	yyjson_arr_foreach (td_jget(x, "faults"), i, n, f)
		printf("Fault     %s (%s)\n", td_jstr_or(f, "message", "?"), td_jstr_or(f, "check", "?"));
	if (!yyjson_arr_size(td_jget(x, "faults")))
		puts("Faults    none");
	yyjson_val *history = td_jget(x, "history");
	size_t skip = yyjson_arr_size(history) > 5 ? yyjson_arr_size(history) - 5 : 0;
	if (yyjson_arr_size(history))
		printf("\nHistory%s\n", skip ? " (the last five; `tandem history` has all)" : "");
	yyjson_arr_foreach (history, i, n, f)
		if (i >= skip)
			td_cli_nodes_story(f);
	return 0;
}

// Waits until the act is over, and tells its steps on the way.
static int follow(struct td_kube *k, const char *name)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *said = td_strdup("");
	for (;;) {
		td_auto(td_object_unref) struct td_object *o = NULL;
		int r = td_kube_get(k, &td_nodeactions, NULL, name, NULL, &o, &err);
		if (r && r != TD_TRANSIENT)
			return td_client_failed("node", &err);
		const char *phase = o ? td_jstr_or(o->root, "status.phase", "") : "";
		td_auto_free char *words = o ? td_cli_test_words(td_jstr(o->root, "status.message")) : NULL;
		td_auto_free char *now = td_asprintf("%s%s%s", o ? td_jstr_or(o->root, "status.step", "waits") : "",
						     words ? ": " : "", words ? words : "");
		if (o && strcmp(now, said) != 0) {
			printf("%s\n", now);
			fflush(stdout);
			free(said);
			said = td_steal(now);
		}
		if (td_streq(phase, "Succeeded"))
			return 0;
		if (td_streq(phase, "Failed") || td_streq(phase, "Unknown"))
			return 1;
		nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL); // between two looks
	}
}

static int act(const struct node_request *q, const char *action, const char *node)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_nodeview struct td_nodeview v = {0};
	td_auto(td_object_unref) struct td_object *there = NULL, *made = NULL;
	int r = td_cli_nodes_open(&q->remote, &v, &err);
	if (r)
		return td_client_failed("node", &err);
	if ((r = td_kube_get(v.kube, &td_nodes, NULL, node, NULL, &there, &err))) {
		if (r == TD_NOT_FOUND)
			td_fail(&err, r, "there is no node \"%s\": `tandem nodes` lists them", node);
		return td_client_failed("node", &err);
	}
	long long gpu;
	int64_t gpus;
	if (q->device && td_starts(q->device, "gpu") && td_parse_i64(q->device + 3, &gpu) &&
	    !td_api_devices(td_jget(there->root, "status.capacity"), "nvidia.com/gpu", &gpus, NULL) && gpus &&
	    gpu >= gpus)
		return td_command_wrong("node", "--device: %s has no %.40s: its GPUs are gpu0 to gpu%lld", node,
					q->device, (long long)gpus - 1);

	if (!strcmp(action, "out") || !strcmp(action, "in"))
		return td_cli_node_device(v.kube, node, q->device, !strcmp(action, "out"), &err)
			       ? td_client_failed("node", &err)
			       : 0;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, root, "kind", "NodeAction");
	td_jm_strf(d, root, "metadata.generateName", "%.200s-%s-", node, action);
	td_jm_str(d, root, "spec.node", node);
	td_jm_str(d, root, "spec.action", !strcmp(action, "cut") ? "cut-gpu" : action);
	if (q->gpu >= 0)
		td_jm_int(d, root, "spec.gpu", q->gpu);
	td_auto_strv struct td_strv parts = {0};
	td_strv_split(&parts, q->parts && strcmp(q->parts, "whole") != 0 ? q->parts : "", ',');
	for (size_t i = 0; i < parts.n; i++)
		yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, root, "spec.parts"), parts.v[i]);
	td_jm_str(d, root, "spec.reason", q->reason);
	td_jm_str(d, root, "spec.device", q->device);
	td_jm_str(d, root, "spec.scope", q->scope);
	td_jm_str(d, root, "spec.program", q->program);
	td_jm_strf(d, root, "spec.requestedBy", "%.120s", td_cli_me());
	if (q->deadline_s)
		td_jm_int(d, root, "spec.deadlineSeconds", q->deadline_s);
	if (q->jobs_s >= 0)
		td_jm_int(d, root, "spec.jobsEndAfterSeconds", q->jobs_s);
	if (q->no_test)
		td_jm_bool(d, root, "spec.skipTest", true);
	td_cli_made_by(v.kube, d, root);
	if ((r = td_kube_create(v.kube, &td_nodeactions, NULL, root, NULL, &made, &err)))
		return td_client_failed("node", &err);
	if (q->output) {
		td_auto_free char *text = td_json_pretty(made->root);
		puts(text);
	} else {
		printf("NodeAction %s: %s of node %s. `tandem history %s` tells how it goes.\n", made->name, action,
		       node, node);
	}
	fflush(stdout);
	return q->wait ? follow(v.kube, made->name) : 0;
}

static void token_done(struct td_cli_token *t)
{
	td_strv_done(&t->labels);
}

int td_node_main(int argc, char **argv)
{
	struct node_request q = {.jobs_s = -1, .gpu = -1};
	__attribute__((cleanup(token_done))) struct td_cli_token t = {.ttl_s = 3600};
	int64_t ttl_ms = 3600 * 1000;
	char **words;
	struct td_error err = TD_ERROR_INIT;
	int code;
	const char *login = NULL;
	const struct td_option options[] = {
		{.name = "reason",
		 .value = "TEXT",
		 TD_OPT_TEXT(&q.reason),
		 .help = "why; it is kept in the record and shown in Slurm"},
		{.name = "device",
		 .value = "gpuN",
		 TD_OPT_TEXT(&q.device),
		 .help = "of out and in; of reset-gpu (default: all); of --scope device"},
		{.name = "program",
		 .value = "NAME",
		 TD_OPT_TEXT(&q.program),
		 .help = "of run: a program in the agent's directory of actions"},
		{.name = "gpu",
		 .value = "N",
		 TD_OPT_INT(&q.gpu, 0, 63),
		 .help = "of cut: which GPU of the machine, in NVML's order (default: all)"},
		{.name = "parts",
		 .value = "PROFILE,...|whole",
		 TD_OPT_TEXT(&q.parts),
		 .help = "of cut: the parts that it shall have, such as 3g.40gb,1g.10gb,1g.10gb"},
		{.name = "deadline",
		 .value = "TIME",
		 .kind = TD_OPTION_SECONDS,
		 .to = &q.deadline_s,
		 .min = 1,
		 .max = 2592000,
		 .help = "fail when it has not ended by then (default: jobs are waited for)"},
		{.name = "end-jobs-after",
		 .value = "TIME",
		 .kind = TD_OPTION_SECONDS,
		 .to = &q.jobs_s,
		 .min = 0,
		 .max = 2592000,
		 .help = "then batch jobs are requeued and others cancelled (default: they are waited for)"},
		{.name = "scope",
		 .value = "node|device",
		 TD_OPT_TEXT(&q.scope),
		 .choices = "node|device",
		 .help = "device: only --device leaves service, the jobs on the others go on"},
		{.name = "no-test", TD_OPT_SWITCH(&q.no_test), .help = "return the node without a test"},
		{.name = "wait",
		 TD_OPT_SWITCH(&q.wait),
		 .help = "wait until it is over, and fail when it fails; of dismiss: until they are out"},
		{.name = "machine",
		 .value = "ID",
		 TD_OPT_TEXT(&t.machine),
		 .help = "of token: the machine, as machine-id says there"},
		{.name = "name", .value = "NODE", TD_OPT_TEXT(&t.name), .help = "of token: the only name it may have"},
		{.name = "cloud-init",
		 .value = "FILE",
		 TD_OPT_TEXT(&t.cloud_init),
		 .help = "of token, instead of --machine: writes the user-data of a new virtual machine, with the key "
			 "that "
			 "it is known by"},
		{.name = "ttl",
		 .value = "TIME",
		 .kind = TD_OPTION_DURATION,
		 .to = &ttl_ms,
		 .help = "of token: when it ends unused (default 1h)"},
		{.name = "nodeset",
		 .value = "NAMESPACE/NAME",
		 TD_OPT_TEXT(&t.nodeset),
		 .help = "of token: the node gets the labels by which this NodeSet selects; of admit and dismiss: "
			 "whose "
			 "machines they are"},
		{.name = "login",
		 .value = "NAMESPACE/NAME",
		 TD_OPT_TEXT(&login),
		 .help = "of admit and dismiss: they are login machines of this SlurmCluster"},
		{.name = "label",
		 .value = "KEY=VALUE",
		 TD_OPT_LIST(&t.labels),
		 .help = "of token: a label that the node gets; may be repeated"},
		{.name = "again",
		 TD_OPT_SWITCH(&t.again),
		 .help = "of token: the node may be there; it is that machine from now on"},
		{.name = "key",
		 .value = "FILE",
		 TD_OPT_TEXT(&t.key),
		 .help = "of machine-id: the machine's key (default " TD_MACHINE_KEY ")"},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: the answer for machines",
		 TD_OPT_TEXT(&q.output),
		 .choices = "json"},
		TD_REMOTE_OPTIONS(&q.remote),
	};
	const struct td_command line = {
		.name = "node",
		.about = "Shows a node in full, or makes a NodeAction, which the operator carries out:\n"
			 "  tandem node NAME             its health, what is done on it, its history\n"
			 "  tandem node drain NAME       no new work; it stays out until it is returned\n"
			 "  tandem node reset-gpu NAME   drain, reset --device or all, test, return\n"
			 "  tandem node reboot NAME      drain, reboot, test, return\n"
			 "  tandem node run NAME         drain, run a site's --program there, test, return\n"
			 "  tandem node cut NAME         drain, cut --gpu or all in --parts (MIG), return\n"
			 "  tandem node test NAME        drain, test, return\n"
			 "  tandem node return NAME      test, and take it into service again\n"
			 "  tandem node out NAME         only --device leaves service, the others work on\n"
			 "  tandem node in NAME          that device comes back\n"
			 "Or lets a new machine join (tandem-join(1)):\n"
			 "  tandem node machine-id       there: which machine it is\n"
			 "  tandem node token            a token for one use by --machine alone, or\n"
			 "                               for a virtual machine (--cloud-init)\n"
			 "  tandem node tokens           those that were made, and what became of them\n"
			 "  tandem node revoke TOKEN     it is good for nothing any more\n"
			 "Or machines that run slurmd themselves (tandem-host(1)):\n"
			 "  tandem node admit HOSTS      into the spec.hosts of --nodeset\n"
			 "  tandem node dismiss HOSTS    out of it, when their jobs have ended\n"
			 "  (with --login: machines where people work)",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = 2,
		.args = "[ACTION] NODE",
		.choices = "drain|reset-gpu|reboot|run|cut|test|return|out|in|token|tokens|revoke|machine-id|admit|"
			   "dismiss",
		.exits = "0 shown, begun or (--wait) done, 1 failed, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (td_remote_check(&q.remote, &err))
		return td_command_wrong("node", "%s", err.msg);
	if (td_cli_token_verb(words[0])) {
		if (ttl_ms < 1000 || ttl_ms > 30LL * 86400 * 1000)
			return td_command_wrong("node", "--ttl: give from 1s to 720h");
		t.ttl_s = (int)(ttl_ms / 1000);
		t.remote = q.remote;
		t.output = q.output;
		return td_cli_token_run(&t, words[0], words[1]);
	}
	if (td_cli_hosts_verb(words[0])) {
		const struct td_cli_hosts h = {q.remote, t.nodeset, login, q.output, q.wait};
		return td_cli_hosts_run(&h, words[0], words[1]);
	}
	if (!words[1]) {
		for (size_t i = 0; i < TD_LEN(acts); i++)
			if (!strcmp(words[0], acts[i]))
				return td_command_wrong("node", "%s which node? `tandem nodes` lists them", words[0]);
		return show(&q, words[0]);
	}
	for (size_t i = 0; i < TD_LEN(acts); i++)
		if (!strcmp(words[0], acts[i])) {
			if (!strcmp(words[0], "cut") && !q.parts)
				return td_command_wrong("node",
							"cut needs --parts, such as 3g.40gb,1g.10gb,1g.10gb, or "
							"--parts whole");
			if (!strcmp(words[0], "run") && !q.program)
				return td_command_wrong("node", "run needs --program NAME");
			if ((!strcmp(words[0], "out") || !strcmp(words[0], "in")) && !q.device)
				return td_command_wrong("node", "%s needs --device gpuN", words[0]);
			if (td_streq(q.scope, "device") && (!q.device || !strcmp(words[0], "reboot") ||
							    !strcmp(words[0], "run") || !strcmp(words[0], "cut")))
				return td_command_wrong("node", "--scope device needs --device gpuN, and one of drain, "
								"reset-gpu, test and return");
			return act(&q, words[0], words[1]);
		}
	return td_command_wrong("node",
				"\"%s\" is no action: give drain, reset-gpu, reboot, run, cut, test, return, out or in",
				words[0]);
}
