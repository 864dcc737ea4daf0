// The objects of an installation (deploy/manifests/tandem.yaml, deploy/examples/cluster.yaml; both are in the binary)
// and what the users' commands do with them: apply, wait for their rollout, delete.
#pragma once

#include "kube/kube.h"
#include "local/progress.h"

enum { TD_CLI_USAGE = 1 };               // err->detail with TD_INVALID: an argument cannot be used
#define TD_CLI_NAMESPACE "tandem-system" // where Tandem runs unless --namespace says otherwise

struct td_manifests {
	struct td_json_list docs;
};
void td_manifests_done(struct td_manifests *m);
#define td_auto_manifests __attribute__((cleanup(td_manifests_done)))

// What is installed. ns, image NULL: the defaults. TD_INVALID with detail TD_CLI_USAGE names the argument that cannot
// be used.
int td_cli_tandem(const char *ns, const char *image, struct td_manifests *ret, struct td_error *err);
// How the agents in `m` ask their kubelets; NULL: as they are. TD_INVALID names the argument.
int td_cli_kubelets(struct td_manifests *m, const char *url, const char *ca_on_node, struct td_error *err);
int td_cli_example(const char *node, struct td_manifests *ret,
		   struct td_error *err); // a namespace, a SlurmCluster, a NodeSet

#define TD_CLI_MANAGER "tandem-install"
enum td_applied { TD_UNCHANGED, TD_CREATED, TD_CHANGED, TD_REMOVED };
enum { TD_APPLIED_N = TD_REMOVED + 1 };
const char *td_applied_text(enum td_applied a);
// Server-side apply of one object, as field manager TD_CLI_MANAGER. dry_run: the server only says what would be.
int td_cli_apply(struct td_kube *k, const yyjson_val *obj, bool dry_run, struct td_cancel *c, enum td_applied *ret,
		 struct td_error *err);
// Every object of m; tell_one after each.
int td_cli_install(struct td_kube *k, const struct td_manifests *m, bool dry_run,
		   void (*tell_one)(void *ctx, const yyjson_val *obj, enum td_applied what), void *ctx,
		   struct td_cancel *c, struct td_error *err);
// Removes what an older version installed and `m` does not name (prune.c says what counts as that); tell_one after
// each. After td_cli_install, and after the rollout: what still runs may need it.
int td_cli_prune(struct td_kube *k, const struct td_manifests *m, bool dry_run,
		 void (*tell_one)(void *ctx, const yyjson_val *obj, enum td_applied what), void *ctx,
		 struct td_cancel *c, struct td_error *err);
int td_cli_not_helm(struct td_kube *k, const char *ns, struct td_cancel *c,
		    struct td_error *err);              // TD_CONFLICT: helm keeps Tandem there
const struct td_gvr *td_cli_gvr(const yyjson_val *obj); // NULL: a kind that no manifest has
extern const struct td_gvr *const td_cli_kinds[];       // every kind that a manifest has or ever had; NULL at the end
char *td_cli_path(const struct td_gvr *g, const char *ns, const char *name); // of one object; caller frees

// Waits until every Deployment and DaemonSet of `m` runs its newest form; `p` (may be NULL) shows which one is waited
// for. On time-out err says which pod does not get ready, and why.
int td_cli_rollout(struct td_kube *k, const struct td_manifests *m, int64_t end_ms, struct td_progress *p,
		   struct td_cancel *c, struct td_error *err);
int td_cli_rollout_one(struct td_kube *k, const struct td_gvr *g, const char *ns, const char *name, int64_t end_ms,
		       struct td_progress *p, struct td_cancel *c, struct td_error *err);
