// A job that was queued again may start soon: Slurm lets it wait for two minutes, so that no credential of its
// earlier run is left on a node that it gets again. It does not get this one again (unlucky.c). On the others the end
// of the earlier run counts for every credential that is as old: within that second slurmd ends the job for good
// (docs/facts/slurm.md S-H7), so it begins some seconds later.
//
// The begin can be set only when the job has left its nodes, because that is when Slurm sets it, too. So a process
// that outlives the Prolog does it. What it is too late for, or what fails, costs Slurm's two minutes and no more.
#include "standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// A busy slurmctld answers late, and nobody waits for this process.
#define AFTER_S "3"
// NEAR_S: a begin that is no later than that is ours, and not Slurm's: clocks may differ.
enum { SOON_MS = 180000, COMMAND_MS = 15000, NAP_MS = 300, NAP_MAX_MS = 1000, NEAR_S = 30 };

enum standin_soon_step td_standin_soon_step(struct standin_soon *s, const char *state, long long begin, long long now)
{
	bool pending = !strcmp(state, "PENDING");
	if (pending) {
		s->left = true;
		return s->accepted && begin <= now + NEAR_S ? STANDIN_SOON_DONE : STANDIN_SOON_SET;
	}
	if (!strcmp(state, "COMPLETING")) {
		s->left = true;
		return STANDIN_SOON_LOOK;
	}
	// It runs again, or is gone. Before it has left, it is the run that is to end.
	return s->left ? STANDIN_SOON_DONE : STANDIN_SOON_LOOK;
}

static bool act(char *const argv[])
{
	char *text = NULL, why[256] = "";
	int r = td_standin_command(argv, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
	free(text);
	return r == 0;
}

static void watch(const char *job)
{
	struct standin_soon s = {0};
	char id[48];
	snprintf(id, sizeof(id), "jobid=%s", job);
	setenv("SLURM_TIME_FORMAT", "%s", 1);
	int nap = NAP_MS;
	// No event tells of it. An update that fails, as one does in the moment of a state's change, is tried again.
	for (int64_t end = td_standin_now_ms() + SOON_MS; td_standin_now_ms() < end; poll(NULL, 0, nap)) {
		char *look[] = {"squeue", "-h", "-j", (char *)job, "-O", "State:30,EligibleTime:30", NULL};
		char *text = NULL, why[256] = "", state[32] = "";
		long long begin = 0;
		int r = td_standin_command(look, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
		if (!r && text)
			sscanf(text, "%31s %lld", state, &begin);
		free(text);
		enum standin_soon_step step =
			r ? STANDIN_SOON_LOOK : td_standin_soon_step(&s, state, begin, (long long)time(NULL));
		if (step == STANDIN_SOON_DONE)
			return;
		if (step == STANDIN_SOON_SET)
			s.accepted = act((char *[]){"scontrol", "update", id, "starttime=now+" AFTER_S, NULL});
		nap = nap < NAP_MAX_MS ? nap + 100 : NAP_MAX_MS;
	}
}

void td_standin_soon(const char *job)
{
	// slurmd kills what a Prolog leaves behind in its group: when this returns, the process is in none of it.
	pid_t pid = fork();
	if (pid < 0)
		fprintf(stderr, "tandem gate: job %s starts after Slurm's two minutes: %s\n", job, strerror(errno));
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (pid)
		return;
	setsid();
	if (fork())
		_exit(0);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	watch(job);
	_exit(0);
}
