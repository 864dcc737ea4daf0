// Resource groups: who may use which, and where a job goes that names none.
#include "pool/group.h"

#include <string.h>

static int by_group(const void *a, const void *b)
{
	const struct td_pool_grant *x = a, *y = b;
	int d = strcmp(x->group, y->group);
	return d ? d : strcmp(x->account, y->account);
}

static const struct td_pool_group_tenant *find(const struct td_pool_group_tenant *t, size_t n, const char *name)
{
	for (size_t i = 0; name && i < n; i++)
		if (!strcmp(t[i].name, name))
			return &t[i];
	return NULL;
}

size_t td_pool_grants(struct td_arena *arena, const struct td_pool_group_tenant *t, size_t n,
		      const struct td_pool_grant **ret)
{
	size_t own = 0, len = 0, kept = 0;
	for (size_t i = 0; i < n; i++)
		own += t[i].n_groups;
	struct td_pool_grant *v = td_arena_alloc(arena, (n * own + 1) * sizeof(*v));
	for (size_t i = 0; i < n; i++) {
		const struct td_pool_group_tenant *up = &t[i];
		// A circle of parents, which is refused elsewhere, ends after as many steps as there are.
		for (size_t steps = 0; up && t[i].account && steps < n; steps++, up = find(t, n, up->parent))
			for (size_t k = 0; k < up->n_groups && len < n * own; k++)
				v[len++] = (struct td_pool_grant){up->groups[k], t[i].account};
	}
	if (len)
		qsort(v, len, sizeof(*v), by_group);
	for (size_t i = 0; i < len; i++)
		if (!kept || by_group(&v[kept - 1], &v[i]))
			v[kept++] = v[i];
	*ret = v;
	return kept;
}

bool td_pool_group_may(const struct td_pool_groups *g, const char *group, const char *account, const char *user)
{
	const struct td_pool_group *x = NULL;
	for (size_t i = 0; i < g->n && !x; i++)
		x = strcmp(g->v[i].name, group) ? NULL : &g->v[i];
	if (!x)
		return true;
	for (size_t i = 0; i < x->n_users; i++)
		if (td_streq(x->users[i], user))
			return true;
	for (size_t i = 0; account && i < g->n_grants; i++)
		if (!strcmp(g->grants[i].group, group) && !strcasecmp(g->grants[i].account, account))
			return true;
	return false;
}

const char *td_pool_group_route(struct td_arena *arena, const struct td_pool_groups *g,
				const struct td_pool_group_ask *a, const char **ret_refused)
{
	td_auto_buf struct td_buf b = {0};
	*ret_refused = NULL;
	if (a->named) {
		td_auto_strv struct td_strv l = {0};
		td_strv_split(&l, a->named, ',');
		for (size_t i = 0; i < l.n && !*ret_refused; i++)
			if (!td_pool_group_may(g, l.v[i], a->account, a->user))
				*ret_refused = td_arena_strdup(arena, l.v[i]);
		return *ret_refused ? NULL : a->named;
	}

	for (size_t i = 0; i < g->n; i++)
		if (td_pool_group_may(g, g->v[i].name, a->account, a->user) && !td_streq(g->v[i].name, a->usual))
			td_buf_printf(&b, "%s%s", b.len ? "," : "", g->v[i].name);
	if (!b.len)
		return a->usual;
	if (a->usual && td_pool_group_may(g, a->usual, a->account, a->user))
		td_buf_printf(&b, ",%s", a->usual);
	return td_arena_strdup(arena, td_buf_str(&b));
}
