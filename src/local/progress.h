// What a person sees while `up` and `down` work: one line per step with its duration, and a bar for
// a slow step.
#pragma once

#include <stdint.h>

struct td_progress {
	int64_t begin_ms, step_ms; // monotonic
	int tty;                   // stdout is a terminal
	int open;                  // a step's line is unfinished (on terminals only)
	char what[80];
};
void td_progress_init(struct td_progress *p);
// Begins a step.
void td_progress_step(struct td_progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Shows progress within a step.
void td_progress_bar(struct td_progress *p, int percent, const char *note);
// Ends a step. An empty text keeps the step's own.
void td_progress_done(struct td_progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void td_progress_fail(struct td_progress *p);
double td_progress_total_s(const struct td_progress *p);
