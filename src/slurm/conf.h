// What Slurm reads (slurm.conf, gres.conf, cgroup.conf, the Prolog, passwd, group), written from a SlurmCluster object.
// Pure: no clock, no network, same input → same bytes.
//
// Every string from outside passes a grammar before it reaches a file: Slurm's line format (slurm.conf(5)) puts several
// `Key=value` pairs on one line, takes '#' as a comment, '"' as a quote and '\' as a continuation, so none of those and
// no blank may be inside a value.
#pragma once

#include "base/mem.h"
#include "json/json.h"

// ---- grammar: the whole string, NULL is never valid ----
bool td_slurm_is_name(
	const char *s); // a partition, node set, feature, node, account or QOS: [A-Za-z0-9][A-Za-z0-9_.-]{0,62}
bool td_slurm_is_key(const char *s); // a slurm.conf key: a letter, then letters, digits and '_'; at most 64
bool td_slurm_is_value(
	const char *s); // a slurm.conf value: 1 to 4096 of printable ASCII without blank, '"', '#' and '\'
bool td_slurm_is_path(const char *s); // absolute, [A-Za-z0-9_./-], no "..", at most 255
bool td_slurm_is_time(const char *s); // minutes, minutes:seconds, hours:…, days-hours[:…], INFINITE, UNLIMITED
bool td_slurm_is_user(const char *s); // [a-z_][a-z0-9_-]{0,31}

// ---- files ----
struct td_slurm_gres {
	const char *nodes; // hostlist expression of the nodes it holds for; NULL: every node
	const char *name;  // "gpu"
	const char *file;  // "/dev/tandem-gpu[0-7]"
};
struct td_slurm_facts {                   // what does not stand in the object
	const struct td_slurm_gres *gres; // lines of gres.conf, in order
	size_t n_gres;
	long long mem_per_cpu_mb;     // DefMemPerCPU: what a job that names no memory gets; 0: not set
	const char *const *node_sets; // names of the NodeSets of this cluster: what partitions may refer to
	size_t n_node_sets;
};
enum td_slurm_file {
	TD_SLURM_CONF,
	TD_GRES_CONF,
	TD_CGROUP_CONF,
	TD_GATE_SH,
	TD_SLURMCTLD_SH,
	TD_PASSWD,
	TD_GROUP,
	TD_SLURM_FILES, // the fixed ones; the object's own follow
};
struct td_slurm_files {
	struct {
		char *name, *text;
	} v[TD_SLURM_FILES + 8];
	size_t n;
};
// cluster: a whole SlurmCluster object with defaults filled in. Adds one line "spec.field: what is wrong; what to
// write" per problem and then leaves *ret empty. True when there was none.
bool td_slurm_files_make(const yyjson_val *cluster, const struct td_slurm_facts *facts, struct td_slurm_files *ret,
			 struct td_strv *problems);
void td_slurm_files_done(struct td_slurm_files *f);
#define td_auto_slurm_files __attribute__((cleanup(td_slurm_files_done)))

// What the daemons' pods and their configuration agree on.
#define TD_SLURM_UID 64030 // Debian's user slurm
#define TD_SLURMCTLD_PORT 6817
#define TD_SLURMD_PORT 6818
#define TD_SLURMRESTD_PORT 6820
#define TD_SLURM_ETC "/etc/slurm"       // ConfigMap
#define TD_SLURM_KEYS "/etc/slurm-keys" // slurm.key; slurmctld also jwt_hs256.key below TD_SLURM_JWT
#define TD_SLURM_JWT "/etc/slurm-jwt"
#define TD_SLURM_STATE "/var/lib/slurm/slurmctld"
#define TD_SLURM_SPOOL "/var/spool/slurmd"
// The feature that marks the nodes of a NodeSet: "set.<name>". Caller frees.
char *td_slurm_set_feature(const char *node_set);
