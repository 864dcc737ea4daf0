// tandem install, tandem uninstall: Tandem on a cluster, for people without helm. The objects are those of deploy/manifests/tandem.yaml.
#include "base/clock.h"
#include "cli/apply.h"
#include "cli/common.h"
#include "cli/remote.h"
#include "cmd/roles.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 180000, GONE_MS = 120000 };

static const char usage[] = "usage: tandem install [--kubeconfig FILE] [--image IMAGE] [--namespace NS] [--wait D]\n"
			    "                      [--kubelet URL|none] [--kubelet-ca FILE] [--dry-run] [-o json|yaml]\n"
			    "\n"
			    "Installs Tandem on the cluster of FILE (default $KUBECONFIG), or brings what is there\n"
			    "to this version: CRDs, rights, operator, agents. It waits until everything runs. What an\n"
			    "older version installed and this one does not have is then removed; kinds and namespaces\n"
			    "stay. Run it again whenever you like: what is as it should be is not touched.\n"
			    "\n"
			    "  --image IMAGE   Tandem's image (default tandem.dev/tandem:" TD_VERSION ")\n"
			    "  --namespace NS  where operator and bridges run (default tandem-system)\n"
			    "  --kubelet URL   where each node's agent asks its kubelet (default: port 10250 of the node's\n"
			    "                  InternalIP); $(NODE_NAME) in it is the node's name; none: nowhere\n"
			    "  --kubelet-ca F  a file on every node: what its kubelet's certificate is checked against\n"
			    "                  (default: the cluster's CA); see tandem-install(1) for kubeadm's clusters\n"
			    "  --wait D        how long to wait (default 3m; 0s: not at all)\n"
			    "  --dry-run       changes nothing, only says what would change\n"
			    "  -o json         the result as JSON;  --dry-run -o yaml: the objects themselves (needs no\n"
			    "                  cluster)\n"
			    "\n"
			    "Exit codes: 0 done, 1 failed, 2 wrong usage.\n";
static const char un_usage[] = "usage: tandem uninstall [--kubeconfig FILE] [--namespace NS] [--purge] [--dry-run] [-o json]\n"
			       "\n"
			       "Removes what `tandem install` made. SlurmClusters, NodeSets, their pods and the CRDs stay,\n"
			       "and with them Slurm and its jobs: install again and all goes on.\n"
			       "\n"
			       "  --purge    also every SlurmCluster and NodeSet with all its jobs, the CRDs and the\n"
			       "             namespaces of Tandem itself\n"
			       "  --dry-run  changes nothing, only says what would go\n"
			       "\n"
			       "Exit codes: 0 done, 1 failed, 2 wrong usage.\n";

struct options {
	const char *kubeconfig, *image, *ns, *output, *kubelet, *kubelet_ca;
	bool dry_run, purge;
	int64_t wait_ms;
};

// 0 go on; else an exit code + 1.
static int parse(const char *cmd, int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {{"kubeconfig", 1, 0, 'k'},
					      {"image", 1, 0, 'i'},
					      {"namespace", 1, 0, 'n'},
					      {"dry-run", 0, 0, 'd'},
					      {"output", 1, 0, 'o'},
					      {"wait", 1, 0, 'w'},
					      {"purge", 0, 0, 'p'},
					      {"kubelet", 1, 0, 'u'},
					      {"kubelet-ca", 1, 0, 'a'},
					      {"help", 0, 0, 'h'},
					      {0}};
	bool un = !strcmp(cmd, "uninstall");
	*o = (struct options){.wait_ms = WAIT_MS};
	opterr = 0;
	optind = 0;
	for (int c; (c = getopt_long(argc, argv, "n:o:h", longs, NULL)) >= 0;) {
		if (c == 'h')
			return fputs(un ? un_usage : usage, stdout), 1;
		if (c == 'k')
			o->kubeconfig = optarg;
		else if (c == 'i' && !un)
			o->image = optarg;
		else if (c == 'n')
			o->ns = optarg;
		else if (c == 'u' && !un)
			o->kubelet = optarg;
		else if (c == 'a' && !un)
			o->kubelet_ca = optarg;
		else if (c == 'd')
			o->dry_run = true;
		else if (c == 'p' && un)
			o->purge = true;
		else if (c == 'o' && (!strcmp(optarg, "json") || (!strcmp(optarg, "yaml") && !un)))
			o->output = optarg;
		else if (c == 'w' && !un && td_cli_duration(optarg, &o->wait_ms))
			continue;
		else
			return td_cli_usage(cmd, "\"%s\" is not understood", argv[optind - 1]) + 1;
	}
	if (optind < argc)
		return td_cli_usage(cmd, "what is \"%s\"?", argv[optind]) + 1;
	if (td_streq(o->output, "yaml") && !o->dry_run)
		return td_cli_usage(cmd, "-o yaml goes with --dry-run") + 1;
	return 0;
}

struct out {
	yyjson_mut_doc *d;
	yyjson_mut_val *objects;
	bool json;
	size_t n[TD_APPLIED_N];
	bool dry_run;
};

static void tell(struct out *o, const yyjson_val *v, const char *result)
{
	yyjson_mut_val *x = yyjson_mut_arr_add_obj(o->d, o->objects);
	td_jm_str(o->d, x, "kind", td_jstr(v, "kind"));
	td_jm_str(o->d, x, "namespace", td_jstr(v, "metadata.namespace"));
	td_jm_str(o->d, x, "name", td_jstr(v, "metadata.name"));
	td_jm_str(o->d, x, "result", result);
	if (!o->json && strcmp(result, "unchanged")) {
		const char *ns = td_jstr(v, "metadata.namespace");
		printf("           %s %s%s%s %s\n", td_jstr(v, "kind"), ns ? ns : "", ns ? "/" : "", td_jstr(v, "metadata.name"), result);
	}
}

static void finish(struct out *o)
{
	if (!o->json)
		return;
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(o->d));
	td_auto_free char *text = td_json_pretty(td_json_root(j));
	puts(text);
}

// Two masters would undo each other's work.
int td_cli_not_helm(struct td_kube *k, const char *ns, struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_kube_get(k, &td_deployments, ns, "tandem-operator", c, &o, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : r;
	if (td_streq(td_object_label(o, "app.kubernetes.io/managed-by"), "Helm"))
		return td_fail(err, TD_CONFLICT, "helm installed Tandem in namespace %s: use `helm upgrade` or `helm uninstall`", ns);
	return 0;
}

int td_cli_install(struct td_kube *k, const struct td_manifests *m, bool dry_run,
		   void (*tell_one)(void *ctx, const yyjson_val *obj, enum td_applied what), void *ctx, struct td_cancel *c,
		   struct td_error *err)
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
	struct out *o = ctx;
	o->n[what]++;
	tell(o, obj, what == TD_REMOVED && o->dry_run ? "would go" : td_applied_text(what));
}

// `up` means a cluster only when it is told so: what KUBECONFIG names is said, too.
static void next_steps(const struct options *o)
{
	const char *env = getenv("KUBECONFIG");
	td_auto_free char *at = td_cli_at(o->kubeconfig);
	td_auto_buf struct td_buf up = {0};
	td_cli_word(&up, "--kubeconfig", o->kubeconfig ? o->kubeconfig : env && *env ? env : "FILE");
	td_cli_word(&up, "--namespace", o->ns);
	td_cli_word(&up, "--image", o->image);
	td_cli_word(&up, "--kubelet", o->kubelet);
	td_cli_word(&up, "--kubelet-ca", o->kubelet_ca);
	printf("\nNext: tandem up%s     # a first Slurm cluster, and what to try there\n"
	       "  or: kubectl%s apply -f YOUR-CLUSTER.yaml\n",
	       td_buf_str(&up), at);
}

static int install(const struct options *o, struct out *out, struct td_cancel *c, struct td_error *err)
{
	td_auto_manifests struct td_manifests m = {0};
	int r = td_cli_tandem(o->ns, o->image, &m, err);
	if (r || (r = td_cli_kubelets(&m, o->kubelet, o->kubelet_ca, err)))
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
	if ((r = td_kube_new(o->kubeconfig, &k, err)) || (r = td_cli_not_helm(k, o->ns ? o->ns : TD_CLI_NAMESPACE, c, err)))
		return r;
	td_progress_step(&p, "objects");
	p.open = 0; // lines about single objects come now
	r = td_cli_install(k, &m, o->dry_run, told, out, c, err);
	if (!r && !out->json)
		td_progress_done(&p, "%s: %zu objects: %zu created, %zu changed, %zu as they should be%s", td_kube_server(k), m.docs.n,
				 out->n[TD_CREATED], out->n[TD_CHANGED], out->n[TD_UNCHANGED], o->dry_run ? " (dry run)" : "");
	if (!r && !o->dry_run && o->wait_ms)
		r = td_cli_rollout(k, &m, td_mono_ms(&td_clock_system) + o->wait_ms, out->json ? NULL : &p, c, err);
	if (!r)
		r = td_cli_prune(k, &m, o->dry_run, told, out, c, err);
	if (!r && !out->json && !o->dry_run)
		next_steps(o);
	return r;
}

// Both commands: flags, the work, what is said at the end. Returns the exit code.
static int command(const char *name, int argc, char **argv,
		   int (*work)(const struct options *o, struct out *out, struct td_cancel *c, struct td_error *err))
{
	struct options o;
	int r = parse(name, argc, argv, &o);
	if (r)
		return r - 1;
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_cancel_on_signals(c);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	struct out out = {d, td_jm_arr(d, yyjson_mut_doc_get_root(d), "objects"), td_streq(o.output, "json"), {0}, o.dry_run};
	r = work(&o, &out, c, &err);
	if (r)
		fprintf(stderr, "tandem %s: %s\n", name, err.msg);
	else
		finish(&out);
	return r ? r == TD_INVALID && !err.http && td_starts(err.msg, "--") ? 2 : 1 : 0;
}

int td_install_main(int argc, char **argv)
{
	return command("install", argc, argv, install);
}

// ---- uninstall ----

static int gone(struct td_kube *k, const struct td_gvr *g, const char *ns, const char *name, bool dry_run, struct out *out,
		struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_kube_get(k, g, ns, name, c, &o, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : r;
	const struct td_delete del = {.uid = o->uid, .grace_s = -1, .propagation = "Background"};
	if (!dry_run && (r = td_kube_delete(k, g, ns, name, &del, c, err)) && r != TD_NOT_FOUND)
		return td_wrap(err, "deleting %s %s", g->kind, name);
	out->n[TD_CHANGED]++;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(o->root);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "kind", g->kind);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	tell(out, td_json_root(j), dry_run ? "would go" : "deleted");
	return 0;
}

// Every object of a kind, with labels or all.
static int all_gone(struct td_kube *k, const struct td_gvr *g, const char *ns, const char *labels, bool dry_run, struct out *out,
		    struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	int r = td_kube_list(k, g, ns, labels, NULL, c, &l, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : r; // not even the kind is there
	for (size_t i = 0; i < l.n && !r; i++)
		r = gone(k, g, *l.v[i]->ns ? l.v[i]->ns : NULL, l.v[i]->name, dry_run, out, c, err);
	return r;
}

// Slurm's pods end while the operator is there to see to them.
static int wait_clusters(struct td_kube *k, const char *kubeconfig, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *at = td_cli_at(kubeconfig);
	int64_t end = td_mono_ms(&td_clock_system) + GONE_MS;
	for (;;) {
		td_auto_objects struct td_objects l = {0};
		int r = td_kube_list(k, &td_pods, NULL, "tandem.dev/cluster,app.kubernetes.io/name!=tandem-bridge", NULL, c, &l, err);
		if (r || !l.n)
			return r;
		if (td_mono_ms(&td_clock_system) > end)
			return td_fail(err, TD_TRANSIENT,
				       "%zu pods of Slurm are still there, %s/%s for one: see `kubectl%s -n %s describe pod %s`", l.n,
				       l.v[0]->ns, l.v[0]->name, at, l.v[0]->ns, l.v[0]->name);
		if (td_cancel_wait(c, 200))
			return td_fail(err, TD_CANCELLED, "cancelled");
	}
}

static int uninstall(const struct options *o, struct out *out, struct td_cancel *c, struct td_error *err)
{
	const char *ns = o->ns ? o->ns : TD_CLI_NAMESPACE, *bridges = "app.kubernetes.io/managed-by=tandem,tandem.dev/cluster-namespace";
	td_auto_manifests struct td_manifests m = {0};
	td_auto(td_kube_free) struct td_kube *k = NULL;
	int r = td_cli_tandem(o->ns, NULL, &m, err);
	if (r || (r = td_kube_new(o->kubeconfig, &k, err)) || (r = td_cli_not_helm(k, ns, c, err)))
		return r;
	if (o->purge && ((r = all_gone(k, &td_slurmclusters, NULL, NULL, o->dry_run, out, c, err)) ||
			 (r = all_gone(k, &td_nodesets, NULL, NULL, o->dry_run, out, c, err)) ||
			 (!o->dry_run && (r = wait_clusters(k, o->kubeconfig, c, err)))))
		return r;
	for (size_t i = m.docs.n; i-- > 0;) { // the other way round
		yyjson_val *v = td_json_root(m.docs.v[i]);
		const struct td_gvr *g = td_cli_gvr(v);
		if (!g || (!o->purge && (g == &td_crds || g == &td_namespaces)))
			continue;
		if ((r = gone(k, g, td_jstr(v, "metadata.namespace"), td_jstr(v, "metadata.name"), o->dry_run, out, c, err)))
			return r;
	}
	// Now that the operator has no rights any more, nobody makes them anew.
	static const struct td_gvr *const made[] = {&td_deployments, &td_pdbs, &td_services, &td_secrets};
	for (size_t j = 0; j < TD_LEN(made); j++)
		if ((r = all_gone(k, made[j], ns, bridges, o->dry_run, out, c, err)))
			return r;
	if ((r = td_cli_prune(k, &m, o->dry_run, told, out, c, err)))
		return r;
	if (!out->json && !out->n[TD_CHANGED] && !out->n[TD_REMOVED])
		puts("nothing of Tandem is there");
	return 0;
}

int td_uninstall_main(int argc, char **argv)
{
	return command("uninstall", argc, argv, uninstall);
}
