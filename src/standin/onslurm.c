// `tandem-run` in a session over several machines that have no kubelet (docs/host.md): the session is one Slurm job, so
// srun starts the program on its nodes, as a step of that job. Nothing listens for it, and no key is needed: Slurm lets
// nobody start steps in another person's job.
#include "standin/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool td_standin_onslurm_here(void)
{
	const char *hosts = getenv("TANDEM_GANG_HOSTS"), *nodes = getenv("TANDEM_SESSION_NODES");
	return nodes && *nodes && hosts && *hosts && getenv("SLURM_JOB_ID") && !getenv("TANDEM_SESSION_KEY");
}

int td_standin_onslurm_words(const struct standin_onslurm *w, char *ret, size_t n)
{
	int first = w->only >= 0 ? w->only : w->workers ? 1 : 0, last = w->only >= 0 ? w->only : w->n_hosts - 1;
	int len = snprintf(ret, n, "--nodelist=");
	for (int i = first; i <= last && len < (int)n; i++)
		len += snprintf(ret + len, n - (size_t)len, "%s%s", i > first ? "," : "", w->hosts[i]);
	return first > last || len >= (int)n ? -1 : last - first + 1;
}

int td_standin_onslurm(const struct standin_onslurm *w)
{
	enum { OWN = 16, WORDS = 20000 };
	static char list[WORDS];
	char nodes[32], tasks[32], job[64], rank[16], self[4096];
	int n = td_standin_onslurm_words(w, list, sizeof(list)), k = 0, c = 0;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 1 || len < 1) {
		fputs("tandem-run: this session has no such nodes\n", stderr);
		return 2;
	}
	self[len] = '\0';
	snprintf(nodes, sizeof(nodes), "--nodes=%d", n);
	snprintf(tasks, sizeof(tasks), "--ntasks=%d", n);
	snprintf(job, sizeof(job), "--jobid=%.40s", getenv("SLURM_JOB_ID"));
	snprintf(rank, sizeof(rank), "%d", w->only >= 0 ? w->only : w->workers);
	while (w->argv[c])
		c++;
	char **v = calloc((size_t)c + OWN, sizeof(*v));
	if (!v)
		abort();
	// As of a pod's program: nothing is typed to it, and when it fails on one node it is ended on the others.
	const char *const own[] = {"srun",
				   job,
				   nodes,
				   tasks,
				   "--ntasks-per-node=1",
				   list,
				   "--overlap",
				   "--input=none",
				   "--kill-on-bad-exit=1",
				   "--export=ALL",
				   "--mpi=none",
				   w->label ? "--label" : "--quiet"};
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		v[k++] = (char *)(uintptr_t)own[i];
	v[k++] = self;
	v[k++] = (char *)(uintptr_t)"on-slurm";
	v[k++] = rank;
	memcpy(v + k, w->argv, (size_t)c * sizeof(*v));
	// Of the step in which somebody types this: it would be the new one's, too.
	static const char *const steps[] = {"SLURM_NTASKS",        "SLURM_NPROCS",      "SLURM_NNODES",
					    "SLURM_JOB_NUM_NODES", "SLURM_NODELIST",    "SLURM_TASKS_PER_NODE",
					    "SLURM_STEP_NODELIST", "SLURM_RELATIVE",    "SLURM_CPU_BIND",
					    "SLURM_DISTRIBUTION",  "SLURM_UNBUFFEREDIO"};
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		unsetenv(steps[i]);
	execvp(v[0], v);
	fprintf(stderr, "tandem-run: srun: %s: this machine needs the package slurm-client\n", strerror(errno));
	free(v);
	return 127;
}

int td_standin_onslurm_door(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(a.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(a.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	int e = errno;
	if (fd >= 0)
		close(fd);
	errno = e;
	return -1;
}

static bool is_of(const char *variable, const char *const *names)
{
	for (; *names; names++)
		if (!strncmp(variable, *names, strlen(*names)))
			return true;
	return false;
}

bool td_standin_onslurm_sends(const char *variable)
{
	static const char *const never[] = {"SLURM",
					    "SRUN_",
					    "SBATCH_",
					    "PYXIS_",
					    "TANDEM_",
					    "PMI",
					    "HOSTNAME=",
					    "RANK=",
					    "NODE_RANK=",
					    "PET_NODE_RANK=",
					    "PWD=",
					    "OLDPWD=",
					    "SHLVL=",
					    "_=",
					    "CUDA_VISIBLE_D",
					    "GPU_DEVICE",
					    "ROCR_VISIBLE",
					    "ZE_AFFINITY",
					    "NVIDIA_VISIBLE",
					    "NCCL_IB_HCA=",
					    "UCX_NET_DEVICES=",
					    NULL};
	return strchr(variable, '=') && !is_of(variable, never);
}

// What the program that asked had in its container, in the task's own.
static void put_back(void)
{
	size_t n = strlen(STANDIN_INSIDE), k = 0, all = 0;
	while (environ[all])
		all++;
	char **take = calloc(all + 1, sizeof(*take));
	if (!take)
		abort();
	for (size_t i = 0; i < all; i++)
		if (!strncmp(environ[i], STANDIN_INSIDE, n) && !(take[k++] = strdup(environ[i])))
			abort();
	for (size_t i = 0; i < k; i++) {
		char *name = take[i] + n, *equals = strchr(take[i], '=');
		*equals = '\0';
		unsetenv(take[i]);
		if (*name)
			setenv(name, equals + 1, 1);
		free(take[i]);
	}
	free(take);
}

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
}

int td_standin_onslurm_task(int argc, char **argv)
{
	const char *proc = getenv("SLURM_PROCID"), *gpus = getenv("TANDEM_NODE_GPUS"), *world = getenv("WORLD_SIZE");
	char rank[32];
	if (argc < 3 || !proc) {
		fputs("tandem-standin on-slurm: tandem-run calls it, in a step of a Slurm job\n", stderr);
		return 2;
	}
	put_back();
	snprintf(rank, sizeof(rank), "%d", atoi(proc) + atoi(argv[1]));
	set("RANK", rank);
	set("NODE_RANK", rank);
	// torchrun takes its options from these.
	set("PET_NODE_RANK", rank);
	set("PET_NNODES", world);
	set("PET_MASTER_ADDR", getenv("MASTER_ADDR"));
	set("PET_MASTER_PORT", getenv("MASTER_PORT"));
	if (gpus && atoi(gpus) > 0)
		setenv("PET_NPROC_PER_NODE", gpus, 0);
	if (strcmp(rank, "0") != 0)
		unsetenv("TANDEM_SESSION_SOCKET"); // it is on the first node, where people are
	execvp(argv[2], argv + 2);
	fprintf(stderr, "tandem-run: %s: %s\n", argv[2], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}
