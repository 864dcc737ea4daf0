// A network of Ethernet as LLDP knows it: one JSON object that has, by the names of nodes and switches, what `lldpctl -f
// json` prints there. Pure.
//
// A switch is what a node of the pool sees, and what the text has an answer of; whatever else a switch sees makes no place.
// Devices are known by their names (of one without a name, its chassis' id), so names must be unique. What a node or a key
// of the text is called may have a domain behind it elsewhere.
#pragma once

#include "slurm/ibnet.h"

bool td_slurm_lldp_is(const char *text); // it begins as JSON does
// places, ids: as for td_slurm_ibnet_places(); of the ids those that begin with @ count: interfaces of the node ("@eth5"),
// beside which its others are passed over. None: all of them count. TD_INVALID says what is wrong with the text.
int td_slurm_lldp_read(const char *text, const struct td_slurm_place *places, const struct td_strv *ids, size_t n,
		       struct td_slurm_ibnet **ret, struct td_error *err);
