// When a job that was queued again begins (again.h).
#include "pool/again.h"

#include "base/mem.h"

#include <inttypes.h>

// SLURM_S: Slurm's own pause (AuthInfo=cred_expire and 1 s); it is a second shorter where the job was queued again in the
// second in which it had been submitted. FIRST_S: ours, after KillWait. It doubles with each time in a row, so that a job
// that fails at its start, or a node that refuses it, costs Slurm no more than before. ROW_S: whoever ran, or waited,
// for so long since the last time begins anew. LATE_S: a begin that is as near comes by itself.
enum { SLURM_S = 121, FIRST_S = 5, ROW_S = 600, LATE_S = 2, ROW_MOST = 3, DAY_S = 86400 };

struct td_pool_again_plan td_pool_again(const struct td_pool_again *f)
{
	struct td_pool_again_plan p = {.what = TD_AGAIN_LEAVE, .past = f->past};
	int64_t pause = f->begin_s - f->submit_s;
	if (!f->waits || !f->batch || f->shared || f->restarts <= 0 || pause < SLURM_S - 1 || pause > SLURM_S ||
	    f->begin_s - f->now_s <= LATE_S)
		return p;
	if (f->held || f->node_back || f->behind) {
		p.what = TD_AGAIN_LOOK;
		return p;
	}
	// Looked at twice it is the same, also where a request's answer was lost.
	if (f->past.submit_s != f->submit_s) {
		bool soon = f->past.row > 0 && f->submit_s - f->past.begin_s < ROW_S;
		int64_t row = !soon ? 1 : f->past.row > ROW_MOST ? f->past.row : f->past.row + 1;
		p.past = (struct td_pool_again_past){.submit_s = f->submit_s, .begin_s = f->begin_s, .row = row};
		if (row <= ROW_MOST)
			p.past.begin_s = f->submit_s + ((f->kill_s + FIRST_S) << (row - 1));
	}
	p.in_s = p.past.begin_s - f->now_s;
	p.what = p.past.row > ROW_MOST || p.past.begin_s >= f->begin_s ? TD_AGAIN_LEAVE
		 : p.in_s > 0                                          ? TD_AGAIN_LOOK
								       : TD_AGAIN_BEGIN;
	return p;
}

const char *td_pool_again_name(enum td_pool_again_do d)
{
	static const char *const names[] = {"leave", "look", "begin"};
	return (size_t)d < TD_LEN(names) ? names[d] : "?";
}

char *td_pool_again_words(const struct td_pool_again_past *p, int64_t submit_s)
{
	if (!p->row || p->submit_s != submit_s)
		return NULL;
	int64_t s = submit_s % DAY_S, pause = p->begin_s - submit_s;
	td_auto_free char *when = td_asprintf("It was queued again at %02" PRId64 ":%02" PRId64 ":%02" PRId64 " UTC",
					      s / 3600, s / 60 % 60, s % 60);
	if (p->row > ROW_MOST)
		return td_asprintf(
			"%s, and begins after Slurm's two minutes: it was queued again %d times in a row, each "
			"time soon after it had begun.",
			when, ROW_MOST);
	if (p->row > 1)
		return td_asprintf("%s, and begins %" PRId64
				   " s later instead of Slurm's two minutes: it was queued again "
				   "%" PRId64 " times in a row.",
				   when, pause, p->row);
	return td_asprintf("%s, and begins %" PRId64 " s later instead of Slurm's two minutes.", when, pause);
}
