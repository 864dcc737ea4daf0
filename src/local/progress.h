// What a person sees while `up` and `down` work: one line per step with the time it took, a bar for the one slow step.
#pragma once

#include <stdint.h>

struct td_progress {
	int64_t begin_ms, step_ms; // monotonic
	int tty;                   // stdout is a terminal
	int open;                  // a step's line is unfinished (terminals only)
	char what[80];
};
void td_progress_init(struct td_progress *p);
void td_progress_step(struct td_progress *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));                              // begins a step
void td_progress_bar(struct td_progress *p, int percent, const char *note); // within a step
void td_progress_done(struct td_progress *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3))); // "" keeps the step's text
void td_progress_fail(struct td_progress *p);
double td_progress_total_s(const struct td_progress *p);
