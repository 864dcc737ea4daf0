// What is lent comes back: two QOS per Tenant with a quota.
//
// A job or pod within its Tenant's quota has the QOS ACCOUNT.quota, whose limit is that quota; what
// goes beyond has ACCOUNT.borrowed. Jobs ask for both, and Slurm takes the first whose limits allow
// it. Every .quota preempts the .borrowed of all other accounts, its own never: nobody loses work to
// himself. A Tenant without a quota is within that of the Tenants above it, and so is a project. Pure, as pool.h.
#pragma once

#include "pool/tenant.h"

// ACCOUNT.quota and ACCOUNT.borrowed, and the list that a job asks for. They live in the arena.
const char *td_pool_reclaim_quota(struct td_arena *arena, const char *account);
const char *td_pool_reclaim_borrowed(struct td_arena *arena, const char *account);
const char *td_pool_reclaim_list(struct td_arena *arena, const char *account);
// The account of such a name, as long as *ret_len says; 0: it is no such name.
enum td_pool_reclaim_kind { TD_RECLAIM_NONE, TD_RECLAIM_QUOTA, TD_RECLAIM_BORROWED };
enum td_pool_reclaim_kind td_pool_reclaim_of(const char *qos, size_t *ret_len);
// May jobs of QOS `from` take what those of `to` have? Names of other QOS never do.
bool td_pool_reclaim_preempts(const char *from, const char *to);

struct td_pool_reclaim {
	bool on;
	int64_t grace_s, exempt_s;  // of what is borrowed: after it was told; before anybody may
	const char *mark;           // description of the rows that are this cluster's
	const char *const *besides; // QOS that accounts have beside these: "normal", those of spec.preemption
	size_t n_besides;
};
struct td_pool_reclaim_row {
	const char *name;
	const char *const *preempts; // sorted
	size_t n_preempts;
	const struct td_pool_tres *grp; // a count of -1 lifts a limit that is there
	size_t n_grp;
	int64_t priority, grace_s, exempt_s;
	const char *mark;
	bool empties; // of what is to be written: slurmdbd's row has a list of preempts, which goes
};
struct td_pool_reclaim_rows {
	struct td_pool_reclaim_row *v;
	size_t n;
	const char *foreign; // names that are somebody else's, in one line; NULL: none
};
// The account whose two QOS a Tenant's jobs have: its own, or that of the Tenant above it with a quota;
// NULL: there is none, or it is off.
const char *td_pool_reclaim_account(const struct td_pool_tenant *t, size_t n, size_t at,
				    const struct td_pool_reclaim *r);
// What is to be written, so that slurmdbd has the QOS of n tenants; those that preempt come last. Rows
// that are nobody's any more preempt nobody and limit nothing: the history needs their names. valid[i]:
// the tenant is usable.
struct td_pool_reclaim_rows td_pool_reclaim_diff(struct td_arena *arena, const struct td_pool_tenant *t, size_t n,
						 const bool *valid, const struct td_pool_reclaim *r,
						 const struct td_pool_reclaim_rows *live);
// The list of QOS of an account's association: *ret NULL: it is right as it is. account: as
// td_pool_reclaim_account() says. *ret_default "": none.
size_t td_pool_reclaim_allowed(struct td_arena *arena, const char *account, const struct td_pool_reclaim *r,
			       const struct td_pool_assoc *have, const char *const **ret, const char **ret_default);
