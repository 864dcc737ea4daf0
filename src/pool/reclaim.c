// The QOS of what Tenants hold within their quotas and beyond them.
#include "pool/reclaim.h"

#include <string.h>

#define QUOTA ".quota"
#define BORROWED ".borrowed"

const char *td_pool_reclaim_quota(struct td_arena *arena, const char *account)
{
	return td_arena_printf(arena, "%s" QUOTA, account);
}

const char *td_pool_reclaim_borrowed(struct td_arena *arena, const char *account)
{
	return td_arena_printf(arena, "%s" BORROWED, account);
}

const char *td_pool_reclaim_list(struct td_arena *arena, const char *account)
{
	return td_arena_printf(arena, "%s" QUOTA ",%s" BORROWED, account, account);
}

enum td_pool_reclaim_kind td_pool_reclaim_of(const char *qos, size_t *ret_len)
{
	size_t n = qos ? strlen(qos) : 0;
	*ret_len = 0;
	if (n > strlen(QUOTA) && !strcasecmp(qos + n - strlen(QUOTA), QUOTA)) {
		*ret_len = n - strlen(QUOTA);
		return TD_RECLAIM_QUOTA;
	}
	if (n > strlen(BORROWED) && !strcasecmp(qos + n - strlen(BORROWED), BORROWED)) {
		*ret_len = n - strlen(BORROWED);
		return TD_RECLAIM_BORROWED;
	}
	return TD_RECLAIM_NONE;
}

bool td_pool_reclaim_preempts(const char *from, const char *to)
{
	size_t a, b;
	return td_pool_reclaim_of(from, &a) == TD_RECLAIM_QUOTA && td_pool_reclaim_of(to, &b) == TD_RECLAIM_BORROWED &&
	       (a != b || strncasecmp(from, to, a));
}

// A project's quota is no promise to others, or a Tenant's admins could promise themselves more than their Tenant has.
static bool has_own(const struct td_pool_tenant *t)
{
	return t->n_quota && !t->project;
}

const char *td_pool_reclaim_account(const struct td_pool_tenant *t, size_t n, size_t at,
				    const struct td_pool_reclaim *r)
{
	const struct td_pool_tenant *x = &t[at];
	for (size_t steps = 0; r->on && x && steps <= n; steps++) {
		const struct td_pool_tenant *up = NULL;
		if (has_own(x))
			return x->account;
		for (size_t i = 0; x->parent && i < n && !up; i++)
			up = strcmp(t[i].name, x->parent) ? NULL : &t[i];
		x = up;
	}
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const struct td_pool_reclaim_row *row(const struct td_pool_reclaim_rows *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcasecmp(l->v[i].name, name))
			return &l->v[i];
	return NULL;
}

static int64_t count(const struct td_pool_tres *v, size_t n, const char *tres)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(v[i].tres, tres))
			return v[i].count;
	return -1;
}

static bool same(const struct td_pool_reclaim_row *a, const struct td_pool_reclaim_row *b)
{
	if (a->n_preempts != b->n_preempts || a->priority != b->priority || a->grace_s != b->grace_s ||
	    a->exempt_s != b->exempt_s || a->n_grp != b->n_grp)
		return false;
	for (size_t i = 0; i < a->n_preempts; i++)
		if (strcmp(a->preempts[i], b->preempts[i]) != 0)
			return false;
	for (size_t i = 0; i < a->n_grp; i++)
		if (count(b->grp, b->n_grp, a->grp[i].tres) != a->grp[i].count)
			return false;
	return true;
}

// Adds the row to what is written, unless slurmdbd has it, or somebody else does.
static void want(struct td_arena *arena, struct td_pool_reclaim_rows *ret, const struct td_pool_reclaim_row *w,
		 const struct td_pool_reclaim_row *have)
{
	if (have && !td_streq(have->mark, w->mark)) {
		ret->foreign = ret->foreign ? td_arena_printf(arena, "%s, %s", ret->foreign, w->name) : w->name;
		return;
	}
	if (have && same(have, w))
		return;
	struct td_pool_reclaim_row *x = &ret->v[ret->n++];
	*x = *w;
	if (!have)
		return;
	// A write leaves the limits that it does not name.
	struct td_pool_tres *grp = td_arena_alloc(arena, (w->n_grp + have->n_grp + 1) * sizeof(*grp));
	x->empties = have->n_preempts && !w->n_preempts;
	x->grp = grp;
	x->n_grp = 0;
	for (size_t i = 0; i < w->n_grp; i++)
		grp[x->n_grp++] = w->grp[i];
	for (size_t i = 0; i < have->n_grp; i++)
		if (count(w->grp, w->n_grp, have->grp[i].tres) < 0)
			grp[x->n_grp++] = (struct td_pool_tres){have->grp[i].tres, -1};
}

struct td_pool_reclaim_rows td_pool_reclaim_diff(struct td_arena *arena, const struct td_pool_tenant *t, size_t n,
						 const bool *valid, const struct td_pool_reclaim *r,
						 const struct td_pool_reclaim_rows *live)
{
	struct td_pool_reclaim_rows ret = {.v = td_arena_alloc(arena, (2 * n + live->n + 1) * sizeof(*ret.v))};
	const char **lent = td_arena_alloc(arena, (n + 1) * sizeof(*lent)),
		   **known = td_arena_alloc(arena, 2 * n * sizeof(*known) + 8);
	size_t n_lent = 0, n_known = 0;
	for (size_t i = 0; i < n; i++)
		if (r->on && valid[i] && has_own(&t[i]))
			lent[n_lent++] = td_pool_reclaim_borrowed(arena, t[i].account);
	if (n_lent)
		qsort(lent, n_lent, sizeof(*lent), by_name);

	for (size_t i = 0; i < n_lent; i++) {
		const struct td_pool_reclaim_row w = {
			.name = lent[i], .grace_s = r->grace_s, .exempt_s = r->exempt_s, .mark = r->mark};
		known[n_known++] = w.name;
		want(arena, &ret, &w, row(live, w.name));
	}
	for (size_t i = 0; i < n; i++) {
		if (!r->on || !valid[i] || !has_own(&t[i]))
			continue;
		const char **victims = td_arena_alloc(arena, (n_lent + 1) * sizeof(*victims));
		struct td_pool_reclaim_row w = {.name = td_pool_reclaim_quota(arena, t[i].account),
						.preempts = victims,
						.grp = t[i].quota,
						.n_grp = t[i].n_quota,
						.priority = 1,
						.mark = r->mark};
		if (t[i].capped) // a limit of the QOS stands for the account's
			w.grp = td_pool_tres_capped(arena, w.grp, w.n_grp, t[i].gpus, &w.n_grp);
		for (size_t k = 0; k < n_lent; k++)
			if (td_pool_reclaim_preempts(w.name, lent[k]))
				victims[w.n_preempts++] = lent[k];
		known[n_known++] = w.name;
		want(arena, &ret, &w, row(live, w.name));
	}

	for (size_t i = 0; i < live->n; i++) {
		size_t len;
		bool is = td_streq(live->v[i].mark, r->mark) && td_pool_reclaim_of(live->v[i].name, &len);
		for (size_t k = 0; k < n_known && is; k++)
			is = strcasecmp(known[k], live->v[i].name) != 0;
		const struct td_pool_reclaim_row none = {.name = live->v[i].name, .mark = r->mark};
		if (is)
			want(arena, &ret, &none, &live->v[i]);
	}
	return ret;
}

static bool in(const char *const *v, size_t n, const char *s)
{
	for (size_t i = 0; i < n; i++)
		if (!strcasecmp(v[i], s))
			return true;
	return false;
}

size_t td_pool_reclaim_allowed(struct td_arena *arena, const char *account, const struct td_pool_reclaim *r,
			       const struct td_pool_assoc *have, const char *const **ret, const char **ret_default)
{
	const char *const *old = have ? have->qos : NULL;
	size_t n_old = have ? have->n_qos : 0, n = 0, len;
	const char **v = td_arena_alloc(arena, (n_old + r->n_besides + 3) * sizeof(*v));
	const char *was = have && have->default_qos ? have->default_qos : "";
	*ret = NULL;
	*ret_default = account ? td_pool_reclaim_quota(arena, account) : "";
	if (!account && td_pool_reclaim_of(was, &len) != TD_RECLAIM_QUOTA)
		return 0; // nothing of ours was ever there

	if (account) {
		v[n++] = td_pool_reclaim_quota(arena, account);
		v[n++] = td_pool_reclaim_borrowed(arena, account);
	}
	for (size_t i = 0; i < r->n_besides; i++)
		if (!in(v, n, r->besides[i]))
			v[n++] = r->besides[i];
	// What else somebody has allowed stays, but the quotas of other accounts.
	for (size_t i = 0; i < n_old; i++)
		if (!in(v, n, old[i]) && td_pool_reclaim_of(old[i], &len) == TD_RECLAIM_NONE)
			v[n++] = old[i];
	bool right = n == n_old && !strcasecmp(was, *ret_default);
	for (size_t i = 0; i < n && right; i++)
		right = in(old, n_old, v[i]);
	if (!right)
		*ret = v;
	return n;
}
