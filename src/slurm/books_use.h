// What people have used, which fair share and limits of TRES minutes count: as the old Slurm's sshare prints it, and as
// records of slurmctld's file assoc_usage (docs/facts/slurm.md S-M10, docs/adopt.md). Pure.
#pragma once

#include "base/err.h"
#include "base/mem.h"

// The columns of `sshare -a -m -P -o …`. Partition, GrpTRESRaw may be missing.
#define TD_USE_FORMAT "Account,User,Partition,RawUsage,GrpTRESRaw"
struct td_use_row {
	char *account, *user, *partition; // partition "": the row of all
	long long raw;                    // seconds of billing, at least 0
	char *tres;                       // minutes, "cpu=5,gres/gpu=1"; "": not said
};
struct td_use {
	struct td_use_row *v; // people's only: an account's use is the sum of them
	size_t n, room;
	struct td_strv left; // what is not taken over, a line each
};
void td_use_done(struct td_use *u);
#define td_auto_use __attribute__((cleanup(td_use_done)))
// Reads it. name: the file's, for messages. TD_INVALID: it is no such text.
int td_use_read(const char *name, const char *text, struct td_use *ret, struct td_error *err);

// What the pool knows, as text: of `sacctmgr -nP show assoc format=id,account,user,partition`, of `sacctmgr -nP show
// tres format=type,name,id`, and the rows that were given to it before (lines of td_use_plan.rows).
struct td_use_pool {
	const char *assocs, *tres, *taken;
};
struct td_use_plan {
	struct td_buf rows;    // a line "ACCOUNT|USER|PARTITION" for each that is given
	struct td_buf records; // for each a line of "\ooo", a byte each: what printf(1) makes a record of
	size_t n, before;      // given; not given because they were given before
	struct td_strv left;   // rows and TRES that the pool does not have
};
void td_use_plan_done(struct td_use_plan *p);
#define td_auto_use_plan __attribute__((cleanup(td_use_plan_done)))
// Rows without use are nothing to give.
void td_use_give(const struct td_use *u, const struct td_use_pool *pool, struct td_use_plan *ret);
// How many rows of the plan `is` does not have: what slurmctld has not taken.
size_t td_use_missing(const struct td_use_plan *p, const struct td_use *is);
