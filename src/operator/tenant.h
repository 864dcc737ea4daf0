// The Tenants of a SlurmCluster.
//
// A controller of its own, with one key per SlurmCluster and one worker: a tree of tenants is judged as
// a whole, and a database that does not answer holds up nothing else. A reconcile reads the objects
// (tenant_read.c, tenant_people.c), lets room pool judge them, makes Tenants of Projects
// (tenant_project.c), the list of filters of native jobs (tenant_filters.c), namespaces, rights and policies (tenant_objects.c) and quotas of storage
// (tenant_storage.c), what Federations leave to them (tenant_word.c), brings slurmdbd to what they say (tenant_slurm.c), and writes the statuses
// (tenant.c). It comes again every ten seconds, or less often where slurmdbd is slow, so that what
// somebody changed is seen and mended.
//
// The status says which namespaces are charged to which account; the bridges read it there. So a
// namespace is in it only when the account is in place.
#pragma once

#include "operator/operator.h"
#include "pool/tenant.h"

struct td_op_tenants {
	struct td_op *op;
	struct td_informer *tenants, *namespaces, *bindings, *policies; // policies NULL: not served
	struct td_informer *quotas;                                     // ResourceQuotas; NULL: not served
	struct td_informer *projects;
	struct td_informer *words; // what hubs of Federations say of limits: ConfigMaps
	struct td_op_view *links;  // connections to slurmrestd, by key; of the worker
	bool classes_clean;        // no StorageClass says that it is in a group, and none is
};

struct td_op_tenant_hard {
	const char *name, *word; // in spec.quota; in a ResourceQuota (pool/storage.h)
	int64_t quota, used;     // used: of its namespaces and of those of the Tenants below it
};
// What a Federation's limits leave to an account here, or to a person in it.
struct td_op_tenant_cap {
	const char *federation, *team, *user; // user NULL: the account's
	bool whole;                           // it is the team's limit, not one of each of its people
	bool spent, silent;                   // its hours are used up; the hub has said nothing for an hour
	int64_t gpus, limit, used;            // limit -1: none
	const char *at;                       // how much is used where; "": it is not said
	int64_t said_s;
};
// One tenant in one reconcile. What is not said otherwise lives in the arena of the pass.
struct td_op_tenant {
	struct td_object *o; // a reference
	struct td_pool_verdict verdict;
	const char *account;
	const char *partition;
	const char *pod_user;       // NULL: there is none
	struct td_strv unknown;     // members whom Slurm does not know
	struct td_strv strange;     // resource groups that the cluster does not have
	const char *unreadable;     // the spec, in words; NULL: it can be read
	bool deleting, had_account; // had_account: the status says so
	const char *slurm;          // why the account is not as it should be; NULL: it is
	const char *slurm_reason;   // of that
	const char *others;         // whom somebody else has added to the account; NULL
	bool adopted;
	const char *qos;                 // that its jobs and pods ask for, in a list; NULL: Slurm's default
	struct td_strv granted;          // namespaces that are in place
	struct td_strv problems;         // of namespaces
	const char *mode;                // spec.storage.mode; NULL: pods run as they like
	const char *people;              // for its namespaces; NULL: what these say stays, or goes when mode is NULL
	const char *storage_fault;       // why no pod is taken; NULL
	const char *faceless;            // members without a uid, in a list; NULL
	struct td_op_tenant_hard *hards; // of spec.quota, what is about storage
	size_t n_hards;
	const struct td_op_tenant_cap *cap, **user_caps; // of Federations; cap NULL: none
	size_t n_user_caps;
	bool uncapped;             // it is being deleted, and what Federations left to it goes first
	const char *const *denied; // what td_op_tenant_denied() found; NULL: it was not asked
	size_t n_denied;
	const char *held, *held_reason; // why a deletion waits; NULL: it does not
	bool gone;                      // the finalizer is off
};
struct td_op_tenant_pass {
	struct td_op_tenants *ts;
	struct td_object *sc; // NULL: there is none
	const char *ns, *cluster;
	struct td_op_tenant *v;
	struct td_pool_tenant *p; // the same tenants, for room pool
	size_t n;
	struct td_op_storage *storage; // tenant_storage.c
	struct td_pool_storage_group
		*storage_groups; // of the SlurmCluster, as storagegroups.c reads them; NULL: not yet
	size_t n_storage_groups;
	struct td_arena *arena;
	struct td_cancel *c;
	int64_t again_ms;
};

// Serves until cancel.
void td_op_tenants_run(struct td_op *op, struct td_cancel *c);

// ---- tenant_read.c (pure) ----

// Fills p->v[i] and p->p[i] from p->v[i].o. now_ms: real time.
void td_op_tenant_read(struct td_op_tenant_pass *p, size_t i, int64_t now_ms);
// The place of the Tenant above it; p->n: there is none. Who goes on counts his steps: they may stand in a circle.
size_t td_op_tenant_above(const struct td_op_tenant_pass *p, size_t at);
// The Tenant that says this field: itself, or the nearest above it. NULL: none does.
const yyjson_val *td_op_tenant_says(const struct td_op_tenant_pass *p, size_t at, const char *field);
// After all are read: projects, Tenants below another one that have no namespaces, may run what that one's pods run.
void td_op_tenant_pods(struct td_op_tenant_pass *p);
// Reads spec.quota of a Project, whose Tenant's resources it has. Returns why it cannot be read; NULL: it can.
const char *td_op_tenant_quota(struct td_op_tenant_pass *p, const struct td_object *project,
			       const struct td_pool_tres **ret, size_t *ret_n);
// Does the cluster enforce limits? *ret_fix: what to do, when not.
bool td_op_tenant_enforced(const yyjson_val *sc, const char **ret_fix);
// Do its native jobs have a Tenant's filter, whatever account they name? Where nothing keeps users to their accounts
// they do not.
bool td_op_tenant_filter_kept(const yyjson_val *sc);

// ---- tenant_people.c (pure) ----

// Fills mode, people, storage_fault and faceless.
void td_op_tenant_people(struct td_op_tenant_pass *p, size_t i);
// What the pods of tenant i have mounted, for its namespaces; NULL: nothing. In the arena.
const char *td_op_tenant_storage(struct td_op_tenant_pass *p, size_t i);

// ---- tenant_project.c ----

// Makes, mends and removes the Tenants of Projects, and writes the Projects' statuses. Other things of these Tenants come
// with the watch. It looks at all Projects: no call for those that are as they should be.
int td_op_tenant_projects(struct td_op_tenant_pass *p, struct td_error *err);
// The Tenant whose namespace this is: it names it, and the label says so, too. The caller frees it; NULL: nobody's.
char *td_op_project_tenant(const struct td_op_tenants *ts, const char *ns);

// ---- tenant_objects.c ----

// Makes the namespaces of one tenant and what is in them, and gives up those that it names no more.
// all: every one, because the tenant goes.
int td_op_tenant_objects(struct td_op_tenant_pass *p, size_t i, bool all, struct td_error *err);

// ---- tenant_filters.c ----

// The filter of system calls of tenant i's pods and jobs, its own or that of the nearest above it that says one:
// RuntimeDefault, or localhost/FILE. NULL: none. In the arena.
const char *td_op_tenant_filter(const struct td_op_tenant_pass *p, size_t i);
// Writes which account's native jobs have which, and whose jobs have which file systems.
int td_op_tenant_filters(struct td_op_tenant_pass *p, struct td_error *err);

// ---- tenant_storage.c ----

// Where claims are limited: by a ResourceQuota in each namespace, which the operator keeps so that the sum of a Tenant
// and of all below it holds; without ResourceQuotas (the embedded plane) by the API server itself, which reads the
// annotation TD_ANN_CLAIMS.

// Counts what is used, fills `used` of all, and says what each namespace shall have.
void td_op_tenant_storage_look(struct td_op_tenant_pass *p);
void td_op_tenant_storage_done(struct td_op_tenant_pass *p);
// The annotation of a namespace of tenant i; NULL: it has none. In the arena.
const char *td_op_tenant_claims(struct td_op_tenant_pass *p, size_t i);
// Writes the ResourceQuota of one namespace of tenant i, or removes it. Nothing where there are none.
int td_op_tenant_storage_write(struct td_op_tenant_pass *p, size_t i, const char *ns, struct td_error *err);

// ---- storagegroups.c ----

// The words of a ResourceQuota that are 0 for tenant i: classes of storage groups that neither it nor one above it has been
// granted. Returns their number; all in the arena.
size_t td_op_tenant_denied(struct td_op_tenant_pass *p, size_t i, const char *const **ret);
// May pods of tenant i have this entry of spec.storage? What is in no group is everybody's.
bool td_op_tenant_sees(struct td_op_tenant_pass *p, size_t i, const char *entry);
// Who has which file system of a storage group (base/groupfiles.h); "": none is in a group. *ret_left: how many people do
// not fit into it, and have none. The caller frees it.
char *td_op_storage_people(struct td_op_tenant_pass *p, size_t *ret_left);

// ---- storageclasses.c ----

// Who may claim a class in namespaces of no Tenant, by these SlurmClusters: names with spaces between. NULL: it is in no
// group, and everybody may. The caller frees it.
char *td_op_storage_class_users(const struct td_objects *clusters, const char *class);
// Writes that on the StorageClasses. What fails is said in the log, and tried again.
void td_op_storage_classes(struct td_op_tenant_pass *p);

// ---- tenant_slurm.c ----

// Brings slurmdbd to what the valid tenants say, and removes the accounts of those that go. Fills
// slurm, slurm_reason, others, adopted and held of each.
void td_op_tenant_slurm(struct td_op_tenant_pass *p);

// ---- tenant_word.c ----

// Lowers what accounts and their people may hold to what Federations leave them, and fills cap and user_caps of each.
void td_op_tenant_words(struct td_op_tenant_pass *p);
// Writes status.federation of one.
void td_op_tenant_word_status(const struct td_op_tenant *t, yyjson_mut_doc *d, yyjson_mut_val *status);

// ---- tenant_qos.c ----

// Writes the QOS of all tenants, and fills p->p[i].qos and p->v[i].qos. *ret_foreign: names that are
// somebody else's, in one line; NULL: none.
int td_op_tenant_qos(struct td_op_tenant_pass *p, struct td_slurm *s, const struct td_pool_rows *rows,
		     const char **ret_foreign, struct td_error *err);
