// On which nodes a job that waits may run (allowed.h).
#include "bridge/allowed.h"
#include "bridge/scheduler/waits.h"
#include "bridge/scheduler/want.h"

#include "pool/allowed.h"
#include "slurm/bound.h"
#include "slurm/hostlist.h"

#include <string.h>

static struct td_pool_node emptied(const struct td_pool_node *from)
{
	struct td_pool_node x = *from;
	x.usable = true;
	x.used_cpus = x.used_memory_mb = 0;
	memset(x.used_gres, 0, sizeof(x.used_gres));
	return x;
}

void td_allowed_say(struct td_bridge *b, const struct td_slurm_job *j, struct td_cancel *c, yyjson_mut_doc *d,
		    struct td_buf *t)
{
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, NULL);
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	td_auto_wishes struct td_slurm_wishes is = {0};
	struct td_error e = TD_ERROR_INIT;
	if (!l || !snap || td_job_phase(j->states) != TD_PHASE_WAITING ||
	    td_slurm_job_wishes(l->slurm, j->id, c, &is, &e))
		return;

	td_auto_strv struct td_strv named = {0}, excluded = {0}, reserved = {0};
	if ((*j->required_nodes && td_hostlist_parse(j->required_nodes, &named, NULL)) ||
	    (*j->excluded_nodes && td_hostlist_parse(j->excluded_nodes, &excluded, NULL)) ||
	    (*is.reserved && td_hostlist_parse(is.reserved, &reserved, NULL)))
		return;
	const struct td_slurm_nodes *all = &snap->nodes;
	struct td_ask_wait *wait = td_ask_wait_of_job(j);
	struct td_ask_wait_parts w = {0};
	if (wait)
		td_ask_wait_show(wait, &w);
	td_auto_free bool *any = td_calloc(all->n + 1, sizeof(*any)), *may = td_calloc(all->n + 1, sizeof(*may));
	td_auto_free struct td_pool_node *v = NULL;
	td_auto_free struct td_pool_allowed_node *x = td_calloc(all->n + 1, sizeof(*x));
	td_auto_free bool *in_named = td_slurm_nodes_in(all, &named), *in_excluded = td_slurm_nodes_in(all, &excluded),
			  *in_reserved = td_slurm_nodes_in(all, &reserved);
	memset(any, true, all->n);
	td_bridge_pool_nodes(all, any, w.kinds, *j->partition ? j->partition : NULL, &v);
	for (size_t i = 0; i < all->n; i++) {
		struct td_pool_node empty = emptied(&v[i]);
		x[i] = (struct td_pool_allowed_node){
			.name = all->v[i].name,
			.features = all->v[i].active,
			.partition = v[i].feasible,
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
	struct td_pool_allowed_count n;
	td_pool_allowed(&f, may, &n);
	td_auto_strv struct td_strv list = {0};
	for (size_t i = 0; i < all->n; i++)
		if (may[i])
			td_strv_add(&list, all->v[i].name);
	td_auto_free char *nodes = list.n ? td_hostlist_write(&list) : td_strdup("");
	td_auto_free char *words = td_pool_allowed_words(&n, nodes, f.constraint);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "allowedNodes", nodes);
	if (words)
		td_buf_printf(t, " %s", words);
	td_ask_wait_unref(wait);
}
