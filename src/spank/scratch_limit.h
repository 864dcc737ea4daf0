// How much a job may hold on a node's disk in its own /tmp and /var/tmp, when that is looked at, and what is done
// about it. Pure. A job that asked for room (--tmp) may hold that much, every other one what spec.scratch.tmpSize
// says.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes, as jobs find them: what root keeps for itself does not count. Where a file system was made for so many files
// and no more, each counts as `each` bytes at least: who makes a tenth of them holds a tenth of the disk.
struct td_scratch_disk {
	int64_t size, free;
	int64_t each; // 0: there may be as many as fit
	int64_t made; // all files there are, as bytes
};
// free_files, files: of the file system; 0: it has no such number. disk->size and free are those of its bytes.
void td_scratch_files(struct td_scratch_disk *disk, int64_t files, int64_t free_files);
// What so many bytes in so many files are.
int64_t td_scratch_charge(const struct td_scratch_disk *disk, int64_t bytes, int64_t files);

// What is known of one job on this node. Times are of the monotonic clock.
struct td_scratch_seen {
	int64_t asked;     // bytes of --tmp, 0: it asked for none, -1: slurmctld has not said yet
	int64_t used;      // bytes at the last look, -1: nobody has looked
	int64_t looked_ms; // when that look ended
	int64_t cost_ms;   // how long it took
	int64_t disk_used; // of the whole disk, when it began
	int64_t disk_made; // all its files then
	bool warned, ended;
};

// A number of bytes, or a share of the disk ("50%", 1 to 100). -1: it is neither.
int64_t td_scratch_bytes(const char *text, int64_t disk);
int64_t td_scratch_limit(const struct td_scratch_seen *j, int64_t usual);
// A look that has not ended has counted so much: it holds that at least.
void td_scratch_more(struct td_scratch_seen *j, int64_t counted);
// Shall somebody look now? A look at few files is made every second. One at many waits: what a job holds grows no
// faster than what the disk holds, so one that has room left for all that was written since the last look is left
// alone, but for once in a while, because what others removed hides what it wrote. Looks at a job take a twentieth of
// a CPU at most.
bool td_scratch_due(const struct td_scratch_seen *j, int64_t usual, const struct td_scratch_disk *disk, int64_t now_ms);
// Must slurmctld be asked what the job asked for? Few jobs hold so much that it matters.
bool td_scratch_ask(const struct td_scratch_seen *j, int64_t usual, const struct td_scratch_disk *disk);
// It holds more than it may.
bool td_scratch_over(const struct td_scratch_seen *j, int64_t usual);
// It comes near, and is told once.
bool td_scratch_near(const struct td_scratch_seen *j, int64_t usual);
// The disk is nearly full, though nobody may be over his limit: a kubelet that keeps its files there would end pods,
// which it thinks hold them.
bool td_scratch_full(const struct td_scratch_disk *disk);
// Then the job goes that holds most beyond what it asked for, if that is a hundredth of the disk: less is no help. One
// at a time: while one ends, and while a large one has not been looked at, nobody goes. Returns its index, or n.
size_t td_scratch_worst(const struct td_scratch_seen *v, size_t n, const struct td_scratch_disk *disk);
// How long slurmctld, which could not end a job, is left alone before it is told again; last_ms: the pause before that,
// 0: there was none.
int64_t td_scratch_pause(int64_t last_ms);
