#include "pool/place.h"

enum { LEAST_MILLI = 1, MIB = 1 << 20 }; // as the operator makes it

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

struct td_pool_place td_pool_place_for(struct td_pool_place native, struct td_pool_place now, struct td_pool_place left,
				       bool *ret_cut)
{
	const struct td_pool_place want = {most(native.milli, LEAST_MILLI), most(native.memory, MIB)},
				   top = {most(left.milli, now.milli), most(left.memory / MIB * MIB, now.memory)};
	*ret_cut = want.milli > top.milli || want.memory > top.memory;
	return (struct td_pool_place){least(want.milli, top.milli), least(want.memory, top.memory)};
}

struct td_pool_place td_pool_place_shrunk(struct td_pool_place now, struct td_pool_place left)
{
	return (struct td_pool_place){least(now.milli, most(left.milli, LEAST_MILLI)),
				      least(now.memory, most(left.memory / MIB * MIB, MIB))};
}

bool td_pool_place_fits(struct td_pool_place counted, struct td_pool_place left)
{
	return counted.milli <= left.milli && counted.memory <= left.memory;
}
