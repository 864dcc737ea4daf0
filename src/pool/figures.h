// What a node's test measured, compared with the others of its group (docs/health.md). Pure, as pool.h.
#pragma once

#include <stddef.h>

// The least that a node must reach: percent of the median of v, what the others measured. 0: they are fewer than `least`, or
// percent is 0, so nothing is compared. *ret_median: of an even number the mean of the two in the middle.
double td_pool_figures_least(const double *v, size_t n, int percent, size_t least, double *ret_median);
