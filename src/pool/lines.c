#include "pool/lines.h"

// A host acts on its line until it is registered, and when it is no member any more.
static bool host_waits(const struct td_pool_member *m, bool fresh)
{
	return m->host && (!m->matched || (fresh && !m->record) || !m->expected);
}

enum td_pool_line td_pool_line_of(const struct td_pool_member *m, const struct td_pool_line_facts *f)
{
	if (f->devices || host_waits(m, f->fresh))
		return TD_LINE_READ;
	if (f->failed || f->old || (m->record && (m->record->drain || m->record->bad)))
		return TD_LINE_SAYS;
	// Of those that wait for their turn there may be thousands, and the counts say it.
	if (f->message)
		return td_pool_member_waits_turn(m) ? TD_LINE_PLAIN : TD_LINE_SAYS;
	if (m->act != TD_MEMBER_NOTHING)
		return TD_LINE_SAYS;
	if (td_pool_member_off(m) || (!m->keep && !m->pod)) // one that comes on demand, or is not wanted
		return TD_LINE_PLAIN;
	if (f->fresh && !td_pool_member_registered(m))
		return TD_LINE_SAYS;
	return m->host || (m->pod && m->updated) ? TD_LINE_PLAIN : TD_LINE_SAYS;
}

size_t td_pool_lines_choose(const enum td_pool_line *v, size_t n, bool *ret_show)
{
	size_t shown = 0;
	for (size_t i = 0; i < n; i++) {
		ret_show[i] = n <= TD_POOL_LINES_ALL || v[i] == TD_LINE_READ;
		shown += ret_show[i];
	}
	for (size_t i = 0; i < n && shown < TD_POOL_LINES_MOST; i++)
		if (!ret_show[i] && v[i] == TD_LINE_SAYS) {
			ret_show[i] = true;
			shown++;
		}
	return n - shown;
}
