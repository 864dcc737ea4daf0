// What a pod says of its steps in its own log, "tandem-beat STEP SECONDS", and what its node's agent makes of it
// (docs/health.md). Pure. A beat costs nothing beyond its node: the agent keeps, of every `steps` steps, the shortest time
// that the pod computed in one of them, and says it on the pod only when it is another one than before.
#pragma once

#include "pool/straggle.h"

struct td_pool_beat {
	int64_t step, us; // us: that it computed itself. -1: it does not say
};
// Reads a line of a log, n bytes. False: it is no beat. The word stands at its begin, so that what others have a program
// log, such as the path of a request, is none.
bool td_pool_beat(const char *line, size_t n, struct td_pool_beat *ret);

// What was seen of one pod. Zeroes at first.
struct td_pool_beats {
	int64_t n;    // beats
	int64_t last; // the step that it said last; -1 only where it said beats without one
	bool mid[2];  // a line of stdout or stderr goes on: what comes next is no line's begin
	// Windows of `steps` steps, at the same steps in every pod of a gang, wherever the agents began to read.
	int64_t stride, window, least_us;
	int seen;
	int64_t pace_us, pace_step; // of the last whole window; 0 us: there is none yet
};
void td_pool_beats_add(struct td_pool_beats *s, const struct td_pool_beat *b, int steps);
// Reads whole lines in the form of a kubelet's log, "<time> stdout F <text>". Returns how many bytes were taken: all up to
// the last line's end.
size_t td_pool_beats_read(struct td_pool_beats *s, const char *text, size_t n, int steps);

// What was said of a pod's pace. Zeroes at first.
struct td_pool_pace_said {
	int64_t us;    // 0: nothing; -1: that it changes all the time
	int64_t since; // of those that are counted, ms
	int times;
};
enum {
	TD_PACE_PERCENT = 10, // less of a change is not said
	TD_PACE_TIMES = 6,    // so often in TD_PACE_MS; the last one says that it changes all the time
	TD_PACE_MS = 10 * 60000,
};
enum td_pool_pace_do { TD_PACE_NOTHING, TD_PACE_SAY, TD_PACE_UNSTEADY };
// What is to be said now.
enum td_pool_pace_do td_pool_pace_next(const struct td_pool_pace_said *s, int64_t us, int64_t now_ms);
// It was said: us, or -1.
void td_pool_pace_done(struct td_pool_pace_said *s, int64_t us, int64_t now_ms);
