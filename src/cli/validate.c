// tandem validate: checks SlurmCluster, NodeSet and Tenant files without a cluster. It uses the schemas of
// the API server and the grammar of the configuration writer. It does not check what only a cluster
// can know, such as which nodes exist.
#include "api/kinds.h"
#include "base/file.h"
#include "base/options.h"
#include "cli/common.h"
#include "cmd/roles.h"
#include "slurm/conf.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_input(const char *path, struct td_buf *ret, struct td_error *err)
{
	if (strcmp(path, "-"))
		return td_file_read(path, TD_JSON_MAX, ret, err);
	char chunk[65536];
	for (ssize_t n; (n = read(0, chunk, sizeof(chunk))) > 0;) {
		td_buf_add(ret, chunk, (size_t)n);
		if (ret->len > TD_JSON_MAX)
			return td_fail(err, TD_INVALID, "standard input is longer than %u MiB", TD_JSON_MAX >> 20);
	}
	return 0;
}

// Collects the NodeSets of the file that name this cluster: its partitions may refer to them.
static void node_sets(const struct td_json_list *docs, const yyjson_val *sc, struct td_strv *ret)
{
	for (size_t i = 0; i < docs->n; i++) {
		yyjson_val *o = td_json_root(docs->v[i]);
		if (td_streq(td_jstr(o, "kind"), "NodeSet") &&
		    td_streq(td_jstr(o, "spec.clusterName"), td_jstr(sc, "metadata.name")) &&
		    td_jstr(o, "metadata.name"))
			td_strv_add(ret, td_jstr(o, "metadata.name"));
	}
}

struct tally {
	size_t checked, passed;
	struct td_strv other; // the kinds that were passed over
};

// Returns how many problems it printed.
static size_t one(const struct td_json_list *docs, const yyjson_val *o, const char *path, struct tally *seen)
{
	const char *kind = td_jstr_or(o, "kind", ""), *name = td_jstr_or(o, "metadata.name", ""),
		   *group = td_jstr_or(o, "apiVersion", "");
	const struct td_kind *k = td_kind_builtin("tandem.dev", kind);
	td_auto_free char *api = k ? td_asprintf("%s/%s", k->group, k->version) : NULL;

	if (td_streq(kind, "List")) {
		size_t bad = 0, i, n;
		yyjson_val *x;
		yyjson_arr_foreach (td_jget(o, "items"), i, n, x)
			bad += one(docs, x, path, seen);
		return bad;
	}
	if (!td_starts(group, "tandem.dev/") && *kind && *group) {
		td_auto_free char *other = td_asprintf("%s %s", group, kind);
		if (!td_strv_has(&seen->other, other))
			td_strv_add(&seen->other, other);
		seen->passed++;
		return 0;
	}

	seen->checked++;
	if (!k) {
		if (!*kind || !*group)
			printf("%s: an object%s%s without %s\n", path, *name ? " " : "", name,
			       *kind ? "apiVersion" : "kind");
		else
			printf("%s: %s %s: kind: tandem.dev has no such kind: write SlurmCluster, NodeSet or Tenant\n",
			       path, kind, name);
		return 1;
	}

	td_auto_causes struct td_causes causes = {0};
	td_auto_strv struct td_strv unknown = {0}, problems = {0}, sets = {0};
	if (!td_streq(td_jstr(o, "apiVersion"), api))
		td_cause_add(&causes, "FieldValueNotSupported", "apiVersion", "write %s", api);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(o);
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_schema_prune(k->schema, root, &unknown);
	td_schema_default(k->schema, d, root);

	td_auto(td_json_unref) struct td_json *full = td_json_from_mut(root);
	td_meta_check(k, td_json_root(full), &causes);
	td_schema_validate(k->schema, td_json_root(full), &causes);

	// The grammar can check more than the schema. It needs an object of the right shape.
	if (causes.n == 0 && td_streq(kind, "SlurmCluster")) {
		node_sets(docs, o, &sets);
		const struct td_slurm_facts facts = {.node_sets = (const char *const *)sets.v, .n_node_sets = sets.n};
		td_auto_slurm_files struct td_slurm_files files = {0};
		td_slurm_files_make(td_json_root(full), &facts, &files, &problems);
	}

	for (size_t i = 0; i < causes.n; i++)
		printf("%s: %s %s: %s: %s\n", path, kind, name, causes.v[i].field, causes.v[i].message);
	for (size_t i = 0; i < unknown.n; i++)
		printf("%s: %s %s: %s: there is no such field\n", path, kind, name, unknown.v[i]);
	for (size_t i = 0; i < problems.n; i++)
		printf("%s: %s %s: %s\n", path, kind, name, problems.v[i]);

	size_t bad = causes.n + unknown.n + problems.n;
	if (!bad)
		printf("%s: %s %s: valid\n", path, kind, name);
	return bad;
}

int td_validate_main(int argc, char **argv)
{
	td_auto_strv struct td_strv paths = {0};
	struct tally seen = {0};
	const struct td_option options[] = {
		{.name = "filename",
		 .letter = 'f',
		 .value = "FILE",
		 .help = "a file, or \"-\" for standard input; may be given several times",
		 TD_OPT_LIST(&paths)},
	};
	const struct td_command line = {
		.name = "validate",
		.about = "Checks the SlurmCluster and NodeSet objects of YAML or JSON files and says what to write\n"
			 "instead: their fields, and what Slurm's files would be made of. Other kinds are passed\n"
			 "over. What only a cluster knows, such as nodes and images, is not checked.",
		.options = options,
		.n = TD_LEN(options),
		.max_args = 1000,
		.args = "FILE…",
		.exits = "0 all valid, 1 something is not, 2 wrong usage."};
	int code;
	char **words;
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	for (; *words; words++)
		td_strv_add(&paths, *words);
	if (!paths.n)
		return td_command_wrong("validate", "FILE is missing: give one, or \"-\" for standard input");

	size_t bad = 0;
	for (size_t i = 0; i < paths.n; i++) {
		td_auto_buf struct td_buf text = {0};
		td_auto_json_list struct td_json_list docs = {0};
		struct td_error err = TD_ERROR_INIT;
		if (read_input(paths.v[i], &text, &err) || td_yaml_parse(td_buf_str(&text), text.len, &docs, &err)) {
			fprintf(stderr, "tandem validate: %s: %s\n", paths.v[i], err.msg);
			bad++;
			continue;
		}
		for (size_t k = 0; k < docs.n; k++)
			bad += one(&docs, td_json_root(docs.v[k]), paths.v[i], &seen);
	}

	printf("%zu object%s checked, %zu problem%s", seen.checked, seen.checked == 1 ? "" : "s", bad,
	       bad == 1 ? "" : "s");
	if (seen.passed)
		printf("; %zu of other kinds passed over:", seen.passed);
	for (size_t i = 0; i < seen.other.n; i++)
		printf("%s %s", i ? "," : "", seen.other.v[i]);
	putchar('\n');
	td_strv_done(&seen.other);
	return bad ? 1 : 0;
}
