// `task-prolog`: Slurm's TaskProlog. It is the second check, right before a task of a job starts:
// did the gate let this run of the job in?
//
// slurmd runs no Prolog for a job id that it still knows, and a slurmctld that was killed gives the
// ids of its last seconds again (24.11.5). The check runs as the job's user and can change nothing:
// the agent takes the job's number from the caller's cgroup. Exit 1 ends the task.
#include "standin/standin.h"
#include "standin/wire.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASK_MS = 45000 };

// The variable's list of indexes or number. NULL: it is unset, or nothing that the agent could
// read.
static const char *list(const char *name)
{
	const char *v = getenv(name);
	return v && *v && strlen(v) < TD_WIRE_LINE / 2 && strspn(v, "0123456789,-") == strlen(v) ? v : NULL;
}

// slurmstepd shows nobody the stderr of a TaskProlog. A line "print …" on stdout goes to the output
// of the task.
static int refuse(const char *why, const char *more)
{
	printf("print tandem gate: %s%s\n", why, more);
	return 1;
}

// Requeues a batch job, which slurmd has forgotten when it starts again. What srun started, only
// its user can start again.
static const char *requeue(const char *job, int64_t deadline)
{
	char *argv[] = {"scontrol", "requeue", (char *)job, NULL}, why[TD_WIRE_LINE];
	size_t len;
	char *said = standin_output(argv, deadline, &len, why, sizeof(why));
	if (!said)
		return "; it could not be requeued: submit it again";
	free(said);
	return "; it goes back to the queue";
}

int standin_task(int argc, char **argv)
{
	const char *path = TD_WIRE_TASK;
	for (int i = 1; i < argc; i++) {
		if (i + 1 < argc && !strcmp(argv[i], "--socket")) {
			path = argv[++i];
		} else {
			fprintf(stderr, "tandem gate: unknown argument \"%s\"\n", argv[i]);
			return 2;
		}
	}

	// The step's indexes come first, because a batch script passes the job's on to the steps
	// that it starts. Both are the node's own indexes.
	const char *dev = list("SLURM_STEP_GPUS"), *start = list("SLURM_JOB_START_TIME"),
		   *node = getenv("SLURMD_NODENAME"), *job = list("SLURM_JOB_ID"),
		   *on_node = getenv("SLURM_GPUS_ON_NODE");

	if (!dev)
		dev = list("SLURM_JOB_GPUS");
	if (!dev && (!on_node || !*on_node || !strcmp(on_node, "0")))
		return 0; // no devices, nothing to check

	if (!node || !*node || strpbrk(node, " \n") || strlen(node) > 255) {
		fputs("tandem gate: SLURMD_NODENAME must be set: this runs as Slurm's TaskProlog\n", stderr);
		return 2;
	}

	char request[TD_WIRE_LINE], why[TD_WIRE_LINE] = "no answer";
	snprintf(request, sizeof(request), "check start=%s node=%s devices=%s timeout=%d\n", start ? start : "0", node,
		 dev ? dev : "-", TASK_MS);

	int64_t deadline = now_ms() + TASK_MS, nap = 20;
	for (int64_t left; (left = deadline - now_ms()) > 0;) {
		int r = standin_ask(path, request, deadline, why, sizeof(why));
		if (r == 2)
			return refuse(why,
				      job && !getenv("SLURM_STEP_ID") ? requeue(job, deadline) : "; submit it again");
		if (r >= 0)
			return r ? refuse(why, "") : 0;
		// The agent restarts: its socket may not exist yet.
		poll(NULL, 0, (int)(nap < left ? nap : left));
		nap = nap < 500 ? nap * 2 : 1000;
	}

	char none[128];
	snprintf(none, sizeof(none), "no word from the agent of %.60s after %d s: ", node, TASK_MS / 1000);
	return refuse(none, why);
}
