// No string of a SlurmCluster adds a line, a key or an account. An accepted configuration is read
// back here with Slurm's own line rules (slurm.conf(5): blanks separate pairs) and must hold each
// of Tandem's keys once, with Tandem's value.
// rows: A2.2
#include "slurm/conf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MUST(x)                                                                                                        \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			fprintf(stderr, "broken: %s\n", #x);                                                           \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

static void check_slurm_conf(const char *text)
{
	static const char *const once[][2] = {{"SlurmUser", "slurm"},
					      {"Prolog", "gate.sh"},
					      {"PrologFlags", "Alloc"},
					      {"AuthType", "auth/slurm"},
					      {"SlurmctldHost", NULL},
					      {"StateSaveLocation", NULL},
					      {"ProctrackType", "proctrack/cgroup"}};
	int seen[TD_LEN(once)] = {0};
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text, '\n');
	for (size_t i = 0; i < lines.n; i++) {
		const char *l = lines.v[i];
		if (i == 0) {
			MUST(l[0] == '#');
			continue;
		}
		MUST(!strpbrk(l, "#\"\\\r\t\v\f"));
		MUST(strncasecmp(l, "include", 7) || (l[7] != ' ' && l[7] != '='));
		bool block = td_starts(l, "PartitionName=") || td_starts(l, "NodeSet=");
		td_auto_strv struct td_strv pairs = {0};
		td_strv_split(&pairs, l, ' ');
		MUST(block || pairs.n == 1);
		for (size_t k = 0; k < pairs.n; k++) {
			char *eq = strchr(pairs.v[k], '=');
			MUST(eq && eq != pairs.v[k] && eq[1]);
			*eq = '\0';
			for (size_t m = 0; m < TD_LEN(once); m++) {
				if (strcasecmp(once[m][0], pairs.v[k]))
					continue;
				seen[m]++;
				MUST(!once[m][1] || !strcmp(once[m][1], eq + 1));
			}
		}
	}
	for (size_t m = 0; m < TD_LEN(once); m++)
		MUST(seen[m] == 1);
}

static void check_passwd(const char *text)
{
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text, '\n');
	int roots = 0;
	for (size_t i = 0; i < lines.n; i++) {
		int colons = 0;
		for (const char *p = lines.v[i]; *p; p++)
			colons += *p == ':';
		MUST(colons == 6);
		const char *uid = strchr(strchr(lines.v[i], ':') + 1, ':') + 1;
		roots += td_starts(uid, "0:");
	}
	MUST(roots == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_json_list struct td_json_list l = {0};
	if (size > 1 << 16 || td_yaml_parse((const char *)data, size, &l, NULL))
		return 0;

	static const char *const sets[] = {"pool", "gpu"};
	const struct td_slurm_facts facts = {.mem_per_cpu_mb = 1000, .node_sets = sets, .n_node_sets = TD_LEN(sets)};
	for (size_t i = 0; i < l.n; i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		td_jm_str(d, root, "metadata.name", "main");
		td_jm_str(d, root, "metadata.namespace", "slurm");
		td_jm_copyval(d, root, "spec", td_json_root(l.v[i]));
		td_auto(td_json_unref) struct td_json *o = td_json_from_mut(root);

		td_auto_slurm_files struct td_slurm_files f = {0};
		td_auto_strv struct td_strv problems = {0};
		if (!td_slurm_files_make(td_json_root(o), &facts, &f, &problems)) {
			MUST(problems.n > 0 && f.n == 0);
			for (size_t k = 0; k < problems.n; k++)
				MUST(!strpbrk(problems.v[k], "\n\r\t"));
			continue;
		}

		check_slurm_conf(f.v[TD_SLURM_CONF].text);
		check_passwd(f.v[TD_PASSWD].text);
	}
	return 0;
}
