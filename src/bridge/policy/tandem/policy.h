/* The interface of a policy of your own: in which order jobs wait (Tandem, docs/policies.md).
 *
 * Build a shared object from it, with nothing but a C compiler:
 *     cc -shared -fPIC -O2 -o shortest.so deploy/examples/policy-shortest.c
 * and put it into the bridge's directory of policies (/usr/lib/tandem/policies). It runs in a process
 * of its own, without rights, without files, and with bounds of time and memory: whatever it does, the
 * worst is that its jobs wait in Slurm's own order, and the SlurmCluster says so.
 */
#ifndef TANDEM_POLICY_H
#define TANDEM_POLICY_H

#include <stddef.h>
#include <stdint.h>

#define TANDEM_POLICY_VERSION 1

struct tandem_policy_job {
	int64_t id;                                   /* Slurm's; of an array's tasks that wait: the array's */
	const char *user, *account, *qos, *partition; /* never NULL */
	int64_t submit;                               /* seconds since 1970 */
	int64_t cpus, memory_mb, gpus;                /* what it asks for, or has, all together */
	int64_t time_limit_min;                       /* 0: none */
	int64_t urgency, nice;                        /* its QOS's priority; its nice */
	int aside; /* Slurm passes over it for now: a limit, a dependency, a begin time */
};

struct tandem_policy_input {
	uint32_t version;                        /* TANDEM_POLICY_VERSION */
	int64_t now;                             /* seconds since 1970 */
	const char *arguments;                   /* spec.scheduler.policies[].plugin.arguments; never NULL */
	const struct tandem_policy_job *waiting; /* the oldest id first */
	size_t n_waiting;
	const struct tandem_policy_job *running;
	size_t n_running;
	int64_t cpus, memory_mb, gpus; /* of all nodes of the policy's partitions */
};

/* What you export. The first must be TANDEM_POLICY_VERSION. */
extern const uint32_t tandem_policy_version;
/* Writes the order: n_waiting indexes of `waiting`, each once, the job that is to start first first.
 * Returns 0; anything else means that you do not know, and the jobs wait in Slurm's own order. */
int tandem_policy_order(const struct tandem_policy_input *in, size_t *order);

#endif
