// What becomes of a native job whose devices failed their test before it started (docs/health.md): it is queued
// again and may start at once, because its node takes no job any more. One that met that too often is held, and its
// admin comment says why.
#include "standin/standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "tandem: pre-flight failed "

enum { COMMAND_MS = 4000, NODES_MAX = 200 };

long long td_standin_unlucky_text(const char *was, const char *node, const char *why, char *out, size_t n)
{
	// "… tandem: pre-flight failed 2 times, on n0 n3: …"
	const char *mark = was ? strstr(was, MARK) : NULL, *on = mark ? strstr(mark, ", on ") : NULL;
	long long failed = mark ? strtoll(mark + strlen(MARK), NULL, 10) + 1 : 1;
	int before = !was ? 0 : mark ? (int)(mark - was) : (int)strlen(was);
	int nodes = 0;
	if (on) {
		on += strlen(", on ");
		nodes = (int)strcspn(on, ":");
		if (nodes > NODES_MAX)
			nodes = NODES_MAX;
	}
	// One blank between what stood there and ours.
	const char *blank = before && was[before - 1] != ' ' ? " " : "";
	snprintf(out, n, "%.*s%s" MARK "%lld time%s, on %.*s%s%s: %s", before, was ? was : "", blank, failed,
		 failed == 1 ? "" : "s", nodes, on ? on : "", nodes ? " " : "", node, why);
	return failed;
}

bool td_standin_unlucky(const struct standin_unlucky *u)
{
	static char was[2048], text[sizeof(was) + 1024], arg[sizeof(text) + 32];
	char name[48], id[64], said[256] = "";
	if (td_standin_is_pods(getenv("SLURM_JOB_COMMENT"))) // the bridge asks again
		return false;
	struct standin_text out = {was, sizeof(was)};
	// What is said of the job leaves time for what is done with it.
	int64_t words = td_standin_until(3 * COMMAND_MS, u->deadline_ms - COMMAND_MS);
	bool known = td_standin_job_text(u->job, "admin_comment", words, out, said, sizeof(said)) >= 0, hold = false;
	if (td_standin_is_pods(was))
		return false;

	snprintf(name, sizeof(name), "%s", u->job);
	if (known) {
		td_standin_job_or_id(u->job, words, name, sizeof(name));
		long long failed = td_standin_unlucky_text(was, u->node, u->why, text, sizeof(text));
		hold = failed >= u->tries && u->tries > 0;
		snprintf(id, sizeof(id), "jobid=%s", name);
		snprintf(arg, sizeof(arg), "admincomment=%s", text);
		td_standin_act("gate", (char *[]){"scontrol", "update", id, arg, NULL}, words);
	} else {
		fprintf(stderr, "tandem gate: %s\n", said); // it is queued again all the same, only nobody counts that
	}
	bool again = td_standin_act("gate", (char *[]){"scontrol", hold ? "requeuehold" : "requeue", name, NULL},
				    td_standin_until(COMMAND_MS, u->deadline_ms));
	if (!hold)
		td_standin_soon(name);
	return again;
}
