// --container-save: the container's root as a squashfs file.
//
// It is written in the task that ends last on the node, by the user, within the job's limits: so nobody works beyond
// what was granted, and root has no part in it. That task has the program as its child, and ends with its exit code;
// when nothing could be saved, with 1 instead of 0. As with Pyxis the program's exit code does not matter. A step that
// is cancelled or reaches its time limit saves nothing. What is killed while it writes leaves its temporary file,
// ".NAME.JOB.STEP" beside the real one, which is whole always.
#pragma once

#include "spank/inside.h"

// In the task's place, before the step: may the owner write there? Called with his rights. TD_INVALID, TD_DENIED: the
// message names the option, the path and what to do.
int td_ct_save_check(const char *path, struct td_error *err);
struct td_ct_save {
	const char *path; // absolute; what is there is replaced
	int tasks;        // of the step on this node
	struct td_ct_inside inside;
};
// Runs the program and saves. Returns the exit code of the task.
int td_ct_save_run(const struct td_ct_save *s);
