// Telemetry of devices, read on demand: the agent's last look, at most its interval old.
#include "gate/telemetry.h"

#include "base/names.h"
#include "metrics/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct {
	pthread_mutex_t lock;  // guards what follows
	pthread_cond_t done;   // users became 0
	struct td_telemetry t; // health NULL: nothing is shown
	int users;             // of copies of t: what it points to stays until they are done
} live = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

// A copy of what is shown, until leave(). No lock is held meanwhile.
static struct td_telemetry enter(void)
{
	pthread_mutex_lock(&live.lock);
	struct td_telemetry t = live.t;
	live.users++;
	pthread_mutex_unlock(&live.lock);
	return t;
}

static void leave(void)
{
	pthread_mutex_lock(&live.lock);
	if (!--live.users)
		pthread_cond_broadcast(&live.done);
	pthread_mutex_unlock(&live.lock);
}

#define MIB 1048576.0

struct gauges {
	struct td_metric *temperature, *power, *use, *memory, *memory_used, *ecc, *width, *links_down, *info, *held,
		*faults, *nic, *nic_up, *nic_rate, *clock, *slowed, *bytes, *pcie, *errors, *port, *disk, *disk_bytes,
		*disk_heat, *disk_used, *disk_spare, *disk_errors;
};

static struct gauges gauges(void)
{
	struct td_metrics *m = td_metrics_process();
	const char *const *of = TD_LABELS("node", "device");
	return (struct gauges){
		td_gauge(m, "tandem_device_temperature_celsius", "Temperature of a device.", of),
		td_gauge(m, "tandem_device_power_watts", "Power that a device draws.", of),
		td_gauge(m, "tandem_device_use_ratio", "How much of the last moment a device computed, 0 to 1.", of),
		td_gauge(m, "tandem_device_memory_bytes", "Memory of a device, in bytes.", of),
		td_gauge(m, "tandem_device_memory_used_bytes", "Memory of a device that is in use, in bytes.", of),
		td_gauge(m, "tandem_device_ecc_errors", "ECC errors since the driver was loaded.",
			 TD_LABELS("node", "device", "kind")),
		td_gauge(m, "tandem_device_pcie_lanes", "PCIe lanes of a device that are in use.", of),
		td_gauge(m, "tandem_device_nvlinks_down", "NVLinks of a device that are down.", of),
		td_gauge(m, "tandem_device_info", "Inventory: 1 for each device.",
			 TD_LABELS("node", "device", "model", "serial", "firmware")),
		td_gauge(m, "tandem_device_holder",
			 "1 for each device that a job holds: which, its pod if it has one, who made the pod or the id "
			 "of the job's user, and its Tenant, else its Slurm account. 0: idle.",
			 TD_LABELS("node", "device", "job", "pod", "user", "tenant")),
		td_gauge(m, "tandem_node_faults", "Faults that the checks find now, by check.",
			 TD_LABELS("node", "check")),
		td_gauge(m, "tandem_nic_info", "Inventory: 1 for each adapter of the network.",
			 TD_LABELS("node", "nic", "interface", "link", "model", "serial", "firmware")),
		td_gauge(m, "tandem_nic_up", "1: an adapter of the network is active. 0: it is not.",
			 TD_LABELS("node", "nic")),
		td_gauge(m, "tandem_nic_bits_per_second", "What an adapter of the network runs at.",
			 TD_LABELS("node", "nic")),
		td_gauge(m, "tandem_device_clock_hertz",
			 "Clock of a device: as it is now, the highest one, and as its application clocks are set.",
			 TD_LABELS("node", "device", "kind")),
		td_gauge(m, "tandem_device_slowed",
			 "1: the clocks of a device are low for that reason. power-cap and set are no faults.",
			 TD_LABELS("node", "device", "why")),
		td_counter(m, "tandem_device_link_bytes_total",
			   "What a device sent and received by link: NVLink, PCIe.",
			   TD_LABELS("node", "device", "link", "direction")),
		td_gauge(m, "tandem_device_pcie_bytes_per_second",
			 "The same by PCIe in a moment, where its driver does not count it.",
			 TD_LABELS("node", "device", "direction")),
		td_counter(m, "tandem_device_link_errors_total", "Errors that the links of a device count.",
			   TD_LABELS("node", "device", "kind")),
		td_counter(m, "tandem_port_errors_total",
			   "Errors that a port of the network counts, and how often its link went down.",
			   TD_LABELS("node", "port", "kind")),
		td_gauge(m, "tandem_disk_info", "Inventory: 1 for each disk.",
			 TD_LABELS("node", "disk", "kind", "model", "serial", "firmware")),
		td_gauge(m, "tandem_disk_bytes", "Size of a disk, in bytes.", TD_LABELS("node", "disk")),
		td_gauge(m, "tandem_disk_temperature_celsius", "Temperature of a disk.", TD_LABELS("node", "disk")),
		td_gauge(m, "tandem_disk_used_ratio",
			 "How much was written of what a disk was made for, 0 to 1 and more.",
			 TD_LABELS("node", "disk")),
		td_gauge(m, "tandem_disk_spare_ratio", "How much of a disk's spare blocks is left, 0 to 1.",
			 TD_LABELS("node", "disk")),
		td_counter(m, "tandem_disk_media_errors_total", "Blocks that a disk could not read or write.",
			   TD_LABELS("node", "disk")),
	};
}

static void known(struct td_metric *f, double v, double scale, const char *const *labels)
{
	if (v >= 0)
		td_metric_set(f, v * scale, labels);
}

static void traffic(struct td_metric *f, const struct td_traffic *t, const char *const *sent,
		    const char *const *received)
{
	if (!t->known)
		return;
	td_metric_set(f, (double)t->sent, sent);
	td_metric_set(f, (double)t->received, received);
}

static void counts(struct td_metric *f, const struct td_count *c, const char *node, const char *of)
{
	for (int k = 0; k < TD_COUNTS; k++)
		if (c[k].known)
			td_metric_set(f, (double)c[k].total, TD_LABELS(node, of, td_checkup_count_names[k]));
}

static void clock_of(const struct gauges *m, int mhz, const char *const *labels)
{
	if (mhz)
		td_metric_set(m->clock, mhz * 1e6, labels);
}

static void device(const struct gauges *m, const struct td_checkup_gpu *x, const char *node, const char *name)
{
	const char *const *of = TD_LABELS(node, name);
	if (x->lost)
		return; // what it was before it was lost says nothing
	known(m->temperature, x->temp_c, 1, of);
	known(m->power, x->power_w, 1, of);
	known(m->use, x->use_percent, 0.01, of);
	known(m->memory, (double)x->memory_mb, MIB, of);
	known(m->memory_used, (double)x->memory_used_mb, MIB, of);
	known(m->width, x->pcie_width, 1, of);
	known(m->links_down, x->links_down, 1, of);
	td_metric_set(m->ecc, (double)x->ecc_corrected, TD_LABELS(node, name, "corrected"));
	td_metric_set(m->ecc, (double)x->ecc_uncorrected, TD_LABELS(node, name, "uncorrected"));
	td_metric_set(m->info, 1, TD_LABELS(node, name, x->model, x->serial, x->firmware));
	clock_of(m, x->clock_mhz, TD_LABELS(node, name, "now"));
	clock_of(m, x->clock_max_mhz, TD_LABELS(node, name, "max"));
	clock_of(m, x->clock_set_mhz, TD_LABELS(node, name, "set"));
	traffic(m->bytes, &x->nvlink, TD_LABELS(node, name, "nvlink", "sent"),
		TD_LABELS(node, name, "nvlink", "received"));
	traffic(m->bytes, &x->pcie, TD_LABELS(node, name, "pcie", "sent"), TD_LABELS(node, name, "pcie", "received"));
	traffic(m->pcie, &x->pcie_now, TD_LABELS(node, name, "sent"), TD_LABELS(node, name, "received"));
	counts(m->errors, x->count, node, name);
	for (int k = 0; x->slow_known && k < TD_SLOWS; k++)
		td_metric_set(m->slowed, x->slow_s[k] > 0, TD_LABELS(node, name, td_checkup_slow_names[k]));
}

static void nic(const struct gauges *m, const struct td_checkup_nic *x, const char *node)
{
	const char *model = *x->model ? x->model : x->own_model, *fw = *x->firmware ? x->firmware : x->own_firmware;
	td_metric_set(m->nic, 1, TD_LABELS(node, x->name, x->interface, x->link, model, x->serial, fw));
	td_metric_set(m->nic_up, x->active, TD_LABELS(node, x->name));
	if (x->rate_mb)
		td_metric_set(m->nic_rate, (double)x->rate_mb * 1e6, TD_LABELS(node, x->name));
}

static void disk(const struct gauges *m, const struct td_checkup_disk *x, const char *node)
{
	const char *const *of = TD_LABELS(node, x->name);
	td_metric_set(m->disk, 1, TD_LABELS(node, x->name, x->kind, x->model, x->serial, x->firmware));
	if (x->bytes)
		td_metric_set(m->disk_bytes, (double)x->bytes, of);
	known(m->disk_heat, x->temp_c, 1, of);
	known(m->disk_used, x->used, 0.01, of);
	known(m->disk_spare, x->spare, 0.01, of);
	if (x->media.known)
		td_metric_set(m->disk_errors, (double)x->media.total, of);
}

// Where a Tenant's account has another name, the node's annotation says which (operator/tenantnames.c).
static void tenant_of(const struct td_telemetry *t, const char *node, const char *account, char ret[TD_TELEMETRY_NAME])
{
	td_auto(td_object_unref) struct td_object *o = t->node ? t->node(t->ctx, node) : NULL;
	const char *text = o ? td_object_annotation(o, TD_ANN_TENANT_NAMES) : NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	const char *name = NULL;
	if (text && !td_json_parse(text, strlen(text), &j, NULL))
		name = td_jkey_str(td_json_root(j), account);
	snprintf(ret, TD_TELEMETRY_NAME, "%s", name ? name : account);
}

// h NULL: nobody holds it.
static void holder(const struct gauges *m, const struct td_telemetry *t, const struct td_holder *h, const char *node,
		   const char *name)
{
	char job[24];
	if (!h) {
		td_metric_set(m->held, 0, TD_LABELS(node, name, "", "", "", ""));
		return;
	}
	snprintf(job, sizeof(job), "%lld", (long long)h->job);
	td_auto(td_object_unref) struct td_object *pod = h->pod ? t->pod(t->ctx, h->uid) : NULL;
	td_auto_free char *key = pod ? td_key_of(pod) : td_strdup("");
	// A stand-in's job whose pod is not here yet has no name, and whose it is nobody says.
	const char *user = !h->pod ? h->uid : pod ? td_object_annotation(pod, TD_ANN_USER) : NULL;
	const char *account = !h->pod ? h->account : pod ? td_object_annotation(pod, TD_ANN_ACCOUNT) : NULL;
	char tenant[TD_TELEMETRY_NAME];
	tenant_of(t, node, account ? account : "", tenant);
	td_metric_set(m->held, 1, TD_LABELS(node, name, job, key, user ? user : "", tenant));
}

// Each is set once, and not added up: two may read /metrics at a time.
static void faults(const struct gauges *m, const struct td_checkup_findings *l, const char *node)
{
	for (size_t i = 0; i < td_checkup_n_checks; i++)
		td_metric_set(m->faults, 0, TD_LABELS(node, td_checkup_checks[i].name));
	for (size_t i = 0; i < l->n; i++) {
		int same = 0;
		for (size_t k = 0; k < l->n; k++)
			same += !strcmp(l->v[i].check, l->v[k].check);
		td_metric_set(m->faults, same, TD_LABELS(node, l->v[i].check));
	}
}

static void collect(void *ctx)
{
	const struct gauges m = gauges();
	struct td_metric *const all[] = {
		m.temperature, m.power,      m.use,       m.memory,     m.memory_used, m.ecc,    m.width,
		m.info,        m.links_down, m.held,      m.faults,     m.nic,         m.nic_up, m.nic_rate,
		m.clock,       m.slowed,     m.bytes,     m.pcie,       m.errors,      m.port,   m.disk,
		m.disk_bytes,  m.disk_heat,  m.disk_used, m.disk_spare, m.disk_errors};
	// What is gone is not shown as it was.
	for (size_t i = 0; i < TD_LEN(all); i++)
		td_metric_forget(all[i], NULL);

	const struct td_telemetry t = enter();
	struct td_checkup_facts *f = t.health ? td_calloc(1, sizeof(*f)) : NULL;
	struct td_checkup_findings *l = t.health ? td_calloc(1, sizeof(*l)) : NULL;
	for (int n = 0; t.health && n < td_gate_nodes(t.gate); n++) {
		const char *node = td_gate_node_name(t.gate, n);
		if (!td_nodehealth_facts(t.health, n, f))
			continue;
		for (int i = 0; i < f->gpus; i++) {
			char name[16];
			struct td_holder h;
			snprintf(name, sizeof(name), "gpu%d", i);
			device(&m, &f->gpu[i], node, name);
			holder(&m, &t, td_gate_holder(t.gate, n, i, &h) ? &h : NULL, node, name);
		}
		for (int i = 0; i < f->nics; i++)
			nic(&m, &f->nic[i], node);
		for (int i = 0; i < f->n_disks; i++)
			disk(&m, &f->disks[i], node);
		for (int i = 0; i < f->ports; i++)
			counts(m.port, f->port[i].count, node, f->port[i].name);
		l->n = 0;
		td_checkup_judge(f, l);
		td_nodehealth_more(t.health, n, l);
		faults(&m, l, node);
	}
	free(f);
	free(l);
	leave();
}

void td_telemetry_tenant(const struct td_holder *h, const char *node, char ret[TD_TELEMETRY_NAME])
{
	const struct td_telemetry t = enter();
	td_auto(td_object_unref) struct td_object *pod = h->pod && t.pod ? t.pod(t.ctx, h->uid) : NULL;
	const char *account = !h->pod ? h->account : pod ? td_object_annotation(pod, TD_ANN_ACCOUNT) : NULL;
	tenant_of(&t, node, account ? account : "", ret);
	leave();
}

void td_gate_telemetry(const struct td_telemetry *t)
{
	if (t)
		td_metrics_on_collect(td_metrics_process(), collect, NULL);
	pthread_mutex_lock(&live.lock);
	live.t = t ? *t : (struct td_telemetry){0};
	while (!t && live.users) // what they look at may go away then
		pthread_cond_wait(&live.done, &live.lock);
	pthread_mutex_unlock(&live.lock);
}
