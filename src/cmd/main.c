// The program: the table of roles and commands.
#include "cmd/roles.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct command {
	const char *name;
	int (*main)(int, char **);
	const char *help; // NULL: not in the help
	bool serves;      // runs for long and holds many connections
};

static void usage(FILE *f, const struct command *roles, size_t n)
{
	fputs("usage: tandem COMMAND [OPTION…]\n\nOne pool of GPU compute under Slurm and Kubernetes at "
	      "once.\n\nCommands\n",
	      f);
	for (size_t i = 0; i < n; i++)
		if (roles[i].help)
			fprintf(f, "  %-12s %s\n", roles[i].name, roles[i].help);
	fputs("\n`tandem COMMAND --help` says more; exit codes: 0 done, 1 failed, 2 wrong usage.\n", f);
}

// The usual soft limit of 1,024 descriptors exists for programs that use select(); a thousand
// watchers need more. The new limit is bounded because some programs close every descriptor that
// they could have inherited.
static void raise_file_limit(void)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	l.rlim_cur = l.rlim_max > 1 << 20 ? 1 << 20 : l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
}

static int run(const struct command *r, int argc, char **argv)
{
	if (r->serves)
		raise_file_limit();
	return r->main(argc, argv);
}

int main(int argc, char **argv)
{
	// Many threads are mostly idle, and an arena for each would hold memory for nothing.
	mallopt(M_ARENA_MAX, 2);
	// Whole lists (megabytes, at start and after a gap) must go back to the kernel after use.
	// Without these settings malloc takes the first list for the usual size and keeps that much
	// of the heap for ever.
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	mallopt(M_TRIM_THRESHOLD, 128 << 10);

	const struct command roles[] = {
		{"up", td_up_main, "start everything on this machine; with --kubeconfig: the tour on a cluster"},
		{"down", td_down_main, "stop it; --purge removes its state too"},
		{"install", td_install_main, "install Tandem on a Kubernetes cluster, or bring it to this version"},
		{"uninstall", td_uninstall_main, "remove it from there"},
		{"status", td_status_main, "roles, nodes and Slurm, with what is wrong in words"},
		{"env", td_env_main, "print shell lines that set KUBECONFIG and PATH"},
		{"shell", td_shell_main, "a shell or a command in the Slurm login pod"},
		{"why", td_why_main, "why a pod or a job waits, or where it runs"},
		{"image", td_image_main, "build, list or import container images"},
		{"validate", td_validate_main, "check SlurmCluster and NodeSet files"},
		{"annotations", td_annotations_main, "what a pod may say to Slurm"},
		{"apiserver", td_apiserver_main, "role: the embedded Kubernetes API", true},
		{"controllers", td_controllers_main, "role: the embedded workload controllers and scheduler", true},
		{"kubelet", td_kubelet_main, "role: the embedded kubelet of virtual nodes, with their gates", true},
		{"agent", td_agent_main, "role: the gate on a cluster's node, beside its kubelet", true},
		{"operator", td_operator_main, "role: SlurmCluster and NodeSet", true},
		{"bridge", td_bridge_main, "role: pods to Slurm jobs and back, node state both ways", true},
		{"supervise", td_supervise_main, "role: starts and restarts the embedded roles"},
		{"sandbox", td_sandbox_main, NULL},
	};

	size_t n = sizeof(roles) / sizeof(roles[0]);
	if (argc < 2) {
		usage(stderr, roles, n);
		return 2;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
		puts("tandem " TD_VERSION);
		return 0;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout, roles, n);
		return 0;
	}

	for (size_t i = 0; i < n; i++)
		if (!strcmp(roles[i].name, argv[1]))
			return run(&roles[i], argc - 1, argv + 1);
	fprintf(stderr, "tandem: unknown command \"%s\". `tandem --help` lists them.\n", argv[1]);
	return 2;
}
