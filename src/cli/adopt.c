// tandem adopt: takes over an existing Slurm, its machines group by group, and gives them back (docs/adopt.md).
//
// A group is a NodeSet of machines that run slurmd themselves. What was begun is in an annotation of it before anything
// is done, and every step is found again from the two Slurms: the same command goes on after a crash.
#include "cli/adopt.h"
#include "base/cancel.h"
#include "base/file.h"
#include "base/options.h"
#include "base/proc.h"
#include "cli/apply.h"
#include "cli/client.h"
#include "cli/host.h"
#include "cli/nodeview.h"
#include "cmd/roles.h"
#include "slurm/adopt.h"
#include "slurm/books_use.h"
#include "slurm/conf.h"
#include "slurm/hostlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 64, CALL_MS = 60000, LOOK_MS = 1000 };

struct adopt_group {
	struct td_object *set;
	struct td_strv hosts;
	char *list;
	enum td_adopt_phase phase;
};

static void group_done(struct adopt_group *g)
{
	td_object_unref(g->set);
	td_strv_done(&g->hosts);
	free(g->list);
}

// ---- the plan ----
static int plan(struct td_cli_adopt *a, char **paths, size_t n, struct td_error *err)
{
	struct td_slurm_import_file files[FILES_MAX];
	td_auto_strv struct td_strv texts = {0};
	td_auto_import struct td_slurm_import x = {0};
	if (!n || n > FILES_MAX)
		return td_fail(err, TD_INVALID, "plan: give slurm.conf and up to %d files beside it", FILES_MAX - 1);
	for (size_t i = 0; i < n; i++) {
		td_auto_buf struct td_buf text = {0};
		int r = td_file_read(paths[i], TD_JSON_MAX, &text, err);
		if (r)
			return r;
		td_strv_add(&texts, td_buf_str(&text));
	}
	for (size_t i = 0; i < n; i++)
		files[i] = (struct td_slurm_import_file){paths[i], texts.v[i]};
	int r = td_slurm_import(files, n, a->ns, a->name, &x, err);
	if (r)
		return r;
	td_slurm_adopt(&x);
	for (size_t i = 0; i < x.left.n; i++)
		fprintf(stderr, "%s%s\n", i ? "  " : "Not taken over:\n  ", x.left.v[i]);
	for (size_t i = 0; i < x.n && !r; i++) {
		yyjson_val *o = td_json_root(x.v[i]);
		enum td_applied what;
		if (!a->apply) {
			td_auto_free char *text = td_yaml_text(o);
			printf("%s%s", i ? "---\n" : "", text);
			continue;
		}
		// A group that was planned before may be on its way.
		const struct td_gvr *gvr = td_cli_gvr(o);
		bool set = td_streq(td_jstr(o, "kind"), "NodeSet");
		if (set && gvr && !td_kube_get(a->k, gvr, a->ns, td_jstr(o, "metadata.name"), NULL, NULL, NULL)) {
			printf("NodeSet %s is there and stays as it is\n", td_jstr(o, "metadata.name"));
			continue;
		}
		r = td_cli_apply(a->k, o, false, NULL, &what, err);
		if (!r)
			printf("%s %s %s\n", td_jstr(o, "kind"), td_jstr(o, "metadata.name"), td_applied_text(what));
	}
	return r;
}

// ---- the old Slurm ----
int td_cli_adopt_old(const struct td_cli_adopt *a, char *const argv[], struct td_buf *ret, struct td_error *err)
{
	int status = 0;
	td_auto_free char *path = a->bin ? td_asprintf("%s/%s", a->bin, argv[0]) : td_strdup(argv[0]);
	char *line[12] = {path};
	for (size_t i = 1; argv[i] && i + 1 < TD_LEN(line); i++)
		line[i] = argv[i];
	setenv("SLURM_CONF", a->conf, 1);
	int r = td_run(line, NULL, CALL_MS, NULL, &status, ret, err);
	if (!r && status)
		return td_fail(err, TD_TRANSIENT, "%s with SLURM_CONF=%s: %.400s", argv[0], a->conf, td_buf_str(ret));
	return r;
}

// Drains what nobody has drained, or resumes what a move has drained: whatever reason somebody else has given stays.
// *ret_silent: of the latter so many wait for their slurmd. (A node that was resumed may keep the reason as a text.)
static int old_state(const struct td_cli_adopt *a, const struct adopt_group *g, bool drain, size_t *ret_silent,
		     struct td_error *err)
{
	td_auto_buf struct td_buf said = {0};
	td_auto_strv struct td_strv lines = {0}, names = {0}, silent = {0};
	char *const look[] = {"sinfo", "-h", "-N", "-n", g->list, "-o", "%N|%T|%E", NULL};
	int r = td_cli_adopt_old(a, look, &said, err);
	if (r)
		return r;
	td_strv_split(&lines, td_buf_str(&said), '\n');
	for (size_t i = 0; i < lines.n; i++) {
		char name[64];
		struct td_adopt_node n;
		// A node is there once for each partition.
		if (!td_adopt_node_read(lines.v[i], name, &n) || (drain ? n.drained : !n.ours) ||
		    td_strv_has(&names, name) || td_strv_has(&silent, name))
			continue;
		td_strv_add(!drain && n.silent ? &silent : &names, name);
	}
	*ret_silent = silent.n;
	if (!names.n)
		return 0;
	td_auto_free char *list = td_hostlist_write(&names), *of = td_asprintf("nodename=%s", list);
	td_auto_buf struct td_buf out = {0};
	char *const argv[] = {"scontrol",
			      "update",
			      of,
			      drain ? "state=drain" : "state=resume",
			      drain ? "reason=" TD_REASON_ADOPT : NULL,
			      NULL};
	printf("%s %s in the old Slurm\n", drain ? "draining" : "resuming", list);
	return td_cli_adopt_old(a, argv, &out, err);
}

static int old_jobs(const struct td_cli_adopt *a, const struct adopt_group *g, size_t *ret, struct td_error *err)
{
	td_auto_buf struct td_buf said = {0};
	td_auto_strv struct td_strv lines = {0};
	char *const argv[] = {"squeue", "-h", "-w", g->list, "-o", "%A", NULL};
	int r = td_cli_adopt_old(a, argv, &said, err);
	td_strv_split(&lines, td_buf_str(&said), '\n');
	*ret = lines.n;
	return r;
}

// ---- one group ----
static int group_of(const struct td_cli_adopt *a, const char *name, struct adopt_group *ret, struct td_error *err)
{
	int r = td_kube_get(a->k, &td_nodesets, a->ns, name, NULL, &ret->set, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, r, "there is no group \"%s\" in namespace %s: `tandem adopt status` lists them",
			       name, a->ns);
	if (!r && !(r = td_adopt_read(ret->set->root, &ret->hosts, &ret->phase, err)))
		ret->list = td_hostlist_write(&ret->hosts);
	return r;
}

static int note(const struct td_cli_adopt *a, struct adopt_group *g, enum td_adopt_phase phase, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *text = td_adopt_write(&g->hosts, phase);
	if (g->phase == phase)
		return 0;
	td_jm_str(d, root, "metadata.uid", g->set->uid);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_ADOPT, text);
	int r = td_kube_patch(a->k, TD_AT(&td_nodesets, a->ns, g->set->name), TD_PATCH_MERGE, root, NULL, NULL, err);
	if (!r) {
		g->phase = phase;
		printf("group %s: %s\n", g->set->name, td_adopt_phase_name(phase));
		fflush(stdout);
	}
	return r;
}

static int move(const struct td_cli_adopt *a, struct adopt_group *g, struct td_error *err)
{
	size_t jobs = 1, said = 0, silent;
	int r = g->phase == TD_ADOPT_MOVED ? 0 : note(a, g, TD_ADOPT_LEAVING, err);
	if (r || (r = old_state(a, g, true, &silent, err)))
		return r;
	while (!(r = old_jobs(a, g, &jobs, err)) && jobs) {
		if (jobs != said)
			fprintf(stderr, "%zu jobs of the old Slurm run on %s: waiting\n", jobs, g->list);
		said = jobs;
		td_cancel_wait(NULL, LOOK_MS);
	}
	if (!r)
		r = td_host_admit(a->k, a->ns, g->set->name, &g->hosts, err);
	return r ? r : note(a, g, TD_ADOPT_MOVED, err);
}

static int back(const struct td_cli_adopt *a, struct adopt_group *g, struct td_error *err)
{
	size_t left = 1, said = 0, silent = 1;
	int r = g->phase == TD_ADOPT_OLD ? 0 : note(a, g, TD_ADOPT_RETURNING, err);
	if (!r)
		r = td_host_dismiss(a->k, a->ns, g->set->name, &g->hosts, err);
	while (!r && !(r = td_host_forget(a->k, a->ns, g->set->name, &g->hosts, &left, err)) && left) {
		if (left != said)
			fprintf(stderr, "%zu of %s are still in the pool, perhaps with jobs: waiting\n", left, g->list);
		said = left;
		td_cancel_wait(NULL, LOOK_MS);
	}
	for (said = 0; !r && !(r = old_state(a, g, false, &silent, err)) && silent;) {
		if (silent != said)
			fprintf(stderr, "%zu of %s have no slurmd of the old Slurm yet: waiting\n", silent, g->list);
		said = silent;
		td_cancel_wait(NULL, LOOK_MS);
	}
	return r ? r : note(a, g, TD_ADOPT_OLD, err);
}

static int status(const struct td_cli_adopt *a, struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	int r = td_kube_list(a->k, &td_nodesets, a->ns, NULL, NULL, NULL, &l, err);
	if (r)
		return r;
	printf("%-20s %-10s %-8s %s\n", "GROUP", "PHASE", "READY", "MACHINES");
	for (size_t i = 0; i < l.n; i++) {
		td_auto_strv struct td_strv hosts = {0};
		enum td_adopt_phase phase;
		if (td_adopt_read(l.v[i]->root, &hosts, &phase, NULL))
			continue;
		td_auto_free char *list = td_hostlist_write(&hosts),
				  *ready = td_asprintf("%lld/%zu", (long long)td_jint(l.v[i]->root, "status.ready", 0),
						       hosts.n);
		printf("%-20s %-10s %-8s %s\n", l.v[i]->name, td_adopt_phase_name(phase), ready, list);
	}
	return 0;
}

static int run(struct td_cli_adopt *a, char **words, size_t n, struct td_error *err)
{
	__attribute__((cleanup(group_done))) struct adopt_group g = {0};
	td_auto_nodeview struct td_nodeview v = {0};
	bool is_plan = !strcmp(words[0], "plan");
	if (!strcmp(words[0], "accounts"))
		return td_cli_adopt_accounts(a, n > 1 ? words[1] : NULL, err);
	if (!strcmp(words[0], "use"))
		return td_cli_adopt_use(a, n > 1 ? words[1] : NULL, err);
	int r = is_plan && !a->apply ? 0 : td_cli_nodes_open(&a->remote, &v, err);
	a->k = v.kube;
	if (r)
		return r;
	if (is_plan)
		return plan(a, words + 1, n - 1, err);
	if (!strcmp(words[0], "status"))
		return status(a, err);
	if ((r = group_of(a, words[1], &g, err)))
		return r;
	return !strcmp(words[0], "move") ? move(a, &g, err) : back(a, &g, err);
}

int td_adopt_main(int argc, char **argv)
{
	struct td_cli_adopt a = {.ns = "slurm", .conf = "/etc/slurm/slurm.conf"};
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "namespace",
		 .letter = 'n',
		 .value = "NS",
		 TD_OPT_TEXT(&a.ns),
		 .help = "of the SlurmCluster and its NodeSets (default slurm)"},
		{.name = "name",
		 .value = "NAME",
		 TD_OPT_TEXT(&a.name),
		 .help = "of plan, accounts and use: of the SlurmCluster (default: ClusterName; the only one)"},
		{.name = "apply",
		 TD_OPT_SWITCH(&a.apply),
		 .help = "of plan, accounts and use: makes it so instead of printing it"},
		{.name = "old-conf",
		 .value = "FILE",
		 TD_OPT_TEXT(&a.conf),
		 .help = "of accounts, use, move and back: the old Slurm's slurm.conf (default /etc/slurm/slurm.conf)"},
		{.name = "old-bin",
		 .value = "DIR",
		 TD_OPT_TEXT(&a.bin),
		 .help = "of accounts, use, move and back: where the old sacctmgr, sshare, sinfo, squeue and scontrol "
			 "are "
			 "(default: the PATH)"},
		{.name = "qos",
		 .value = "FILE",
		 TD_OPT_TEXT(&a.qos),
		 .help = "of accounts: what `sacctmgr -P show qos` of the old Slurm printed"},
		{.name = "people",
		 .value = "FILE",
		 TD_OPT_TEXT(&a.people),
		 .help = "of accounts: lines of passwd, for spec.users; \"getent\": this machine's getent is asked"},
		TD_REMOTE_KUBECONFIG(&a.remote),
	};
	const struct td_command line = {
		.name = "adopt",
		.usage = "plan SLURM.CONF [FILE…] [--apply]\n"
			 "       tandem adopt accounts [DUMP] [--qos FILE] [--people FILE] [--apply]\n"
			 "       tandem adopt use [FILE] [--apply]\n"
			 "       tandem adopt move GROUP\n"
			 "       tandem adopt back GROUP\n"
			 "       tandem adopt status",
		.about =
			"Takes over an existing Slurm, its machines group by group, where its scontrol works.\n"
			"`plan` prints what asks a pool for the same, and lists on stderr what it cannot take over. "
			"Each line "
			"of NodeName= becomes a group, and no machine is moved.\n"
			"`accounts` does it for accounts, users, limits, shares and QOS: of DUMP, which `sacctmgr dump "
			"CLUSTER file=DUMP` has written (- is standard input), or of the old Slurm's sacctmgr. What "
			"stands "
			"otherwise in the pool stays, and is told.\n"
			"`use` does it for what people have used, which fair share counts: of FILE, which `sshare -a "
			"-m -P -o " TD_USE_FORMAT "` has written (- is standard input), or of the old "
			"Slurm's sshare. slurmctld starts anew for it.\n"
			"`move` drains a group there, waits for its jobs, and admits its machines to the pool; `back` "
			"gives "
			"them back. Either goes on where it was interrupted.\n"
			"`status` says which group is where.",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = FILES_MAX,
		.args = "VERB",
		.choices = "plan|accounts|use|move|back|status"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (td_remote_check(&a.remote, &err))
		return td_command_wrong("adopt", "%s", err.msg);
	size_t n = 0;
	while (words[n])
		n++;
	bool one = !strcmp(words[0], "move") || !strcmp(words[0], "back");
	bool accounts = !strcmp(words[0], "accounts");
	bool use = !strcmp(words[0], "use");
	if (!one && !accounts && !use && strcmp(words[0], "plan") != 0 && strcmp(words[0], "status") != 0)
		return td_command_wrong("adopt", "\"%s\": give plan, accounts, use, move, back or status", words[0]);
	if (!accounts && (a.qos || a.people))
		return td_command_wrong("adopt", "%s: --qos and --people are of accounts", words[0]);
	if (accounts && a.qos && n == 1)
		return td_command_wrong("adopt", "--qos goes with a DUMP: without one sacctmgr is asked for both");
	if (accounts || use ? n > 2 : one ? n != 2 : !strcmp(words[0], "plan") ? n < 2 : n != 1)
		return td_command_wrong("adopt", "%s takes %s", words[0],
					accounts                    ? "one dump, or none"
					: use                       ? "one file, or none"
					: one                       ? "one group"
					: !strcmp(words[0], "plan") ? "slurm.conf and what lies beside it"
								    : "nothing");
	if ((a.name && !td_slurm_is_name(a.name)) || !td_slurm_is_name(a.ns))
		return td_command_wrong("adopt", "--name and --namespace take names of Kubernetes objects");
	return run(&a, words, n, &err) ? td_client_failed("adopt", &err) : 0;
}
