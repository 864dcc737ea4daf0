// tandem host --login: a machine where people work (a login node) gives their Slurm commands to the pool (docs/host.md).
#pragma once

#include "cli/host.h"

struct td_host_login {
	const char *ns, *cluster, *name; // of the SlurmCluster; of this machine
	const char *conf, *dir;          // kubeconfig; for the keys, which Slurm's user may read, too
	const char *standin;             // the program tandem-standin, beside which are srun's plug-ins
	const char *controller;          // slurmctld's address; NULL: that of its pod
	const char *before, *after; // a site's programs: before sackd starts, after the machine was dismissed; NULL ok
	int64_t look_ms;
};
// Runs until a signal. Returns the exit code.
int td_host_login_run(const struct td_host_login *w);

// The text of an /etc/hosts with these lines as Tandem's part, the last one; lines "": without such a part. Caller frees.
char *td_host_login_hosts(const char *text, const char *lines);

// Lets these machines read what they need of the cluster, or takes it (tandem node admit/dismiss --login). TD_NOT_FOUND
// of dismiss: one of them was not admitted; the others are out.
int td_host_login_admit(struct td_kube *k, const char *ns, const char *cluster, const struct td_strv *names,
			struct td_error *err);
int td_host_login_dismiss(struct td_kube *k, const char *ns, const char *cluster, const struct td_strv *names,
			  struct td_error *err);
