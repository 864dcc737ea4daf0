// Where the lines of Slurm's files come from, by the same tables as their writer's (conf.c).
#include "slurm/accounting.h"
#include "slurm/preempt.h"
#include "slurm/scripts.h"

#include <string.h>
#include <strings.h>

static bool has_key(const yyjson_val *map, const char *key)
{
	yyjson_obj_iter it = yyjson_obj_iter_with((yyjson_val *)map);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (!strcasecmp(yyjson_get_str(k), key))
			return true;
	return false;
}

// The element of a list of the spec with that name. The caller frees it.
static char *named(const yyjson_val *cluster, const char *list, const char *name)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(cluster, list), i, n, x)
		if (td_streq(td_jstr(x, "name"), name))
			return td_asprintf("%s[%zu]", list, i);
	return td_strdup("default");
}

static char *of_slurm_conf(const yyjson_val *cluster, const char *line)
{
	td_auto_free char *key = td_strndup(line, strcspn(line, "=")), *value = NULL;
	const char *why = "", *own = NULL;
	enum td_slurm_key kind = td_slurm_key(key, &own, &why);
	bool theirs = has_key(td_jget(cluster, "spec.config.slurmConf"), key);
	value = td_strndup(line + strlen(key) + (line[strlen(key)] == '='), strcspn(line + strlen(key), " "));
	value[strcspn(value, " ")] = '\0';

	if (!strcasecmp(key, "ClusterName"))
		return td_strdup("metadata.name");
	if (!strcasecmp(key, "PartitionName"))
		return named(cluster, "spec.partitions", value);
	if (!strcasecmp(key, "NodeSet"))
		return td_strdup("spec.partitions[].nodeSets");
	if ((!strcasecmp(key, "TopologyPlugin") && !theirs) || !strcasecmp(key, "NodeName"))
		return td_strdup("spec.topology");
	if (!strcasecmp(key, "DefMemPerCPU") && !theirs)
		return td_strdup("the smallest node");
	for (size_t i = 0; i < td_slurm_n_roles; i++) {
		const struct td_slurm_role *r = &td_slurm_roles[i];
		bool chained = (td_streq(r->name, "taskProlog") && !strcasecmp(key, "TaskProlog")) ||
			       (td_streq(r->name, "prolog") && !strcasecmp(key, "Prolog"));
		if (!((r->key && !strcasecmp(r->key, key)) || chained) ||
		    !td_jkey(td_jget(cluster, "spec.scripts"), r->name))
			continue;
		return chained ? td_asprintf("Tandem, then spec.scripts.%s", r->name)
			       : td_asprintf("spec.scripts.%s", r->name);
	}
	if (td_slurm_scripts_plugin(cluster, key))
		return theirs ? td_asprintf("spec.scripts, spec.config.slurmConf.%s", key) : td_strdup("spec.scripts");
	if (td_slurm_accounting_key(cluster, key))
		return td_strdup("spec.accounting");
	if (td_slurm_preempt_key(cluster, key))
		return td_strdup("spec.preemption");
	if (theirs)
		return td_asprintf("spec.config.slurmConf.%s%s", key, kind == TD_KEY_MERGED ? ", with Tandem's" : "");
	return kind == TD_KEY_OURS ? td_asprintf("Tandem (%s)", why)
				   : td_strdup(kind == TD_KEY_MERGED ? "Tandem" : "default");
}

char *td_slurm_origin(const yyjson_val *cluster, const char *file, const char *line)
{
	if (td_streq(file, "slurm.conf"))
		return *line == '#' ? td_strdup("Tandem") : of_slurm_conf(cluster, line);
	if (td_streq(file, "gres.conf"))
		return td_strdup("devices of the nodes (spec.devices)");
	if (td_streq(file, "ssh_keys"))
		return td_strdup("spec.users[].sshKeys");
	if (td_streq(file, "passwd") || td_streq(file, "group")) {
		td_auto_free char *name = td_strndup(line, strcspn(line, ":")),
				  *at = named(cluster, "spec.users", name);
		return td_strdup(td_streq(at, "default") ? "Tandem" : at);
	}
	if (td_starts(file, "service-")) {
		td_auto_free char *at = named(cluster, "spec.services", file + strlen("service-"));
		return td_strdup(at);
	}
	if (td_streq(file, "services"))
		return td_strdup("spec.services");
	for (size_t i = 0; i < td_slurm_n_roles; i++)
		if (td_streq(file, td_slurm_roles[i].file))
			return td_asprintf("spec.scripts.%s", td_slurm_roles[i].name);

	const char *own = td_jkey_str(td_jget(cluster, "spec.config.files"), file);
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, own ? own : "", '\n');
	return td_strv_has(&lines, line) ? td_asprintf("spec.config.files.%s", file) : td_strdup("Tandem");
}
