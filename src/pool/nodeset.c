// What to do with each node of a NodeSet, and what its status says (nodeset.h).
#include "pool/nodeset.h"

#include "base/names.h"

#include <stdio.h>
#include <string.h>

// When a slurmd pod is older than this and Slurm's record still differs from what it reports, the
// old record has won over it. The wait limits how often a record that never becomes right costs a
// pod.
enum { RECORD_WINS_MS = 60000 };

static const char turn[] = "waits for its turn to be updated";

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

// ---- records ----
bool td_pool_record_busy(const struct td_pool_record *r)
{
	// alloc_cpus lags in both directions (docs/facts/slurm.md S-T8), so either sign of a job
	// counts.
	return r && (r->jobs || r->alloc_cpus > 0);
}

static bool drained_for(const struct td_pool_record *r, const char *reason)
{
	return r && r->drain && td_pool_reason_is(r->reason, reason);
}

static bool drained_by_operator(const struct td_pool_record *r)
{
	return r && r->drain && td_pool_reason_owner(r->reason) == TD_OWNER_OPERATOR;
}

// True when Slurm itself drained it: "gres/gpu count reported lower than configured".
static bool drained_for_gres(const struct td_pool_record *r)
{
	return r && r->drain && td_pool_reason_owner(r->reason) == TD_OWNER_SLURM;
}

// True when the drain has a reason that the operator must not lose. The exceptions are those where
// the bridge or Slurm itself says that the devices are not those of the record: a new record cures
// that.
static bool drained_by_others(const struct td_pool_record *r)
{
	return r && r->drain && !drained_by_operator(r) && !drained_for(r, TD_REASON_DEVICES) && !drained_for_gres(r);
}

enum td_pool_class td_pool_record_class(const struct td_pool_record *r)
{
	return r->off && !r->down     ? TD_CLASS_OFF
	       : r->drain             ? (r->jobs ? TD_CLASS_DRAINING : TD_CLASS_DRAINED)
	       : r->bad && !r->silent ? TD_CLASS_DOWN
	       : r->mixed             ? TD_CLASS_MIXED
	       : r->jobs              ? TD_CLASS_ALLOCATED
				      : TD_CLASS_IDLE;
}

// ---- members ----
// True when Slurm drained the node for its devices and the pod is older than the configuration in
// force. What slurmd reported under another configuration may be the cause, and Slurm never looks
// again; a new slurmd is judged by what is there now. The new pod is newer than the configuration,
// so devices that are really gone do not cost a pod again and again.
static bool outlived(const struct td_pool_member *m, const struct td_pool_policy *p)
{
	// Times have a resolution of one second. At worst a pod is replaced once more.
	bool older = p->config_ms && m->pod_born_ms <= p->config_ms;
	return older && drained_for_gres(m->record);
}

bool td_pool_member_available(const struct td_pool_member *m)
{
	bool there = m->host || (m->pod && m->pod_ready && !m->pod_deleting);
	return there && m->record && !m->record->drain && !m->record->bad;
}

bool td_pool_member_waits_turn(const struct td_pool_member *m)
{
	return m->why == turn;
}

bool td_pool_member_registered(const struct td_pool_member *m)
{
	bool there = m->host || (m->pod_ready && !m->pod_deleting && m->record && same(m->record->address, m->pod_ip));
	return there && m->record && !m->record->bad && !m->record->off && !m->record->rising;
}

static void act(struct td_pool_member *m, enum td_pool_member_do a, const char *why)
{
	m->act = a;
	m->why = why;
}

// Orders the nodes when there are more than enough: the lowest leaves first. A node that is leaving
// already ranks low, so that the choice does not change.
enum { RANKS = 7 };
static int rank(const struct td_pool_member *m)
{
	if (!m->pod)
		return m->ready ? 1 : 0;
	if (drained_for(m->record, TD_REASON_SCALE_IN))
		return 2;
	if (!m->pod_ready || !m->record || m->record->bad)
		return 3;
	return td_pool_record_busy(m->record) ? 6 : m->spare ? 4 : 5;
}

// The steps by which a pod goes whose node may have jobs: drain, wait, delete. force_s: the age of
// our drain at which jobs are ended; < 0: jobs are waited for.
static void retire(struct td_pool_member *m, const char *reason, const struct td_pool_policy *p, int64_t force_s)
{
	const struct td_pool_record *r = m->record;
	if (!p->view)
		act(m, TD_MEMBER_NOTHING, "waiting for Slurm's answer");
	else if (!r)
		act(m, TD_MEMBER_DELETE_POD, NULL);
	else if (!r->drain && (td_pool_record_busy(r) || !r->down))
		act(m, TD_MEMBER_DRAIN, reason);
	else if (!td_pool_record_busy(r))
		act(m, TD_MEMBER_DELETE_POD, NULL);
	else if (force_s >= 0 && drained_for(r, reason) && p->now_ms / 1000 - r->reason_at >= force_s)
		act(m, TD_MEMBER_SET_DOWN, reason);
	else
		act(m, TD_MEMBER_NOTHING, "draining: waiting for its jobs to end");
}

enum td_pool_member_do td_pool_ghost(const struct td_pool_record *r)
{
	return r->down ? TD_MEMBER_DELETE_RECORD : TD_MEMBER_SET_DOWN;
}

static void leave(struct td_pool_member *m, const struct td_pool_policy *p)
{
	if (m->pod_deleting) {
		act(m, TD_MEMBER_NOTHING, "the slurmd pod is ending");
	} else if (!m->exists) {
		// The machine is gone with all its processes. What Slurm still counts there is
		// dead.
		if (m->pod)
			act(m, TD_MEMBER_DELETE_POD, NULL);
		else if (m->record && p->view)
			act(m, td_pool_ghost(m->record), TD_REASON_GONE);
	} else if (m->pod) {
		retire(m, TD_REASON_SCALE_IN, p, p->scale_force_s);
	} else if (m->record && p->view) {
		act(m, TD_MEMBER_DELETE_RECORD, NULL);
	}
}

static void stay(struct td_pool_member *m, const struct td_pool_policy *p)
{
	const struct td_pool_record *r = m->record;
	if (m->pod_deleting) {
		act(m, TD_MEMBER_NOTHING, "the slurmd pod is ending");
	} else if (m->pod && m->pod_ended) {
		act(m, TD_MEMBER_DELETE_POD, NULL);
	} else if (m->pod && m->forgotten && p->view && !r) {
		act(m, TD_MEMBER_DELETE_POD, "Slurm forgot the node; a new slurmd registers it again");
	} else if (p->on_demand && td_pool_on_demand(m, p)) {
		return;
	} else if (m->missing && p->view && !r) {
		act(m, TD_MEMBER_NOTHING, "Slurm has no record of the node; its slurmd is started again if that lasts");
	} else if (!m->pod && m->refuse) {
		act(m, TD_MEMBER_NOTHING, m->refuse);
	} else if (!m->pod && !m->ready) {
		act(m, TD_MEMBER_NOTHING, "the Kubernetes node is not ready");
	} else if (!m->pod && r && !drained_by_others(r) &&
		   (m->record_differs || r->off || drained_for(r, TD_REASON_UPDATE) || drained_for_gres(r))) {
		// The old record would win over what the new slurmd reports.
		act(m, TD_MEMBER_DELETE_RECORD, "updated");
	} else if (!m->pod) {
		act(m, TD_MEMBER_CREATE, NULL);
	} else if (m->updated && td_pool_member_registered(m) && drained_by_operator(r)) {
		act(m, TD_MEMBER_UNDRAIN, NULL);
	} else if (m->refuse) {
		// What is asked for now is not possible. The pod goes on as it is.
		act(m, TD_MEMBER_NOTHING, m->refuse);
	}
}

static void update(struct td_pool_member *v, size_t n, const struct td_pool_policy *p)
{
	long long away = 0;
	for (size_t i = 0; i < n; i++)
		away += v[i].keep && !td_pool_member_off(&v[i]) && !td_pool_member_available(&v[i]);

	// Nodes that are out of service already come first, then idle ones, then the rest, each by
	// name.
	for (int pass = 0; pass < 3; pass++) {
		for (size_t i = 0; i < n; i++) {
			struct td_pool_member *m = &v[i];
			bool current = m->updated && !outlived(m, p);
			if (!m->keep || !m->pod || current || m->pod_deleting || m->act != TD_MEMBER_NOTHING)
				continue;
			if (m->refuse) // there would be no new pod
				continue;
			bool out = !td_pool_member_available(m), busy = td_pool_record_busy(m->record);
			if (pass != (out ? 0 : busy ? 2 : 1))
				continue;
			if (drained_by_others(m->record) && m->record_differs) {
				// The new size counts only with a new record, and that would lose
				// somebody's reason.
				act(m, TD_MEMBER_NOTHING, "drained by somebody else: updated when it is resumed");
			} else if (out || away < p->max_unavailable) {
				away += !out;
				retire(m, TD_REASON_UPDATE, p, p->update_force_s);
			} else {
				act(m, TD_MEMBER_NOTHING, turn);
			}
		}
	}
}

static void count(const struct td_pool_member *v, size_t n, struct td_pool_set_counts *ret)
{
	for (size_t i = 0; i < n; i++) {
		const struct td_pool_member *m = &v[i];
		ret->matched += m->matched;
		ret->assigned += m->host ? m->record != NULL : m->pod;
		ret->running += m->host ? m->record && !m->record->bad : m->pod && m->pod_ready && !m->pod_deleting;
		ret->updated += m->host ? m->record != NULL : m->pod && m->updated && !m->pod_deleting;
		ret->ready += td_pool_member_registered(m);
		if (!m->record)
			continue;
		switch (td_pool_record_class(m->record)) {
		case TD_CLASS_IDLE:
			ret->idle++;
			break;
		case TD_CLASS_MIXED:
		case TD_CLASS_ALLOCATED:
			ret->allocated++;
			break;
		case TD_CLASS_DRAINING:
			ret->draining++;
			break;
		case TD_CLASS_DRAINED:
			ret->drained++;
			break;
		case TD_CLASS_DOWN:
			ret->down++;
			break;
		case TD_CLASS_OFF:
			ret->off++;
			break;
		}
	}
}

void td_pool_nodeset_decide(struct td_pool_member *v, size_t n, const struct td_pool_policy *p,
			    struct td_pool_set_counts *ret)
{
	struct td_pool_set_counts c = {0};
	size_t able = 0;
	for (size_t i = 0; i < n; i++) {
		struct td_pool_member *m = &v[i];
		// The old record won over a new slurmd, which is then replaced once more, unless
		// somebody else keeps the node drained.
		bool won = m->record_differs && !drained_by_others(m->record) &&
			   p->now_ms - m->pod_born_ms > RECORD_WINS_MS;

		m->updated = m->host ? m->record != NULL : m->pod && m->pod_current && !won;
		m->keep = m->host ? m->matched : m->exists && m->matched && (m->pod || !m->refuse);
		m->evictable = !m->host && m->record && !td_pool_record_busy(m->record) &&
			       (m->record->drain || m->record->down);
		act(m, TD_MEMBER_NOTHING, NULL);
		able += m->keep;
	}

	c.desired = p->replicas < 0 || p->replicas > (long long)able ? (long long)able : p->replicas;
	size_t over = able - (size_t)c.desired;
	for (int r = 0; r < RANKS && over; r++)
		for (size_t i = n; i-- > 0 && over;) // of equals the last by name leaves
			if (v[i].keep && rank(&v[i]) == r) {
				v[i].keep = false;
				over--;
			}

	for (size_t i = 0; i < n; i++) {
		if (v[i].host)
			td_pool_host_decide(&v[i], p);
		else if (v[i].keep)
			stay(&v[i], p);
		else if (v[i].exists && v[i].matched && !v[i].pod && v[i].refuse && !v[i].record)
			v[i].why = v[i].refuse;
		else
			leave(&v[i], p);
	}

	// What is off is not missed.
	for (size_t i = 0; i < n; i++)
		c.desired -= p->on_demand && v[i].keep && td_pool_member_off(&v[i]);

	if (p->rolling)
		update(v, n, p);

	count(v, n, &c);
	*ret = c;
}

enum td_pool_write td_pool_member_write(enum td_pool_member_do what, const struct td_pool_record *now, bool *ret_reason)
{
	*ret_reason = false;
	if (!now)
		return TD_WRITE_NOTHING;
	switch (what) {
	case TD_MEMBER_DRAIN:
		*ret_reason = !now->drain;
		return now->drain ? TD_WRITE_NOTHING : TD_WRITE_DRAIN;
	case TD_MEMBER_UNDRAIN:
		return drained_by_operator(now) ? TD_WRITE_UNDRAIN : TD_WRITE_NOTHING;
	case TD_MEMBER_SET_DOWN:
		*ret_reason = !now->drain || drained_by_operator(now);
		return TD_WRITE_DOWN;
	case TD_MEMBER_POWER_DOWN:
		*ret_reason = true;
		return now->drain || now->down || now->off || td_pool_record_busy(now) ? TD_WRITE_NOTHING
										       : TD_WRITE_POWER_DOWN;
	case TD_MEMBER_RESUME:
		return td_pool_record_gave_up(now) ? TD_WRITE_RESUME : TD_WRITE_NOTHING;
	default:
		return TD_WRITE_NOTHING;
	}
}

int64_t td_pool_nodeset_again_ms(bool unsettled, bool fresh, int64_t quiet_ms, int64_t cost_ms)
{
	// Slurm tells nobody when a node changes. Look often while something moves, but never so
	// often that looking becomes the load.
	int64_t ms = unsettled || !fresh ? (quiet_ms < 30000 ? 100 : 1000) : quiet_ms < 15000 ? 1000 : 2000;
	return ms > cost_ms * 20 ? ms : cost_ms * 20;
}

enum td_pool_lack td_pool_reserve_lacks(const struct td_pool_reserve *r)
{
	return r->others_milli > r->cpu_milli - r->share_cpus * 1000                    ? TD_LACK_CPU
	       : r->others_memory > r->memory - r->share_memory_mb * (INT64_C(1) << 20) ? TD_LACK_MEMORY
	       : r->others_gpus > 0 && r->share_gpus > 0                                ? TD_LACK_DEVICES
											: TD_LACK_NOTHING;
}

// ---- slurmds that Slurm has forgotten ----
// A slurmd that met a dying slurmctld tries again after 1, 2, 4 and 8 s, so one that is absent
// after 15 s of Slurm's answers does not come by itself. Each restart in vain doubles the wait, up
// to 8 minutes, because restarts do not help when the node table is full. A new slurmd is Ready
// before it has registered, so the first second of absence means nothing.
enum { NEWS_MS = 1000, WAIT_MS = 15000, TRIES_MAX = 5, KEEP_MS = 3600000 };

enum td_pool_sight td_pool_sight_of(bool fresh, bool pod_ready, bool record)
{
	return !fresh || !pod_ready ? TD_SIGHT_UNSEEN : record ? TD_SIGHT_PRESENT : TD_SIGHT_ABSENT;
}

int64_t td_pool_absence_look(struct td_pool_absence *a, enum td_pool_sight sight, bool other_pod, int64_t now_ms)
{
	if (sight == TD_SIGHT_PRESENT) {
		*a = (struct td_pool_absence){0};
		return -1;
	}

	a->looked = now_ms;
	if (sight != TD_SIGHT_ABSENT || other_pod)
		a->since = now_ms;
	if (sight != TD_SIGHT_ABSENT || now_ms - a->since < NEWS_MS)
		return -1;

	int64_t left = a->since + ((int64_t)WAIT_MS << a->tries) - now_ms;
	return left > 0 ? left : 0;
}

void td_pool_absence_restarted(struct td_pool_absence *a)
{
	a->tries += a->tries < TRIES_MAX;
}

bool td_pool_absence_old(const struct td_pool_absence *a, int64_t now_ms)
{
	return now_ms - a->looked > KEEP_MS;
}

// ---- conditions ----
const char *td_pool_member_message(const struct td_pool_member *m, const struct td_pool_set_conditions *c)
{
	bool waiting = m->act == TD_MEMBER_NOTHING || m->act == TD_MEMBER_CREATE || m->act == TD_MEMBER_DELETE_RECORD;
	return !m->why || !waiting ? NULL : td_pool_member_waits_turn(m) ? c->turn : m->why;
}

// Appends as much of s as there is room for.
static void add(char *buf, size_t len, const char *s)
{
	size_t n = strlen(buf);
	snprintf(buf + n, len - n, "%s", s);
}

void td_pool_nodeset_conditions(const struct td_pool_member *v, size_t n, const struct td_pool_set_counts *k,
				const struct td_pool_set_facts *f, struct td_pool_set_conditions *ret)
{
	snprintf(ret->turn, sizeof(ret->turn), "%s; out of service:", turn);
	for (size_t i = 0, named = 0; i < n; i++)
		if (v[i].keep && !td_pool_member_available(&v[i]) && named++ < 8) {
			add(ret->turn, sizeof(ret->turn), " ");
			add(ret->turn, sizeof(ret->turn), v[i].name);
		}

	bool outdated = false, refused = false, hosts = false;
	const struct td_pool_member *waits = NULL;
	for (size_t i = 0; i < n; i++) {
		refused |= v[i].keep && v[i].refuse;
		hosts |= v[i].host;
		outdated |= v[i].keep && v[i].pod && !v[i].updated;
		if (!waits && td_pool_member_message(&v[i], ret))
			waits = &v[i];
	}

	char off[64] = "";
	if (k->off)
		snprintf(off, sizeof(off), ", %lld more come on demand", k->off);
	snprintf(ret->text, sizeof(ret->text), "%lld of %lld nodes are ready%s%s%s%s%s", k->ready, k->desired, off,
		 waits ? "; " : "", waits ? waits->name : "", waits ? ": " : "",
		 waits ? td_pool_member_message(waits, ret) : "");

	snprintf(ret->progress, sizeof(ret->progress), "slurmd pods are being replaced: %lld of %lld are new",
		 k->updated, k->assigned);
	bool ready =
		!f->problem && !f->other && !refused && f->fresh && k->ready == k->desired && k->desired == k->assigned;
	bool scaling = k->assigned != k->desired;
	ret->v[0] = (struct td_pool_condition){"SpecValid", f->problem ? TD_STATUS_FALSE : TD_STATUS_TRUE,
					       f->problem ? "Invalid" : "Valid",
					       f->problem ? f->problem : "every field can be used"};
	ret->v[1] = (struct td_pool_condition){"Ready", ready ? TD_STATUS_TRUE : TD_STATUS_FALSE,
					       f->problem    ? "Invalid"
					       : !f->cluster ? "NoCluster"
					       : f->other    ? "OtherCluster"
					       : !f->fresh   ? "NoAnswer"
					       : ready       ? "Ready"
							     : "NotReady",
					       f->problem                ? f->problem
					       : f->cluster && f->other  ? f->other
					       : !f->cluster || f->fresh ? ret->text
									 : "slurmctld does not answer"};
	ret->v[2] = (struct td_pool_condition){
		"Progressing", outdated || scaling ? TD_STATUS_TRUE : TD_STATUS_FALSE,
		outdated  ? "Updating"
		: scaling ? "Scaling"
			  : "Settled",
		outdated  ? ret->progress
		: scaling ? (hosts ? "slurmds of hosts come or go" : "slurmd pods come or go")
			  : "nothing is changing"};
	ret->v[3] = (struct td_pool_condition){"NodesOwned", f->taken ? TD_STATUS_FALSE : TD_STATUS_TRUE,
					       f->taken ? "Taken" : "Owned",
					       f->taken ? f->taken : "no other NodeSet has a node that it selects"};
	ret->v[4] = (struct td_pool_condition){"ServicesRunning", f->failed ? TD_STATUS_FALSE : TD_STATUS_TRUE,
					       f->failed ? "Failed" : "Running",
					       f->failed ? f->failed : "no service of the site has failed"};
	ret->n = 5;
	// For whoever waits until the object is as its spec says, by the names that they know. A SlurmCluster may come yet.
	if (f->problem && f->cluster)
		ret->v[ret->n++] = (struct td_pool_condition){"Stalled", TD_STATUS_TRUE, "Invalid", f->problem};
	else if (outdated || scaling)
		ret->v[ret->n++] =
			(struct td_pool_condition){"Reconciling", TD_STATUS_TRUE, ret->v[2].reason, ret->v[2].message};
}

const char *td_pool_member_do_name(enum td_pool_member_do d)
{
	static const char *const names[] = {"nothing",  "create",        "delete-pod", "drain", "undrain",
					    "set-down", "delete-record", "power-down", "resume"};
	return (size_t)d < sizeof(names) / sizeof(names[0]) ? names[d] : "?";
}
