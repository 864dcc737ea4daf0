// Writes topology.conf.
#include "slurm/topology.h"

#include "base/names.h"
#include "slurm/conf.h"
#include "slurm/hostlist.h"

#include <string.h>

#define ROOT "top"
#define EMPTY "tandem-none" // a block with no node, beside one that is alone
#define ELSEWHERE "elsewhere"

bool td_slurm_topology(const yyjson_val *o)
{
	return !td_streq(td_jstr_or(o, "spec.topology.type", "none"), "none");
}

bool td_slurm_topology_blocks(const yyjson_val *o)
{
	return td_streq(td_jstr(o, "spec.topology.type"), "block");
}

static void check_sizes(const yyjson_val *o, struct td_strv *problems)
{
	yyjson_val *list = td_jget(o, "spec.topology.blockSizes"), *x;
	long long before = 0;
	size_t i, n;
	if (yyjson_arr_size(list) && !td_slurm_topology_blocks(o))
		td_strv_addf(problems,
			     "spec.topology.blockSizes: only blocks have sizes; set type to block, or remove it");
	yyjson_arr_foreach (list, i, n, x) {
		long long size = yyjson_get_sint(x), times = before ? size / before : 1;
		if (before && (size % before || times < 2 || (times & (times - 1))))
			td_strv_addf(
				problems,
				"spec.topology.blockSizes[%zu]: %lld is not 2, 4, 8 … times %lld, the size before it",
				i, size, before);
		before = size > 0 ? size : before;
	}
	if (td_slurm_topology_blocks(o) && td_slurm_conf_get(td_jget(o, "spec.config.slurmConf"), "TopologyPlugin"))
		td_strv_addf(problems,
			     "spec.config.slurmConf.TopologyPlugin: spec.topology.type is block; remove one of them");
}

void td_slurm_topology_labels(const yyjson_val *o, struct td_strv *ret, struct td_strv *problems)
{
	yyjson_val *list = td_jget(o, "spec.topology.labels");
	if (yyjson_arr_size(list) && td_jget(o, "spec.topology.fabric"))
		td_strv_addf(problems, "spec.topology.labels: spec.topology.fabric is there too; keep one of them");
	td_jstrs(list, ret);
	if (!yyjson_arr_size(list) && td_slurm_topology_blocks(o)) {
		td_strv_add(ret, TD_LABEL_CLIQUE);
	} else if (!yyjson_arr_size(list)) {
		td_strv_add(ret, TD_LABEL_BLOCK);
		td_strv_add(ret, TD_LABEL_RACK);
	}
	if (ret->n > TD_SLURM_LEVELS)
		td_strv_addf(problems, "spec.topology.labels: %d at most", TD_SLURM_LEVELS);
	if (td_slurm_topology(o) && td_jkey(td_jget(o, "spec.config.files"), "topology.conf"))
		td_strv_addf(
			problems,
			"spec.topology.type: spec.config.files has a topology.conf too; remove that, or write none");
	check_sizes(o, problems);
}

void td_slurm_place_read(const yyjson_val *node, const struct td_strv *labels, struct td_slurm_place *ret)
{
	yyjson_val *its = td_jget(node, "metadata.labels");
	*ret = (struct td_slurm_place){.node = td_jstr(node, "metadata.name")};
	for (size_t i = 0; i < labels->n && i < TD_SLURM_LEVELS; i++)
		ret->at[i] = td_jkey_str(its, labels->v[i]);
}

static bool is_place(const char *label)
{
	return td_slurm_is_name(label) && !td_streq(label, ROOT) && !td_starts(label, EMPTY);
}

// The name of the place of the first `levels` labels: "b0.r1". Values that Slurm does not take as names, and
// missing ones, are elsewhere.
static char *name_of(const struct td_slurm_place *p, size_t levels)
{
	struct td_buf b = {0};
	for (size_t i = 0; i < levels; i++) {
		td_buf_printf(&b, "%s%s", i ? "." : "", is_place(p->at[i]) ? p->at[i] : ELSEWHERE);
	}
	return td_buf_take(&b);
}

char *td_slurm_block_of(const struct td_slurm_place *p, size_t levels)
{
	return levels && is_place(p->at[levels - 1]) ? name_of(p, levels) : NULL;
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

// ---- blocks ----

size_t td_slurm_block_size(const yyjson_val *o, const struct td_slurm_place *places, size_t n, size_t levels)
{
	long long said = yyjson_get_sint(yyjson_arr_get_first(td_jget(o, "spec.topology.blockSizes")));
	if (said > 0)
		return said < TD_SLURM_BLOCK_MAX ? (size_t)said : TD_SLURM_BLOCK_MAX;
	td_auto_strv struct td_strv l = {0};
	for (size_t i = 0; i < n; i++) {
		td_auto_free char *name = td_slurm_block_of(&places[i], levels);
		if (name)
			td_strv_add(&l, name);
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(char *), by_text);
	size_t most = 1, run = 0;
	for (size_t i = 0; i < l.n; i++) {
		run = i && td_streq(l.v[i], l.v[i - 1]) ? run + 1 : 1;
		most = run > most ? run : most;
	}
	return most < TD_SLURM_BLOCK_MAX ? most : TD_SLURM_BLOCK_MAX;
}

struct in_block {
	char *name;
	const char *node;
};

static int by_block(const void *a, const void *b)
{
	const struct in_block *x = a, *y = b;
	int d = strcmp(x->name, y->name);
	return d ? d : strcmp(x->node, y->node);
}

char *td_slurm_blocks_conf(const yyjson_val *o, const struct td_slurm_place *places, size_t n, size_t levels)
{
	struct td_buf b = {0};
	const size_t size = td_slurm_block_size(o, places, n, levels);
	td_auto_free struct in_block *all = td_calloc(n + 1, sizeof(*all));
	for (size_t i = 0; i < n; i++)
		all[i] = (struct in_block){name_of(&places[i], levels), places[i].node};
	qsort(all, n, sizeof(*all), by_block);
	td_buf_puts(&b, "# Written by Tandem.\n");
	size_t blocks = 0;
	for (size_t i = 0, end; i < n; i = end) {
		td_auto_strv struct td_strv l = {0};
		for (end = i; end < n && !strcmp(all[end].name, all[i].name); end++)
			td_strv_add(&l, all[end].node);
		td_auto_free char *nodes = td_hostlist_write(&l);
		td_buf_printf(&b, "BlockName=%s Nodes=" TD_SLURM_FILL "[1-%zu],%s\n", all[i].name, size, nodes);
		blocks++;
	}
	for (; blocks < 2; blocks++) // Slurm joins two or more
		td_buf_printf(&b, "BlockName=" EMPTY "%zu Nodes=" TD_SLURM_FILL "[1-%zu]\n", blocks, size);
	for (size_t i = 0; i < n; i++)
		free(all[i].name);

	// One more size that joins all.
	td_buf_printf(&b, "BlockSizes=%zu", size);
	unsigned long long last = size;
	yyjson_val *x;
	size_t i, m;
	yyjson_arr_foreach (td_jget(o, "spec.topology.blockSizes"), i, m, x)
		if (i && (unsigned long long)yyjson_get_sint(x) > last) {
			last = (unsigned long long)yyjson_get_sint(x);
			td_buf_printf(&b, ",%llu", last);
		}
	unsigned long long top = last;
	while (top < size * blocks && top / size < TD_SLURM_BLOCK_TIMES)
		top *= 2;
	if (top > last)
		td_buf_printf(&b, ",%llu", top);
	td_buf_putc(&b, '\n');
	return td_buf_take(&b);
}
