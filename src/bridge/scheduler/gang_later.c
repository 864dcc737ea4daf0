// Places that a gang keeps for pods that come later: Spark's executors, which the driver makes when it runs, and the
// workers of a LeaderWorkerSet that starts its leader first. The pod that leads says by the annotation
// tandem.dev/gang-later what each of them asks for. The job of the gang has room for all of them from its start, so no
// leader holds a node in vain: once it runs, those who come get their places as if they replaced a lost member.
#include "bridge/scheduler/claims.h"
#include "bridge/scheduler/gang.h"

#include "api/quantity.h"
#include "api/selector.h"

#include <string.h>

const char *td_gang_on_loss(const struct td_object *pod)
{
	const char *s = td_object_annotation(pod, TD_ANN_GANG_LOSS);
	if (s)
		return s;
	bool spark = td_object_label(pod, TD_SPARK_APP) && !td_object_label(pod, TD_LABEL_GANG);
	return spark || td_object_annotation(pod, TD_ANN_GANG_LATER) ? "replace" : NULL;
}

static int wrong(const char *text, struct td_error *err)
{
	return td_fail(err, TD_INVALID,
		       "annotation " TD_ANN_GANG_LATER ": \"%.100s\" does not say what a pod asks for: write it as "
		       "{\"cpu\":\"4\",\"memory\":\"8Gi\"}, with its devices, too",
		       text);
}

// What each of them asks for, as a pod's requests.
static int requests(const char *text, struct td_json **ret, struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	yyjson_val *k, *v;
	size_t i, n;
	int64_t milli;
	if (td_json_parse(text, strlen(text), ret, &e))
		return wrong(text, err);
	yyjson_val *root = td_json_root(*ret);
	bool good = yyjson_is_obj(root) && td_jkey_str(root, "cpu") && td_jkey_str(root, "memory");
	if (good)
		yyjson_obj_foreach (root, i, n, k, v)
			good = good && yyjson_is_str(v) && !td_quantity_milli(yyjson_get_str(v), &milli, &e) &&
			       milli >= 0;
	if (good)
		return 0;
	*ret = td_json_unref(*ret);
	return wrong(text, err);
}

// One of those who come, made of the one that leads: it goes where that goes, and to the same account.
static struct td_object *stand_in(const struct td_object *leader, const yyjson_val *asks)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(leader->root);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *labels = td_jm_obj(d, o, "metadata.labels"),
		       *c = yyjson_mut_obj(d);
	td_jm_strf(d, o, "metadata.name", "%s-later", leader->name);
	td_jm_key_str(d, labels, TD_LABEL_GANG_ROLE, td_object_label(leader, TD_SPARK_APP) ? "executor" : "worker");
	static const char *const own[] = {"spec.initContainers", "spec.resources", "spec.overhead",
					  "spec.resourceClaims", "status"},
				 // What its Binding said is of its own role and place.
		*const granted[] = {TD_ANN_GANG_UID, TD_ANN_GANG_RANK, TD_LABEL_GANG_ROLE};
	for (size_t i = 0; i < TD_LEN(own); i++)
		td_jm_del(o, own[i]);
	for (size_t i = 0; i < TD_LEN(granted); i++)
		yyjson_mut_obj_remove_key(td_jm_obj(d, o, "metadata.annotations"), granted[i]);
	td_jm_str(d, c, "name", "main");
	td_jm_copyval(d, c, "resources.requests", asks);
	td_jm_copyval(d, c, "resources.limits", asks);
	yyjson_mut_val *all = td_jm_arr(d, o, "spec.containers");
	yyjson_mut_arr_clear(all);
	yyjson_mut_arr_append(all, c);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(o);
	return td_object_kept(td_json_root(j));
}

static int later_as(const struct td_object *pod, const char *text, struct td_object **ret, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *asks = NULL;
	int r = requests(text, &asks, err);
	if (!r)
		*ret = stand_in(pod, td_json_root(asks));
	return r;
}

int td_gang_later(const struct td_object *pod, struct td_object **ret, struct td_error *err)
{
	const char *text = td_object_annotation(pod, TD_ANN_GANG_LATER);
	*ret = NULL;
	if (!text)
		return 0;
	if (!td_gang_leads(pod))
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_GANG_LATER
			       ": pod %s does not lead its gang: write it on the driver, leader, master, launcher or "
			       "head (label " TD_LABEL_GANG_ROLE ")",
			       pod->name);
	return later_as(pod, text, ret, err);
}

const struct td_object *td_gang_later_of(struct td_gang_run *g)
{
	struct td_error e = TD_ERROR_INIT;
	for (size_t i = 0; i < g->n && !g->later; i++)
		if (td_object_annotation(g->v[i].pod, TD_ANN_GANG_LATER))
			(void)td_gang_later(g->v[i].pod, &g->later, &e); // td_gang_read() has said what is wrong
	return g->later;
}

int td_gang_later_find(struct td_bridge *b, struct td_ask *a, struct td_gang_run *g, struct td_cancel *c,
		       struct td_error *err)
{
	if (td_gang_later_of(g) || g->n != 1 || g->says.size == 1 || g->v[0].state != TD_POD_WAITING)
		return 0;
	if (!a->later) {
		td_auto_free char *text = NULL;
		int r = td_gang_owner_later(b, g->v[0].pod, &text, c, err);
		if (r)
			return r;
		td_ask_str(b->asks, &a->later, text);
	}
	return a->later ? later_as(g->v[0].pod, a->later, &g->later, err) : 0;
}

const struct td_object *td_gang_like_whom(const struct td_gang_run *g, const struct td_object *pod)
{
	return g->later && !td_gang_leads(pod) ? g->later : pod;
}

// Does it ask for what was said, or less CPUs and memory?
static bool as_said(const struct td_object *later, const struct td_object *pod)
{
	yyjson_val *said = td_jget(later->root, "spec"), *asks = td_jget(pod->root, "spec");
	bool fits = td_want_cpus(asks) <= td_want_cpus(said) && td_want_memory_mb(asks) <= td_want_memory_mb(said) &&
		    !td_jget(pod->root, "spec.resourceClaims.[0]");
	td_auto_strv struct td_strv names = {0};
	td_api_pod_request_names(said, &names);
	td_api_pod_request_names(asks, &names);
	for (size_t i = 0; i < names.n && fits; i++)
		fits = !strcmp(names.v[i], "cpu") || !strcmp(names.v[i], "memory") ||
		       !strcmp(names.v[i], "ephemeral-storage") ||
		       td_api_pod_request(asks, names.v[i]) == td_api_pod_request(said, names.v[i]);
	return fits;
}

// Is the room that the job has enough for all whose places it keeps? The annotation may have changed since, to whatever its
// user likes: all together are more than 64 bits hold.
static bool has_room(const struct td_ask *a, const struct td_gang_run *g)
{
	__int128 cpus = 0, mb = 0, one_cpus = td_want_cpus(td_jget(g->later->root, "spec")),
		 one_mb = td_want_memory_mb(td_jget(g->later->root, "spec"));
	size_t led = 0;
	int64_t has_cpus = 0, has_mb = 0;
	for (size_t i = 0; i < a->n_parts; i++) {
		has_cpus += a->parts[i].cpus;
		has_mb += a->parts[i].memory_mb;
	}
	for (size_t i = 0; i < g->n; i++)
		if (td_gang_leads(g->v[i].pod)) {
			cpus += td_want_cpus(td_jget(g->v[i].pod->root, "spec"));
			mb += td_want_memory_mb(td_jget(g->v[i].pod->root, "spec"));
			led++;
		}
	int64_t others = (int64_t)(a->size > led ? a->size - led : 0);
	return cpus + others * one_cpus <= has_cpus && mb + others * one_mb <= has_mb;
}

size_t td_gang_later_come(const struct td_ask *a, struct td_gang_run *g, const struct td_object **waiting, size_t n)
{
	bool leads = false;
	for (size_t i = 0; i < g->n; i++)
		leads |= g->v[i].state == TD_POD_BOUND && td_gang_leads(g->v[i].pod);
	if (!leads || !has_room(a, g))
		return 0;
	td_auto_free const struct td_object **rest = td_calloc(n + 1, sizeof(*rest));
	size_t k = 0, left = 0;
	for (size_t i = 0; i < n; i++)
		if (!td_gang_leads(waiting[i]) && as_said(g->later, waiting[i]))
			waiting[k++] = waiting[i];
		else
			rest[left++] = waiting[i];
	memcpy(waiting + k, rest, left * sizeof(*rest));
	return k;
}

bool td_gang_later_role(struct td_gang_roles *io, const struct td_gang_run *g)
{
	int64_t others = 0;
	size_t at = io->n;
	char name[TD_GANG_ROLE_LEN];
	td_gang_role_of(g->later, name);
	for (size_t i = 0; i < io->n; i++)
		if (!strcmp(io->v[i].name, name))
			at = i;
		else
			others += io->pool[i].members;
	if (at == TD_POOL_ROLES)
		return false;
	if (at == io->n) {
		io->v[at] = (struct td_gang_role){.pod = g->later};
		io->pool[at] = (struct td_pool_role){0};
		memcpy(io->v[at].name, name, sizeof(name));
		io->n++;
	}
	io->v[at].pod = g->later; // what the places are made for, whoever sits in them
	io->pool[at].members = g->says.size - others;
	return io->pool[at].members > 0;
}
