// Limits of Federations over all their members: what hubs say of them (pool/fedword.h) lies in the ConfigMap
// CLUSTER-federation, which the gateway writes, and becomes limits of Tenants' accounts and of people in them.
#include "operator/tenant.h"

#include "base/names.h"
#include "pool/fedword.h"

#include <string.h>

enum { GPUS_MOST = 1000000000, MEMBERS_MOST = 64, TEAMS_MOST = 256, NAME_MOST = 63 };

static const char *const *strings(struct td_arena *a, yyjson_val *list, size_t *ret_n)
{
	const char **v = td_arena_alloc(a, (yyjson_arr_size(list) + 1) * sizeof(*v));
	size_t i, n;
	yyjson_val *x;
	*ret_n = 0;
	yyjson_arr_foreach (list, i, n, x)
		if (yyjson_is_str(x))
			v[(*ret_n)++] = td_arena_strdup(a, yyjson_get_str(x));
	return v;
}

static const char *text(struct td_arena *a, yyjson_val *row, size_t at)
{
	const char *s = yyjson_get_str(yyjson_arr_get(row, at));
	return td_arena_strdup(a, s ? s : "");
}

// A name that people are shown: what is no letter of one is not.
static const char *shown(struct td_arena *a, const char *s)
{
	char *name = td_arena_strndup(a, s, strnlen(s, NAME_MOST));
	for (char *c = name; *c; c++)
		*c = *c > ' ' && *c < 127 ? *c : '?';
	return name;
}

// What a hub says is bounded before anything is reckoned with it.
static int64_t bounded(int64_t n)
{
	return n < -1 ? -1 : n > GPUS_MOST ? GPUS_MOST : n;
}

static int64_t number(yyjson_val *row, size_t at)
{
	return bounded(yyjson_get_sint(yyjson_arr_get(row, at)));
}

static void read_team(struct td_arena *a, yyjson_val *v, struct td_fedword_team *ret, const char **ret_at)
{
	size_t i, n;
	yyjson_val *x, *rows = td_jget(v, "rows"), *people = td_jget(v, "people");
	struct td_fedword_row *r = td_arena_alloc(a, (yyjson_arr_size(rows) + 1) * sizeof(*r));
	struct td_fedword_person *p = td_arena_alloc(a, (yyjson_arr_size(people) + 1) * sizeof(*p));
	*ret = (struct td_fedword_team){.name = shown(a, td_jstr_or(v, "name", "")),
					.gpus = bounded(td_jint(v, "gpus", -1)),
					.user_gpus = bounded(td_jint(v, "perUser", -1)),
					.used = bounded(td_jint(v, "used", 0)),
					.waits = bounded(td_jint(v, "waits", 0)),
					.alone = bounded(td_jint(v, "alone", -1)),
					.user_alone = bounded(td_jint(v, "userAlone", -1)),
					.spent = td_jbool(v, "spent", false),
					.rows = r,
					.people = p};
	ret->accounts = strings(a, td_jget(v, "accounts"), &ret->n_accounts);
	ret->users = strings(a, td_jget(v, "users"), &ret->n_users);
	yyjson_arr_foreach (rows, i, n, x)
		r[ret->n_rows++] = (struct td_fedword_row){text(a, x, 0), text(a, x, 1), number(x, 2)};
	yyjson_arr_foreach (people, i, n, x)
		p[ret->n_people++] = (struct td_fedword_person){text(a, x, 0), number(x, 1), number(x, 2)};
	*ret_at = "";
	yyjson_arr_foreach (td_jget(v, "at"), i, n, x)
		*ret_at = i >= MEMBERS_MOST ? *ret_at
					    : td_arena_printf(a, "%s%s%s %lld", *ret_at, i ? ", " : "",
							      shown(a, text(a, x, 0)), (long long)number(x, 1));
}

// at: for each team, how much is used where, in words.
static void read_word(struct td_arena *a, const char *federation, const yyjson_val *said, struct td_fedword *ret,
		      const char ***ret_at)
{
	size_t i, n;
	yyjson_val *x, *list = td_jget(said, "word.teams");
	struct td_fedword_team *teams = td_arena_alloc(a, (yyjson_arr_size(list) + 1) * sizeof(*teams));
	const char **at = td_arena_alloc(a, (yyjson_arr_size(list) + 1) * sizeof(*at));
	int64_t age = td_real_ms(&td_clock_system) / 1000 - td_jint(said, "at", 0);
	*ret = (struct td_fedword){.federation = federation, .teams = teams, .age_s = age > 0 ? age : 0};
	ret->taken = strings(a, td_jget(said, "word.taken"), &ret->n_taken);
	yyjson_arr_foreach (list, i, n, x) {
		if (i == TEAMS_MOST) // as many as a Federation can have
			break;
		read_team(a, x, &teams[i], &at[i]);
		ret->n_teams = i + 1;
	}
	*ret_at = at;
}

// The lowest of several counts: of the cap that is there already, and this one.
static bool lower(bool capped, int64_t gpus, const struct td_fedword_cap *c)
{
	return c->gpus >= 0 && (!capped || c->gpus < gpus);
}

static struct td_op_tenant_cap *cap_of(struct td_op_tenant_pass *p, const struct td_fedword *w, const char **at,
				       const struct td_fedword_cap *c, const char *user, int64_t said_s)
{
	struct td_op_tenant_cap *x = td_arena_alloc(p->arena, sizeof(*x));
	bool his = c->why == TD_FEDWORD_PERSON;
	int64_t used = his ? 0 : c->team->used;
	for (size_t i = 0; i < c->team->n_people && his; i++)
		if (td_streq(c->team->people[i].user, user))
			used = c->team->people[i].used;
	*x = (struct td_op_tenant_cap){.federation = w->federation,
				       .team = c->team->name,
				       .user = user,
				       .whole = !his,
				       .spent = c->why == TD_FEDWORD_HOURS,
				       .silent = w->age_s >= TD_FEDWORD_SILENT_S,
				       .gpus = c->gpus,
				       .limit = his ? c->team->user_gpus : c->team->gpus,
				       .used = used,
				       .at = his ? "" : at[c->team - w->teams],
				       .said_s = said_s};
	return x;
}

static void apply(struct td_op_tenant_pass *p, const struct td_fedword *w, const char **at, int64_t said_s)
{
	for (size_t i = 0; i <= p->n; i++) { // the last one is the open account, which is no Tenant's
		struct td_op_tenant *t = i < p->n ? &p->v[i] : NULL;
		struct td_pool_tenant *x = &p->p[i];
		struct td_pool_tenant_user *users = (struct td_pool_tenant_user *)(uintptr_t)x->users;
		if (t && t->deleting) { // an account that stays must not keep a limit that nobody would lift
			t->uncapped = true;
			continue;
		}
		struct td_fedword_cap c = td_fedword_cap(w, x->account, NULL);
		if (lower(x->capped, x->gpus, &c)) {
			x->capped = true;
			x->gpus = c.gpus;
			if (t)
				t->cap = cap_of(p, w, at, &c, NULL, said_s);
		}
		for (size_t k = 0; k < x->n_users; k++) {
			c = td_fedword_cap(w, x->account, users[k].name);
			if (!lower(users[k].capped, users[k].gpus, &c))
				continue;
			users[k].capped = true;
			users[k].gpus = c.gpus;
			if (!t)
				continue;
			if (!t->user_caps)
				t->user_caps = td_arena_alloc(p->arena, (x->n_users + 1) * sizeof(*t->user_caps));
			size_t have = 0;
			while (have < t->n_user_caps && !td_streq(t->user_caps[have]->user, users[k].name))
				have++;
			t->user_caps[have] = cap_of(p, w, at, &c, users[k].name, said_s);
			t->n_user_caps += have == t->n_user_caps;
		}
	}
}

static const struct td_fedword_below *below(struct td_op_tenant_pass *p, size_t *ret_n)
{
	struct td_fedword_below *v = td_arena_alloc(p->arena, (p->n + 1) * sizeof(*v));
	*ret_n = 0;
	for (size_t i = 0; i < p->n; i++)
		if (p->p[i].parent && p->v[i].verdict.valid)
			v[(*ret_n)++] = (struct td_fedword_below){p->p[i].account, p->v[i].verdict.parent_account};
	return v;
}

void td_op_tenant_words(struct td_op_tenant_pass *p)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_list(p->ts->words, p->ns, &all);
	size_t i, n;
	yyjson_val *k, *x, *hub;
	for (size_t j = 0; j < all.n && p->sc; j++) {
		if (!td_streq(td_object_label(all.v[j], TD_LABEL_FED_LIMITS), p->cluster))
			continue;
		// Whom the SlurmCluster does not let say so any more limits nothing, whatever was said.
		yyjson_obj_foreach (td_jget(all.v[j]->root, "data"), i, n, k, x) {
			td_auto(td_json_unref) struct td_json *said = NULL;
			hub = td_jfind(td_jget(p->sc->root, "spec.federation.hubs"), "name", yyjson_get_str(k));
			if (!td_jbool(hub, "limits", false) || !yyjson_is_str(x) ||
			    td_json_parse(yyjson_get_str(x), yyjson_get_len(x), &said, NULL))
				continue;
			struct td_fedword w;
			const char **at;
			read_word(p->arena, td_arena_strdup(p->arena, yyjson_get_str(k)), td_json_root(said), &w, &at);
			w.below = below(p, &w.n_below);
			apply(p, &w, at, td_jint(td_json_root(said), "at", 0));
		}
	}
}

static void figures(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_op_tenant_cap *c)
{
	td_jm_str(d, o, "team", c->team);
	td_jm_int(d, o, "gpus", c->gpus);
	if (c->limit >= 0)
		td_jm_int(d, o, "limit", c->limit);
	td_jm_int(d, o, "used", c->used);
}

void td_op_tenant_word_status(const struct td_op_tenant *t, yyjson_mut_doc *d, yyjson_mut_val *status)
{
	const struct td_op_tenant_cap *any = t->cap ? t->cap : t->n_user_caps ? t->user_caps[0] : NULL;
	char when[TD_TIME_LEN];
	if (!any)
		return;
	yyjson_mut_val *o = td_jm_obj(d, status, "federation");
	td_jm_str(d, o, "name", any->federation);
	td_jm_str(d, o, "said", td_time_format(any->said_s * 1000, when));
	if (t->cap) {
		figures(d, o, t->cap);
		td_jm_str(d, o, "at", *t->cap->at ? t->cap->at : NULL);
		td_jm_bool(d, o, "spent", t->cap->spent);
	}
	for (size_t i = 0; i < t->n_user_caps; i++) {
		yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "users"));
		td_jm_str(d, x, "user", t->user_caps[i]->user);
		figures(d, x, t->user_caps[i]);
		td_jm_bool(d, x, "whole", t->user_caps[i]->whole);
	}
}
