// What a Dataset says of its copies (docs/datasets.md), as the operator and machines of `tandem host` both read it. Pure.
#pragma once

#include "base/mem.h"
#include "json/json.h"

// Where the copies of a SlurmCluster lie on a node. The caller frees it.
char *td_dataset_place(const yyjson_val *sc);
// The print of what nodes shall hold: of its source, its size, who may read it, and where it lies, so that a mark which
// another cluster left, or which is of another path, is not taken for a copy. The caller frees it.
char *td_dataset_print(const yyjson_val *sc, const yyjson_val *dataset);
// Does it want a copy on a node with these labels?
bool td_dataset_wants(const yyjson_val *dataset, const yyjson_val *labels);
// The same of a machine without a kubelet, which may have no Node: it has the labels kubernetes.io/hostname and
// tandem.dev/host, by which its name and its NodeSet's are known.
bool td_dataset_wants_host(const yyjson_val *dataset, const char *name, const char *set);
// Adds the variables by which the program that fetches (operator/programs/dataset.py) is told of it, "NAME=VALUE".
void td_dataset_variables(const yyjson_val *dataset, struct td_strv *ret);
// The features of a node as they should be: `have` (with commas) without those of data sets, and with those of `held`.
// NULL: have is right. The caller frees it.
char *td_dataset_features(const char *have, const struct td_strv *held);
// May a machine copy this directory? Only one of a file system that all who compute have (spec.storage of the SlurmCluster):
// its other directories are not the pool's.
bool td_dataset_shared(const yyjson_val *sc, const char *path);
