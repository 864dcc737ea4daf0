#include "pool/record.h"

enum td_pool_fate td_pool_record_fate(const struct td_pool_old_act *r, const struct td_pool_record_rules *rules,
				      size_t lines, size_t bytes, int64_t *ret_again)
{
	if (r->ended < 0 || r->needed)
		return TD_RECORD_STAYS;
	int64_t due = r->ended + rules->compact_ms;
	if (r->begun >= 0 && r->begun + rules->window_ms > due)
		due = r->begun + rules->window_ms;
	if (rules->now < due) {
		*ret_again = due - rules->now;
		return TD_RECORD_STAYS;
	}
	if (rules->now >= r->ended + rules->keep_ms)
		return TD_RECORD_GOES;
	// It was written, and whoever did so ended before it was deleted.
	if (r->line)
		return TD_RECORD_FOLDS;
	if (lines >= rules->most_lines || bytes + r->bytes > rules->most_bytes)
		return TD_RECORD_STAYS;
	return TD_RECORD_FOLDS;
}
