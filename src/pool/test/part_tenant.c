// Tenants in scenarios: "given tenant …", "given account …", "given assoc …"; "want judge NAME: …",
// "want accounts NAME: …".
#include "pool/tenant.h"
#include "pool/test/scenario.h"

#include <string.h>

enum { MOST = 12 };
static struct td_arena *arena;
static struct td_pool_tenant tenants[MOST];
static struct td_pool_account accounts[MOST];
static struct td_pool_assoc assocs[MOST];
static size_t n_tenants, n_accounts, n_assocs;

static void reset(void)
{
	td_arena_free(arena);
	arena = NULL;
	n_tenants = n_accounts = n_assocs = 0;
}

// "gpu:4,cpu:8"
static const struct td_pool_tres *tres(const char *s, size_t *ret_n)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, s, ',');
	struct td_pool_tres *v = td_arena_alloc(arena, (l.n + 1) * sizeof(*v));
	for (size_t i = 0; i < l.n; i++) {
		char *colon = strrchr(l.v[i], ':');
		v[i] = (struct td_pool_tres){td_arena_strndup(arena, l.v[i], (size_t)(colon - l.v[i])),
					     strtoll(colon + 1, NULL, 10)};
	}
	*ret_n = l.n;
	return v;
}

static void tenant(const struct td_scenario_words *w)
{
	struct td_pool_tenant *t = &tenants[n_tenants++];
	const char *name = td_scenario_val(w, "name", "?");
	td_auto_strv struct td_strv users = {0}, spaces = {0};
	td_strv_split(&users, td_scenario_val(w, "users", ""), ',');
	td_strv_split(&spaces, td_scenario_val(w, "namespaces", ""), ',');
	struct td_pool_tenant_user *u = td_arena_alloc(arena, (users.n + 1) * sizeof(*u));
	const char **ns = td_arena_alloc(arena, (spaces.n + 1) * sizeof(*ns));
	for (size_t i = 0; i < users.n;
	     i++) { // "pods+" has no limits; "ann=2" may hold two GPUs here by a Federation's
		const char *cap = strchr(users.v[i], '=');
		u[i] = (struct td_pool_tenant_user){td_arena_strndup(arena, users.v[i], strcspn(users.v[i], "+=")),
						    !td_ends(users.v[i], "+"), cap != NULL,
						    cap ? strtoll(cap + 1, NULL, 10) : 0};
	}
	for (size_t i = 0; i < spaces.n; i++)
		ns[i] = td_arena_strdup(arena, spaces.v[i]);
	*t = (struct td_pool_tenant){.name = name,
				     .account = td_scenario_val(w, "account", name),
				     .parent = td_scenario_val(w, "parent", NULL),
				     .born = td_scenario_num(w, "born", (int64_t)n_tenants),
				     .weight = td_scenario_num(w, "weight", 1),
				     .borrow_all = td_scenario_has(w, "borrow-all"),
				     .capped = td_scenario_num(w, "cap", -1) >= 0,
				     .gpus = td_scenario_num(w, "cap", -1),
				     .user_jobs = td_scenario_num(w, "running", -1),
				     .user_waits = td_scenario_num(w, "submitted", -1),
				     .users = u,
				     .n_users = users.n,
				     .namespaces = ns,
				     .n_namespaces = spaces.n,
				     .adopt = td_scenario_has(w, "adopt"),
				     .deleting = td_scenario_has(w, "deleting"),
				     .closed = td_scenario_has(w, "closed")};
	t->quota = tres(td_scenario_val(w, "quota", ""), &t->n_quota);
	t->borrow = tres(td_scenario_val(w, "borrow", ""), &t->n_borrow);
	t->per_user = tres(td_scenario_val(w, "per-user", ""), &t->n_per_user);
}

static bool given(const struct td_scenario_words *w)
{
	const char *what = w->w[0].key;
	arena = arena ? arena : td_arena_new();
	assert_true(n_tenants < MOST && n_accounts < MOST && n_assocs < MOST);
	if (!strcmp(what, "tenant")) {
		tenant(w);
	} else if (!strcmp(what, "account")) {
		accounts[n_accounts++] =
			(struct td_pool_account){td_scenario_val(w, "name", "?"), td_scenario_val(w, "description", ""),
						 td_scenario_val(w, "organization", "")};
	} else if (!strcmp(what, "assoc")) {
		struct td_pool_assoc *a = &assocs[n_assocs++];
		*a = (struct td_pool_assoc){.account = td_scenario_val(w, "account", "?"),
					    .user = td_scenario_val(w, "user", ""),
					    .parent = td_scenario_val(w, "parent", ""),
					    .comment = td_scenario_val(w, "comment", ""),
					    .shares = td_scenario_num(w, "shares", 1),
					    .grp_submit = td_scenario_num(w, "submit", -1),
					    .max_jobs = td_scenario_num(w, "running", -1),
					    .max_submit = td_scenario_num(w, "submitted", -1)};
		a->grp = tres(td_scenario_val(w, "grp", ""), &a->n_grp);
	} else {
		return false;
	}
	return true;
}

static void judged(const struct td_pool_verdict *v, struct td_buf *out)
{
	if (v->valid)
		td_buf_printf(out, "valid below %s", v->parent_account);
	else
		td_buf_printf(out, "%s \"%s\"", v->reason, v->message);
	if (v->warning)
		td_buf_printf(out, " warning \"%s\"", v->warning);
	if (v->children)
		td_buf_printf(out, " above \"%s\"", v->children);
}

static void stepped(const struct td_pool_tenant_steps *s, struct td_buf *out)
{
	if (s->refused)
		td_buf_printf(out, "refused \"%s\"", s->refused);
	else if (!s->n)
		td_buf_puts(out, "nothing");
	for (size_t i = 0; i < s->n; i++) {
		const struct td_pool_assoc *a = &s->v[i].want;
		td_buf_printf(out, "%s%s %s", i ? ", " : "", td_pool_tenant_act_name(s->v[i].act),
			      *a->user ? a->user : a->account);
		if (s->v[i].act == TD_TENANT_ADD_ACCOUNT)
			td_buf_printf(out, " below %s (%s, %s)", a->parent, s->v[i].description, s->v[i].organization);
		if (s->v[i].act != TD_TENANT_SET)
			continue;
		if (!*a->user)
			td_buf_printf(out, " below %s", a->parent);
		td_buf_printf(out, " shares=%lld", (long long)a->shares);
		for (size_t k = 0; k < a->n_grp; k++)
			td_buf_printf(out, " %s=%lld", a->grp[k].tres, (long long)a->grp[k].count);
		if (a->grp_submit >= 0)
			td_buf_printf(out, " submit=%lld", (long long)a->grp_submit);
		if (a->max_jobs >= 0)
			td_buf_printf(out, " running=%lld", (long long)a->max_jobs);
		if (a->max_submit >= 0)
			td_buf_printf(out, " submitted=%lld", (long long)a->max_submit);
	}
	if (s->others)
		td_buf_printf(out, "; others \"%s\"", s->others);
	if (!s->ours && !s->refused)
		td_buf_puts(out, "; adopted");
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	const char *what = w->w[0].key;
	bool steps = !strcmp(what, "accounts");
	if (!steps && strcmp(what, "judge") != 0)
		return false;
	struct td_pool_verdict v[MOST];
	td_pool_tenants_judge(arena, tenants, n_tenants, v);
	size_t at = 0;
	while (at < n_tenants && !td_streq(tenants[at].name, w->w[1].key))
		at++;
	assert_true(at < n_tenants);
	td_buf_printf(out, "%s %s: ", what, tenants[at].name);
	if (!steps) {
		judged(&v[at], out);
		return true;
	}
	const struct td_pool_rows rows = {accounts, assocs, n_accounts, n_assocs};
	struct td_pool_tenant_steps s = td_pool_tenant_diff(arena, &tenants[at], &v[at], &rows);
	stepped(&s, out);
	return true;
}

const struct td_scenario_part td_scenario_tenant = {reset, given, decide};
