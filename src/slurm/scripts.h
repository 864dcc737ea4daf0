// A site's own programs (spec.scripts of a SlurmCluster): the lines of slurm.conf that name them, and
// their files. The files are in a ConfigMap of their own, CLUSTER-site, which every pod of Slurm mounts
// at TD_SLURM_SITE: a program that changes restarts nothing.
#pragma once

#include "slurm/conf.h"

#define TD_SLURM_SITE "/etc/tandem/site"
// Mounted there and read by slurmctld's job_submit.lua.
#define TD_SLURM_SITE_LUA "job-submit.lua"

struct td_slurm_role {
	const char *name; // in spec.scripts
	const char *file; // in TD_SLURM_SITE; configuration files are beside slurm.conf instead
	const char *key;  // of slurm.conf; NULL: another program of ours starts it
	bool program;     // it is executed: it begins with "#!"
	bool conf;        // it is a configuration file
};
extern const struct td_slurm_role td_slurm_roles[];
extern const size_t td_slurm_n_roles;

// Adds a problem for every key of spec.config.slurmConf that spec.scripts sets as well.
void td_slurm_scripts_check(const yyjson_val *cluster, struct td_strv *problems);
// Returns the value of a key that Tandem sets: `ours`, or what also runs the site's own.
const char *td_slurm_scripts_value(const yyjson_val *cluster, const char *key, const char *ours);
// Returns the plug-in that spec.scripts adds to a key whose value is a list; NULL: none.
const char *td_slurm_scripts_plugin(const yyjson_val *cluster, const char *key);
// Adds the lines of slurm.conf. theirs: spec.config.slurmConf.
void td_slurm_scripts_lines(const yyjson_val *cluster, struct td_buf *b);
// Adds services.sh and seff, which login pods have where their image has none, and what spec.services asks for: the table "services" and a program each.
void td_slurm_services_files(const yyjson_val *cluster, const struct td_slurm_facts *f, struct td_slurm_files *ret,
			     struct td_strv *problems);
// Adds the files. Texts that are not known (f->texts) are left out.
void td_slurm_scripts_files(const yyjson_val *cluster, const struct td_slurm_facts *f, struct td_slurm_files *ret,
			    struct td_strv *problems);
