// What the Prolog of a job's first node does before the job's own devices are asked for, where a policy wants
// several nodes tested together (docs/health.md).
//
// A test that fails is the fault of another node most often, and a Prolog that fails would drain this one. So the
// job is queued again here, and the gate is not asked for its devices: none of its tasks starts (task.c).
#include "standin/peer.h"
#include "standin/wire.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// AWAY_MS: what is left for the job to leave its nodes, when a test has failed as late as it may.
enum { LEFT_MS = 4000, LOOK_MS = 100, COMMAND_MS = 3000, QOS_MAX = 128, AWAY_MS = 12000 };

static bool runs(const char *job, int64_t deadline)
{
	char *argv[] = {"squeue", "-h", "-j", (char *)job, "-o", "%T", NULL}, *text = NULL, why[128] = "";
	int r = td_standin_command(argv, false, td_standin_until(COMMAND_MS, deadline), &text, why, sizeof(why));
	bool is = !r && text && !strncmp(text, "RUNNING", 7);
	free(text);
	return is;
}

static bool left(const char *job, int64_t end)
{
	for (; runs(job, end); poll(NULL, 0, LOOK_MS))
		if (td_standin_now_ms() >= end)
			return false;
	return true;
}

// Only batch jobs can be queued again; an srun ends, and the bridge asks again for a pod whose stand-in ends so.
static void away(const struct standin_unlucky *u)
{
	bool pod = td_standin_is_pods(getenv("SLURM_JOB_COMMENT"));
	struct standin_unlucky soon = *u;
	soon.deadline_ms -= COMMAND_MS; // of scancel
	// One that Slurm has queued again is ended by nobody, however long a busy slurmctld takes to say so.
	bool again = !pod && td_standin_unlucky(&soon);
	char job[48];
	snprintf(job, sizeof(job), "%s", u->job);
	if (!pod && !again)
		td_standin_job_or_id(u->job, td_standin_until(COMMAND_MS, soon.deadline_ms), job, sizeof(job));
	if (!pod && left(u->job, again ? u->deadline_ms : td_standin_until(LEFT_MS, soon.deadline_ms)))
		return;
	if (again)
		return;
	td_standin_act("gate", (char *[]){"scancel", job, NULL}, td_standin_until(COMMAND_MS, u->deadline_ms));
	left(u->job, u->deadline_ms);
}

bool td_standin_several(const struct standin_several *s)
{
	const char *nodes = getenv("SLURM_JOB_NODELIST"), *count = getenv("SLURM_JOB_NUM_NODES");
	char first[256], request[TD_WIRE_LINE], why[TD_WIRE_LINE] = "", qos[QOS_MAX] = "", storage[256] = "";
	if (!nodes || strpbrk(nodes, " \n") || !count || strtol(count, NULL, 10) < 2)
		return true;
	td_standin_first_host(nodes, first, sizeof(first));
	if (strcmp(first, s->node) != 0)
		return true;

	for (;;) {
		snprintf(request, sizeof(request), "exchange %s%s%s devices=- timeout=%d\n", s->request,
			 *qos ? " qos=" : "", qos, STANDIN_LIMIT_MS);
		int r = td_standin_ask(s->path, request, td_standin_until(STANDIN_LIMIT_MS, s->deadline_ms), why,
				       sizeof(why));
		if (r == STANDIN_WANTS_QOS && !*qos) {
			struct standin_text out = {qos, sizeof(qos)};
			char said[128];
			if (td_standin_job_text(s->job, "qos", td_standin_until(COMMAND_MS, s->deadline_ms), out, said,
						sizeof(said)) <= 0 ||
			    strpbrk(qos, " \n") || !*qos)
				snprintf(qos, sizeof(qos), "-"); // no QOS has this name
			continue;
		}
		if (r != STANDIN_EXCHANGE)
			return true; // no such test is wanted, or the agent knows none
		break;
	}
	long long kib = 0, tries = 0;
	int only_say = 0;
	sscanf(why, "kib=%lld tries=%lld say=%d storage=%255s", &kib, &tries, &only_say, storage);

	char guilty[256] = "", said[256] = "";
	const struct standin_exchange x = {.job = s->job,
					   .nodes = nodes,
					   .storage = storage,
					   .kib = kib,
					   .deadline_ms = s->deadline_ms - AWAY_MS - COMMAND_MS};
	int r = td_standin_exchange(&x, guilty, sizeof(guilty), said, sizeof(said));
	snprintf(request, sizeof(request), "exchange %s devices=- timeout=%d result=%s\n", s->request, COMMAND_MS,
		 r > 0   ? "failed"
		 : r < 0 ? "error"
			 : "passed");
	td_standin_ask(s->path, request, td_standin_until(COMMAND_MS, s->deadline_ms), why, sizeof(why));
	if (r)
		fprintf(stderr, "tandem gate: the test of %s together: %s%s%s%s\n", nodes, guilty, *guilty ? ": " : "",
			said, r < 0 ? " (no test took place, the job starts)" : "");
	if (r <= 0 || only_say)
		return true;
	away(&(struct standin_unlucky){s->job, guilty, said, tries, s->deadline_ms});
	return false;
}
