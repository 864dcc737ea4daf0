// A node's adapters of the network, as its agent wrote them down (TD_ANN_NICS), and the planes of spec.fabric that they
// belong to. Pure.
#pragma once

#include "json/json.h"

struct td_slurm_nic {
	const char *name, *interface, *guid; // point into keep; interface, guid: NULL where there is none
	bool rdma, active;
	int port;
	long long rate;    // megabits in a second; 0: not known
	yyjson_val *near;  // how near each GPU is; NULL: not known
	yyjson_val *files; // its device files; NULL: none are known
	int numa;          // below 0: not known
	int number;        // of its first device file: 4 of uverbs4
	bool given;        // Slurm gives it out: it is one of the GRES nic of its node
	const char *plane; // "gpu", "storage", "user", static; NULL: none of them
};
struct td_slurm_nics {
	struct td_slurm_nic v[64];
	size_t n;
	bool gpu_plane; // spec.fabric has one
	bool gives;     // spec.fabric.nics.grant: who uses RDMA asks for adapters
	struct td_json *keep;
};
void td_slurm_nics_done(struct td_slurm_nics *l);
#define td_auto_nics __attribute__((cleanup(td_slurm_nics_done)))
// What cannot be read counts as none. fabric: spec.fabric, may be NULL.
void td_slurm_nics_read(const yyjson_val *fabric, const yyjson_val *node, struct td_slurm_nics *ret);

// Does the cluster give out adapters? fabric: spec.fabric, may be NULL.
bool td_slurm_nics_give(const yyjson_val *fabric);
// The i-th adapter that Slurm gives out, in the order of its indexes; NULL: there are fewer.
const struct td_slurm_nic *td_slurm_nics_given(const struct td_slurm_nics *l, size_t i);

// What a variable may be made of.
enum td_slurm_found {
	TD_FOUND_ADAPTERS,  // RDMA adapters: mlx5_0
	TD_FOUND_PORTS,     // their ports: mlx5_0:1; interfaces, where no adapter of the plane knows RDMA
	TD_FOUND_INTERFACES // ib0, eth2
};
// The names of the adapters of the GPUs' plane (where spec.fabric names no such plane, of those that are of none): those
// that are active, or all if none is. each: for each GPU that of the nearest adapter, of those that are equally near the one that fewest
// GPUs have; empty: where they are is not known.
void td_slurm_nics_found(const struct td_slurm_nics *l, enum td_slurm_found kind, struct td_strv *all,
			 struct td_strv *each);
// Where adapters are given out: their words in the order of Slurm's indexes. False: this kind names no adapters, or none
// is given out there. any: of whom has none: nothing, or the interfaces over which UCX goes then.
bool td_slurm_nics_words(const struct td_slurm_nics *l, enum td_slurm_found kind, struct td_strv *each,
			 struct td_strv *any);
// What is wrong with a node's planes, "n1: …", as spec.fabric.planes says how they should be. A node whose agent tells
// nothing is not judged.
void td_slurm_nics_problems(const yyjson_val *fabric, const yyjson_val *node, struct td_strv *ret);
