// Who leads a test of several nodes, and which node is to blame when it failed.
#include "standin/peer.h"

#include <stdlib.h>
#include <string.h>

int td_standin_blame(const struct standin_pairs *p, int *ret_a, int *ret_b)
{
	int well[STANDIN_NODES + 1] = {0}, failed[STANDIN_NODES + 1] = {0};
	*ret_a = *ret_b = -1;
	for (int i = 0; i < p->n; i++)
		for (int j = 0; j < p->n; j++)
			if (i != j) {
				well[i] += p->v[i][j] > 0;
				failed[i] += p->v[i][j] < 0;
			}
	// Where nobody did well with anybody and all were tried with two or more, it is none of them more than another.
	int silent = 0;
	for (int i = 0; i < p->n; i++)
		silent += failed[i] > 1 && !well[i];
	bool nobody = p->n > 2 && silent == p->n;
	// Who did well with anybody has a network; the other end of a pair that failed has none, as far as is known.
	for (int i = 0; i < p->n; i++)
		if (failed[i] && !well[i] && !nobody) {
			bool all_else = failed[i] > 1;
			for (int j = 0; j < p->n && !all_else; j++)
				all_else = p->v[i][j] < 0 && well[j];
			if (all_else)
				return i;
		}
	// Else it is what lies between two, where each of them does well with another, or there is none.
	for (int i = 0; i < p->n; i++)
		for (int j = i + 1; j < p->n; j++)
			if (p->v[i][j] < 0 && *ret_a < 0 && (p->n == 2 || (well[i] && well[j]))) {
				*ret_a = i;
				*ret_b = j;
			}
	return -1;
}

static int less_first(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

double td_standin_slow_below(const double *mbps, int n, int percent, double least)
{
	double v[STANDIN_NODES];
	int k = 0;
	for (int i = 0; i < n && k < STANDIN_NODES; i++)
		if (mbps[i] > 0)
			v[k++] = mbps[i];
	qsort(v, (size_t)k, sizeof(*v), less_first);
	double median = k < 3 ? 0 : k % 2 ? v[k / 2] : (v[k / 2 - 1] + v[k / 2]) / 2, of = median * percent / 100;
	return of > least ? of : least;
}

void td_standin_first_host(const char *list, char *out, size_t n)
{
	size_t len = 0;
	for (const char *p = list; *p && *p != ',' && len + 1 < n; p++) {
		if (*p != '[') {
			out[len++] = *p;
			continue;
		}
		size_t k = strcspn(++p, "-,]");
		for (size_t i = 0; i < k && len + 1 < n; i++)
			out[len++] = p[i];
		p += strcspn(p, "]");
		if (!*p)
			break;
	}
	out[len] = '\0';
}
