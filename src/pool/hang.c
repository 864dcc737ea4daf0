// When a job hangs.
#include "pool/hang.h"

#include <stdio.h>

const char *const td_pool_sign_names[TD_SIGNS] = {"heartbeat", "output", "cpu", "gpu"};

static bool still(const struct td_pool_hang_look *a, const struct td_pool_hang_look *b, unsigned sign)
{
	int64_t ms = b->at_ms - a->at_ms;
	switch (sign) {
	case TD_SIGN_HEARTBEAT:
		return b->heartbeat >= 0 && b->heartbeat == a->heartbeat;
	case TD_SIGN_OUTPUT:
		return b->output >= 0 && b->output == a->output;
	case TD_SIGN_CPU:
		// Processes that ended took their time with them: what is less than before is something new.
		return a->cpu_ms >= 0 && b->cpu_ms >= a->cpu_ms &&
		       (b->cpu_ms - a->cpu_ms) * 100 <= ms * TD_HANG_CPU_PERCENT;
	default:
		return b->gpu_percent >= 0 && b->gpu_percent < TD_HANG_GPU_PERCENT;
	}
}

bool td_pool_hang(const struct td_pool_hang_rule *r, struct td_pool_hang *state, const struct td_pool_hang_look *now)
{
	bool hangs = r->signs;
	for (unsigned i = 0; i < TD_SIGNS; i++) {
		if (!state->begun || !still(&state->last, now, 1U << i))
			state->moved_ms[i] = now->at_ms;
		if (r->signs >> i & 1 && now->at_ms - state->moved_ms[i] < r->after_ms)
			hangs = false;
	}
	hangs = hangs && state->begun;
	state->begun = true;
	state->last = *now;
	return hangs;
}

bool td_pool_hang_say(struct td_pool_hang_said *s, bool hangs, int64_t now_ms)
{
	if (!hangs || s->told) {
		s->told = hangs;
		return hangs;
	}
	if (!s->times || now_ms - s->since >= TD_HANG_MS)
		*s = (struct td_pool_hang_said){.since = now_ms};
	if (s->times == TD_HANG_TIMES)
		return false;
	s->times++;
	s->told = true;
	return true;
}

void td_pool_hang_words(const struct td_pool_hang_rule *r, char *ret, size_t n)
{
	static const char *const words[TD_SIGNS] = {"heartbeat", "output", "CPU use", "GPU use"};
	size_t len = 0;
	for (unsigned i = 0; i < TD_SIGNS; i++)
		if (r->signs >> i & 1 && len < n)
			len += (size_t)snprintf(ret + len, n - len, "%sno %s", len ? " and " : "", words[i]);
	if (len < n)
		snprintf(ret + len, n - len, " for %lld s", (long long)(r->after_ms / 1000));
}

bool td_pool_hang_all(const struct td_pool_hang_pods *p)
{
	return p->bound > 0 && p->still == p->bound && p->bound + p->over >= p->size;
}
