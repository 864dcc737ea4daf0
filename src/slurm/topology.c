// Writes topology.conf.
#include "slurm/topology.h"

#include "base/names.h"
#include "slurm/conf.h"
#include "slurm/hostlist.h"

#include <string.h>

#define ROOT "top"
#define ELSEWHERE "elsewhere"

bool td_slurm_topology(const yyjson_val *o)
{
	return !td_streq(td_jstr_or(o, "spec.topology.type", "none"), "none");
}

void td_slurm_topology_labels(const yyjson_val *o, struct td_strv *ret, struct td_strv *problems)
{
	yyjson_val *list = td_jget(o, "spec.topology.labels");
	if (yyjson_arr_size(list) && td_jget(o, "spec.topology.fabric"))
		td_strv_addf(problems, "spec.topology.labels: spec.topology.fabric is there too; keep one of them");
	td_jstrs(list, ret);
	if (!yyjson_arr_size(list)) {
		td_strv_add(ret, TD_LABEL_BLOCK);
		td_strv_add(ret, TD_LABEL_RACK);
	}
	if (ret->n > TD_SLURM_LEVELS)
		td_strv_addf(problems, "spec.topology.labels: %d at most", TD_SLURM_LEVELS);
	if (td_slurm_topology(o) && td_jkey(td_jget(o, "spec.config.files"), "topology.conf"))
		td_strv_addf(
			problems,
			"spec.topology.type: spec.config.files has a topology.conf too; remove that, or write none");
}

// The name of the place of the first `levels` labels: "b0.r1". Values that Slurm does not take as names, and
// missing ones, are elsewhere.
static char *name_of(const struct td_slurm_place *p, size_t levels)
{
	struct td_buf b = {0};
	for (size_t i = 0; i < levels; i++) {
		bool ok = td_slurm_is_name(p->at[i]) && !td_streq(p->at[i], ROOT);
		td_buf_printf(&b, "%s%s", i ? "." : "", ok ? p->at[i] : ELSEWHERE);
	}
	return td_buf_take(&b);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// All names of a level, each once and sorted; those below `above` only, unless that is NULL.
static void names(const struct td_slurm_place *places, size_t n, size_t levels, const char *above, struct td_strv *ret)
{
	for (size_t i = 0; i < n; i++) {
		td_auto_free char *name = name_of(&places[i], levels), *wide = name_of(&places[i], levels - 1);
		if ((!above || td_streq(wide, above)) && !td_strv_has(ret, name))
			td_strv_add(ret, name);
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(char *), by_text);
}

static char *nodes_at(const struct td_slurm_place *places, size_t n, size_t levels, const char *name)
{
	td_auto_strv struct td_strv l = {0};
	for (size_t i = 0; i < n; i++) {
		td_auto_free char *its = name_of(&places[i], levels);
		if (td_streq(its, name))
			td_strv_add(&l, places[i].node);
	}
	qsort(l.v, l.n, sizeof(char *), by_text);
	return td_hostlist_write(&l);
}

static void switches(struct td_buf *b, const char *name, const struct td_strv *below)
{
	td_buf_printf(b, "SwitchName=%s Switches=", name);
	for (size_t i = 0; i < below->n; i++)
		td_buf_printf(b, "%s%s", i ? "," : "", below->v[i]);
	td_buf_putc(b, '\n');
}

static void tree(struct td_buf *b, const struct td_slurm_place *places, size_t n, size_t levels)
{
	td_auto_strv struct td_strv leaves = {0};
	names(places, n, levels, NULL, &leaves);
	for (size_t i = 0; i < leaves.n; i++) {
		td_auto_free char *nodes = nodes_at(places, n, levels, leaves.v[i]);
		td_buf_printf(b, "SwitchName=%s Nodes=%s\n", leaves.v[i], nodes);
	}
	for (size_t level = levels - 1; level > 0; level--) {
		td_auto_strv struct td_strv here = {0};
		names(places, n, level, NULL, &here);
		for (size_t i = 0; i < here.n; i++) {
			td_auto_strv struct td_strv below = {0};
			names(places, n, level + 1, here.v[i], &below);
			switches(b, here.v[i], &below);
		}
	}
	td_auto_strv struct td_strv widest = {0};
	names(places, n, 1, NULL, &widest);
	switches(b, ROOT, &widest);
}

char *td_slurm_topology_conf(const struct td_slurm_place *places, size_t n, size_t levels)
{
	struct td_buf b = {0};
	td_buf_puts(&b, "# Written by Tandem.\n");
	if (n && levels)
		tree(&b, places, n, levels);
	return td_buf_take(&b);
}
