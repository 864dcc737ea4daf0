// On which nodes a job that waits may run (allowed.h).
#include "bridge/allowed.h"
#include "bridge/grow.h"
#include "bridge/scheduler/waits.h"
#include "bridge/scheduler/want.h"

#include "pool/allowed.h"
#include "slurm/bound.h"
#include "slurm/hostlist.h"
#include "slurm/tocome.h"

#include <stdio.h>
#include <string.h>

static struct td_pool_node emptied(const struct td_pool_node *from)
{
	struct td_pool_node x = *from;
	x.usable = true;
	x.used_cpus = x.used_memory_mb = 0;
	memset(x.used_gres, 0, sizeof(x.used_gres));
	return x;
}

int td_allowed_find(struct td_bridge *b, const struct td_slurm_job *j, const struct td_allowed_ask *ask, bool *may,
		    struct td_pool_allowed_count *ret, struct td_error *err)
{
	const struct td_slurm_nodes *all = ask->nodes;
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, err);
	td_auto_wishes struct td_slurm_wishes is = {0};
	int r = l ? td_slurm_job_wishes(l->slurm, j->id, ask->cancel, &is, err) : TD_TRANSIENT;
	td_auto_strv struct td_strv named = {0}, excluded = {0}, reserved = {0};
	if (!r && *j->required_nodes)
		r = td_hostlist_parse(j->required_nodes, &named, err);
	if (!r && *j->excluded_nodes)
		r = td_hostlist_parse(j->excluded_nodes, &excluded, err);
	if (!r && *is.reserved)
		r = td_hostlist_parse(is.reserved, &reserved, err);
	if (r)
		return r;
	struct td_ask_wait *wait = td_ask_wait_of_job(j);
	struct td_ask_wait_parts w = {0};
	if (wait)
		td_ask_wait_show(wait, &w);
	if (ask->any_devices)
		memset(w.least.gres, 0, sizeof(w.least.gres));
	td_auto_free bool *any = td_calloc(all->n + 1, sizeof(*any));
	td_auto_free struct td_pool_node *v = NULL;
	td_auto_free struct td_pool_allowed_node *x = td_calloc(all->n + 1, sizeof(*x));
	td_auto_free bool *in_named = td_slurm_nodes_in(all, &named), *in_excluded = td_slurm_nodes_in(all, &excluded),
			  *in_reserved = td_slurm_nodes_in(all, &reserved);
	memset(any, true, all->n);
	td_bridge_pool_nodes(all, any, w.kinds, *j->partition ? j->partition : NULL, &v);
	for (size_t i = 0; i < all->n; i++) {
		struct td_pool_node empty = emptied(&v[i]);
		// Who asks for machines that are not there gets none.
		bool none = *is.features && strstr(is.features, TD_SLURM_TO_COME_FEATURE) &&
			    td_slurm_is_to_come(all->v[i].features);
		x[i] = (struct td_pool_allowed_node){
			.name = all->v[i].name,
			.features = all->v[i].active,
			.partition = v[i].feasible && !none,
			.named = in_named[i],
			.excluded = in_excluded[i],
			.reserved = in_reserved[i],
			.large = !wait || td_pool_fits_now(&empty, 1, &w.least) == 0,
			.usable = td_slurm_node_usable(all->v[i].states),
		};
	}
	// Who names fewer nodes than it wants has others besides.
	const struct td_pool_allowed f = {.nodes = x,
					  .n = all->n,
					  .names = named.n && (int64_t)named.n >= j->want_nodes,
					  .reserves = *is.reserved != '\0',
					  .constraint = *is.features ? is.features : NULL};
	td_pool_allowed(&f, may, ret);
	if (ask->reserves)
		*ask->reserves = *is.reserved != '\0';
	if (ask->constraint)
		snprintf(ask->constraint, TD_ALLOWED_CONSTRAINT, "%s", is.features);
	td_ask_wait_unref(wait);
	return 0;
}

void td_allowed_say(struct td_bridge *b, const struct td_slurm_job *j, struct td_cancel *c, yyjson_mut_doc *d,
		    struct td_buf *t)
{
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	char constraint[TD_ALLOWED_CONSTRAINT] = "";
	struct td_pool_allowed_count n;
	struct td_error e = TD_ERROR_INIT;
	if (!snap || td_job_phase(j->states) != TD_PHASE_WAITING)
		return;
	const struct td_slurm_nodes *all = &snap->nodes;
	td_auto_free bool *may = td_calloc(all->n + 1, sizeof(*may));
	if (td_allowed_find(b, j, &(struct td_allowed_ask){.nodes = all, .constraint = constraint, .cancel = c}, may,
			    &n, &e))
		return;
	td_auto_strv struct td_strv list = {0};
	for (size_t i = 0; i < all->n; i++)
		if (may[i])
			td_strv_add(&list, all->v[i].name);
	td_auto_free char *nodes = list.n ? td_hostlist_write(&list) : td_strdup("");
	td_auto_free char *words = td_pool_allowed_words(&n, nodes, *constraint ? constraint : NULL);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "allowedNodes", nodes);
	if (words)
		td_buf_printf(t, " %s", words);
	td_growth_words(b, all, may, t);
}
