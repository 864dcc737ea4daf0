#include "kubelet/accels.h"

#include "base/file.h"
#include "base/log.h"
#include "gate/gate.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define USUAL "nvidia.com/gpu"

struct td_kubelet_accels {
	struct td_accels *known;
	struct td_accel_found *v; // of each node
	int n;
};

// In slurmd's pod the run directory of its node is /run/tandem.
static int tell_tasks(const struct td_kubelet *a, int node, struct td_error *err)
{
	const struct td_accel_found *f = &a->accels->v[node];
	const char *name = strrchr(TD_WIRE_ACCELERATOR, '/') + 1;
	td_auto_free char *path = td_asprintf("%s/nodes/n%d/%s", a->o.run, node, name);
	if (f->of) {
		td_auto_free char *text = td_accel_task_text(f->of);
		return td_file_write(path, text, strlen(text), 0644, err);
	}
	unlink(path);
	return 0;
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
	for (; !r && x->n < a->o.nodes; x->n++) {
		td_auto_free char *root = td_asprintf("%s/hardware/n%d", a->o.home, x->n);
		if (!a->real)
			td_accel_find(x->known, root, NULL, &x->v[x->n]);
		if (x->v[x->n].of)
			td_info("kubelet: n%d has %d of %s", x->n, x->v[x->n].n,
				td_jstr_or(x->v[x->n].of, "resource", ""));
		r = tell_tasks(a, x->n, err);
	}
	return r;
}

void td_kubelet_accels_close(struct td_kubelet *a)
{
	struct td_kubelet_accels *x = a->accels;
	a->accels = NULL;
	for (int i = 0; x && i < x->n; i++)
		td_accel_found_done(&x->v[i]);
	if (x) {
		free(x->v);
		td_accels_free(x->known);
	}
	free(x);
}

const struct td_accel_found *td_kubelet_accel(const struct td_kubelet *a, int node)
{
	return a->accels && node >= 0 && node < a->accels->n && a->accels->v[node].of ? &a->accels->v[node] : NULL;
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
