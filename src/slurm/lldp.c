#include "slurm/lldp.h"

#include "json/json.h"

#include <string.h>
#include <uthash.h>

// A node of the pool, by its name, or a switch.
struct lldp_device {
	UT_hash_handle hh;
	const char *name;
	const struct td_strv *interfaces; // of a node: its ids
};
struct lldp {
	const yyjson_val *root;
	struct lldp_device *nodes, *switches, *n, *s; // two tables, and where their members lie
	size_t n_s;
	struct td_slurm_ibnet *net;
	size_t cables;
};
// What one device sees at one of its ports.
struct sight {
	const char *interface, *neighbor, *port; // port: what the other one calls the end of the cable
	const yyjson_val *chassis;
};

bool td_slurm_lldp_is(const char *text)
{
	return text[strspn(text, " \t\r\n")] == '{';
}

// What is called "n1" is "n1.example.com", too.
static const struct lldp_device *device_of(struct lldp_device *table, const char *name)
{
	struct lldp_device *k = NULL;
	HASH_FIND_STR(table, name, k);
	if (k || !strchr(name, '.'))
		return k;
	HASH_FIND(hh, table, name, strcspn(name, "."), k);
	return k;
}

static const struct lldp_device *node_of(const struct lldp *l, const char *device)
{
	return device_of(l->nodes, device);
}

static void learn_switch(struct lldp *l, const char *device)
{
	if (device_of(l->switches, device))
		return;
	struct lldp_device *k = &l->s[l->n_s++];
	k->name = device;
	HASH_ADD_KEYPTR(hh, l->switches, k->name, strlen(k->name), k);
}

// A chassis is {NAME: {"id": …}}, or {"id": …} of one without a name.
static bool chassis_of(const yyjson_val *x, struct sight *ret)
{
	yyjson_val *c = td_jget(x, "chassis");
	const char *id = td_jstr(c, "id.value");
	ret->chassis = c;
	ret->neighbor = id;
	if (!id) {
		yyjson_obj_iter it = yyjson_obj_iter_with(c);
		yyjson_val *k = yyjson_obj_iter_next(&it);
		ret->neighbor = yyjson_get_str(k);
		ret->chassis = k ? yyjson_obj_iter_get_val(k) : NULL;
	}
	return ret->neighbor && *ret->neighbor;
}

// A station that forwards nothing is no switch: another host at the same cable. Who says nothing of that may be one.
static bool may_forward(const yyjson_val *chassis)
{
	yyjson_val *list = td_jget(chassis, "capability"), *x;
	const bool one = yyjson_is_obj(list);
	size_t i, n;
	bool any = false;
	if (one)
		return td_jbool(list, "enabled", true) &&
		       (td_streq(td_jstr(list, "type"), "Bridge") || td_streq(td_jstr(list, "type"), "Router"));
	yyjson_arr_foreach (list, i, n, x)
		any |= td_jbool(x, "enabled", true) &&
		       (td_streq(td_jstr(x, "type"), "Bridge") || td_streq(td_jstr(x, "type"), "Router"));
	return any || !yyjson_arr_size(list);
}

typedef void (*sight_f)(struct lldp *l, const char *device, const struct sight *s);

static void ports_in(struct lldp *l, const char *device, const yyjson_val *ports, sight_f each)
{
	yyjson_obj_iter it = yyjson_obj_iter_with((yyjson_val *)(uintptr_t)ports);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const yyjson_val *x = yyjson_obj_iter_get_val(k);
		struct sight s = {.interface = yyjson_get_str(k)};
		s.port = td_streq(td_jstr(x, "port.id.type"), "ifname") ? td_jstr(x, "port.id.value")
									: td_jstr(x, "port.descr");
		if (chassis_of(x, &s))
			each(l, device, &s);
	}
}

// One interface is an object, several are a list of objects of one each.
static void sights(struct lldp *l, sight_f each)
{
	yyjson_obj_iter it = yyjson_obj_iter_with((yyjson_val *)(uintptr_t)l->root);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		yyjson_val *list = td_jget(yyjson_obj_iter_get_val(k), "lldp.interface"), *x;
		size_t i, n;
		if (yyjson_is_obj(list))
			ports_in(l, yyjson_get_str(k), list, each);
		yyjson_arr_foreach (list, i, n, x)
			ports_in(l, yyjson_get_str(k), x, each);
	}
}

// Does this interface of the node count? One whose name nobody tells does.
static bool counts(const struct lldp_device *node, const char *interface)
{
	bool any = false;
	for (size_t i = 0; i < node->interfaces->n; i++) {
		const char *id = node->interfaces->v[i];
		if (*id != '@')
			continue;
		any = true;
		if (!interface || td_streq(id + 1, interface))
			return true;
	}
	return !any;
}

static void count_one(struct lldp *l, const char *device, const struct sight *s)
{
	(void)device;
	(void)s;
	l->cables++;
}

static void seen_by_nodes(struct lldp *l, const char *device, const struct sight *s)
{
	const struct lldp_device *node = node_of(l, device);
	if (node && !node_of(l, s->neighbor) && counts(node, s->interface) && may_forward(s->chassis))
		learn_switch(l, s->neighbor);
}

static void cable(struct lldp *l, const char *device, const struct sight *s)
{
	const struct lldp_device *a = node_of(l, device), *b = node_of(l, s->neighbor),
				 *from = a ? a : device_of(l->switches, device),
				 *to = b ? b : device_of(l->switches, s->neighbor);
	if ((a && b) || (a && !counts(a, s->interface)) || (b && !counts(b, s->port)) || !from || !to)
		return;
	td_slurm_ibnet_cable(l->net, &(struct td_slurm_ibnet_end){from->name, a != NULL},
			     &(struct td_slurm_ibnet_end){to->name, b != NULL});
}

int td_slurm_lldp_read(const char *text, const struct td_slurm_place *places, const struct td_strv *ids, size_t n,
		       struct td_slurm_ibnet **ret, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (strlen(text) > TD_IBNET_MAX)
		return td_fail(err, TD_INVALID,
			       "it is longer than %d KiB; leave out what is not needed (docs/topology.md)",
			       TD_IBNET_MAX >> 10);
	if (td_json_parse(text, strlen(text), &j, err))
		return td_fail(err, TD_INVALID, "it begins as JSON does, and is none");
	struct lldp l = {.root = td_json_root(j), .net = td_slurm_ibnet_new()};
	sights(&l, count_one);
	// Keys of the text, and a switch at each cable at most.
	l.s = td_calloc(l.cables + yyjson_obj_size(td_json_root(j)) + 1, sizeof(*l.s));
	l.n = td_calloc(n + 1, sizeof(*l.n));
	for (size_t i = 0; i < n; i++) {
		l.n[i] = (struct lldp_device){.name = places[i].node, .interfaces = &ids[i]};
		HASH_ADD_KEYPTR(hh, l.nodes, l.n[i].name, strlen(l.n[i].name), &l.n[i]);
	}
	yyjson_obj_iter it = yyjson_obj_iter_with(td_json_root(j));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (!node_of(&l, yyjson_get_str(k)) && td_jget(yyjson_obj_iter_get_val(k), "lldp"))
			learn_switch(&l, yyjson_get_str(k));
	sights(&l, seen_by_nodes);
	sights(&l, cable);
	td_slurm_ibnet_done(l.net);
	HASH_CLEAR(hh, l.nodes);
	HASH_CLEAR(hh, l.switches);
	free(l.n);
	free(l.s);
	if (!td_slurm_ibnet_switches(l.net)) {
		td_slurm_ibnet_free(l.net);
		return td_fail(err, TD_INVALID,
			       "no node sees a switch in it: it must have, by the names of nodes and switches, what "
			       "lldpctl -f json prints there: {\"n0\": {\"lldp\": {\"interface\": …}}, …}");
	}
	*ret = l.net;
	return 0;
}
