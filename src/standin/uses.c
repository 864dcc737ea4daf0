// `uses`: what a session on a machine without a kubelet uses, told to its gateway by a step of the session's own job: a line
// "NODE CPU GPU" at once and every --every ms, until nobody reads any more. CPU: seconds that the job's processes computed;
// GPU: how much the busiest of the job's GPUs here does, in percent, -1: it has none, -2: not known.
//
// The step is the job's owner's, so he can say of his own session what he likes, as he can compute for nothing. Of nobody
// else's: which job it is, the kernel says to the agent.
#include "standin/watch.h"
#include "standin/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EVERY_MS = 15000, GATE_MS = 3000, JOBS = 256 };

// Of cgroup v2, which keeps what ended processes used; else of those that there are.
static double cpu_now(const char *group, long long job)
{
	static struct standin_job v[JOBS];
	char path[4200], text[64];
	unsigned long long us;
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.stat", group);
	FILE *f = *group ? fopen(path, "re") : NULL;
	while (f && fgets(text, sizeof(text), f))
		if (sscanf(text, "usage_usec %llu", &us) == 1) {
			fclose(f);
			return (double)us / 1e6;
		}
	if (f)
		fclose(f);
	int n = job ? td_standin_jobs("/proc", v, JOBS) : 0;
	for (int i = 0; i < n; i++) {
		struct standin_signs s;
		if (v[i].id != job)
			continue;
		td_standin_signs("/proc", &v[i], &s);
		return s.cpu_ms < 0 ? -1 : (double)s.cpu_ms / 1000;
	}
	return -1;
}

static int gpu_now(const char *socket, const char *node)
{
	char request[400], why[TD_WIRE_LINE] = "";
	int gpu;
	snprintf(request, sizeof(request), "mine node=%s devices=-\n", node);
	int r = td_standin_ask(socket, request, td_standin_now_ms() + GATE_MS, why, sizeof(why));
	return r == STANDIN_HANGS && sscanf(why, "gpu=%d", &gpu) == 1 ? gpu : STANDIN_GPU_UNKNOWN;
}

// False: nobody reads any more.
static bool wait_end(int ms)
{
	char b[256];
	for (int64_t end = td_standin_now_ms() + ms, left; (left = end - td_standin_now_ms()) > 0;) {
		struct pollfd p = {0, POLLIN, 0};
		int n = poll(&p, 1, (int)left);
		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0 && read(0, b, sizeof(b)) <= 0)
			return false;
	}
	return true;
}

int td_standin_uses(int argc, char **argv)
{
	static char cgroups[16384], group[4096];
	const char *socket = TD_WIRE_TASK, *node = getenv("SLURMD_NODENAME");
	int every = EVERY_MS;
	for (int i = 1; i < argc; i++) {
		if (i + 1 < argc && !strcmp(argv[i], "--every") && (every = atoi(argv[i + 1])) > 0) {
			i++;
		} else if (i + 1 < argc && !strcmp(argv[i], "--socket")) {
			socket = argv[++i];
		} else {
			fprintf(stderr, "tandem-standin uses: unknown argument \"%s\"\n", argv[i]);
			return 2;
		}
	}
	if (!node || !*node || strlen(node) > 255 || strspn(node, STANDIN_NAME_CHARS) != strlen(node)) {
		fputs("tandem-standin uses: SLURMD_NODENAME must be set: this runs in a step of a Slurm job\n", stderr);
		return 2;
	}
	FILE *f = fopen("/proc/self/cgroup", "re");
	size_t len = f ? fread(cgroups, 1, sizeof(cgroups) - 1, f) : 0;
	cgroups[len] = '\0';
	if (f)
		fclose(f);
	long long job = td_standin_uses_cgroup(cgroups, group, sizeof(group));
	do {
		char line[400];
		snprintf(line, sizeof(line), "%s %.3f %d\n", node, cpu_now(group, job), gpu_now(socket, node));
		if (!td_standin_put(1, line, strlen(line)))
			return 0;
	} while (wait_end(every));
	return 0;
}
