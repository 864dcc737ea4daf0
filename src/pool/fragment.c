// Devices that are free on nodes too cut up for who waits.
#include "pool/fragment.h"

int64_t td_pool_fragmented(const struct td_pool_fragment_node *v, size_t n, int64_t want)
{
	int64_t sum = 0;
	for (size_t i = 0; i < n; i++) {
		int64_t need = want > 0 ? want : v[i].total;
		if (v[i].usable && v[i].free > 0 && need <= v[i].total && v[i].free < need)
			sum += v[i].free;
	}
	return sum;
}
