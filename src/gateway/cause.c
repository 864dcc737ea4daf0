#include "gateway/cause.h"

#include "api/status.h"
#include "gateway/home.h"

#include <stdio.h>
#include <string.h>

enum { LINES = 3, SHELL_SIGNAL = 128, SIGNALS = 64, LINE_MOST = 400 };

// "9 (KILL)".
static void signal_words(struct td_buf *b, int64_t number)
{
	const char *name = number > 0 && number <= SIGNALS ? sigabbrev_np((int)number) : NULL;
	td_buf_printf(b, "%lld%s%s%s", (long long)number, name ? " (" : "", name ? name : "", name ? ")" : "");
}

char *td_gateway_cause(const struct td_gateway_end *e)
{
	struct td_buf b = {0};
	const char *s = e->state ? e->state : "";
	if (!strcmp(s, "failed") && e->signal) {
		td_buf_puts(&b, "ended by signal ");
		signal_words(&b, e->signal);
	} else if (!strcmp(s, "failed") && e->exit_code > SHELL_SIGNAL && e->exit_code <= SHELL_SIGNAL + SIGNALS) {
		// What a shell says of a program that a signal ended.
		td_buf_printf(&b, "exit code %lld: a program was ended by signal ", (long long)e->exit_code);
		signal_words(&b, e->exit_code - SHELL_SIGNAL);
	} else if (!strcmp(s, "failed") && e->exit_code == 127) {
		td_buf_puts(&b, "exit code 127: a command was not found");
	} else if (!strcmp(s, "failed") && e->exit_code) {
		td_buf_printf(&b, "exit code %lld", (long long)e->exit_code);
	} else if (!strcmp(s, "failed")) {
		td_buf_printf(&b, "it could not be run%s%s", e->reason ? ": " : "", e->reason ? e->reason : "");
	} else if (!strcmp(s, "out-of-memory")) {
		td_buf_puts(&b, "it needed more memory than it asked for");
		if (e->memory_mb)
			td_buf_printf(&b, " (%lld MiB of each node)", (long long)e->memory_mb);
	} else if (!strcmp(s, "timeout")) {
		td_buf_puts(&b, "its time limit was reached");
		if (e->minutes)
			td_buf_printf(&b, " (%lld min)", (long long)e->minutes);
	} else if (!strcmp(s, "node-failed")) {
		td_buf_printf(&b, "its node failed%s%s", e->nodes && *e->nodes ? ": " : "", e->nodes ? e->nodes : "");
	} else if (!strcmp(s, "preempted")) {
		td_buf_puts(&b, "preempted by a job of higher priority");
	} else if (!strcmp(s, "cancelled") && td_streq(e->reason, "DependencyNeverSatisfied")) {
		td_buf_printf(&b, "not begun: %s did not end well", e->after ? e->after : "what it waits for");
	} else if (!strcmp(s, "cancelled") && e->held) {
		td_buf_puts(&b, e->held);
	} else if (!strcmp(s, "cancelled")) {
		td_buf_printf(&b, e->by ? "cancelled by %s" : "cancelled (scancel, or an administrator)",
			      e->by ? e->by : "");
	}
	return b.len ? td_buf_take(&b) : NULL;
}

// The last lines of a file of the home that are not empty, as clean text.
static void lines_of(struct td_gateway_ask *q, const char *path, yyjson_mut_doc *d, yyjson_mut_val *step)
{
	td_auto_buf struct td_buf out = {0};
	const struct td_home_call k = {.user = &q->user, .verb = "tail", .args = {path}};
	if (td_home_do(q->g, &k, td_gateway_cancel(q), &out, NULL))
		return;
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, td_buf_str(&out), '\n');
	yyjson_mut_val *a = td_jm_arr(d, step, "lines");
	for (size_t i = l.n > LINES ? l.n - LINES : 0; i < l.n; i++) {
		// What a progress bar writes over is not the last word.
		const char *last = strrchr(l.v[i], '\r'), *from = last && last[1] ? last + 1 : l.v[i];
		td_auto_free char *cut = td_strndup(from, LINE_MOST), *clean = td_text_clean(cut);
		for (char *p = clean; *p; p++)
			if ((unsigned char)*p < ' ')
				*p = ' '; // it is shown on a terminal
		yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, clean));
	}
}

void td_gateway_last_lines(struct td_gateway_ask *q, const yyjson_val *record, yyjson_mut_doc *d, yyjson_mut_val *shown)
{
	yyjson_mut_val *steps = td_jm_get(shown, "steps");
	for (size_t i = 0; i < yyjson_mut_arr_size(steps); i++) {
		yyjson_mut_val *s = yyjson_mut_arr_get(steps, i);
		yyjson_val *entry = yyjson_arr_get(td_jget(record, "jobs"), i);
		const char *state = td_jm_getstr(s, "state"), *log = td_jstr(entry, "log"), *id = td_jstr(record, "id");
		// What was cancelled before it began wrote nothing.
		if (!td_jm_get(s, "cause") || td_jm_get(s, "lines") || !id ||
		    (td_streq(state, "cancelled") && !td_jm_get(s, "on")))
			continue;
		yyjson_mut_val *task = td_jm_get(s, "badTask");
		td_auto_free char *path =
			log    ? td_strdup(log)
			: task ? td_asprintf("tandem/runs/%s/slurm_log/slurm-%lld_%lld.out", id,
					     td_jint(entry, "id", 0), (long long)yyjson_mut_get_sint(task))
			       : td_asprintf("tandem/runs/%s/slurm_log/slurm-%lld.out", id, td_jint(entry, "id", 0));
		lines_of(q, path, d, s);
	}
}
