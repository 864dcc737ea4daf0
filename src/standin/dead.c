// `clear-dead`: ends what Slurm still counts on this node before the node's slurmd starts.
//
// Such jobs and steps ran in an earlier container. Their processes are gone, because a container
// has its own PID namespace, but Slurm notices that late by itself (a batch job: after up to 5
// minutes) or never (srun: measured for 10 minutes).
//
// If nobody has drained or downed the node, it is drained first, so that nothing new starts
// meanwhile; the operator resumes it when slurmd has registered. If then no pod's stand-in is on
// it, it is set DOWN: Slurm requeues the jobs that may be requeued, fails the rest, and takes the
// node back when slurmd registers (ReturnToService=2).
//
// Otherwise the jobs are handled one by one. A job that may be requeued is requeued. One that lost
// steps of srun or salloc, while no batch script of it ran here, is cancelled. One that may not be
// requeued and whose batch script ran here is left to slurmctld, which ends it as NODE_FAIL.
// Stand-ins are never touched: their pods live beside this container. (The mark of a stand-in is
// its comment until its admin comment is written.)
#include "standin/standin.h"
#include "standin/wire.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SACK "/run/slurm/sack.socket" // without it no command can authenticate

enum { COMMAND_MS = 10000, SACK_TRIES = 100, SACK_MS = 20 };

// The columns have fixed widths: users write the comments, and a line break in a comment must not
// look like another job.
#define COLUMNS "JobID:24,BatchFlag:8,Requeue:8,BatchHost:256,admin_comment:8,comment:8"
enum { AT_BATCH = 24, AT_REQUEUE = 32, AT_HOST = 40, AT_ASK = 296 };

struct clearing {
	const char *node, *reason, *sack;
};

static void say(const char *text)
{
	if (*text)
		fprintf(stderr, "%s%s", text, text[strlen(text) - 1] == '\n' ? "" : "\n");
}

// Runs a command whose answer does not matter, and shows what it says.
static void act(char *const argv[])
{
	char *text = NULL, why[256] = "";
	if (td_standin_command(argv, true, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why)) < 0)
		say(why);
	if (text)
		say(text);
	free(text);
}

static char *ask(char *const argv[])
{
	char *text = NULL, why[256] = "";
	int r = td_standin_command(argv, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
	if (r < 0)
		say(why);
	if (!r)
		return text;
	free(text);
	return NULL;
}

static void await_sack(const char *path)
{
	struct stat st;
	for (int i = 0; i < SACK_TRIES && (stat(path, &st) || !S_ISSOCK(st.st_mode)); i++)
		poll(NULL, 0, SACK_MS); // no event tells of it
}

// The jobs that run or are stopped on the node, in squeue's columns. NULL: unknown, or Slurm does
// not know the node.
static char *list(const struct clearing *c)
{
	char *argv[] = {"squeue", "-h", "-w", (char *)c->node, "-t", "R,S,ST", "-O", COLUMNS, NULL}, *text = NULL,
	     why[256] = "";
	await_sack(c->sack);

	int r = td_standin_command(argv, true, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
	if (!r)
		return text;

	if (!text || !strstr(text, "Invalid node name")) {
		fputs("tandem: which jobs died here is not known: ", stderr);
		say(text ? text : why);
	}
	free(text);
	return NULL;
}

static void set_node(const struct clearing *c, char *state)
{
	char name[512], reason[512];
	snprintf(name, sizeof(name), "nodename=%s", c->node);
	snprintf(reason, sizeof(reason), "reason=%s", c->reason);
	act((char *[]){"scontrol", "update", name, state, reason, NULL});
}

// True when nobody has drained or downed the node, so that it may be set DOWN.
static bool unmarked(const struct clearing *c)
{
	static const char *const states[] = {"idle", "mixed", "allocated", "completing"};
	char *text = ask((char *[]){"sinfo", "-h", "-N", "-n", (char *)c->node, "-o", "%T", NULL});
	size_t n = text ? strcspn(text, "\n") : 0;
	bool found = false;

	if (n && text[n - 1] == '*')
		n--;

	for (size_t i = 0; n && i < sizeof(states) / sizeof(states[0]); i++)
		found |= strlen(states[i]) == n && !strncmp(text, states[i], n);
	free(text);
	return found;
}

static bool column_is(const char *column, size_t width, const char *value)
{
	size_t n = strlen(value);
	return n <= width && !strncmp(column, value, n) && (n == width || column[n] == ' ');
}

static void end_job(const struct clearing *c, const char *line)
{
	size_t n = strspn(line, "0123456789");
	char job[AT_BATCH + 1], name[48];
	if (!n || n >= AT_BATCH || line[n] != ' ' || strstr(line + AT_ASK, TD_WIRE_STANDIN))
		return;
	snprintf(job, sizeof(job), "%.*s", (int)n, line);

	char *steps = ask((char *[]){"squeue", "-h", "-s", "-w", (char *)c->node, "-j", job, "-o", "%i", NULL});
	bool had = steps && steps[strspn(steps, " \n")];
	free(steps);
	if (!had)
		return;
	fprintf(stderr, "tandem: job %s had processes in a slurmd container that died\n", job);
	td_standin_job_or_id(job, td_standin_now_ms() + COMMAND_MS, name, sizeof(name));
	bool batch = !column_is(line + AT_BATCH, AT_REQUEUE - AT_BATCH, "0");
	if (batch && column_is(line + AT_REQUEUE, AT_HOST - AT_REQUEUE, "1"))
		act((char *[]){"scontrol", "requeue", name, NULL});
	else if (!batch || !column_is(line + AT_HOST, AT_ASK - AT_HOST, c->node))
		act((char *[]){"scancel", name, NULL});
}

static void one_by_one(const struct clearing *c, char *lost)
{
	char *save;
	for (char *line = strtok_r(lost, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (strlen(line) >= AT_ASK)
			end_job(c, line);
}

static void clear(const struct clearing *c)
{
	char *lost = list(c);
	if (lost && *lost && unmarked(c)) {
		set_node(c, "state=DRAIN"); // nothing new starts between the two looks
		char *now = list(c);
		if (now && !strstr(now, TD_WIRE_STANDIN)) {
			set_node(c, "state=DOWN");
			free(now);
			free(lost);
			return;
		}
		if (now) { // otherwise the first look is all that is known
			free(lost);
			lost = now;
		}
	}
	if (lost)
		one_by_one(c, lost);
	free(lost);
}

int td_standin_clear_dead(int argc, char **argv)
{
	struct clearing c = {.sack = SACK};
	for (int i = 1; i + 1 < argc; i += 2) {
		const char **to = !strcmp(argv[i], "--node")     ? &c.node
				  : !strcmp(argv[i], "--reason") ? &c.reason
				  : !strcmp(argv[i], "--sack")   ? &c.sack
								 : NULL;
		if (!to) {
			fprintf(stderr, "tandem-standin clear-dead: unknown argument \"%s\"\n", argv[i]);
			return 2;
		}
		*to = argv[i + 1];
	}

	if (argc % 2 == 0 || !c.node || !*c.node || !c.reason || !*c.reason) {
		fputs("tandem-standin clear-dead: --node NAME and --reason TEXT are needed\n", stderr);
		return 2;
	}

	clear(&c);
	return 0;
}
