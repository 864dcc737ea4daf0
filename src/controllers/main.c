// `tandem controllers --kubeconfig F`: the embedded plane's workload controllers, node lifecycle,
// garbage collection and scheduler in one process.
#include "base/cancel.h"
#include "base/log.h"
#include "cmd/roles.h"
#include "controllers/ctl.h"
#include "kube/options.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const size_t n_informers = 22;

bool td_ctl_informer_at(struct td_ctl *c, size_t i, const struct td_gvr **ret_gvr, struct td_informer **ret)
{
	const struct {
		const struct td_gvr *gvr;
		struct td_informer *inf;
	} all[] = {{&td_pods, c->pods},
		   {&td_nodes, c->nodes},
		   {&td_namespaces, c->namespaces},
		   {&td_configmaps, c->configmaps},
		   {&td_secrets, c->secrets},
		   {&td_services, c->services},
		   {&td_serviceaccounts, c->serviceaccounts},
		   {&td_leases, c->leases},
		   {&td_deployments, c->deployments},
		   {&td_replicasets, c->replicasets},
		   {&td_statefulsets, c->statefulsets},
		   {&td_jobs, c->jobs},
		   {&td_priorityclasses, c->priorityclasses},
		   {&td_pdbs, c->pdbs},
		   {&td_crds, c->crds},
		   {&td_roles_gvr, c->roles},
		   {&td_rolebindings, c->rolebindings},
		   {&td_clusterroles, c->clusterroles},
		   {&td_clusterrolebindings, c->clusterrolebindings},
		   {&td_endpoints, c->endpoints},
		   {&td_endpointslices, c->endpointslices},
		   {&td_networkpolicies, c->networkpolicies}};
	_Static_assert(TD_LEN(all) == 22, "n_informers");

	if (i >= TD_LEN(all))
		return false;

	*ret_gvr = all[i].gvr;
	*ret = all[i].inf;
	return true;
}

static void owner_index(const struct td_object *o, struct td_strv *ret)
{
	size_t i, n;
	yyjson_val *ref, *refs = td_jget(o->root, "metadata.ownerReferences");
	yyjson_arr_foreach (refs, i, n, ref) {
		const char *uid = td_jstr(ref, "uid");
		if (uid && !td_strv_has(ret, uid))
			td_strv_add(ret, uid);
	}
}

static void orphan_index(const struct td_object *o, struct td_strv *ret)
{
	if (!td_object_owner(o))
		td_strv_add(ret, o->ns);
}

static void node_index(const struct td_object *o, struct td_strv *ret)
{
	const char *node = td_jstr_or(o->root, "spec.nodeName", "");
	if (*node)
		td_strv_add(ret, node);
}

static void unbound_index(const struct td_object *o, struct td_strv *ret)
{
	if (!*td_jstr_or(o->root, "spec.nodeName", ""))
		td_strv_add(ret, "1");
}

void td_ctl_add_indexes(struct td_informer *i)
{
	td_informer_add_index(i, "owner", owner_index);
	td_informer_add_index(i, "orphan", orphan_index);
}

static void make_informers(struct td_ctl *c)
{
	struct {
		const struct td_gvr *gvr;
		struct td_informer **at;
	} all[] = {{&td_pods, &c->pods},
		   {&td_nodes, &c->nodes},
		   {&td_namespaces, &c->namespaces},
		   {&td_configmaps, &c->configmaps},
		   {&td_secrets, &c->secrets},
		   {&td_services, &c->services},
		   {&td_serviceaccounts, &c->serviceaccounts},
		   {&td_leases, &c->leases},
		   {&td_deployments, &c->deployments},
		   {&td_replicasets, &c->replicasets},
		   {&td_statefulsets, &c->statefulsets},
		   {&td_jobs, &c->jobs},
		   {&td_priorityclasses, &c->priorityclasses},
		   {&td_pdbs, &c->pdbs},
		   {&td_crds, &c->crds},
		   {&td_roles_gvr, &c->roles},
		   {&td_rolebindings, &c->rolebindings},
		   {&td_clusterroles, &c->clusterroles},
		   {&td_clusterrolebindings, &c->clusterrolebindings},
		   {&td_endpoints, &c->endpoints},
		   {&td_endpointslices, &c->endpointslices},
		   {&td_networkpolicies, &c->networkpolicies}};

	for (size_t i = 0; i < TD_LEN(all); i++) {
		*all[i].at = td_informer_new(c->kube, &(struct td_informer_opts){.resource = all[i].gvr});
		td_ctl_add_indexes(*all[i].at);
	}

	td_informer_add_index(c->pods, "node", node_index);
	td_informer_add_index(c->pods, "unbound", unbound_index);
}

struct running {
	const struct td_controller *c;
	struct td_cancel *cancel;
	pthread_t thread;
};

static void *run_one(void *arg)
{
	struct running *r = arg;
	struct td_error err = TD_ERROR_INIT;
	if (td_controller_run(r->c, r->cancel, &err)) {
		td_err("%s", err.msg);
		td_cancel_fire(r->cancel); // supervise starts this process again
	}
	return NULL;
}

static void (*const makers[])(struct td_ctl *, struct td_controller *) = {
	td_ctl_deployment, td_ctl_replicaset,     td_ctl_statefulset, td_ctl_job,
	td_ctl_gc,         td_ctl_namespace,      td_ctl_node,        td_ctl_podgc,
	td_ctl_scheduler,  td_ctl_serviceaccount, td_ctl_disruption};

size_t td_ctl_count(void)
{
	return TD_LEN(makers);
}

static int run(struct td_ctl *c, struct td_cancel *cancel, struct td_error *err)
{
	struct td_controller v[TD_LEN(makers)];
	struct running t[TD_LEN(makers)];
	size_t n = TD_LEN(makers), started = 0;

	for (size_t i = 0; i < n; i++)
		makers[i](c, &v[i]);

	struct td_informer *inf[32];
	const struct td_gvr *gvr;
	int r = 0;

	size_t up = 0;
	for (; up < n_informers && td_ctl_informer_at(c, up, &gvr, &inf[up]) && !r; up++)
		r = td_informer_start(inf[up], cancel, err);
	if (!r)
		r = td_informers_fill(inf, n_informers, "the controllers wait", cancel, err);

	if (!r) {
		td_info("caches are filled; %zu controllers start", n);
		for (; started < n; started++) {
			t[started] = (struct running){&v[started], cancel, 0};
			int e = pthread_create(&t[started].thread, NULL, run_one, &t[started]);
			if (e) {
				r = td_fail_errno(err, TD_INTERNAL, e, "no thread for controller %s", v[started].name);
				td_cancel_fire(cancel);
				break;
			}
		}
	}

	if (r)
		td_cancel_fire(cancel); // running informers must end before they are freed

	for (size_t i = 0; i < started; i++)
		pthread_join(t[i].thread, NULL);

	td_ctl_gc_stop(c->gc);

	for (size_t i = 0; td_ctl_informer_at(c, i, &gvr, &inf[i]); i++)
		td_informer_free(inf[i]);

	td_ctl_gc_free(c->gc);
	td_ctl_nodes_free(c->node_ages);
	td_ctl_podgc_free(c->podgc);
	td_ctl_scheduler_free(c->scheduler);

	for (size_t i = 0; i < n; i++)
		td_queue_free(v[i].queue);
	return r == TD_CANCELLED ? 0 : r;
}

int td_ctl_run(struct td_kube *kube, int64_t node_grace_ms, struct td_cancel *cancel, struct td_error *err)
{
	struct td_ctl c = {.kube = kube, .clock = &td_clock_system, .node_grace_ms = node_grace_ms};
	struct td_error why = TD_ERROR_INIT;
	if (td_kube_ca(kube, &c.ca, &why))
		td_warn("ConfigMaps kube-root-ca.crt are not made: %s", why.msg);

	c.rec = td_recorder_new(kube, "tandem-controllers");
	c.rs_expect = td_ctl_expect_new(c.clock);
	c.sts_expect = td_ctl_expect_new(c.clock);
	c.job_expect = td_ctl_expect_new(c.clock);
	make_informers(&c);

	int r = run(&c, cancel, err);

	td_recorder_free(c.rec);
	td_ctl_expect_free(c.rs_expect);
	td_ctl_expect_free(c.sts_expect);
	td_ctl_expect_free(c.job_expect);
	free(c.ca);
	return r;
}

int td_controllers_main(int argc, char **argv)
{
	const char *kubeconfig = NULL;
	enum td_log_level level = TD_LOG_INFO;
	int grace = 40, code;
	const struct td_option options[] = {
		TD_KUBECONFIG_OPTION(&kubeconfig),
		{.name = "node-grace",
		 .value = "SECONDS",
		 TD_OPT_SECONDS(&grace, 1, 3600),
		 .help = "how long a node may be silent before it is not ready (default 40)"},
		TD_OPT_LOG_LEVEL(&level),
	};
	const struct td_command command = {.name = "controllers",
					   .about = "The workload controllers and the scheduler of the embedded plane.",
					   .exits = TD_ROLE_EXITS,
					   .options = options,
					   .n = TD_LEN(options)};
	if (!td_command_line(&command, argc, argv, NULL, &code))
		return code;
	td_log_init("controllers", level);

	td_auto(td_cancel_unref) struct td_cancel *cancel = td_cancel_new();
	td_cancel_on_signals(cancel);

	struct td_error err = TD_ERROR_INIT;
	td_auto(td_kube_free) struct td_kube *kube = NULL;
	if (td_kube_new(kubeconfig, &kube, &err)) {
		td_err("%s", err.msg);
		return 1;
	}

	int r = td_ctl_run(kube, grace * 1000LL, cancel, &err);
	if (r)
		td_err("%s", err.msg);
	return r ? 1 : 0;
}
