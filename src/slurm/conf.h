// Writes what Slurm reads (slurm.conf, gres.conf, cgroup.conf, programs, passwd, group) from a
// SlurmCluster object. Pure: no clock, no network; the same input gives the same bytes.
//
// Every string from outside passes a grammar before it reaches a file. Slurm's line format
// (slurm.conf(5)) puts several `Key=value` pairs on one line and takes '#' as a comment, '"' as a
// quote and '\' as a continuation. So a value may hold none of those and no blank.
#pragma once

#include "base/mem.h"
#include "json/json.h"

// ---- grammar: does the whole string match? NULL never does ----
// The name of a partition, node set, feature, node, account or QOS:
// [A-Za-z0-9][A-Za-z0-9_.-]{0,62}.
bool td_slurm_is_name(const char *s);
// A type of GPUs: a name that begins with a letter, because Slurm takes "gpu:1x" for a count, or the profile of a part
// of one (MIG), "1g.10gb", which it does not. At most 40 bytes.
bool td_slurm_is_type(const char *s);
// A key of slurm.conf: a letter, then letters, digits and '_'; at most 64 characters.
bool td_slurm_is_key(const char *s);
// A value of slurm.conf: 1 to 4096 printable ASCII characters without blank, '"', '#' and '\'.
bool td_slurm_is_value(const char *s);
// An absolute path of [A-Za-z0-9_./-] without "..", at most 255 characters.
bool td_slurm_is_path(const char *s);
// minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]], INFINITE or
// UNLIMITED.
bool td_slurm_is_time(const char *s);
// [a-z_][a-z0-9_-]{0,31}
bool td_slurm_is_user(const char *s);
// Is s one of the words of "A|B|C", whose case does not matter?
bool td_slurm_one_of(const char *s, const char *list);
// The name of a user or group that Debian itself has, or Slurm.
bool td_slurm_is_system_name(const char *s);
// An ssh public key on one line, with its comment and without options.
bool td_slurm_is_public_key(const char *s);

// The value of a key of slurm.conf in a map, whose case does not matter; NULL: absent.
const char *td_slurm_conf_get(const yyjson_val *map, const char *key);
// MaxNodeCount of a slurm.conf of Tandem's (NULL: none); 0: it says none.
size_t td_slurm_conf_room(const char *text);

// ---- files ----
struct td_slurm_gres {
	const char *nodes; // hostlist of its nodes; NULL: every node
	const char *name;  // "gpu"
	const char *file;  // "/dev/tandem-gpu[0-7]"; NULL: only a count, over all GPUs of the node
	const char *type;  // "h100"; NULL: none
	bool several;      // file has all files of one device, with commas
	const char *cores; // the cores near to it, "0-6"; NULL: any
	const char *flags; // which variables Slurm sets: "amd_gpu_env"; NULL: its own choice
	long long count;   // of what has no file
};
// A key of a ConfigMap of the site's.
struct td_slurm_text {
	const char *map, *key, *text;
};
struct td_slurm_grant {
	const char *group, *account;
};
// What is not in the SlurmCluster object.
struct td_slurm_facts {
	const struct td_slurm_gres *gres; // lines of gres.conf, in order
	size_t n_gres;
	bool shares;             // some NodeSet gives out shares of GPUs
	bool nics;               // adapters of the network are given out (spec.fabric.nics)
	const char *const *cuts; // parts that GPUs are cut in because somebody waits for one (spec.gpuCutting)
	size_t n_cuts;
	long long mem_per_cpu_mb;     // DefMemPerCPU, for jobs that name no memory; 0: not set
	const char *const *node_sets; // names of the NodeSets, for partitions
	size_t n_node_sets;
	const struct td_slurm_grant *grants; // of resource groups to accounts, in order (slurm/partitions.h)
	size_t n_grants;
	size_t n_nodes; // that there are: slurmctld has room for these and a quarter more
	size_t room;    // td_slurm_conf_room() of the slurm.conf that is in force: it does not become less
	// Where nodes are (slurm/topology.h), in any order.
	const struct td_slurm_place *places;
	size_t n_places, place_levels; // place_levels: how many at[] of them count; 0: one for each label
	// The kubelet acquires a pod's devices itself: no Prolog for allocations
	// (docs/design/0013-acquire.md).
	bool own_kubelet;
	const struct td_slurm_text *texts; // what spec.scripts refers to, as far as it is known
	size_t n_texts;
	// The NodeSets on demand, and how long Slurm waits for a node of theirs (slurm/ondemand.c).
	const char *const *on_demand;
	size_t n_on_demand;
	int64_t start_s;
	const char *const *to_come; // lines of machines that may be made, and how many these are (slurm/tocome.h)
	size_t n_to_come, may_come;
	const char *const *types_to_come; // types of GPUs of these machines
	size_t n_types_to_come;
	// The NodeSets of other clusters: nobody but the bridge submits to their partitions (slurm/partitions.h).
	const char *const *others;
	size_t n_others;
	const char *fabric; // the table of slurm/fabric.h; NULL: empty
};
// Returns the text that a reference {configMap, key} leads to; NULL: it is not known.
const char *td_slurm_text(const struct td_slurm_facts *f, const yyjson_val *ref);
enum td_slurm_file {
	TD_SLURM_CONF,
	TD_GRES_CONF,
	TD_CGROUP_CONF,
	TD_GATE_SH,
	TD_SLURMCTLD_SH,
	TD_ACCOUNTS_SH,
	TD_JOB_SUBMIT_LUA,
	TD_PASSWD,
	TD_GROUP,
	TD_SSH_KEYS,
	TD_SLURM_FILES, // number of the fixed files; the object's own files follow them
};
struct td_slurm_files {
	struct {
		char *name, *text;
		bool site; // in the ConfigMap CLUSTER-site (slurm/scripts.h)
	} v[TD_SLURM_FILES + 96];
	size_t n;
};
// Puts lines before what plugstack.conf has.
void td_slurm_plugstack(struct td_slurm_files *f, const char *lines);
void td_slurm_files_add(struct td_slurm_files *f, const char *name, const char *text, bool site);
// Writes all files of a SlurmCluster, which is a whole object with its defaults filled in. False:
// problems were found; each adds one line "spec.field: what is wrong; what to write", and *ret
// stays empty.
bool td_slurm_files_make(const yyjson_val *cluster, const struct td_slurm_facts *facts, struct td_slurm_files *ret,
			 struct td_strv *problems);
void td_slurm_files_done(struct td_slurm_files *f);
#define td_auto_slurm_files __attribute__((cleanup(td_slurm_files_done)))

// Whose a key of slurm.conf is: Tandem's alone, a list that Tandem's options are merged into, a default that
// an object may change, or free.
enum td_slurm_key { TD_KEY_FREE, TD_KEY_OURS, TD_KEY_MERGED, TD_KEY_DEFAULT };
// *ret_value: Tandem's ("": it depends). *ret_why: why it is Tandem's alone.
enum td_slurm_key td_slurm_key(const char *key, const char **ret_value, const char **ret_why);
// Says where a line of one of these files comes from: the field of the SlurmCluster, "default", or
// "Tandem". The caller frees it.
char *td_slurm_origin(const yyjson_val *cluster, const char *file, const char *line);

// Writes slurmdbd.conf of a cluster whose spec.accounting is enabled, but for the lines that tell
// where the database is and who may use it (slurmdbd.sh). Problems are added as above. The caller
// frees it.
char *td_slurm_dbd_conf(const yyjson_val *cluster, struct td_strv *problems);

// Says why slurmctld does not start with a cluster's configuration: "spec.field: slurmctld's own
// complaint; what to do". log: what it wrote, or the lines of it that have an error. The caller
// frees it.
char *td_slurm_refusal(const yyjson_val *cluster, const char *log);

// Names and numbers on which the daemons' pods and their configuration agree.
#define TD_SLURM_UID 64030 // Debian's user slurm
#define TD_SLURMCTLD_PORT 6817
#define TD_SLURMD_PORT 6818
#define TD_SLURMDBD_PORT 6819
#define TD_SLURMRESTD_PORT 6820
#define TD_SLURM_ETC "/etc/slurm"       // ConfigMap
#define TD_SLURM_KEYS "/etc/slurm-keys" // slurm.key
#define TD_SLURM_JWT "/etc/slurm-jwt"   // jwt_hs256.key, for slurmctld only
#define TD_SLURM_STATE "/var/lib/slurm/slurmctld"
#define TD_SLURM_SPOOL "/var/spool/slurmd"
// The feature that marks the nodes of a NodeSet: "set.<name>". Caller frees.
// Returns how many slurmctlds there are; the second one is the backup.
long long td_slurm_controllers(const yyjson_val *o);
bool td_slurm_munge(const yyjson_val *o); // spec.auth.type is munge
char *td_slurm_set_feature(const char *node_set);
