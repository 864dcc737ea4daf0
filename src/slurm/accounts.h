// slurmdbd's accounts and associations, through slurmrestd, which serves them when it runs with
// `-s slurmctld,slurmdbd` (spec.accounting.enabled). Every write is in force in slurmctld when it
// returns. What these functions guard against is in docs/facts/slurm.md (S-M): an empty filter
// stands for everything, so no name may be empty; an account's own association comes into being with
// the account only; TRES limits that a write leaves out are lost, so they are always whole.
#pragma once

#include "slurm/rest.h"
#include "json/json.h"

struct td_slurm_limit {
	char *tres; // "cpu", "mem" (MB), "gres/gpu"
	int64_t count;
};
// An account's place in the tree of one cluster (user ""), or a user's share of it.
struct td_slurm_assoc {
	char *account, *user, *parent, *comment;
	int64_t shares;
	bool is_default; // of the user
	struct td_slurm_limit *grp;
	size_t n_grp;
	// GrpSubmitJobs, MaxJobs and MaxSubmitJobs; -1: no limit.
	int64_t grp_submit, max_jobs, max_submit;
	char **qos; // that its jobs may have; in a write, NULL: they stay as they are, and the default too
	size_t n_qos;
	char *default_qos; // "": none
};
struct td_slurm_assocs {
	struct td_slurm_assoc *v;
	size_t n;
};
void td_slurm_assocs_done(struct td_slurm_assocs *l);
#define td_auto_assocs __attribute__((cleanup(td_slurm_assocs_done)))

struct td_slurm_account {
	char *name, *description, *organization;
};
struct td_slurm_accounts {
	struct td_slurm_account *v;
	size_t n;
};
void td_slurm_accounts_done(struct td_slurm_accounts *l);
#define td_auto_accounts __attribute__((cleanup(td_slurm_accounts_done)))

// Reads all accounts. They are of the database, whatever the cluster.
int td_slurm_accounts(struct td_slurm *s, struct td_cancel *c, struct td_slurm_accounts *ret, struct td_error *err);
// Reads the associations of these accounts in one cluster; cluster NULL: in every one of the database.
int td_slurm_assocs(struct td_slurm *s, const char *cluster, const struct td_strv *accounts, struct td_cancel *c,
		    struct td_slurm_assocs *ret, struct td_error *err);
// Reads the associations of one user in one cluster.
int td_slurm_assocs_of(struct td_slurm *s, const char *cluster, const char *user, struct td_cancel *c,
		       struct td_slurm_assocs *ret, struct td_error *err);

// Names up to `most` jobs of an account that run or wait ("12 of alice"); *ret_n: how many there are.
int td_slurm_account_jobs(struct td_slurm *s, const char *cluster, const char *account, size_t most,
			  struct td_cancel *c, struct td_strv *ret, size_t *ret_n, struct td_error *err);

// What one job that runs holds.
struct td_slurm_held {
	char *account, *user, *job; // job: "12 of alice"
	struct td_slurm_limit *tres;
	size_t n_tres;
	int64_t end; // by its time limit, epoch seconds; 0: it has none
};
struct td_slurm_held_list {
	struct td_slurm_held *v;
	size_t n;
};
void td_slurm_held_done(struct td_slurm_held_list *l);
// Reads what the jobs of these accounts hold that run, as slurmdbd knows it: a moment late.
int td_slurm_held(struct td_slurm *s, const char *cluster, const struct td_strv *accounts, struct td_cancel *c,
		  struct td_slurm_held_list *ret, struct td_error *err);

// Makes the account where it is not, and its association in the cluster, with parent, shares and
// comment of a; parent NULL: below root.
int td_slurm_account_add(struct td_slurm *s, const char *cluster, const struct td_slurm_account *account,
			 const struct td_slurm_assoc *a, struct td_cancel *c, struct td_error *err);
// Writes an association that exists, with all of a's limits; parent NULL: it
// stays. The comment stays in any case: slurmdbd takes it at the birth of a row only.
int td_slurm_assoc_set(struct td_slurm *s, const char *cluster, const struct td_slurm_assoc *a, struct td_cancel *c,
		       struct td_error *err);
// Adds users to an account. Their first account becomes their default.
int td_slurm_users_add(struct td_slurm *s, const char *cluster, const char *account, const struct td_strv *users,
		       const char *comment, struct td_cancel *c, struct td_error *err);
// Makes the account the user's default.
int td_slurm_user_default(struct td_slurm *s, const char *user, const char *account, struct td_cancel *c,
			  struct td_error *err);
// Removes a user from an account; user NULL: the account from this cluster, with all its users.
// TD_CONFLICT: jobs of it run or wait. TD_EXISTS: it is somebody's default account and not his only
// one.
int td_slurm_assoc_remove(struct td_slurm *s, const char *cluster, const char *account, const char *user,
			  struct td_cancel *c, struct td_error *err);
// Removes an account that has no association left.
int td_slurm_account_remove(struct td_slurm *s, const char *account, struct td_cancel *c, struct td_error *err);

// Reads and writes a list of TRES. Caller frees *ret and its names.
struct td_slurm_limit *td_slurm_tres_read(const yyjson_val *list, size_t *ret_n);
void td_slurm_tres_write(yyjson_mut_doc *d, yyjson_mut_val *list, const struct td_slurm_limit *v, size_t n);
// Reads a list of associations as slurmrestd sends it (pure; for tests and fuzzing).
int td_slurm_assocs_read(const yyjson_val *root, struct td_slurm_assocs *ret, struct td_error *err);
