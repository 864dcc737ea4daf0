// What to do with the nodes of a NodeSet: docs/protocols.md 3. Pure and level-triggered: every step is found again from the pods and from
// Slurm's records, so a crash between two steps changes nothing.
//
//   update: drain("tandem: update") → no job → delete pod → delete record → create pod → it registers; a record that somebody else has
//           drained stays, and so does his reason. The same where Slurm drained a node for devices that an earlier configuration hid.
//   leave:  drain("tandem: scale-in") → no job → delete pod → delete record
// Without a fresh answer from Slurm nothing is taken away: unknown is not idle.
#include "operator/operator.h"

#include <ctype.h>
#include <string.h>

const char td_op_turn[] = "waits for its turn to be updated";

int td_op_name_cmp(const char *a, const char *b)
{
	while (*a && *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			size_t za = strspn(a, "0"), zb = strspn(b, "0"), na = strspn(a + za, "0123456789"),
			       nb = strspn(b + zb, "0123456789");
			int k = na != nb ? (na < nb ? -1 : 1) : strncmp(a + za, b + zb, na);
			if (k)
				return k;
			a += za + na;
			b += zb + nb;
			continue;
		}
		if (*a != *b)
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		a++;
		b++;
	}
	return *a ? 1 : *b ? -1 : 0;
}

bool td_op_record_busy(const struct td_slurm_node *r)
{
	// alloc_cpus lags in both directions (docs/facts/slurm.md S-T8): either sign of a job counts.
	return r && ((r->states & (TD_NODE(ALLOCATED) | TD_NODE(MIXED) | TD_NODE(COMPLETING))) || r->alloc_cpus > 0);
}

bool td_op_drained_by_us(const struct td_slurm_node *r, const char *reason)
{
	return r && (r->states & TD_NODE(DRAIN)) && r->reason && td_starts(r->reason, reason);
}

bool td_op_reason_ours(const char *reason)
{
	static const char *const ours[] = {TD_REASON_UPDATE, TD_REASON_SCALE_IN, TD_REASON_GONE, TD_REASON_DEAD};
	for (size_t i = 0; reason && i < TD_LEN(ours); i++)
		if (td_starts(reason, ours[i]))
			return true;
	return false;
}

// By Slurm itself: "gres/gpu count reported lower than configured".
static bool drained_for_gres(const struct td_slurm_node *r)
{
	return td_op_drained_by_us(r, "gres/");
}

bool td_op_drained_by_others(const struct td_slurm_node *r)
{
	// Where the bridge or Slurm itself says that the devices are not those of the record, a new record is the way out.
	return (r->states & TD_NODE(DRAIN)) && !td_op_reason_ours(r->reason) && !td_op_drained_by_us(r, TD_REASON_DEVICES) &&
	       !drained_for_gres(r);
}

// What it reported under another configuration may be why Slurm has drained it, and Slurm would never look again. A new slurmd is judged
// by what is there now; it is newer than the configuration, so that devices that are really gone do not cost a pod again and again.
static bool outlived(const struct td_op_node *n)
{
	return n->older && drained_for_gres(n->record);
}

bool td_op_available(const struct td_op_node *n)
{
	return n->pod && n->pod_ready && !n->pod_deleting && n->record &&
	       !(n->record->states & (TD_NODE(DOWN) | TD_NODE(NOT_RESPONDING) | TD_NODE(DRAIN) | TD_NODE(FAIL) | TD_NODE(INVALID_REG)));
}

static bool registered(const struct td_op_node *n)
{
	return n->pod_ready && !n->pod_deleting && n->record && td_streq(n->record->address, n->pod_ip) &&
	       !(n->record->states & (TD_NODE(DOWN) | TD_NODE(NOT_RESPONDING) | TD_NODE(INVALID_REG)));
}

static void act(struct td_op_node *n, enum td_op_act a, const char *why)
{
	n->act = a;
	n->why = why;
}

// Who stays when there are more than enough; the lowest leaves first. A node that is leaving stays the one that leaves.
static int rank(const struct td_op_node *n)
{
	if (!n->pod)
		return 0;
	if (td_op_drained_by_us(n->record, TD_REASON_SCALE_IN))
		return 1;
	if (!n->pod_ready || !n->record || (n->record->states & TD_NODE(DOWN)))
		return 2;
	return td_op_record_busy(n->record) ? 4 : 3;
}

// Steps of a pod that must go while its node has jobs or not: drain, wait, delete. force_s < 0: jobs are waited for.
static void retire(struct td_op_node *n, const char *reason, const struct td_op_policy *p, int64_t force_s)
{
	const struct td_slurm_node *r = n->record;
	if (!p->view)
		act(n, TD_OP_NONE, "waiting for Slurm's answer");
	else if (!r)
		act(n, TD_OP_DELETE_POD, NULL);
	else if (!(r->states & TD_NODE(DRAIN)) && (td_op_record_busy(r) || !(r->states & TD_NODE(DOWN))))
		act(n, TD_OP_DRAIN, reason);
	else if (!td_op_record_busy(r))
		act(n, TD_OP_DELETE_POD, NULL);
	else if (force_s >= 0 && td_op_drained_by_us(r, reason) && p->now_s - r->reason_at >= force_s)
		act(n, TD_OP_SET_DOWN, reason);
	else
		act(n, TD_OP_NONE, "draining: waiting for its jobs to end");
}

static void leave(struct td_op_node *n, const struct td_op_policy *p)
{
	if (n->pod_deleting) {
		act(n, TD_OP_NONE, "the slurmd pod is ending");
	} else if (!n->exists) {
		// The machine is gone and with it every process: what Slurm still counts there is dead.
		if (n->pod)
			act(n, TD_OP_DELETE_POD, NULL);
		else if (n->record && p->view)
			act(n, n->record->states & TD_NODE(DOWN) ? TD_OP_DELETE_RECORD : TD_OP_SET_DOWN, TD_REASON_GONE);
	} else if (n->pod) {
		retire(n, TD_REASON_SCALE_IN, p, p->scale_force_s);
	} else if (n->record && p->view) {
		act(n, TD_OP_DELETE_RECORD, NULL);
	}
}

static void stay(struct td_op_node *n, const struct td_op_policy *p)
{
	const struct td_slurm_node *r = n->record;
	if (n->pod_deleting) {
		act(n, TD_OP_NONE, "the slurmd pod is ending");
	} else if (n->pod && n->pod_ended) {
		act(n, TD_OP_DELETE_POD, NULL);
	} else if (n->pod && n->forgotten && p->view && !r) {
		act(n, TD_OP_DELETE_POD, "Slurm forgot the node; a new slurmd registers it again");
	} else if (n->missing && p->view && !r) {
		act(n, TD_OP_NONE, "Slurm has no record of the node; its slurmd is started again if that lasts");
	} else if (!n->pod && n->refuse) {
		act(n, TD_OP_NONE, n->refuse);
	} else if (!n->pod && !n->ready) {
		act(n, TD_OP_NONE, "the Kubernetes node is not ready");
	} else if (!n->pod && r && !td_op_drained_by_others(r) &&
		   (n->record_differs || td_op_drained_by_us(r, TD_REASON_UPDATE) || drained_for_gres(r))) {
		act(n, TD_OP_DELETE_RECORD, "updated"); // the old record would win over what the new slurmd says
	} else if (!n->pod) {
		act(n, TD_OP_CREATE, NULL);
	} else if (n->pod_updated && registered(n) && (r->states & TD_NODE(DRAIN)) && td_op_reason_ours(r->reason)) {
		act(n, TD_OP_UNDRAIN, NULL);
	} else if (n->refuse) {
		act(n, TD_OP_NONE, n->refuse); // it goes on as it is; what is asked for now cannot be
	}
}

static void update(struct td_op_node *v, size_t n, const struct td_op_policy *p)
{
	long long away = 0;
	for (size_t i = 0; i < n; i++)
		away += v[i].keep && !td_op_available(&v[i]);
	// First those that are out of service already, then idle ones, then the rest; in order of names.
	for (int pass = 0; pass < 3; pass++) {
		for (size_t i = 0; i < n; i++) {
			struct td_op_node *x = &v[i];
			if (!x->keep || !x->pod || (x->pod_updated && !outlived(x)) || x->pod_deleting || x->act != TD_OP_NONE)
				continue;
			bool out = !td_op_available(x), busy = td_op_record_busy(x->record);
			if (pass != (out ? 0 : busy ? 2 : 1))
				continue;
			if (x->record && td_op_drained_by_others(x->record) && x->record_differs) {
				// Its record, and with it somebody's reason, would have to go for the new size to count.
				act(x, TD_OP_NONE, "drained by somebody else: updated when it is resumed");
			} else if (out || away < p->max_unavailable) {
				away += !out;
				retire(x, TD_REASON_UPDATE, p, p->update_force_s);
			} else {
				act(x, TD_OP_NONE, td_op_turn);
			}
		}
	}
}

static void count(const struct td_op_node *v, size_t n, struct td_op_counts *ret)
{
	for (size_t i = 0; i < n; i++) {
		const struct td_op_node *x = &v[i];
		ret->matched += x->matched;
		ret->assigned += x->pod;
		ret->running += x->pod && x->pod_ready && !x->pod_deleting;
		ret->updated += x->pod && x->pod_updated && !x->pod_deleting;
		ret->ready += registered(x);
		if (!x->record)
			continue;
		uint64_t s = x->record->states;
		if (s & TD_NODE(DRAIN))
			*(td_node_drained(s) ? &ret->drained : &ret->draining) += 1;
		else if (s & (TD_NODE(DOWN) | TD_NODE(ERROR) | TD_NODE(FAIL) | TD_NODE(UNKNOWN) | TD_NODE(INVALID)))
			ret->down++;
		else if (s & (TD_NODE(ALLOCATED) | TD_NODE(MIXED) | TD_NODE(COMPLETING)))
			ret->allocated++;
		else
			ret->idle++;
	}
}

void td_op_decide(struct td_op_node *v, size_t n, const struct td_op_policy *p, struct td_op_counts *ret)
{
	struct td_op_counts c = {0};
	size_t able = 0;
	for (size_t i = 0; i < n; i++) {
		v[i].keep = v[i].exists && v[i].matched && (v[i].pod || !v[i].refuse);
		act(&v[i], TD_OP_NONE, NULL);
		v[i].evictable = v[i].record && !td_op_record_busy(v[i].record) && (v[i].record->states & (TD_NODE(DRAIN) | TD_NODE(DOWN)));
		able += v[i].keep;
	}
	c.desired = p->replicas < 0 || p->replicas > (long long)able ? (long long)able : p->replicas;
	for (size_t over = able - (size_t)c.desired; over > 0; over--) {
		size_t at = n;
		for (size_t i = 0; i < n; i++)
			if (v[i].keep && (at == n || rank(&v[i]) <= rank(&v[at]))) // of equals the last by name
				at = i;
		v[at].keep = false;
	}
	for (size_t i = 0; i < n; i++) {
		if (v[i].keep)
			stay(&v[i], p);
		else if (v[i].exists && v[i].matched && !v[i].pod && v[i].refuse && !v[i].record)
			v[i].why = v[i].refuse;
		else
			leave(&v[i], p);
	}
	if (p->rolling)
		update(v, n, p);
	count(v, n, &c);
	*ret = c;
}
