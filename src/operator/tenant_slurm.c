// Tenants in slurmdbd: reads what is there, lets room pool compare, and carries the steps out.
#include "operator/tenant.h"

#include "base/log.h"
#include "slurm/accounting.h"
#include "slurm/accounts.h"

#include <string.h>

struct tenant_work {
	struct td_op_tenant_pass *p;
	struct td_slurm *s;
	struct td_pool_rows rows;
};

static void fails(struct td_op_tenant_pass *p, struct td_op_tenant *t, const char *reason, const char *text)
{
	t->slurm_reason = reason;
	t->slurm = td_arena_strdup(p->arena, text);
}

static void all_fail(struct td_op_tenant_pass *p, const char *reason, const char *text)
{
	for (size_t i = 0; i < p->n; i++)
		fails(p, &p->v[i], reason, text);
}

// ---- what is there ----

static struct td_pool_assoc assoc_of(struct td_arena *a, const struct td_slurm_assoc *x)
{
	struct td_pool_tres *grp = td_arena_alloc(a, (x->n_grp + 1) * sizeof(*grp));
	for (size_t i = 0; i < x->n_grp; i++)
		grp[i] = (struct td_pool_tres){td_arena_strdup(a, x->grp[i].tres), x->grp[i].count};
	const char **qos = td_arena_alloc(a, (x->n_qos + 1) * sizeof(*qos));
	for (size_t i = 0; i < x->n_qos; i++)
		qos[i] = td_arena_strdup(a, x->qos[i]);
	return (struct td_pool_assoc){.account = td_arena_strdup(a, x->account),
				      .user = td_arena_strdup(a, x->user),
				      .parent = td_arena_strdup(a, x->parent),
				      .comment = td_arena_strdup(a, x->comment),
				      .shares = x->shares,
				      .grp = grp,
				      .n_grp = x->n_grp,
				      .grp_submit = x->grp_submit,
				      .max_jobs = x->max_jobs,
				      .max_submit = x->max_submit,
				      .is_default = x->is_default,
				      .qos = qos,
				      .n_qos = x->n_qos,
				      .default_qos = td_arena_strdup(a, x->default_qos)};
}

static int read_rows(struct tenant_work *w, struct td_error *err)
{
	struct td_op_tenant_pass *p = w->p;
	td_auto_accounts struct td_slurm_accounts accounts = {0};
	td_auto_assocs struct td_slurm_assocs assocs = {0};
	td_auto_strv struct td_strv names = {0};
	for (size_t i = 0; i <= p->n; i++)
		if (!td_strv_has(&names, p->p[i].account))
			td_strv_add(&names, p->p[i].account);
	int r;
	if ((r = td_slurm_accounts(w->s, p->c, &accounts, err)) ||
	    (r = td_slurm_assocs(w->s, p->cluster, &names, p->c, &assocs, err)))
		return r;

	struct td_pool_account *a = td_arena_alloc(p->arena, (accounts.n + 1) * sizeof(*a));
	struct td_pool_assoc *x = td_arena_alloc(p->arena, (assocs.n + 1) * sizeof(*x));
	for (size_t i = 0; i < accounts.n; i++)
		a[i] = (struct td_pool_account){td_arena_strdup(p->arena, accounts.v[i].name),
						td_arena_strdup(p->arena, accounts.v[i].description),
						td_arena_strdup(p->arena, accounts.v[i].organization)};
	for (size_t i = 0; i < assocs.n; i++)
		x[i] = assoc_of(p->arena, &assocs.v[i]);
	w->rows = (struct td_pool_rows){a, x, accounts.n, assocs.n};
	return 0;
}

// ---- steps ----

// Gives a user another default account, so that he can leave this one.
static int other_default(struct tenant_work *w, const char *account, const char *user, struct td_error *err)
{
	td_auto_assocs struct td_slurm_assocs his = {0};
	int r = td_slurm_assocs_of(w->s, w->p->cluster, user, w->p->c, &his, err);
	for (size_t i = 0; i < his.n && !r; i++)
		if (strcmp(his.v[i].account, account) != 0)
			return td_slurm_user_default(w->s, user, his.v[i].account, w->p->c, err);
	return r;
}

static int remove_user(struct tenant_work *w, const char *account, const char *user, struct td_error *err)
{
	int r = td_slurm_assoc_remove(w->s, w->p->cluster, account, user, w->p->c, err);
	if (r != TD_EXISTS)
		return r;
	if ((r = other_default(w, account, user, err)))
		return r;
	return td_slurm_assoc_remove(w->s, w->p->cluster, account, user, w->p->c, err);
}

static int set(struct tenant_work *w, const struct td_pool_assoc *a, struct td_error *err)
{
	td_auto_free struct td_slurm_limit *grp = td_calloc(a->n_grp + 1, sizeof(*grp));
	for (size_t i = 0; i < a->n_grp; i++)
		grp[i] = (struct td_slurm_limit){(char *)(uintptr_t)a->grp[i].tres, a->grp[i].count};
	const struct td_slurm_assoc x = {.account = (char *)(uintptr_t)a->account,
					 .user = (char *)(uintptr_t)a->user,
					 .parent = (char *)(uintptr_t)a->parent,
					 .comment = (char *)(uintptr_t)a->comment,
					 .shares = a->shares,
					 .grp = grp,
					 .n_grp = a->n_grp,
					 .grp_submit = a->grp_submit,
					 .max_jobs = a->max_jobs,
					 .max_submit = a->max_submit,
					 .qos = (char **)(uintptr_t)a->qos,
					 .n_qos = a->n_qos,
					 .default_qos = (char *)(uintptr_t)a->default_qos};
	return td_slurm_assoc_set(w->s, w->p->cluster, &x, w->p->c, err);
}

static int add_account(struct tenant_work *w, const struct td_pool_tenant_step *s, struct td_error *err)
{
	const struct td_slurm_account account = {.name = (char *)(uintptr_t)s->want.account,
						 .description = (char *)(uintptr_t)s->description,
						 .organization = (char *)(uintptr_t)s->organization};
	const struct td_slurm_assoc x = {.parent = (char *)(uintptr_t)s->want.parent,
					 .comment = (char *)(uintptr_t)s->want.comment,
					 .shares = s->want.shares};
	return td_slurm_account_add(w->s, w->p->cluster, &account, &x, w->p->c, err);
}

// Carries the steps of one tenant out, in order. What is left undone after a crash or an error, the next
// reconcile finds again.
static int act(struct tenant_work *w, const char *tenant, const struct td_pool_tenant_steps *s, struct td_error *err)
{
	td_auto_strv struct td_strv users = {0};
	const char *account = NULL;
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].act == TD_TENANT_ADD_USER) {
			account = s->v[i].want.account;
			td_strv_add(&users, s->v[i].want.user);
		}

	bool added = false;
	int r = 0;
	for (size_t i = 0; i < s->n && !r; i++) {
		const struct td_pool_tenant_step *x = &s->v[i];
		td_info("Tenant %s: %s %s%s%s", tenant, td_pool_tenant_act_name(x->act), x->want.account,
			*x->want.user ? "/" : "", x->want.user);
		if (x->act == TD_TENANT_ADD_ACCOUNT)
			r = add_account(w, x, err);
		else if (x->act == TD_TENANT_SET)
			r = set(w, &x->want, err);
		else if (x->act == TD_TENANT_REMOVE_USER)
			r = remove_user(w, x->want.account, x->want.user, err);
		else if (!added) // all of them in one call, at the first
			added = !(r = td_slurm_users_add(w->s, w->p->cluster, account, &users, TD_POOL_TENANT_MARK,
							 w->p->c, err));
	}
	return r;
}

// ---- a tenant goes ----

// Names the jobs that keep an account. *ret NULL: there are none.
static int jobs_of(struct tenant_work *w, const char *account, const char **ret, struct td_error *err)
{
	td_auto_strv struct td_strv jobs = {0};
	size_t n = 0;
	int r = td_slurm_account_jobs(w->s, w->p->cluster, account, 5, w->p->c, &jobs, &n, err);
	if (r)
		return r;
	*ret = NULL;
	if (!n)
		return 0;
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < jobs.n; i++)
		td_buf_printf(&b, "%s%s", i ? ", " : "", jobs.v[i]);
	*ret = td_arena_printf(w->p->arena, "%zu job%s in account %s run%s or wait%s: %s%s", n, n == 1 ? "" : "s",
			       account, n == 1 ? "s" : "", n == 1 ? "s" : "", td_buf_str(&b), n > jobs.n ? ", …" : "");
	return 0;
}

static bool of_tenant(const struct td_op_tenant_pass *p, const char *account)
{
	for (size_t i = 0; i <= p->n; i++)
		if (td_streq(p->p[i].account, account))
			return true;
	return false;
}

// Names the accounts that are below one of Tandem's, such as those of a coordinator: slurmdbd would remove them with it.
// One that a Tenant names is of the rows, and may be no Tenant's all the same. *ret NULL: there are none.
static int below(struct tenant_work *w, const char *account, const char **ret, struct td_error *err)
{
	td_auto_strv struct td_strv names = {0};
	td_auto_assocs struct td_slurm_assocs all = {0};
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < w->rows.n_accounts; i++)
		if (!of_tenant(w->p, w->rows.accounts[i].name))
			td_strv_add(&names, w->rows.accounts[i].name);
	int r = names.n ? td_slurm_assocs(w->s, w->p->cluster, &names, w->p->c, &all, err) : 0;
	if (r)
		return r;
	const char *one = NULL;
	for (size_t i = 0; i < all.n + w->rows.n_assocs; i++) {
		const struct td_pool_assoc *row = i < all.n ? NULL : &w->rows.assocs[i - all.n];
		const char *user = row ? row->user : all.v[i].user, *parent = row ? row->parent : all.v[i].parent,
			   *name = row ? row->account : all.v[i].account;
		if ((!user || !*user) && td_streq(parent, account)) {
			td_buf_printf(&b, "%s%s", b.len ? ", " : "", name);
			one = name;
		}
	}
	*ret = one ? td_arena_printf(
			     w->p->arena,
			     "somebody has made accounts below account %s, which would go with it: %s. Remove them, "
			     "or put them elsewhere: sacctmgr modify account %s set parent=root",
			     account, td_buf_str(&b), one)
		   : NULL;
	return 0;
}

static int remove_account(struct tenant_work *w, const struct td_op_tenant *t, const struct td_pool_tenant_steps *s,
			  struct td_error *err)
{
	int r = 0;
	const char *account = t->account;
	// Users first: whose default account it is needs another one.
	for (size_t i = 0; i < w->rows.n_assocs && !r; i++) {
		const struct td_pool_assoc *a = &w->rows.assocs[i];
		if (!strcmp(a->account, account) && *a->user && (s->ours || td_streq(a->comment, TD_POOL_TENANT_MARK)))
			r = remove_user(w, account, a->user, err);
	}
	if (r || !s->ours)
		return r; // an adopted account stays, with its limits and with whom others have added
	for (size_t i = 0; i < w->rows.n_assocs && !r; i++)
		if (!strcmp(w->rows.assocs[i].account, account) && !*w->rows.assocs[i].user)
			r = td_slurm_assoc_remove(w->s, w->p->cluster, account, NULL, w->p->c, err);
	if (r)
		return r;

	// The account is the database's, and other clusters may use it.
	td_auto_strv struct td_strv one = {0};
	td_auto_assocs struct td_slurm_assocs left = {0};
	td_strv_add(&one, account);
	if ((r = td_slurm_assocs(w->s, NULL, &one, w->p->c, &left, err)) || left.n)
		return r;
	for (size_t i = 0; i < w->rows.n_accounts; i++)
		if (!strcmp(w->rows.accounts[i].name, account))
			return td_slurm_account_remove(w->s, account, w->p->c, err);
	return 0;
}

// Sets the limits of rows that are there to what they are without those of Federations.
static int uncap(struct tenant_work *w, const struct td_pool_tenant_steps *s, struct td_error *err)
{
	int r = 0;
	for (size_t i = 0; i < s->n && !r; i++) {
		const struct td_pool_assoc *want = &s->v[i].want;
		bool is = false;
		for (size_t k = 0; k < w->rows.n_assocs && !is; k++)
			is = td_streq(w->rows.assocs[k].account, want->account) &&
			     td_streq(w->rows.assocs[k].user, want->user);
		if (is && s->v[i].act == TD_TENANT_SET)
			r = set(w, want, err);
	}
	return r;
}

// Removes the account of a tenant that is being deleted, or says what keeps it.
static int leave(struct tenant_work *w, struct td_op_tenant *t, const struct td_pool_tenant_steps *s,
		 struct td_error *err)
{
	if (!t->had_account || s->refused)
		return 0;
	int r = jobs_of(w, t->account, &t->held, err);
	t->held_reason = !r && t->held ? "JobsRun" : NULL;
	if (!r && !t->held && s->ours && !(r = below(w, t->account, &t->held, err)) && t->held)
		t->held_reason = "AccountsBelow";
	if (!r && !t->held && !s->ours && t->uncapped)
		r = uncap(w, s, err);
	if (!r && !t->held)
		r = remove_account(w, t, s, err);
	if (r == TD_CONFLICT) {
		t->held = td_arena_printf(w->p->arena, "jobs in account %s run or wait", t->account);
		t->held_reason = "JobsRun";
		r = 0;
	}
	return r;
}

// ---- all of them ----

// Above its children comes the parent.
static size_t depth(const struct td_op_tenant_pass *p, size_t at)
{
	size_t d = 0;
	for (const char *up = p->p[at].parent; up && d <= p->n; d++) {
		size_t i = 0;
		while (i < p->n && strcmp(p->p[i].name, up))
			i++;
		up = i < p->n ? p->p[i].parent : NULL;
	}
	return d;
}

static void one(struct tenant_work *w, size_t at)
{
	struct td_op_tenant_pass *p = w->p;
	struct td_op_tenant *t = at < p->n ? &p->v[at] : NULL; // NULL: the open account
	struct td_error err = TD_ERROR_INIT;
	const struct td_pool_verdict root = {.valid = true, .parent_account = "root"};
	struct td_pool_tenant_steps s = td_pool_tenant_diff(p->arena, &p->p[at], t ? &t->verdict : &root, &w->rows);
	if (t) {
		t->others = s.others;
		t->adopted = !s.ours;
	}
	if (s.refused && !(t && t->deleting)) {
		if (t)
			fails(p, t, "AccountExists", s.refused);
		else
			td_warn("SlurmCluster %s/%s: spec.accounting.openAccount: %s", p->ns, p->cluster, s.refused);
		return;
	}

	int r = 0;
	if (t && t->deleting && !t->held)
		r = leave(w, t, &s, &err);
	if (!r && (!t || (t->verdict.valid && (!t->deleting || t->held))) && !s.refused)
		r = act(w, p->p[at].name, &s, &err);
	if (!r)
		return;
	if (t)
		fails(p, t, r == TD_CONFLICT ? "JobsRun" : "SlurmRefused", err.msg);
	if (t && t->deleting && !t->held) {
		t->held = t->slurm;
		t->held_reason = "SlurmRefused";
	}
	p->again_ms = 2000;
}

static struct td_op_view *link_of(struct td_op_tenants *ts, const char *key)
{
	struct td_op_view *v = ts->links;
	while (v && strcmp(v->key, key))
		v = v->next;
	if (!v) {
		v = td_calloc(1, sizeof(*v));
		v->key = td_strdup(key);
		v->next = ts->links;
		ts->links = v;
	}
	return v;
}

void td_op_tenant_slurm(struct td_op_tenant_pass *p)
{
	if (!p->sc) {
		all_fail(p, "ClusterUnknown",
			 "spec.cluster: there is no such SlurmCluster; create it, or name another one");
		return;
	}
	if (!td_slurm_accounting(p->sc->root)) {
		all_fail(p, "NoAccounting",
			 "the SlurmCluster has no accounting, so no account and no quota: set spec.accounting there");
		return;
	}

	static const char silent[] = "Slurm does not answer, so its accounts stay as they are; it is asked again every "
				     "2 seconds. `tandem status` shows what is wrong with slurmctld and slurmdbd";
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *key = td_asprintf("%s/%s", p->ns, p->cluster);
	struct td_op_view *v = link_of(p->ts, key);
	struct tenant_work w = {.p = p};
	int r = td_op_view_connect(p->ts->op, p->sc, v, p->c, &err);
	bool connected = !r;
	w.s = v->slurm;
	int64_t began = td_mono_ms(&td_clock_system), cost;
	const char *foreign = NULL;
	// slurmdbd hands every change on to slurmctld. Three times rows that were written while slurmctld started
	// anew were refused by slurmdbd 24.11 for good ("Invalid qos specification"), so nothing is written then.
	if (!r)
		r = td_slurm_check(w.s, p->c, &err);
	if (!r)
		r = read_rows(&w, &err);
	if (!r)
		r = td_op_tenant_qos(p, w.s, &w.rows, &foreign, &err);
	cost = 100 * (td_mono_ms(&td_clock_system) - began);
	if (cost > p->again_ms)
		p->again_ms = cost;
	if (r) {
		all_fail(p, "NoAnswer", connected && td_slurm_is_silence(&err) ? silent : err.msg);
		for (size_t i = 0; i < p->n; i++)
			if (p->v[i].deleting && p->v[i].had_account && !p->v[i].held) {
				p->v[i].held = p->v[i].slurm;
				p->v[i].held_reason = "NoAnswer";
			}
		p->again_ms = 2000;
		return;
	}

	one(&w, p->n); // first: a user's first account is his default
	size_t deepest = 0;
	for (size_t i = 0; i < p->n; i++)
		deepest = depth(p, i) > deepest ? depth(p, i) : deepest;
	for (size_t d = 0; d <= deepest; d++)
		for (size_t i = 0; i < p->n; i++)
			if (depth(p, i) == d && (p->v[i].deleting || p->v[i].verdict.valid))
				one(&w, i);
	for (size_t i = 0; foreign && i < p->n; i++)
		if (!p->v[i].slurm && !p->v[i].deleting)
			fails(p, &p->v[i], "QosExists",
			      td_arena_printf(p->arena,
					      "slurmdbd has QOS that Tandem did not make, and leaves as they are: %s; "
					      "delete them there (sacctmgr), or name another spec.account",
					      foreign));
}
