// Where each member of a gang sits in the grant of its job, and its rank.
#include "bridge/scheduler/blocks.h"
#include "bridge/scheduler/claims.h"
#include "bridge/scheduler/gang.h"

#include "api/selector.h"
#include "slurm/hostlist.h"

#include <stdlib.h>
#include <string.h>

// The n-th up to the m-th index of a list; caller frees.
static char *slice(const char *list, int64_t n, int64_t m)
{
	struct td_ranges all, some = {0};
	int64_t at = 0;
	if (!list || td_ranges_parse(list, &all, NULL))
		return td_strdup("");
	for (size_t i = 0; i < TD_RANGE_MAX; i++) {
		if (!(all.bits[i / 64] >> (i % 64) & 1))
			continue;
		if (at >= n && at < m)
			some.bits[i / 64] |= UINT64_C(1) << (i % 64);
		at++;
	}
	return td_ranges_write(&some);
}

struct kinds { // the resources that members ask for, in one numbering, and what one of them does
	const char *resource[TD_POOL_KINDS];
	struct td_pool_want want;
};

// io: has the numbering so far.
static void kinds_read(struct td_bridge_run *r, const struct td_object *pod, struct kinds *io)
{
	const yyjson_val *spec = td_jget(pod->root, "spec");
	io->want = (struct td_pool_want){.cpus = td_want_cpus(spec), .memory_mb = td_want_memory_mb(spec)};
	for (size_t i = 0; i < r->s->n_gres; i++) {
		const char *name = r->s->gres[i].resource, *asked = td_settings_asked(r->s, pod->root),
			   *key = asked && td_api_is_device(name, asked) && r->s->devices.n_several
					  ? asked
					  : td_settings_key(r->s, r->s->gres[i].name);
		int64_t n = td_api_pod_request(spec, name);
		n += strcmp(name, r->s->devices.resource) ? 0 : td_ask_claimed(r->b, r->s, pod);
		int k = 0;
		while (k < TD_POOL_KINDS && io->resource[k] && !td_streq(io->resource[k], key))
			k++;
		if (n <= 0 || k == TD_POOL_KINDS)
			continue;
		io->resource[k] = key;
		io->want.gres[k] += n;
	}
}

// The devices of one seat, in the form of td_devices_text().
static char *seat_devices(const struct kinds *kinds, const char *devices, int64_t slot)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_buf struct td_buf b = {0};
	td_buf_putc(&b, '{');
	if (!td_json_parse(devices, strlen(devices), &j, NULL))
		for (int k = 0; k < TD_POOL_KINDS && kinds->resource[k]; k++) {
			int64_t n = kinds->want.gres[k];
			if (!n) // another role's
				continue;
			td_auto_free char *own =
				slice(td_jkey_str(td_json_root(j), kinds->resource[k]), slot * n, (slot + 1) * n);
			td_buf_printf(&b, "%s\"%s\":\"%s\"", b.len > 1 ? "," : "", kinds->resource[k], own);
		}
	td_buf_putc(&b, '}');
	return td_buf_take(&b);
}

void td_gang_seat_done(struct td_gang_seat *s)
{
	free(s->node);
	free(s->devices);
	free(s->cores);
	*s = (struct td_gang_seat){0};
}

// from, to: which of the part's cores are its own.
static void seat(struct td_gang_member *m, const struct td_ask_part *part, int64_t slot, const struct kinds *kinds,
		 int64_t from, int64_t to)
{
	td_gang_seat_done(&m->seat);
	m->seat = (struct td_gang_seat){.rank = m->rank,
					.node = td_strdup(part->node),
					.devices = seat_devices(kinds, part->devices, slot),
					.cores = slice(part->cores, from, to)};
	td_gang_role_of(m->pod, m->seat.role);
	m->seated = true;
}

// The order of the job's nodes for ranks.
static void order_parts(struct td_bridge_run *r, size_t *ret)
{
	const struct td_ask *a = r->a;
	td_auto_free struct td_pool_gang_place *v = td_calloc(a->n_parts, sizeof(*v));
	td_auto_objects struct td_objects nodes = {0};
	td_auto_strv struct td_strv blocks = {0};
	for (size_t i = 0; i < a->n_parts; i++) {
		struct td_object *o = td_informer_get(r->b->nodes, NULL, a->parts[i].node);
		yyjson_val *labels = o ? td_jget(o->root, "metadata.labels") : NULL;
		v[i] = (struct td_pool_gang_place){td_jkey_str(labels, TD_LABEL_BLOCK),
						   td_jkey_str(labels, TD_LABEL_RACK), a->parts[i].node};
		// What lies in one block has ranks that follow each other.
		char *block = o ? td_blocks_of(r->s, o->root) : NULL;
		if (block) {
			v[i].rack = v[i].block;
			v[i].block = block;
			td_strv_steal(&blocks, block);
		}
		if (o)
			td_objects_add(&nodes, o);
	}
	td_pool_gang_order(v, a->n_parts, ret);
}

// ---- dealing ----

struct dealing {
	struct td_bridge_run *r;
	size_t *who, n; // the members that have a place
	size_t *order;  // of the job's nodes
	struct td_pool_gang_seat *seats;
	struct kinds kinds;
};

// Deals the job's nodes out to so many tasks.
static bool deal_tasks(struct dealing *d, const struct td_pool_want *each, size_t tasks)
{
	const struct td_ask *a = d->r->a;
	td_auto_free struct td_pool_gang_part *parts = td_calloc(a->n_parts, sizeof(*parts));
	for (size_t i = 0; i < a->n_parts; i++) {
		const struct td_ask_part *part = &a->parts[d->order[i]];
		parts[i].cpus = part->cpus;
		for (int k = 0; k < TD_POOL_KINDS && d->kinds.resource[k]; k++)
			parts[i].gres[k] = td_devices_count(part->devices, d->kinds.resource[k]);
	}
	return td_pool_gang_deal(parts, a->n_parts, each, tasks, d->seats);
}

static void seat_in(struct dealing *d, struct td_gang_member *m, size_t task, const struct kinds *kinds,
		    const struct td_pool_ride *ride)
{
	const struct td_pool_gang_seat *at = &d->seats[task];
	const struct td_ask_part *part = &d->r->a->parts[d->order[at->part]];
	int64_t cores = td_devices_indexes(part->cores), from = cores * at->slot / at->of,
		to = cores * (at->slot + 1) / at->of;
	if (ride)
		td_pool_roles_cores(ride, &from, &to);
	seat(m, part, at->slot, kinds, from, to);
}

// All members ask for the same: each has a task of its own.
static bool deal_alike(struct dealing *d)
{
	struct td_gang_run *g = d->r->gang;
	size_t size = d->r->a->size;
	if (!deal_tasks(d, &d->kinds.want, size))
		return false;
	for (size_t i = 0; i < d->n; i++) {
		struct td_gang_member *m = &g->v[d->who[i]];
		if (m->rank >= 0 && m->rank < (int64_t)size)
			seat_in(d, m, (size_t)m->rank, &d->kinds, NULL);
	}
	return true;
}

// Which of the ways to make one job of the roles is this job?
static bool way_of(const struct td_ask *a, const struct td_gang_roles *roles, struct td_pool_bundle *ret)
{
	struct td_pool_bundle ways[TD_POOL_ROLES + 1];
	size_t n = td_pool_roles_bundle(roles->pool, roles->n, ways);
	for (size_t i = 0; i < n; i++)
		if (ways[i].tasks == (int64_t)a->tasks && ways[i].each.cpus == a->task_cpus) {
			*ret = ways[i];
			return true;
		}
	return false;
}

static size_t role_at(const struct td_gang_roles *roles, const struct td_object *pod)
{
	size_t i = 0;
	while (i < roles->n && td_gang_role_cmp(roles->v[i].name, td_gang_role(pod)) != 0)
		i++;
	return i;
}

// Roles that ask for different things. Where a member sits follows from what all ask for, so all must
// be there: while one is missing nobody waits for a seat. Of those who come later it is known.
static bool deal_roles(struct dealing *d, struct td_gang_roles *roles)
{
	struct td_gang_run *g = d->r->gang;
	struct td_pool_bundle way;
	size_t size = d->r->a->size;
	if (d->n != size && !g->later)
		return false;
	for (size_t i = 0; i < roles->n; i++) {
		kinds_read(d->r, roles->v[i].pod, &d->kinds);
		roles->pool[i].want = d->kinds.want;
	}
	if (!way_of(d->r->a, roles, &way) || way.tasks > (int64_t)size || !deal_tasks(d, &way.each, (size_t)way.tasks))
		return false;
	td_auto_free struct td_gang_member **by_rank = td_calloc(size, sizeof(struct td_gang_member *));
	for (size_t i = 0; i < d->n; i++) {
		struct td_gang_member *m = &g->v[d->who[i]];
		if (m->rank >= 0 && m->rank < (int64_t)size)
			by_rank[m->rank] = m;
	}
	int64_t next[TD_POOL_ROLES] = {0};
	for (size_t i = 0; i < size; i++) {
		const struct td_object *pod = by_rank[i] ? td_gang_like_whom(g, by_rank[i]->pod) : g->later;
		size_t role = pod ? role_at(roles, pod) : roles->n;
		if (role == roles->n || next[role] == roles->pool[role].members)
			continue;
		const struct td_pool_ride ride = td_pool_roles_ride(roles->pool, roles->n, &way, role, next[role]++);
		if (!by_rank[i])
			continue;
		struct kinds kinds = d->kinds;
		kinds.want = roles->pool[role].want;
		seat_in(d, by_rank[i], (size_t)ride.task, &kinds, &ride);
	}
	return true;
}

// Do the members ask for different things? Then `roles` is filled.
static bool differ(struct dealing *d, struct td_gang_roles *roles)
{
	struct td_gang_run *g = d->r->gang;
	if (!td_gang_roles_read(g, roles) || roles->n < 2)
		return false;
	kinds_read(d->r, roles->v[0].pod, &d->kinds);
	const struct td_pool_want first = d->kinds.want;
	bool found = false;
	for (size_t i = 1; i < roles->n; i++) {
		kinds_read(d->r, roles->v[i].pod, &d->kinds);
		found |= memcmp(&first, &d->kinds.want, sizeof(first)) != 0;
	}
	return found;
}

bool td_gang_deal(struct td_bridge_run *r)
{
	struct td_gang_run *g = r->gang;
	struct td_ask *a = r->a;
	size_t n = 0;
	td_auto_free struct td_pool_gang_rank *ranks = td_calloc(g->n + 1, sizeof(*ranks));
	td_auto_free size_t *who = td_calloc(g->n + 1, sizeof(*who));
	struct dealing d = {.r = r, .who = who};
	struct td_gang_roles roles;
	bool apart = differ(&d, &roles);
	// Workers of a LeaderWorkerSet that come one by one have their indexes, too.
	bool fixed = !apart || (g->later && td_gang_place_of(g->later).fixed);
	for (size_t i = 0; i < g->n; i++) {
		// A member that failed has no place any more.
		if (g->v[i].state == TD_POD_DONE && !td_streq(td_jstr(g->v[i].pod->root, "status.phase"), "Succeeded"))
			continue;
		who[n] = i;
		struct td_gang_place_in in = td_gang_place_of(g->v[i].pod);
		ranks[n++] = (struct td_pool_gang_rank){in.fixed && fixed ? in.index : -1, g->v[i].rank};
	}
	if (!td_pool_gang_ranks(ranks, n, a->size))
		return false;
	for (size_t i = 0; i < n; i++)
		g->v[who[i]].rank = ranks[i].rank;

	if (!a->n_parts || !g->n)
		return false;
	td_auto_free struct td_pool_gang_seat *seats = td_calloc(a->size, sizeof(*seats));
	td_auto_free size_t *order = td_calloc(a->n_parts, sizeof(*order));
	order_parts(r, order);
	d.n = n;
	d.order = order;
	d.seats = seats;
	if (apart)
		return deal_roles(&d, &roles);
	d.kinds = (struct kinds){0};
	kinds_read(r, g->v[0].pod, &d.kinds);
	return deal_alike(&d);
}
