// tandem up --kubeconfig: installs Tandem on an existing cluster, makes a first Slurm cluster, and
// prints what to try.
#include "base/clock.h"
#include "base/names.h"
#include "cli/apply.h"
#include "cli/common.h"
#include "cli/remote.h"
#include "cli/up.h"

#include <stdio.h>
#include <string.h>

// Chooses the node where slurmctld keeps its state: that of an existing SlurmCluster slurm/main,
// else the first node that takes pods.
static int choose_node(struct td_kube *k, char **ret, struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = NULL;
	int r = td_kube_get(k, &td_slurmclusters, "slurm", "main", c, &sc, err);
	const char *at = sc ? td_jstr(sc->root, "spec.controller.storage.hostPath.node") : NULL;

	if (r && r != TD_NOT_FOUND)
		return r;
	if (at) {
		*ret = td_strdup(at);
		return 0;
	}

	td_auto_objects struct td_objects l = {0};
	if ((r = td_kube_list(k, &td_nodes, NULL, NULL, NULL, c, &l, err)))
		return r;

	for (size_t i = 0; i < l.n; i++) {
		const char *host = td_object_label(l.v[i], "kubernetes.io/hostname");
		if (host && !yyjson_arr_size(td_jget(l.v[i]->root, "spec.taints")) &&
		    !td_jbool(l.v[i]->root, "spec.unschedulable", false)) {
			*ret = td_strdup(host);
			return 0;
		}
	}

	return td_fail(err, TD_NOT_FOUND, "none of the %zu nodes takes pods: each has a taint or is cordoned", l.n);
}

static int wait_slurm(struct td_kube *k, const char *at, int64_t end, struct td_progress *p, struct td_cancel *c,
		      struct td_error *err)
{
	td_progress_step(p, "Slurm");
	for (;;) {
		td_auto(td_object_unref) struct td_object *set = NULL, *sc = NULL;
		int r = td_kube_get(k, &td_nodesets, "slurm", "pool", c, &set, err);
		if (!r)
			r = td_kube_get(k, &td_slurmclusters, "slurm", "main", c, &sc, err);

		yyjson_val *st = set ? td_jget(set->root, "status") : NULL;
		long long want = td_jint(st, "desired", 0), ready = td_jint(st, "ready", 0),
			  in = td_jint(st, "idle", 0) + td_jint(st, "allocated", 0) + td_jint(st, "drained", 0) +
			       td_jint(st, "draining", 0);

		if (r == TD_CANCELLED || r == TD_DENIED)
			return r;
		if (!r && want && in >= want) {
			td_progress_done(p, "Slurm: %lld nodes", in);
			return 0;
		}

		if (want)
			td_progress_bar(p, (int)(in * 100 / want), "nodes");

		if (td_mono_ms(&td_clock_system) > end) {
			td_progress_fail(p);
			return td_fail(err, TD_TRANSIENT,
				       "%lld of %lld Slurm nodes are up (%lld slurmd pods are ready): see `tandem "
				       "status%s` and `kubectl%s -n slurm get pods`",
				       in, want, ready, at, at);
		}

		if (td_cancel_wait(c, 200))
			return td_fail(err, TD_CANCELLED, "cancelled");
	}
}

// Tells of an object of an older version that was deleted after the new one runs.
static void gone(void *ctx, const yyjson_val *obj, enum td_applied what)
{
	printf("           %s %s %s\n", td_jstr(obj, "kind"), td_jstr(obj, "metadata.name"), td_applied_text(what));
}

static void count(void *ctx, const yyjson_val *obj, enum td_applied what)
{
	((size_t *)ctx)[what]++;
}

static int apply(struct td_kube *k, const struct td_cli_manifests *m, const char *what, struct td_progress *p,
		 struct td_cancel *c, struct td_error *err)
{
	size_t n[TD_APPLIED_N] = {0};
	td_progress_step(p, "%s", what);
	int r = td_cli_install(k, m, false, count, n, c, err);
	if (!r)
		td_progress_done(p, "%s: %zu created, %zu changed, %zu as they should be", what, n[TD_CREATED],
				 n[TD_CHANGED], n[TD_UNCHANGED]);
	else
		td_progress_fail(p);
	return r;
}

static int up(const struct td_cli_up_opts *o, struct td_cancel *c, struct td_error *err)
{
	td_auto_manifests struct td_cli_manifests m = {0}, mine = {0};
	td_auto(td_kube_free) struct td_kube *k = NULL;
	td_auto_free char *node = NULL, *at = td_cli_at(o->kubeconfig);
	struct td_progress p;
	td_progress_init(&p);

	const char *ns = o->ns ? o->ns : TD_CLI_NAMESPACE;
	int r = td_cli_tandem(o->ns, o->image, &m, err);
	if (r || (r = td_cli_agents(&m, &o->agents, err)) || (r = td_kube_new(o->kubeconfig, &k, err)))
		return r;

	r = td_cli_not_helm(k, ns, c, err);
	if (r && r != TD_CONFLICT)
		return r;

	const bool helm = r == TD_CONFLICT; // it manages Tandem itself, and says this of kubelets in its notes
	if (helm)
		printf("           Tandem in namespace %s was installed by helm: left as it is\n", ns);
	else if ((r = apply(k, &m, "Tandem", &p, c, err)) ||
		 (r = td_cli_rollout(k, &m, td_mono_ms(&td_clock_system) + o->wait_ms, &p, c, err)) ||
		 (r = td_cli_prune(k, &m, false, gone, NULL, c, err)))
		return r;

	if ((r = choose_node(k, &node, c, err)) || (r = td_cli_example(node, &mine, err)) ||
	    (r = apply(k, &mine, "SlurmCluster slurm/main", &p, c, err)) ||
	    (r = wait_slurm(k, at, td_mono_ms(&td_clock_system) + o->wait_ms, &p, c, err)))
		return r;

	td_auto_objects struct td_objects bridges = {0};
	r = td_kube_list(k, &td_deployments, ns, TD_LABEL_CLUSTER_NS "=slurm," TD_LABEL_CLUSTER "=main", NULL, c,
			 &bridges, err);
	for (size_t i = 0; i < bridges.n && !r; i++)
		r = td_cli_rollout_one(k, &td_deployments, ns, bridges.v[i]->name,
				       td_mono_ms(&td_clock_system) + o->wait_ms, &p, c, err);

	if (r)
		return r;

	printf("%7.2f s  up\n", td_progress_total_s(&p));
	if (!helm)
		td_cli_tell_kubelets(k, o->agents.kubelet, c);
	return 0;
}

static void tour(const struct td_cli_up_opts *o)
{
	td_auto_free char *at = td_cli_at(o->kubeconfig),
			  *why = td_remote_words(&(struct td_remote){.kubeconfig = o->kubeconfig, .namespace = o->ns});
	printf("\nTry it:\n"
	       "  tandem shell%s -- sinfo\n"
	       "  tandem shell%s -- srun hostname\n"
	       "  kubectl%s -n default run hello --image=debian:13 \\\n"
	       "    --overrides='{\"spec\":{\"schedulerName\":\"tandem\"}}' -- sleep 60\n"
	       "  tandem why%s hello\n"
	       "  tandem status%s\n",
	       at, at, at, why, at);
}

int td_cli_up(const struct td_cli_up_opts *o)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_cancel_on_signals(c);
	if (up(o, c, &err)) {
		fprintf(stderr, "tandem up: %s\n", err.msg);
		return 1;
	}
	tour(o);
	return 0;
}
