// Projects: their names, people and quotas.
#include "pool/project.h"

#include <stdlib.h>
#include <string.h>

static void wrong(struct td_pool_project_verdict *v, const char *reason, const char *message)
{
	if (!v->reason) {
		v->reason = reason;
		v->message = message;
	}
}

enum { TOLD_MOST = 10 }; // of strangers: whoever makes a project may name thousands

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *const *sorted(struct td_arena *arena, const char *const *v, size_t n)
{
	const char **l = td_arena_alloc(arena, (n + 1) * sizeof(*l));
	for (size_t i = 0; i < n; i++)
		l[i] = v[i];
	qsort(l, n, sizeof(*l), by_name);
	return l;
}

static bool in(const char *const *sorted_v, size_t n, const char *s)
{
	return bsearch(&s, sorted_v, n, sizeof(*sorted_v), by_name) != NULL;
}

static void people(struct td_arena *arena, const struct td_pool_project *p, struct td_pool_project_verdict *v)
{
	const char **l = td_arena_alloc(arena, (p->n_people + 1) * sizeof(*l)), *strangers = NULL;
	const char *const *asked = sorted(arena, p->asked, p->n_asked);
	const char *const *there = sorted(arena, p->people, p->n_people);
	size_t n = 0;
	for (size_t i = 0; i < p->n_people; i++)
		if (p->all || in(asked, p->n_asked, p->people[i]))
			l[v->n_members++] = p->people[i];
	v->members = l;
	for (size_t i = 0; i < p->n_asked; i++)
		if (!in(there, p->n_people, p->asked[i]) && ++n <= TOLD_MOST)
			strangers = strangers ? td_arena_printf(arena, "%s, %s", strangers, p->asked[i]) : p->asked[i];
	if (n > TOLD_MOST)
		strangers = td_arena_printf(arena, "%s and %zu more", strangers, n - TOLD_MOST);
	if (strangers)
		wrong(v, "MembersUnknown",
		      td_arena_printf(arena,
				      "spec.members: %s run nothing in Tenant %s, so they are not in the project: an "
				      "administrator of the cluster makes them members there, or take them out",
				      strangers, p->tenant->name));
}

static int64_t of(const struct td_pool_tres *v, size_t n, const char *tres)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(v[i].tres, tres))
			return v[i].count;
	return -1;
}

static void quota(struct td_arena *arena, const struct td_pool_project *p, struct td_pool_project_verdict *v)
{
	const struct td_pool_tenant *t = p->tenant;
	for (size_t i = 0; i < p->n_quota && !t->borrow_all; i++) {
		int64_t most = of(t->quota, t->n_quota, p->quota[i].tres),
			more = of(t->borrow, t->n_borrow, p->quota[i].tres);
		if (most < 0)
			continue; // the Tenant has no limit of its own
		most += more > 0 ? more : 0;
		if (p->quota[i].count <= most)
			continue;
		v->fits = false;
		wrong(v, "QuotaTooLarge",
		      td_arena_printf(arena, "spec.quota: it says %lld %s, and Tenant %s has %lld: give it no more",
				      (long long)p->quota[i].count, p->quota[i].tres, t->name, (long long)most));
	}
}

void td_pool_project_judge(struct td_arena *arena, const struct td_pool_project *p, struct td_pool_project_verdict *ret)
{
	struct td_pool_project_verdict v = {.fits = true};
	if (!p->tenant) {
		wrong(&v, "NoTenant",
		      "its namespace is no Tenant's: make it in a namespace of the Tenant whose project it is");
	} else if (p->tenant->deleting) {
		wrong(&v, "TenantGoes", td_arena_printf(arena, "Tenant %s is being deleted", p->tenant->name));
	} else if (strlen(p->tenant->name) + 1 + strlen(p->name) > TD_POOL_PROJECT_NAME) {
		wrong(&v, "NameTooLong",
		      td_arena_printf(
			      arena, "its account would be \"%s.%s\", and %d letters are the most: take a shorter name",
			      p->tenant->name, p->name, TD_POOL_PROJECT_NAME));
	} else if (strchr(p->name, '.')) {
		wrong(&v, "NameInvalid", "metadata.name: a project's name has no dot: take another one");
	} else {
		v.account = td_arena_printf(arena, "%s.%s", p->tenant->name, p->name);
		quota(arena, p, &v);
		people(arena, p, &v);
	}
	*ret = v;
}
