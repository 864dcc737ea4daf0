// What becomes of a native job whose devices failed their test before it started (docs/health.md): it is queued
// again and may start at once, because its node takes no job any more. One that met that too often is held, and its
// admin comment says why.
#include "standin/standin.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "tandem: pre-flight failed "

enum { COMMAND_MS = 5000, START_TRIES = 60, START_MS = 300, NODES_MAX = 200 };

static void act(char *const argv[])
{
	td_standin_act("gate", argv, td_standin_now_ms() + COMMAND_MS);
}

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
			act((char *[]){"scontrol", "update", arg, "starttime=now", NULL});
			break;
		}
		usleep(START_MS * 1000); // no event tells of it
	}
	_exit(0);
}

void td_standin_unlucky(const char *job, const char *node, long long tries, const char *why)
{
	static char was[2048], text[sizeof(was) + 1024], arg[sizeof(text) + 32];
	char id[48], said[256] = "";
	if (td_standin_is_pods(getenv("SLURM_JOB_COMMENT"))) // the bridge asks again
		return;
	struct standin_text out = {was, sizeof(was)};
	if (td_standin_job_text(job, "admin_comment", td_standin_now_ms() + COMMAND_MS, out, said, sizeof(said)) < 0) {
		fprintf(stderr, "tandem gate: %s\n", said);
		return; // Slurm queues it again by itself, after its two minutes
	}
	if (td_standin_is_pods(was))
		return;

	bool hold = td_standin_unlucky_text(was, node, why, text, sizeof(text)) >= tries && tries > 0;
	snprintf(id, sizeof(id), "jobid=%s", job);
	snprintf(arg, sizeof(arg), "admincomment=%s", text);
	act((char *[]){"scontrol", "update", id, arg, NULL});
	act((char *[]){"scontrol", hold ? "requeuehold" : "requeue", (char *)job, NULL});
	if (!hold)
		start_soon(job);
}
