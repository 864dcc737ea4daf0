// tandem up: the command line. Without --kubeconfig it starts the embedded plane on this machine
// (local/up.h), with it Tandem on a cluster (cli/up.h).
#include "cli/up.h"
#include "api/quantity.h"
#include "base/options.h"
#include "checkup/checkup.h"
#include "cmd/roles.h"
#include "local/up.h"

#include <stdio.h>
#include <string.h>

enum { WAIT_HERE_MS = 180000, WAIT_THERE_MS = 300000 };

struct up_line {
	struct td_up_opts here;
	struct td_cli_up_opts there;
	const char *output, *gpus;
	int64_t wait_ms; // -1: not given
	bool dry_run;
};

// --gpus: a number, or "real".
static int gpus(struct up_line *l)
{
	long long n;
	if (td_parse_i64(l->gpus, &n) && n >= 0 && n <= 64) {
		l->here.gpus = (int)n;
		return 0;
	}
	if (strcmp(l->gpus, "real") != 0)
		return td_command_wrong("up", "--gpus is \"%s\": give a number from 0 to 64, or real", l->gpus);
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	struct td_checkup_backend b = td_checkup_machine(&(struct td_checkup_machine_opts){0});
	struct td_error err = TD_ERROR_INIT;
	int r = b.read(b.ctx, f, &err);
	td_checkup_backend_done(&b);
	if (r) {
		fprintf(stderr, "tandem up: --gpus real: %s\n", err.msg);
		return 1;
	}
	if (!f->gpus) {
		fprintf(stderr,
			"tandem up: --gpus real: NVML finds no GPUs on this machine: is NVIDIA's driver loaded? "
			"(`nvidia-smi -L` shows them)\n");
		return 1;
	}
	l->here.real = f->gpus;
	return 0;
}

// Checks which options go together; the table of options cannot say that. Returns 0 or an exit
// code.
static int check(struct up_line *l)
{
	const struct td_up_opts *h = &l->here;
	const struct td_cli_up_opts *t = &l->there;
	struct td_error err = TD_ERROR_INIT;
	int64_t memory;
	int code;

	if (l->gpus && (code = gpus(l)))
		return code;
	bool of_here = h->nodes >= 0 || h->cpus >= 0 || l->gpus || h->memory || h->no_slurm || l->dry_run || l->output;
	if (t->kubeconfig && of_here)
		return td_command_wrong("up", "with --kubeconfig the cluster's nodes are as they are: leave out sizes, "
					      "--no-slurm, --dry-run and -o");
	if (!t->kubeconfig &&
	    (t->image || t->ns || t->agents.kubelet || t->agents.kubelet_ca || t->agents.seccomp_profiles))
		return td_command_wrong("up", "--image, --namespace, --kubelet, --kubelet-ca and --seccomp-profiles go "
					      "with --kubeconfig");
	if (l->output && !l->dry_run)
		return td_command_wrong("up", "-o %s: only \"--dry-run -o yaml\" prints objects", l->output);
	if (h->memory && (td_quantity_ceil(h->memory, &memory, &err) || memory < (2ll << 30)))
		return td_command_wrong("up", "--memory is \"%s\": give at least 2Gi, such as 32Gi", h->memory);
	return 0;
}

int td_up_main(int argc, char **argv)
{
	struct up_line l = {.here = {.nodes = -1, .cpus = -1, .gpus = -1}, .wait_ms = -1};
	int code;
	const struct td_option options[] = {
		{.name = "nodes",
		 .value = "N",
		 .help = "virtual nodes, 1 to 64 (default 4)",
		 TD_OPT_INT(&l.here.nodes, 1, 64)},
		{.name = "cpus",
		 .value = "N",
		 .help = "CPUs of each node (default 16)",
		 TD_OPT_INT(&l.here.cpus, 2, 1024)},
		{.name = "memory",
		 .value = "Q",
		 .help = "memory of each node, as in Kubernetes (default 32Gi)",
		 TD_OPT_TEXT(&l.here.memory)},
		{.name = "gpus",
		 .value = "N",
		 .help = "fake GPUs of each node, 0 to 64 (default 8); real: this machine's own, shared out over the "
			 "nodes",
		 TD_OPT_TEXT(&l.gpus)},
		{.name = "no-slurm", .help = "only the Kubernetes side", TD_OPT_SWITCH(&l.here.no_slurm)},
		{.name = "wait",
		 .value = "D",
		 TD_OPT_DURATION(&l.wait_ms),
		 .help = "how long to wait until all is ready: 30s, 5m\n(default 3m; on a cluster 5m for each step)"},
		{.name = "dry-run",
		 .help = "print the objects that `up` creates, do nothing (with -o yaml)",
		 TD_OPT_SWITCH(&l.dry_run)},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "yaml, with --dry-run",
		 TD_OPT_TEXT(&l.output),
		 .choices = "yaml"},
		{.name = "kubeconfig",
		 .value = "FILE",
		 .help = "a cluster that is there",
		 TD_OPT_TEXT(&l.there.kubeconfig)},
		{.name = "image",
		 .value = "IMAGE",
		 TD_OPT_TEXT(&l.there.image),
		 .help = "there: Tandem's image (default tandem.dev/tandem:" TD_VERSION
			 "); the nodes also\nneed Slurm's (tandem/slurm:24.11)"},
		{.name = "namespace",
		 .letter = 'n',
		 .value = "NS",
		 TD_OPT_TEXT(&l.there.ns),
		 .help = "there: where operator and bridges run (default tandem-system)"},
		{.name = "kubelet",
		 .value = "URL",
		 .help = "there: as for `tandem install`",
		 TD_OPT_TEXT(&l.there.agents.kubelet)},
		{.name = "kubelet-ca",
		 .value = "FILE",
		 .help = "there: as for `tandem install`",
		 TD_OPT_TEXT(&l.there.agents.kubelet_ca)},
		{.name = "seccomp-profiles",
		 .value = "NAME",
		 .help = "there: as for `tandem install`",
		 TD_OPT_TEXT(&l.there.agents.seccomp_profiles)},
	};
	const struct td_command line = {
		.name = "up",
		.about = "Starts the embedded control plane, N virtual nodes and a real Slurm cluster on\n"
			 "this machine, all below $TANDEM_HOME (default /var/lib/tandem). Needs root.\n"
			 "A second `up` says \"already up\"; after a crash it repairs. Sizes are kept for the\n"
			 "next `up`; changed ones need `tandem down` first.\n"
			 "\n"
			 "With --kubeconfig it installs Tandem on that cluster as `tandem install` does, makes\n"
			 "SlurmCluster slurm/main and NodeSet slurm/pool, and waits until Slurm has the nodes.",
		.options = options,
		.n = TD_LEN(options),
		.exits = "0 up, 1 failed, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, NULL, &code) || (code = check(&l)))
		return code;

	l.here.wait_ms = l.wait_ms >= 0 ? l.wait_ms : WAIT_HERE_MS;
	l.there.wait_ms = l.wait_ms >= 0 ? l.wait_ms : WAIT_THERE_MS;
	if (l.there.kubeconfig)
		return td_cli_up(&l.there);
	return l.dry_run ? td_up_print_objects() : td_up(&l.here);
}
