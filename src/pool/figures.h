// What a node's test measured, compared with the others of its group (docs/health.md). Pure, as pool.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// The least that a node must reach: percent of the median of v, what the others measured. 0: they are fewer than `least`, or
// percent is 0, so nothing is compared. *ret_median: of an even number the mean of the two in the middle.
double td_pool_figures_least(const double *v, size_t n, int percent, size_t least, double *ret_median);

// The figures that are compared, as they are called in what a test says.
enum td_figure {
	TD_FIGURE_GFLOPS,
	TD_FIGURE_MEMORY,
	TD_FIGURE_DISK_WRITE,
	TD_FIGURE_DISK_READ,
	TD_FIGURE_LINKS,
	TD_FIGURES
};
extern const char *const td_pool_figure_names[TD_FIGURES]; // "gflops", "memoryMBps", …
struct td_pool_figure_want {
	double least; // 0: nothing is asked for
	bool floor;   // it is the floor that the site sets, not the others' median
	double median;
};
// What a node must reach of one figure: the floor, or percent of the others' median where that is more.
void td_pool_figures_want(const double *v, size_t n, int percent, size_t least, double floor,
			  struct td_pool_figure_want *ret);
