// The Federation whose hub this gateway is, and what is known of its members.
#include "gateway/hub.h"

#include "base/file.h"
#include "base/log.h"
#include "base/names.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// A federation has 64 members at most; runs may be at some that it has no longer.
enum { KNOWN_MOST = 256, LATE_MS = 15000 };

struct td_hubs {
	struct td_informer *federations, *runs; // NULL until td_hubs_start
	struct td_hub_sends *sends;
	bool said;    // that this gateway may not write to its Federation; the watching thread's
	bool watches; // these two were started; the watching thread's

	pthread_mutex_t lock; // guards what follows
	struct td_hub *hub;
	bool read; // it is known which Federation this is the hub of, if any
	struct td_hub_known known[KNOWN_MOST];
	size_t n;
};

struct td_hubs *td_hubs_new(void)
{
	struct td_hubs *h = td_calloc(1, sizeof(*h));
	pthread_mutex_init(&h->lock, NULL);
	return h;
}

void td_hub_known_done(struct td_hub_known *k)
{
	free(k->name);
	free(k->problem);
	td_json_unref(k->held);
	td_json_unref(k->used);
	*k = (struct td_hub_known){0};
}

struct td_hubs *td_hubs_free(struct td_hubs *h)
{
	if (!h)
		return NULL;
	td_hub_sends_free(h->sends);
	td_informer_free(h->federations);
	td_informer_free(h->runs);
	td_hub_unref(h->hub);
	for (size_t i = 0; i < h->n; i++)
		td_hub_known_done(&h->known[i]);
	pthread_mutex_destroy(&h->lock);
	free(h);
	return NULL;
}

static void by_user(const struct td_object *o, struct td_strv *ret)
{
	td_strv_add(ret, td_jstr_or(o->root, "spec.user", ""));
}

void td_hubs_start(struct td_gateway *g)
{
	struct td_hubs *h = g->hubs;
	td_auto_free char *labels = td_asprintf(TD_LABEL_CLUSTER "=%s," TD_LABEL_FED_LIVE "=true", g->o.cluster);
	const struct td_informer_opts runs = {.resource = &td_federatedruns, .ns = g->o.ns, .labels = labels};
	h->federations = td_informer_new(g->kube, &(const struct td_informer_opts){.resource = &td_federations});
	h->runs = td_informer_new(g->kube, &runs);
	td_informer_add_index(h->runs, "user", by_user);
	h->sends = td_hub_sends_new(g);
}

// A gateway that may list no Federations, as most, would ask in vain all the time.
static void watch(struct td_gateway *g)
{
	struct td_error e = TD_ERROR_INIT;
	if (!g->hubs->watches &&
	    (td_informer_start(g->hubs->federations, g->cancel, &e) || td_informer_start(g->hubs->runs, g->cancel, &e)))
		td_warn("federation: it is looked at by lists: %s", e.msg);
	g->hubs->watches = true;
}

const struct td_informer *td_hub_runs(struct td_gateway *g)
{
	return g->hubs->runs;
}

struct td_hub_sends *td_hub_sends(struct td_gateway *g)
{
	return g->hubs->sends;
}

// ---- the Federation ----

static void rule_done(struct td_fed_rule *r)
{
	struct td_strv *const all[] = {&r->users,     &r->teams,   &r->accounts, &r->partitions,
				       &r->gpu_types, &r->members, &r->otherwise};
	for (size_t i = 0; i < TD_LEN(all); i++)
		td_strv_done(all[i]);
}

struct td_hub *td_hub_ref(struct td_hub *h)
{
	__atomic_add_fetch(&h->refs, 1, __ATOMIC_RELAXED);
	return h;
}

struct td_hub *td_hub_unref(struct td_hub *h)
{
	if (!h || __atomic_sub_fetch(&h->refs, 1, __ATOMIC_ACQ_REL))
		return NULL;
	for (size_t i = 0; i < h->n_members; i++) {
		free(h->members[i].ca_path);
		if (h->members[i].ca_fd >= 0)
			close(h->members[i].ca_fd);
	}
	for (size_t i = 0; i < h->n_teams; i++) {
		td_strv_done(&h->teams[i].accounts);
		td_strv_done(&h->teams[i].users);
	}
	for (size_t i = 0; i < h->n_rules; i++)
		rule_done(&h->rules[i]);
	free(h->members);
	free(h->teams);
	free(h->rules);
	free(h->limits);
	td_object_unref(h->o);
	free(h);
	return NULL;
}

static void member_read(const yyjson_val *v, struct td_hub_member *m)
{
	const char *ca = td_jstr(v, "ca");
	*m = (struct td_hub_member){.name = td_jstr_or(v, "name", ""),
				    .url = td_jstr_or(v, "gatewayURL", ""),
				    .weight = td_jint(v, "weight", 1),
				    .ca_fd = -1};
	if (!ca)
		return;
	m->ca_fd = memfd_create("tandem-member-ca", MFD_CLOEXEC);
	if (m->ca_fd >= 0 && !td_write_all(m->ca_fd, ca, strlen(ca), NULL))
		m->ca_path = td_asprintf("/proc/self/fd/%d", m->ca_fd);
	else
		m->ca_path = td_strdup("/dev/null"); // then nobody is believed
}

struct td_hub *td_hub_of(struct td_object *federation)
{
	struct td_hub *h = td_calloc(1, sizeof(*h));
	yyjson_val *spec = td_jget(federation->root, "spec"), *v;
	yyjson_val *members = td_jget(spec, "members"), *teams = td_jget(spec, "teams"),
		   *routes = td_jget(spec, "routes"), *limits = td_jget(spec, "limits");
	size_t i, n;
	h->refs = 1;
	h->o = td_object_ref(federation);
	h->name = h->o->name;
	h->lost_after_s = td_jint(spec, "lostAfterSeconds", 120);
	h->ending = td_object_deleting(h->o);
	h->cancels = td_streq(td_object_annotation(h->o, TD_ANN_FED_END), "cancel");
	h->members = td_calloc(yyjson_arr_size(members) + 1, sizeof(*h->members));
	yyjson_arr_foreach (members, i, n, v)
		member_read(v, &h->members[h->n_members++]);
	h->teams = td_calloc(yyjson_arr_size(teams) + 1, sizeof(*h->teams));
	yyjson_arr_foreach (teams, i, n, v) {
		struct td_fed_team *t = &h->teams[h->n_teams++];
		t->name = td_jstr_or(v, "name", "");
		td_jstrs(td_jget(v, "accounts"), &t->accounts);
		td_jstrs(td_jget(v, "users"), &t->users);
	}
	h->rules = td_calloc(yyjson_arr_size(routes) + 1, sizeof(*h->rules));
	yyjson_arr_foreach (routes, i, n, v) {
		struct td_fed_rule *r = &h->rules[h->n_rules++];
		r->name = td_jstr_or(v, "name", "");
		r->min_gpus = td_jint(v, "minGPUs", 0);
		r->max_gpus = td_jint(v, "maxGPUs", -1);
		td_jstrs(td_jget(v, "users"), &r->users);
		td_jstrs(td_jget(v, "teams"), &r->teams);
		td_jstrs(td_jget(v, "accounts"), &r->accounts);
		td_jstrs(td_jget(v, "partitions"), &r->partitions);
		td_jstrs(td_jget(v, "gpuTypes"), &r->gpu_types);
		td_jstrs(td_jget(v, "members"), &r->members);
		td_jstrs(td_jget(v, "otherwise"), &r->otherwise);
	}
	h->limits = td_calloc(yyjson_arr_size(limits) + 1, sizeof(*h->limits));
	yyjson_arr_foreach (limits, i, n, v)
		h->limits[h->n_limits++] = (struct td_fed_limit){.team = td_jstr_or(v, "team", ""),
								 .gpus = td_jint(v, "gpus", -1),
								 .gpu_hours = td_jint(v, "gpuHours", -1),
								 .days = td_jint(v, "days", 30),
								 .user_gpus = td_jint(v, "perUser.gpus", -1),
								 .user_sessions = td_jint(v, "perUser.sessions", -1)};
	return h;
}

const struct td_hub_member *td_hub_member(const struct td_hub *h, const char *name)
{
	for (size_t i = 0; i < h->n_members; i++)
		if (td_streq(h->members[i].name, name))
			return &h->members[i];
	return NULL;
}

struct td_hub *td_hub_get(struct td_gateway *g)
{
	pthread_mutex_lock(&g->hubs->lock);
	struct td_hub *h = g->hubs->hub;
	if (h)
		td_hub_ref(h);
	pthread_mutex_unlock(&g->hubs->lock);
	return h;
}

int td_hub_ask(struct td_gateway *g, struct td_hub **ret, struct td_error *err)
{
	pthread_mutex_lock(&g->hubs->lock);
	bool read = g->hubs->read;
	pthread_mutex_unlock(&g->hubs->lock);
	if (!read)
		return td_fail(err, TD_TRANSIENT, "it is not known yet whether this gateway is a federation's hub");
	*ret = td_hub_get(g);
	return 0;
}

// Of several that name this cluster the first by name counts.
static struct td_object *ours(struct td_gateway *g, const struct td_objects *l)
{
	struct td_object *first = NULL;
	for (size_t i = 0; i < l->n; i++)
		if (td_streq(td_jstr(l->v[i]->root, "spec.hub.namespace"), g->o.ns) &&
		    td_streq(td_jstr(l->v[i]->root, "spec.hub.name"), g->o.cluster) &&
		    (!first || strcmp(l->v[i]->name, first->name) < 0))
			first = l->v[i];
	return first;
}

bool td_hub_surely_none(struct td_gateway *g)
{
	td_auto_objects struct td_objects l = {0};
	return !td_kube_list(g->kube, &td_federations, NULL, NULL, NULL, g->cancel, &l, NULL) && !ours(g, &l);
}

static bool held(const struct td_object *o)
{
	td_auto_strv struct td_strv l = {0};
	td_jstrs(td_jget(o->root, "metadata.finalizers"), &l);
	return td_strv_has(&l, TD_FINALIZER_FED);
}

static int finalizer(struct td_gateway *g, const struct td_object *o, bool add, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto_strv struct td_strv l = {0};
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "metadata.finalizers");
	td_jm_str(d, root, "metadata.uid", o->uid);
	td_jm_str(d, root, "metadata.resourceVersion", o->rv);
	td_jstrs(td_jget(o->root, "metadata.finalizers"), &l);
	for (size_t i = 0; i < l.n; i++)
		if (strcmp(l.v[i], TD_FINALIZER_FED) != 0)
			yyjson_mut_arr_append(list, yyjson_mut_strcpy(d, l.v[i]));
	if (add)
		yyjson_mut_arr_append(list, yyjson_mut_strcpy(d, TD_FINALIZER_FED));
	int r = td_kube_patch(g->kube, TD_AT(&td_federations, NULL, o->name), TD_PATCH_MERGE, root, g->cancel, NULL,
			      err);
	return r == TD_NOT_FOUND ? 0 : r ? td_wrap(err, "the finalizer of Federation %s", o->name) : 0;
}

int td_hub_release(struct td_gateway *g, const struct td_hub *h, struct td_error *err)
{
	return held(h->o) ? finalizer(g, h->o, false, err) : 0;
}

// So that it stays for as long as there are runs of it that have not ended.
static void hold(struct td_gateway *g, const struct td_object *o)
{
	struct td_error e = TD_ERROR_INIT;
	if (td_object_deleting(o) || held(o) || !finalizer(g, o, true, &e) || e.code == TD_CONFLICT)
		return;
	if (!g->hubs->said)
		td_warn("federation %s: it is gone at once when it is deleted, and runs of it are cancelled then: %s",
			o->name, e.msg);
	g->hubs->said = true;
}

bool td_hub_look(struct td_gateway *g)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_objects struct td_objects l = {0};
	int r = 0;
	if (td_informer_synced(g->hubs->federations))
		td_informer_list(g->hubs->federations, NULL, &l);
	else
		r = td_kube_list(g->kube, &td_federations, NULL, NULL, NULL, g->cancel, &l, &e);
	if (!r)
		watch(g);
	td_auto(td_hub_unref) struct td_hub *old = td_hub_get(g);
	// What was read before holds until it can be read again: else runs would go by no rules meanwhile.
	if (r && r != TD_NOT_FOUND && (old || r != TD_DENIED)) {
		td_debug("Federations: %s", e.msg);
		return r != TD_DENIED;
	}
	struct td_object *o = ours(g, &l);
	bool same = o && old ? td_streq(o->uid, old->o->uid) && td_streq(o->rv, old->o->rv) : !o && !old;
	bool other = !old || !o || !td_streq(o->uid, old->o->uid);
	struct td_hub *fresh = same ? NULL : o ? td_hub_of(o) : NULL, *was = NULL;
	pthread_mutex_lock(&g->hubs->lock);
	g->hubs->read = true;
	if (!same) {
		was = g->hubs->hub;
		g->hubs->hub = fresh;
	}
	pthread_mutex_unlock(&g->hubs->lock);
	td_hub_unref(was);
	if (!same && other) // promises are written there, too
		td_info("federation: %s%s", fresh ? "hub of " : "hub of none", fresh ? fresh->name : "");
	if (o)
		hold(g, o);
	return !r;
}

// ---- its members ----

static struct td_hub_known *entry_locked(struct td_hubs *h, const char *member)
{
	for (size_t i = 0; i < h->n; i++)
		if (!strcmp(h->known[i].name, member))
			return &h->known[i];
	if (h->n == KNOWN_MOST) { // of members that were renamed; they are found anew
		for (size_t i = 0; i < h->n; i++)
			td_hub_known_done(&h->known[i]);
		h->n = 0;
	}
	struct td_hub_known *k = &h->known[h->n++];
	*k = (struct td_hub_known){.name = td_strdup(member), .reached = true, .good_ms = td_mono_ms(&td_clock_system)};
	return k;
}

void td_hub_known(struct td_gateway *g, const char *member, struct td_hub_known *ret)
{
	pthread_mutex_lock(&g->hubs->lock);
	*ret = *entry_locked(g->hubs, member);
	ret->name = td_strdup(ret->name);
	ret->problem = td_strdup(ret->problem);
	ret->held = ret->held ? td_json_ref(ret->held) : NULL;
	ret->used = ret->used ? td_json_ref(ret->used) : NULL;
	pthread_mutex_unlock(&g->hubs->lock);
}

void td_hub_heard(struct td_gateway *g, const char *member, const struct td_error *err, struct td_json *look)
{
	int64_t now = td_mono_ms(&td_clock_system);
	pthread_mutex_lock(&g->hubs->lock);
	struct td_hub_known *k = entry_locked(g->hubs, member);
	// One that is only late may be busy.
	bool reached = !err || (k->reached && err->code == TD_UNCERTAIN && now - k->good_ms < LATE_MS),
	     news = !k->asked || k->reached != reached;
	k->asked = true;
	k->reached = reached;
	free(k->problem);
	k->problem = err ? td_strdup(err->msg) : NULL;
	if (!err)
		k->good_ms = now;
	if (look) {
		td_json_unref(k->held);
		k->held = td_json_ref(look);
		k->takes_word = td_jget(td_json_root(look), "limits") != NULL;
	}
	if (look && td_jget(td_json_root(look), "used")) {
		td_json_unref(k->used);
		k->used = td_json_ref(look);
		k->used_ms = now;
	}
	pthread_mutex_unlock(&g->hubs->lock);
	if (news)
		td_info("federation: member %s %s%s", member, err ? "does not answer: " : "answers",
			err ? err->msg : "");
}

void td_hub_lost(struct td_gateway *g, const char *member)
{
	pthread_mutex_lock(&g->hubs->lock);
	entry_locked(g->hubs, member)->reached = false;
	pthread_mutex_unlock(&g->hubs->lock);
}
