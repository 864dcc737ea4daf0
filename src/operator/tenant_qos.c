// The two QOS of each Tenant with a quota (pool/reclaim.h), where spec.preemption.reclaim asks for them.
#include "operator/tenant.h"

#include "base/log.h"
#include "pool/reclaim.h"
#include "slurm/preempt.h"
#include "slurm/qos.h"

#include <string.h>

static struct td_pool_reclaim reclaim_of(const struct td_op_tenant_pass *p)
{
	yyjson_val *list = td_jget(p->sc->root, "spec.preemption.qos"), *x;
	const yyjson_val *r = td_jget(p->sc->root, "spec.preemption.reclaim");
	const char **besides = td_arena_alloc(p->arena, (yyjson_arr_size(list) + 1) * sizeof(*besides));
	struct td_pool_reclaim ret = {.on = r != NULL,
				      .grace_s = td_slurm_preempt_s(td_jstr(r, "graceTime")),
				      .exempt_s = td_slurm_preempt_s(td_jstr(r, "minSlice")),
				      .mark = td_arena_printf(p->arena, "tandem/%s/%s Tenants", p->ns, p->cluster),
				      .besides = besides};
	size_t i, n;
	besides[ret.n_besides++] = "normal";
	yyjson_arr_foreach (list, i, n, x)
		if (td_jstr(x, "name"))
			besides[ret.n_besides++] = td_jstr(x, "name");
	return ret;
}

static struct td_pool_reclaim_rows rows_of(struct td_arena *a, const struct td_slurm_qos_list *l)
{
	struct td_pool_reclaim_rows rows = {.v = td_arena_alloc(a, (l->n + 1) * sizeof(*rows.v))};
	for (size_t i = 0; i < l->n; i++) {
		const struct td_slurm_qos *q = &l->v[i];
		struct td_pool_tres *grp = td_arena_alloc(a, (q->n_grp + 1) * sizeof(*grp));
		for (size_t k = 0; k < q->n_grp; k++)
			grp[k] = (struct td_pool_tres){q->grp[k].tres, q->grp[k].count};
		rows.v[rows.n++] = (struct td_pool_reclaim_row){.name = q->name,
								.preempts = (const char *const *)q->preempts,
								.n_preempts = q->n_preempts,
								.grp = grp,
								.n_grp = q->n_grp,
								.priority = q->priority,
								.grace_s = q->grace_s,
								.exempt_s = q->exempt_s,
								.mark = q->description};
	}
	return rows;
}

static int write_row(struct td_op_tenant_pass *p, struct td_slurm *s, const struct td_pool_reclaim_row *w,
		     struct td_error *err)
{
	td_auto_free struct td_slurm_limit *grp = td_calloc(w->n_grp + 1, sizeof(*grp));
	for (size_t i = 0; i < w->n_grp; i++)
		grp[i] = (struct td_slurm_limit){(char *)(uintptr_t)w->grp[i].tres, w->grp[i].count};
	const struct td_slurm_qos q = {.name = (char *)(uintptr_t)w->name,
				       .description = (char *)(uintptr_t)w->mark,
				       .preempts = (char **)(uintptr_t)w->preempts,
				       .n_preempts = w->n_preempts,
				       .empties = w->empties,
				       .priority = w->priority,
				       .grace_s = w->grace_s,
				       .exempt_s = w->exempt_s,
				       .grp = grp,
				       .n_grp = w->n_grp};
	td_info("SlurmCluster %s/%s: QOS %s", p->ns, p->cluster, w->name);
	return td_slurm_qos_write(s, &q, p->c, err);
}

// The accounts whose two QOS are in place must have them, the others none of them.
static void allow(struct td_op_tenant_pass *p, const struct td_pool_rows *rows, const struct td_pool_reclaim *r)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct td_pool_assoc *have = NULL;
		for (size_t k = 0; k < rows->n_assocs && !have; k++)
			if (!strcmp(rows->assocs[k].account, p->p[i].account) && !*rows->assocs[k].user)
				have = &rows->assocs[k];
		const char *account = td_pool_reclaim_account(p->p, p->n, i, r);
		p->p[i].n_qos = td_pool_reclaim_allowed(p->arena, account, r, have, &p->p[i].qos, &p->p[i].default_qos);
		p->v[i].qos = account ? td_pool_reclaim_list(p->arena, account) : NULL;
	}
}

int td_op_tenant_qos(struct td_op_tenant_pass *p, struct td_slurm *s, const struct td_pool_rows *rows,
		     const char **ret_foreign, struct td_error *err)
{
	struct td_pool_reclaim r = reclaim_of(p);
	*ret_foreign = NULL;
	allow(p, rows, &r);
	bool any = r.on;
	for (size_t i = 0; i < p->n; i++)
		any |= p->p[i].qos != NULL;
	if (!any)
		return 0;

	td_auto_qos struct td_slurm_qos_list live = {0};
	int e = td_slurm_qos(s, p->c, &live, err);
	if (e)
		return e;
	bool *valid = td_arena_alloc(p->arena, (p->n + 1) * sizeof(*valid));
	for (size_t i = 0; i < p->n; i++)
		valid[i] = p->v[i].verdict.valid && !(p->v[i].deleting && !p->v[i].held);
	const struct td_pool_reclaim_rows have = rows_of(p->arena, &live);
	const struct td_pool_reclaim_rows todo = td_pool_reclaim_diff(p->arena, p->p, p->n, valid, &r, &have);
	for (size_t i = 0; i < todo.n && !e; i++)
		e = write_row(p, s, &todo.v[i], err);
	*ret_foreign = td_arena_strdup(p->arena, todo.foreign);
	return e;
}
