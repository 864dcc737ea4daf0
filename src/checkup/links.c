// What links count: the errors that PCIe reports of GPUs and adapters (AER), and the ports of the network, by sysfs.
#include "checkup/checkup.h"

#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

struct td_links {
	struct td_rate gpu[TD_HEALTH_GPUS][TD_COUNTS]; // of the machine's GPUs
	struct {
		char name[40];
		struct td_rate count[TD_COUNTS];
	} port[TD_PORTS];
	int ports;
};

struct td_links *td_links_new(void)
{
	return td_calloc(1, sizeof(struct td_links));
}

struct td_links *td_links_free(struct td_links *l)
{
	free(l);
	return NULL;
}

void td_links_forget(struct td_links *l, int gpu)
{
	for (int i = 0; i < TD_HEALTH_GPUS; i++)
		if (gpu == TD_HEALTH_ALL || gpu == i)
			memset(l->gpu[i], 0, sizeof(l->gpu[i]));
}

static void counter(struct td_count *c, int64_t full, const char *dir, const char *file)
{
	td_auto_free char *path = td_asprintf("%s/%s", dir, file);
	td_auto_buf struct td_buf b = {0};
	long long n;
	if (td_file_read(path, 64, &b, NULL))
		return;
	td_auto_free char *line = td_strndup(td_buf_str(&b), strcspn(td_buf_str(&b), "\n"));
	// One that is full counts no further.
	if (td_parse_i64(line, &n) && n >= 0 && n != full)
		*c = (struct td_count){.known = true, .total = n};
}

// The file names each kind of error, and the sum at its end: "TOTAL_ERR_COR 12".
static void aer_of(struct td_count *c, const char *dir, const char *file)
{
	td_auto_free char *path = td_asprintf("%s/%s", dir, file);
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, 4096, &b, NULL))
		return;
	const char *sum = strstr(td_buf_str(&b), "TOTAL_ERR_"), *at = sum ? strchr(sum, ' ') : NULL;
	td_auto_free char *text = at ? td_strndup(at + 1, strcspn(at + 1, "\n")) : NULL;
	long long n;
	if (text && td_parse_i64(text, &n) && n >= 0)
		*c = (struct td_count){.known = true, .total = n};
}

static void aer(struct td_count *count, const char *root, const char *pci)
{
	if (!*pci)
		return;
	td_auto_free char *dir = td_asprintf("%s/sys/bus/pci/devices/%s", root, pci);
	aer_of(&count[TD_COUNT_AER_CORRECTED], dir, "aer_dev_correctable");
	aer_of(&count[TD_COUNT_AER_NONFATAL], dir, "aer_dev_nonfatal");
	aer_of(&count[TD_COUNT_AER_FATAL], dir, "aer_dev_fatal");
}

static struct td_checkup_port *add(struct td_checkup_facts *f, const char *name)
{
	if (f->ports >= TD_PORTS || strlen(name) >= sizeof(f->port[0].name))
		return NULL;
	struct td_checkup_port *p = &f->port[f->ports++];
	*p = (struct td_checkup_port){0};
	snprintf(p->name, sizeof(p->name), "%s", name);
	return p;
}

// All ports of an RDMA adapter. Its counters have 8 and 16 bits, as InfiniBand has them.
static void rdma(struct td_checkup_facts *f, const char *root, const struct td_checkup_nic *x)
{
	td_auto_free char *top = td_asprintf("%s/sys/class/infiniband/%s/ports", root, x->name);
	bool first = true;
	DIR *d = opendir(top);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		td_auto_free char *name = td_asprintf("%s/%s", x->name, e->d_name),
				  *dir = td_asprintf("%s/%s/counters", top, e->d_name);
		struct td_checkup_port *p = add(f, name);
		if (!p)
			continue;
		counter(&p->count[TD_COUNT_DOWN], UINT8_MAX, dir, "link_downed");
		counter(&p->count[TD_COUNT_RECOVERY], UINT8_MAX, dir, "link_error_recovery");
		counter(&p->count[TD_COUNT_SYMBOL], UINT16_MAX, dir, "symbol_error");
		counter(&p->count[TD_COUNT_RECEIVE], UINT16_MAX, dir, "port_rcv_errors");
		if (first)
			aer(p->count, root, x->pci);
		first = false;
	}
	if (d)
		closedir(d);
}

static void ethernet(struct td_checkup_facts *f, const char *root, const struct td_checkup_nic *x)
{
	td_auto_free char *dir = td_asprintf("%s/sys/class/net/%s", root, x->interface);
	struct td_checkup_port *p = add(f, x->interface);
	if (!p)
		return;
	counter(&p->count[TD_COUNT_DOWN], -1, dir, "carrier_down_count");
	if (!p->count[TD_COUNT_DOWN].known) {
		counter(&p->count[TD_COUNT_DOWN], -1, dir, "carrier_changes");
		p->count[TD_COUNT_DOWN].total /= 2; // down, and up again
	}
	counter(&p->count[TD_COUNT_RECEIVE], -1, dir, "statistics/rx_errors");
	if (!x->port)
		aer(p->count, root, x->pci);
}

static struct td_rate *rates_of(struct td_links *l, const char *port)
{
	for (int i = 0; i < l->ports; i++)
		if (!strcmp(l->port[i].name, port))
			return l->port[i].count;
	if (l->ports >= TD_PORTS)
		return NULL;
	snprintf(l->port[l->ports].name, sizeof(l->port[0].name), "%s", port);
	return l->port[l->ports++].count;
}

static void recent(struct td_rate *r, int64_t now_ms, struct td_count *count)
{
	for (int k = 0; r && k < TD_COUNTS; k++)
		if (count[k].known)
			td_rate_look(&r[k], now_ms, &count[k]);
}

void td_links_look(struct td_links *l, const char *root, bool gpus_only, int64_t now_ms, struct td_checkup_facts *f)
{
	for (int i = 0; i < f->gpus; i++) {
		struct td_checkup_gpu *g = &f->gpu[i];
		aer(g->count, root, g->pci);
		// The parts of a GPU have its counters.
		if (g->of >= 0 && g->of < TD_HEALTH_GPUS)
			recent(l->gpu[g->of], now_ms, g->count);
	}
	if (gpus_only)
		return;
	td_auto_free char *from = td_checkup_nics_root(root);
	for (int i = 0; i < f->nics; i++) {
		const struct td_checkup_nic *x = &f->nic[i];
		if (x->port)
			rdma(f, from, x);
		if (*x->interface && strcmp(x->link, "InfiniBand") != 0)
			ethernet(f, from, x);
	}
	for (int i = 0; i < f->ports; i++)
		recent(rates_of(l, f->port[i].name), now_ms, f->port[i].count);
}
