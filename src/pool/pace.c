// What a pod says of its steps.
#include "pool/pace.h"

#include <string.h>

enum { DIGITS = 15, SECONDS_MAX = 1000000, FRACTION = 6 };

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

// Returns how many digits there are at s, or 0: none, or too many.
static size_t number(const char *s, size_t n, size_t most, int64_t *ret)
{
	size_t k = 0;
	for (*ret = 0; k < n && digit(s[k]); k++) {
		if (k == most)
			return 0;
		*ret = *ret * 10 + (s[k] - '0');
	}
	return k;
}

// "0.482" in us; what is less than one is cut off. -1: it is not that.
static int64_t seconds(const char *s, size_t n)
{
	int64_t whole, us = 0;
	size_t k = number(s, n, FRACTION + 1, &whole), at = k + 1;
	if (!k || whole > SECONDS_MAX)
		return -1;
	if (k == n)
		return whole * 1000000;
	if (s[k] != '.' || at == n)
		return -1;
	for (size_t i = 0; i < FRACTION; i++)
		us = us * 10 + (at + i < n && digit(s[at + i]) ? s[at + i] - '0' : 0);
	while (at < n && digit(s[at]))
		at++;
	return at == n ? whole * 1000000 + us : -1;
}

bool td_pool_beat(const char *line, size_t n, struct td_pool_beat *ret)
{
	static const char word[] = "tandem-beat";
	size_t len = sizeof(word) - 1;
	while (n && (line[n - 1] == '\r' || line[n - 1] == ' '))
		n--;
	if (n < len || memcmp(line, word, len) != 0 || (n > len && line[len] != ' '))
		return false;
	*ret = (struct td_pool_beat){-1, -1};
	const char *s = line + len + 1;
	n = n > len ? n - len - 1 : 0;

	int64_t step;
	size_t k = number(s, n, DIGITS, &step);
	if (!k || (k < n && s[k] != ' '))
		return true; // a beat, whatever else it says
	ret->step = step;
	if (k < n)
		ret->us = seconds(s + k + 1, n - k - 1);
	return true;
}

void td_pool_beats_add(struct td_pool_beats *s, const struct td_pool_beat *b, int steps)
{
	bool first = !s->n;
	int64_t gap = first || s->last < 0 ? 0 : b->step - s->last;
	s->n++;
	s->last = b->step < 0 && !first ? s->last : b->step;
	if (b->step < 0 || b->us < 0)
		return;
	if (gap < 0) // it went on from a checkpoint
		s->seen = 0, s->pace_us = 0;
	if (gap > 0)
		s->stride = gap;
	// Who says every tenth step has windows of ten times as many.
	int64_t window = b->step / ((s->stride ? s->stride : 1) * steps);
	if (s->seen && window != s->window) {
		if (s->seen >= (steps + 1) / 2) {
			s->pace_us = s->least_us ? s->least_us : 1;
			s->pace_step = b->step - gap;
		}
		s->seen = 0;
	}
	s->window = window;
	s->least_us = s->seen && s->least_us < b->us ? s->least_us : b->us;
	s->seen++;
}

// One line of the file, without its end.
static void log_line(struct td_pool_beats *s, const char *p, size_t n, int steps)
{
	struct td_pool_beat b;
	const char *sp = memchr(p, ' ', n), *end = p + n;
	if (!sp || end - sp < (long)sizeof(" stdout F") - 1)
		return;
	bool err = !memcmp(sp, " stderr ", 8);
	if (!err && memcmp(sp, " stdout ", 8) != 0)
		return;
	const char *tag = sp + 8, *text = tag + 1;
	bool begins = !s->mid[err];
	s->mid[err] = *tag == 'P';
	// After the tag a space, and the text; a part of a line may be no beat.
	if (begins && *tag == 'F' && text < end && *text == ' ' && td_pool_beat(text + 1, (size_t)(end - text - 1), &b))
		td_pool_beats_add(s, &b, steps);
}

size_t td_pool_beats_read(struct td_pool_beats *s, const char *text, size_t n, int steps)
{
	size_t at = 0;
	for (const char *nl; at < n && (nl = memchr(text + at, '\n', n - at)) != NULL; at = (size_t)(nl - text) + 1)
		log_line(s, text + at, (size_t)(nl - text) - at, steps);
	return at;
}

static bool counted(const struct td_pool_pace_said *s, int64_t now_ms)
{
	return s->times && now_ms - s->since < TD_PACE_MS;
}

enum td_pool_pace_do td_pool_pace_next(const struct td_pool_pace_said *s, int64_t us, int64_t now_ms)
{
	int64_t differs = us > s->us ? us - s->us : s->us - us;
	if (us <= 0)
		return TD_PACE_NOTHING;
	if (s->us > 0 && (differs < TD_STRAGGLE_LEAST_US || differs * 100 < s->us * TD_PACE_PERCENT))
		return TD_PACE_NOTHING;
	if (!counted(s, now_ms))
		return TD_PACE_SAY;
	if (s->times + 1 < TD_PACE_TIMES)
		return TD_PACE_SAY;
	return s->us < 0 ? TD_PACE_NOTHING : TD_PACE_UNSTEADY;
}

void td_pool_pace_done(struct td_pool_pace_said *s, int64_t us, int64_t now_ms)
{
	if (!counted(s, now_ms))
		*s = (struct td_pool_pace_said){.since = now_ms};
	s->us = us;
	s->times++;
}
