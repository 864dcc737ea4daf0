// One pass over one gang: which pods are members of which ask, and the loop of each ask.
#include "bridge/scheduler/gang.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 8, KEY_ASKS = 16, COUNT_TO = 32 };

struct pass { // over one key
	struct td_bridge *b;
	const struct td_objects *pods; // of the gang
	struct td_settings *s;
	struct td_link *l;
	const char *key, *name;
	int64_t *again_ms;
	struct td_cancel *c;
	const struct td_object **granted; // pods that carry a gang-uid
	size_t n_granted;
	const struct td_object **waiting; // pods that wait and belong to no ask so far, sorted
	size_t n_waiting;
	bool alive;  // an ask of this gang has members that run
	bool formed; // or members that wait
	bool unlike; // a place of it is free, and all that wait ask for something else than who had it
	bool unsaid; // it keeps places, and none of those that wait may take one
	bool core;   // the one that is alive is elastic: there is no second
	// What those that wait say, when it was asked for; code: of td_gang_read().
	bool read;
	struct td_gang_says says;
	struct td_error said;
	int code;
};

static const char *granted_uid(const struct td_object *pod)
{
	return td_object_annotation(pod, TD_ANN_GANG_UID);
}

// ---- membership ----

static struct td_gang_member *add_member(struct td_gang_run *g, const struct td_object *pod)
{
	g->v = td_realloc(g->v, (g->n + 1) * sizeof(*g->v));
	long long rank;
	const char *s = td_object_annotation(pod, TD_ANN_GANG_RANK);
	g->v[g->n] = (struct td_gang_member){.pod = pod,
					     .state = td_pod_state(pod),
					     .rank = granted_uid(pod) && s && td_parse_i64(s, &rank) ? rank : -1};
	return &g->v[g->n++];
}

// What those that wait say. Returns td_gang_read()'s code.
static int said(struct pass *p)
{
	if (!p->read && p->n_waiting)
		p->code = td_gang_read(p->b, p->waiting, p->n_waiting, &p->says, p->c, &p->said);
	if (!p->read && p->says.late)
		td_gang_put_back(p->waiting, p->n_waiting);
	p->read = true;
	return p->code;
}

// Moves the first n waiting pods into the gang.
static void attach(struct pass *p, struct td_gang_run *g, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add_member(g, p->waiting[i]);
	memmove(p->waiting, p->waiting + n, (p->n_waiting - n) * sizeof(*p->waiting));
	p->n_waiting -= n;
}

// Are these members, with n of those that wait, the pods that the ask was made from? Then these n come first.
static bool made_from(const struct pass *p, const struct td_gang_run *g, size_t n, const char *uid)
{
	td_auto_free const struct td_object **v = td_calloc(g->n + 1, sizeof(*v));
	for (size_t i = 0; i < g->n; i++)
		v[i] = g->v[i].pod;
	return td_gang_pick(v, g->n, p->waiting, p->n_waiting, n, uid);
}

// Moves the pods that the ask already had to the front: others that wait may come before them by
// name. Returns how many members the ask has.
static size_t known_first(struct pass *p, const struct td_ask *a)
{
	td_auto_free const struct td_object **v = td_calloc(p->n_waiting + 1, sizeof(*v));
	size_t n = 0;
	for (int known = 1; known >= 0; known--)
		for (size_t i = 0; i < p->n_waiting; i++) {
			bool has = false;
			for (size_t k = 0; k < a->n_members; k++)
				has |= !strcmp(a->members[k].uid, p->waiting[i]->uid);
			if (has == known)
				v[n++] = p->waiting[i];
		}
	memcpy(p->waiting, v, n * sizeof(*v));
	return a->now ? a->now : a->size ? a->size : said(p) ? 0 : (size_t)p->says.now;
}

// Of the first n that wait, moves those to the front that ask for what the members do. Returns how many.
static size_t like_first(struct pass *p, const struct td_gang_run *g, size_t n)
{
	td_auto_free const struct td_object **has = td_calloc(g->n + 1, sizeof(*has)),
					    **rest = td_calloc(n + 1, sizeof(*rest));
	size_t like = 0, left = 0;
	for (size_t i = 0; i < g->n; i++)
		has[i] = g->v[i].pod;
	for (size_t i = 0; i < n; i++)
		if (td_gang_like(has, g->n, p->waiting[i]))
			p->waiting[like++] = p->waiting[i];
		else
			rest[left++] = p->waiting[i];
	memcpy(p->waiting + like, rest, left * sizeof(*rest));
	return like;
}

// Finds the members of an ask. What bound members carry is the truth about size and identity.
static void members(struct pass *p, const struct td_ask *a, struct td_gang_run *g)
{
	size_t running = 0, held = 0;
	const struct td_object *first = NULL;
	for (size_t i = 0; i < p->n_granted; i++) {
		if (!td_streq(granted_uid(p->granted[i]), a->uid))
			continue;
		const struct td_gang_member *m = add_member(g, p->granted[i]);
		running += m->state == TD_POD_BOUND;
		held += m->state == TD_POD_BOUND || m->state == TD_POD_LEAVING ||
			td_streq(td_jstr(m->pod->root, "status.phase"), "Succeeded");
		if (!first || m->state == TD_POD_BOUND)
			first = m->pod;
	}

	if (!first) {
		size_t n = known_first(p, a);
		if (n && !p->core && n <= p->n_waiting && made_from(p, g, n, a->uid)) {
			g->says.size = a->size ? (int64_t)a->size : said(p) ? (int64_t)n : p->says.size;
			g->says.now = (int64_t)n;
			g->says.most = a->most ? a->most : said(p) ? 0 : p->says.most;
			attach(p, g, n);
			p->formed = true;
		}
		return;
	}

	long long size = 0, most = 0;
	const char *world = td_object_annotation(first, TD_ANN_GANG_WORLD),
		   *limit = td_object_annotation(first, TD_ANN_GANG_MOST), *loss = td_gang_on_loss(first);
	g->says.size = world && td_parse_i64(world, &size) && size > 0 ? size : (int64_t)g->n;
	g->says.most = limit && td_parse_i64(limit, &most) ? most : 0;
	g->says.on_loss = td_gang_later_of(g)         ? TD_GANG_REPLACE
			  : td_streq(loss, "restart") ? TD_GANG_RESTART
			  : td_streq(loss, "replace") ? TD_GANG_REPLACE
						      : TD_GANG_FAIL;
	p->alive |= running;
	p->core |= running && g->says.most > g->says.size;
	if (!running || held >= (size_t)g->says.size)
		return;
	size_t vacant = (size_t)g->says.size - held, some = p->n_waiting;
	const char *roles = td_object_annotation(first, TD_ANN_GANG_ROLES);
	if (roles && !td_gang_roles_lead(roles)) { // a launcher that is late takes no place of a worker
		td_gang_put_back(p->waiting, some);
		while (some && td_gang_leads(p->waiting[some - 1]))
			some--;
	}
	if (td_gang_later_of(g)) {
		p->unsaid = some && !(some = td_gang_later_come(a, g, p->waiting, some));
	} else if (g->says.on_loss == TD_GANG_REPLACE && some) {
		some = like_first(p, g, some);
		p->unlike = !some;
	}
	size_t n = vacant < some ? vacant : some;
	if (g->says.on_loss == TD_GANG_REPLACE || (n == vacant && made_from(p, g, n, a->uid)))
		attach(p, g, n);
}

// Finds, or makes, what is kept of each member.
static void keep_members(struct td_bridge *b, struct td_ask *a, struct td_gang_run *g)
{
	struct td_ask_pod *now = td_calloc(g->n + 1, sizeof(*now));
	for (size_t i = 0; i < g->n; i++) {
		snprintf(now[i].uid, sizeof(now[i].uid), "%s", g->v[i].pod->uid);
		for (size_t k = 0; k < a->n_members; k++)
			if (!strcmp(a->members[k].uid, now[i].uid)) {
				now[i] = a->members[k];
				a->members[k].said = NULL;
				a->members[k].uid[0] = '\0';
				break;
			}
		g->v[i].p = &now[i];
	}

	pthread_mutex_lock(&b->asks->lock);
	struct td_ask_pod *old = a->members;
	size_t n = a->n_members;
	a->members = now;
	a->n_members = g->n;
	pthread_mutex_unlock(&b->asks->lock);
	for (size_t i = 0; i < n; i++)
		free(old[i].said);
	free(old);
}

// ---- one ask ----

// The job of the gang is the one that its bound members name; any other one is an extra.
static void adopt_grant(struct td_bridge_run *r)
{
	struct td_ask *a = r->a;
	struct td_grant g;
	for (size_t i = 0; i < r->gang->n; i++) {
		const struct td_gang_member *m = &r->gang->v[i];
		if (m->state != TD_POD_BOUND || !td_bridge_pod_grant(m->pod, &g))
			continue;
		if (g.job == a->job)
			return;
		int64_t extra = a->job;
		td_ask_set_job(r->b->asks, a, g.job);
		pthread_mutex_lock(&r->b->asks->lock);
		a->know = TD_JOB_UNSURE;
		a->born_s = g.start;
		pthread_mutex_unlock(&r->b->asks->lock);
		td_slurm_view_watch(r->b->view, g.job, 0);
		if (extra && r->l)
			td_end_extra(r->b, r->s, r->l->slurm, extra, a->uid, r->c);
		return;
	}
}

// The exit code of a gang: the first of its members' that is not 0; 143 while one has not ended.
static int exit_code(const struct td_gang_run *g)
{
	int code = 0;
	for (size_t i = 0; i < g->n; i++) {
		if (g->v[i].state != TD_POD_DONE)
			return 143;
		int one = td_bridge_run_exit_code(g->v[i].pod);
		code = code ? code : one;
	}
	return g->n ? code : 143;
}

static int run_ask(struct td_bridge_run *r, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	td_bridge_run_intake(r);
	adopt_grant(r);
	pthread_mutex_lock(&b->asks->lock);
	a->exit_code = exit_code(r->gang);
	// A record that was read before it was known to be a gang's has no parts.
	a->look |= r->gang->n && a->know == TD_JOB_READ && a->nodes && !a->n_parts &&
		   td_ask_is(a->states) == TD_IS_RUNNING;
	pthread_mutex_unlock(&b->asks->lock);

	for (int i = 0; i < STEPS_MAX; i++) {
		bool go_on, wait;
		struct td_pool_gang pg;
		struct td_pool_job pj;
		int k = td_bridge_run_look(r, &wait, err);
		if (k || wait)
			return k;
		k = td_gang_facts(r, &pg, &pj, err);
		if (k == TD_EXPIRED)
			return 0;
		if (k == TD_NOT_FOUND) {
			td_bridge_run_again(r, TD_SHOW_AFTER_MS);
			td_auto_free char *text = td_asprintf("It waits: %.300s.", err->msg);
			return td_bridge_run_show(r, "SlurmPending", text, err);
		}
		if (k)
			return k;

		struct td_pool_step st = td_pool_reconcile_gang(&pg, &pj);
		td_debug("%s: %s (%s)", a->key, td_pool_do_name(st.what), st.why);
		k = td_gang_act(r, st, &go_on, err);
		if (k || !go_on)
			return k;
		td_want_done(&r->want);
		r->wanted = false;
	}
	td_bridge_run_again(r, 100);
	return 0;
}

static void gang_done(struct td_gang_run *g)
{
	for (size_t i = 0; i < g->n; i++)
		td_gang_seat_done(&g->v[i].seat);
	free(g->v);
	free(g->hosts);
	td_object_unref(g->later);
}

// How many members each role has. While one is missing its bound members know it.
static void know_roles(struct td_bridge *b, struct td_ask *a, const struct td_gang_run *g)
{
	struct td_gang_roles roles;
	if (g->n && (g->n == a->size || g->later) && td_gang_roles_read(g, &roles)) {
		td_auto_free char *text = td_gang_roles_text(&roles);
		td_ask_str(b->asks, &a->roles, text);
		return;
	}
	for (size_t i = 0; i < g->n && !a->roles; i++)
		td_ask_str(b->asks, &a->roles, td_object_annotation(g->v[i].pod, TD_ANN_GANG_ROLES));
}

// Runs the ask with the members that it has now.
static int run_gang(struct pass *p, struct td_ask *a, struct td_gang_run *g, struct td_error *err)
{
	struct td_bridge_run run = {
		.b = p->b, .s = p->s, .l = p->l, .a = a, .p = &a->own, .gang = g, .again_ms = p->again_ms, .c = p->c};
	if (g->says.size) {
		pthread_mutex_lock(&p->b->asks->lock);
		a->size = (size_t)g->says.size;
		a->most = g->says.most;
		if (g->says.now)
			a->now = g->says.now < g->says.size ? (size_t)g->says.now : 0;
		pthread_mutex_unlock(&p->b->asks->lock);
	}
	keep_members(p->b, a, g);
	int k = td_gang_later_find(p->b, a, g, p->c, err);
	if (k)
		return k;
	know_roles(p->b, a, g);
	for (size_t i = 0; i < g->n && !run.pod; i++)
		if (g->v[i].state == TD_POD_WAITING) {
			run.pod = g->v[i].pod;
			run.p = g->v[i].p;
		}

	k = run_ask(&run, err);
	td_want_done(&run.want);
	if (a->res_tag)
		td_room_given(p->b, a, 0);
	return k;
}

// ---- a gang that is not whole ----

static int64_t youngest_ms(const struct pass *p)
{
	int64_t at = 0, ms;
	for (size_t i = 0; i < p->n_waiting; i++)
		if (!td_time_parse(td_jstr_or(p->waiting[i]->root, "metadata.creationTimestamp", ""), &ms) && ms > at)
			at = ms;
	return at;
}

// Says the text on every pod that waits and belongs to no ask.
static int say(struct pass *p, const char *reason, const char *text, struct td_error *err)
{
	int r = 0;
	for (size_t i = 0; i < p->n_waiting; i++) {
		struct td_ask none = {.key = (char *)p->key};
		struct td_ask_pod one = {0};
		struct td_bridge_run run = {.b = p->b,
					    .s = p->s,
					    .l = p->l,
					    .a = &none,
					    .pod = p->waiting[i],
					    .p = &one,
					    .again_ms = p->again_ms,
					    .c = p->c};
		bool was = td_bridge_run_says(p->waiting[i], text);
		int k = td_bridge_run_show(&run, reason, text, err);
		if (!k && !was && !strcmp(reason, "Refused"))
			td_kube_record(p->b->recorder, TD_ABOUT(p->waiting[i], &td_pods), "Warning", "Refused", "%s",
				       text);
		free(one.said);
		r = r ? r : k;
	}
	return r;
}

// The pods that wait and belong to no ask: they are a gang when they are enough.
static int rest(struct pass *p, struct td_error *err)
{
	if (!p->n_waiting)
		return 0;

	int r = 0;
	said(p);
	struct td_gang_says says = p->says;
	if (p->code == TD_INVALID) {
		td_auto_free char *text = td_asprintf("Refused: %s", p->said.msg);
		return say(p, "Refused", text, err);
	}
	if (p->code) { // what says how many they are is not there, or cannot be read now
		td_auto_free char *text = td_asprintf("It waits: %s.", p->said.msg);
		struct td_error e = TD_ERROR_INIT;
		say(p, "GangIncomplete", text, &e);
		if (p->code == TD_NOT_FOUND && (!*p->again_ms || *p->again_ms > TD_READ_PENDING_MS))
			*p->again_ms = TD_READ_PENDING_MS;
		return p->code == TD_NOT_FOUND ? 0 : td_fail(err, p->code, "%.500s", p->said.msg);
	}

	if (says.alone) // the next pass over each of them is a lone pod's
		return td_gang_group_apart(p->b, p->waiting, p->n_waiting, p->c, err);
	td_gang_sort(p->waiting, p->n_waiting);
	if (says.late)
		td_gang_put_back(p->waiting, p->n_waiting);
	// The core of an elastic gang is there once: whoever is not in it joins.
	bool elastic = says.most > says.size, there_is = p->alive || (elastic && p->formed);
	size_t there = td_gang_there(p->pods, p->waiting, p->n_waiting, &says);
	if (there >= (size_t)says.now && !there_is) {
		char uid[40];
		bool is_new;
		struct td_gang_run g = {.name = p->name, .says = says};
		td_gang_uid(p->waiting, (size_t)says.now, uid);
		attach(p, &g, (size_t)says.now);
		td_auto(td_ask_unref) struct td_ask *a = td_ask_ensure(p->b->asks, uid, p->key, &is_new);
		r = run_gang(p, a, &g, err);
		gang_done(&g);
		if (r || !p->n_waiting)
			return r;
		there_is = true;
	}

	if (p->unlike) {
		td_auto_free char *text = td_asprintf("Refused: a lost member of its gang %s is replaced by a pod that "
						      "asks for the same: give it the "
						      "requests of the others.",
						      p->name);
		return say(p, "Refused", text, err);
	}
	if (p->unsaid) {
		td_auto_free char *text = td_asprintf("It waits: the places of its gang %s are for pods that ask for "
						      "what annotation " TD_ANN_GANG_LATER
						      " of the one that leads says, or for less CPUs and memory, "
						      "while that one runs and its Slurm job is known to have room.",
						      p->name);
		return say(p, "GangIncomplete", text, err);
	}
	if (there_is && elastic) { // those that may join have been let go
		td_auto_free char *text =
			p->alive ? td_asprintf("It waits: its gang %s runs with its %lld pods already.", p->name,
					       (long long)says.most)
				 : td_asprintf("It waits: it is beyond the minimum of %lld of its gang %s, and asks "
					       "for room of its own when that runs.",
					       (long long)says.size, p->name);
		return say(p, "GangIncomplete", text, err);
	}
	if (there_is && !p->alive) {
		td_auto_free char *text = td_asprintf("It waits: its gang %s has its %lld members already.", p->name,
						      (long long)says.size);
		return say(p, "GangIncomplete", text, err);
	}

	if (!p->alive && (r = td_gang_clear(p->b, p->pods, p->waiting, p->n_waiting, p->c, err)))
		return r;

	// Most gangs are whole a moment later. (Times of creation are whole seconds.)
	int64_t age = td_real_ms(p->b->clock) - youngest_ms(p);
	if (age >= 0 && age < 1000 + TD_SHOW_AFTER_MS) {
		int64_t ms = 1000 + TD_SHOW_AFTER_MS - age;
		if (!*p->again_ms || ms < *p->again_ms)
			*p->again_ms = ms;
		return 0;
	}
	td_auto_free char *text =
		p->alive ? td_asprintf("It waits: its gang %s runs with other members.", p->name)
		: says.size <= COUNT_TO
			? td_asprintf("It waits for the other members of its gang %s: %zu of %lld are there.", p->name,
				      there, (long long)says.size)
			: td_asprintf("It waits until all %lld members of its gang %s are there.", (long long)says.size,
				      p->name);
	return say(p, "GangIncomplete", text, err);
}

// ---- the pass ----

static void sort_out(struct pass *p, const struct td_objects *pods)
{
	p->granted = td_calloc(pods->n + 1, sizeof(*p->granted));
	p->waiting = td_calloc(pods->n + 1, sizeof(*p->waiting));
	for (size_t i = 0; i < pods->n; i++) {
		if (granted_uid(pods->v[i]))
			p->granted[p->n_granted++] = pods->v[i];
		else if (td_pod_state(pods->v[i]) == TD_POD_WAITING)
			p->waiting[p->n_waiting++] = pods->v[i];
	}
	td_gang_sort(p->granted, p->n_granted);
	td_gang_sort(p->waiting, p->n_waiting);

	for (size_t i = 0; i < p->n_granted; i++) {
		bool is_new;
		if (td_pod_state(p->granted[i]) != TD_POD_DONE)
			td_ask_unref(td_ask_ensure(p->b->asks, granted_uid(p->granted[i]), p->key, &is_new));
	}
}

int td_gang_reconcile(struct td_bridge *b, struct td_settings *s, struct td_link *l, const char *key, int64_t *again_ms,
		      struct td_cancel *c, struct td_error *err)
{
	struct pass p = {
		.b = b, .s = s, .l = l, .key = key, .name = key + strlen(TD_GANG_KEY), .again_ms = again_ms, .c = c};
	td_auto_objects struct td_objects pods = {0};
	td_informer_by_index(b->pods, "gang", p.name, &pods);
	p.pods = &pods;
	sort_out(&p, &pods);
	p.said = (struct td_error)TD_ERROR_INIT;
	int r = 0;
	struct td_ask *asks[KEY_ASKS];
	size_t n = td_asks_of_key(b->asks, key, asks, KEY_ASKS);
	// Those with bound members come first: a place of theirs may wait for a new one.
	for (int bound = 1; bound >= 0; bound--)
		for (size_t i = 0; i < n; i++) {
			struct td_error e = TD_ERROR_INIT;
			struct td_gang_run g = {.name = p.name};
			bool its = false;
			for (size_t k = 0; k < p.n_granted; k++)
				its |= td_streq(granted_uid(p.granted[k]), asks[i]->uid);
			if (its != bound)
				continue;
			members(&p, asks[i], &g);
			int k = run_gang(&p, asks[i], &g, &e);
			gang_done(&g);
			if (k && !r)
				r = td_fail(err, k, "%.500s", e.msg);
		}
	for (size_t i = 0; i < n; i++)
		td_ask_unref(asks[i]);

	struct td_error e = TD_ERROR_INIT;
	p.n_waiting = td_gang_let_join(b, &pods, p.waiting, p.n_waiting);
	int k = rest(&p, &e);
	if (k && !r)
		r = td_fail(err, k, "%.500s", e.msg);
	free(p.granted);
	free(p.waiting);
	td_gang_group_tell(b, p.name, &pods, c);
	return r;
}
