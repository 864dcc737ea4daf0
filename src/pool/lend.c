// Devices that pods of other schedulers have (lend.h).
#include "pool/lend.h"

#include <string.h>

static int64_t count(uint64_t mask)
{
	int64_t n = 0;
	for (; mask; mask &= mask - 1)
		n++;
	return n;
}

void td_pool_lend_sum(const struct td_pool_lend_pod *v, size_t n, struct td_pool_lend *ret)
{
	*ret = (struct td_pool_lend){0};
	for (size_t i = 0; i < n; i++) {
		ret->want |= v[i].has;
		ret->any += !v[i].has && v[i].want > 0 ? (size_t)v[i].want : 0;
	}
}

size_t td_pool_lend_next(const struct td_pool_lend_pod *v, size_t n, uint64_t spare, uint64_t *ret)
{
	size_t who = n;
	for (size_t i = 0; i < n; i++) {
		if (v[i].has || v[i].want <= 0)
			continue;
		if (who == n || v[i].since < v[who].since ||
		    (v[i].since == v[who].since && strcmp(v[i].named, v[who].named) < 0))
			who = i;
	}
	*ret = 0;
	if (who == n || count(spare) < v[who].want)
		return n;
	for (int64_t k = 0; k < v[who].want; k++) { // the lowest
		*ret |= spare & -spare;
		spare &= spare - 1;
	}
	return who;
}
