// Turning a cluster's keys over (keys.h).
#include "pool/keys.h"

enum td_pool_keys td_pool_keys_next(const struct td_pool_keys_facts *f)
{
	switch (f->last) {
	case TD_KEYS_SPREAD:
		return f->seen && f->age_ms >= f->spread_ms ? TD_KEYS_USE : TD_KEYS_KEEP;
	case TD_KEYS_USE:
		return f->seen && f->age_ms >= f->spread_ms + f->overlap_ms ? TD_KEYS_DROP : TD_KEYS_KEEP;
	default:
		return f->wanted > f->has ? TD_KEYS_SPREAD : TD_KEYS_KEEP;
	}
}
