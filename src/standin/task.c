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
	char name[48], *argv[] = {"scontrol", "requeue", name, NULL}, why[TD_WIRE_LINE];
	size_t len;
	td_standin_job_or_id(job, (td_standin_now_ms() + deadline) / 2, name,
			     sizeof(name)); // the rest is for what is done
	char *said = td_standin_output(argv, deadline, &len, why, sizeof(why));
	if (!said)
		return "; it could not be requeued: submit it again";
	free(said);
	return "; it goes back to the queue";
}

// Is this index in a list such as "0,2-3"?
static bool in_list(const char *s, long index)
{
	while (*s) {
		char *end;
		long a = strtol(s, &end, 10), b = *end == '-' ? strtol(end + 1, &end, 10) : a;
		if (index >= a && index <= b)
			return true;
		s = *end ? end + 1 : end;
	}
	return false;
}

// Prints the words, one for each of the node's devices, of those that are its own. Nothing when one of them has none.
static void each(const char *name, char *words, const char *dev)
{
	char *rest = NULL, *w = strtok_r(words, " \n", &rest);
	const char *its[64];
	int n = 0;
	long i = 0;
	for (; w && i < 64; i++, w = strtok_r(NULL, " \n", &rest))
		if (in_list(dev, i))
			its[n++] = w;
	for (; i < 64; i++)
		if (in_list(dev, i))
			return;
	if (n)
		printf("export %s=", name);
	for (int k = 0; k < n; k++)
		printf("%s%s%s", k ? "," : "", its[k], k + 1 < n ? "" : "\n");
}

// Tells the task which devices are its own, in the variables that their vendor's programs read: "export NAME=…" on
// stdout sets one. The file is the agent's; what is no such line of it is skipped.
static void variables(const char *path, const char *dev)
{
	static char line[8192]; // too large for a stack; there is one thread
	char name[64], how[8];
	int at;
	FILE *f = dev ? fopen(path, "re") : NULL;
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63[A-Z0-9a-z_] %7s%n", name, how, &at) != 2)
			continue;
		if (!strcmp(how, "each")) {
			each(name, line + at, dev);
			continue;
		}
		int k = 0;
		printf("export %s=", name);
		for (long i = 0; i < 64; i++)
			if (in_list(dev, i)) {
				printf("%s%ld", k ? "," : "", strcmp(how, "local") ? i : k);
				k++;
			}
		putchar('\n');
	}
	if (f)
		fclose(f);
}

int td_standin_task(int argc, char **argv)
{
	const char *path = TD_WIRE_TASK, *accelerator = TD_WIRE_ACCELERATOR;
	for (int i = 1; i < argc; i++) {
		if (i + 1 < argc && !strcmp(argv[i], "--socket")) {
			path = argv[++i];
		} else if (i + 1 < argc && !strcmp(argv[i], "--accelerator")) {
			accelerator = argv[++i];
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

	int64_t deadline = td_standin_now_ms() + TASK_MS, nap = 20;
	for (int64_t left; (left = deadline - td_standin_now_ms()) > 0;) {
		int r = td_standin_ask(path, request, deadline, why, sizeof(why));
		if (r == 2)
			return refuse(why,
				      job && !getenv("SLURM_STEP_ID") ? requeue(job, deadline) : "; submit it again");
		if (!r)
			variables(accelerator, dev);
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
