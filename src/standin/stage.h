// `stage`: checkpoints on a node's own disk, kept on shared storage (docs/checkpoints.md). All of it runs with the
// rights of whoever started it. libc only.
//
// KEPT, the directory on shared storage, has:
//   NAME                  a whole checkpoint; of a program of one part it is a copy of what the program wrote
//   NAME/part-P           of a program of several parts: the copy of part P, with
//   NAME/.tandem-parts    how many parts, and files and bytes of each
//   .new-ATTEMPT.N.NAME   being copied by this attempt of a program of N parts: never looked at by another one
//   .old-NAME             what NAME was, while another one takes its place
//   .gone-NAME            being removed
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// stage_tree.c. A file, link or directory with all that is below it. `dir` is a descriptor, `name` an entry of it; links
// are never followed. -1: errno says why.
struct stage_seen {
	uint64_t stamp; // changes when anything of it does; never 0
	int64_t when_ns;
	uint64_t bytes, files;
	bool directory;
};
int td_stage_look(int dir, const char *name, struct stage_seen *ret);
// Copies it to a name that is not there, all of it on the disk when this returns. Modes and times are kept, owners not.
// What is neither file, link nor directory is ENOTSUP.
int td_stage_copy(int from_dir, const char *from, int to_dir, const char *to);
int td_stage_remove(int dir, const char *name); // one that is not there is removed
// A directory and those above it; returns a descriptor.
int td_stage_open(const char *path);

// The entries of a directory that are checkpoints, the oldest first: what begins with a dot, or ends with .tmp, .part
// or .partial, is none.
struct stage_list {
	struct stage_one {
		char *name;
		struct stage_seen seen;
	} *one;
	int n;
	int unseen; // errno of one that is there and cannot be looked at, and so is not among them; 0: there is none
};
int td_stage_list(int dir, struct stage_list *ret);
void td_stage_list_done(struct stage_list *l);

// stage_keep.c. What one process keeps.
struct stage_keeper {
	const char *local, *kept; // directories
	int keep;                 // so many checkpoints stay
	int part, parts;
	const char *
		attempt; // letters, digits, - and _: the same of all parts, another one after each start of the program
	// A checkpoint that another number of processes wrote: its parts are put together, as copies or as links to those
	// that are kept; or the program does not start.
	enum { STAGE_COPY, STAGE_LINK, STAGE_REFUSE } reshard;
	struct stage_entry *entries;
};
// Takes away what another attempt left half, and puts back what it had moved. 0, or -1 with errno.
int td_stage_tidy(struct stage_keeper *k);
// Brings to the local directory what is kept: of a checkpoint in parts the own one, or all, where their number is another
// one than that of the processes. 0; -1: it said why.
int td_stage_restore(struct stage_keeper *k);
// Keeps what is whole: what did not change since the last look, or with `all` everything. False: something is not kept.
bool td_stage_once(struct stage_keeper *k, bool all);

// stage_parts.c. A checkpoint of several parts, in `kept` (a descriptor).
// The own part of it, as it was seen, is there. -1 with errno; EAGAIN: it changed meanwhile.
int td_stage_part(struct stage_keeper *k, int kept, int local, const struct stage_one *one);
// Takes the own part away because it changed. False: the checkpoint is whole, or becomes it right now.
bool td_stage_withdraw(struct stage_keeper *k, int kept, const char *name);
// 1: it is whole; 0: parts are missing; -1 with errno. io_lack: one that was missing at the last look; 0 at first.
int td_stage_commit(struct stage_keeper *k, int kept, const char *name, int *io_lack);
// The parts that are missing, as far as they fit; "": none.
void td_stage_missing(struct stage_keeper *k, int kept, const char *name, char ret[64]);
// How many parts a kept one has, and what of them is in the own one: 1; 0: it is not in parts; -1: it cannot be read.
int td_stage_parts_read(int kept, const char *name, int part, int *ret_parts, struct stage_seen *ret);
// The same for who wants several: the list of what is in which, and from there on what is in this part. In the order of
// parts. -1 with errno.
int td_stage_parts_open(int kept, const char *name, int *ret_parts, FILE **ret);
int td_stage_parts_next(FILE *f, int part, struct stage_seen *ret);
// new takes the place of NAME.
int td_stage_replace(int kept, const char *new, const char *name);
// ".new-ATTEMPT.N.NAME". -1: ENAMETOOLONG.
int td_stage_new_name(const struct stage_keeper *k, const char *name, char ret[256]);

// stage_merge.c. Makes NAME in `local` of all its parts. -1 with errno; ERANGE: it said why they do not go together.
int td_stage_merge(struct stage_keeper *k, int kept, int local, const char *name, int parts);
// Are there links in it to what is kept, as STAGE_LINK makes them? A copy of it would be links, too, and could take the
// place of the files that they lead to.
bool td_stage_is_links(const struct stage_keeper *k, int local, const char *name);

// stage_signal.c. Sends it to every process below `top` that has a handler for it. Returns to how many.
int td_stage_tell(int top, int sig);
int td_stage_signal_number(const char *name); // "USR1" or "SIGUSR1"; 0: unknown

void td_stage_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
