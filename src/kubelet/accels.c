#include "kubelet/accels.h"

#include "base/file.h"
#include "base/log.h"
#include "gate/devices.h"
#include "gate/gate.h"
#include "kubelet/realgpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define USUAL "nvidia.com/gpu"
enum { GDS_MINOR = 64 * TD_DEV_MAX + TD_ACCEL_SHARED }; // behind those of all nodes, and the shared ones (fakegpu.c)

struct td_kubelet_accels {
	struct td_accels *known;
	struct td_accel_found *v;        // of each node
	struct td_gds *gds;              // the same
	struct td_checkup_facts **parts; // the same; NULL: no GPU is cut
	int n;
};

char *td_kubelet_machine(const struct td_kubelet *a, int node)
{
	return a->real ? td_strdup("") : td_asprintf("%s/hardware/n%d", a->o.home, node);
}

// In slurmd's pod the run directory of its node is /run/tandem.
static int tell_tasks(const struct td_kubelet *a, int node, struct td_error *err)
{
	const struct td_accel_found *f = &a->accels->v[node];
	const char *name = strrchr(TD_WIRE_ACCELERATOR, '/') + 1;
	td_auto_free char *path = td_asprintf("%s/nodes/n%d/%s", a->o.run, node, name), *text = NULL;
	if (f->of)
		text = td_accel_task_text(f->of);
	else if (a->accels->parts[node])
		text = td_mig_task_text(a->accels->parts[node]);
	if (text)
		return td_file_write(path, text, strlen(text), 0644, err);
	unlink(path);
	return 0;
}

// Looks whether GPUs of the node are cut, once: as long as this program runs they are as they were.
static int find_parts(const struct td_kubelet *a, int node, const char *root, struct td_checkup_facts **ret,
		      struct td_error *err)
{
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	td_auto_free struct td_mig *m = td_calloc(1, sizeof(*m));
	td_auto_free char *file = td_asprintf("%s/mig", root);
	struct td_error e = TD_ERROR_INIT;
	if (!a->real && td_mig_file(file, a->o.gpus, m, &e))
		td_warn("kubelet: %s; the GPUs of n%d are whole", e.msg, node);
	struct td_checkup_backend b = a->real ? td_realgpu_backend(a->real, node, "/dev/null")
					      : td_checkup_fake("/dev/null", root, a->o.gpus);
	int r = b.read(b.ctx, f, err);
	td_checkup_backend_done(&b);
	if (!r && td_mig_any(f))
		*ret = td_steal(f);
	return r;
}

int td_kubelet_accels_open(struct td_kubelet *a, struct td_error *err)
{
	td_auto_free char *dir = td_asprintf("%s/accelerators", a->o.home);
	struct td_kubelet_accels *x = a->accels = td_calloc(1, sizeof(*x));
	struct td_error e = TD_ERROR_INIT;
	int r = td_accels_read(dir, &x->known, &e);
	if (r) {
		td_warn("kubelet: %s; Tandem's own descriptions count", e.msg);
		r = td_accels_read(NULL, &x->known, err);
	}
	x->v = td_calloc((size_t)a->o.nodes, sizeof(*x->v));
	x->gds = td_calloc((size_t)a->o.nodes, sizeof(*x->gds));
	x->parts = td_calloc((size_t)a->o.nodes, sizeof(*x->parts));
	for (; !r && x->n < a->o.nodes; x->n++) {
		td_auto_free char *root = td_kubelet_machine(a, x->n);
		if (!a->real)
			td_accel_find(x->known, root, NULL, &x->v[x->n]);
		if (x->v[x->n].of)
			td_info("kubelet: n%d has %d of %s", x->n, x->v[x->n].n,
				td_jstr_or(x->v[x->n].of, "resource", ""));
		td_gds_look(root, &x->gds[x->n]);
		if (!x->v[x->n].of)
			r = find_parts(a, x->n, root, &x->parts[x->n], err);
		r = r ? r : tell_tasks(a, x->n, err);
	}
	return r;
}

void td_kubelet_accels_close(struct td_kubelet *a)
{
	struct td_kubelet_accels *x = a->accels;
	a->accels = NULL;
	for (int i = 0; x && i < x->n; i++)
		td_accel_found_done(&x->v[i]), td_gds_done(&x->gds[i]), free(x->parts[i]);
	if (x) {
		free(x->v);
		free(x->gds);
		free(x->parts);
		td_accels_free(x->known);
	}
	free(x);
}

const struct td_accel_found *td_kubelet_accel(const struct td_kubelet *a, int node)
{
	return a->accels && node >= 0 && node < a->accels->n && a->accels->v[node].of ? &a->accels->v[node] : NULL;
}

const struct td_checkup_facts *td_kubelet_parts(const struct td_kubelet *a, int node)
{
	return a->accels && node >= 0 && node < a->accels->n ? a->accels->parts[node] : NULL;
}

const char *td_kubelet_resource(const struct td_kubelet *a, int node)
{
	const struct td_accel_found *f = td_kubelet_accel(a, node);
	return f ? td_jstr_or(f->of, "resource", USUAL) : USUAL;
}

void td_kubelet_resources_not(const struct td_kubelet *a, int node, struct td_strv *ret)
{
	const char *its = td_kubelet_resource(a, node);
	for (size_t i = 0; a->accels && i < td_accels_n(a->accels->known); i++) {
		const char *other = td_jstr_or(td_accels_at(a->accels->known, i), "resource", "");
		if (strcmp(other, its) != 0 && !td_strv_has(ret, other))
			td_strv_add(ret, other);
	}
}

const struct td_gds *td_kubelet_gds(const struct td_kubelet *a, int node)
{
	const struct td_kubelet_accels *x = a->accels;
	return x && node >= 0 && node < x->n && td_gds_ready(&x->gds[node]) ? &x->gds[node] : NULL;
}

size_t td_kubelet_gds_devices(const struct td_kubelet *a, int node, struct td_arena *arena, struct td_oci_device *out)
{
	const struct td_gds *g = td_kubelet_gds(a, node);
	size_t n = 0;
	for (size_t i = 0; g && i < g->n_files; i++) {
		struct stat st;
		struct td_oci_device d = {.path = td_arena_printf(arena, "/dev/nvidia-fs%d", g->files[i]),
					  .type = 'c',
					  .major = a->o.device_major,
					  .minor = GDS_MINOR + g->files[i],
					  .mode = 0666};
		if (a->real && (stat(d.path, &st) || !S_ISCHR(st.st_mode)))
			continue;
		if (a->real) {
			d.major = (int)major(st.st_rdev);
			d.minor = (int)minor(st.st_rdev);
		}
		out[n++] = d;
	}
	return n;
}

int td_kubelet_gds_mounts(const struct td_kubelet *a, int node, struct td_arena *arena, struct td_mounts *ret,
			  struct td_error *err)
{
	static const char *const what[] = {"/run/udev", "/etc/cufile.json"};
	td_auto_free char *root = td_kubelet_machine(a, node);
	for (size_t i = 0; td_kubelet_gds(a, node) && i < TD_LEN(what); i++) {
		const char *from = td_arena_printf(arena, "%s%s", root, what[i]);
		bool taken = !td_path_exists(from);
		for (size_t k = 0; k < ret->n; k++)
			taken |= !strcmp(ret->v[k].destination, what[i]);
		if (taken)
			continue;
		if (ret->n >= ret->max)
			return td_fail(err, TD_INVALID, "too many mounts beside those of GPUDirect Storage");
		ret->v[ret->n++] = (struct td_oci_mount){"bind", from, what[i], "bind,ro,nosuid,nodev", true};
	}
	return 0;
}
