// Writes slurm.conf and the other files of a SlurmCluster.
#include "slurm/conf.h"

#include "base/embedded.h"
#include "base/names.h"
#include "slurm/accounting.h"
#include "slurm/containers.h"
#include "slurm/fabric.h"
#include "slurm/filter.h"
#include "slurm/gres.h"
#include "slurm/groups.h"
#include "slurm/jobnetwork.h"
#include "slurm/ondemand.h"
#include "slurm/partitions.h"
#include "slurm/preempt.h"
#include "slurm/scratch.h"
#include "slurm/scripts.h"
#include "slurm/topology.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

extern const struct td_embedded td_slurm_programs[]; // programs/

// ---- grammar ----
static bool all_of(const char *s, size_t max, const char *extra)
{
	size_t n = 0;
	for (; s[n]; n++)
		if (n >= max || !((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') ||
				  (s[n] >= '0' && s[n] <= '9') || strchr(extra, s[n])))
			return false;
	return n > 0;
}

bool td_slurm_is_name(const char *s)
{
	return s && all_of(s, 63, "_.-") && !strchr("_.-", s[0]);
}

bool td_slurm_is_type(const char *s)
{
	if (!td_slurm_is_name(s) || strlen(s) > 40)
		return false;
	size_t n = strspn(s, "0123456789");
	return n ? n < 3 && (s[n] == 'g' || s[n] == 'c') && s[n + 1] == '.' : true;
}

bool td_slurm_is_key(const char *s)
{
	return s && all_of(s, 64, "_") && s[0] != '_' && (s[0] < '0' || s[0] > '9');
}

bool td_slurm_is_value(const char *s)
{
	size_t n = 0;
	for (; s && s[n]; n++)
		if (n >= 4096 || s[n] <= ' ' || s[n] > '~' || strchr("\"#\\", s[n]))
			return false;
	return n > 0;
}

bool td_slurm_is_path(const char *s)
{
	return s && s[0] == '/' && all_of(s, 255, "_./-") && !strstr(s, "..");
}

static const char *digits(const char *s)
{
	const char *p = s;
	while (*p >= '0' && *p <= '9' && p - s < 9)
		p++;
	return p;
}

bool td_slurm_is_time(const char *s)
{
	if (!s)
		return false;

	if (!strcasecmp(s, "INFINITE") || !strcasecmp(s, "UNLIMITED"))
		return true;

	const char *p = digits(s);
	if (p == s)
		return false;

	const char *rest = p;
	if (*p == '-') {
		rest = digits(p + 1);
		if (rest == p + 1)
			return false;
	}

	for (int i = 0; i < 2 && *rest == ':'; i++) {
		const char *q = digits(rest + 1);
		if (q == rest + 1)
			return false;
		rest = q;
	}
	return *rest == '\0';
}

bool td_slurm_is_user(const char *s)
{
	if (!s || !all_of(s, 32, "_-") || s[0] == '-' || (s[0] >= '0' && s[0] <= '9'))
		return false;
	for (; *s; s++)
		if (*s >= 'A' && *s <= 'Z')
			return false;
	return true;
}

// ---- slurm.conf ----
#define NODE_COUNT "MaxNodeCount"
enum { NODES = 1024, MOST_NODES = 65536 }; // its default, and what it has at least; Slurm refuses more

size_t td_slurm_conf_room(const char *text)
{
	static const char key[] = "\n" NODE_COUNT "=";
	const char *line = text ? strstr(text, key) : NULL;
	td_auto_free char *word =
		line ? td_strndup(line + sizeof(key) - 1, strcspn(line + sizeof(key) - 1, "\n")) : NULL;
	long long n;
	return word && td_parse_i64(word, &n) && n > 0 && n <= MOST_NODES ? (size_t)n : 0;
}

// Doubled, so that it changes seldom: with it all of slurm.conf is read again. Never less than it was: which records
// slurmctld has is not known here, and of those that find no place in a smaller table it forgets the nodes and their
// jobs (S-N30).
static size_t room_for(const struct td_slurm_facts *f, size_t never)
{
	size_t room = NODES;
	while (room < f->n_nodes + f->n_nodes / 4 && room < MOST_NODES)
		room *= 2;
	room += never;
	room = room > f->room ? room : f->room;
	return room < MOST_NODES ? room : MOST_NODES;
}
#define GRES "GresTypes"
#define TRES "AccountingStorageTRES" // slurmctld wants slurmdbd for any of its own
#define BY_AUTH "set spec.auth.type"
#define TD_SLURM_TAKEOVER_S "15"   // SlurmctldTimeout with a backup: nobody answers for that long
#define PROLOG_FLAGS "PrologFlags" // where the kubelet is Tandem's own it stays empty
// Keys that Tandem writes. fix says why an object may not set them; NULL: the object's value is
// merged with Tandem's (comma lists).
static const struct {
	const char *key, *value, *fix;
} base[] = {
	{"ClusterName", "", "it is metadata.name"},
	{"SlurmctldHost", "", "Tandem names the controller's pod"},
	{"SlurmctldPort", "6817", "Services and pods are made for it"},
	{"SlurmdPort", "6818", "pods are made for it"},
	{"SlurmUser", "slurm", "keys and state belong to it"},
	{"SlurmdUser", "root", "slurmd must start jobs as other users"},
	{"AuthType", "auth/slurm", BY_AUTH},
	{"AuthInfo", "use_client_ids", BY_AUTH}, // nodes need no users of their own
	{"CredType", "cred/slurm", BY_AUTH},
	{"AuthAltTypes", "auth/jwt", "Tandem itself reaches Slurm with tokens"},
	{"AuthAltParameters", "jwt_key=" TD_SLURM_JWT "/jwt_hs256.key", "Tandem makes the key"},
	{"StateSaveLocation", TD_SLURM_STATE, "set spec.controller.storage"},
	{"SlurmdSpoolDir", TD_SLURM_SPOOL, "it is a volume of the slurmd pods"},
	{"SlurmctldPidFile", TD_SLURM_STATE "/slurmctld.pid", "it says beside the state whether that is whole"},
	{"SlurmdPidFile", "/run/slurmd.pid", "pods are made for it"},
	{"Prolog", "gate.sh", "the gate keeps two holders off one device; a site's own is spec.scripts.prolog"},
	{"TaskProlog", "/opt/tandem/task-prolog",
	 "the gate looks once more before a task starts; a site's own is spec.scripts.taskProlog, users have srun "
	 "--task-prolog"},
	{PROLOG_FLAGS, "Alloc", "it belongs to the gate"},
	{"PrologEpilogTimeout", "60", "the gate has its own deadline below it"},
	{"BatchStartTimeout", "75", "it must exceed the gate's deadline"},
	{"ProctrackType", "proctrack/cgroup", "jobs are confined to their devices"},
	{"TaskPlugin", "task/cgroup", "jobs are confined to their devices"},
	{"SelectType", "select/cons_tres", "GPUs are granted one by one"},
	{"SelectTypeParameters", "CR_Core_Memory", "pods ask for cores and memory"},
	{GRES, "gpu", NULL},
	{TRES, "gres/gpu", NULL},
	{"SlurmctldParameters", "enable_configless", NULL},
	{"SlurmdParameters", "config_overrides", NULL},
	{"SchedulerParameters",
	 "batch_sched_delay=0,sched_min_interval=0,bf_interval=1,default_queue_depth=1000,nohold_on_prolog_fail", NULL},
	{"PreemptParameters", "send_user_signal", NULL},
	{"InactiveLimit", "0", "a pod's allocation has no process that could be active"},
	{"ReturnToService", "2", "a re-created slurmd pod must come back by itself"},
	// slurmctld's own file differs from the nodes' by FirstJobId (slurmctld.sh): that is no
	// reason to complain about each node.
	{"DebugFlags", "NO_CONF_HASH", NULL},
	{"TreeWidth", "65533", "pods' addresses are not in DNS under their node names"},
	{"NodeName", "", "nodes register by themselves: use a NodeSet"},
	{"NodeSet", "", "use a NodeSet object"},
	{"PartitionName", "", "use spec.partitions"},
	{"DownNodes", "", "nodes register by themselves: drain with scontrol or cordon"},
	{"FrontendName", "", "front ends are not supported"},
	{"Include", "", "write the keys themselves"},
	{"PluginDir", "", "plugins come with the image"},
	{"PlugStackConfig", "", "use spec.scripts.plugstack; plugins come with the image"},
	{"SlurmctldAddr", "", "Tandem names the controller's pod"},
	{"ControlMachine", "", "Tandem names the controller's pod"},
	{"BackupController", "", "Tandem names the controller's pod"},
	{"ControlAddr", "", "Tandem names the controller's pod"},
};
// Defaults, which an object may change.
static const struct {
	const char *key, *value, *with_dbd; // with_dbd: with accounting, NULL: the same
} defaults[] = {
	{"MpiDefault", "pmix", NULL},
	{"MailProg", "/bin/false", NULL},
	{"JobAcctGatherType", "jobacct_gather/none", "jobacct_gather/linux"},
	{"AccountingStoreFlags", NULL, "job_comment"}, // whose pod a job was
	{"GroupUpdateTime", "10", NULL},               // who joins a group may use its partitions soon
	{"SchedulerType", "sched/backfill", NULL},
	{"SlurmctldTimeout", "120", NULL},
	{"SlurmdTimeout", "30", NULL},
	{"KillWait", "10", NULL},
	{"MinJobAge", "300", NULL},
	{"MaxJobCount", "50000", NULL},
	{NODE_COUNT, "1024", NULL},
};

enum td_slurm_key td_slurm_key(const char *key, const char **ret_value, const char **ret_why)
{
	for (size_t i = 0; i < TD_LEN(base); i++)
		if (!strcasecmp(base[i].key, key)) {
			*ret_value = base[i].value;
			*ret_why = base[i].fix ? base[i].fix : "";
			return base[i].fix ? TD_KEY_OURS : TD_KEY_MERGED;
		}
	for (size_t i = 0; i < TD_LEN(defaults); i++)
		if (!strcasecmp(defaults[i].key, key)) {
			*ret_value = defaults[i].value ? defaults[i].value : "";
			return TD_KEY_DEFAULT;
		}
	return TD_KEY_FREE;
}

const char *td_slurm_conf_get(const yyjson_val *map, const char *key)
{
	yyjson_obj_iter it = yyjson_obj_iter_with((yyjson_val *)(uintptr_t)map);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (!strcasecmp(yyjson_get_str(k), key))
			return yyjson_get_str(yyjson_obj_iter_get_val(k));
	return NULL;
}

// Has the comma list an option of this name? The name of "bf_interval=1" is "bf_interval".
static bool list_has(const char *list, const char *option)
{
	size_t n = strcspn(option, "=,");
	for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, "=,") == n && !strncasecmp(p, option, n))
			return true;
	return false;
}

// Writes the object's options, then those of Tandem's that the object does not name.
static void merge_list(struct td_buf *b, const char *ours, const char *theirs)
{
	td_buf_puts(b, theirs ? theirs : "");
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, ours, ',');

	bool first = !theirs;
	for (size_t i = 0; i < l.n; i++) {
		if (theirs && list_has(theirs, l.v[i]))
			continue;
		td_buf_printf(b, "%s%s", first ? "" : ",", l.v[i]);
		first = false;
	}
}

static void check_slurm_conf(const yyjson_val *o, yyjson_val *map, struct td_strv *problems)
{
	yyjson_obj_iter it = yyjson_obj_iter_with(map);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *key = yyjson_get_str(k), *value = yyjson_get_str(yyjson_obj_iter_get_val(k));

		if (!td_slurm_is_key(key)) {
			td_strv_addf(
				problems,
				"spec.config.slurmConf: \"%.40s\" is not a slurm.conf key: letters and digits only",
				key);
			continue;
		}

		if (!td_slurm_is_value(value))
			td_strv_addf(problems,
				     "spec.config.slurmConf.%s: the value must be a string of printable characters "
				     "without blanks, '\"', '#' and '\\'; write one key per line of the map",
				     key);

		for (size_t i = 0; i < TD_LEN(base); i++)
			if (base[i].fix && !strcasecmp(base[i].key, key))
				td_strv_addf(problems, "spec.config.slurmConf.%s: Tandem sets this key (%s); remove it",
					     key, base[i].fix);
		if (td_slurm_accounting_key(o, key))
			td_strv_addf(problems,
				     "spec.config.slurmConf.%s: Tandem sets this key (set spec.accounting); remove it",
				     key);
		if (td_slurm_preempt_key(o, key))
			td_strv_addf(problems,
				     "spec.config.slurmConf.%s: Tandem sets this key (set spec.preemption); remove it",
				     key);

		yyjson_obj_iter jt = yyjson_obj_iter_with(map);
		for (yyjson_val *j; (j = yyjson_obj_iter_next(&jt)) && j != k;)
			if (!strcasecmp(yyjson_get_str(j), key))
				td_strv_addf(
					problems,
					"spec.config.slurmConf.%s: the key is there twice, as \"%s\" too; keep one",
					key, yyjson_get_str(j));
	}
}

long long td_slurm_controllers(const yyjson_val *o)
{
	return td_jint(o, "spec.controller.replicas", 1);
}

bool td_slurm_munge(const yyjson_val *o)
{
	return td_streq(td_jstr(o, "spec.auth.type"), "munge");
}

char *td_slurm_set_feature(const char *node_set)
{
	return td_asprintf("set.%s", node_set);
}

static bool in_list(const char *s, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (td_streq(v[i], s))
			return true;
	return false;
}

bool td_slurm_one_of(const char *s, const char *list)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, list, '|');
	for (size_t i = 0; s && i < l.n; i++)
		if (!strcasecmp(l.v[i], s))
			return true;
	return false;
}

// What munge has instead. Its plug-in knows no identities but those of the nodes (AuthInfo).
static void munge_line(const char *key, struct td_buf *b)
{
	if (td_streq(key, "AuthType"))
		td_buf_puts(b, "AuthType=auth/munge\n");
	else if (td_streq(key, "CredType"))
		td_buf_puts(b, "CredType=cred/munge\n");
}

static size_t fill(const yyjson_val *o, const struct td_slurm_facts *f)
{
	td_auto_strv struct td_strv labels = {0}, said = {0};
	td_slurm_topology_labels(o, &labels, &said);
	return td_slurm_block_size(o, f->places, f->n_places, f->place_levels ? f->place_levels : labels.n);
}

static void topology_lines(const yyjson_val *o, const struct td_slurm_facts *f, const yyjson_val *user,
			   struct td_buf *b)
{
	if (td_slurm_topology_blocks(o)) {
		td_buf_printf(b, "TopologyPlugin=topology/block\nNodeName=" TD_SLURM_FILL "[1-%zu] State=FUTURE\n",
			      fill(o, f));
	} else if (td_slurm_topology(o) && !td_slurm_conf_get(user, "TopologyPlugin")) {
		td_buf_puts(b, "TopologyPlugin=topology/tree\n");
	}
}

static char *slurm_conf(const yyjson_val *o, const char *ns, const char *name, const struct td_slurm_facts *f,
			struct td_strv *problems)
{
	yyjson_val *user = td_jget(o, "spec.config.slurmConf");
	check_slurm_conf(o, user, problems);
	td_slurm_accounting_check(o, problems);
	td_slurm_preempt_check(o, problems);
	td_slurm_partitions_check(o, problems);
	td_slurm_scripts_check(o, problems);
	td_slurm_fabric_check(o, problems);

	struct td_buf b = {0};
	td_buf_printf(&b,
		      "# Written by Tandem from SlurmCluster %s/%s. Edit the object, not this file.\nClusterName=%s\n",
		      ns, name, name);

	long long controllers = td_slurm_controllers(o);
	if (controllers < 2)
		td_buf_printf(&b, "SlurmctldHost=%s-slurmctld-0(%s-slurmctld-0.%s-slurmctld.%s.svc.cluster.local)\n",
			      name, name, name, ns);
	for (long long i = 0; controllers > 1 && i < controllers; i++) // the names of Services, which stay
		td_buf_printf(&b, "SlurmctldHost=%s-slurmctld-%lld(%s-slurmctld-%lld.%s.svc.cluster.local)\n", name, i,
			      name, i, ns);

	bool dbd = td_slurm_accounting(o);
	for (size_t i = 0; i < TD_LEN(base); i++) {
		const char *theirs = base[i].fix ? NULL : td_slurm_conf_get(user, base[i].key);
		bool not_now = (f->own_kubelet && td_streq(base[i].key, PROLOG_FLAGS)) ||
			       (!dbd && !theirs && td_streq(base[i].key, TRES));
		if (!*base[i].value || not_now)
			continue;
		if (td_slurm_munge(o) && td_starts(base[i].fix, BY_AUTH)) {
			munge_line(base[i].key, &b);
			continue;
		}
		td_buf_printf(&b, "%s=", base[i].key);
		td_auto_free char *tres = td_streq(base[i].key, TRES)   ? td_slurm_gres_tres(f, base[i].value)
					  : td_streq(base[i].key, GRES) ? td_asprintf("%s%s%s", base[i].value,
										      f->shares ? "," TD_GPU_SHARE : "",
										      f->nics ? "," TD_GRES_NIC : "")
									: NULL;
		merge_list(&b, tres ? tres : td_slurm_scripts_value(o, base[i].key, base[i].value), theirs);
		td_buf_putc(&b, '\n');
	}

	for (size_t i = 0; i < TD_LEN(defaults); i++) {
		const char *value = dbd && defaults[i].with_dbd ? defaults[i].with_dbd : defaults[i].value;
		if (controllers > 1 && td_streq(defaults[i].key, "SlurmctldTimeout"))
			value = TD_SLURM_TAKEOVER_S;
		// The nodes that never come take none of the places.
		size_t never = f->may_come + (td_slurm_topology_blocks(o) ? fill(o, f) : 0);
		td_auto_free char *more =
			td_streq(defaults[i].key, NODE_COUNT) ? td_asprintf("%zu", room_for(f, never)) : NULL;
		value = more ? more : value;
		bool mail = td_streq(defaults[i].key, "MailProg") && td_jget(o, "spec.scripts.mail");
		if (value && !mail && !td_slurm_conf_get(user, defaults[i].key))
			td_buf_printf(&b, "%s=%s\n", defaults[i].key, value);
	}
	td_slurm_accounting_lines(o, &b);
	td_slurm_preempt_lines(o, td_slurm_conf_get(user, "PriorityWeightQOS"), &b);
	td_slurm_scripts_lines(o, &b);
	td_slurm_on_demand_lines(user, f, &b);
	topology_lines(o, f, user, &b);
	for (size_t i = 0; i < f->n_to_come; i++)
		td_buf_printf(&b, "%s\n", f->to_come[i]);

	if (f->mem_per_cpu_mb > 0 && !td_slurm_conf_get(user, "DefMemPerCPU") &&
	    !td_slurm_conf_get(user, "DefMemPerNode"))
		td_buf_printf(&b, "DefMemPerCPU=%lld\n", f->mem_per_cpu_mb);

	yyjson_obj_iter it = yyjson_obj_iter_with(user);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		bool ours = false;
		for (size_t i = 0; i < TD_LEN(base); i++)
			ours |= !strcasecmp(base[i].key, yyjson_get_str(k));
		if (ours)
			continue;
		const char *plugin = td_slurm_scripts_plugin(o, yyjson_get_str(k)),
			   *value = yyjson_get_str(yyjson_obj_iter_get_val(k));
		td_buf_printf(&b, "%s=%s%s%s\n", yyjson_get_str(k), value,
			      plugin && !list_has(value, plugin) ? "," : "",
			      plugin && !list_has(value, plugin) ? plugin : "");
	}

	td_slurm_partitions_lines(o, f, &b, problems);
	return td_buf_take(&b);
}

// ---- the other files ----
// The object's own lines of cgroup.conf stand behind Tandem's.
static char *cgroup_conf(const char *own, struct td_strv *problems)
{
	static const struct {
		const char *key, *value, *fix; // fix NULL: the object may change it
	} keys[] = {
		{"CgroupPlugin", "autodetect", "nodes may differ"},
		{"IgnoreSystemd", "yes", "there is none in slurmd's pods"},
		{"ConstrainDevices", "yes", "jobs are confined to their devices"},
		{"ConstrainCores", "yes", NULL},
		{"ConstrainRAMSpace", "yes", NULL},
		{"CgroupMountpoint", NULL, "it is where slurmd's pods have it"},
	};
	bool theirs[TD_LEN(keys)] = {0};
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, own ? own : "", '\n');

	for (size_t i = 0; i < lines.n; i++) {
		const char *line = lines.v[i] + strspn(lines.v[i], " \t\r");
		size_t n = strcspn(line, "= \t");
		for (size_t k = 0; k < TD_LEN(keys); k++) {
			if (strlen(keys[k].key) != n || strncasecmp(line, keys[k].key, n) != 0)
				continue;
			theirs[k] = true;
			if (keys[k].fix)
				td_strv_addf(problems,
					     "spec.config.files.cgroup.conf: Tandem sets %s (%s); remove the line",
					     keys[k].key, keys[k].fix);
		}
	}

	struct td_buf b = {0};
	for (size_t k = 0; k < TD_LEN(keys); k++)
		if (keys[k].value && !theirs[k])
			td_buf_printf(&b, "%s=%s\n", keys[k].key, keys[k].value);
	td_buf_puts(&b, own ? own : "");
	if (own && *own && !td_ends(own, "\n"))
		td_buf_putc(&b, '\n');
	return td_buf_take(&b);
}

bool td_slurm_is_system_name(const char *s)
{
	static const char *const names[] = {"root", "daemon",   "bin",    "sys",     "adm",   "tty",   "disk",
					    "mail", "www-data", "nobody", "nogroup", "slurm", "munge", "users",
					    "sudo", "shadow",   "utmp",   "kmem",    "sshd",  "_apt"};
	return in_list(s, names, TD_LEN(names));
}

bool td_slurm_is_public_key(const char *s)
{
	static const char types[] = "ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp256|ecdsa-sha2-nistp384|ecdsa-sha2-nistp521|"
				    "sk-ssh-ed25519@openssh.com|sk-ecdsa-sha2-nistp256@openssh.com";
	size_t n = s ? strcspn(s, " ") : 0;
	td_auto_free char *type = td_strndup(s ? s : "", n);
	if (!n || s[n] != ' ' || !td_slurm_one_of(type, types))
		return false;
	const char *key = s + n + 1;
	n = strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=");
	if (n < 16 || n > 4096 || (key[n] && key[n] != ' '))
		return false;
	for (const char *p = key + n; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127 || p - key - n > 200)
			return false;
	return true;
}

// Writes a line "NAME KEY" for each key of a user.
static void ssh_keys(size_t at, yyjson_val *user, struct td_buf *keys, struct td_strv *problems)
{
	yyjson_val *k;
	size_t i, n;
	yyjson_arr_foreach (td_jget(user, "sshKeys"), i, n, k) {
		if (td_slurm_is_public_key(yyjson_get_str(k)))
			td_buf_printf(keys, "%s %s\n", td_jstr_or(user, "name", ""), yyjson_get_str(k));
		else
			td_strv_addf(problems,
				     "spec.users[%zu].sshKeys[%zu]: must be one line as in a .pub file, such as "
				     "\"ssh-ed25519 AAAA… name\", without options",
				     at, i);
	}
}

// Writes passwd, group and ssh_keys: the system's accounts, then spec.users.
static void accounts(const yyjson_val *o, struct td_buf *passwd, struct td_buf *group, struct td_buf *keys,
		     struct td_strv *problems)
{
	yyjson_val *users = td_jget(o, "spec.users");
	td_buf_puts(passwd,
		    "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
		    "bin:x:2:2:bin:/bin:/usr/sbin/nologin\nsys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
		    "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\nsshd:x:122:65534::/run/sshd:/usr/sbin/nologin\n"
		    "slurm:x:64030:64030::/nonexistent:/usr/sbin/nologin\n"
		    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
	td_buf_puts(group,
		    "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\nkmem:x:15:"
		    "\nwww-data:x:33:\nshadow:x:42:\nutmp:x:43:\nusers:x:100:\nslurm:x:64030:\nnogroup:x:65534:\n");
	td_auto_strv struct td_strv named = {0};
	td_slurm_groups(o, group, &named, problems);

	td_auto_strv struct td_strv names = {0}, gids = {0}, uids = {0};
	yyjson_val *u;
	size_t i, n;

	yyjson_arr_foreach (users, i, n, u) {
		const char *name = td_jstr(u, "name"), *shell = td_jstr_or(u, "shell", "/bin/bash");

		long long uid = td_jint(u, "uid", -1), gid = td_jint(u, "gid", uid);
		if (!td_slurm_is_user(name) || td_slurm_is_system_name(name)) {
			td_strv_addf(problems,
				     "spec.users[%zu].name: must be lower-case letters, digits, '_', '-', at most 32, "
				     "and no system account",
				     i);
			continue;
		}

		td_auto_free char *def_home = td_asprintf("/home/%s", name), *t_uid = td_asprintf("%lld", uid),
				  *t_gid = td_asprintf("%lld", gid);
		const char *home = td_jstr_or(u, "home", def_home);

		size_t other = 0;
		while (other < uids.n && strcmp(uids.v[other], t_uid) != 0)
			other++;
		if (uid < 1000 || uid > 4294967293 || uid == TD_SLURM_UID || uid == 65534)
			td_strv_addf(problems,
				     "spec.users[%zu].uid: must be 1000 or more, and not 64030 (slurm) or 65534 "
				     "(nobody)",
				     i);
		else if (other < uids.n)
			td_strv_addf(problems, "spec.users[%zu].uid: %s is %s's already: give %s another one", i, t_uid,
				     names.v[other], name);

		if (gid < 100 || gid > 4294967293 || gid == TD_SLURM_UID || gid == 65534)
			td_strv_addf(
				problems,
				"spec.users[%zu].gid: must be 100 or more and not 64030 (slurm) or 65534 (nogroup)", i);

		if (!td_slurm_is_path(home))
			td_strv_addf(
				problems,
				"spec.users[%zu].home: must be an absolute path of letters, digits, '.', '_', '-', '/'",
				i);
		if (!td_slurm_is_path(shell))
			td_strv_addf(problems,
				     "spec.users[%zu].shell: must be an absolute path of letters, digits, '.', '_', "
				     "'-', '/'",
				     i);

		if (td_strv_has(&names, name))
			td_strv_addf(problems, "spec.users[%zu].name: \"%s\" is there twice; names must differ", i,
				     name);
		td_strv_add(&names, name);
		td_strv_add(&uids, t_uid);
		td_buf_printf(passwd, "%s:x:%lld:%lld::%s:%s\n", name, uid, gid, home, shell);
		ssh_keys(i, u, keys, problems);
		if (gid != 100 && !td_strv_has(&gids, t_gid) && !td_strv_has(&named, t_gid)) {
			td_buf_printf(group, "%s:x:%lld:\n", name, gid);
			td_strv_add(&gids, t_gid);
		}
	}
}

// The object's own files: fixed names and free text of bounded size. Include is refused: it could
// read files that are not the cluster's.
static void own_files(yyjson_val *map, struct td_slurm_files *ret, struct td_strv *problems)
{
	static const char *const allowed[] = {"topology.conf",      "topology.yaml", "acct_gather.conf",
					      "job_container.conf", "mpi.conf",      "oci.conf",
					      "cgroup.conf"};

	yyjson_obj_iter it = yyjson_obj_iter_with(map);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *name = yyjson_get_str(k), *text = yyjson_get_str(yyjson_obj_iter_get_val(k));

		if (!in_list(name, allowed, TD_LEN(allowed)) || ret->n == TD_LEN(ret->v)) {
			td_strv_addf(
				problems,
				"spec.config.files: \"%.40s\" cannot be set; the names are topology.conf, "
				"topology.yaml, acct_gather.conf, job_container.conf, mpi.conf, oci.conf, cgroup.conf "
				"(slurm.conf: use slurmConf and partitions; gres.conf is Tandem's)",
				name);
			continue;
		}

		if (!text || strlen(text) > 256 << 10) {
			td_strv_addf(problems, "spec.config.files.%s: must be text of at most 256 KiB", name);
			continue;
		}

		for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
			const char *p = line + strspn(line, " \t\r");
			if (!strncasecmp(p, "include", 7) && isspace((unsigned char)p[7]))
				td_strv_addf(problems,
					     "spec.config.files.%s: Include is not allowed; write the lines themselves",
					     name);
		}

		if (td_streq(name, "cgroup.conf")) // Tandem's own has its lines
			continue;
		td_slurm_files_add(ret, name, text, false);
	}
}

static void topology_file(const yyjson_val *o, const struct td_slurm_facts *f, struct td_slurm_files *ret,
			  struct td_strv *problems)
{
	td_auto_strv struct td_strv labels = {0};
	td_slurm_topology_labels(o, &labels, problems);
	if (!td_slurm_topology(o))
		return;
	const size_t levels = f->place_levels ? f->place_levels : labels.n;
	td_auto_free char *text = td_slurm_topology_blocks(o) ? td_slurm_blocks_conf(o, f->places, f->n_places, levels)
							      : td_slurm_topology_conf(f->places, f->n_places, levels);
	td_slurm_files_add(ret, "topology.conf", text, false);
	td_slurm_files_add(ret, "topology.sh", td_embedded(td_slurm_programs, "topology.sh")->text, false);
}

bool td_slurm_files_make(const yyjson_val *o, const struct td_slurm_facts *f, struct td_slurm_files *ret,
			 struct td_strv *problems)
{
	size_t before = problems->n;
	const char *ns = td_jstr_or(o, "metadata.namespace", "default"), *name = td_jstr_or(o, "metadata.name", "");
	if (!td_slurm_is_name(name) || strchr(name, '.') || strlen(name) > 40)
		td_strv_addf(problems, "metadata.name: must be at most 40 letters, digits and '-', without dots: it "
				       "becomes Slurm's ClusterName");
	if (!td_slurm_is_name(ns))
		td_strv_addf(problems, "metadata.namespace: must be a DNS label");
	if (!td_slurm_one_of(td_jstr_or(o, "spec.auth.type", "slurm"), "slurm|munge"))
		td_strv_addf(problems, "spec.auth.type: must be \"slurm\" or \"munge\"");

	struct td_slurm_files out = {0};
	struct td_buf passwd = {0}, group = {0}, keys = {0}, lua = {0};
	td_slurm_preempt_lua(o, &lua);
	td_slurm_gres_lua(f, &lua);
	td_slurm_partitions_lua(o, f, &lua);
	td_buf_puts(&lua, td_embedded(td_slurm_programs, "job_submit.lua")->text);
	accounts(o, &passwd, &group, &keys, problems);

	const char *const names[TD_SLURM_FILES] = {"slurm.conf",   "gres.conf",   "cgroup.conf",    "gate.sh",
						   "slurmctld.sh", "accounts.sh", "job_submit.lua", "passwd",
						   "group",        "ssh_keys"};
	char *const texts[TD_SLURM_FILES] = {
		slurm_conf(o, ns, name, f, problems),
		td_slurm_gres_conf(f),
		cgroup_conf(td_jkey_str(td_jget(o, "spec.config.files"), "cgroup.conf"), problems),
		td_strdup(td_embedded(td_slurm_programs, f->own_kubelet ? "gate-launch.sh" : "gate.sh")->text),
		td_strdup(td_embedded(td_slurm_programs, "slurmctld.sh")->text),
		td_strdup(td_embedded(td_slurm_programs, "accounts.sh")->text),
		td_buf_take(&lua),
		td_buf_take(&passwd),
		td_buf_take(&group),
		td_buf_take(&keys),
	};

	for (out.n = 0; out.n < TD_SLURM_FILES; out.n++) {
		out.v[out.n].name = td_strdup(names[out.n]);
		out.v[out.n].text = texts[out.n];
	}

	own_files(td_jget(o, "spec.config.files"), &out, problems);
	td_slurm_scripts_files(o, f, &out, problems);
	td_slurm_containers_files(o, &out, problems);
	td_slurm_scratch_files(o, &out, problems);
	td_slurm_filter_files(o, &out);
	td_slurm_jobnetwork_check(o, problems);
	td_slurm_services_files(o, f, &out, problems);
	topology_file(o, f, &out, problems);

	// Problems quote what they refuse: no control character may get through.
	for (size_t i = before; i < problems->n; i++)
		for (char *p = problems->v[i]; *p; p++)
			*p = (unsigned char)*p < ' ' ? '?' : *p;

	if (problems->n > before) {
		td_slurm_files_done(&out);
		return false;
	}

	*ret = out;
	return true;
}

void td_slurm_files_done(struct td_slurm_files *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].name);
		free(f->v[i].text);
	}
	*f = (struct td_slurm_files){0};
}
