// The health of the one node of the role `agent`: which checks and which ways to act it has.
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "gate/agent.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 10000, PROGRAM_MS = 120000 };

static char *boot(void *ctx, int node)
{
	td_auto_buf struct td_buf b = {0};
	td_file_read("/proc/sys/kernel/random/boot_id", 128, &b, NULL);
	while (b.len && b.s[b.len - 1] == '\n')
		b.s[--b.len] = '\0';
	return td_strdup(td_buf_str(&b));
}

static int reboot_machine(void *ctx, int node, struct td_cancel *c, struct td_error *err)
{
	const struct td_gate_agent *a = ctx;
	if (td_streq(a->o.reboot, "none"))
		return td_fail(err, TD_UNSUPPORTED,
			       "this agent may not reboot its node: --reboot systemd, or a program, lets it");
	if (td_streq(a->o.reboot, "systemd")) {
		// systemd(1): SIGRTMIN+5 starts reboot.target. Process 1 must be the machine's, in whose PID
		// namespace the agent is (hostPID).
		if (kill(1, SIGRTMIN + 5) < 0)
			return td_fail_errno(err, TD_DENIED, errno,
					     "telling systemd to reboot (the capability KILL is needed)");
		return TD_UNCERTAIN; // this process ends with the machine
	}
	td_auto_free char *program = td_strdup(a->o.reboot), *name = td_strdup(a->o.node);
	char *argv[] = {program, name, NULL};
	int r = td_run_ok(argv, PROGRAM_MS, c, err);
	return r ? r : TD_UNCERTAIN;
}

static char *inventory(void *ctx, int node)
{
	const struct td_gate_agent *a = ctx;
	return td_accel_inventory(&a->found);
}

// Tells the TaskProlog the devices by their UUIDs where a GPU is cut in parts (MIG).
static void seen(void *ctx, int node, const struct td_checkup_facts *f)
{
	struct td_gate_agent *a = ctx;
	td_auto_free char *path = td_asprintf("%s%s", a->o.run, strrchr(TD_WIRE_ACCELERATOR, '/')),
			  *text = a->found.of ? NULL : td_mig_task_text(f);
	struct td_error err = TD_ERROR_INIT;
	// While its driver is away, or one GPU, its GPUs are what they were.
	if (a->found.of || !td_mig_told(f) || td_streq(text ? text : "", a->parts ? a->parts : ""))
		return;
	if (text && td_file_write(path, text, strlen(text), 0644, &err)) {
		td_warn("agent: the variables of parts of GPUs: %s", err.msg);
		return;
	}
	if (!text)
		unlink(path);
	free(a->parts);
	a->parts = td_steal(text);
}

// Tells the TaskProlog the variables of the node's accelerators.
static int find_accelerators(struct td_gate_agent *a, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s%s", a->o.run, strrchr(TD_WIRE_ACCELERATOR, '/'));
	struct td_error e = TD_ERROR_INIT;
	int r = td_accels_read(a->o.accelerators, &a->accels, &e);
	if (r) {
		// A slip in a file of the site must not close the gate of NVIDIA's GPUs.
		td_warn("agent: --accelerators: %s; Tandem's own descriptions count", e.msg);
		r = td_accels_read(NULL, &a->accels, err);
	}
	if (r)
		return r;
	td_accel_find(a->accels, "", "nvidia.com/gpu", &a->found);
	if (!a->found.of) {
		// What an earlier agent said of parts of GPUs counts until this one has looked: jobs start meanwhile.
		td_auto_buf struct td_buf b = {0};
		if (!td_file_read(path, TD_MIG_TEXT, &b, NULL) && strstr(td_buf_str(&b), TD_MIG_EACH))
			a->parts = td_strdup(td_buf_str(&b));
		else
			unlink(path);
		return 0;
	}
	td_info("agent: this machine has %d of %s", a->found.n, td_jstr_or(a->found.of, "resource", ""));
	td_auto_free char *text = td_accel_task_text(a->found.of);
	r = td_mkdir_p(a->o.run, 0755, err); // the gate, which makes it too, is opened later
	return r ? r : td_file_write(path, text, strlen(text), 0644, err);
}

static size_t jobs(void *ctx, int node, int64_t *v, size_t most)
{
	const struct td_gate_agent *a = ctx;
	return td_cg_jobs(a->o.cgroups, v, most);
}

int td_gate_agent_health_open(struct td_gate_agent *a, struct td_error *err)
{
	int r = find_accelerators(a, err);
	if (r)
		return r;
	const struct td_checkup_machine_opts m = {.root = a->o.hardware, .reset = a->o.reset_program};
	a->backend = td_checkup_machine(&m);
	a->health = td_nodehealth_new(&(struct td_nodehealth_opts){.kube = a->kube,
								   .nodes = a->nodes,
								   .clock = a->clock,
								   .state = a->o.state,
								   .checks = a->o.checks,
								   .actions = a->o.actions,
								   .names = &a->o.node,
								   .backends = &a->backend,
								   .n = 1,
								   .interval_ms = LOOK_MS,
								   .gate = a->gate,
								   .test_gpus = true,
								   .reboot = reboot_machine,
								   .boot = boot,
								   .inventory = inventory,
								   .seen = seen,
								   .jobs = jobs,
								   .ctx = a});
	return 0;
}

void td_gate_agent_health_close(struct td_gate_agent *a)
{
	a->health = td_nodehealth_free(a->health);
	td_checkup_backend_done(&a->backend);
	td_accel_found_done(&a->found);
	free(a->parts);
	a->accels = td_accels_free(a->accels);
}
