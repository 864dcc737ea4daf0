// From an existing Slurm to a pool whose NodeSets are that Slurm's own machines (docs/adopt.md). Pure.
#pragma once

#include "base/names.h"
#include "slurm/import.h"

#define TD_REASON_ADOPT "tandem: adopt" // of the drain in the old Slurm

// old: the group's machines are the old Slurm's. Each next one is durable before anything is done for it.
enum td_adopt_phase { TD_ADOPT_OLD, TD_ADOPT_LEAVING, TD_ADOPT_MOVED, TD_ADOPT_RETURNING };
const char *td_adopt_phase_name(enum td_adopt_phase p);

// Makes the NodeSets of an import those of machines that run slurmd themselves: none of them is moved yet, and each
// names in the annotation the machines that it is to have.
void td_slurm_adopt(struct td_slurm_import *x);
// Reads the annotation. TD_INVALID: there is none, or it cannot be read; err says so.
int td_adopt_read(const yyjson_val *set, struct td_strv *ret_hosts, enum td_adopt_phase *ret, struct td_error *err);
// Returns the annotation's text. The caller frees it.
char *td_adopt_write(const struct td_strv *hosts, enum td_adopt_phase p);

struct td_adopt_node {
	bool drained, ours; // ours: by a move
	bool silent;        // its slurmd does not answer
};
// One line of `sinfo -h -N -n LIST -o "%N|%T|%E"`. False: it is no such line.
bool td_adopt_node_read(const char *line, char ret_name[64], struct td_adopt_node *ret);
