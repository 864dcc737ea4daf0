// What the processes of a job or a pod do, as programs/stacks.sh says it.
#pragma once

#include "base/mem.h"
#include "json/json.h"

// Adds `processes` (node, rank, pid, command, threads, functions) and `notes` to root. rank: only of that one; -1: of all. What is none
// of it, such as what srun or kubectl say, is appended to other.
void td_cli_stacks_read(const char *text, long long rank, yyjson_mut_doc *d, yyjson_mut_val *root,
			struct td_buf *other);
// Prints that, 80 columns wide; the notes go to stderr.
void td_cli_stacks_print(yyjson_val *root);
