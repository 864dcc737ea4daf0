// What the parts of `tandem adopt` share.
//
// Files: adopt.c (the command, groups of machines), adopt_accounts.c (accounts, users, limits and QOS),
// adopt_use.c (what people have used).
#pragma once

#include "cli/loginpod.h"
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
// The same for what people have used, as the file of sshare's lines or the old sshare says.
int td_cli_adopt_use(struct td_cli_adopt *a, const char *file, struct td_error *err);

// Opens the login pod of the SlurmCluster that the options name, or prints why not and ends the process.
void td_cli_adopt_login(struct td_cli_adopt *a, struct td_cli_login *ret);
// Prints the lines on stderr under the title; nothing where there are none.
void td_cli_adopt_say(const char *title, const struct td_strv *l);
enum { TD_CLI_ADOPT_S = 3600 }; // a command of sacctmgr takes some hundredth of a second, and a large site has 10,000s
struct td_cli_adopt_pod {
	const struct td_cli_login *l;
	const char *pod;     // NULL: the login pod, as root. Else a slurmctld's, as Slurm's user
	const char *program; // of src/cli/programs
	int within_s;        // then it is ended
};
// Runs the program there with the words (NULL-terminated). in NULL: no input. What it prints may be TD_BOOKS_MAX long.
int td_cli_adopt_in(const struct td_cli_adopt_pod *p, const char *const *words, const char *in, struct td_buf *ret,
		    struct td_error *err);
