// An image's entry point, as Pyxis runs it: once for the container, before the first program that asks for it. Its
// last word is a program of ours, which notes environment and directory; all tasks of the step begin with these. It
// runs in the task, so within the job's limits, and what it starts in the background ends with the step.
#pragma once

#include "spank/inside.h"

struct td_ct_start {
	int own;  // the directory run/ID/own, where the note is kept
	int self; // this program, which may be nowhere in the container
	const struct td_ct_image *image;
	const char *keep; // variables of the job which the entry point gets; besides these it has the image's
	bool log;
};
// Called in the container and in its directory. *ret_cwd: where the entry point ended, the caller frees it. *ret_env
// is replaced by its environment.
int td_ct_start(const struct td_ct_start *s, char **ret_cwd, struct td_buf *ret_env, struct td_error *err);
// What the entry point starts: writes environment and directory to the descriptor. Returns the exit code.
int td_ct_started(int argc, char **argv);
