// What becomes of a native job whose devices failed their test before it started (docs/health.md): it is queued
// again and may start at once, because its node takes no job any more. One that met that too often is held, and its
// admin comment says why.
#include "standin/standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "tandem: pre-flight failed "

enum { COMMAND_MS = 4000, START_TRIES = 60, START_MS = 300, NODES_MAX = 200 };

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

// Slurm lets a requeued job wait for two minutes, so that no credential of its earlier run is left on a node that it
// gets again. It does not get this one again. The begin is set when the job has left its nodes: Slurm sets it, too.
static void start_soon(const char *job)
{
	if (fork())
		return;
	setsid(); // slurmd kills what a Prolog leaves behind in its group
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	char arg[48];
	snprintf(arg, sizeof(arg), "jobid=%s", job);
	for (int i = 0; i < START_TRIES; i++) {
		char *look[] = {"squeue", "-h", "-j", (char *)job, "-o", "%T %r", NULL}, *text = NULL, why[256] = "";
		int r = td_standin_command(look, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
		bool waits = !r && text && !strncmp(text, "PENDING BeginTime", strlen("PENDING BeginTime"));
		free(text);
		if (waits) {
			td_standin_act("gate", (char *[]){"scontrol", "update", arg, "starttime=now", NULL},
				       td_standin_now_ms() + COMMAND_MS);
			break;
		}
		usleep(START_MS * 1000); // no event tells of it
	}
	_exit(0);
}

void td_standin_unlucky(const struct standin_unlucky *u)
{
	static char was[2048], text[sizeof(was) + 1024], arg[sizeof(text) + 32];
	char id[48], said[256] = "";
	if (td_standin_is_pods(getenv("SLURM_JOB_COMMENT"))) // the bridge asks again
		return;
	struct standin_text out = {was, sizeof(was)};
	// What is said of the job leaves time for what is done with it.
	int64_t words = td_standin_until(2 * COMMAND_MS, u->deadline_ms - COMMAND_MS);
	bool known = td_standin_job_text(u->job, "admin_comment", words, out, said, sizeof(said)) >= 0, hold = false;
	if (td_standin_is_pods(was))
		return;

	if (known) {
		long long failed = td_standin_unlucky_text(was, u->node, u->why, text, sizeof(text));
		hold = failed >= u->tries && u->tries > 0;
		snprintf(id, sizeof(id), "jobid=%s", u->job);
		snprintf(arg, sizeof(arg), "admincomment=%s", text);
		td_standin_act("gate", (char *[]){"scontrol", "update", id, arg, NULL}, words);
	} else {
		fprintf(stderr, "tandem gate: %s\n", said); // it is queued again all the same, only nobody counts that
	}
	td_standin_act("gate", (char *[]){"scontrol", hold ? "requeuehold" : "requeue", (char *)u->job, NULL},
		       td_standin_until(COMMAND_MS, u->deadline_ms));
	if (!hold)
		start_soon(u->job);
}
