// Where a machine's GPUs are, and what is told of them.
#include "checkup/checkup.h"

#include "base/file.h"
#include "base/indexes.h"
#include "json/json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The first line of a file below <root>/sys; false: there is none.
static bool line_of(struct td_buf *b, const char *path)
{
	td_buf_reset(b);
	if (td_file_read(path, 4096, b, NULL))
		return false;
	while (b->len && b->s[b->len - 1] == '\n')
		b->s[--b->len] = '\0';
	return b->len > 0;
}

// The bridge above a device is the folder in which the kernel keeps it: …/0000:3a:00.0/0000:3b:00.0.
static void above(const char *dir, char ret[24])
{
	td_auto_free char *real = realpath(dir, NULL);
	char *last = real ? strrchr(real, '/') : NULL;
	if (!last)
		return;
	*last = '\0';
	const char *name = strrchr(real, '/');
	// Below the root there is no port: "pci0000:00".
	if (name && strlen(name + 1) == strlen("0000:3a:00.0") && name[5] == ':' && name[8] == ':')
		snprintf(ret, 24, "%s", name + 1);
}

void td_checkup_where(const char *root, struct td_checkup_facts *f)
{
	td_auto_buf struct td_buf b = {0};
	for (int i = 0; i < f->gpus; i++) {
		struct td_checkup_gpu *g = &f->gpu[i];
		td_auto_free char *numa = td_asprintf("%s/sys/bus/pci/devices/%s/numa_node", root, g->pci),
				  *cpus = td_asprintf("%s/sys/bus/pci/devices/%s/local_cpulist", root, g->pci);
		td_auto_free char *dir = td_asprintf("%s/sys/bus/pci/devices/%s", root, g->pci);
		long long n;
		if (!*g->pci)
			continue;
		above(dir, g->above);
		// The kernel says -1 where the machine's firmware does not tell.
		if (line_of(&b, numa) && td_parse_i64(td_buf_str(&b), &n) && n >= 0)
			g->numa = (int)n;
		if (line_of(&b, cpus) && strlen(td_buf_str(&b)) < sizeof(g->cpus))
			strcpy(g->cpus, td_buf_str(&b));
	}
	for (f->numa_nodes = 0;; f->numa_nodes++) {
		td_auto_free char *node = td_asprintf("%s/sys/devices/system/node/node%d", root, f->numa_nodes);
		if (!td_path_exists(node))
			break;
	}
}

static void text(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const char *v)
{
	td_jm_str(d, o, key, *v ? v : NULL);
}

char *td_checkup_inventory(const struct td_checkup_facts *f)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "gpus");
	bool told = f->gpus > 0, mig = td_mig_any(f);
	if (f->numa_nodes)
		td_jm_int(d, root, "numaNodes", f->numa_nodes);
	for (int i = 0; i < f->gpus; i++) {
		const struct td_checkup_gpu *g = &f->gpu[i];
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_auto_free char *peers = td_indexes_text(g->peers);
		told = told && *g->uuid && !g->lost;
		text(d, o, "product", g->model);
		text(d, o, "uuid", g->uuid);
		text(d, o, "pci", g->pci);
		text(d, o, "cpus", g->cpus);
		text(d, o, "peers", peers);
		if (g->minor >= 0)
			td_jm_int(d, o, "minor", g->minor);
		if (g->numa >= 0)
			td_jm_int(d, o, "numa", g->numa);
		if (!mig)
			continue;
		// Indexes are no numbers of device files any more.
		char files[3][40];
		size_t n = td_mig_files(g, files);
		yyjson_mut_val *l = n ? td_jm_arr(d, o, "files") : NULL;
		for (size_t k = 0; k < n; k++)
			yyjson_mut_arr_add_strcpy(d, l, files[k]);
		told = told && n;
		td_jm_int(d, o, "gpu", g->of);
		text(d, o, "mig", g->profile);
	}
	return told ? td_json_mut_text(root, NULL) : NULL;
}
