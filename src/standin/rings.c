// The test of several idle nodes, as the agent of the first one wants it (docs/health.md): `watch` is told of it, and a process
// of its own does it, because a look must not wait. The agent says before each step whether it is still wanted.
#include "standin/standin.h"
#include "standin/wire.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RING_TEST_MS = 55000, RING_ASK_MS = 5000, RING_KIB_MAX = 64 << 10 };

struct ring_wish {
	const char *path, *node;
	char id[64], nodes[3000];
	long long kib;
	int least, percent;
};

static bool say(const struct ring_wish *w, const char *state, const struct standin_idle_said *s)
{
	char line[TD_WIRE_LINE], said[TD_WIRE_LINE] = "", why[400];
	if (s && *s->node)
		snprintf(why, sizeof(why), "%.100s and %.100s: %.120s", s->node, s->partner, s->why);
	else if (s && *s->a && !*s->why)
		snprintf(why, sizeof(why), "the slowest pair is %.100s and %.100s", s->a, s->b);
	else
		snprintf(why, sizeof(why), "%.150s", s && *s->why ? s->why : "-");
	for (char *p = why; *p; p++)
		if (*p == ' ' || *p == '\n')
			*p = '_'; // values hold no blank; the agent puts them back
	snprintf(line, sizeof(line), "rung node=%s devices=- id=%s state=%s mbps=%lld why=%.150s\n", w->node, w->id,
		 state, s ? (long long)(s->mbps + 0.5) : 0, why);
	return td_standin_ask(w->path, line, td_standin_now_ms() + RING_ASK_MS, said, sizeof(said)) == 0;
}

static bool go_on(void *ctx)
{
	return say(ctx, "on", NULL);
}

static bool read_wish(const char *text, struct ring_wish *w)
{
	int at = 0;
	return sscanf(text, "%63[0-9a-z]:%lld:%d:%d:%n", w->id, &w->kib, &w->least, &w->percent, &at) == 4 && at &&
	       w->kib > 0 && w->kib <= RING_KIB_MAX && sscanf(text + at, "%2999[A-Za-z0-9._,-]", w->nodes) == 1;
}

void td_standin_rings(const char *path, const char *node, const char *text)
{
	static const char *const words[] = {[STANDIN_IDLE_PASSED] = "passed",
					    [STANDIN_IDLE_FAILED] = "failed",
					    [STANDIN_IDLE_ENDED] = "ended",
					    [STANDIN_IDLE_ERROR] = "error"};
	struct ring_wish w = {.path = path, .node = node};
	if (!read_wish(text, &w))
		return;
	// Twice, so that nobody has to wait for it.
	pid_t pid = fork();
	if (pid > 0)
		waitpid(pid, NULL, 0);
	if (pid)
		return;
	if (fork())
		_exit(0);
	const struct standin_idle x = {.nodes = w.nodes,
				       .first = node,
				       .kib = w.kib,
				       .least = w.least,
				       .percent = w.percent,
				       .go_on = go_on,
				       .ctx = &w,
				       .deadline_ms = td_standin_now_ms() + RING_TEST_MS};
	struct standin_idle_said said;
	enum standin_idle_end end = td_standin_idle(&x, &said);
	say(&w, words[end], &said);
	_exit(0);
}
