// When a job hangs, from signs of its progress (docs/health.md). Pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_SIGN_HEARTBEAT = 1, TD_SIGN_OUTPUT = 2, TD_SIGN_CPU = 4, TD_SIGN_GPU = 8 };
#define TD_SIGNS 4
extern const char *const td_pool_sign_names[TD_SIGNS]; // in the order of the bits
enum {
	TD_HANG_CPU_PERCENT = 2, // of one CPU: what a program uses that only waits
	TD_HANG_GPU_PERCENT = 1,
};

// What was seen of a job at one moment. Below 0: it is not known, or there is none.
struct td_pool_hang_look {
	int64_t at_ms;
	int64_t heartbeat, output; // anything that changes when the file does
	int64_t cpu_ms;            // of its processes, since they began
	double gpu_percent;        // the busiest of its devices
};
struct td_pool_hang_rule {
	unsigned signs;   // which of them must all be still
	int64_t after_ms; // for so long
};
struct td_pool_hang {
	bool begun;
	struct td_pool_hang_look last;
	int64_t moved_ms[TD_SIGNS]; // when each sign last showed progress
};
// Goes on from one look to the next. True: none of the rule's signs showed progress for so long, and each of them is
// known. A sign that is not known is progress: a job is not ended for what nobody saw. Several rules may be asked
// of one look.
bool td_pool_hang(const struct td_pool_hang_rule *r, struct td_pool_hang *state, const struct td_pool_hang_look *now);
// How often it was said of a pod that it hangs: whoever stops and goes on all the time would be said again and again.
// Zeroes at first.
enum { TD_HANG_TIMES = 6, TD_HANG_MS = 10 * 60000 };
struct td_pool_hang_said {
	bool told;
	int times;
	int64_t since; // of those that are counted, ms
};
// Is it to be said now? At most TD_HANG_TIMES in TD_HANG_MS; whoever hangs on is said later.
bool td_pool_hang_say(struct td_pool_hang_said *s, bool hangs, int64_t now_ms);
// "no heartbeat and no output for 300 s"
void td_pool_hang_words(const struct td_pool_hang_rule *r, char *ret, size_t n);

struct td_pool_hang_pods { // of one job of pods: a gang, or a pod alone
	int64_t size;
	int64_t bound, still; // those that run, and those of them that show no progress
	int64_t over;         // those that succeeded, or have ended because it hangs
};
// Does it hang? Who waits for another one does nothing either: so all that run must be still, and nobody may be missing
// who is yet to come, or is made anew.
bool td_pool_hang_all(const struct td_pool_hang_pods *p);
