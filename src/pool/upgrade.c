// How an upgrade of many nodes goes on (docs/upgrade.md).
#include "pool/upgrade.h"

#include "base/mem.h"

#include <string.h>

static const char *const nodes[] = {"Pending",     "Upgrading",  "Upgraded",      "Failed",
				    "RollingBack", "RolledBack", "RollbackFailed"};
static const char *const phases[] = {"Progressing", "Waiting",    "Paused",  "RollingBack",
				     "Succeeded",   "RolledBack", "Aborted", "Failed"};

const char *td_pool_upgrade_node_name(enum td_upgrade_node n)
{
	return nodes[n];
}

enum td_upgrade_node td_pool_upgrade_node_parse(const char *name)
{
	for (size_t i = 0; name && i < TD_LEN(nodes); i++)
		if (!strcmp(name, nodes[i]))
			return (enum td_upgrade_node)i;
	return TD_UPGRADE_PENDING;
}

const char *td_pool_upgrade_phase_name(enum td_upgrade_phase p)
{
	return phases[p];
}

bool td_pool_upgrade_over(enum td_upgrade_phase p)
{
	return p >= TD_UPGRADE_SUCCEEDED;
}

size_t td_pool_upgrade_at_once(const char *text, size_t n)
{
	size_t len = strlen(text), v = 0;
	bool share = len && text[len - 1] == '%';
	for (size_t i = 0; i + share < len; i++) {
		if (text[i] < '0' || text[i] > '9' || v > 100000)
			return 1;
		v = v * 10 + (size_t)(text[i] - '0');
	}
	if (share)
		v = n * v / 100;
	return v ? v : 1;
}

struct upgrade_counts {
	size_t of[TD_LEN(nodes)];
	size_t gone; // pending, and not there any more
};

static struct upgrade_counts count(const struct td_pool_upgrade_facts *f)
{
	struct upgrade_counts k = {0};
	for (size_t i = 0; i < f->n; i++) {
		k.of[f->v[i].is]++;
		k.gone += f->v[i].is == TD_UPGRADE_PENDING && f->v[i].gone;
	}
	return k;
}

static size_t first(const struct td_pool_upgrade_facts *f, enum td_upgrade_node is)
{
	size_t i = 0;
	while (i < f->n && f->v[i].is != is)
		i++;
	return i;
}

static struct td_pool_upgrade_plan plan(enum td_upgrade_phase p, const char *why, size_t of)
{
	return (struct td_pool_upgrade_plan){p, why, of};
}

// Sets the flags of the next members in this state, as many as there is room for. Returns how many.
static size_t begin_some(const struct td_pool_upgrade_facts *f, enum td_upgrade_node is, size_t room, bool *begin)
{
	size_t begun = 0;
	for (size_t i = 0; i < f->n && begun < room; i++) {
		const struct td_pool_upgrade_member *m = &f->v[i];
		// What failed is out of service by the upgrade itself, and a fault may be what the upgrade made.
		bool hindered = is == TD_UPGRADE_PENDING ? m->out || m->sick : is == TD_UPGRADE_UPGRADED && m->out;
		if (m->is != is || m->gone || m->busy || hindered)
			continue;
		begin[i] = true;
		begun++;
	}
	return begun;
}

// The way back: first what is out of service, then what is done.
static struct td_pool_upgrade_plan backwards(const struct td_pool_upgrade_facts *f, const struct upgrade_counts *k,
					     bool *begin)
{
	size_t at_work = k->of[TD_UPGRADE_UPGRADING] + k->of[TD_UPGRADE_ROLLING_BACK],
	       bad = first(f, TD_UPGRADE_ROLLBACK_FAILED), left = 0;
	if (bad < f->n)
		return at_work ? plan(TD_UPGRADE_BACKWARDS, "a node could not be rolled back: no more are begun", bad)
			       : plan(TD_UPGRADE_GIVEN_UP, "a node could not be rolled back", bad);
	for (size_t i = 0; i < f->n; i++)
		left += (f->v[i].is == TD_UPGRADE_UPGRADED || f->v[i].is == TD_UPGRADE_FAILED) && !f->v[i].gone;
	if (!left && !at_work)
		return plan(TD_UPGRADE_BACK, f->abort ? "it was aborted" : "a node failed", f->n);
	if (f->paused)
		return plan(TD_UPGRADE_PAUSED, "the way back is paused, too", f->n);

	size_t room = at_work < f->at_once ? f->at_once - at_work : 0;
	size_t begun = begin_some(f, TD_UPGRADE_FAILED, room, begin);
	begun += begin_some(f, TD_UPGRADE_UPGRADED, room - begun, begin);
	return plan(TD_UPGRADE_BACKWARDS,
		    begun || at_work ? f->abort ? "it was aborted" : "a node failed"
				     : "the nodes that are left were taken out of service by somebody else",
		    begun || at_work ? first(f, TD_UPGRADE_FAILED) : f->n);
}

// No more nodes are begun; it is over when those that were begun have ended.
static struct td_pool_upgrade_plan stop(size_t at_work, struct td_pool_upgrade_plan end)
{
	return at_work ? plan(TD_UPGRADE_WAITING, "it stops when the nodes that were begun have ended", end.of) : end;
}

void td_pool_upgrade_decide(const struct td_pool_upgrade_facts *f, bool *begin, struct td_pool_upgrade_plan *ret)
{
	struct upgrade_counts k = count(f);
	size_t at_work = k.of[TD_UPGRADE_UPGRADING] + k.of[TD_UPGRADE_ROLLING_BACK],
	       failed = first(f, TD_UPGRADE_FAILED);
	for (size_t i = 0; i < f->n; i++)
		begin[i] = false;

	if (f->lost) {
		*ret = stop(at_work, plan(TD_UPGRADE_GIVEN_UP, f->lost, f->n));
		return;
	}
	if (f->daemons == TD_DAEMONS_MOVE) {
		*ret = plan(TD_UPGRADE_PROGRESSING, "slurmdbd, slurmctld and what is beside them get the image first",
			    f->n);
		return;
	}
	if (f->changed) {
		*ret = stop(at_work, plan(TD_UPGRADE_GIVEN_UP, "its spec was changed: make another NodeUpgrade", f->n));
		return;
	}
	bool back = k.of[TD_UPGRADE_ROLLING_BACK] + k.of[TD_UPGRADE_ROLLED_BACK] + k.of[TD_UPGRADE_ROLLBACK_FAILED];
	if (back || f->abort == TD_ABORT_ROLLBACK || (failed < f->n && f->rollback && !f->abort)) {
		*ret = backwards(f, &k, begin);
		return;
	}
	if (f->abort) {
		*ret = stop(at_work, plan(TD_UPGRADE_ABORTED, "it was aborted", f->n));
		return;
	}
	if (failed < f->n) {
		*ret = stop(at_work, plan(TD_UPGRADE_GIVEN_UP, "a node failed", failed));
		return;
	}
	if (k.of[TD_UPGRADE_UPGRADED] + k.gone == f->n && f->daemons != TD_DAEMONS_OLD) {
		*ret = plan(TD_UPGRADE_SUCCEEDED, k.gone ? "all nodes but those that are gone are upgraded" : NULL,
			    f->n);
		return;
	}
	if (f->late) {
		*ret = stop(at_work, plan(TD_UPGRADE_GIVEN_UP, "its deadline is over", f->n));
		return;
	}
	if (f->paused) {
		*ret = plan(TD_UPGRADE_PAUSED, at_work ? "the nodes that were begun go on to their end" : NULL, f->n);
		return;
	}

	if (f->daemons == TD_DAEMONS_OLD) {
		*ret = plan(TD_UPGRADE_PROGRESSING, "the SlurmCluster is asked for the image", f->n);
		return;
	}

	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].is == TD_UPGRADE_UPGRADED && (f->v[i].sick || f->v[i].out)) {
			*ret = plan(TD_UPGRADE_WAITING, "a node that was upgraded is not in service", i);
			return;
		}
	if (f->breaker) {
		*ret = plan(TD_UPGRADE_WAITING, "too many nodes are out of service for their health", f->n);
		return;
	}
	size_t room = at_work < f->at_once ? f->at_once - at_work : 0;
	bool begun = begin_some(f, TD_UPGRADE_PENDING, room, begin) > 0;
	*ret = begun || at_work
		       ? plan(TD_UPGRADE_PROGRESSING, NULL, f->n)
		       : plan(TD_UPGRADE_WAITING, "the nodes that are left are out of service, sick or worked on",
			      first(f, TD_UPGRADE_PENDING));
}

enum td_daemons_are td_pool_upgrade_daemons(const struct td_pool_daemons_facts *f)
{
	if (!f->there)
		return TD_DAEMONS_GONE;
	if (!f->asked)
		return f->as_was ? TD_DAEMONS_ASK : TD_DAEMONS_CHANGED;
	if (!f->seen)
		return TD_DAEMONS_WAIT;
	if (f->ended)
		return TD_DAEMONS_READY;
	if (!f->wanted)
		return TD_DAEMONS_CHANGED;
	if (!f->observed)
		return TD_DAEMONS_WAIT;
	if (f->invalid && !f->in_force)
		return TD_DAEMONS_REFUSED;
	return f->in_force && f->rolled && f->answers ? TD_DAEMONS_READY : TD_DAEMONS_WAIT;
}

// The part of a version before its second dot.
static size_t release_of(const char *v)
{
	size_t n = 0, dots = 0;
	while (v[n] && (v[n] != '.' || dots++ < 1))
		n++;
	return n;
}

bool td_pool_upgrade_back(const char *before, const char *now)
{
	size_t n = before ? release_of(before) : 0;
	return n && now && n == release_of(now) && !strncmp(before, now, n);
}
