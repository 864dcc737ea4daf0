// Reads an existing Slurm configuration and writes the objects that ask Tandem for the same. Pure.
#pragma once

#include "base/err.h"
#include "json/json.h"

// A file: slurm.conf, and beside it whatever there is: gres.conf, cgroup.conf, slurmdbd.conf,
// topology.conf and the like, job_submit.lua, and the programs that slurm.conf names. Of a path only
// the last part counts.
struct td_slurm_import_file {
	const char *path, *text;
};
struct td_slurm_import {
	struct td_json **v; // a SlurmCluster, its NodeSets, and a ConfigMap when there are programs
	size_t n;
	struct td_strv left; // what is not taken over, a line each: where it stands, what it is, what to do
};
// ns: the namespace of the objects. name: of the SlurmCluster; NULL: ClusterName. The SlurmCluster
// passes td_slurm_files_make. TD_INVALID: there is no slurm.conf, or it cannot be read.
int td_slurm_import(const struct td_slurm_import_file *files, size_t n, const char *ns, const char *name,
		    struct td_slurm_import *ret, struct td_error *err);
void td_slurm_import_done(struct td_slurm_import *x);
#define td_auto_import __attribute__((cleanup(td_slurm_import_done)))
