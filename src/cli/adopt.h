// What the parts of `tandem adopt` share.
//
// Files: adopt.c (the command, groups of machines), adopt_accounts.c (accounts, users, limits and QOS).
#pragma once

#include "cli/remote.h"

struct td_cli_adopt {
	struct td_remote remote;
	const char *ns, *name, *conf, *bin; // conf, bin: the old Slurm's
	bool apply;
	struct td_kube *k;
	const char *qos, *people; // of accounts: a file; a file or "getent". NULL: not given
};
// Runs a command of the old Slurm (argv NULL-terminated, at most 11 words) and appends what it prints. TD_TRANSIENT: it
// failed; err has its words.
int td_cli_adopt_old(const struct td_cli_adopt *a, char *const argv[], struct td_buf *ret, struct td_error *err);
// Moves what `file` has ("-": standard input; NULL: what the old slurmdbd says) to the pool's slurmdbd, or prints it.
int td_cli_adopt_accounts(struct td_cli_adopt *a, const char *file, struct td_error *err);
