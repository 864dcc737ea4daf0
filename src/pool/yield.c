#include "pool/yield.h"

#include "base/mem.h"
#include "pool/notes.h"

#include <string.h>

enum td_yield td_yield_of(const char *state)
{
	static const struct {
		const char *state;
		enum td_yield what;
	} of[] = {{"COMPLETED", TD_YIELD_USEFUL},    {"RUNNING", TD_YIELD_USEFUL},      {"SUSPENDED", TD_YIELD_USEFUL},
		  {"COMPLETING", TD_YIELD_USEFUL},   {"NODE_FAIL", TD_YIELD_FAILURE},   {"BOOT_FAIL", TD_YIELD_FAILURE},
		  {"PREEMPTED", TD_YIELD_PREEMPTED}, {"preflight", TD_YIELD_PREFLIGHT}, {"REQUEUED", TD_YIELD_REQUEUED},
		  {"FAILED", TD_YIELD_OWN},          {"OUT_OF_MEMORY", TD_YIELD_OWN}};
	for (size_t i = 0; i < TD_LEN(of); i++)
		if (!strcmp(of[i].state, state))
			return of[i].what;
	return TD_YIELD_CUT;
}

bool td_yield_lost(enum td_yield y)
{
	return y != TD_YIELD_USEFUL && y != TD_YIELD_CUT;
}

const char *td_yield_state(const char *state, const char *admin_comment, int64_t seconds)
{
	enum { SOON_S = 120 };
	if (!strcmp(state, "REQUEUED") && seconds < SOON_S && strstr(admin_comment, "tandem: pre-flight failed"))
		return "preflight";
	struct td_notes n;
	if (!strcmp(state, "FAILED") && td_notes_read(admin_comment, &n) && !strcmp(n.end, "preempted"))
		return "PREEMPTED"; // a stand-in that ended with its pod's code
	if ((strcmp(state, "CANCELLED") != 0 && strcmp(state, "COMPLETED") != 0) || !td_notes_read(admin_comment, &n))
		return state;
	if (!strcmp(n.end, "preempted"))
		return "PREEMPTED";
	return !strcmp(n.end, "failed") ? "FAILED" : !strcmp(n.end, "succeeded") ? "COMPLETED" : state;
}
