// How a job goes, in words (cli/client.h).
#include "cli/client.h"

#include "base/clock.h"

#include <string.h>

enum { FAR_S = 300 * 86400 };

static void because(const yyjson_val *o, struct td_buf *ret)
{
	if (td_jstr(o, "why"))
		td_buf_printf(ret, ", because %s%s%s", td_jstr_or(o, "node", ""), td_jstr(o, "node") ? ": " : "",
			      td_jstr(o, "why"));
}

static void again(const yyjson_val *job, struct td_buf *ret)
{
	const yyjson_val *o = td_jget(job, "again");
	long long times = td_jint(job, "restarts", 0);
	char when[32];
	if (times <= 0)
		return;
	td_buf_printf(ret, "%squeued again", ret->len ? "; " : "");
	if (times > 1)
		td_buf_printf(ret, " %lld times", times);
	if (td_jint(o, "at", 0))
		td_buf_printf(ret, "%s at %s", times > 1 ? ", the last time" : "",
			      td_client_when(td_jint(o, "at", 0), when, sizeof(when)));
	because(o, ret);
	if (td_jstr(o, "checkpoint"))
		td_buf_printf(ret, "; goes on from checkpoint %s", td_jstr(o, "checkpoint"));
}

static void seen(const yyjson_val *o, struct td_buf *ret)
{
	char when[32];
	if (td_jint(o, "seen", 0))
		td_buf_printf(ret, " (seen %s)", td_client_when(td_jint(o, "seen", 0), when, sizeof(when)));
}

void td_client_progress(const yyjson_val *job, const char *dir, struct td_buf *ret)
{
	const yyjson_val *hangs = td_jget(job, "hangs"), *slow = td_jget(job, "straggler");
	td_auto_buf struct td_buf b = {0};
	size_t i, n;
	yyjson_val *f;
	if (td_jget(job, "task") && (hangs || slow || td_jget(job, "again")))
		td_buf_printf(&b, "task %lld: ", td_jint(job, "task", 0));
	const size_t begin = b.len;
	if (hangs) {
		td_buf_printf(&b, "hangs on %s: %s", td_jstr_or(hangs, "node", "?"), td_jstr_or(hangs, "words", ""));
		seen(hangs, &b);
		yyjson_arr_foreach (td_jget(hangs, "stacks"), i, n, f)
			td_buf_printf(&b, "%s%s%s", i ? ", " : ", stacks: ", dir, yyjson_get_str(f));
	}
	if (slow) {
		td_buf_printf(&b, "%swaits for a slow rank: %s", b.len > begin ? "; " : "",
			      td_jstr_or(slow, "words", "?"));
		seen(slow, &b);
	}
	td_auto_buf struct td_buf a = {0};
	again(job, &a);
	if (a.len)
		td_buf_printf(&b, "%s%s", b.len > begin ? "; " : "", td_buf_str(&a));
	if (b.len > begin)
		td_buf_printf(ret, "%s%s", ret->len ? "; " : "", td_buf_str(&b));
}

const char *td_client_state(const yyjson_val *job)
{
	const char *state = td_jstr_or(job, "state", "unknown");
	if (strcmp(state, "running") != 0)
		return state;
	return td_jget(job, "hangs") ? "hangs" : td_jget(job, "straggler") ? "slow" : state;
}

enum td_term_color td_client_color(const char *state)
{
	return !strcmp(state, "done") || !strcmp(state, "running") || !strcmp(state, "ready") ? TD_TERM_GOOD
	       : !strcmp(state, "waiting") || !strcmp(state, "starting") || !strcmp(state, "reclaimed") ||
			       !strcmp(state, "suspended")
		       ? TD_TERM_WARN
	       : !strcmp(state, "unknown") ? TD_TERM_PLAIN
					   : TD_TERM_BAD;
}

void td_client_waits(const yyjson_val *job, struct td_buf *ret)
{
	char when[32];
	long long expected = td_jint(job, "expected", 0);
	td_buf_puts(ret, td_jstr_or(job, "words", ""));
	// A job without a time limit counts as one of a year.
	if (expected - td_real_ms(&td_clock_system) / 1000 > FAR_S)
		td_buf_puts(ret, "; nobody can say when, because those before it have no time limit");
	else if (expected)
		td_buf_printf(ret, "; expected at %s", td_client_when(expected, when, sizeof(when)));
}

void td_client_job_says(const yyjson_val *job, struct td_buf *ret)
{
	const char *state = td_client_state(job), *words = td_jstr_or(job, "words", "");
	char when[32];
	td_buf_printf(ret, "Job %lld", td_jint(job, "array", td_jint(job, "id", 0)));
	if (td_jstr(job, "tasks"))
		td_buf_printf(ret, "_[%s]", td_jstr(job, "tasks"));
	else if (td_jint(job, "array", 0))
		td_buf_printf(ret, "_%lld", td_jint(job, "task", 0));
	td_buf_printf(ret, " (%s, user %s): %s", td_jstr_or(job, "name", ""), td_jstr_or(job, "user", "?"), state);
	if (!strcmp(state, "waiting")) {
		td_buf_puts(ret, "; ");
		td_client_waits(job, ret);
	} else if (td_jint(job, "ended", 0)) {
		td_buf_printf(ret, " at %s%s%s", td_client_when(td_jint(job, "ended", 0), when, sizeof(when)),
			      *words ? ": " : "", words);
	} else {
		size_t i, n;
		yyjson_val *o;
		if (td_jint(job, "started", 0))
			td_buf_printf(ret, " since %s", td_client_when(td_jint(job, "started", 0), when, sizeof(when)));
		yyjson_arr_foreach (td_jget(job, "on"), i, n, o)
			td_buf_printf(ret, "%s%s", i ? ", " : " on ", td_jstr_or(o, "node", ""));
	}
	td_client_progress(job, "", ret);
	td_buf_puts(ret, ".");
}
