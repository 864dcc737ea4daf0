// tandem gds-check: what this machine has of GPUDirect Storage, and what is missing.
#include "accel/gds.h"
#include "base/options.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <string.h>

static void as_json(const char *root, const struct td_gds *g)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_bool(d, o, "ready", td_gds_ready(g));
	td_jm_str(d, o, "version", *g->version ? g->version : NULL);
	yyjson_mut_val *list = td_jm_arr(d, o, "checks");
	for (size_t i = 0; i < g->n_checks; i++) {
		yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, x, "name", g->check[i].name);
		td_jm_str(d, x, "state", td_gds_state_text(g->check[i].state));
		td_jm_str(d, x, "message", g->check[i].text);
	}
	list = td_jm_arr(d, o, "devices");
	for (size_t i = 0; i < g->n_devices; i++) {
		const struct td_gds_device *a = &g->device[i];
		yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, x, "kind", a->kind);
		td_jm_str(d, x, "name", a->name);
		td_jm_str(d, x, "pci", *a->pci ? a->pci : NULL);
		if (a->numa >= 0)
			td_jm_int(d, x, "numa", a->numa);
		// How far a GPU is from each disk and port, by the machine's own measure: 10 is the same NUMA node.
		for (size_t k = 0; k < g->n_devices && !strcmp(a->kind, "gpu"); k++) {
			const struct td_gds_device *b = &g->device[k];
			int far = strcmp(b->kind, "gpu") ? td_gds_distance(root, a->numa, b->numa) : -1;
			if (far >= 0)
				yyjson_mut_obj_add_int(d, td_jm_obj(d, x, "distances"), b->name, far);
		}
	}
	list = td_jm_arr(d, o, "mounts");
	for (size_t i = 0; i < g->mounts.n; i++)
		yyjson_mut_arr_add_strcpy(d, list, g->mounts.v[i]);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(o);
	td_auto_free char *text = td_json_pretty(td_json_root(j));
	puts(text);
}

static void as_text(const char *root, const struct td_gds *g)
{
	for (size_t i = 0; i < g->n_checks; i++)
		printf("%-8s %-12s %s\n", td_gds_state_text(g->check[i].state), g->check[i].name, g->check[i].text);
	for (size_t i = 0; i < g->n_devices; i++) {
		const struct td_gds_device *a = &g->device[i];
		printf("\n%s %s", a->kind, a->name);
		if (a->numa >= 0)
			printf(", NUMA node %d", a->numa);
		for (size_t k = 0; k < g->n_devices && !strcmp(a->kind, "gpu"); k++) {
			const struct td_gds_device *b = &g->device[k];
			int far = strcmp(b->kind, "gpu") ? td_gds_distance(root, a->numa, b->numa) : -1;
			if (far >= 0)
				printf("; %s at %d", b->name, far);
		}
	}
	for (size_t i = 0; i < g->mounts.n; i++)
		printf("\nmount %s", g->mounts.v[i]);
	printf("%s%s\n", g->n_devices + g->mounts.n ? "\n\n" : "\n",
	       td_gds_ready(g) ? "GPUDirect Storage can be used here."
			       : "GPUDirect Storage cannot be used here: see what is missing.");
}

int td_gds_check_main(int argc, char **argv)
{
	const char *root = "", *output = NULL;
	const struct td_option options[] = {
		{.name = "root",
		 .value = "DIR",
		 TD_OPT_TEXT(&root),
		 .help = "looks at DIR/proc, DIR/sys, DIR/dev, DIR/etc and DIR/run, such as a machine's root as a pod "
			 "sees it (default: this machine)"},
		{.name = "output",
		 .letter = 'o',
		 .value = "json",
		 TD_OPT_TEXT(&output),
		 .choices = "json",
		 .help = "prints JSON"},
	};
	const struct td_command c = {.name = "gds-check",
				     .about = "Says what this machine has of GPUDirect Storage, by which disks and "
					      "network cards write into a "
					      "GPU's memory by themselves: the kernel module, its device files, the "
					      "disks and ports and how far "
					      "they are from the GPUs, what stands in the way, and the file systems on "
					      "which it works. It only "
					      "reads. As root it sees the PCI bridges' settings, too.",
				     .options = options,
				     .n = TD_LEN(options),
				     .exits = "0 it can be used, 1 something is missing, 2 wrong usage."};
	int code;
	if (!td_command_line(&c, argc, argv, NULL, &code))
		return code;
	struct td_gds g;
	td_gds_look(root, &g);
	if (output)
		as_json(root, &g);
	else
		as_text(root, &g);
	code = td_gds_ready(&g) ? 0 : 1;
	td_gds_done(&g);
	return code;
}
