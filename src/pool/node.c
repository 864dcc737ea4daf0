// One node, both sides (docs/protocols.md 2): what drains it, and what the Kubernetes side shows.
#include "pool/pool.h"

#include "base/names.h"

#include <stdio.h>
#include <string.h>

// Appends s to the reason. Control characters and quotes, which one line of Slurm cannot hold,
// become blanks. What is too long is cut on a UTF-8 boundary.
static void add(char *out, const char *s)
{
	size_t n = strlen(out);
	for (; *s && n + 1 < TD_POOL_REASON_MAX; s++)
		out[n++] = (unsigned char)*s < ' ' || *s == 127 || *s == '"' || *s == '\'' ? ' ' : *s;
	if (*s)
		while (n && ((unsigned char)out[n - 1] & 0x80) && n--)
			if (((unsigned char)out[n] & 0xC0) == 0xC0)
				break;
	out[n] = '\0';
}

void td_pool_node_causes(const struct td_pool_node_facts *f, struct td_pool_node_plan *ret)
{
	*ret = (struct td_pool_node_plan){0};
	if (!f->known)
		return;
	ret->decided = true;
	if (!f->slurm)
		return;

	bool ours = f->drain && td_pool_reason_owner(f->reason) == TD_OWNER_BRIDGE;
	ret->foreign = f->drain && !td_pool_reason_tandem(f->reason);
	ret->taint = ret->foreign || (f->k8s && f->hold);
	ret->down = f->down && !f->off; // what is powered down on demand comes when a job wants it
	if (f->drain || f->bad || f->off)
		ret->state = f->words;
	if (f->drain || f->bad) {
		ret->text = f->reason && *f->reason ? f->reason : NULL;
	}
	if (!f->k8s)
		return; // the operator deals with records of nodes that are gone

	if (f->lost_state)
		add(ret->reason, TD_REASON_LOST);
	else if (f->cordoned)
		add(ret->reason, TD_REASON_CORDONED " in Kubernetes");
	else if (f->request) {
		add(ret->reason, TD_REASON_REQUESTED);
		if (*f->request) {
			add(ret->reason, ": ");
			add(ret->reason, f->request);
		}
	} else if (f->hold) {
		// The operator says which of the two it is; anything else is a condition.
		bool said = !strncmp(f->hold, "condition", 9) || !strncmp(f->hold, "action", 6) ||
			    !strncmp(f->hold, "devices", 7);
		add(ret->reason, said ? TD_REASON_PREFIX " " : TD_REASON_CONDITION " ");
		add(ret->reason, f->hold);
	} else if (f->gate && (ours || !f->gate_alarm)) {
		add(ret->reason, TD_REASON_GATE ", ");
		add(ret->reason, f->gate);
	} else if (f->devices) {
		add(ret->reason, TD_REASON_DEVICES ", ");
		add(ret->reason, f->devices);
	}

	// Slurm lifts a DOWN at the node's next registration (ReturnToService=2), whoever set it. A drain beside
	// it, with his reason, holds until he resumes the node.
	bool held =
		f->down && f->by_person && !f->drain && f->reason && *f->reason && !td_pool_reason_tandem(f->reason);
	if (held)
		*ret->reason = '\0';
	if (held || (*ret->reason && !f->drain))
		ret->slurm = TD_NODE_DRAIN;
	else if (ours && f->hold && f->end_jobs && f->busy && !f->down)
		ret->slurm = TD_NODE_DOWN; // requeues batch jobs, and ends the others
	else if (*ret->reason && ours && strcmp(ret->reason, f->reason) != 0)
		ret->slurm = TD_NODE_REASON;
	else if (!*ret->reason && ours)
		ret->slurm = TD_NODE_UNDRAIN;
}

int64_t td_pool_write_in(int64_t *full_at, int64_t now_ms)
{
	int64_t from = *full_at > now_ms ? *full_at : now_ms,
		in = from - now_ms - (TD_POOL_WRITES - 1) * TD_POOL_WRITE_MS;
	if (in > 0)
		return in;
	*full_at = from + TD_POOL_WRITE_MS;
	return 0;
}
