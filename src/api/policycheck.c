// NetworkPolicies. The embedded plane enforces what stands here (kubelet/pods/filters.c), and refuses
// the rest by name: an entry that nobody enforces would look like a closed door.
#include "api/block.h"
#include "api/kinds_priv.h"
#include "api/selector.h"

#include <string.h>

enum { PATH = 200, ENTRIES = 1000 };

static void selector(const yyjson_val *o, const char *key, const char *path, struct td_causes *ret)
{
	yyjson_val *v = td_jkey(o, key);
	td_auto(td_selector_free) struct td_selector *parsed = NULL;
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *field = td_asprintf("%s.%s", path, key);
	if (v && td_selector_from_object(v, &parsed, &err) < 0)
		td_cause_add(ret, "FieldValueInvalid", field, "Invalid value: %s", err.msg);
}

static void block(const yyjson_val *peer, const char *path, struct td_causes *ret)
{
	const char *cidr = td_jstr_or(peer, "ipBlock.cidr", "");
	td_auto_free char *field = td_asprintf("%s.ipBlock.cidr", path), *less = td_asprintf("%s.ipBlock.except", path);
	struct td_block b;
	if (!td_block_parse(cidr, &b) || b.six)
		td_cause_add(
			ret, "FieldValueInvalid", field,
			"Invalid value: \"%s\": must be an IPv4 block such as 10.0.0.0/8 (the embedded plane has no "
			"IPv6)",
			cidr);
	if (yyjson_arr_size(td_jget(peer, "ipBlock.except")))
		td_cause_add(ret, "FieldValueForbidden", less,
			     "Forbidden: except is not served by the embedded plane: name the blocks that are meant");
	if (td_jkey(peer, "podSelector") || td_jkey(peer, "namespaceSelector"))
		td_cause_add(ret, "FieldValueForbidden", path,
			     "Forbidden: may not specify both ipBlock and another peer");
}

static void port(const yyjson_val *p, const char *path, struct td_causes *ret)
{
	yyjson_val *n = td_jkey(p, "port"), *end = td_jkey(p, "endPort");
	td_auto_free char *field = td_asprintf("%s.port", path), *last = td_asprintf("%s.endPort", path);
	if (n && !yyjson_is_int(n))
		td_cause_add(ret, "FieldValueInvalid", field,
			     "Invalid value: the embedded plane enforces numbers of ports, no names");
	else if (n && (yyjson_get_sint(n) < 1 || yyjson_get_sint(n) > 65535))
		td_cause_add(ret, "FieldValueInvalid", field,
			     "Invalid value: %lld: must be between 1 and 65535, inclusive",
			     (long long)yyjson_get_sint(n));
	if (end && (!yyjson_is_int(n) || yyjson_get_sint(end) < yyjson_get_sint(n) || yyjson_get_sint(end) > 65535))
		td_cause_add(ret, "FieldValueInvalid", last,
			     "Invalid value: %lld: must be greater than or equal to `port`, and at most 65535",
			     (long long)yyjson_get_sint(end));
}

static void rules(const yyjson_val *obj, const char *way, const char *peers, struct td_causes *ret)
{
	yyjson_val *rule, *x;
	size_t i, n, k, m, entries = 0;
	yyjson_arr_foreach (td_jkey(td_jkey(obj, "spec"), way), i, n, rule) {
		size_t n_peers = yyjson_arr_size(td_jkey(rule, peers)),
		       n_ports = yyjson_arr_size(td_jkey(rule, "ports"));
		entries += (n_peers ? n_peers : 1) * (n_ports ? n_ports : 1);
		yyjson_arr_foreach (td_jkey(rule, peers), k, m, x) {
			char path[PATH];
			snprintf(path, sizeof(path), "spec.%s[%zu].%s[%zu]", way, i, peers, k);
			bool addresses = td_jkey(x, "ipBlock") != NULL;
			if (addresses)
				block(x, path, ret);
			else if (!td_jkey(x, "podSelector") && !td_jkey(x, "namespaceSelector"))
				td_cause_add(ret, "FieldValueRequired", path, "Required value: must specify a peer");
			selector(x, "podSelector", path, ret);
			selector(x, "namespaceSelector", path, ret);
		}
		yyjson_arr_foreach (td_jkey(rule, "ports"), k, m, x) {
			char path[PATH];
			snprintf(path, sizeof(path), "spec.%s[%zu].ports[%zu]", way, i, k);
			port(x, path, ret);
		}
	}
	// Each is one for each pod of its peer, in the filter of each pod that the policy selects.
	td_auto_free char *field = td_asprintf("spec.%s", way);
	if (entries > ENTRIES)
		td_cause_add(
			ret, "FieldValueTooMany", field,
			"Too many: %zu: must have at most %d pairs of a peer and a port on the embedded plane: use "
			"ranges (endPort) and selectors",
			entries, ENTRIES);
}

size_t td_api_policy_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	selector(td_jkey(obj, "spec"), "podSelector", "spec", ret);
	rules(obj, "ingress", "from", ret);
	rules(obj, "egress", "to", ret);
	return ret->n - before;
}

void td_api_policy_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	yyjson_mut_val *spec = td_jm_obj(d, obj, "spec");
	td_jm_obj(d, spec, "podSelector");
	if (yyjson_mut_arr_size(td_jm_get(spec, "policyTypes")))
		return;
	yyjson_mut_val *types = td_jm_arr(d, spec, "policyTypes");
	yyjson_mut_arr_append(types, yyjson_mut_str(d, "Ingress"));
	if (yyjson_mut_arr_size(td_jm_get(spec, "egress")))
		yyjson_mut_arr_append(types, yyjson_mut_str(d, "Egress"));
}
