// tandem status: shows roles, nodes and Slurm, and says in words what is wrong.
#include "api/condition.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/term.h"
#include "cli/apply.h"
#include "cli/common.h"
#include "cli/reboot.h"
#include "cli/remote.h"
#include "cli/services.h"
#include "cmd/roles.h"
#include "local/supervise.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Everything is first gathered into one JSON document; the table is a view of it.
struct gather {
	yyjson_mut_doc *d;
	yyjson_mut_val *root, *wrong;
	// For the commands that messages name. Without a kubeconfig they mean the home.
	const struct td_remote *remote;
	// There are several SlurmClusters, so commands name theirs.
	bool several;
};

static void wrong(struct gather *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void wrong(struct gather *g, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *s = td_vasprintf(fmt, ap);
	va_end(ap);
	yyjson_mut_arr_append(g->wrong, yyjson_mut_strcpy(g->d, s));
}

// The flags that make `tandem shell` use a SlurmCluster. The caller frees them.
static char *to_cluster(const struct gather *g, const char *ns, const char *name)
{
	struct td_remote r = *g->remote;
	td_auto_free char *cluster = td_asprintf("%s/%s", ns, name);
	if (g->several)
		r.cluster = cluster;
	return td_remote_words(&r);
}

static long long rss_kib(pid_t pid)
{
	td_auto_free char *path = td_asprintf("/proc/%d/statm", (int)pid);
	FILE *f = fopen(path, "re");
	long long size = 0, rss = 0;
	if (f) {
		if (fscanf(f, "%lld %lld", &size, &rss) != 2)
			rss = 0;
		fclose(f);
	}
	return rss * (sysconf(_SC_PAGESIZE) / 1024);
}

static void roles(struct gather *g, const struct td_instance *i)
{
	yyjson_mut_val *arr = td_jm_arr(g->d, g->root, "roles");
	struct td_local_role *v;
	size_t n = td_roles(i, "tandem", &v);
	for (size_t k = 0; k <= n; k++) {
		const char *name = k ? v[k - 1].name : "supervise";
		td_auto_free char *pf = td_local_role_pidfile(i, name);
		pid_t pid = td_pidfile_read(pf);

		yyjson_mut_val *o = yyjson_mut_arr_add_obj(g->d, arr);
		td_jm_str(g->d, o, "name", name);
		td_jm_int(g->d, o, "pid", pid);
		td_jm_int(g->d, o, "rssKiB", pid ? rss_kib(pid) : 0);

		if (!pid && k)
			wrong(g, "role %s is not running: see %s/log/%s.log", name, i->home, name);
		else if (!pid)
			wrong(g, "supervise is not running, so nothing is restarted: run \"tandem up\"");
	}
	td_roles_done(v, n);
}

static const char *condition(yyjson_val *obj, const char *type, const char *field)
{
	return td_jstr_or(td_condition(obj, type), field, "");
}

// Finds a node's entry in the status of its NodeSet, or NULL. *ret_set is that NodeSet.
static yyjson_val *in_nodesets(const struct td_objects *sets, const char *node, const struct td_object **ret_set)
{
	yyjson_val *x;
	size_t i, n;
	for (size_t s = 0; s < sets->n; s++)
		yyjson_arr_foreach (td_jget(sets->v[s]->root, "status.nodes"), i, n, x) {
			if (td_streq(td_jstr(x, "name"), node)) {
				*ret_set = sets->v[s];
				return x;
			}
		}
	return NULL;
}

// How many devices Slurm gives out on a node, whatever publishes them there; where it gives out none,
// how many GPUs its kubelet has. The caller frees it.
static char *gpus_of(const struct td_object *node)
{
	const char *share = td_object_annotation(node, TD_ANN_SHARE);
	td_auto(td_json_unref) struct td_json *j = NULL;
	long long sum = 0, n;
	if (share && !td_json_parse(share, strlen(share), &j, NULL)) {
		yyjson_obj_iter it = yyjson_obj_iter_with(td_json_root(j));
		for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
			const char *count = yyjson_get_str(yyjson_obj_iter_get_val(k));
			if (strchr(yyjson_get_str(k), '/') && count && td_parse_i64(count, &n))
				sum += n;
		}
	}
	return sum ? td_asprintf("%lld", sum)
		   : td_strdup(td_jkey_str(td_jget(node->root, "status.allocatable"), "nvidia.com/gpu"));
}

// Services that hold devices now.
static void services(struct gather *g, const struct td_objects *pods)
{
	td_auto_services struct td_cli_services l = {0};
	td_cli_services_read(pods, 0, td_real_ms(&td_clock_system) / 1000, &l);
	yyjson_mut_val *arr = td_jm_arr(g->d, g->root, "services");
	for (size_t i = 0; i < l.n; i++) {
		const struct td_cli_service *s = &l.v[i];
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(g->d, arr);
		td_jm_str(g->d, o, "name", s->name);
		td_jm_int(g->d, o, "pods", (long long)s->pods);
		td_jm_set(g->d, o, "gpus", yyjson_mut_real(g->d, s->devices));
		td_jm_set(g->d, o, "gpuHours", yyjson_mut_real(g->d, s->held / 3600));
		if (td_cli_use(s->busy, s->idle) >= 0)
			td_jm_set(g->d, o, "use", yyjson_mut_real(g->d, td_cli_use(s->busy, s->idle)));
	}
}

static const char *node_of(const struct td_object *pod)
{
	return td_jstr_or(pod->root, "spec.nodeName", "");
}

static int by_node(const void *a, const void *b)
{
	return strcmp(node_of(*(struct td_object *const *)a), node_of(*(struct td_object *const *)b));
}

// The first of the pods, which are sorted by their nodes, that is on the node or after it.
static size_t first_on(const struct td_objects *pods, const char *node)
{
	size_t a = 0, b = pods->n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (strcmp(node_of(pods->v[m]), node) < 0)
			a = m + 1;
		else
			b = m;
	}
	return a;
}

// A slurmd pod of a NodeSet: in another namespace anybody may have given it that name.
static bool is_slurmd(const struct td_objects *sets, const struct td_object *pod)
{
	bool ours = false;
	for (size_t i = 0; i < sets->n; i++)
		ours |= td_streq(sets->v[i]->ns, pod->ns);
	return ours && td_streq(td_object_label(pod, TD_LABEL_NAME), "slurmd");
}

static void nodes(struct gather *g, struct td_kube *k, const struct td_objects *sets)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_objects struct td_objects l = {0}, pods = {0}, actions = {0};
	td_kube_list(k, &td_nodeactions, NULL, NULL, NULL, NULL, &actions, NULL); // without them less is known
	if (td_kube_list(k, &td_nodes, NULL, NULL, NULL, NULL, &l, &err) ||
	    td_kube_list(k, &td_pods, NULL, NULL, NULL, NULL, &pods, &err)) {
		wrong(g, "nodes and pods cannot be listed: %s", err.msg);
		return;
	}

	services(g, &pods);
	if (pods.n)
		qsort(pods.v, pods.n, sizeof(struct td_object *), by_node);
	yyjson_mut_val *arr = td_jm_arr(g->d, g->root, "nodes");
	for (size_t n = 0; n < l.n; n++) {
		yyjson_val *root = l.v[n]->root;
		long long count = 0;
		const char *label = NULL; // of its slurmd: the state as Slurm names it
		for (size_t m = first_on(&pods, l.v[n]->name); m < pods.n && td_streq(node_of(pods.v[m]), l.v[n]->name);
		     m++) {
			count++;
			if (is_slurmd(sets, pods.v[m]))
				label = td_object_label(pods.v[m], TD_LABEL_NODE_STATE);
		}

		const char *ready = condition(root, "Ready", "status");
		const struct td_object *set = NULL;
		yyjson_val *in = in_nodesets(sets, l.v[n]->name, &set);
		// A large NodeSet does not list all that are drained, but their annotations say it.
		const char *slurm = in ? td_jstr(in, "state") : td_object_annotation(l.v[n], TD_ANN_SLURM_STATE),
			   *reason = in ? td_jstr(in, "reason") : td_object_annotation(l.v[n], TD_ANN_SLURM_REASON);
		if (!slurm) // one that is in order: the label says so
			slurm = label;
		bool cordoned = td_jbool(root, "spec.unschedulable", false);

		yyjson_mut_val *o = yyjson_mut_arr_add_obj(g->d, arr);
		td_jm_str(g->d, o, "name", l.v[n]->name);
		td_jm_bool(g->d, o, "ready", td_streq(ready, "True"));
		td_jm_bool(g->d, o, "cordoned", cordoned);
		td_jm_str(g->d, o, "cpus", td_jstr_or(root, "status.allocatable.cpu", "?"));
		td_auto_free char *gpus = gpus_of(l.v[n]);
		td_jm_str(g->d, o, "gpus", gpus);
		td_auto(td_json_unref) struct td_json *j = NULL;
		const char *share = td_object_annotation(l.v[n], TD_ANN_SHARE);
		if (share && !td_json_parse(share, strlen(share), &j, NULL))
			td_jm_str(g->d, o, "gpuTypes", td_jstr(td_json_root(j), TD_SHARE_TYPES));
		td_jm_int(g->d, o, "pods", count);
		td_jm_str(g->d, o, "slurmState", slurm);
		td_jm_str(g->d, o, "slurmReason", reason);

		td_auto_free char *reboot = td_cli_rebooting(&actions, &pods, l.v[n]->name);
		if (reboot) {
			td_jm_bool(g->d, o, "rebooting", true);
			wrong(g, "%s", reboot);
		} else if (!td_streq(ready, "True"))
			wrong(g, "node %s is not ready: %s", l.v[n]->name, condition(root, "Ready", "message"));
		else if (reason && *reason && slurm && td_starts(slurm, "drain") && !td_starts(reason, "tandem:")) {
			// The drain is not Tandem's: Tandem does not lift it.
			td_auto_free char *flags =
				set ? to_cluster(g, set->ns, td_jstr_or(set->root, "spec.clusterName", ""))
				    : td_strdup("");
			wrong(g,
			      "node %s: Slurm says %s: %s. To resume it: tandem shell%s --user root -- scontrol update "
			      "nodename=%s "
			      "state=undrain",
			      l.v[n]->name, slurm, reason, flags, l.v[n]->name);
		} else if (reason && td_starts(reason, "tandem: action drain")) {
			td_auto_free char *flags = td_remote_words(g->remote);
			wrong(g, "node %s: Slurm says %s: %s. To take it into service again: tandem node return%s %s",
			      l.v[n]->name, slurm ? slurm : "?", reason, flags, l.v[n]->name);
		} else if (reason && *reason) {
			wrong(g, "node %s: Slurm says %s: %s", l.v[n]->name, slurm ? slurm : "?", reason);
		}
	}
}

// Whether one of the conditions before the one at `at` is False with this message.
static bool said_before(yyjson_val *conds, size_t at, const char *message)
{
	size_t i, n;
	yyjson_val *x;
	yyjson_arr_foreach (conds, i, n, x)
		if (i < at && td_streq(td_jstr(x, "status"), "False") && td_streq(td_jstr(x, "message"), message))
			return true;
	return false;
}

static void slurm(struct gather *g, yyjson_mut_val *o, const struct td_object *sc, const struct td_object *ns)
{
	td_jm_str(g->d, o, "phase", td_jstr_or(sc->root, "status.phase", "Unknown"));
	static const char *const counts[] = {"desired", "ready", "idle", "allocated", "draining", "drained", "down"};
	for (size_t n = 0; n < TD_LEN(counts); n++) {
		td_auto_free char *path = td_asprintf("status.%s", counts[n]);
		td_jm_int(g->d, o, counts[n], td_jint(ns->root, path, 0));
	}

	if (td_jget(sc->root, "status.storageGroups"))
		td_jm_copyval(g->d, o, "storageGroups", td_jget(sc->root, "status.storageGroups"));

	const struct td_object *both[] = {sc, ns};
	for (size_t n = 0; n < 2; n++) {
		yyjson_val *conds = td_jget(both[n]->root, "status.conditions"), *x;
		size_t m, max;
		yyjson_arr_foreach (conds, m, max, x) {
			// Ready says what another one says, too.
			if (td_streq(td_jstr(x, "status"), "False") && !td_streq(td_jstr(x, "type"), "Progressing") &&
			    !(td_streq(td_jstr(x, "type"), "Ready") && said_before(conds, m, td_jstr(x, "message"))))
				wrong(g, "%s %s: %s: %s", n ? "NodeSet" : "SlurmCluster", both[n]->name,
				      td_jstr_or(x, "type", "?"), td_jstr_or(x, "message", ""));
		}
	}

	td_auto_free char *flags = to_cluster(g, sc->ns, sc->name);
	if (td_jint(ns->root, "status.down", 0))
		wrong(g, "Slurm has %lld nodes down: `tandem shell%s -- sinfo -R` says why",
		      td_jint(ns->root, "status.down", 0), flags);
}

// ---- the table: at most COLUMNS wide ----

enum { COLUMNS = 80 };

// The width that the names of a list need, from `least` to `most`.
static int name_width(yyjson_val *list, int least, int most)
{
	size_t k, max;
	yyjson_val *x;
	yyjson_arr_foreach (list, k, max, x) {
		const char *ns = td_jstr(x, "namespace");
		int n = (int)strlen(td_jstr(x, "name")) + (ns ? (int)strlen(ns) + 1 : 0);
		least = n > least ? n : least;
	}
	return least < most ? least : most;
}

// Prints a name in a column; what is too long ends in "…".
static void name(const char *text, int width)
{
	if ((int)strlen(text) > width)
		printf("%.*s… ", width - 1, text);
	else
		printf("%-*s ", width, text);
}

static void coloured(bool on, enum td_term_color c, const char *text, int width)
{
	printf("%s%-*s%s", td_term_color(on, c), width, text, td_term_color(on, TD_TERM_PLAIN));
}

static void roles_table(yyjson_val *v, bool color)
{
	size_t k, max;
	yyjson_val *x;
	printf("%-14s %8s %10s\n", "ROLE", "PID", "MEMORY");
	yyjson_arr_foreach (v, k, max, x) {
		printf("%-14s ", td_jstr(x, "name"));
		if (td_jint(x, "pid", 0))
			printf("%8lld %7.1f MB\n", td_jint(x, "pid", 0), (double)td_jint(x, "rssKiB", 0) / 1024);
		else
			printf("%s%8s%s\n", td_term_color(color, TD_TERM_BAD), "-",
			       td_term_color(color, TD_TERM_PLAIN));
	}
}

static void workloads_table(yyjson_val *v, bool color)
{
	size_t k, max;
	yyjson_val *x;
	int width = name_width(v, 44, COLUMNS - 18);
	name("WORKLOAD", width);
	puts("READY");
	yyjson_arr_foreach (v, k, max, x) {
		td_auto_free char *full = td_asprintf("%s/%s", td_jstr(x, "namespace"), td_jstr(x, "name"));
		long long ready = td_jint(x, "ready", 0), want = td_jint(x, "want", 0);
		name(full, width);
		printf("%s%lld of %lld%s\n", td_term_color(color && ready < want, TD_TERM_BAD), ready, want,
		       td_term_color(color && ready < want, TD_TERM_PLAIN));
	}
}

static void nodes_table(yyjson_val *v, bool color)
{
	size_t k, max;
	yyjson_val *x;
	// Slurm's longest states, such as "allocated+drain", take 15 columns.
	int width = name_width(v, 10, COLUMNS - 1 - 11 - 3 * 6 - 2 - 15);
	putchar('\n');
	name("NODE", width);
	printf("%-10s %5s %5s %5s  %s\n", "STATE", "CPUS", "GPUS", "PODS", "SLURM");
	yyjson_arr_foreach (v, k, max, x) {
		bool ready = td_jbool(x, "ready", false), cordoned = td_jbool(x, "cordoned", false);
		const char *slurm = td_jstr_or(x, "slurmState", "-");
		bool off = td_starts(slurm, "d"); // down, drained, draining
		name(td_jstr(x, "name"), width);
		coloured(color,
			 !ready     ? TD_TERM_BAD
			 : cordoned ? TD_TERM_WARN
				    : TD_TERM_GOOD,
			 !ready     ? "NotReady"
			 : cordoned ? "Cordoned"
				    : "Ready",
			 10);
		printf(" %5s %5s %5lld  ", td_jstr_or(x, "cpus", "?"), td_jstr_or(x, "gpus", "0"),
		       td_jint(x, "pods", 0));
		coloured(color && off, TD_TERM_WARN, slurm, 0);
		putchar('\n');
		// Where there are several, one number does not say what can be had.
		if (td_jstr(x, "gpuTypes") && strchr(td_jstr(x, "gpuTypes"), ','))
			printf("%*s GPUs: %s\n", width, "", td_jstr(x, "gpuTypes"));
	}
}

static void services_table(yyjson_val *v)
{
	size_t k, max;
	yyjson_val *x;
	int width = name_width(v, 10, COLUMNS - 1 - 5 * 8);
	putchar('\n');
	name("SERVICE", width);
	printf("%7s %7s %7s %9s\n", "PODS", "GPUS", "USE", "GPU HOURS");
	yyjson_arr_foreach (v, k, max, x) {
		char use[16] = "-";
		if (td_jget(x, "use"))
			snprintf(use, sizeof(use), "%.0f %%", 100 * yyjson_get_num(td_jget(x, "use")));
		name(td_jstr(x, "name"), width);
		printf("%7lld %7.4g %7s %9.1f\n", td_jint(x, "pods", 0), yyjson_get_num(td_jget(x, "gpus")), use,
		       yyjson_get_num(td_jget(x, "gpuHours")));
	}
}

// "Storage secret: 14 claims for 40Ti, vault for 3 people"
static void storage_group(yyjson_val *group)
{
	yyjson_val *files = td_jget(group, "fileSystems"), *f;
	size_t i, n;
	printf("Storage %s: %lld claims for %s", td_jstr_or(group, "name", "?"), td_jint(group, "claims", 0),
	       td_jstr_or(group, "requested", "?"));
	yyjson_arr_foreach (files, i, n, f)
		printf("%s%s", i ? " and " : ", ", yyjson_is_str(f) ? yyjson_get_str(f) : "?");
	if (yyjson_arr_size(files))
		printf(" for %lld people", td_jint(group, "people", 0));
	printf("\n");
}

static void slurm_line(yyjson_val *x)
{
	const char *name = td_jstr(x, "name");
	printf("\nSlurm %s %s: %lld nodes, %lld idle, %lld in use, %lld drained, %lld down\n", name ? name : " ",
	       td_jstr_or(x, "phase", "?"), td_jint(x, "desired", 0), td_jint(x, "idle", 0), td_jint(x, "allocated", 0),
	       td_jint(x, "drained", 0) + td_jint(x, "draining", 0), td_jint(x, "down", 0));
	yyjson_val *group;
	size_t i, n;
	yyjson_arr_foreach (td_jget(x, "storageGroups"), i, n, group)
		storage_group(group);
}

static void table(yyjson_val *v)
{
	bool color = td_term_colors(1);
	size_t k, max;
	yyjson_val *x;

	if (td_jget(v, "workloads")) {
		printf("API     %s\n\n", td_jstr_or(v, "api", "-"));
		workloads_table(td_jget(v, "workloads"), color);
	} else {
		// Where nothing was found there is only what is wrong.
		if (*td_jstr_or(v, "home", ""))
			printf("home    %s\nAPI     %s\n\n", td_jstr(v, "home"), td_jstr_or(v, "api", "-"));
		if (yyjson_arr_size(td_jget(v, "roles")))
			roles_table(td_jget(v, "roles"), color);
	}

	if (td_jget(v, "nodes"))
		nodes_table(td_jget(v, "nodes"), color);
	if (yyjson_arr_size(td_jget(v, "services")))
		services_table(td_jget(v, "services"));
	if ((x = td_jget(v, "slurm")))
		slurm_line(x);
	if (td_jget(v, "ssh"))
		printf("Login   ssh USER@%s\n", td_jstr(v, "ssh"));
	yyjson_arr_foreach (td_jget(v, "clusters"), k, max, x)
		slurm_line(x);

	yyjson_val *bad = td_jget(v, "wrong");
	bool any = yyjson_arr_size(bad) > 0;
	putchar('\n');
	coloured(color, any ? TD_TERM_BAD : TD_TERM_GOOD, any ? "Wrong:" : "All is well.", 0);
	putchar('\n');
	yyjson_arr_foreach (bad, k, max, x) {
		td_auto_free char *line = td_asprintf("  %s", yyjson_get_str(x));
		td_term_wrap(line, 4, td_term_columns(STDOUT_FILENO));
	}
}

// Lists Tandem's Deployments and DaemonSets, which are found by their label.
static void workloads(struct gather *g, struct td_kube *k)
{
	static const struct td_gvr daemonsets = {"apps", "v1", "daemonsets", "DaemonSet", true},
				   *const kinds[] = {&td_deployments, &daemonsets};
	yyjson_mut_val *arr = td_jm_arr(g->d, g->root, "workloads");
	struct td_error err = TD_ERROR_INIT;

	for (size_t t = 0; t < TD_LEN(kinds); t++) {
		td_auto_objects struct td_objects l = {0};
		if (td_kube_list(k, kinds[t], NULL, "app.kubernetes.io/part-of=tandem", NULL, NULL, &l, &err)) {
			wrong(g, "%s: %s", kinds[t]->resource, err.msg);
			continue;
		}
		for (size_t n = 0; n < l.n; n++) {
			long long want = t ? td_jint(l.v[n]->root, "status.desiredNumberScheduled", 0)
					   : td_jint(l.v[n]->root, "spec.replicas", 1),
				  ready = td_jint(l.v[n]->root, t ? "status.numberReady" : "status.readyReplicas", 0);

			yyjson_mut_val *o = yyjson_mut_arr_add_obj(g->d, arr);
			td_jm_str(g->d, o, "namespace", l.v[n]->ns);
			td_jm_str(g->d, o, "name", l.v[n]->name);
			td_jm_int(g->d, o, "ready", ready);
			td_jm_int(g->d, o, "want", want);

			if (ready < want)
				wrong(g, "%s %s/%s: %lld of %lld pods are ready", kinds[t]->kind, l.v[n]->ns,
				      l.v[n]->name, ready, want);
		}
	}

	td_auto_free char *at = td_cli_at(g->remote->kubeconfig);
	if (!yyjson_mut_arr_size(arr))
		wrong(g, "Tandem does not run there: `tandem install%s`", at);
}

static void elsewhere(struct gather *g, const struct td_remote *remote)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_kube_free) struct td_kube *k = NULL;
	td_auto_objects struct td_objects clusters = {0}, sets = {0};
	if (td_kube_new(remote->kubeconfig, &k, &err)) {
		wrong(g, "%s", err.msg);
		return;
	}

	td_jm_str(g->d, g->root, "api", td_kube_server(k));
	workloads(g, k);

	if (td_kube_list(k, &td_slurmclusters, NULL, NULL, NULL, NULL, &clusters, &err) ||
	    td_kube_list(k, &td_nodesets, NULL, NULL, NULL, NULL, &sets, &err)) {
		td_auto_free char *at = td_cli_at(remote->kubeconfig);
		if (err.code == TD_NOT_FOUND)
			wrong(g, "the kinds SlurmCluster and NodeSet are not there: `tandem install%s`", at);
		else
			wrong(g, "%s", err.msg);
		return;
	}

	g->several = clusters.n > 1;
	nodes(g, k, &sets);
	yyjson_mut_val *arr = td_jm_arr(g->d, g->root, "clusters");
	for (size_t i = 0; i < clusters.n; i++)
		for (size_t j = 0; j < sets.n; j++) {
			const struct td_object *sc = clusters.v[i], *set = sets.v[j];
			td_auto_free char *name = td_asprintf("%s/%s", sc->ns, sc->name);
			if (strcmp(sc->ns, set->ns) || !td_streq(td_jstr(set->root, "spec.clusterName"), sc->name) ||
			    (remote->cluster && strcmp(remote->cluster, name)))
				continue;

			yyjson_mut_val *o = yyjson_mut_arr_add_obj(g->d, arr);
			td_jm_str(g->d, o, "name", name);
			td_jm_str(g->d, o, "nodeSet", set->name);
			slurm(g, o, sc, set);
		}
}

// Where people come in by ssh on this machine: the address of a login pod whose sshd is not turned off.
static void ssh(struct gather *g, struct td_kube *k, const struct td_object *sc)
{
	td_auto_objects struct td_objects l = {0};
	if (!td_jbool(sc->root, "spec.login.[0].ssh", true) ||
	    td_kube_list(k, &td_pods, sc->ns, TD_LABEL_NAME "=login", NULL, NULL, &l, NULL))
		return;
	for (size_t i = 0; i < l.n; i++) {
		const char *ip = td_jstr(l.v[i]->root, "status.podIP");
		if (ip && td_streq(td_object_label(l.v[i], TD_LABEL_LOGIN), td_jstr(sc->root, "spec.login.[0].name"))) {
			td_jm_str(g->d, g->root, "ssh", ip);
			return;
		}
	}
}

static void here(struct gather *g, const struct td_instance *i)
{
	struct td_error err = TD_ERROR_INIT;
	td_jm_str(g->d, g->root, "home", i->home);
	if (td_instance_supervisor(i) == 0 && access(i->run, F_OK) < 0) {
		wrong(g, "nothing runs: \"tandem up\" starts it");
		return;
	}

	roles(g, i);
	td_auto_free char *conf = td_instance_kubeconfig(i, "admin");
	td_auto(td_kube_free) struct td_kube *k = NULL;
	if (td_kube_new(conf, &k, &err)) {
		wrong(g, "%s", err.msg);
		return;
	}

	td_jm_str(g->d, g->root, "api", td_kube_server(k));
	if (td_kube_raw(k, "GET", "/readyz", NULL, NULL, NULL, &err)) {
		wrong(g, "the API at %s does not answer: %s", td_kube_server(k), err.msg);
		return;
	}

	td_auto(td_object_unref) struct td_object *sc = NULL, *set = NULL;
	if (i->slurm && (td_kube_get(k, &td_slurmclusters, "slurm", "main", NULL, &sc, &err) ||
			 td_kube_get(k, &td_nodesets, "slurm", "pool", NULL, &set, &err)))
		wrong(g, "Slurm: %s", err.msg);

	td_auto_objects struct td_objects sets = {0};
	if (set && td_kube_list(k, &td_nodesets, "slurm", NULL, NULL, NULL, &sets, &err))
		wrong(g, "Slurm: %s", err.msg);
	nodes(g, k, &sets);
	if (sc && set)
		slurm(g, td_jm_obj(g->d, g->root, "slurm"), sc, set);
	if (sc)
		ssh(g, k, sc);
}

int td_status_main(int argc, char **argv)
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
	const struct td_command line = {
		.name = "status",
		.about = "Shows the roles, the nodes and Slurm of $TANDEM_HOME, and what is wrong in words; with\n"
			 "--kubeconfig those of a cluster where Tandem was installed. Of services that hold GPUs: how "
			 "many,\n"
			 "how long, and the part of that time in which they computed.",
		.options = options,
		.n = TD_LEN(options),
		.exits = "0 all is well, 1 something is wrong or nothing runs, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	if (td_remote_check(&remote, &err))
		return td_command_wrong("status", "%s", err.msg);

	bool json = output != NULL;
	td_auto_instance struct td_instance i = {0};
	if (!remote.kubeconfig && td_instance_load(&i, &err)) {
		fprintf(stderr, "tandem status: %s\n", err.msg);
		return 1;
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	struct gather g = {d, yyjson_mut_doc_get_root(d), yyjson_mut_arr(d), &remote, false};
	if (remote.kubeconfig)
		elsewhere(&g, &remote);
	else
		here(&g, &i);

	bool bad = yyjson_mut_arr_size(g.wrong) > 0;
	td_jm_set(d, g.root, "wrong", g.wrong);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(g.root);

	if (json) {
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
	} else {
		table(td_json_root(j));
	}

	return bad ? 1 : 0;
}
