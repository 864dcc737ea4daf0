// Code that the users' commands share.
#pragma once

#include "kube/kube.h"
#include "local/instance.h"

// Loads the instance and connects to its API as admin. On failure it prints the reason and returns
// non-zero.
int td_cli_open(const char *cmd, struct td_instance *ret_i, struct td_kube **ret_k);
// One of the commands' own YAML files, filled with these words.
yyjson_mut_doc *td_cli_template(const char *file, const struct td_json_word *words, size_t n);
// Prints API keys as td_people_keys() has them, in `keys` of root: as a table, with whose they are if `whose`, or as JSON.
void td_cli_keys(const yyjson_val *root, bool whose, bool json);
