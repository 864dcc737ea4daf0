// Which rank of a job is slower than the others, step after step (docs/health.md). Pure. A slow rank looks busy, and so
// do those that wait for it: only how long each computed itself tells them apart, and only the ranks know that.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TD_STRAGGLE_RANKS = 4096, // ranks from there on are not looked at
	TD_STRAGGLE_LEAST = 3,    // of two, nobody can say which one is slow
	TD_STRAGGLE_APART = 2,    // steps between a rank and the median: who is farther off is of another run, or alone
	TD_STRAGGLE_LEAST_US = 500, // less than that is noise, however short a step is
	TD_STRAGGLE_NODE = 64,
};

// What a rank says of its last step.
struct td_pool_pace {
	int rank;
	int64_t step, us; // that it computed itself, without waiting for others
	int gpu;          // -1: it does not say
	char node[TD_STRAGGLE_NODE];
};
struct td_pool_straggle_rule {
	int percent; // of the median, above 100: from there on a rank is slow
	int steps;   // so many that were seen one after the other
};
struct td_pool_straggle_rank {
	bool begun, told;
	int64_t step;
	int slow, well; // steps seen one after the other
};
// The state of one native job: zeroes at first.
struct td_pool_straggle {
	struct td_pool_straggle_rank rank[TD_STRAGGLE_RANKS];
};
struct td_pool_straggler {
	struct td_pool_pace pace;
	int64_t median_us;
	int ranks; // that were compared
};

// Goes on by one look; state has an entry for each rank that v names. True: *ret is a rank that is slow for so many
// steps and was not told of before; of several it is the slowest, and the others come with the next looks. Who is told of
// can be again when it was well for as many steps.
// - A step counts once, and only where three ranks or more are at about the same one.
// - Where most are slow, nobody is: the median says what is usual.
bool td_pool_straggle(const struct td_pool_straggle_rule *r, struct td_pool_straggle_rank *state,
		      const struct td_pool_pace *v, size_t n, struct td_pool_straggler *ret);
// "rank 2 on n1 (gpu0) computes 3.1 times as long as the others (step 40: 1.55 s, median of 8 ranks 0.5 s)"
void td_pool_straggle_words(const struct td_pool_straggler *s, char *ret, size_t n);
// The same of a pod of a gang: "pod train-2 on n1 computes 3.1 times as long as the others (step 40: 1.55 s, median of 8
// pods 0.5 s)"
void td_pool_straggle_pod_words(const struct td_pool_straggler *s, const char *pod, char *ret, size_t n);
// By how much the GPUs of ranks computed, 0 to 1 each, where the ranks say nothing themselves: who waits for others does
// so in a loop on his GPU, and looks busy; whose GPU idles meanwhile waits for something else, such as its data. Marks
// those whose figure is so much below the median that the median is `percent` of it or more. Returns the median. Nobody
// is slow where the median is below TD_STRAGGLE_WORKS, or of fewer than TD_STRAGGLE_LEAST.
#define TD_STRAGGLE_WORKS 0.2
double td_pool_straggle_use(int percent, const double *use, size_t n, bool *ret_slow);
// Reads "rank:step:µs:node:gpu,…", as `tandem-standin watch` says it, at most max; what is wrong is left out.
size_t td_pool_paces(const char *text, struct td_pool_pace *v, size_t max);
