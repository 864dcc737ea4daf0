#include "gate/podres.h"

#include "api/grant.h"
#include "api/selector.h"
#include "base/mem.h"
#include "http/grpc.h"

#include <string.h>

enum { MOST = 4096, CALL_MS = 3000 };

void td_podres_done(struct td_podres_list *l)
{
	free(l->v);
	*l = (struct td_podres_list){0};
}

static int add(struct td_podres_list *l, const struct td_podres *x, struct td_error *err)
{
	if (l->n == MOST)
		return td_fail(err, TD_INVALID, "the kubelet tells of more than %d devices of pods", MOST);
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 16;
		l->v = td_realloc(l->v, l->cap * sizeof(*l->v));
	}
	l->v[l->n++] = *x;
	return 0;
}

// ContainerDevices: resource_name 1, device_ids 2. Fields may come in any order.
static int devices(const struct td_proto_field *of, struct td_podres *x, struct td_podres_list *l, struct td_error *err)
{
	struct td_proto m = td_proto(of->p, of->len);
	struct td_proto_field f;
	int r = 0;
	while (td_proto_next(&m, &f))
		if (f.number == 1)
			td_proto_copy(&f, x->resource, sizeof(x->resource));
	if (m.p != m.end)
		return td_fail(err, TD_INVALID, "the kubelet's answer about devices cannot be read");
	m = td_proto(of->p, of->len);
	while (!r && td_proto_next(&m, &f))
		if (f.number == 2) {
			td_proto_copy(&f, x->device, sizeof(x->device));
			r = add(l, x, err);
		}
	return r;
}

// ContainerResources: name 1, devices 2.
static int container(const struct td_proto_field *of, struct td_podres *x, struct td_podres_list *l,
		     struct td_error *err)
{
	struct td_proto m = td_proto(of->p, of->len);
	struct td_proto_field f;
	int r = 0;
	x->container[0] = '\0';
	while (td_proto_next(&m, &f))
		if (f.number == 1)
			td_proto_copy(&f, x->container, sizeof(x->container));
	m = td_proto(of->p, of->len);
	while (!r && td_proto_next(&m, &f))
		if (f.number == 2 && f.p)
			r = devices(&f, x, l, err);
	return r;
}

// PodResources: name 1, namespace 2, containers 3.
static int pod(const struct td_proto_field *of, struct td_podres_list *l, struct td_error *err)
{
	struct td_proto m = td_proto(of->p, of->len);
	struct td_proto_field f;
	struct td_podres x = {0};
	int r = 0;
	while (td_proto_next(&m, &f))
		if (f.number == 1)
			td_proto_copy(&f, x.pod, sizeof(x.pod));
		else if (f.number == 2)
			td_proto_copy(&f, x.ns, sizeof(x.ns));
	if (m.p != m.end)
		return td_fail(err, TD_INVALID, "the kubelet's answer about a pod cannot be read");
	m = td_proto(of->p, of->len);
	while (!r && td_proto_next(&m, &f))
		if (f.number == 3 && f.p)
			r = container(&f, &x, l, err);
	return r;
}

int td_podres_read(const void *answer, size_t len, struct td_podres_list *ret, struct td_error *err)
{
	td_auto_podres struct td_podres_list l = {0};
	struct td_proto m = td_proto(answer, len);
	struct td_proto_field f;
	int r = 0;
	while (!r && td_proto_next(&m, &f))
		if (f.number == 1 && f.p)
			r = pod(&f, &l, err);
	if (!r && m.p != m.end)
		r = td_fail(err, TD_INVALID, "the kubelet's answer about devices cannot be read");
	if (r)
		return r;
	*ret = l;
	l = (struct td_podres_list){0};
	return 0;
}

int td_podres_ask(const char *socket, struct td_cancel *c, struct td_podres_list *ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	const struct td_grpc_ask q = {.socket = socket, .method = "/v1.PodResourcesLister/List", .timeout_ms = CALL_MS};
	int r = td_grpc_call(&q, c, &b, err);
	return r ? r : td_podres_read(td_buf_str(&b), b.len, ret, err);
}

static const struct td_checkup_gpu *gpu_called(const struct td_checkup_facts *f, const char *device)
{
	// Plug-ins that share a device by time give it out as "GPU-…::3".
	const char *shared = strstr(device, "::");
	td_auto_free char *name = td_strndup(device, shared ? (size_t)(shared - device) : strlen(device));
	long long n;
	for (int i = 0; i < f->gpus; i++)
		if ((*f->gpu[i].uuid && !strcmp(f->gpu[i].uuid, name)) ||
		    (*f->gpu[i].pci && !strcmp(f->gpu[i].pci, name)) || (td_parse_i64(name, &n) && n == i))
			return &f->gpu[i];
	return NULL;
}

double td_podres_use(const struct td_podres_list *l, const char *ns, const char *pod, const yyjson_val *granted,
		     const struct td_checkup_facts *f)
{
	double most = -1;
	for (size_t i = 0; i < l->n; i++) {
		const struct td_podres *x = &l->v[i];
		yyjson_val *k, *v;
		size_t at, n;
		bool its = false;
		if (strcmp(x->ns, ns) != 0 || strcmp(x->pod, pod) != 0)
			continue;
		yyjson_obj_foreach ((yyjson_val *)(uintptr_t)granted, at, n, k, v)
			its |= td_api_grant_is_gpus(k) && td_api_is_device(x->resource, yyjson_get_str(k));
		if (!its)
			continue;
		const struct td_checkup_gpu *g = gpu_called(f, x->device);
		if (!g || g->lost || g->use_percent < 0)
			return -1;
		most = g->use_percent / 100 > most ? g->use_percent / 100 : most;
	}
	return most;
}
