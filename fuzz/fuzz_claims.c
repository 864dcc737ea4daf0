// A SlurmCluster, a pod, its claim, a class and a node's slices. No device is planned twice, as
// many are planned as the claim asks for, and the next writes lead from any claim to the plan.
// rows: A7.1
#include "bridge/scheduler/claims.h"
#include "bridge/scheduler/want.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct td_object *object(const struct td_json_list *l, size_t i)
{
	return i < l->n ? td_object_new(td_json_ref(l->v[i])) : NULL;
}

static struct td_object *claim(void *ctx, const char *ns, const char *name)
{
	return object(ctx, 2);
}

static struct td_object *cls(void *ctx, const char *name)
{
	return object(ctx, 3);
}

static size_t results(const yyjson_val *status)
{
	yyjson_val *all = td_jget(status, "allocation.devices.results");
	size_t n = yyjson_arr_size(all);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (td_jequal(td_jkey(yyjson_arr_get(all, i), "device"),
				      td_jkey(yyjson_arr_get(all, k), "device")) &&
			    td_jequal(td_jkey(yyjson_arr_get(all, i), "pool"), td_jkey(yyjson_arr_get(all, k), "pool")))
				abort();
	return n;
}

// Carries out the steps on a copy of the claim.
static void converge(const yyjson_val *claim_now, const char *uid, const yyjson_val *want)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(claim_now);
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	for (int i = 0; i < 5; i++) {
		td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
		struct td_claim_step st = td_claim_next(td_json_root(j), uid, want);
		switch (st.what) {
		case TD_CLAIM_WAIT:
		case TD_CLAIM_DONE:
			return;
		case TD_CLAIM_FINALIZER:
			yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, root, "metadata.finalizers"), TD_DRA_FINALIZER);
			break;
		case TD_CLAIM_ALLOCATE:
			td_jm_copyval(d, root, "status.allocation", td_jkey(want, "allocation"));
			td_jm_copyval(d, root, "status.reservedFor", td_jkey(want, "reservedFor"));
			break;
		case TD_CLAIM_CLEAR:
			td_jm_del(root, "status.allocation");
			td_jm_del(root, "status.reservedFor");
			break;
		}
	}
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_json_list struct td_json_list l = {0};
	if (size > 1 << 14 || td_yaml_parse((const char *)data, size, &l, NULL) || l.n < 4)
		return 0;

	for (size_t i = 0; i < l.n; i++) // as the API serves them
		if (!yyjson_is_obj(td_json_root(l.v[i])))
			return 0;

	td_auto(td_settings_unref) struct td_settings *s = td_settings_read(td_json_root(l.v[0]));
	const yyjson_val *pod = td_json_root(l.v[1]);
	const struct td_claims_from from = {claim, cls, &l};
	td_auto_claims struct td_claims c = {0};
	td_auto_objects struct td_objects slices = {0};
	td_auto_dra struct td_dra_devices on = {0};

	for (size_t i = 4; i < l.n; i++)
		td_objects_add(&slices, object(&l, i));
	const char *node = slices.n ? td_jstr_or(slices.v[0]->root, "spec.nodeName", "") : "";
	td_dra_devices(&slices, s->devices.driver, node, s->devices.attribute, &on, NULL);
	for (size_t i = 0; i < on.n; i++)
		if (on.v[i].index != (long long)i)
			abort();

	if (td_claims_read(s, "main", pod, &from, &c, NULL))
		return 0;
	struct td_json *want[TD_CLAIMS] = {0};

	const char *granted = td_jkey_str(td_jget(pod, "metadata.annotations"), "tandem.dev/devices");
	if (granted)
		td_devices_cover(s, pod, c.count, granted);
	if (td_claims_plan(&c, s, pod, &(struct td_claims_grant){granted, node, &on}, want, NULL))
		return 0;

	size_t n = 0;
	for (size_t i = 0; i < c.n; i++) {
		n += results(td_json_root(want[i]));
		converge(c.v[i].obj->root, td_jstr_or(pod, "metadata.uid", ""), td_json_root(want[i]));
		td_json_unref(want[i]);
	}

	if ((long long)n != c.count)
		abort();
	return 0;
}
