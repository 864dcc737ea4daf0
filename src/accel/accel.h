// Accelerators of any vendor, described by data: what pods call them, how they are found on a machine, their device
// files, and the variables that tell a program which are its own. vendors/ has what Tandem ships; a site adds files of
// the same form (docs/accelerators.md).
//
// Files
//   vendors.c vendors/   the descriptions: read and checked
//   find.c               which devices a machine has, by sysfs; what it tells of them
//   give.c               the files and variables of some of them
//   gds.[ch]             what a machine has of GPUDirect Storage
#pragma once

#include "json/json.h"

enum { TD_ACCEL_MAX = 64, TD_ACCEL_FILES = 2, TD_ACCEL_SHARED = 8 };

// ---- vendors.c ----

// Descriptions, in the order in which they are looked for: a site's own first, each kind by file name. Immutable.
struct td_accels;
// dir: a site's own, NAME.yaml; absent or NULL: none. One that has the name of another takes its place. TD_INVALID names
// file, field and fix.
int td_accels_read(const char *dir, struct td_accels **ret, struct td_error *err);
struct td_accels *td_accels_free(struct td_accels *a);
TD_DEFINE_AUTO(struct td_accels *, td_accels_free)
size_t td_accels_n(const struct td_accels *a);
const yyjson_val *td_accels_at(const struct td_accels *a, size_t i);
// Tandem's own description of a resource, or of that name; NULL: none. Lives for ever. Thread-safe.
const yyjson_val *td_accel_of(const char *resource);
const yyjson_val *td_accel_named(const char *name);
// What is wrong with a description: TD_INVALID names field and fix.
int td_accel_check(const yyjson_val *v, struct td_error *err);

// ---- find.c ----

struct td_accel {
	int number; // in the names of its files
	int numa;   // below 0: not known
	char pci[24], product[64], cpus[96];
	char *files[TD_ACCEL_FILES];
	size_t n_files;
};
struct td_accel_found {
	const yyjson_val *of; // the description; NULL: nothing was found
	struct td_accel v[TD_ACCEL_MAX];
	int n, numa_nodes; // numa_nodes of the machine; 0: not known
	struct td_strv shared;
};
// Looks below <root>/sys for the devices of each description; the first that finds any counts. skip: a resource that
// is left out; NULL: none.
void td_accel_find(const struct td_accels *a, const char *root, const char *skip, struct td_accel_found *ret);
void td_accel_found_done(struct td_accel_found *f);
// What the machine tells of them: JSON, as annotation tandem.dev/gpus. NULL: there are none. Caller frees.
char *td_accel_inventory(const struct td_accel_found *f);

// ---- give.c ----

// Appends NAME=VALUE for the devices of mask; of: the description. f NULL: nothing is known of the devices but their
// indexes. mask 0: only what stands for no device at all.
void td_accel_variables(const yyjson_val *of, const struct td_accel_found *f, uint64_t mask, struct td_strv *ret);
// The file of the device with this index on a machine that tells nothing: its way's first number (`first`) and as many
// on. NULL: nothing says it. Caller frees.
char *td_accel_usual_file(const yyjson_val *of, int index);
// What tells the TaskProlog the variables of Slurm's jobs: a line "NAME local|index" for each. Caller frees.
char *td_accel_task_text(const yyjson_val *of);
