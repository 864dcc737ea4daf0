// The objects of an installation (deploy/manifests/tandem.yaml and deploy/examples/cluster.yaml,
// both embedded in the binary), and what the users' commands do with them: apply them, wait for
// their rollout, delete them.
#pragma once

#include "kube/kube.h"
#include "local/progress.h"

// Value of err->detail together with TD_INVALID: an argument cannot be used.
enum { TD_CLI_USAGE = 1 };
// The namespace where Tandem runs unless --namespace says otherwise.
#define TD_CLI_NAMESPACE "tandem-system"

struct td_cli_manifests {
	struct td_json_list docs;
};
void td_cli_manifests_done(struct td_cli_manifests *m);
#define td_auto_manifests __attribute__((cleanup(td_cli_manifests_done)))

// Gives the objects of an installation. ns or image NULL: the default. TD_INVALID with detail
// TD_CLI_USAGE names the argument that cannot be used.
int td_cli_tandem(const char *ns, const char *image, struct td_cli_manifests *ret, struct td_error *err);
// What an installation says of its agents, as the chart's values of the same names; NULL: as the manifest has it.
struct td_cli_agents {
	const char *kubelet, *kubelet_ca; // how they reach their kubelets: a URL, a file of the nodes
	const char *seccomp_profiles;     // a ConfigMap beside them, whose profiles they bring to their nodes
};
// Writes it into the agents in `m`. TD_INVALID with detail TD_CLI_USAGE names the argument.
int td_cli_agents(struct td_cli_manifests *m, const struct td_cli_agents *o, struct td_error *err);
// Whether this /version is of a Kubernetes whose kubelets want nodes/proxy of the agents (before 1.33).
bool td_cli_old_kubelets(const yyjson_val *version);
// Prints the two ways to choose from where that is so and the agents have no such right. kubelet: as of
// td_cli_agents(). Prints nothing where the API cannot be asked.
void td_cli_tell_kubelets(struct td_kube *k, const char *kubelet, struct td_cancel *c);
// Gives the first example: a namespace, a SlurmCluster with its state on `node`, and a NodeSet.
int td_cli_example(const char *node, struct td_cli_manifests *ret, struct td_error *err);

#define TD_CLI_MANAGER "tandem-install"
enum td_applied { TD_UNCHANGED, TD_CREATED, TD_CHANGED, TD_REMOVED };
enum { TD_APPLIED_N = TD_REMOVED + 1 };
const char *td_applied_text(enum td_applied a);
// Applies one object by server-side apply, as field manager TD_CLI_MANAGER. dry_run: the server
// only says what would happen. *ret says what changed.
int td_cli_apply(struct td_kube *k, const yyjson_val *obj, bool dry_run, struct td_cancel *c, enum td_applied *ret,
		 struct td_error *err);
// Applies every object of `m` and calls tell_one after each.
int td_cli_install(struct td_kube *k, const struct td_cli_manifests *m, bool dry_run,
		   void (*tell_one)(void *ctx, const yyjson_val *obj, enum td_applied what), void *ctx,
		   struct td_cancel *c, struct td_error *err);
// Deletes what an older version installed and `m` does not name (prune.c says what counts as that).
// Calls tell_one after each object. Call it after td_cli_install() and after the rollout, because
// what still runs may need these objects.
int td_cli_prune(struct td_kube *k, const struct td_cli_manifests *m, bool dry_run,
		 void (*tell_one)(void *ctx, const yyjson_val *obj, enum td_applied what), void *ctx,
		 struct td_cancel *c, struct td_error *err);
// Returns TD_CONFLICT when helm manages the Tandem of that namespace.
int td_cli_not_helm(struct td_kube *k, const char *ns, struct td_cancel *c, struct td_error *err);
const struct td_gvr *td_cli_gvr(const yyjson_val *obj); // NULL: a kind that no manifest has
// Every kind that a manifest has or ever had; NULL at the end.
extern const struct td_gvr *const td_cli_kinds[];
// The API path of one object. The caller frees it.
char *td_cli_path(const struct td_gvr *g, const char *ns, const char *name);

// Waits until every Deployment and DaemonSet of `m` runs its newest template. end_ms is monotonic.
// `p` (may be NULL) shows which one is waited for. On a time-out (TD_TRANSIENT) err says which pod
// does not get ready, and why.
int td_cli_rollout(struct td_kube *k, const struct td_cli_manifests *m, int64_t end_ms, struct td_progress *p,
		   struct td_cancel *c, struct td_error *err);
// The same for one workload.
int td_cli_rollout_one(struct td_kube *k, const struct td_gvr *g, const char *ns, const char *name, int64_t end_ms,
		       struct td_progress *p, struct td_cancel *c, struct td_error *err);
