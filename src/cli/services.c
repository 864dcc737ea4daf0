#include "cli/services.h"

#include "api/grant.h"
#include "base/clock.h"
#include "base/names.h"
#include "kube/service.h"
#include "slurm/hostlist.h"

#include <string.h>

void td_cli_services_done(struct td_cli_services *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].name);
	free(l->v);
	*l = (struct td_cli_services){0};
}

double td_cli_use(double busy, double idle)
{
	return busy + idle > 0 ? busy / (busy + idle) : -1;
}

// How many devices a pod's grant names, {"nvidia.com/gpu":"0-1","share":"50"}; of a device of which it has a share, that.
static double devices_of(const struct td_object *pod)
{
	const char *text = td_object_annotation(pod, TD_ANN_DEVICES);
	td_auto(td_json_unref) struct td_json *j = NULL;
	double sum = 0;
	yyjson_val *key, *v;
	size_t i, n;
	if (!text || td_json_parse(text, strlen(text), &j, NULL))
		return 0;
	yyjson_obj_foreach (td_json_root(j), i, n, key, v) {
		struct td_ranges r = {0};
		const char *s = yyjson_get_str(v);
		if (s && td_api_grant_is_gpus(key) && !td_ranges_parse(s, &r, NULL))
			sum += (double)td_ranges_count(&r);
	}
	int share = td_api_grant_share(td_json_root(j));
	return share > 0 ? sum * share / TD_GPU_UNITS : sum;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct td_cli_service *)a)->name, ((const struct td_cli_service *)b)->name);
}

static struct td_cli_service *at(struct td_cli_services *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].name, name))
			return &l->v[i];
	if ((l->n & (l->n - 1)) == 0)
		l->v = td_realloc(l->v, (l->n ? l->n * 2 : 1) * sizeof(*l->v));
	l->v[l->n] = (struct td_cli_service){.name = td_strdup(name)};
	return &l->v[l->n++];
}

void td_cli_services_read(const struct td_objects *pods, int64_t from, int64_t now, struct td_cli_services *ret)
{
	struct td_cli_services l = {0};
	for (size_t i = 0; i < pods->n; i++) {
		const struct td_object *pod = pods->v[i];
		struct td_service of;
		struct td_kube_use use = {0};
		int64_t start_ms = 0;
		double devices = devices_of(pod);
		if (devices <= 0 || td_kube_pod_ended(pod->root) || !td_service_of(pod, &of))
			continue;
		td_auto_free char *name = td_asprintf("%s/%s/%s", pod->ns, of.kind, of.name);
		struct td_cli_service *s = at(&l, name);
		s->pods++;
		s->devices += devices;
		(void)td_kube_use_read(pod->root, &use);
		if (td_time_parse(td_jstr_or(pod->root, "status.startTime", ""), &start_ms) || start_ms / 1000 >= now)
			continue;
		double whole = (double)(now - start_ms / 1000),
		       part = start_ms / 1000 < from ? (double)(now - from) / whole : 1;
		s->held += devices * whole * part;
		s->busy += use.busy * part;
		s->idle += use.idle * part;
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_name);
	*ret = l;
}
