// Rules of Nodes: taints, address ranges and ids. Causes name fields as the API server does, with
// taints below "metadata".
#include "api/block.h"
#include "api/kinds_priv.h"

#include <arpa/inet.h>
#include <string.h>

#include "api/names.h"

static void check_taints(const yyjson_val *taints, struct td_causes *ret)
{
	size_t i, max, j, m;
	yyjson_val *t, *u;

	yyjson_arr_foreach (td_unconst(taints), i, max, t) {
		td_auto_free char *at = td_asprintf("metadata.taints[%zu]", i);
		const char *key = td_jstr_or(t, "key", ""), *value = td_jstr_or(t, "value", "");
		td_auto_strv struct td_strv keys = {0}, values = {0};
		td_name_faults(TD_N_QUALIFIED, key, &keys);
		for (size_t n = 0; n < keys.n; n++)
			td_cause_at(ret, "FieldValueInvalid", at, ".key", "Invalid value: \"%.260s\": %s", key,
				    keys.v[n]);
		td_name_faults(TD_N_LABEL_VALUE, value, &values);
		for (size_t n = 0; n < values.n; n++)
			td_cause_at(ret, "FieldValueInvalid", at, ".value", "Invalid value: \"%.260s\": %s", value,
				    values.v[n]);

		bool twice = false;
		yyjson_arr_foreach (td_unconst(taints), j, m, u)
			twice = twice || (j < i && td_jequal(td_jkey(t, "key"), td_jkey(u, "key")) &&
					  td_jequal(td_jkey(t, "effect"), td_jkey(u, "effect")));
		if (twice)
			td_cause_add(ret, "FieldValueDuplicate", at,
				     "Duplicate value: \"%.260s\": taints must be unique by key and effect", key);
	}
}

// Checks podCIDRs, or podCIDR alone when there is no list.
static void check_cidrs(const yyjson_val *spec, struct td_causes *ret)
{
	const yyjson_val *list = td_jkey(spec, "podCIDRs");
	const char *one = td_jstr_or(spec, "podCIDR", "");
	size_t n = yyjson_arr_size(td_unconst(list)), families[2] = {0};

	for (size_t i = 0; i < (n ? n : *one ? 1 : 0); i++) {
		const char *s = n ? yyjson_get_str(yyjson_arr_get(td_unconst(list), i)) : one;
		td_auto_free char *at = td_asprintf("spec.podCIDRs[%zu]", i);
		struct td_block block;
		if (!s || !td_block_parse(s, &block))
			td_cause_add(ret, "FieldValueInvalid", at,
				     "Invalid value: \"%.100s\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or "
				     "2001:db8::/64)",
				     s ? s : "");
		else
			families[block.six]++;
	}

	if (families[0] > 1 || families[1] > 1)
		td_cause_add(ret, "FieldValueInvalid", "spec.podCIDRs",
			     "Invalid value: may specify no more than one CIDR for each IP family");
}

static void check_addresses(const yyjson_val *addresses, struct td_causes *ret)
{
	size_t i, max, j, m;
	yyjson_val *a, *b;

	yyjson_arr_foreach (td_unconst(addresses), i, max, a) {
		bool twice = false;
		yyjson_arr_foreach (td_unconst(addresses), j, m, b)
			twice = twice || (j < i && td_jequal(a, b));
		td_auto_free char *at = td_asprintf("status.addresses[%zu]", i);
		if (twice)
			td_cause_add(ret, "FieldValueDuplicate", at, "Duplicate value: \"%.260s\"",
				     td_jstr_or(a, "address", ""));
	}
}

// Checks the fields that are set once and then stay.
static void check_once(const yyjson_val *spec, const yyjson_val *old, struct td_causes *ret)
{
	const char *was = td_jstr_or(old, "providerID", ""), *cidr = td_jstr_or(old, "podCIDR", "");
	if (*was && !td_streq(was, td_jstr_or(spec, "providerID", "")))
		td_cause_add(ret, "FieldValueForbidden", "spec.providerID",
			     "Forbidden: node updates may not change providerID except from \"\" to valid");
	if ((*cidr && !td_streq(cidr, td_jstr_or(spec, "podCIDR", ""))) ||
	    (yyjson_arr_size(td_jkey(old, "podCIDRs")) &&
	     !td_jequal(td_jkey(old, "podCIDRs"), td_jkey(spec, "podCIDRs"))))
		td_cause_add(ret, "FieldValueForbidden", "spec.podCIDRs",
			     "Forbidden: node updates may not change podCIDR except from \"\" to valid");
}

// Makes podCIDR and podCIDRs agree, as the API server's conversion does: podCIDR is the first of
// podCIDRs, and wins when they differ.
void td_api_node_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	yyjson_mut_val *list = td_jm_get(obj, "spec.podCIDRs"), *first = yyjson_mut_arr_get_first(list);
	const char *one = td_jm_getstr(obj, "spec.podCIDR");
	if (one && *one && !td_streq(first ? yyjson_mut_get_str(first) : NULL, one)) {
		td_jm_del(obj, "spec.podCIDRs");
		yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, obj, "spec.podCIDRs"), one);
	} else if ((!one || !*one) && yyjson_mut_is_str(first)) {
		td_jm_str(d, obj, "spec.podCIDR", yyjson_mut_get_str(first));
	}
}

size_t td_api_node_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	check_taints(td_jget(obj, "spec.taints"), ret);
	check_cidrs(td_jkey(obj, "spec"), ret);
	check_addresses(td_jget(obj, "status.addresses"), ret);
	if (old)
		check_once(td_jkey(obj, "spec"), td_jkey(old, "spec"), ret);
	return ret->n - before;
}
