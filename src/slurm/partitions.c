// Writes partitions and resource groups: lines of slurm.conf, and tables of job_submit.lua.
#include "slurm/partitions.h"

#include "slurm/ondemand.h"
#include "slurm/topology.h"

#include <string.h>
#include <strings.h>

#define GROUPS "spec.resourceGroups"

static bool in(const char *s, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (td_streq(v[i], s))
			return true;
	return false;
}

// The first group that holds the NodeSet; NULL: none does.
static const char *group_of(const yyjson_val *cluster, const char *set)
{
	yyjson_val *g;
	size_t i, n;
	yyjson_arr_foreach (td_jget(cluster, GROUPS), i, n, g)
		if (td_jhas(td_jget(g, "nodeSets"), set))
			return td_jstr(g, "name");
	return NULL;
}

// One entry of spec.partitions or spec.resourceGroups.
struct part_entry {
	const yyjson_val *cluster;
	const struct td_slurm_facts *f;
	yyjson_val *p;
	const char *list; // where it is
	size_t at;
	bool group;
	struct td_buf *b;
	struct td_strv *problems;
};

// ok: the value has passed its grammar; else it is a problem, and `fix` says what to write.
struct partition_option {
	const char *field, *key; // in the spec, in slurm.conf
	const char *value;       // NULL: not given
	bool ok;
	const char *fix;
};

static void option(const struct part_entry *e, const struct partition_option *o)
{
	if (!o->value)
		return;
	if (o->ok)
		td_buf_printf(e->b, " %s=%s", o->key, o->value);
	else
		td_strv_addf(e->problems, "%s[%zu].%s: \"%.60s\" is not valid: %s", e->list, e->at, o->field, o->value,
			     o->fix);
}

// True when there are nodes that only those partitions and groups have which name them, or nodes that no partition
// may have.
static bool apart(const yyjson_val *cluster, const struct td_slurm_facts *f)
{
	return yyjson_arr_size(td_jget(cluster, GROUPS)) || f->n_on_demand || f->n_others ||
	       td_slurm_topology_blocks(cluster);
}

// False: the object's own list of plug-ins leaves Tandem's job_submit.lua out.
static bool runs_lua(const yyjson_val *cluster)
{
	const char *said = td_slurm_conf_get(td_jget(cluster, "spec.config.slurmConf"), "JobSubmitPlugins");
	return !said || strstr(said, "lua");
}

// How many of its NodeSets are of other clusters.
static size_t n_others(yyjson_val *p, const struct td_slurm_facts *f)
{
	yyjson_val *x;
	size_t i, n, found = 0;
	yyjson_arr_foreach (td_jget(p, "nodeSets"), i, n, x)
		found += in(yyjson_get_str(x), f->others, f->n_others);
	return found;
}

// A native job would get a node on which nothing can run, so such a partition is for pods alone.
static void check_others(const struct part_entry *e)
{
	size_t n = n_others(e->p, e->f);
	if (n && n < yyjson_arr_size(td_jget(e->p, "nodeSets")))
		td_strv_addf(e->problems,
			     "%s[%zu].nodeSets: nodes of another cluster (spec.otherCluster of a NodeSet) and nodes of "
			     "this one are not together in a partition: make another one for them",
			     e->list, e->at);
	if (n && !runs_lua(e->cluster))
		td_strv_addf(
			e->problems,
			"%s[%zu].nodeSets: native jobs are kept off another cluster's nodes by job_submit/lua; add "
			"lua to spec.config.slurmConf.JobSubmitPlugins, or remove it there",
			e->list, e->at);
	if (n && td_jbool(e->p, "default", false))
		td_strv_addf(e->problems,
			     "%s[%zu].default: only pods can run on nodes of another cluster, so this cannot be where "
			     "everything goes: make another partition the default",
			     e->list, e->at);
}

// Which nodes: those of its NodeSets, else every one that is no group's and always there.
static void nodes(const struct part_entry *e)
{
	yyjson_val *sets = td_jget(e->p, "nodeSets"), *x;
	size_t i, n, written = 0;
	yyjson_arr_foreach (sets, i, n, x) {
		const char *s = yyjson_get_str(x), *group = s && !e->group ? group_of(e->cluster, s) : NULL;
		if (!td_slurm_is_name(s))
			td_strv_addf(e->problems, "%s[%zu].nodeSets[%zu]: must be the name of a NodeSet", e->list,
				     e->at, i);
		else if (!in(s, e->f->node_sets, e->f->n_node_sets))
			td_strv_addf(e->problems,
				     "%s[%zu].nodeSets[%zu]: there is no NodeSet \"%s\" of this cluster in its "
				     "namespace",
				     e->list, e->at, i, s);
		else if (group)
			td_strv_addf(e->problems,
				     "%s[%zu].nodeSets[%zu]: NodeSet \"%s\" is resource group \"%.63s\"'s alone; take "
				     "it out of one of them",
				     e->list, e->at, i, s, group);
		else
			td_buf_printf(e->b, "%sset_%s", written++ ? "," : " Nodes=", s);
	}
	if (yyjson_arr_size(sets))
		return;
	if (!apart(e->cluster, e->f)) {
		td_buf_puts(e->b, " Nodes=ALL");
		return;
	}
	for (i = 0; i < e->f->n_node_sets; i++)
		if (!group_of(e->cluster, e->f->node_sets[i]) && !td_slurm_on_demand(e->f, e->f->node_sets[i]) &&
		    !in(e->f->node_sets[i], e->f->others, e->f->n_others))
			td_buf_printf(e->b, "%sset_%s", written++ ? "," : " Nodes=", e->f->node_sets[i]);
}

static void names(const struct part_entry *e, const char *field, const char *key, const char *what)
{
	yyjson_val *k;
	size_t i, n;
	yyjson_arr_foreach (td_jget(e->p, field), i, n, k) {
		const char *s = yyjson_get_str(k);
		if (!td_slurm_is_name(s))
			td_strv_addf(e->problems, "%s[%zu].%s[%zu]: must be the name of %s", e->list, e->at, field, i,
				     what);
		else if (i)
			td_buf_printf(e->b, ",%s", s);
		else
			td_buf_printf(e->b, " %s=%s", key, s);
	}
}

// Which accounts Slurm lets use a group's partition. A user who has it alone may have any account.
static void granted(const struct part_entry *e, const char *name)
{
	bool any = false;
	if (yyjson_arr_size(td_jget(e->p, "users")))
		return;
	for (size_t i = 0; i < e->f->n_grants; i++)
		if (!strcmp(e->f->grants[i].group, name)) {
			td_buf_printf(e->b, "%s%s", any ? "," : " AllowAccounts=", e->f->grants[i].account);
			any = true;
		}
	if (!any) // it is nobody's: an empty list would be everybody
		td_buf_puts(e->b, " AllowGroups=root");
}

static void partition(const struct part_entry *e)
{
	yyjson_val *p = e->p;
	const char *name = td_jstr(p, "name");
	if (!td_slurm_is_name(name) || !strcasecmp(name, "DEFAULT")) {
		td_strv_addf(e->problems,
			     "%s[%zu].name: must be letters, digits, '_', '.', '-' (not first), and not DEFAULT",
			     e->list, e->at);
		return;
	}

	td_buf_printf(e->b, "PartitionName=%s", name);
	nodes(e);
	check_others(e);
	td_buf_printf(e->b, " Default=%s", td_jbool(p, "default", false) ? "YES" : "NO");
	const char *max = td_jstr_or(p, "maxTime", "INFINITE"), *usual = td_jstr(p, "defaultTime"),
		   *state = td_jstr_or(p, "state", "UP"), *preempt = td_jstr(p, "preemptMode"),
		   *qos = td_jstr(p, "qos");
	const struct partition_option options[] = {
		{"maxTime", "MaxTime", max, td_slurm_is_time(max), "write minutes, H:MM:SS, D-HH:MM:SS or INFINITE"},
		{"defaultTime", "DefaultTime", usual, td_slurm_is_time(usual),
		 "write minutes, H:MM:SS, D-HH:MM:SS or INFINITE"},
		{"state", "State", state, td_slurm_one_of(state, "UP|DOWN|DRAIN|INACTIVE"),
		 "write UP, DOWN, DRAIN or INACTIVE"},
		{"preemptMode", "PreemptMode", preempt, td_slurm_one_of(preempt, "OFF|CANCEL|REQUEUE"),
		 "write OFF, CANCEL or REQUEUE"},
		{"qos", "QOS", qos, td_slurm_is_name(qos), "write the name of a QOS"},
	};
	for (size_t i = 0; i < TD_LEN(options); i++)
		option(e, &options[i]);

	const char *const numbers[][2] = {{"priorityTier", "PriorityTier"},
					  {"priorityJobFactor", "PriorityJobFactor"},
					  {"graceTime", "GraceTime"}};
	for (size_t i = 0; i < TD_LEN(numbers); i++) {
		long long k = td_jint(p, numbers[i][0], -1);
		if (k >= 0)
			td_buf_printf(e->b, " %s=%lld", numbers[i][1], k);
	}
	// Slurm's own way is to fill a node before it takes the next one.
	if (td_streq(td_jstr(p, "placement"), "spread"))
		td_buf_puts(e->b, " LLN=YES");

	names(e, "allowAccounts", "AllowAccounts", "an account");
	names(e, "allowGroups", "AllowGroups", "a group");
	if (e->group) {
		// Of a job that may use both, its group comes before what is everybody's.
		td_buf_puts(e->b, " PriorityTier=2");
		granted(e, name);
	}
	td_buf_putc(e->b, '\n');
}

// Each NodeSet that a list names is a NodeSet of slurm.conf, once.
static void node_sets(yyjson_val *list, struct td_strv *used, struct td_buf *b)
{
	yyjson_val *p, *s;
	size_t i, n, j, m;
	yyjson_arr_foreach (list, i, n, p)
		yyjson_arr_foreach (td_jget(p, "nodeSets"), j, m, s) {
			const char *set = yyjson_get_str(s);
			if (!td_slurm_is_name(set) || td_strv_has(used, set))
				continue;
			td_strv_add(used, set);
			td_auto_free char *feature = td_slurm_set_feature(set);
			td_buf_printf(b, "NodeSet=set_%s Feature=%s\n", set, feature);
		}
}

void td_slurm_partitions_lines(const yyjson_val *cluster, const struct td_slurm_facts *f, struct td_buf *b,
			       struct td_strv *problems)
{
	yyjson_val *list = td_jget(cluster, "spec.partitions"), *groups = td_jget(cluster, GROUPS), *p;
	size_t i, n, defaults_seen = 0;
	td_auto_strv struct td_strv used = {0}, seen = {0};
	node_sets(list, &used, b);
	node_sets(groups, &used, b);
	// Without a name for them, the nodes that are no group's could not be told from the others.
	for (i = 0; apart(cluster, f) && i < f->n_node_sets; i++)
		if (!td_strv_has(&used, f->node_sets[i])) {
			td_auto_free char *feature = td_slurm_set_feature(f->node_sets[i]);
			td_buf_printf(b, "NodeSet=set_%s Feature=%s\n", f->node_sets[i], feature);
		}

	struct part_entry e = {.cluster = cluster, .f = f, .list = "spec.partitions", .b = b, .problems = problems};
	yyjson_arr_foreach (list, i, n, p) {
		const char *name = td_jstr(p, "name");
		if (name && td_strv_has(&seen, name))
			td_strv_addf(problems, "spec.partitions[%zu].name: \"%.63s\" is there twice; names must differ",
				     i, name);
		td_strv_add(&seen, name ? name : "");
		if (td_jbool(p, "default", false) && ++defaults_seen == 2)
			td_strv_addf(problems,
				     "spec.partitions[%zu].default: another partition is the default already; keep one",
				     i);
		e.at = i;
		e.p = p;
		partition(&e);
	}
	e.list = GROUPS;
	e.group = true;
	yyjson_arr_foreach (groups, i, n, p) {
		const char *name = td_jstr_or(p, "name", "");
		if (td_strv_has(&seen, name) || (!yyjson_arr_size(list) && !strcmp(name, "all")))
			td_strv_addf(problems,
				     GROUPS "[%zu].name: \"%.63s\" is there twice, as a partition too; "
					    "names must differ",
				     i, name);
		td_strv_add(&seen, name);
		e.at = i;
		e.p = p;
		partition(&e);
	}

	if (yyjson_arr_size(list) == 0) {
		td_auto(td_json_unref) struct td_json *all = NULL;
		static const char text[] = "{\"name\":\"all\",\"default\":true}";
		td_json_parse(text, sizeof(text) - 1, &all, NULL);
		e.p = (yyjson_val *)td_json_root(all);
		e.group = false;
		partition(&e);
	}
}

void td_slurm_partitions_check(const yyjson_val *cluster, struct td_strv *problems)
{
	yyjson_val *g;
	size_t i, n;
	const bool lua = runs_lua(cluster);
	yyjson_arr_foreach (td_jget(cluster, GROUPS), i, n, g) {
		if (!td_streq(td_jstr(cluster, "spec.accounting.enforce"), "limits"))
			td_strv_addf(problems,
				     GROUPS "[%zu]: whose a job is counts only where accounts are enforced; set "
					    "spec.accounting.enforce to limits",
				     i);
		if (yyjson_arr_size(td_jget(g, "users")) && !lua)
			td_strv_addf(problems,
				     GROUPS "[%zu].users: who they are is looked at by job_submit/lua; add lua to "
					    "spec.config.slurmConf.JobSubmitPlugins, or remove it there",
				     i);
	}
}

const char *td_slurm_default_partition(const yyjson_val *cluster)
{
	yyjson_val *list = td_jget(cluster, "spec.partitions"), *p;
	size_t i, n;
	yyjson_arr_foreach (list, i, n, p)
		if (td_jbool(p, "default", false))
			return td_jstr(p, "name");
	return yyjson_arr_size(list) ? NULL : "all";
}

// The partitions of nodes of other clusters.
static void others_lua(const yyjson_val *cluster, const struct td_slurm_facts *f, struct td_buf *b)
{
	static const char *const lists[] = {"spec.partitions", GROUPS};
	yyjson_val *p;
	size_t i, n;
	if (!f->n_others)
		return;
	td_buf_puts(b, "-- Written by Tandem: partitions whose nodes are another cluster's.\ntandem_pods_only = {");
	for (size_t l = 0; l < TD_LEN(lists); l++)
		yyjson_arr_foreach (td_jget(cluster, lists[l]), i, n, p)
			if (n_others(p, f) && td_slurm_is_name(td_jstr(p, "name")))
				td_buf_printf(b, " [\"%s\"] = true,", td_jstr(p, "name"));
	td_buf_puts(b, " }\n");
}

void td_slurm_partitions_lua(const yyjson_val *cluster, const struct td_slurm_facts *f, struct td_buf *b)
{
	others_lua(cluster, f, b);
	yyjson_val *groups = td_jget(cluster, GROUPS), *g, *u;
	const char *usual = td_slurm_default_partition(cluster);
	size_t i, n, k, m;
	if (!yyjson_arr_size(groups))
		return;
	td_buf_puts(b, "-- Written by Tandem: who may use which of spec.resourceGroups.\ntandem_groups = {\n");
	yyjson_arr_foreach (groups, i, n, g) {
		const char *name = td_jstr(g, "name");
		if (!td_slurm_is_name(name))
			continue;
		td_buf_printf(b, "\t{ name = \"%s\", users = {", name);
		yyjson_arr_foreach (td_jget(g, "users"), k, m, u)
			if (td_slurm_is_user(yyjson_get_str(u)))
				td_buf_printf(b, " [\"%s\"] = true,", yyjson_get_str(u));
		td_buf_puts(b, " }, accounts = {");
		for (k = 0; k < f->n_grants; k++)
			if (!strcmp(f->grants[k].group, name))
				td_buf_printf(b, " [\"%s\"] = true,", f->grants[k].account);
		td_buf_puts(b, " } },\n");
	}
	td_buf_puts(b, "}\n");
	if (usual && td_slurm_is_name(usual))
		td_buf_printf(b, "tandem_usual = \"%s\"\n", usual);
}
