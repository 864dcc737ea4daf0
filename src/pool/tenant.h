// Tenants of one SlurmCluster: which of them can be used, and what slurmdbd should have for them.
//
// A tenant is an account below its parent's account. Its quota is the account's GrpTRES, so that
// what its jobs and pods hold together never exceeds it, and what goes beyond waits in Slurm's
// queue. With borrowing the limit is higher, or only the parent's. Its weight is the account's share.
//
// What is Tandem's own is marked: an account by its organization and description, a user's
// association by its comment. Nothing else is changed or removed, but that an account is adopted
// where its tenant says so, and that a member's limits are set whoever has added him.
#pragma once

#include "base/mem.h"

#include <stdint.h>

#define TD_POOL_TRES_GPU "gres/gpu"
#define TD_POOL_TENANT_MARK "tandem" // organization of accounts, comment of associations

struct td_pool_tres {
	const char *tres; // "cpu", "mem" (MB), "gres/gpu"
	int64_t count;
};
struct td_pool_tenant_user {
	const char *name;
	bool limited; // the limits of one user hold for him; for whom pods run as only where they hold for pods
	bool capped;  // he may hold `gpus` in this account at most, beside all else (pool/fedword.h)
	int64_t gpus;
};
struct td_pool_tenant {
	const char *name, *account;
	const char *parent; // NULL: none
	int64_t born;       // of two that want one name, the older one gets it
	int64_t weight;
	const struct td_pool_tres *quota, *borrow, *per_user;
	size_t n_quota, n_borrow, n_per_user;
	bool borrow_all;                         // as much as the parent has
	int64_t user_jobs, user_waits;           // of one user: MaxJobs, MaxSubmitJobs; -1: no limit
	const struct td_pool_tenant_user *users; // of one name once
	size_t n_users;
	const char *const *namespaces;
	size_t n_namespaces;
	bool adopt;    // an account of this name that is there becomes this tenant's
	bool deleting; // and so it is nobody's parent any more
	bool closed;   // takes no new jobs
	bool capped;   // it may hold `gpus` at most, beside its quota (pool/fedword.h)
	int64_t gpus;
	bool project; // of the parent's admins: what it holds is within the parent's quota and borrowing, by QOS too
	// The QOS of its account (pool/reclaim.h); NULL: as they are.
	const char *const *qos;
	size_t n_qos;
	const char *default_qos;
};

struct td_pool_verdict {
	bool valid;
	const char *reason, *message; // why not; NULL
	bool waits;                   // for its parent: there may be nothing wrong with itself
	const char *warning;          // its children's quotas, or its own, do not fit; NULL: they do
	const char *parent_account;   // "root" without a parent
	const char *children;         // names of the tenants below it, in one line; NULL: none
};
// Judges n tenants of one cluster; ret has n places. Texts live in the arena, or are constants.
void td_pool_tenants_judge(struct td_arena *arena, const struct td_pool_tenant *t, size_t n,
			   struct td_pool_verdict *ret);

// A list of limits with one of GPUs beside it: the lower one counts. *ret_n: how many. In the arena.
const struct td_pool_tres *td_pool_tres_capped(struct td_arena *arena, const struct td_pool_tres *v, size_t n,
					       int64_t gpus, size_t *ret_n);

// ---- slurmdbd ----

struct td_pool_account {
	const char *name, *description, *organization;
};
struct td_pool_assoc { // user "": the account's own
	const char *account, *user, *parent, *comment;
	int64_t shares;
	const struct td_pool_tres *grp;
	size_t n_grp;
	int64_t grp_submit, max_jobs, max_submit; // -1: no limit
	bool is_default;
	const char *const *qos; // that its jobs may have; of a step, NULL: as they are
	size_t n_qos;
	const char *default_qos; // "": none
};
struct td_pool_rows {
	const struct td_pool_account *accounts;
	const struct td_pool_assoc *assocs;
	size_t n_accounts, n_assocs;
};
enum td_pool_tenant_act {
	TD_TENANT_ADD_ACCOUNT, // with its association in the cluster
	TD_TENANT_SET,         // the whole association
	TD_TENANT_ADD_USER,
	TD_TENANT_REMOVE_USER,
};
const char *td_pool_tenant_act_name(enum td_pool_tenant_act a); // "add-account"
struct td_pool_tenant_step {
	enum td_pool_tenant_act act;
	struct td_pool_assoc want;              // REMOVE_USER: account, user, is_default only
	const char *description, *organization; // ADD_ACCOUNT: of the account
};
struct td_pool_tenant_steps {
	struct td_pool_tenant_step *v; // in the order of their execution
	size_t n;
	const char *refused; // the account is somebody else's: nothing is done; NULL
	const char *others;  // users whom somebody else has added to the account; NULL: none
	bool ours;           // the account carries Tandem's mark, or will
};
// What is to be done for one valid tenant, so that slurmdbd has what it says. v is empty when all is as
// it should be. Everything lives in the arena or in the arguments.
struct td_pool_tenant_steps td_pool_tenant_diff(struct td_arena *arena, const struct td_pool_tenant *t,
						const struct td_pool_verdict *v, const struct td_pool_rows *rows);
