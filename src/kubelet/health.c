// The health of virtual nodes: their faults come from a file each, and a reboot ends all processes of
// the node, gives it another boot id, and lets its pods start again, as a machine's would.
#include "base/file.h"
#include "base/log.h"
#include "base/rand.h"
#include "gate/gate.h"
#include "kubelet/accels.h"
#include "kubelet/kubelet.h"
#include "kubelet/pods/pod.h"
#include "kubelet/realgpu.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 300, KILL_MS = 50, KILLED_MS = 60000, PIDS = 1024 };

struct health {
	struct td_nodehealth_opts o;
	struct td_strv names;
	char *state, *checks, *actions, *selftest;
	struct td_strv faults;
};
static struct health its; // one kubelet per process

static void machine_boot(struct td_buf *ret)
{
	td_file_read("/proc/sys/kernel/random/boot_id", 128, ret, NULL);
	while (ret->len && ret->s[ret->len - 1] == '\n')
		ret->s[--ret->len] = '\0';
}

// The file holds the machine's boot and the node's: after a reboot of the machine it counts no more.
static char *boot_file(const struct td_kubelet *a, int node)
{
	return td_asprintf("%s/agent/boot-n%d", a->o.home, node);
}

char *td_kubelet_boot(const struct td_kubelet *a, int node)
{
	td_auto_free char *path = boot_file(a, node);
	td_auto_buf struct td_buf machine = {0}, text = {0};
	machine_boot(&machine);
	if (!td_file_read(path, 256, &text, NULL) && td_starts(td_buf_str(&text), td_buf_str(&machine)) &&
	    text.len > machine.len + 1)
		return td_strdup(td_buf_str(&text) + machine.len + 1);
	return td_strdup(td_buf_str(&machine));
}

// By the cgroups of what runs in its slurmd pods.
static size_t jobs(void *ctx, int node, int64_t *v, size_t most)
{
	struct td_kubelet *a = ctx;
	td_auto_pods struct td_pods all = {0};
	td_auto_free pid_t *pids = td_calloc(PIDS, sizeof(*pids));
	size_t n = 0;
	td_pod_table_all(a->table, &all);
	for (size_t i = 0; i < all.n; i++) {
		struct td_pod *p = all.v[i];
		for (size_t k = 0; p->node == node && p->slurmd && k < p->n_ctr; k++) {
			pthread_mutex_lock(&p->mu);
			td_auto_free char *id = p->ctr[k].wanted ? td_pod_container_id(a, p, &p->ctr[k]) : NULL;
			pthread_mutex_unlock(&p->mu);
			const size_t n_pids = id ? td_oci_pids(a->oci, id, pids, PIDS) : 0;
			for (size_t m = 0; m < n_pids && n < most; m++) {
				td_auto_buf struct td_buf text = {0};
				td_auto_free char *path = td_asprintf("/proc/%d/cgroup", (int)pids[m]);
				int64_t job = td_file_read(path, 64 << 10, &text, NULL)
						      ? 0
						      : td_gate_cgroup_job(td_buf_str(&text));
				bool known = !job;
				for (size_t x = 0; x < n; x++)
					known |= v[x] == job;
				if (!known)
					v[n++] = job;
			}
		}
	}
	return n;
}

static char *boot(void *ctx, int node)
{
	return td_kubelet_boot(ctx, node);
}

// Kills what still runs on the node. *ret_left: how many containers are not over.
static void kill_all(struct td_kubelet *a, int node, int *ret_left)
{
	td_auto_pods struct td_pods all = {0};
	td_pod_table_all(a->table, &all);
	*ret_left = 0;
	for (size_t i = 0; i < all.n; i++) {
		struct td_pod *p = all.v[i];
		for (size_t k = 0; p->node == node && k < p->n_ctr; k++) {
			pthread_mutex_lock(&p->mu);
			td_auto_free char *id = p->ctr[k].wanted ? td_pod_container_id(a, p, &p->ctr[k]) : NULL;
			pthread_mutex_unlock(&p->mu);
			if (!id)
				continue;
			++*ret_left;
			td_oci_signal(a->oci, id, SIGKILL, NULL); // one that is gone is reaped by its worker
			td_queue_add(a->queue, p->uid);
		}
	}
}

static int reboot(void *ctx, int node, struct td_cancel *c, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	const unsigned long long bit = 1ULL << node;
	atomic_fetch_or(&a->down, bit);
	int left = 1, r = 0;
	// A worker that was about to start a container may do so after the first look that finds none.
	for (int64_t end = td_mono_ms(a->clock) + KILLED_MS, calm = 0; calm < 2 && !r;) {
		kill_all(a, node, &left);
		calm = left ? 0 : calm + 1;
		if (left && td_mono_ms(a->clock) > end)
			r = td_fail(err, TD_INTERNAL, "%d containers cannot be killed", left);
		else if (td_cancel_wait(c, KILL_MS))
			r = td_fail(err, TD_CANCELLED, "stopped");
	}

	char uuid[TD_UUID_LEN];
	td_auto_buf struct td_buf text = {0};
	td_auto_free char *path = boot_file(a, node);
	machine_boot(&text);
	td_buf_printf(&text, " %s", td_uuid(uuid));
	if (!r)
		r = td_file_write(path, td_buf_str(&text), text.len, 0600, err);
	atomic_fetch_and(&a->down, ~bit);

	td_auto_pods struct td_pods all = {0};
	td_pod_table_all(a->table, &all);
	for (size_t i = 0; i < all.n; i++)
		if (all.v[i]->node == node)
			td_queue_add(a->queue, all.v[i]->uid);
	return r ? r : td_kubelet_node_write(a, node, c, err);
}

// What a node gives out, its gate and its device files are read once, when this program starts: it ends in good order,
// and supervise starts it again. Its pods and those of the other nodes go on.
static void recut(void *ctx, int node)
{
	struct td_kubelet *a = ctx;
	td_info("kubelet: the GPUs of n%d were cut anew; this program starts again", node);
	td_cancel_fire(a->cancel);
}

static char *inventory(void *ctx, int node)
{
	const struct td_accel_found *f = td_kubelet_accel(ctx, node);
	return f ? td_accel_inventory(f) : NULL;
}

static char *gds(void *ctx, int node)
{
	const struct td_gds *g = td_kubelet_gds(ctx, node);
	return g ? td_asprintf("{\"files\":%zu,\"version\":\"%s\"}", g->n_files, g->version) : NULL;
}

void td_kubelet_health_open(struct td_kubelet *a)
{
	its.state = td_asprintf("%s/agent", a->o.home);
	its.checks = td_asprintf("%s/checks", a->o.home);
	its.actions = td_asprintf("%s/actions", a->o.home);
	its.selftest = td_asprintf("%s/opt/tandem-standin", a->o.run);
	struct td_checkup_backend *b = td_calloc((size_t)a->o.nodes, sizeof(*b));
	for (int i = 0; i < a->o.nodes; i++) {
		td_auto_free char *faults = td_asprintf("%s/nodes/n%d/faults", a->o.run, i),
				  *tree = td_kubelet_machine(a, i);
		td_strv_addf(&its.names, "n%d", i);
		b[i] = a->real ? td_realgpu_backend(a->real, i, faults)
			       : td_checkup_fake(faults, tree,
						 td_kubelet_parts(a, i) ? a->o.gpus : td_kubelet_gpus(a, i));
		td_strv_add(&its.faults, faults);
	}
	its.o = (struct td_nodehealth_opts){.kube = a->kube,
					    .nodes = a->nodes,
					    .clock = a->clock,
					    .state = its.state,
					    .checks = its.checks,
					    .actions = its.actions,
					    .names = (const char *const *)its.names.v,
					    .backends = b,
					    .n = a->o.nodes,
					    .interval_ms = LOOK_MS,
					    .gate = a->gate,
					    .selftest = its.selftest,
					    .test_gpus = a->real != NULL,
					    .gpus_each = a->o.gpus,
					    .faults = (const char *const *)its.faults.v,
					    .reboot = reboot,
					    .boot = boot,
					    .inventory = inventory,
					    .gds = gds,
					    .recut = recut,
					    .jobs = jobs,
					    .ctx = a};
	a->health = td_nodehealth_new(&its.o);
}

int td_kubelet_health_run(struct td_kubelet *a, struct td_cancel *c, struct td_error *err)
{
	return td_nodehealth_run(a->health, c, err);
}

void td_kubelet_health_close(struct td_kubelet *a)
{
	a->health = td_nodehealth_free(a->health);
	for (int i = 0; i < its.o.n; i++)
		td_checkup_backend_done(&its.o.backends[i]);
	free(its.o.backends);
	td_strv_done(&its.names);
	free(its.state);
	free(its.checks);
	free(its.actions);
	free(its.selftest);
	td_strv_done(&its.faults);
	its = (struct health){0};
}
