// Who leaves at a time (leave.h).
#include "pool/leave.h"

#include "base/mem.h"
#include "base/names.h"
#include "pool/price.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MARK "tandem: moved off "
#define NEXT " tandem: "
#define AT ", at "
#define ENDS ", not queued again"
#define SIGNAL TD_ANN_ASK_PREFIX "signal="

enum { ASKED_S = 60 }; // so long it is asked

char *td_pool_leave_write(const struct td_pool_leave *l, const char *nodes, const char *wants, const char *comment)
{
	const char *was = comment ? comment : "", *at = strstr(was, MARK), *rest = at ? strstr(at, NEXT) : NULL;
	size_t keep = at ? (size_t)(at - was) : strlen(was);
	while (keep && was[keep - 1] == ' ')
		keep--;
	char at_text[TD_MOMENT_LEN];
	td_moment_name(l->at_s, at_text);
	td_auto_free char *when =
		l->at_s ? td_asprintf(AT "%s after %" PRId64 " restarts%s", at_text, l->restarts, l->ends ? ENDS : "")
			: td_strdup("");
	return td_asprintf("%.*s%s" MARK "%s, so that job %" PRId64 " has room, which waits for %s%s%s", (int)keep, was,
			   keep ? " " : "", nodes, l->waiter, wants, when, rest ? rest : "");
}

int64_t td_pool_leave_for(const char *comment)
{
	const char *at = comment ? strstr(comment, MARK) : NULL, *rest = at ? strstr(at, NEXT) : NULL;
	const char *so = at ? strstr(at, ", so that job ") : NULL;
	int64_t id = 0;
	if (!so || (rest && so > rest) || sscanf(so, ", so that job %" SCNd64 " has room", &id) != 1 || id < 0)
		return 0;
	return id;
}

bool td_pool_leave_read(const char *comment, struct td_pool_leave *ret)
{
	const char *at = comment ? strstr(comment, MARK) : NULL, *rest = at ? strstr(at, NEXT) : NULL;
	const char *so = at ? strstr(at, ", so that job ") : NULL, *when = NULL;
	for (const char *p = so; p && (p = strstr(p, AT)) && (!rest || p < rest); p++)
		when = p;
	struct td_pool_leave l = {0};
	int n = 0;
	size_t len = when ? td_moment_parse(when + strlen(AT), &l.at_s) : 0;
	if (!len || sscanf(so, ", so that job %" SCNd64 " has room", &l.waiter) != 1)
		return false;
	when += strlen(AT) + len;
	if (sscanf(when, " after %" SCNd64 " restarts%n", &l.restarts, &n) != 1 || !n || l.waiter <= 0 ||
	    l.restarts < 0)
		return false;
	l.ends = td_starts(when + n, ENDS);
	*ret = l;
	return true;
}

bool td_pool_leave_signal(const char *comment, struct td_pool_leave_signal *ret)
{
	// Those that say nothing to whoever does not know them, or that scancel takes a job's end for, are none.
	static const char *const may[] = {"HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "CONT", "URG", "WINCH"};
	enum { LONGEST_S = 65535 }; // as sbatch --signal
	struct td_pool_leave_signal g = {0};
	const char *p = comment ? strstr(comment, SIGNAL) : NULL;
	if (!p || (p > comment && !strchr(" ,;", p[-1])))
		return false;
	p += strlen(SIGNAL);
	g.batch = td_starts(p, "B:");
	p += g.batch ? 2 : 0;
	p += td_starts(p, "SIG") ? 3 : 0;
	for (size_t i = 0; i < TD_LEN(may) && !*g.name; i++) {
		size_t len = strlen(may[i]);
		if (!strncmp(p, may[i], len) && (!p[len] || strchr("@ ,;", p[len]))) {
			snprintf(g.name, sizeof(g.name), "%s", may[i]);
			p += len;
		}
	}
	int n = 0;
	if (!*g.name || (*p == '@' && (sscanf(p, "@%5" SCNd64 "%n", &g.before_s, &n) != 1 || g.before_s < 0 ||
				       g.before_s > LONGEST_S || (p[n] && !strchr(" ,;", p[n])))))
		return false;
	*ret = g;
	return true;
}

bool td_pool_leave_signal_now(const struct td_pool_leave_signal *g, const struct td_pool_leave *l, int64_t now_s)
{
	return *g->name && now_s < l->at_s && (!g->before_s || now_s >= l->at_s - g->before_s);
}

enum td_pool_leave_do td_pool_leave(const struct td_pool_leave *l, int64_t restarts, bool waits, int64_t now_s)
{
	if (l->at_s <= 0 || restarts != l->restarts || !waits || now_s - l->at_s > ASKED_S)
		return TD_LEAVE_STAYS;
	return now_s < l->at_s ? TD_LEAVE_GRACE : TD_LEAVE_GO;
}

const char *td_pool_leave_name(enum td_pool_leave_do d)
{
	static const char *const names[] = {"stays", "grace", "go"};
	return (size_t)d < TD_LEN(names) ? names[d] : "?";
}

bool td_pool_leave_soon(int64_t by_s, int64_t now_s, int64_t most_s)
{
	return !by_s || (by_s - now_s <= most_s && now_s - by_s <= ASKED_S);
}

bool td_pool_leave_may(const struct td_grant *chosen, const struct td_pool_job *now)
{
	return now->know == TD_JOB_READ && now->ours && now->is == TD_IS_RUNNING && chosen->job > 0 &&
	       chosen->job == now->grant.job && chosen->start == now->grant.start &&
	       chosen->restarts == now->grant.restarts;
}
