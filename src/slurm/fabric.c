#include "slurm/fabric.h"

#include "base/names.h"
#include "slurm/nics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

enum { VALUE_MAX = 512 };

void td_slurm_variables_done(struct td_slurm_variables *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].value);
		free(l->v[i].prefix);
		free(l->v[i].every);
	}
	*l = (struct td_slurm_variables){0};
}

// Names of interfaces and adapters, and lists of them. Nothing that a shell, a line or a column would read otherwise.
static bool is_value(const char *s)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=/^+-";
	return s && *s && strlen(s) <= VALUE_MAX && strspn(s, ok) == strlen(s);
}

// The value with the node's own word in the place of {}.
static char *filled(const char *value, const char *word)
{
	const char *at = value ? strstr(value, "{}") : NULL;
	if (!value)
		return td_strdup(word);
	return at ? td_asprintf("%.*s%s%s", (int)(at - value), value, word, at + 2) : td_strdup(value);
}

bool td_slurm_fabric(const yyjson_val *cluster)
{
	return yyjson_arr_size(td_jget(cluster, "spec.fabric.variables")) ||
	       td_jget(cluster, "spec.fabric.planes.gpu") || td_slurm_nics_give(td_jget(cluster, "spec.fabric"));
}

bool td_slurm_fabric_finds(const yyjson_val *cluster)
{
	yyjson_val *x, *fabric = td_jget(cluster, "spec.fabric");
	size_t i, n;
	bool found =
		td_jget(fabric, "planes") || td_slurm_nics_give(fabric) || td_jget(cluster, "spec.topology.fabric");
	yyjson_arr_foreach (td_jget(fabric, "variables"), i, n, x)
		found |= td_jget(x, "found") != NULL;
	return found;
}

static bool kind_of(const char *word, enum td_slurm_found *ret)
{
	*ret = td_streq(word, "adapters") ? TD_FOUND_ADAPTERS
	       : td_streq(word, "ports")  ? TD_FOUND_PORTS
					  : TD_FOUND_INTERFACES;
	return word != NULL;
}

// What every name of a list is written as, with what comes behind each.
static char *listed(const struct td_strv *l, const char *behind)
{
	struct td_buf b = {0};
	for (size_t i = 0; i < l->n; i++)
		td_buf_printf(&b, "%s%s%s", i ? "," : "", l->v[i], behind);
	return td_buf_take(&b);
}

struct want {
	const char *name, *value; // value: with {}, or NULL
	bool per_device, per_nic;
};

static void put(struct td_slurm_variables *ret, const struct want *w, const struct td_strv *list,
		const struct td_strv *all)
{
	const char *at = w->value ? strstr(w->value, "{}") : NULL;
	struct td_slurm_variable v = {.name = w->name, .per_device = w->per_device, .per_nic = w->per_nic};
	if (w->per_device) {
		v.prefix = at && at > w->value ? td_strndup(w->value, (size_t)(at - w->value)) : NULL;
		v.value = listed(list, at ? at + 2 : "");
		v.every = all->n ? listed(all, at ? at + 2 : "") : NULL;
	} else {
		td_auto_free char *text = listed(list, "");
		v.value = filled(w->value, text);
	}
	if (is_value(v.value) && (!v.prefix || is_value(v.prefix)) && (!v.every || is_value(v.every)) &&
	    ret->n < TD_LEN(ret->v)) {
		ret->v[ret->n++] = v;
		return;
	}
	free(v.value);
	free(v.prefix);
	free(v.every);
}

// From what the agent found; false: it found nothing of that kind. Where Slurm gives out adapters, everybody has the
// names of his own.
static bool put_found(struct td_slurm_variables *ret, const struct want *w, const struct td_slurm_nics *nics,
		      enum td_slurm_found kind)
{
	td_auto_strv struct td_strv all = {0}, each = {0};
	const struct td_strv none = {0};
	struct want v = *w;
	if (td_slurm_nics_words(nics, kind, &each, &all)) {
		v.per_device = v.per_nic = true;
		put(ret, &v, &each, &all);
		return true;
	}
	td_slurm_nics_found(nics, kind, &all, &each);
	if (!all.n)
		return false;
	// Which is near to which GPU is not known: everybody has all of them.
	v.per_device = w->per_device && each.n;
	put(ret, &v, v.per_device ? &each : &all, v.per_device ? &all : &none);
	return true;
}

static void variable(struct td_slurm_variables *ret, const yyjson_val *x, const yyjson_val *node,
		     const struct td_slurm_nics *nics)
{
	const char *label = td_jstr(x, "label"), *note = td_jstr(x, "annotation"), *value = td_jstr(x, "value");
	const char *word = label  ? td_jkey_str(td_jget(node, "metadata.labels"), label)
			   : note ? td_jkey_str(td_jget(node, "metadata.annotations"), note)
				  : NULL;
	bool form = value && strstr(value, "{}");
	struct want w = {td_jstr(x, "name"), form ? value : NULL, td_jbool(x, "perDevice", false), false};
	td_auto_strv struct td_strv list = {0};
	const struct td_strv none = {0};
	enum td_slurm_found kind;
	if (is_value(word)) {
		td_strv_split(&list, word, w.per_device ? ',' : '\n');
		put(ret, &w, &list, &none);
	} else if (!(kind_of(td_jstr(x, "found"), &kind) && put_found(ret, &w, nics, kind)) && value && !form) {
		// What a node does not say has the default, which is of no device.
		td_strv_add(&list, value);
		put(ret, &(struct want){w.name, NULL, false, false}, &list, &none);
	}
}

// What libraries read to find the network. NCCL takes a name for the beginning of one, unless it is told otherwise by =.
static const struct {
	struct want want;
	enum td_slurm_found kind;
} usual[] = {
	{{"NCCL_SOCKET_IFNAME", "={}", false, false}, TD_FOUND_INTERFACES},
	{{"NCCL_IB_HCA", "={}", true, false}, TD_FOUND_ADAPTERS},
	{{"GLOO_SOCKET_IFNAME", NULL, false, false}, TD_FOUND_INTERFACES},
	{{"UCX_NET_DEVICES", NULL, true, false}, TD_FOUND_PORTS},
	{{"OMPI_MCA_btl_tcp_if_include", NULL, false, false}, TD_FOUND_INTERFACES},
};

static void variables(const yyjson_val *fabric, const yyjson_val *node, const struct td_slurm_nics *nics,
		      struct td_slurm_variables *ret)
{
	yyjson_val *x, *list = td_jget(fabric, "variables");
	size_t i, n;
	yyjson_arr_foreach (list, i, n, x)
		variable(ret, x, node, nics);
	for (size_t k = 0; (nics->gpu_plane || nics->gives) && k < TD_LEN(usual); k++)
		// Without a plane of the GPUs nobody said over which interfaces jobs talk.
		if (!td_jfind(list, "name", usual[k].want.name) &&
		    (nics->gpu_plane || (usual[k].kind != TD_FOUND_INTERFACES && td_slurm_nics_given(nics, 0))))
			put_found(ret, &usual[k].want, nics, usual[k].kind);
}

void td_slurm_fabric_read(const yyjson_val *fabric, const yyjson_val *node, struct td_slurm_variables *ret)
{
	td_auto_nics struct td_slurm_nics nics = {0};
	td_slurm_nics_read(fabric, node, &nics);
	variables(fabric, node, &nics, ret);
}

char *td_slurm_variable_value(const struct td_slurm_variable *v, const struct td_ranges *devices,
			      const struct td_ranges *nics)
{
	devices = v->per_nic ? nics : devices;
	if (!v->per_device)
		return td_strdup(v->value);
	td_auto_strv struct td_strv all = {0}, mine = {0};
	td_strv_split(&all, v->value, ',');
	td_auto_buf struct td_buf b = {0};
	bool none = true;
	for (size_t i = 0; i < TD_RANGE_MAX; i++) {
		if (!(devices->bits[i / 64] >> (i % 64) & 1))
			continue;
		none = false;
		if (i < all.n && !td_strv_has(&mine, all.v[i])) {
			td_strv_add(&mine, all.v[i]);
			td_buf_printf(&b, "%s%s", b.len ? "," : "", all.v[i]);
		}
	}
	const char *list = b.len ? td_buf_str(&b) : none ? v->every : NULL;
	return list ? td_asprintf("%s%s", v->prefix ? v->prefix : "", list) : NULL;
}

void td_slurm_fabric_check(const yyjson_val *cluster, struct td_strv *problems)
{
	yyjson_val *x, *list = td_jget(cluster, "spec.fabric.variables");
	size_t i, n;
	td_auto_strv struct td_strv names = {0};
	yyjson_val *k, *gres;
	yyjson_obj_foreach (td_jget(cluster, "spec.scheduler.gresMap"), i, n, k, gres)
		if (td_streq(yyjson_get_str(gres), TD_GRES_NIC) &&
		    td_slurm_nics_give(td_jget(cluster, "spec.fabric")) &&
		    !td_streq(yyjson_get_str(k), TD_NIC_RESOURCE))
			td_strv_addf(problems,
				     "spec.scheduler.gresMap: %.80s is mapped to " TD_GRES_NIC
				     ", which pods ask for as " TD_NIC_RESOURCE " (spec.fabric.nics.grant): remove it",
				     yyjson_get_str(k));
	yyjson_arr_foreach (list, i, n, x) {
		const char *name = td_jstr_or(x, "name", ""), *value = td_jstr(x, "value");
		bool label = td_jget(x, "label"), note = td_jget(x, "annotation");
		td_auto_free char *sample = value ? filled(value, "x") : NULL;
		if (td_strv_has(&names, name))
			td_strv_addf(problems, "spec.fabric.variables[%zu].name: %.64s is there twice; keep one", i,
				     name);
		td_strv_add(&names, name);
		if (label && note)
			td_strv_addf(problems,
				     "spec.fabric.variables[%zu].annotation: %.64s has a label too; keep one of them",
				     i, name);
		if (!label && !note && !td_jget(x, "found") && (!value || strstr(value, "{}")))
			td_strv_addf(
				problems,
				"spec.fabric.variables[%zu].value: %.64s needs a value without {}, or the label or "
				"annotation of nodes that it comes from, or what is found there (found)",
				i, name);
		if (sample && !is_value(sample))
			td_strv_addf(problems,
				     "spec.fabric.variables[%zu].value: \"%.64s\" has other characters than letters, "
				     "digits and _.,:=/^+-",
				     i, value);
		if (!strncmp(name, "SLURM_", 6) || !strncmp(name, "LD_", 3) || !strcmp(name, "PATH"))
			td_strv_addf(problems,
				     "spec.fabric.variables[%zu].name: %.64s is not for the network; remove it", i,
				     name);
	}
}

static char *numbered(const char *value, const struct td_slurm_nics *nics)
{
	td_auto_strv struct td_strv all = {0};
	struct td_buf b = {0};
	const struct td_slurm_nic *x;
	td_strv_split(&all, value, ',');
	for (size_t i = 0; i < all.n && (x = td_slurm_nics_given(nics, i)); i++)
		td_buf_printf(&b, "%s%d/%s", i ? "," : "", x->number, all.v[i]);
	return td_buf_take(&b);
}

void td_slurm_fabric_lines(const char *who, const yyjson_val *cluster, const yyjson_val *node, struct td_buf *ret)
{
	td_auto_variables struct td_slurm_variables l = {0};
	td_auto_nics struct td_slurm_nics nics = {0};
	const yyjson_val *fabric = td_jget(cluster, "spec.fabric");
	td_slurm_nics_read(fabric, node, &nics);
	variables(fabric, node, &nics, &l);
	for (size_t i = 0; i < l.n; i++) {
		td_auto_free char *value = l.v[i].per_nic ? numbered(l.v[i].value, &nics) : td_strdup(l.v[i].value);
		td_buf_printf(ret, "%s %s %s%s%s%s%s%s\n", who, l.v[i].name,
			      l.v[i].per_nic      ? "%"
			      : l.v[i].per_device ? "@"
						  : "",
			      l.v[i].prefix ? l.v[i].prefix : "", l.v[i].per_device ? " " : "", value,
			      l.v[i].every ? " " : "", l.v[i].every ? l.v[i].every : "");
	}
}

struct td_slurm_fabric_kind {
	UT_hash_handle hh;
	unsigned at;
	char *lines; // of a node that has no name
};

void td_slurm_fabric_add(struct td_slurm_fabric_table *t, const yyjson_val *cluster, const yyjson_val *node)
{
	td_auto_buf struct td_buf its = {0};
	struct td_slurm_fabric_kind *k = NULL;
	td_slurm_fabric_lines("", cluster, node, &its);
	if (!its.len)
		return;
	HASH_FIND_STR(t->kinds, td_buf_str(&its), k);
	char who[24];
	snprintf(who, sizeof(who), "#%u", k ? k->at : HASH_COUNT(t->kinds));
	if (!k) {
		k = td_calloc(1, sizeof(*k));
		k->at = HASH_COUNT(t->kinds);
		k->lines = td_buf_take(&its);
		HASH_ADD_KEYPTR(hh, t->kinds, k->lines, strlen(k->lines), k);
		td_slurm_fabric_lines(who, cluster, node, &t->lines);
	}
	td_buf_printf(&t->nodes, "%s %s\n", td_jstr_or(node, "metadata.name", ""), who);
}

char *td_slurm_fabric_text(const struct td_slurm_fabric_table *t)
{
	return td_asprintf("%s%s", td_buf_str(&t->nodes), td_buf_str(&t->lines));
}

void td_slurm_fabric_done(struct td_slurm_fabric_table *t)
{
	struct td_slurm_fabric_kind *k, *next;
	HASH_ITER (hh, t->kinds, k, next) {
		HASH_DEL(t->kinds, k);
		free(k->lines);
		free(k);
	}
	td_buf_done(&t->nodes);
	td_buf_done(&t->lines);
}
