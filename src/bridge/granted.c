// Resource groups as the SlurmCluster and its Tenants say, for pods that become jobs (pool/group.h).
#include "bridge/settings.h"

#include "slurm/partitions.h"

static const char *const *strings(struct td_arena *arena, yyjson_val *list, size_t *ret_n)
{
	const char **v = td_arena_alloc(arena, (yyjson_arr_size(list) + 1) * sizeof(*v));
	yyjson_val *x;
	size_t i, n;
	*ret_n = 0;
	yyjson_arr_foreach (list, i, n, x)
		if (yyjson_is_str(x))
			v[(*ret_n)++] = td_arena_strdup(arena, yyjson_get_str(x));
	return v;
}

void td_settings_read_groups(const yyjson_val *cluster, const struct td_tenant_list *tenants, struct td_settings *s)
{
	yyjson_val *list = td_jget(cluster, "spec.resourceGroups"), *x;
	size_t i, n;
	s->usual = s->default_partition;
	if (!yyjson_arr_size(list))
		return;
	if (!s->usual)
		s->usual = td_arena_strdup(s->arena, td_slurm_default_partition(cluster));

	struct td_pool_group *groups = td_arena_alloc(s->arena, yyjson_arr_size(list) * sizeof(*groups));
	yyjson_arr_foreach (list, i, n, x) {
		struct td_pool_group *g = &groups[s->groups.n++];
		g->name = td_arena_strdup(s->arena, td_jstr_or(x, "name", ""));
		g->users = strings(s->arena, td_jget(x, "users"), &g->n_users);
	}
	s->groups.v = groups;

	struct td_pool_group_tenant *t = td_arena_alloc(s->arena, (tenants->n + 1) * sizeof(*t));
	for (i = 0; i < tenants->n; i++) {
		const yyjson_val *o = tenants->v[i];
		t[i] = (struct td_pool_group_tenant){
			.name = td_arena_strdup(s->arena, td_jstr_or(o, "metadata.name", "")),
			.parent = td_arena_strdup(s->arena, td_jstr(o, "spec.parent")),
			.account = td_arena_strdup(s->arena, td_jstr(o, "status.account"))};
		t[i].groups = strings(s->arena, td_jget(o, "spec.resourceGroups"), &t[i].n_groups);
	}
	s->groups.n_grants = td_pool_grants(s->arena, t, tenants->n, &s->groups.grants);
}
