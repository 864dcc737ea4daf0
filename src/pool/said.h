// What the admin comment of a native job says of how it goes: that it hangs, that one of its ranks is slow, or why it began
// again. Others write there, too ("tandem-use:…", notes of people), so each is a sentence of its own:
//   tandem: hangs on n1: no output for 1800 s; stacks: tandem-hang-7-n1.txt; seen 2026-11-27T17:30:00Z
//   tandem: straggler: rank 2 on n1 (gpu3) computes 3.1 times as long as the others (…); seen 2026-11-27T17:30:00Z
//   tandem: fault on n1: gpu3: XID 79; seen 2026-11-27T17:30:00Z      the last one of several counts
//   tandem: began again: n1: gpu3: XID 79; seen 2026-11-27T17:30:00Z
// A sentence ends where the next " tandem:" or " tandem-" begins. `tandem-standin watch` writes all but the last one, which
// the bridge does; only an operator of Slurm may. Pure, as pool.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TD_SAID_WORDS = 640, TD_SAID_NODE = 64, TD_SAID_COMMENT = 4096 };
enum td_pool_said_what { TD_SAID_HANGS, TD_SAID_SLOW, TD_SAID_AGAIN, TD_SAID_FAULT };

struct td_pool_said {
	char words[TD_SAID_WORDS];  // without the mark, the stacks and the time: "no output for 1800 s"
	char node[TD_SAID_NODE];    // "": not known
	char stacks[TD_SAID_WORDS]; // "tandem-hang-7-n1.txt, …", files in the job's working directory; "": none
	int rank, gpu;              // -1: not said
	int64_t seen_s; // epoch seconds: when it was seen, or the run before ended; 0: not said (older programs)
};
// False, and *ret untouched: nothing of the kind.
bool td_pool_said(const char *admin_comment, enum td_pool_said_what what, struct td_pool_said *ret);
// Whether it is of the run that began at start_s, and not of one before it. What has no time may be.
bool td_pool_said_now(const struct td_pool_said *s, int64_t start_s);
// The comment with the sentence "began again"; what was said of the run before goes but for its faults, all else stays.
// why: as a node's reason; its first line counts. NULL: it would be longer than TD_SAID_COMMENT. Caller frees.
char *td_pool_said_again(const char *admin_comment, const char *node, const char *why, int64_t at_s);
