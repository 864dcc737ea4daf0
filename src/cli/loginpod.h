// The login pod of a SlurmCluster, for commands that ask Slurm through its own commands there.
#pragma once

#include "cli/common.h"
#include "cli/remote.h"

struct td_cli_login {
	struct td_instance instance; // of the home; empty with --kubeconfig
	struct td_kube *kube;
	char *conf, *ns, *cluster, *pod; // cluster: the SlurmCluster's name
};
void td_cli_login_done(struct td_cli_login *l);
#define td_auto_login __attribute__((cleanup(td_cli_login_done)))
// Finds the login pod. On failure it prints the reason as command `cmd`, and returns non-zero.
int td_cli_login_open(const char *cmd, const struct td_remote *remote, struct td_cli_login *ret);
// Appends the words of a command that runs in the pod as root. flag: how kubectl attaches ("-i", "-it").
void td_cli_login_argv(const struct td_cli_login *l, const char *flag, struct td_strv *ret);
// The same as one of the cluster's users, in his home (programs/shell.sh). user "": whoever asks, if the cluster knows him, else
// the first one.
void td_cli_login_as(const struct td_cli_login *l, const char *flag, const char *user, struct td_strv *ret);
// The same in another pod of the SlurmCluster. flag: of kubectl exec; NULL: none.
void td_cli_login_beside(const struct td_cli_login *l, const char *pod, const char *flag, struct td_strv *ret);
// Runs programs/<file> there with its arguments (NULL-terminated; at most 8) and appends what it prints.
int td_cli_login_run(const struct td_cli_login *l, const char *file, const char *const *args, struct td_buf *ret,
		     struct td_error *err);
// Fails because of an answer that is none: Slurm's own words, or that there is no accounting.
void td_cli_login_unread(const struct td_cli_login *l, const char *text, struct td_error *err);
