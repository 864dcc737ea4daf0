// tandem install and tandem uninstall: Tandem on a cluster, for people without helm. The objects
// are those of deploy/manifests/tandem.yaml.
#include "base/clock.h"
#include "base/names.h"
#include "base/options.h"
#include "base/term.h"
#include "cli/apply.h"
#include "cli/common.h"
#include "cli/remote.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 180000, GONE_MS = 120000 };

struct install_opts {
	const char *kubeconfig, *image, *ns, *output;
	struct td_cli_agents agents;
	bool dry_run, purge, yes;
	int64_t wait_ms;
};

// Parses the command line. false: end with *ret_exit.
static bool read_install(int argc, char **argv, struct install_opts *o, int *ret_exit)
{
	*o = (struct install_opts){.wait_ms = WAIT_MS};

	const struct td_option options[] = {
		{.name = "kubeconfig",
		 .value = "FILE",
		 .help = "which cluster (default $KUBECONFIG)",
		 TD_OPT_TEXT(&o->kubeconfig)},
		{.name = "image",
		 .value = "IMAGE",
		 .help = "Tandem's image (default tandem.dev/tandem:" TD_VERSION ")",
		 TD_OPT_TEXT(&o->image)},
		{.name = "namespace",
		 .letter = 'n',
		 .value = "NS",
		 .help = "where operator and bridges run (default tandem-system)",
		 TD_OPT_TEXT(&o->ns)},
		{.name = "kubelet",
		 .value = "URL",
		 TD_OPT_TEXT(&o->agents.kubelet),
		 .help = "where each node's agent asks its kubelet (default: port 10250 of the node's\n"
			 "InternalIP); $(NODE_NAME) in it is the node's name; none: nowhere"},
		{.name = "kubelet-ca",
		 .value = "FILE",
		 TD_OPT_TEXT(&o->agents.kubelet_ca),
		 .help = "a file on every node: what its kubelet's certificate is checked against\n"
			 "(default: the cluster's CA); see tandem-install(1) for kubeadm's clusters"},
		{.name = "seccomp-profiles",
		 .value = "NAME",
		 TD_OPT_TEXT(&o->agents.seccomp_profiles),
		 .help = "a ConfigMap in tandem-node, a profile of system calls in each key: the agents\n"
			 "bring them to their nodes' /var/lib/kubelet/seccomp (default: none)"},
		{.name = "wait",
		 .value = "D",
		 .help = "how long to wait (default 3m; 0s: not at all)",
		 TD_OPT_DURATION(&o->wait_ms)},
		{.name = "dry-run", .help = "changes nothing, only says what would change", TD_OPT_SWITCH(&o->dry_run)},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 TD_OPT_TEXT(&o->output),
		 .choices = "json|yaml",
		 .help = "json: the result for machines; yaml, with --dry-run: the objects themselves\n(needs no "
			 "cluster)"},
	};

	const struct td_command line = {
		.name = "install",
		.about = "Installs Tandem on the cluster of --kubeconfig, or brings what is there to this version:\n"
			 "CRDs, rights, operator, agents. It waits until everything runs. What an older version\n"
			 "installed and this one does not have is then removed; kinds and namespaces stay. Run it\n"
			 "again whenever you like: what is as it should be is not touched.",
		.options = options,
		.n = TD_LEN(options)};

	if (!td_command_line(&line, argc, argv, NULL, ret_exit))
		return false;
	if (!td_streq(o->output, "yaml") || o->dry_run)
		return true;
	*ret_exit = td_command_wrong("install", "-o yaml goes with --dry-run");
	return false;
}

static bool read_uninstall(int argc, char **argv, struct install_opts *o, int *ret_exit)
{
	*o = (struct install_opts){0};

	const struct td_option options[] = {
		{.name = "kubeconfig",
		 .value = "FILE",
		 .help = "which cluster (default $KUBECONFIG)",
		 TD_OPT_TEXT(&o->kubeconfig)},
		{.name = "namespace",
		 .letter = 'n',
		 .value = "NS",
		 .help = "where operator and bridges run (default tandem-system)",
		 TD_OPT_TEXT(&o->ns)},
		{.name = "purge",
		 TD_OPT_SWITCH(&o->purge),
		 .help = "also every SlurmCluster and NodeSet with all its jobs, Tenants, the CRDs and\nthe namespaces "
			 "of "
			 "Tandem itself"},
		{.name = "yes", .letter = 'y', .help = "do not ask before --purge", TD_OPT_SWITCH(&o->yes)},
		{.name = "dry-run", .help = "changes nothing, only says what would go", TD_OPT_SWITCH(&o->dry_run)},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: the result for machines",
		 TD_OPT_TEXT(&o->output),
		 .choices = "json"},
	};

	const struct td_command line = {
		.name = "uninstall",
		.about = "Removes what `tandem install` made. SlurmClusters, NodeSets, their pods and the CRDs stay,\n"
			 "and with them Slurm and its jobs: install again and all goes on.",
		.options = options,
		.n = TD_LEN(options)};

	return td_command_line(&line, argc, argv, NULL, ret_exit);
}

struct install_out {
	yyjson_mut_doc *d;
	yyjson_mut_val *objects;
	bool json;
	size_t n[TD_APPLIED_N];
	bool dry_run;
};

static void tell(struct install_out *o, const yyjson_val *v, const char *result)
{
	yyjson_mut_val *x = yyjson_mut_arr_add_obj(o->d, o->objects);
	td_jm_str(o->d, x, "kind", td_jstr(v, "kind"));
	td_jm_str(o->d, x, "namespace", td_jstr(v, "metadata.namespace"));
	td_jm_str(o->d, x, "name", td_jstr(v, "metadata.name"));
	td_jm_str(o->d, x, "result", result);
	if (!o->json && strcmp(result, "unchanged")) {
		const char *ns = td_jstr(v, "metadata.namespace");
		printf("           %s %s%s%s %s\n", td_jstr(v, "kind"), ns ? ns : "", ns ? "/" : "",
		       td_jstr(v, "metadata.name"), result);
	}
}

static void finish(struct install_out *o)
{
	if (!o->json)
		return;
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(o->d));
	td_auto_free char *text = td_json_pretty(td_json_root(j));
	puts(text);
}

// Refuses an installation that helm manages: two managers would undo each other's work.
int td_cli_not_helm(struct td_kube *k, const char *ns, struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_kube_get(k, &td_deployments, ns, "tandem-operator", c, &o, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : r;
	if (td_streq(td_object_label(o, "app.kubernetes.io/managed-by"), "Helm"))
		return td_fail(err, TD_CONFLICT,
			       "helm installed Tandem in namespace %s: use `helm upgrade` or `helm uninstall`", ns);
	return 0;
}

int td_cli_install(struct td_kube *k, const struct td_cli_manifests *m, bool dry_run,
		   void (*tell_one)(void *ctx, const yyjson_val *obj, enum td_applied what), void *ctx,
		   struct td_cancel *c, struct td_error *err)
{
	for (size_t i = 0; i < m->docs.n; i++) {
		enum td_applied what;
		yyjson_val *v = td_json_root(m->docs.v[i]);
		int r = td_cli_apply(k, v, dry_run, c, &what, err);
		if (r)
			return r;
		tell_one(ctx, v, what);
	}
	return 0;
}

static void told(void *ctx, const yyjson_val *obj, enum td_applied what)
{
	struct install_out *o = ctx;
	o->n[what]++;
	tell(o, obj, what == TD_REMOVED && o->dry_run ? "would go" : td_applied_text(what));
}

// Prints what to do next. `tandem up` uses a cluster only with --kubeconfig, so the hint names the
// file even when it comes from KUBECONFIG.
static void next_steps(const struct install_opts *o)
{
	const char *env = getenv("KUBECONFIG");
	td_auto_free char *at = td_cli_at(o->kubeconfig);
	td_auto_buf struct td_buf up = {0};

	td_cli_word(&up, "--kubeconfig", o->kubeconfig ? o->kubeconfig : env && *env ? env : "FILE");
	td_cli_word(&up, "--namespace", o->ns);
	td_cli_word(&up, "--image", o->image);
	td_cli_word(&up, "--kubelet", o->agents.kubelet);
	td_cli_word(&up, "--kubelet-ca", o->agents.kubelet_ca);
	td_cli_word(&up, "--seccomp-profiles", o->agents.seccomp_profiles);

	printf("\nNext: tandem up%s     # a first Slurm cluster, and what to try there\n"
	       "  or: kubectl%s apply -f YOUR-CLUSTER.yaml\n",
	       td_buf_str(&up), at);
}

static int install(const struct install_opts *o, struct install_out *out, struct td_cancel *c, struct td_error *err)
{
	td_auto_manifests struct td_cli_manifests m = {0};
	int r = td_cli_tandem(o->ns, o->image, &m, err);
	if (r || (r = td_cli_agents(&m, &o->agents, err)))
		return r;

	if (td_streq(o->output, "yaml")) {
		for (size_t i = 0; i < m.docs.n; i++) {
			td_auto_free char *text = td_yaml_text(td_json_root(m.docs.v[i]));
			printf("%s%s", i ? "---\n" : "", text);
		}
		return 0;
	}

	td_auto(td_kube_free) struct td_kube *k = NULL;
	struct td_progress p;
	td_progress_init(&p);
	if ((r = td_kube_new(o->kubeconfig, &k, err)) ||
	    (r = td_cli_not_helm(k, o->ns ? o->ns : TD_CLI_NAMESPACE, c, err)))
		return r;

	td_progress_step(&p, "objects");
	p.open = 0; // lines about single objects follow
	r = td_cli_install(k, &m, o->dry_run, told, out, c, err);
	if (!r && !out->json)
		td_progress_done(&p, "%s: %zu objects: %zu created, %zu changed, %zu as they should be%s",
				 td_kube_server(k), m.docs.n, out->n[TD_CREATED], out->n[TD_CHANGED],
				 out->n[TD_UNCHANGED], o->dry_run ? " (dry run)" : "");

	if (!r && !o->dry_run && o->wait_ms)
		r = td_cli_rollout(k, &m, td_mono_ms(&td_clock_system) + o->wait_ms, out->json ? NULL : &p, c, err);
	if (!r)
		r = td_cli_prune(k, &m, o->dry_run, told, out, c, err);

	if (!r && !out->json && !o->dry_run) {
		td_cli_tell_kubelets(k, o->agents.kubelet, c);
		next_steps(o);
	}
	return r;
}

// Runs one of the two commands and reports its result. Returns the exit code.
static int command(const char *name, const struct install_opts *o,
		   int (*work)(const struct install_opts *o, struct install_out *out, struct td_cancel *c,
			       struct td_error *err))
{
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_cancel_on_signals(c);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	struct install_out out = {
		d, td_jm_arr(d, yyjson_mut_doc_get_root(d), "objects"), td_streq(o->output, "json"), {0}, o->dry_run};

	int r = work(o, &out, c, &err);
	if (r)
		fprintf(stderr, "tandem %s: %s\n", name, err.msg);
	else
		finish(&out);
	return r ? r == TD_INVALID && !err.http && err.detail == TD_CLI_USAGE ? 2 : 1 : 0;
}

int td_install_main(int argc, char **argv)
{
	struct install_opts o;
	int code;
	return read_install(argc, argv, &o, &code) ? command("install", &o, install) : code;
}

// ---- uninstall ----

static int gone(struct td_kube *k, const struct td_gvr *g, const char *ns, const char *name, bool dry_run,
		struct install_out *out, struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_kube_get(k, g, ns, name, c, &o, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : r;

	const struct td_kube_delete_opts del = {.uid = o->uid, .grace_s = -1, .propagation = "Background"};
	if (!dry_run && (r = td_kube_delete(k, g, ns, name, &del, c, err)) && r != TD_NOT_FOUND)
		return td_wrap(err, "deleting %s %s", g->kind, name);

	out->n[TD_CHANGED]++;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(o->root);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "kind", g->kind);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	tell(out, td_json_root(j), dry_run ? "would go" : "deleted");

	return 0;
}

// Deletes every object of a kind, or those with the labels.
static int all_gone(struct td_kube *k, const struct td_gvr *g, const char *ns, const char *labels, bool dry_run,
		    struct install_out *out, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	int r = td_kube_list(k, g, ns, labels, NULL, c, &l, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : r; // not even the kind exists
	for (size_t i = 0; i < l.n && !r; i++)
		r = gone(k, g, *l.v[i]->ns ? l.v[i]->ns : NULL, l.v[i]->name, dry_run, out, c, err);
	return r;
}

// Waits until every object of a kind, or those with the labels, is gone. *ret: what is there still when that takes too long.
static int wait_gone(struct td_kube *k, const struct td_gvr *g, const char *labels, struct td_cancel *c,
		     struct td_objects *ret, struct td_error *err)
{
	int64_t end = td_mono_ms(&td_clock_system) + GONE_MS;
	for (;;) {
		int r = td_kube_list(k, g, NULL, labels, NULL, c, ret, err);
		if (r || !ret->n || td_mono_ms(&td_clock_system) > end)
			return r;
		td_objects_done(ret);
		if (td_cancel_wait(c, 200))
			return td_fail(err, TD_CANCELLED, "cancelled");
	}
}

// Slurm's pods, because the operator must still run while they end.
static int wait_clusters(struct td_kube *k, const char *kubeconfig, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *at = td_cli_at(kubeconfig);
	td_auto_objects struct td_objects l = {0};
	int r = wait_gone(k, &td_pods, TD_LABEL_CLUSTER "," TD_LABEL_NAME "!=tandem-bridge", c, &l, err);
	if (r || !l.n)
		return r;
	return td_fail(err, TD_TRANSIENT,
		       "%zu pods of Slurm are still there, %s/%s for one: see `kubectl%s -n %s describe pod %s`", l.n,
		       l.v[0]->ns, l.v[0]->name, at, l.v[0]->ns, l.v[0]->name);
}

// The Tenants: the operator takes off their finalizer, and without it their kind never ends.
static int wait_tenants(struct td_kube *k, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	int r = wait_gone(k, &td_tenants, NULL, c, &l, err);
	if (r || !l.n)
		return r == TD_NOT_FOUND ? 0 : r; // not even the kind exists
	return td_fail(err, TD_TRANSIENT,
		       "%zu Tenants are still there, %s for one: does the operator run? `kubectl describe tenant %s` "
		       "says for what it waits",
		       l.n, l.v[0]->name, l.v[0]->name);
}

// Before a purge: asks when there is a SlurmCluster to lose.
static int agree(struct td_kube *k, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	int r = td_kube_list(k, &td_slurmclusters, NULL, NULL, NULL, c, &l, err);
	if (r || !l.n)
		return r == TD_NOT_FOUND ? 0 : r;

	td_auto_free char *question = td_asprintf(
		"At %s, --purge ends Slurm and all its jobs: %zu SlurmCluster%s, %s/%s%s.", td_kube_server(k), l.n,
		l.n > 1 ? "s" : "", l.v[0]->ns, l.v[0]->name, l.n > 1 ? " and others" : "");
	if ((r = td_term_agree(question, err)) == TD_INVALID)
		err->detail = TD_CLI_USAGE;
	return r;
}

// Says what is there still, and what to do with it. none: nothing had to go, so nothing else may be there either.
static void stays(struct td_kube *k, const struct install_opts *o, bool none, struct td_cancel *c)
{
	td_auto_objects struct td_objects l = {0};
	td_auto_free char *at = td_cli_at(o->kubeconfig);
	const char *verb = o->dry_run ? "would stay" : "stays";
	if (o->purge && none)
		return;
	if (o->purge) {
		printf("\nWhat people made %s: namespaces of clusters and Tenants, with their claims\n"
		       "and Secrets, and what Slurm kept in directories of nodes.\n",
		       verb);
		return;
	}
	bool gone_too = td_kube_list(k, &td_slurmclusters, NULL, NULL, NULL, c, &l, NULL) == TD_NOT_FOUND;
	if (gone_too && none)
		return;
	if (!l.n)
		printf("\nThe kinds (CRDs), the PriorityClass and the namespaces of Tandem %s.\n",
		       o->dry_run ? "would stay" : "stay");
	else
		printf("\nSlurm %s with its jobs: %zu SlurmCluster%s (%s/%s%s), NodeSets and pods;\n"
		       "so do the kinds (CRDs), the PriorityClass and the namespaces of Tandem. Pods that\n"
		       "people make wait meanwhile.\n",
		       verb, l.n, l.n > 1 ? "s" : "", l.v[0]->ns, l.v[0]->name, l.n > 1 ? ", …" : "");
	printf("To go on with it: tandem install%s\nTo remove it all: tandem uninstall%s --purge\n", at, at);
}

static int uninstall(const struct install_opts *o, struct install_out *out, struct td_cancel *c, struct td_error *err)
{
	const char *ns = o->ns ? o->ns : TD_CLI_NAMESPACE,
		   *bridges = "app.kubernetes.io/managed-by=tandem," TD_LABEL_CLUSTER_NS;
	td_auto_manifests struct td_cli_manifests m = {0};
	td_auto(td_kube_free) struct td_kube *k = NULL;

	int r = td_cli_tandem(o->ns, NULL, &m, err);
	if (r || (r = td_kube_new(o->kubeconfig, &k, err)) || (r = td_cli_not_helm(k, ns, c, err)))
		return r;

	if (o->purge && !o->dry_run && !o->yes && (r = agree(k, c, err)))
		return r;
	if (o->purge && ((r = all_gone(k, &td_slurmclusters, NULL, NULL, o->dry_run, out, c, err)) ||
			 (r = all_gone(k, &td_nodesets, NULL, NULL, o->dry_run, out, c, err)) ||
			 (!o->dry_run && (r = wait_clusters(k, o->kubeconfig, c, err))) ||
			 (r = all_gone(k, &td_tenants, NULL, NULL, o->dry_run, out, c, err)) ||
			 (!o->dry_run && (r = wait_tenants(k, c, err)))))
		return r;

	for (size_t i = m.docs.n; i-- > 0;) { // in the reverse order
		yyjson_val *v = td_json_root(m.docs.v[i]);
		const struct td_gvr *g = td_cli_gvr(v);
		// Slurm goes on, and the pods that its controllers make name the PriorityClass.
		bool stays = g == &td_crds || g == &td_namespaces || g == &td_priorityclasses;
		if (!g || (!o->purge && stays))
			continue;
		if ((r = gone(k, g, td_jstr(v, "metadata.namespace"), td_jstr(v, "metadata.name"), o->dry_run, out, c,
			      err)))
			return r;
	}

	// The operator has no rights any more, so nobody creates these again.
	static const struct td_gvr *const made[] = {&td_deployments, &td_pdbs, &td_services, &td_secrets};
	for (size_t j = 0; j < TD_LEN(made); j++)
		if ((r = all_gone(k, made[j], ns, bridges, o->dry_run, out, c, err)))
			return r;

	if ((r = td_cli_prune(k, &m, o->dry_run, told, out, c, err)))
		return r;

	bool none = !out->n[TD_CHANGED] && !out->n[TD_REMOVED];
	if (!out->json && none)
		puts("nothing of Tandem runs there");
	if (!out->json)
		stays(k, o, none, c);
	return 0;
}

int td_uninstall_main(int argc, char **argv)
{
	struct install_opts o;
	int code;
	return read_uninstall(argc, argv, &o, &code) ? command("uninstall", &o, uninstall) : code;
}
