// Copies of data sets (Dataset objects) on a machine with its own slurmd (docs/datasets.md): the machine fetches them itself,
// and tells Slurm by its features which it holds. What lies on the disk is in a mark for each, beside the copies, as the
// operator has it on Nodes (pool/dataset.h).
#pragma once

#include "base/cancel.h"
#include "kube/kube.h"
#include "json/json.h"

#include <stdbool.h>
#include <sys/types.h>

struct td_host_fetch; // what the last program did for a data set
struct td_host_data {
	pid_t pid; // of the program that fetches or removes; 0: none
	struct td_host_fetch *v;
	size_t n;
	bool busy;        // something is being done, so Slurm is asked at each look, and not every minute
	int64_t asked_ms; // mono
	size_t told;      // how many Slurm was told of
	char *last;       // the last complaint
};
// What it goes by in one look.
struct td_host_data_now {
	struct td_kube *k;
	const char *ns, *name, *set; // of the NodeSet; name: the machine's
	const char *dir;             // root's alone
	const yyjson_val *sc;        // the SlurmCluster
	const yyjson_val *nodeset;
	const struct td_objects *datasets; // all of the namespace
	pid_t slurmd;                      // 0: it does not run
	int64_t now_ms;                    // mono
	struct td_cancel *cancel;
};
// Does what is next. What is in the way is logged.
void td_host_data_keep(struct td_host_data *d, const struct td_host_data_now *n);
// Ends the program, and removes the keys that were written for it. dir: root's alone.
void td_host_data_done(struct td_host_data *d, const char *dir);

// What `scontrol -o show node` says (pure): false: nothing of a node, or longer than there is room for.
struct td_host_record {
	char features[4096], active[4096];
	bool idle; // nothing runs there, and nothing ends
};
bool td_host_record_read(const char *text, struct td_host_record *ret);
// Why this machine does not fetch it, with the fix (pure); NULL: it may. The caller frees it.
char *td_host_data_refused(const yyjson_val *sc, const struct td_object *dataset);
