#include "kubelet/nics.h"

#include "kubelet/accels.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum { NIC_MINOR = 1 << 19 }; // behind those of all GPUs (fakegpu.c, accels.c)
#define SHARED "/dev/infiniband/rdma_cm"

static struct td_checkup_facts *look(const struct td_kubelet *a, int node)
{
	struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	td_auto_free char *root = td_kubelet_machine(a, node);
	td_checkup_nics(root, f);
	return f;
}

int td_kubelet_nics(const struct td_kubelet *a, int node)
{
	td_auto_free struct td_checkup_facts *f = look(a, node);
	int n = 0;
	for (int i = 0; i < f->nics; i++)
		n += f->nic[i].n_files > 0;
	return n;
}

static void add(const struct td_kubelet *a, const char *path, int minor_number, struct td_kubelet_nic_files *to)
{
	struct stat st;
	struct td_oci_device d = {
		.path = path, .type = 'c', .major = a->o.device_major, .minor = minor_number, .mode = 0666};
	if (a->real && (stat(path, &st) || !S_ISCHR(st.st_mode)))
		return;
	if (a->real) {
		d.major = (int)major(st.st_rdev);
		d.minor = (int)minor(st.st_rdev);
	}
	to->v[to->n++] = d;
}

int td_kubelet_nics_devices(const struct td_kubelet *a, int node, const char *names, uint64_t mask,
			    struct td_kubelet_nic_files *ret, struct td_error *err)
{
	td_auto_free struct td_checkup_facts *f = look(a, node);
	td_auto_strv struct td_strv l = {0};
	ret->n = 0;
	if (names)
		td_strv_split(&l, names, ',');
	for (size_t i = 0; i < l.n && i < 64; i++) {
		bool there = false;
		for (int k = 0; k < f->nics; k++)
			there |= f->nic[k].n_files && !strcmp(f->nic[k].name, l.v[i]);
		if (!there && mask >> i & 1)
			return td_fail(err, TD_NOT_FOUND,
				       "Slurm gave it the adapter %.31s, which n%d does not have any more", l.v[i],
				       node);
	}
	for (int k = 0; k < f->nics; k++) {
		bool its = !names;
		for (size_t i = 0; i < l.n && i < 64; i++)
			its |= (mask >> i & 1) && !strcmp(f->nic[k].name, l.v[i]);
		for (int x = 0; its && x < f->nic[k].n_files; x++)
			add(a, td_arena_strdup(ret->arena, f->nic[k].files[x]),
			    NIC_MINOR + (node * TD_NICS + k) * TD_NIC_FILES + x, ret);
	}
	if (ret->n)
		add(a, SHARED, NIC_MINOR - 1, ret);
	return 0;
}
