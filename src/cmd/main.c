// The program: the table of roles and commands.
#include "cmd/roles.h"

#include "base/near.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static int completion_main(int argc, char **argv);

static const struct td_cmd roles[] = {
	{"up", td_up_main, "start everything on this machine, or on a cluster (--kubeconfig)"},
	{"down", td_down_main, "stop it; --purge removes its state too"},
	{"install", td_install_main, "install Tandem on a Kubernetes cluster, or update it"},
	{"uninstall", td_uninstall_main, "remove it from there"},
	{"status", td_status_main, "roles, nodes and Slurm, with what is wrong in words"},
	{"env", td_env_main, "print shell lines that set KUBECONFIG and PATH"},
	{"shell", td_shell_main, "a shell or a command in Slurm's login pod, as one of its users"},
	{"why", td_why_main, "why a pod or a job waits, or where it runs"},
	{"stacks", td_stacks_main, "where the processes of a job or a pod stand, now"},
	{"quota", td_quota_main, "what tenants may hold, hold and wait for"},
	{"usage", td_usage_main, "GPU hours by tenant, user or day"},
	{"nodes", td_nodes_main, "the nodes: what is wrong with them, and what is done about it"},
	{"node", td_node_main, "one node; drain, reset, reboot, test or return it"},
	{"join", td_join_main, "on a new machine: become a node, with a token for it"},
	{"host", td_host_main, "run slurmd on this machine itself, as a node of the pool"},
	{"adopt", td_adopt_main, "take over an existing Slurm, group by group, and give it back"},
	{"netboot", td_netboot_main, "boot machines without disks, by HTTP"},
	{"gds-check", td_gds_check_main, "what a machine has of GPUDirect Storage"},
	{"upgrade", td_upgrade_main, "upgrade nodes under running work"},
	{"history", td_history_main, "what was done on a node, by whom and why"},
	{"fault", td_fault_main, "inject a fault into a virtual node"},
	{"login", td_login_main, "log in at a gateway, from any machine"},
	{"logout", td_logout_main, "revoke and forget that"},
	{"kubeconfig", td_kubeconfig_main, "kubectl by the same login"},
	{"submit", td_submit_main, "ship a directory's code and run it"},
	{"queue", td_queue_main, "all jobs that run and wait, with reasons in words"},
	{"ps", td_ps_main, "your runs, and what they wait for"},
	{"logs", td_logs_main, "what a run has written, also while it grows"},
	{"cancel", td_cancel_main, "cancel a run or a job"},
	{"session", td_session_main, "a pod of yours with an HTTP server, by its address"},
	{"ssh", td_ssh_main, "a shell in a session's pod, by OpenSSH"},
	{"ssh-config", td_ssh_config_main, "your sessions for ssh, sftp, rsync and editors"},
	{"schedule", td_schedule_main, "your runs that are submitted by the clock"},
	{"data", td_data_main, "data sets that were fetched for your runs"},
	{"bill", td_bill_main, "what is to be paid for a period"},
	{"project", td_project_main, "the projects of Tenants"},
	{"key", td_key_main, "your API keys"},
	{"top", td_top_main, "who uses the pool and who waits"},
	{"upload", td_upload_main, "copy files into your home on the cluster"},
	{"download", td_download_main, "copy a file from there"},
	{"user", td_user_main, "passwords and API keys of people (administrators)"},
	{"image", td_image_main, "build, list or import container images"},
	{"validate", td_validate_main, "check SlurmCluster, NodeSet and Tenant files"},
	{"config", td_config_main, "what Slurm's files say and why; a slurm.conf as objects"},
	{"annotations", td_annotations_main, "what a pod may say to Slurm"},
	{"completion", completion_main, "completion for bash, zsh or fish"},
	{"apiserver", td_apiserver_main, "the embedded Kubernetes API", true},
	{"controllers", td_controllers_main, "the embedded workload controllers and scheduler", true},
	{"kubelet", td_kubelet_main, "the embedded kubelet of virtual nodes, with their gates", true},
	{"agent", td_agent_main, "the gate on a cluster's node, beside its kubelet", true},
	{"operator", td_operator_main, "SlurmCluster and NodeSet", true},
	{"bridge", td_bridge_main, "pods to Slurm jobs and back, node state both ways", true},
	{"gateway", td_gateway_main, "the one door for people: page and API", true},
	{"supervise", td_supervise_main, "starts and restarts the embedded roles", true},
	{"sandbox", td_sandbox_main, NULL},
	{"gpu-test", td_gpu_test_main, NULL},
	{"home-io", td_home_io_main, NULL},
	{"ssh-proxy", td_ssh_proxy_main, NULL},
	{"policy-host", td_policies_host_main, NULL},
};
enum { ROLES = sizeof(roles) / sizeof(roles[0]) };

// What users of Slurm, kubectl and other schedulers type first, and what it is here (docs/researcher.md).
static const struct {
	const char *typed, *here;
} habits[] = {
	{"sbatch", "`tandem submit FILE`; on the login pod also sbatch itself (`tandem shell -- sbatch FILE`)"},
	{"srun", "`tandem submit -f -- COMMAND`; on the login pod also srun itself (`tandem shell -- srun COMMAND`)"},
	{"salloc", "`tandem session start shell`; on the login pod also salloc itself (`tandem shell`)"},
	{"squeue", "`tandem queue` for all jobs and `tandem ps` for yours"},
	{"scancel", "`tandem cancel JOBID`"},
	{"sinfo", "`tandem top --gpus`, and `tandem nodes` for administrators"},
	{"scontrol", "`tandem why JOBID`; on the login pod also scontrol itself (`tandem shell -- scontrol …`)"},
	{"sacct", "`tandem ps --all` for your runs, the page's Usage for hours, and `tandem usage` for administrators"},
	{"run", "`tandem submit -- COMMAND`"},
	{"list", "`tandem ps` for what is yours and `tandem queue` for all"},
	{"delete", "`tandem cancel RUN` or `tandem session stop ID`"},
	{"stop", "`tandem cancel RUN`, `tandem session stop ID`, or `tandem down` for all of it"},
	{"describe", "`tandem why WHAT`"},
	{"exec", "`tandem ssh SESSION -- COMMAND`"},
	{"bash", "`tandem session start shell`, then `tandem ssh ID`"},
	{"workspace", "`tandem session`"},
};

static void list(FILE *f, const char *title, bool serves)
{
	fprintf(f, "\n%s\n", title);
	for (size_t i = 0; i < ROLES; i++)
		if (roles[i].help && roles[i].serves == serves)
			fprintf(f, "  %-12s %s\n", roles[i].name, roles[i].help);
}

static void usage(FILE *f)
{
	fputs("usage: tandem COMMAND [OPTION…]\n\nOne pool of GPU compute under Slurm and Kubernetes at once.\n", f);
	list(f, "Commands", false);
	list(f, "Roles, which `up` and installations start", true);
	fputs("\n`tandem help COMMAND` says more, `tandem --version` which one this is.\n"
	      "Exit codes: 0 done, 1 failed, 2 wrong usage.\n",
	      f);
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

static int run(const struct td_cmd *r, int argc, char **argv)
{
	if (r->serves)
		raise_file_limit();
	return r->main(argc, argv);
}

static int completion_main(int argc, char **argv)
{
	return td_cli_completion(argc, argv, roles, ROLES);
}

static const struct td_cmd *find(const char *name)
{
	for (size_t i = 0; i < ROLES; i++)
		if (!strcmp(roles[i].name, name))
			return &roles[i];
	fprintf(stderr, "tandem: unknown command \"%s\". ", name);
	for (size_t i = 0; i < sizeof(habits) / sizeof(habits[0]); i++)
		if (!strcmp(habits[i].typed, name)) {
			fprintf(stderr, "Here it is %s.\n", habits[i].here);
			return NULL;
		}
	const char *names[ROLES + 1] = {"help"};
	size_t n = 1;
	for (size_t i = 0; i < ROLES; i++)
		if (roles[i].help)
			names[n++] = roles[i].name;
	const char *near = td_nearest(name, names, n);
	if (near)
		fprintf(stderr, "Did you mean `tandem %s`? ", near);
	fputs("`tandem --help` lists them.\n", stderr);
	return NULL;
}

static bool is(const char *word, const char *letter, const char *option, const char *command)
{
	return !strcmp(word, letter) || !strcmp(word, option) || !strcmp(word, command);
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

	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (is(argv[1], "-V", "--version", "version")) {
		puts("tandem " TD_VERSION);
		return 0;
	}
	bool help = is(argv[1], "-h", "--help", "help");
	if (help && argc == 2) {
		usage(stdout);
		return 0;
	}

	const struct td_cmd *r = find(argv[help ? 2 : 1]);
	char ask[] = "--help", *helped[] = {argv[1 + help], ask, NULL};
	return !r ? 2 : help ? run(r, 2, helped) : run(r, argc - 1, argv + 1);
}
