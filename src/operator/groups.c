// Resource groups: to which accounts the Tenants of a SlurmCluster have been granted them.
#include "operator/operator.h"

#include "pool/group.h"

void td_op_groups_gather(struct td_op *op, const struct td_object *sc, struct td_arena *arena,
			 struct td_slurm_facts *facts)
{
	td_auto_objects struct td_objects all = {0};
	if (!yyjson_arr_size(td_jget(sc->root, "spec.resourceGroups")))
		return;
	td_informer_list(op->tenants, NULL, &all);
	td_op_sort(&all);
	struct td_pool_group_tenant *t = td_arena_alloc(arena, (all.n + 1) * sizeof(*t));
	size_t n = 0, i, k, m;
	yyjson_val *x;
	for (i = 0; i < all.n; i++) {
		const yyjson_val *o = all.v[i]->root;
		yyjson_val *list = td_jget(o, "spec.resourceGroups");
		if (!td_streq(td_jstr(o, "spec.cluster.namespace"), sc->ns) ||
		    !td_streq(td_jstr(o, "spec.cluster.name"), sc->name))
			continue;
		const char **names = td_arena_alloc(arena, (yyjson_arr_size(list) + 1) * sizeof(*names));
		t[n] = (struct td_pool_group_tenant){.name = td_arena_strdup(arena, all.v[i]->name),
						     .parent = td_arena_strdup(arena, td_jstr(o, "spec.parent")),
						     .account = td_arena_strdup(arena, td_jstr(o, "status.account")),
						     .groups = names};
		yyjson_arr_foreach (list, k, m, x)
			if (yyjson_is_str(x))
				names[t[n].n_groups++] = td_arena_strdup(arena, yyjson_get_str(x));
		n++;
	}

	const struct td_pool_grant *v;
	facts->n_grants = td_pool_grants(arena, t, n, &v);
	struct td_slurm_grant *grants = td_arena_alloc(arena, (facts->n_grants + 1) * sizeof(*grants));
	for (i = 0; i < facts->n_grants; i++)
		grants[i] = (struct td_slurm_grant){v[i].group, v[i].account};
	facts->grants = grants;
}

bool td_op_groups_changed(const struct td_object *old, const struct td_object *now)
{
	static const char *const parts[] = {"spec.resourceGroups", "spec.parent", "status.account"};
	for (size_t i = 0; i < TD_LEN(parts); i++)
		if (!td_jequal(old ? td_jget(old->root, parts[i]) : NULL, now ? td_jget(now->root, parts[i]) : NULL))
			return true;
	return false;
}
