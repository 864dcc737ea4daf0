// An existing slurm.conf, whatever it holds, becomes objects that the schemas and the writer of the
// configuration take, or is listed; it never crashes and never passes a line of its own on.
// rows: A2.1
#include "api/kinds.h"
#include "slurm/conf.h"
#include "slurm/import.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MUST(x, ...)                                                                                                   \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			fprintf(stderr, "broken: %s: ", #x);                                                           \
			fprintf(stderr, __VA_ARGS__);                                                                  \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

static void check(const struct td_slurm_import *x, const yyjson_val *o)
{
	const char *kind = td_jstr_or(o, "kind", "");
	if (!strcmp(kind, "ConfigMap"))
		return;
	const struct td_kind *k = td_kind_builtin("tandem.dev", kind);
	MUST(k, "%s", kind);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(o);
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_strv struct td_strv unknown = {0}, problems = {0}, sets = {0};
	td_auto_causes struct td_causes causes = {0};
	td_schema_prune(k->schema, root, &unknown);
	MUST(!unknown.n, "%s", unknown.v[0]);
	td_schema_default(k->schema, d, root);
	td_auto(td_json_unref) struct td_json *full = td_json_from_mut(root);
	td_meta_check(k, td_json_root(full), &causes);
	td_schema_validate(k->schema, td_json_root(full), &causes);
	MUST(!causes.n, "%s: %s", causes.v[0].field, causes.v[0].message);
	if (strcmp(kind, "SlurmCluster") != 0)
		return;
	for (size_t i = 0; i < x->n; i++)
		if (td_streq(td_jstr(td_json_root(x->v[i]), "kind"), "NodeSet"))
			td_strv_add(&sets, td_jstr(td_json_root(x->v[i]), "metadata.name"));
	const struct td_slurm_facts facts = {.node_sets = (const char *const *)sets.v, .n_node_sets = sets.n};
	td_auto_slurm_files struct td_slurm_files files = {0};
	MUST(td_slurm_files_make(td_json_root(full), &facts, &files, &problems), "%s", problems.v[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	// Files are parted by lines "==NAME".
	td_auto_free char *text = td_strndup((const char *)data, size);
	struct td_slurm_import_file files[8];
	size_t n = 0;
	files[n++] = (struct td_slurm_import_file){"slurm.conf", text};
	for (char *p = text; (p = strstr(p, "\n==")) && n < TD_LEN(files);) {
		char *name = p + 3, *end = strchr(name, '\n');
		*p = '\0';
		if (!end)
			break;
		*end = '\0';
		p = end + 1;
		files[n++] = (struct td_slurm_import_file){name, p};
	}
	td_auto_import struct td_slurm_import x = {0};
	if (td_slurm_import(files, n, "slurm", NULL, &x, NULL))
		return 0;
	for (size_t i = 0; i < x.n; i++)
		check(&x, td_json_root(x.v[i]));
	return 0;
}
