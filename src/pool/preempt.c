// Who may take resources from whom (preempt.h). t/scenarios/preempt.txt shows every case.
#include "pool/preempt.h"

#include <string.h>

static bool same(const struct td_pool_qos *a, const struct td_pool_qos *b)
{
	bool yes = a->priority == b->priority && a->grace_s == b->grace_s && a->exempt_s == b->exempt_s &&
		   a->n_preempts == b->n_preempts;
	for (size_t i = 0; yes && i < a->n_preempts; i++)
		yes = !strcmp(a->preempts[i], b->preempts[i]);
	return yes;
}

enum td_pool_qos_do td_pool_qos_decide(const struct td_pool_qos *want, const struct td_pool_qos *live, bool ours)
{
	if (!live)
		return want ? TD_QOS_MAKE : TD_QOS_LEAVE;
	if (!want)
		return ours && (live->n_preempts || live->priority || live->grace_s || live->exempt_s) ? TD_QOS_RETIRE
												       : TD_QOS_LEAVE;
	return !ours ? TD_QOS_FOREIGN : same(want, live) ? TD_QOS_LEAVE : TD_QOS_WRITE;
}

const char *td_pool_qos_do_name(enum td_pool_qos_do d)
{
	static const char *const names[] = {"leave", "make", "write", "foreign", "retire"};
	return (size_t)d < sizeof(names) / sizeof(names[0]) ? names[d] : "?";
}

static bool less(const struct td_pool_holder *a, const struct td_pool_holder *b)
{
	return a->going != b->going ? a->going : a->loss < b->loss;
}

static void leave(struct td_pool_node *x, const struct td_pool_want *has)
{
	x->used_cpus -= has->cpus < x->used_cpus ? has->cpus : x->used_cpus;
	x->used_memory_mb -= has->memory_mb < x->used_memory_mb ? has->memory_mb : x->used_memory_mb;
	for (int k = 0; k < TD_POOL_KINDS; k++)
		x->used_gres[k] -= has->gres[k] < x->used_gres[k] ? has->gres[k] : x->used_gres[k];
}

// What is lost on node i when the ask gets its room there; -1: it cannot.
static int64_t loss_on(const struct td_pool_node *nodes, int i, const struct td_pool_want *want,
		       const struct td_pool_holder *holders, size_t n_holders)
{
	struct td_pool_node x = nodes[i];
	const struct td_pool_holder *last = NULL;
	int64_t loss = 0;

	while (td_pool_fits_now(&x, 1, want) < 0) {
		// The next one in the order of loss. Equals go in the order of the list.
		const struct td_pool_holder *next = NULL;
		for (size_t k = 0; k < n_holders; k++) {
			const struct td_pool_holder *h = &holders[k];
			bool after = !last || less(last, h) || (!less(h, last) && h > last);
			if (h->node == i && (h->going || (h->may && h->slice_s <= 0)) && after &&
			    (!next || less(h, next)))
				next = h;
		}
		if (!next)
			return -1;
		leave(&x, &next->has);
		loss += next->going ? 0 : next->loss + 1; // fewer victims, too
		last = next;
	}
	return loss;
}

int td_pool_preempt_node(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *want,
			 const struct td_pool_holder *holders, size_t n_holders)
{
	int at = -1;
	int64_t least = 0;
	for (size_t i = 0; i < n; i++) {
		int64_t loss =
			nodes[i].feasible && nodes[i].usable ? loss_on(nodes, (int)i, want, holders, n_holders) : -1;
		if (loss >= 0 && (at < 0 || loss < least)) {
			at = (int)i;
			least = loss;
		}
	}
	return at;
}

enum td_pool_preempt_do td_pool_preempt(const struct td_pool_preempt *p, int64_t *ret_ms)
{
	// A look at the victims costs a call of 80 bytes each. With a grace they may go earlier. One try
	// preempts, one at the end of the grace ends them, and one gets the room; the rest is for races.
	enum { LEAVING_MS = 15, GRACE_MS = 250, TRIES = 6, GIVE_UP_MS = 60000 };

	*ret_ms = 0;
	if (!p->node || p->none || p->tries >= TRIES)
		return TD_PREEMPT_QUEUE;
	if (p->leaving)
		*ret_ms = LEAVING_MS;
	else if (p->grace_ms > 0)
		*ret_ms = p->grace_ms < GRACE_MS ? p->grace_ms : GRACE_MS;
	if (*ret_ms)
		return p->leaving && p->since_ms > GIVE_UP_MS ? TD_PREEMPT_QUEUE : TD_PREEMPT_WAIT;
	return TD_PREEMPT_TRY;
}

const char *td_pool_preempt_do_name(enum td_pool_preempt_do d)
{
	static const char *const names[] = {"queue", "try", "wait"};
	return (size_t)d < sizeof(names) / sizeof(names[0]) ? names[d] : "?";
}

int64_t td_pool_preempt_look_ms(bool waits, size_t many)
{
	enum { LEAST_MS = 1000, EACH_MS = 50, IDLE_MS = 60000 };
	int64_t ms = (int64_t)many * EACH_MS;
	return !waits ? IDLE_MS : ms > LEAST_MS ? ms : LEAST_MS;
}
