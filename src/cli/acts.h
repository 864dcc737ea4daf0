// tandem history --slurm: what people did on Slurm's side, as slurmdbd has recorded it.
#pragma once

#include "cli/remote.h"

// One act, from a line of programs/acts.sh: TIME|WHO|WHAT|ON|MORE. The texts point into the line.
struct td_cli_act {
	long long time; // seconds since 1970
	const char *who, *what, *on, *more;
};
// Cuts the line, which it changes. False: it is no such line.
bool td_cli_act_read(char *line, struct td_cli_act *ret);

struct td_cli_acts {
	const char *node; // NULL: everything
	int days;         // of the past
	bool json;        // one record a line
};
// Prints them, the oldest first. Returns the exit code.
int td_cli_acts_show(const struct td_remote *remote, const struct td_cli_acts *q);
