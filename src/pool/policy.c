// The order that a policy says.
#include "pool/policy.h"

#include <string.h>

// Jobs as they come: urgency, nice, then age.
struct line {
	const struct td_policy_job *j;
	size_t at;  // in the input
	size_t key; // its queue
};

static int by_age(const void *a, const void *b)
{
	const struct td_policy_job *x = ((const struct line *)a)->j, *y = ((const struct line *)b)->j;
	if (x->urgency != y->urgency)
		return x->urgency > y->urgency ? -1 : 1;
	if (x->nice != y->nice)
		return x->nice < y->nice ? -1 : 1;
	if (x->submit_s != y->submit_s)
		return x->submit_s < y->submit_s ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static bool alike(const struct td_policy_job *a, const struct td_policy_job *b)
{
	return a->urgency == b->urgency && a->nice == b->nice;
}

// ---- queues ----
struct queue {
	const char *account, *user; // NULL: any
	int64_t jobs, tres[TD_POLICY_TRES];
	size_t next, end; // its jobs that are left, in `mine`
};

static int by_name(const void *a, const void *b)
{
	const struct queue *x = a, *y = b;
	int d = strcmp(x->account ? x->account : "", y->account ? y->account : "");
	return d ? d : strcmp(x->user ? x->user : "", y->user ? y->user : "");
}

struct queues {
	struct queue *v;
	size_t n;
	bool account, user; // what tells them apart
};

static struct queue name_of(const struct queues *q, const char *account, const char *user)
{
	return (struct queue){.account = q->account ? (account ? account : "") : NULL,
			      .user = q->user ? (user ? user : "") : NULL};
}

static struct queue *queue_of(const struct queues *q, const char *account, const char *user)
{
	const struct queue key = name_of(q, account, user);
	return q->n ? bsearch(&key, q->v, q->n, sizeof(*q->v), by_name) : NULL;
}

// The queues of these jobs, with what each holds. Caller frees ret->v.
static void make_queues(const struct td_policy_input *in, const struct line *l, struct queues *ret)
{
	size_t n = 0;
	ret->v = td_calloc(in->n + 1, sizeof(*ret->v));
	for (size_t i = 0; i < in->n; i++)
		ret->v[i] = name_of(ret, l[i].j->account, l[i].j->user);
	if (in->n)
		qsort(ret->v, in->n, sizeof(*ret->v), by_name);
	for (size_t i = 0; i < in->n; i++)
		if (!n || by_name(&ret->v[n - 1], &ret->v[i]))
			ret->v[n++] = ret->v[i];
	ret->n = n;
	for (size_t i = 0; i < in->n_held; i++) {
		const struct td_policy_held *h = &in->held[i];
		struct queue *q = queue_of(ret, h->account, h->user);
		if (!q)
			continue;
		q->jobs++;
		for (int k = 0; k < TD_POLICY_TRES; k++)
			q->tres[k] += h->tres[k];
	}
}

// How much a queue has had; the one with the least is next.
static double had(const struct td_policy_input *in, const struct queue *q)
{
	if (in->kind != TD_POLICY_DRF)
		return (double)q->jobs;
	double most = 0;
	for (int k = 0; k < TD_POLICY_TRES; k++) {
		double share = in->total[k] > 0 ? (double)q->tres[k] / (double)in->total[k] : 0;
		most = share > most ? share : most;
	}
	return most;
}

// A heap of queues that have jobs left: the one that has had the least is on top, among equals the
// one whose first job is the oldest.
struct tops {
	const struct td_policy_input *in;
	struct queues *q;
	const struct line *l;
	const size_t *mine;
	size_t *v, n;
	double *had; // of each queue
};

static bool before(const struct tops *t, size_t a, size_t b)
{
	if (t->had[a] != t->had[b])
		return t->had[a] < t->had[b];
	return t->mine[t->q->v[a].next] < t->mine[t->q->v[b].next]; // positions in `l`, the oldest first
}

static void sift(struct tops *t, size_t at)
{
	for (;;) {
		size_t least = at;
		for (size_t c = 2 * at + 1; c <= 2 * at + 2 && c < t->n; c++)
			if (before(t, t->v[c], t->v[least]))
				least = c;
		if (least == at)
			return;
		size_t x = t->v[at];
		t->v[at] = t->v[least];
		t->v[least] = x;
		at = least;
	}
}

// Lets the queues of jobs l[from..to), which are alike in urgency, take turns. Writes l's positions to ret.
static void turns(const struct td_policy_input *in, struct queues *q, const struct line *l, size_t from, size_t to,
		  size_t *ret)
{
	// Each queue's jobs one after another, the oldest first.
	td_auto_free size_t *mine = td_calloc(to - from + 1, sizeof(*mine)), *heap = td_calloc(q->n + 1, sizeof(*heap));
	td_auto_free double *given = td_calloc(q->n + 1, sizeof(*given));
	for (size_t k = 0; k < q->n; k++)
		q->v[k].next = q->v[k].end = 0;
	for (size_t i = from; i < to; i++)
		q->v[l[i].key].end++;
	for (size_t k = 0, at = 0; k < q->n; k++) {
		at += q->v[k].end;
		q->v[k].next = q->v[k].end = at - q->v[k].end;
	}
	for (size_t i = from; i < to; i++)
		mine[q->v[l[i].key].end++] = i;

	struct tops t = {.in = in, .q = q, .l = l, .mine = mine, .v = heap, .had = given};
	for (size_t k = 0; k < q->n; k++) {
		given[k] = had(in, &q->v[k]);
		if (q->v[k].next < q->v[k].end)
			heap[t.n++] = k;
	}
	for (size_t i = t.n; i > 0; i--)
		sift(&t, i - 1);
	for (size_t out = 0; t.n; out++) {
		struct queue *top = &q->v[heap[0]];
		const struct td_policy_job *j = l[mine[top->next]].j;
		ret[out] = mine[top->next++];
		if (!j->aside) {
			top->jobs++;
			for (int k = 0; k < TD_POLICY_TRES; k++)
				top->tres[k] += j->tres[k];
			given[heap[0]] = had(in, top);
		}
		if (top->next == top->end)
			heap[0] = heap[--t.n];
		sift(&t, 0);
	}
}

// One level of queues over all jobs, those of a higher urgency first.
static void level(const struct td_policy_input *in, struct line *l, bool account, bool user)
{
	struct queues q = {.account = account, .user = user};
	make_queues(in, l, &q);
	td_auto_free struct queue *own = q.v;
	td_auto_free size_t *order = td_calloc(in->n + 1, sizeof(*order));
	td_auto_free struct line *now = td_calloc(in->n + 1, sizeof(*now));
	for (size_t i = 0; i < in->n; i++)
		l[i].key = (size_t)(queue_of(&q, l[i].j->account, l[i].j->user) - own);
	for (size_t from = 0, to; from < in->n; from = to) {
		for (to = from + 1; to < in->n && alike(l[from].j, l[to].j);)
			to++;
		turns(in, &q, l, from, to, order + from);
	}
	for (size_t i = 0; i < in->n; i++)
		now[i] = l[order[i]];
	memcpy(l, now, in->n * sizeof(*l));
}

void td_policy_order(const struct td_policy_input *in, size_t *ret)
{
	td_auto_free struct line *l = td_calloc(in->n + 1, sizeof(*l));
	for (size_t i = 0; i < in->n; i++)
		l[i] = (struct line){.j = &in->v[i], .at = i};
	if (in->n)
		qsort(l, in->n, sizeof(*l), by_age);

	if (in->kind == TD_POLICY_LIFO)
		for (size_t from = 0, to; from < in->n; from = to) {
			for (to = from + 1; to < in->n && alike(l[from].j, l[to].j);)
				to++;
			for (size_t a = from, b = to - 1; a < b; a++, b--) {
				struct line x = l[a];
				l[a] = l[b];
				l[b] = x;
			}
		}
	if ((in->kind == TD_POLICY_HIERARCHICAL || in->kind == TD_POLICY_DRF) && in->queue != TD_POLICY_ONE_QUEUE) {
		// Within its account first: the accounts then take from that order.
		if (in->queue == TD_POLICY_PER_ACCOUNT)
			level(in, l, true, true);
		level(in, l, in->queue == TD_POLICY_PER_ACCOUNT, in->queue == TD_POLICY_PER_USER);
	}
	for (size_t i = 0; i < in->n; i++)
		ret[i] = l[i].at;
}
