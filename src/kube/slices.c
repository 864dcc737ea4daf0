#include "kube/slices.h"

#include <stdlib.h>
#include <string.h>

void td_dra_devices_done(struct td_dra_devices *d)
{
	free(d->v);
	*d = (struct td_dra_devices){0};
}

void td_dra_index_node(const struct td_object *slice, struct td_strv *ret)
{
	const char *n = td_jstr(slice->root, "spec.nodeName");
	if (n)
		td_strv_add(ret, n);
}

int td_dra_served(struct td_kube *k, bool *ret, struct td_cancel *c, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_kube_raw(k, "GET", "/apis/resource.k8s.io/v1", NULL, c, &j, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	*ret = !r;
	return 0;
}

static bool is_of(const struct td_object *s, const char *driver, const char *node)
{
	return td_streq(td_jstr(s->root, "spec.driver"), driver) && td_streq(td_jstr(s->root, "spec.nodeName"), node);
}

// Tells whether the slice is of the newest generation of its pool, and whether all slices of that
// generation are there.
static bool current(const struct td_objects *l, const struct td_object *s, const char *driver, const char *node,
		    bool *ret_complete)
{
	const char *pool = td_jstr_or(s->root, "spec.pool.name", "");
	long long newest = -1, have = 0, want = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (!is_of(l->v[i], driver, node) || !td_streq(td_jstr(l->v[i]->root, "spec.pool.name"), pool))
			continue;
		long long g = td_jint(l->v[i]->root, "spec.pool.generation", 0);
		if (g > newest) {
			newest = g;
			have = 0;
			want = td_jint(l->v[i]->root, "spec.pool.resourceSliceCount", 1);
		}
		have += g == newest;
	}
	*ret_complete = have == want;
	return td_jint(s->root, "spec.pool.generation", 0) == newest;
}

// An attribute name without a domain belongs to the domain of the driver.
static yyjson_val *attribute_of(const yyjson_val *device, const char *attribute, const char *driver)
{
	yyjson_val *all = td_jget(device, "attributes"), *v = td_jkey(all, attribute);
	if (v)
		return v;
	td_auto_free char *full = td_asprintf("%s/%s", driver, attribute);
	size_t n = strlen(driver);
	v = td_jkey(all, full);
	return v ? v : !strncmp(attribute, driver, n) && attribute[n] == '/' ? td_jkey(all, attribute + n + 1) : NULL;
}

const char *td_dra_string(const struct td_dra_device *d, const char *attribute, const char *driver)
{
	return td_jkey_str(attribute_of(d->device, attribute, driver), "string");
}

static int by_name(const void *a, const void *b)
{
	const struct td_dra_device *x = a, *y = b;
	int k = strverscmp(x->pool, y->pool);
	return k ? k : strverscmp(x->name, y->name);
}

static int by_index(const void *a, const void *b)
{
	const struct td_dra_device *x = a, *y = b;
	return x->index != y->index ? (x->index < y->index ? -1 : 1) : by_name(a, b);
}

int td_dra_devices(const struct td_objects *slices, const char *driver, const char *node, const char *attribute,
		   struct td_dra_devices *ret, struct td_error *err)
{
	td_auto_dra struct td_dra_devices d = {.v = td_calloc(TD_DRA_DEVICES, sizeof(*d.v))};
	bool any = false;
	for (size_t i = 0; i < slices->n; i++) {
		const struct td_object *s = slices->v[i];
		bool complete;
		if (!is_of(s, driver, node) || !current(slices, s, driver, node, &complete))
			continue;

		const char *pool = td_jstr_or(s->root, "spec.pool.name", "");
		if (!complete)
			return td_fail(err, TD_NOT_FOUND,
				       "driver %s has not published all devices of pool %s on node %s yet", driver,
				       pool, node);
		any = true;

		yyjson_val *x;
		size_t k, n;
		yyjson_arr_foreach (td_jget(s->root, "spec.devices"), k, n, x) {
			const char *name = td_jstr_or(x, "name", "");
			yyjson_val *at = attribute ? attribute_of(x, attribute, driver) : NULL, *v = td_jkey(at, "int");
			if (attribute && (!yyjson_is_int(v) || yyjson_get_sint(v) < 0))
				return td_fail(err, TD_INVALID,
					       "device %s of node %s has no integer attribute %s: set "
					       "spec.devices[0].indexAttribute of the SlurmCluster to one that driver "
					       "%s publishes, or leave it out to count by name",
					       name, node, attribute, driver);
			if (d.n == TD_DRA_DEVICES)
				return td_fail(err, TD_INVALID, "driver %s publishes more than %d devices on node %s",
					       driver, TD_DRA_DEVICES, node);
			d.v[d.n++] = (struct td_dra_device){pool, name, attribute ? yyjson_get_sint(v) : 0, x};
		}
	}

	if (!any)
		return td_fail(err, TD_NOT_FOUND, "driver %s publishes nothing on node %s: is its pod there running?",
			       driver, node);
	if (d.n)
		qsort(d.v, d.n, sizeof(*d.v), by_name);

	for (size_t i = 1; i < d.n; i++)
		if (!strcmp(d.v[i].pool, d.v[i - 1].pool) && !strcmp(d.v[i].name, d.v[i - 1].name))
			return td_fail(err, TD_INVALID, "driver %s publishes device %s of pool %s on node %s twice",
				       driver, d.v[i].name, d.v[i].pool, node);

	if (d.n && attribute)
		qsort(d.v, d.n, sizeof(*d.v), by_index);
	for (size_t i = 0; i < d.n; i++) {
		if (attribute && d.v[i].index != (long long)i)
			return td_fail(
				err, TD_INVALID,
				"attribute %s of the %zu devices on node %s is not 0 to %zu: device %s has %lld; "
				"Slurm's indexes have no gaps, so use another attribute, or none to count by name",
				attribute, d.n, node, d.n - 1, d.v[i].name, d.v[i].index);
		d.v[i].index = (long long)i;
	}

	*ret = d;
	d.v = NULL;
	return 0;
}
