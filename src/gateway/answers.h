// How the server of a session answers: how many requests wait at it, and how long the last ones took.
// Pure memory of one session; whoever has it guards it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TD_ANSWERS_KEPT = 256, TD_ANSWERS_WINDOW_MS = 5 * 60000 };

struct td_answers {
	int in_flight;  // asked and not answered
	uint64_t total; // answered, ever
	struct {
		int64_t at;   // ms, when it was answered
		uint32_t ms;  // how long it took
	} v[TD_ANSWERS_KEPT]; // a ring: the newest is v[(total - 1) % TD_ANSWERS_KEPT]
};

struct td_answers_said {
	int in_flight;
	uint64_t total;
	uint32_t recent; // answers within the window, TD_ANSWERS_KEPT at most: what the figures below are of
	int64_t over_ms; // the time that these lie in: the window, or less when there were more than are kept
	uint32_t p50_ms, p95_ms, max_ms;
};

void td_answers_asked(struct td_answers *a);
void td_answers_done(struct td_answers *a, int64_t now_ms, int64_t took_ms);
void td_answers_say(const struct td_answers *a, int64_t now_ms, struct td_answers_said *ret);
