// The kinds of nodes of a SlurmCluster, and their lines of gres.conf. There is no bound on kinds: each layout of MIG
// makes one, and a node without a line would register without GPUs.
#include "operator/operator.h"

#include "slurm/gres.h"
#include "slurm/hostlist.h"

#include <string.h>
#include <uthash.h>

struct td_op_kind {
	struct td_op_share share; // gpus and types count
	struct td_op_vendor vendor;
	bool fake, other;
	struct td_strv names;
	UT_hash_handle hh; // by key
	char key[];        // what nodes of one kind have in common
};

// Whose devices they are tells nodes apart that have devices; cores do where lines of gres.conf name them.
static char *key_of(const struct td_op_of *of)
{
	const struct td_op_share *s = of->share;
	return td_asprintf("%lld %d %lld %lld %d %lld|%s|%s|%s|%s|%s|%s", s->gpus, s->shared, s->parts,
			   *s->numa ? s->cpus : 0, s->gpus ? of->fake + 2 * of->other : 0, s->nics, s->types, s->numa,
			   s->gpus ? of->vendor->resource : "", s->gpus ? of->vendor->files : "",
			   s->nics ? of->vendor->nics.files : "", s->nics ? of->vendor->nics.part : "");
}

void td_op_kinds_add(struct td_op_kinds *k, const char *node, const struct td_op_of *of)
{
	td_auto_free char *key = key_of(of);
	struct td_op_kind *one = NULL;
	size_t len = strlen(key);
	HASH_FIND(hh, k->table, key, len, one);
	if (!one) {
		one = td_calloc(1, sizeof(*one) + len + 1);
		one->share = *of->share;
		one->vendor = *of->vendor;
		one->fake = of->fake;
		one->other = of->other;
		memcpy(one->key, key, len + 1);
		k->v = td_realloc(k->v, (k->n + 1) * sizeof(struct td_op_kind *));
		k->v[k->n++] = one;
		HASH_ADD_KEYPTR(hh, k->table, one->key, len, one);
	}
	td_strv_add(&one->names, node);
	k->gpus += of->share->gpus;
	k->gpu_nodes += of->share->gpus > 0;
}

void td_op_kinds_done(struct td_op_kinds *k)
{
	HASH_CLEAR(hh, k->table);
	for (size_t i = 0; i < k->n; i++) {
		td_strv_done(&k->v[i]->names);
		free(k->v[i]);
	}
	free(k->v);
	td_strv_done(&k->texts);
	free(k->lines);
	*k = (struct td_op_kinds){0};
}

// Keeps a string for the lines.
static const char *keep(struct td_op_kinds *k, char *s)
{
	td_strv_steal(&k->texts, s);
	return k->texts.v[k->texts.n - 1];
}

// One more line. A node whose GPUs are cut in parts of their own has some 60.
static struct td_slurm_gres *line_of(struct td_op_kinds *k)
{
	k->lines = td_realloc(k->lines, (k->n_lines + 1) * sizeof(*k->lines));
	return &k->lines[k->n_lines++];
}

// What slurmd.sh makes for GPUs that are in another cluster.
static char *other_files(long long from, long long n)
{
	return n > 1 ? td_asprintf("/run/slurm/other-cluster/gpu[%lld-%lld]", from, from + n - 1)
		     : td_asprintf("/run/slurm/other-cluster/gpu%lld", from);
}

// Adds the lines of one kind, in the order of Slurm's indexes: one for each type, and for each NUMA node.
static void devices(struct td_op_kinds *k, const yyjson_val *sc, const struct td_op_kind *g, const char *nodes)
{
	const char *types = g->share.types;
	char type[64];
	long long n, from = 0;
	while (from < g->share.gpus) {
		bool typed = td_op_types_next(&types, type, &n);
		if (!typed)
			n = g->share.gpus - from;
		for (long long to = from + n; from < to; from += n) {
			n = td_op_device_run(&g->vendor, from, td_op_numa_run(g->share.numa, from, to));
			char *cores = td_op_numa_cores(&g->share, from);
			*line_of(k) = (struct td_slurm_gres){
				.nodes = nodes,
				.name = "gpu",
				.file = keep(k, g->other ? other_files(from, n)
							 : td_op_device_files(sc, &g->vendor, g->fake, from, n)),
				.several = !g->other && td_op_device_several(&g->vendor, from),
				.type = typed ? keep(k, td_strdup(type)) : NULL,
				.cores = cores ? keep(k, cores) : NULL,
				.flags = g->vendor.flags};
		}
	}
	if (g->share.shared)
		*line_of(k) = (struct td_slurm_gres){
			.nodes = nodes, .name = TD_GPU_SHARE, .count = td_op_shares_units(&g->share)};
	char *files, *cores;
	for (long long i = 0; !g->other && td_op_nics_line(&g->vendor.nics, &g->share, i, &files, &cores); i++)
		*line_of(k) = (struct td_slurm_gres){.nodes = nodes,
						     .name = TD_GRES_NIC,
						     .file = keep(k, files),
						     .several = strchr(files, ',') != NULL,
						     .cores = cores ? keep(k, cores) : NULL};
}

static int by_name(const void *a, const void *b)
{
	return td_op_name_cmp(*(char *const *)a, *(char *const *)b);
}

void td_op_kinds_lines(struct td_op_kinds *k, const yyjson_val *sc)
{
	for (size_t i = 0; i < k->n; i++) {
		struct td_op_kind *g = k->v[i];
		if (!g->share.gpus && !g->share.nics)
			continue;
		const char *nodes = NULL;
		if (k->n > 1) {
			qsort(g->names.v, g->names.n, sizeof(char *), by_name);
			nodes = keep(k, td_hostlist_write(&g->names));
		}
		devices(k, sc, g, nodes);
	}
}

// Does a line's "NodeName=LIST " name the node? *ret_rest: what follows. A line without one is everybody's.
static bool names(const char *line, const char *node, const char **ret_rest)
{
	static const char key[] = "NodeName=";
	td_auto_strv struct td_strv l = {0};
	*ret_rest = line;
	if (!td_starts(line, key))
		return true;
	const char *list = line + strlen(key), *end = strchr(list, ' ');
	td_auto_free char *text = td_strndup(list, end ? (size_t)(end - list) : strlen(list));
	*ret_rest = end ? end + 1 : "";
	return !td_hostlist_parse(text, &l, NULL) && td_strv_has(&l, node);
}

bool td_op_kinds_written(const yyjson_val *sc, const char *node, const struct td_op_of *of, const char *gres_conf)
{
	__attribute__((cleanup(td_op_kinds_done))) struct td_op_kinds k = {0};
	td_op_kinds_add(&k, node, of);
	td_op_kinds_lines(&k, sc);
	td_auto_free char *want = td_slurm_gres_conf(&(struct td_slurm_facts){.gres = k.lines, .n_gres = k.n_lines});
	td_auto_strv struct td_strv lines = {0};
	td_auto_buf struct td_buf has = {0};
	td_strv_split(&lines, gres_conf ? gres_conf : "", '\n');
	for (size_t i = 0; i < lines.n; i++) {
		const char *rest;
		if (names(lines.v[i], node, &rest))
			td_buf_printf(&has, "%s\n", rest);
	}
	return !strcmp(td_buf_str(&has), want);
}
