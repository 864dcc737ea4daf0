// What the members of a gang ask for together: one job with a task for each of them, or, where its roles ask for
// different things, with tasks that are large enough for what sits in each (pool/roles.h).
#include "bridge/scheduler/claims.h"
#include "bridge/scheduler/gang.h"
#include "bridge/scheduler/turns.h"

#include "api/selector.h"

#include <string.h>

static bool same_json(const struct td_object *x, const struct td_object *y, const char *path)
{
	yyjson_val *p = td_jget(x->root, path), *q = td_jget(y->root, path);
	return p && q ? yyjson_equals(p, q) : !p == !q;
}

static bool same_places(const struct td_object *x, const struct td_object *y, const char **ret_what)
{
	static const char *const places[] = {"spec.nodeSelector", "spec.affinity", "spec.tolerations"};
	for (size_t i = 0; i < TD_LEN(places); i++)
		if (!same_json(x, y, places[i])) {
			*ret_what = places[i];
			return false;
		}
	return true;
}

// What a job has once, whatever its tasks are.
static bool same_terms(const struct td_want *x, const struct td_want *y)
{
	const char *const a[] = {x->ask.account,     x->ask.partition,   x->ask.qos,
				 x->ask.constraints, x->ask.reservation, x->ask.licenses},
			  *const b[] = {y->ask.account,     y->ask.partition,   y->ask.qos,
					y->ask.constraints, y->ask.reservation, y->ask.licenses};
	bool same = x->pool.exclusive == y->pool.exclusive && x->pack == y->pack && x->pool.alone == y->pool.alone &&
		    x->ask.time_limit_min == y->ask.time_limit_min && x->ask.segment == y->ask.segment;
	for (size_t i = 0; i < TD_LEN(a); i++)
		same = same && td_streq(a[i], b[i]);
	return same;
}

static bool same_shape(const struct td_want *x, const struct td_want *y)
{
	return x->pool.cpus == y->pool.cpus && x->pool.memory_mb == y->pool.memory_mb &&
	       td_streq(x->ask.tres_per_node, y->ask.tres_per_node);
}

// What one member asks for.
static int one_want(struct td_bridge_run *r, const struct td_object *pod, struct td_want *ret, struct td_error *err)
{
	td_auto_free char *name = td_asprintf("SlurmCluster %s/%s", r->b->o.ns, r->b->o.cluster);
	td_auto_claims struct td_claims claims = {0};
	int k = td_ask_claims(r->b, r->s, pod, &claims, err);
	if (!k)
		k = td_want_read(r->s, name, pod->root, claims.count, ret, err);
	if (!k && ret->share)
		k = td_fail(err, TD_INVALID,
			    "annotation " TD_ANN_ASK_PREFIX "gpu-share: pods of a gang have whole GPUs: leave it out");
	return k ? k : td_ask_types(r, pod, ret, err);
}

// As many, made from the same templates. What claims of other names ask for is compared with what the place has when they
// are given its devices.
static bool same_claims(yyjson_val *x, yyjson_val *y)
{
	yyjson_val *v;
	size_t i, n;
	if (yyjson_arr_size(x) != yyjson_arr_size(y))
		return false;
	yyjson_arr_foreach (x, i, n, v)
		if (!td_streq(td_jkey_str(v, "resourceClaimTemplateName"),
			      td_jkey_str(yyjson_arr_get(y, i), "resourceClaimTemplateName")))
			return false;
	return true;
}

static bool same_requests(const struct td_object *x, const struct td_object *y)
{
	const yyjson_val *p = td_jget(x->root, "spec"), *q = td_jget(y->root, "spec");
	td_auto_strv struct td_strv names = {0};
	td_api_pod_request_names(p, &names);
	td_api_pod_request_names(q, &names);
	for (size_t i = 0; i < names.n; i++)
		if (strcmp(names.v[i], "ephemeral-storage") != 0 && // which Slurm does not count
		    td_api_pod_request(p, names.v[i]) != td_api_pod_request(q, names.v[i]))
			return false;
	return same_claims(td_jget(x->root, "spec.resourceClaims"), td_jget(y->root, "spec.resourceClaims"));
}

bool td_gang_like(const struct td_object *const *members, size_t n, const struct td_object *pod)
{
	bool all = true;
	for (size_t i = 0; i < n; i++) {
		bool same = same_requests(members[i], pod);
		if (!td_gang_role_cmp(td_gang_role(members[i]), td_gang_role(pod)))
			return same;
		all = all && same;
	}
	return all;
}

// ---- roles ----

struct wants { // what the first pod of each role asks for
	struct td_want v[TD_POOL_ROLES];
	size_t n;
};

static void wants_done(struct wants *w)
{
	for (size_t i = 0; i < w->n; i++)
		td_want_done(&w->v[i]);
}

// A pod whose role is known already: it must ask for what the first of it asks for.
static int check(const struct td_gang_role *role, const struct td_want *first, const struct td_object *pod,
		 const struct td_want *w, struct td_error *err)
{
	const char *what, *fix = *role->name ? "all pods of one role"
					     : "all of them, or say by the label " TD_LABEL_GANG_ROLE " what each is,";
	if (!same_places(role->pod, pod, &what))
		return td_fail(err, TD_INVALID, "pods %s and %s of one gang have different %s: give %s the same",
			       role->pod->name, pod->name, what, fix);
	if (same_terms(first, w) && same_shape(first, w))
		return 0;
	if (!*role->name)
		return td_fail(err, TD_INVALID,
			       "pods %s and %s of one gang ask for different things: give all of them the same "
			       "requests and the same annotations " TD_ANN_ASK_PREFIX
			       "*, or say by the label " TD_LABEL_GANG_ROLE " what each is",
			       role->pod->name, pod->name);
	return td_fail(err, TD_INVALID,
		       "pods %s and %s of the role %s ask for different things: give all pods of one role the same "
		       "requests and the same annotations " TD_ANN_ASK_PREFIX "*",
		       role->pod->name, pod->name, role->name);
}

// The number of a kind of devices in the job's list; TD_POOL_KINDS: there are too many.
static int kind_at(struct td_want *job, const char *kind)
{
	int k = 0;
	for (; k < TD_POOL_KINDS && job->kinds[k]; k++)
		if (!strcmp(job->kinds[k], kind))
			return k;
	if (k < TD_POOL_KINDS)
		job->kinds[k] = td_arena_strdup(job->arena, kind);
	return k;
}

// Numbers the devices of all roles as the job does.
static int number(struct td_gang_roles *roles, const struct wants *w, struct td_want *job, struct td_error *err)
{
	for (size_t i = 0; i < roles->n; i++) {
		const struct td_want *own = i ? &w->v[i] : job;
		struct td_pool_want *p = &roles->pool[i].want;
		*p = own->pool;
		memset(p->gres, 0, sizeof(p->gres));
		for (int k = 0; k < TD_POOL_KINDS && own->kinds[k]; k++) {
			int at = kind_at(job, own->kinds[k]);
			if (at == TD_POOL_KINDS)
				return td_fail(err, TD_INVALID,
					       "its gang asks for more than %d kinds of extended resources",
					       TD_POOL_KINDS);
			p->gres[at] = own->pool.gres[k];
		}
	}
	return 0;
}

static int ways(struct td_bridge_run *r, const struct wants *w, struct td_error *err)
{
	struct td_gang_run *g = r->gang;
	struct td_gang_roles *roles = &g->roles;
	for (size_t i = 1; i < roles->n; i++)
		if (!same_terms(&r->want, &w->v[i]))
			return td_fail(err, TD_INVALID,
				       "pods %s and %s of one gang have different annotations " TD_ANN_ASK_PREFIX
				       "*: a gang is one job, so give all its roles the same",
				       r->pod->name, roles->v[i].pod->name);
	int k = number(roles, w, &r->want, err);
	if (k)
		return k;
	g->n_ways = td_pool_roles_bundle(roles->pool, roles->n, g->ways);
	if (!g->n_ways)
		return td_fail(
			err, TD_INVALID,
			"the roles of its gang ask for different numbers of devices: give those that have any the "
			"same number, or none");
	if (!g->later && td_streq(td_gang_on_loss(r->pod), "replace"))
		return td_fail(
			err, TD_INVALID,
			"annotation " TD_ANN_GANG_LOSS
			": a lost member of a gang whose roles ask for different things cannot be replaced: write "
			"\"fail\" or \"restart\"");
	r->want.apart = true;
	td_gang_take_way(r, 0);
	return 0;
}

void td_gang_take_way(struct td_bridge_run *r, size_t way)
{
	struct td_want *w = &r->want;
	const struct td_pool_bundle *b = &r->gang->ways[way];
	td_auto_buf struct td_buf tres = {0};
	bool alone = w->pool.alone;
	w->pool = b->each;
	w->pool.alone = alone;
	w->ask.tasks = b->tasks;
	w->ask.cpus = b->each.cpus;
	w->ask.memory_mb = b->each.memory_mb;
	for (int k = 0; k < TD_POOL_KINDS && w->kinds[k]; k++)
		if (b->each.gres[k])
			td_buf_printf(&tres, "%sgres/%s:%lld", tres.len ? "," : "", w->kinds[k],
				      (long long)b->each.gres[k]);
	w->ask.tres_per_node = tres.len ? td_arena_strdup(w->arena, td_buf_str(&tres)) : NULL;
}

// The role of a pod among those that are known so far, which it is added to. NULL: there are too many.
static struct td_gang_role *role_of(struct td_gang_roles *roles, const struct td_object *pod, bool *ret_new)
{
	char name[TD_GANG_ROLE_LEN];
	td_gang_role_of(pod, name);
	*ret_new = false;
	for (size_t i = 0; i < roles->n; i++)
		if (!strcmp(roles->v[i].name, name)) {
			roles->pool[i].members++;
			return &roles->v[i];
		}
	if (roles->n == TD_POOL_ROLES)
		return NULL;
	*ret_new = true;
	struct td_gang_role *role = &roles->v[roles->n];
	*role = (struct td_gang_role){.pod = pod};
	memcpy(role->name, name, sizeof(name));
	roles->pool[roles->n++] = (struct td_pool_role){.members = 1};
	return role;
}

static int members_want(struct td_bridge_run *r, struct wants *all, struct td_error *err)
{
	struct td_gang_run *g = r->gang;
	struct td_gang_roles *roles = &g->roles;
	bool differ = false;
	*roles = (struct td_gang_roles){0};
	g->n_ways = 0;
	for (size_t i = 0; i < g->n + (g->later ? 1 : 0); i++) {
		const struct td_object *pod = i < g->n ? g->v[i].pod : g->later;
		td_auto_want struct td_want w = {0};
		int k = one_want(r, pod, &w, err);
		if (k)
			return k == TD_INVALID ? td_wrap(err, "pod %s", pod->name) : k;
		if (!td_streq(td_object_label(pod, TD_LABEL_OTHER), td_object_label(g->v[0].pod, TD_LABEL_OTHER)))
			return td_fail(err, TD_INVALID,
				       "pods %s and %s of one gang have different labels " TD_LABEL_OTHER
				       ": a gang is in one cluster, so give all of them the same, or none",
				       g->v[0].pod->name, pod->name);
		bool is_new;
		struct td_gang_role *role = role_of(roles, pod, &is_new);
		if (!role)
			return td_fail(err, TD_INVALID, "its gang has more than %d roles", TD_POOL_ROLES);
		size_t at = (size_t)(role - roles->v);
		if (!is_new && (k = check(role, at ? &all->v[at] : &r->want, pod, &w, err)))
			return k;
		if (!is_new)
			continue;
		const char *what;
		differ |= at && (!same_shape(&r->want, &w) || !same_terms(&r->want, &w) ||
				 !same_places(roles->v[0].pod, pod, &what));
		*(at ? &all->v[at] : &r->want) = w;
		all->n = roles->n;
		w = (struct td_want){0};
	}
	if (g->later && !td_gang_later_role(roles, g))
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_GANG_LATER ": no pod of its gang comes later: leave it out");
	return differ ? ways(r, all, err) : 0;
}

int td_gang_want(struct td_bridge_run *r, struct td_error *err)
{
	struct td_gang_run *g = r->gang;
	struct wants all = {0}; // the first one is r->want
	r->want = (struct td_want){0};
	int k = members_want(r, &all, err);
	wants_done(&all);
	if (!k)
		k = td_turns_gang(r, err);
	if (k)
		return k;

	struct td_slurm_ask *a = &r->want.ask;
	const char *slash = strchr(g->name, '/'), *title = td_gang_title(r->pod);
	td_auto_free char *mark = td_asprintf(TD_GANG_KEY "%s", slash + 1),
			  *jn = td_bridge_job_name(title ? title : slash + 1, r->a->uid),
			  *comment = td_comment(r->s->cluster_uid, r->pod->ns, mark, r->a->uid);
	a->name = td_arena_strdup(r->want.arena, jn);
	a->comment = td_arena_strdup(r->want.arena, comment);
	if (!g->n_ways)
		a->tasks = g->says.size;
	a->alone = r->want.pool.alone;
	if (a->segment && a->tasks % a->segment)
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_ASK_PREFIX
			       "segment: its gang takes %lld nodes, which is no multiple of "
			       "%lld",
			       (long long)a->tasks, (long long)a->segment);
	return 0;
}

int td_gang_where(struct td_bridge_run *r, struct td_where *ret, struct td_error *err)
{
	struct td_gang_run *g = r->gang;
	int k = td_bridge_run_where(r, ret, err);
	for (size_t way = 1; !k && way < g->n_ways && ret->fit == TD_FIT_NEVER; way++) {
		td_gang_take_way(r, way);
		td_where_done(ret);
		*ret = (struct td_where){0};
		k = td_bridge_run_where(r, ret, err);
	}
	if (k || !g->n_ways || ret->fit != TD_FIT_NEVER)
		return k;
	td_gang_take_way(r, 0);
	const struct td_slurm_ask *a = &r->want.ask;
	td_auto_free char *roles = td_gang_roles_text(&g->roles);
	snprintf(ret->why, sizeof(ret->why),
		 "its gang (%.100s) becomes %lld tasks with %lld CPUs, %lld MiB and %.60s each, and the nodes that all "
		 "its roles may use have no room for that",
		 roles, (long long)a->tasks, (long long)a->cpus, (long long)a->memory_mb,
		 a->tres_per_node ? a->tres_per_node : "no devices");
	return 0;
}

char *td_gang_roles_text(const struct td_gang_roles *roles)
{
	td_auto_buf struct td_buf b = {0};
	if (!roles->n || (roles->n == 1 && !*roles->v[0].name))
		return NULL;
	for (size_t i = 0; i < roles->n; i++)
		td_buf_printf(&b, "%s%s=%lld", i ? "," : "", *roles->v[i].name ? roles->v[i].name : "other",
			      (long long)roles->pool[i].members);
	return td_buf_take(&b);
}

bool td_gang_roles_read(const struct td_gang_run *g, struct td_gang_roles *ret)
{
	// Those that are bound come first among the members: the order of roles must not follow from that.
	td_auto_free const struct td_object **v = td_calloc(g->n + 1, sizeof(*v));
	bool several = false, is_new;
	*ret = (struct td_gang_roles){0};
	for (size_t i = 0; i < g->n; i++) {
		v[i] = g->v[i].pod;
		several |= td_gang_role_cmp(td_gang_role(v[0]), td_gang_role(v[i])) != 0;
	}
	if (several)
		td_gang_sort(v, g->n);
	for (size_t i = 0; i < g->n; i++)
		if (!role_of(ret, td_gang_like_whom(g, v[i]), &is_new))
			return false;
	return !g->later || td_gang_later_role(ret, g);
}
