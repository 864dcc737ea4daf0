// QOS in slurmdbd, by slurmrestd's /slurmdb: what Tandem keeps of them. A write names only these
// fields and leaves the others, such as limits, as they are (docs/facts/slurm.md S-Q15).
//
// Errors as in rest.h.
#pragma once

#include "slurm/accounts.h"

// slurmrestd takes no empty list of preempts for a row that has one. A QOS that nobody has stands for
// it; it is made when it is needed, and reads leave it out.
#define TD_SLURM_QOS_NOBODY "tandem.nobody"
struct td_slurm_qos {
	char *name, *description;
	char **preempts; // names, sorted
	size_t n_preempts;
	long long id; // slurmdbd's own; a write leaves it
	long long priority, grace_s, exempt_s;
	struct td_slurm_limit *grp; // GrpTRES; a write leaves what it does not name, and -1 lifts a limit
	size_t n_grp;
	bool empties; // of a write: the row has a list of preempts, which goes
};
struct td_slurm_qos_list {
	struct td_slurm_qos *v;
	size_t n;
};
void td_slurm_qos_done(struct td_slurm_qos_list *l);
#define td_auto_qos __attribute__((cleanup(td_slurm_qos_done)))
int td_slurm_qos(struct td_slurm *s, struct td_cancel *c, struct td_slurm_qos_list *ret, struct td_error *err);
// Creates or changes one. Every QOS that it preempts must be there: slurmrestd refuses the write
// otherwise (error 2066).
int td_slurm_qos_write(struct td_slurm *s, const struct td_slurm_qos *q, struct td_cancel *c, struct td_error *err);
