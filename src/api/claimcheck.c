// PersistentVolumeClaims of the embedded plane. Every claim is a directory of the one shared tree,
// so that it is bound from the beginning and can be used from everywhere, whatever its access modes.
#include "api/kinds_priv.h"
#include "api/quantity.h"

static void check_modes(const yyjson_val *obj, struct td_causes *ret)
{
	static const char *const modes[] = {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"};
	yyjson_val *list = td_jget(obj, "spec.accessModes"), *m;
	size_t i, n, k;
	if (!yyjson_arr_size(list))
		td_cause_add(ret, "FieldValueRequired", "spec.accessModes",
			     "Required value: at least 1 access mode is required");
	yyjson_arr_foreach (list, i, n, m) {
		for (k = 0; k < TD_LEN(modes) && !td_streq(modes[k], yyjson_get_str(m)); k++)
			;
		if (k == TD_LEN(modes))
			td_cause_add(ret, "FieldValueNotSupported", "spec.accessModes",
				     "Unsupported value: \"%s\": supported values: \"ReadOnlyMany\", "
				     "\"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
				     yyjson_is_str(m) ? yyjson_get_str(m) : "");
	}
}

size_t td_api_claim_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const may[] = {"resources", "volumeAttributesClassName"};
	size_t before = ret->n;
	int64_t size;
	const char *text = td_jstr(obj, "spec.resources.requests.storage");
	yyjson_val *storage = td_jget(obj, "spec.resources.requests.storage");

	check_modes(obj, ret);
	if (!storage)
		td_cause_add(ret, "FieldValueRequired", "spec.resources[storage]", "Required value");
	else if (text ? td_quantity_ceil(text, &size, NULL) || size <= 0 : yyjson_get_num(storage) <= 0)
		td_cause_add(ret, "FieldValueInvalid", "spec.resources[storage]",
			     "Invalid value: \"%s\": must be greater than zero", text ? text : "0");

	if (td_spec_changed(obj, old, may, TD_LEN(may)))
		td_cause_add(ret, "FieldValueForbidden", "spec",
			     "Forbidden: spec is immutable after creation except resources.requests and "
			     "volumeAttributesClassName for bound claims");
	return ret->n - before;
}

void td_api_claim_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	yyjson_mut_val *modes = td_jm_get(obj, "spec.accessModes"), *size = td_jm_get(obj, "spec.resources.requests");
	td_jm_str(d, obj, "status.phase", "Bound");
	if (modes)
		td_jm_set(d, obj, "status.accessModes", yyjson_mut_val_mut_copy(d, modes));
	if (size)
		td_jm_set(d, obj, "status.capacity", yyjson_mut_val_mut_copy(d, size));
}
