#include "pool/figures.h"

#include "base/mem.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double td_pool_figures_least(const double *v, size_t n, int percent, size_t least, double *ret_median)
{
	*ret_median = 0;
	if (!n || n < least || percent <= 0)
		return 0;
	td_auto_free double *sorted = td_calloc(n, sizeof(*sorted));
	for (size_t i = 0; i < n; i++)
		sorted[i] = v[i];
	qsort(sorted, n, sizeof(*sorted), by_size);
	*ret_median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
	return *ret_median * percent / 100;
}

const char *const td_pool_figure_names[TD_FIGURES] = {"gflops", "memoryMBps", "diskWriteMBps", "diskReadMBps",
						      "linkMbps"};

void td_pool_figures_want(const double *v, size_t n, int percent, size_t least, double floor,
			  struct td_pool_figure_want *ret)
{
	*ret = (struct td_pool_figure_want){0};
	ret->least = td_pool_figures_least(v, n, percent, least, &ret->median);
	if (floor > 0 && floor >= ret->least) {
		ret->least = floor;
		ret->floor = true;
	}
}
