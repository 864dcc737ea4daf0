// Past Slurm's error 2013: an immediate allocation is refused while any eligible job of the same or
// a higher priority waits, even one that could not use what is free (docs/facts/slurm.md S-I3).
//
// Where td_pool_room_yield() has shown that nobody who waits could use this very room, the comment of
// the allocation begins with a word that only the bridge and slurmctld know. job_submit.lua then
// raises the allocation above all that wait, and takes the word away before there is a record. The
// job's priority is of no use afterwards, because it runs.
//
// An image without the plug-in would show the word to everybody. So the first submits to each
// slurmctld begin with "? " instead, and the word is only used after one came back without.
#pragma once

#include "bridge/scheduler/waits.h"

// Partitions whose nodes are another cluster's take jobs from the bridge only (slurm/partitions.h): there the comment
// begins with a second word, which says no more than that.

// What is known of slurmctld's plug-in (td_bridge.passes).
enum { TD_PASSES_UNKNOWN, TD_PASSES_YES, TD_PASSES_NO };
bool td_passes(const struct td_bridge *b);
// The comment of the ask's next submit. Caller frees. raise: it goes past those who wait. elsewhere: its nodes
// are another cluster's.
char *td_passes_comment(struct td_bridge *b, const struct td_link *l, struct td_ask *a, const char *comment, bool raise,
			bool elsewhere);
// Its job was read, and has this comment.
void td_passes_seen(struct td_bridge *b, struct td_ask *a, const char *comment);

// The jobs that wait in Slurm and are no asks of ours, not older than FRESH_MS. At most
// TD_POOL_OTHERS are read.
struct td_others;
struct td_others *td_others_new(void);
struct td_others *td_others_free(struct td_others *o);
// Adds all of them to l. False: there are more, or one is not understood, or Slurm cannot be asked.
bool td_others_read(struct td_bridge *b, struct td_queued *l);
