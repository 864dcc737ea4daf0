// When the operator works everything of a SlurmCluster out anew (a whole look), and when it only asks Slurm whether
// anything has changed. A whole look costs something for each node; what it depends on tells of its changes, but for
// what waits for a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct td_pool_look {
	bool news;      // what it was worked out from has changed, or it never was
	bool jobs;      // of Slurm's nodes all that has changed is what jobs have there, on nodes that are in order
	bool failed;    // the last whole look did not come to its end
	bool moving;    // something is under way that goes on by time, too
	bool unsettled; // something is not as it should be, and waits for others
	int64_t age_ms; // since the last whole look
	int64_t cpu_us; // that the last whole look took
	int64_t due_ms; // at which age something is due by the clock; < 0: nothing is
};
// True: a whole look. Of jobs alone it takes a fiftieth of a core: they come and go all the time, and what waits for one
// to end is on a node that is drained, or is `moving`. It is a net besides: every minute, four times as often while something is unsettled.
bool td_pool_look_whole(const struct td_pool_look *l);
// How long to wait at least after a whole look that took so much CPU and ended so long ago, in ms: dear ones take little
// more than a tenth of a core. One that took little: 0, so that small pools follow at once.
int64_t td_pool_look_pause_ms(int64_t cpu_us, int64_t ended_ms);
