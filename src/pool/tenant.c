// Tenants: the tree, and the difference to slurmdbd's rows.
#include "pool/tenant.h"

#include <string.h>

const char *td_pool_tenant_act_name(enum td_pool_tenant_act a)
{
	static const char *const names[] = {"add-account", "set", "add-user", "remove-user"};
	return names[a];
}

// ---- the tree ----

static const struct td_pool_tenant *find(const struct td_pool_tenant *t, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (td_streq(t[i].name, name))
			return &t[i];
	return NULL;
}

// Does a come before b where both want the same name?
static bool first(const struct td_pool_tenant *a, const struct td_pool_tenant *b)
{
	return a->born != b->born ? a->born < b->born : strcmp(a->name, b->name) < 0;
}

static bool has(const struct td_pool_tenant *t, const char *ns)
{
	for (size_t i = 0; i < t->n_namespaces; i++)
		if (!strcmp(t->namespaces[i], ns))
			return true;
	return false;
}

static void bad(struct td_pool_verdict *v, const char *reason, const char *message)
{
	v->valid = false;
	if (!v->reason) {
		v->reason = reason;
		v->message = message;
	}
}

// It is its parent's fault.
static void bad_parent(struct td_pool_verdict *v, const char *reason, const char *message)
{
	v->waits |= !v->reason;
	bad(v, reason, message);
}

// Names that only one tenant can have: the older one has them.
static void clashes(struct td_arena *arena, const struct td_pool_tenant *t, size_t n, size_t at,
		    struct td_pool_verdict *v)
{
	for (size_t i = 0; i < n; i++) {
		if (i == at || !first(&t[i], &t[at]))
			continue;
		if (!strcmp(t[i].account, t[at].account))
			bad(v, "AccountTaken",
			    td_arena_printf(arena, "spec.account: account \"%s\" is Tenant %s's; name another one",
					    t[at].account, t[i].name));
		for (size_t k = 0; k < t[at].n_namespaces; k++)
			if (has(&t[i], t[at].namespaces[k]))
				bad(v, "NamespaceTaken",
				    td_arena_printf(arena,
						    "spec.namespaces: \"%s\" is Tenant %s's; take it out of one of "
						    "them",
						    t[at].namespaces[k], t[i].name));
	}
	if (!strcmp(t[at].account, "root"))
		bad(v, "AccountTaken", "spec.account: \"root\" is Slurm's own account; name another one");
}

// Follows the parents up. A cycle is everybody's who is on it or below it.
static void ancestors(struct td_arena *arena, const struct td_pool_tenant *t, size_t n, size_t at,
		      struct td_pool_verdict *v)
{
	const struct td_pool_tenant *x = &t[at];
	for (size_t steps = 0; x->parent; steps++) {
		const struct td_pool_tenant *up = find(t, n, x->parent);
		if (!up) {
			bad_parent(v, x == &t[at] ? "ParentUnknown" : "ParentInvalid",
				   td_arena_printf(
					   arena,
					   "spec.parent%s%s: there is no Tenant \"%s\" of this cluster; create it, or "
					   "name another parent",
					   x == &t[at] ? "" : " of Tenant ", x == &t[at] ? "" : x->name, x->parent));
			return;
		}
		if (steps > n) {
			bad(v, "ParentCycle",
			    td_arena_printf(arena,
					    "spec.parent: \"%s\" leads round in a circle; take the parent from one of "
					    "its Tenants",
					    t[at].parent));
			return;
		}
		x = up;
	}
}

static int64_t of(const struct td_pool_tres *v, size_t n, const char *tres)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(v[i].tres, tres))
			return v[i].count;
	return -1;
}

// A quota is a promise, and promises of the children may add up to more than there is.
static const char *sums(struct td_arena *arena, const struct td_pool_tenant *t, size_t n, size_t at)
{
	for (size_t k = 0; k < t[at].n_quota; k++) {
		int64_t sum = 0;
		for (size_t i = 0; i < n; i++) {
			int64_t q = td_streq(t[i].parent, t[at].name) && !t[i].deleting
					    ? of(t[i].quota, t[i].n_quota, t[at].quota[k].tres)
					    : -1;
			sum += q > 0 ? q : 0;
		}
		if (sum > t[at].quota[k].count)
			return td_arena_printf(arena,
					       "the quotas of the Tenants below add up to %lld %s, and this one has "
					       "%lld: they cannot all use theirs at once; raise this quota or lower "
					       "theirs",
					       (long long)sum, t[at].quota[k].tres, (long long)t[at].quota[k].count);
	}
	return NULL;
}

static const char *children(struct td_arena *arena, const struct td_pool_tenant *t, size_t n, const char *name)
{
	const char *all = NULL;
	for (size_t i = 0; i < n; i++)
		if (td_streq(t[i].parent, name))
			all = all ? td_arena_printf(arena, "%s, %s", all, t[i].name) : t[i].name;
	return all;
}

void td_pool_tenants_judge(struct td_arena *arena, const struct td_pool_tenant *t, size_t n,
			   struct td_pool_verdict *ret)
{
	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct td_pool_verdict){.valid = true, .parent_account = "root"};
		ancestors(arena, t, n, i, &ret[i]);
		clashes(arena, t, n, i, &ret[i]);
		ret[i].warning = sums(arena, t, n, i);
		ret[i].children = children(arena, t, n, t[i].name);
		const struct td_pool_tenant *up = t[i].parent ? find(t, n, t[i].parent) : NULL;
		if (up)
			ret[i].parent_account = up->account;
	}

	// An account needs its parent's, so whoever is below an unusable tenant cannot be used either.
	for (size_t round = 0; round < n; round++)
		for (size_t i = 0; i < n; i++) {
			const struct td_pool_tenant *up = t[i].parent ? find(t, n, t[i].parent) : NULL;
			if (up && !ret[up - t].valid)
				bad_parent(&ret[i], "ParentInvalid",
					   td_arena_printf(arena,
							   "spec.parent: Tenant %s cannot be used; see its conditions",
							   up->name));
		}
}

const struct td_pool_tres *td_pool_tres_capped(struct td_arena *arena, const struct td_pool_tres *v, size_t n,
					       int64_t gpus, size_t *ret_n)
{
	struct td_pool_tres *all = td_arena_alloc(arena, (n + 1) * sizeof(*all));
	bool named = false;
	for (size_t i = 0; i < n; i++) {
		bool is = !strcmp(v[i].tres, TD_POOL_TRES_GPU);
		all[i] = (struct td_pool_tres){v[i].tres, is && gpus < v[i].count ? gpus : v[i].count};
		named |= is;
	}
	if (!named)
		all[n++] = (struct td_pool_tres){TD_POOL_TRES_GPU, gpus};
	*ret_n = n;
	return all;
}

// ---- slurmdbd ----

static bool same_tres(const struct td_pool_assoc *a, const struct td_pool_assoc *b)
{
	if (a->n_grp != b->n_grp)
		return false;
	for (size_t i = 0; i < a->n_grp; i++)
		if (of(b->grp, b->n_grp, a->grp[i].tres) != a->grp[i].count)
			return false;
	return true;
}

// The comment does not count: slurmdbd takes one at the birth of a row only.
static bool same(const struct td_pool_assoc *have, const struct td_pool_assoc *want)
{
	return have->shares == want->shares && same_tres(have, want) && have->grp_submit == want->grp_submit &&
	       have->max_jobs == want->max_jobs && have->max_submit == want->max_submit &&
	       (*want->user || td_streq(have->parent, want->parent));
}

static const struct td_pool_assoc *row(const struct td_pool_rows *r, const char *account, const char *user)
{
	for (size_t i = 0; i < r->n_assocs; i++)
		if (!strcmp(r->assocs[i].account, account) && !strcmp(r->assocs[i].user, user))
			return &r->assocs[i];
	return NULL;
}

static void step(struct td_pool_tenant_steps *s, enum td_pool_tenant_act act, const struct td_pool_assoc *want)
{
	s->v[s->n++] = (struct td_pool_tenant_step){.act = act, .want = *want};
}

// What the account's own association should be.
static struct td_pool_assoc wanted(struct td_arena *arena, const struct td_pool_tenant *t,
				   const struct td_pool_verdict *v)
{
	struct td_pool_tres *grp = td_arena_alloc(arena, (t->n_quota + 1) * sizeof(*grp));
	struct td_pool_assoc w = {.account = t->account,
				  .user = "",
				  .parent = v->parent_account,
				  .comment = TD_POOL_TENANT_MARK,
				  .shares = t->weight,
				  .grp = grp,
				  .grp_submit = t->closed ? 0 : -1,
				  .max_jobs = -1,
				  .max_submit = -1,
				  .qos = t->qos,
				  .n_qos = t->n_qos,
				  .default_qos = t->default_qos};
	for (size_t i = 0; i < t->n_quota && !t->borrow_all; i++) {
		int64_t more = of(t->borrow, t->n_borrow, t->quota[i].tres);
		grp[w.n_grp++] = (struct td_pool_tres){t->quota[i].tres, t->quota[i].count + (more > 0 ? more : 0)};
	}
	if (t->capped)
		w.grp = td_pool_tres_capped(arena, w.grp, w.n_grp, t->gpus, &w.n_grp);
	return w;
}

static const struct td_pool_tenant_user *member(const struct td_pool_tenant *t, const char *user)
{
	for (size_t i = 0; i < t->n_users; i++)
		if (!strcmp(t->users[i].name, user))
			return &t->users[i];
	return NULL;
}

static void users(struct td_arena *arena, const struct td_pool_tenant *t, const struct td_pool_rows *rows,
		  struct td_pool_tenant_steps *s)
{
	for (size_t i = 0; i < t->n_users; i++) {
		const struct td_pool_tenant_user *u = &t->users[i];
		struct td_pool_assoc w = {.account = t->account,
					  .user = u->name,
					  .comment = TD_POOL_TENANT_MARK,
					  .shares = 1,
					  .grp = u->limited ? t->per_user : NULL,
					  .n_grp = u->limited ? t->n_per_user : 0,
					  .grp_submit = -1,
					  .max_jobs = u->limited ? t->user_jobs : -1,
					  .max_submit = u->limited ? t->user_waits : -1};
		if (u->capped)
			w.grp = td_pool_tres_capped(arena, w.grp, w.n_grp, u->gpus, &w.n_grp);
		const struct td_pool_assoc *have = row(rows, t->account, u->name);
		if (!have)
			step(s, TD_TENANT_ADD_USER, &w);
		// A new row has no limits of its own.
		if (have ? !same(have, &w) : w.n_grp || w.max_jobs >= 0 || w.max_submit >= 0)
			step(s, TD_TENANT_SET, &w);
	}
}

struct td_pool_tenant_steps td_pool_tenant_diff(struct td_arena *arena, const struct td_pool_tenant *t,
						const struct td_pool_verdict *v, const struct td_pool_rows *rows)
{
	struct td_pool_tenant_steps s = {
		.v = td_arena_alloc(arena, (2 + 2 * t->n_users + rows->n_assocs) * sizeof(*s.v))};
	const struct td_pool_account *account = NULL;
	for (size_t i = 0; i < rows->n_accounts; i++)
		if (!strcmp(rows->accounts[i].name, t->account))
			account = &rows->accounts[i];
	const char *mark = td_arena_printf(arena, "Tenant %s", t->name);
	s.ours = !account ||
		 (td_streq(account->organization, TD_POOL_TENANT_MARK) && td_streq(account->description, mark));
	if (!s.ours && !t->adopt) {
		s.refused =
			td_arena_printf(arena,
					"Slurm has an account \"%s\" that is not this Tenant's (%s): name another one "
					"in spec.account, or set spec.adopt to take it over with its limits",
					t->account, account->description);
		return s;
	}

	struct td_pool_assoc w = wanted(arena, t, v);
	const struct td_pool_assoc *have = row(rows, t->account, "");
	if (!account || !have) {
		step(&s, TD_TENANT_ADD_ACCOUNT, &w);
		s.v[s.n - 1].description = s.ours ? mark : account->description;
		s.v[s.n - 1].organization = s.ours ? TD_POOL_TENANT_MARK : account->organization;
	}
	if (have ? !same(have, &w) || w.qos : w.n_grp || w.grp_submit >= 0 || w.qos)
		step(&s, TD_TENANT_SET, &w);

	users(arena, t, rows, &s);
	for (size_t i = 0; i < rows->n_assocs; i++) {
		const struct td_pool_assoc *a = &rows->assocs[i];
		if (strcmp(a->account, t->account) || !*a->user || member(t, a->user))
			continue;
		if (td_streq(a->comment, TD_POOL_TENANT_MARK))
			step(&s, TD_TENANT_REMOVE_USER, a);
		else
			s.others = s.others ? td_arena_printf(arena, "%s, %s", s.others, a->user) : a->user;
	}
	return s;
}
