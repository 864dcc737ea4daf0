// The table of asks, by UID, by key and by job id.
#define uthash_malloc(n) td_malloc(n)
#include "bridge/scheduler/ask.h"

#include "base/hash.h"

#include <string.h>

struct td_asks *td_asks_new(void)
{
	struct td_asks *t = td_calloc(1, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

static void parts_free(struct td_ask_part *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].node);
		free(v[i].devices);
		free(v[i].cores);
	}
	free(v);
}

struct td_ask *td_ask_unref(struct td_ask *a)
{
	if (!a || __atomic_sub_fetch(&a->refs, 1, __ATOMIC_ACQ_REL))
		return NULL;
	char *const f[] = {a->key,  a->nodes,    a->devices,  a->cpus,       a->reason,   a->excluded,
			   a->user, a->job_user, a->job_name, a->refused,    a->own.said, a->why,
			   a->qos,  a->roles,    a->note,     a->yields.why, a->line,     a->later};
	for (size_t i = 0; i < TD_LEN(f); i++)
		free(f[i]);
	td_ask_wait_unref(a->wait);
	for (size_t i = 0; i < a->n_members; i++)
		free(a->members[i].said);
	free(a->members);
	parts_free(a->parts, a->n_parts);
	free(a);
	return NULL;
}

struct td_asks *td_asks_free(struct td_asks *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < TD_LEN(t->nodes); i++)
		while (t->nodes[i]) {
			struct td_ask_at *x = t->nodes[i];
			t->nodes[i] = x->next;
			free(x);
		}
	struct td_ask *a, *tmp;
	HASH_ITER (hh, t->by_uid, a, tmp) {
		HASH_DEL(t->by_uid, a);
		td_ask_unref(a);
	}
	pthread_mutex_destroy(&t->lock);
	free(t->res);
	free(t);
	return NULL;
}

struct td_ask *td_ask_ref(struct td_ask *a)
{
	if (a)
		__atomic_add_fetch(&a->refs, 1, __ATOMIC_RELAXED);
	return a;
}

struct td_ask *td_ask_get(struct td_asks *t, const char *uid)
{
	struct td_ask *a;
	pthread_mutex_lock(&t->lock);
	HASH_FIND_STR(t->by_uid, uid, a);
	td_ask_ref(a);
	pthread_mutex_unlock(&t->lock);
	return a;
}

static uint64_t hash(const char *s)
{
	uint64_t h = td_hash_str(TD_HASH, s);
	return h ^ h >> 32;
}

static struct td_ask **key_bucket(struct td_asks *t, const char *key)
{
	return &t->keys[hash(key) % TD_LEN(t->keys)];
}

// Moves the ask to the bucket of another key. NULL: only out of its bucket.
static void set_key_locked(struct td_asks *t, struct td_ask *a, const char *key)
{
	for (struct td_ask **p = a->key ? key_bucket(t, a->key) : NULL; p && *p; p = &(*p)->by_key)
		if (*p == a) {
			*p = a->by_key;
			break;
		}

	a->by_key = NULL;
	if (!key)
		return; // out of the buckets; the text stays

	free(a->key);
	a->key = td_strdup(key);
	a->by_key = *key_bucket(t, key);
	*key_bucket(t, key) = a;
}

struct td_ask *td_ask_ensure(struct td_asks *t, const char *uid, const char *key, bool *ret_new)
{
	struct td_ask *a;
	pthread_mutex_lock(&t->lock);
	HASH_FIND_STR(t->by_uid, uid, a);
	*ret_new = !a;
	if (!a) {
		a = td_calloc(1, sizeof(*a));
		a->refs = 1;
		snprintf(a->uid, sizeof(a->uid), "%s", uid);
		a->seen_ms = td_real_ms(&td_clock_system);
		a->made_ms = td_mono_ms(&td_clock_system);
		set_key_locked(t, a, key);
		HASH_ADD_STR(t->by_uid, uid, a);
	} else if (td_starts(a->key, "uid:") && strcmp(a->key, key) != 0) {
		set_key_locked(t, a, key);
	}

	td_ask_ref(a);
	pthread_mutex_unlock(&t->lock);
	return a;
}

static struct td_ask **bucket(struct td_asks *t, int64_t job)
{
	return &t->jobs[(uint64_t)job % TD_LEN(t->jobs)];
}

struct td_ask *td_ask_by_job(struct td_asks *t, int64_t job)
{
	pthread_mutex_lock(&t->lock);
	struct td_ask *a = *bucket(t, job);
	while (a && a->job != job)
		a = a->by_job;
	td_ask_ref(a);
	pthread_mutex_unlock(&t->lock);
	return a;
}

bool td_asks_want_job(void *asks, int64_t job)
{
	struct td_ask *a = td_ask_by_job(asks, job);
	td_ask_unref(a);
	return a;
}

void td_asks_polled(struct td_asks *t, int64_t job, uint64_t states, struct td_strv *ret)
{
	pthread_mutex_lock(&t->lock);
	for (struct td_ask *a = *bucket(t, job); a; a = a->by_job) {
		if (a->job != job)
			continue;
		a->polled = states; // the worker decides whether this change needs a read
		td_strv_add(ret, a->key);
	}
	pthread_mutex_unlock(&t->lock);
}

void td_asks_gone(struct td_asks *t, int64_t job, struct td_strv *ret)
{
	pthread_mutex_lock(&t->lock);
	for (struct td_ask *a = *bucket(t, job); a; a = a->by_job) {
		if (a->job != job || a->gone_seen)
			continue;
		a->gone_seen = true;
		td_strv_add(ret, a->key);
	}
	pthread_mutex_unlock(&t->lock);
}

size_t td_asks_of_key(struct td_asks *t, const char *key, struct td_ask **ret, size_t max)
{
	size_t n = 0;
	pthread_mutex_lock(&t->lock);
	for (struct td_ask *a = *key_bucket(t, key); a && n < max; a = a->by_key)
		if (!strcmp(a->key, key))
			ret[n++] = td_ask_ref(a);
	pthread_mutex_unlock(&t->lock);
	return n;
}

void td_asks_all(struct td_asks *t, struct td_ask ***ret, size_t *ret_n)
{
	struct td_ask *a, *tmp;
	size_t n = 0;
	pthread_mutex_lock(&t->lock);
	struct td_ask **v = td_calloc(HASH_COUNT(t->by_uid) + 1, sizeof(*v));
	HASH_ITER (hh, t->by_uid, a, tmp)
		v[n++] = td_ask_ref(a);
	pthread_mutex_unlock(&t->lock);
	*ret = v;
	*ret_n = n;
}

static void unlink_job_locked(struct td_asks *t, struct td_ask *a)
{
	if (!a->job)
		return;
	for (struct td_ask **p = bucket(t, a->job); *p; p = &(*p)->by_job)
		if (*p == a) {
			*p = a->by_job;
			break;
		}
	a->by_job = NULL;
	a->job = 0;
}

void td_ask_set_job(struct td_asks *t, struct td_ask *a, int64_t job)
{
	pthread_mutex_lock(&t->lock);
	if (a->job != job) {
		unlink_job_locked(t, a);
		a->job = job;
		a->polled = 0;
		a->granted_said = a->gone_seen = a->started = a->passed = a->warned = a->usr1 = a->admin_set =
			a->end_noted = false;
		free(a->note);
		a->note = NULL;
		a->born_s = a->ended_ms = a->bind_ms = 0;
		if (job) {
			a->by_job = *bucket(t, job);
			*bucket(t, job) = a;
		}
	}
	pthread_mutex_unlock(&t->lock);
}

// ---- which asks have something on a node ----
const struct td_ask_at *td_asks_at_locked(const struct td_asks *t, const char *node)
{
	return t->nodes[hash(node) % TD_LEN(t->nodes)];
}

const struct td_ask_part *td_ask_at_node(const struct td_ask_at *x, const char *node, bool *ret_lone)
{
	const struct td_ask *a = x->ask;
	*ret_lone = x->part == TD_ASK_LONE && !a->n_parts && td_streq(a->nodes, node);
	return x->part != TD_ASK_LONE && td_streq(a->parts[x->part].node, node) ? &a->parts[x->part] : NULL;
}

static void off_node_locked(struct td_asks *t, const struct td_ask *a, const char *node, size_t part)
{
	struct td_ask_at **p = node ? &t->nodes[hash(node) % TD_LEN(t->nodes)] : NULL;
	while (p && *p && ((*p)->ask != a || (*p)->part != part))
		p = &(*p)->next;
	if (!p || !*p)
		return;
	struct td_ask_at *x = *p;
	*p = x->next;
	free(x);
}

static void off_nodes_locked(struct td_asks *t, const struct td_ask *a, bool parts)
{
	if (!parts)
		off_node_locked(t, a, a->nodes, TD_ASK_LONE);
	for (size_t i = 0; parts && i < a->n_parts; i++)
		off_node_locked(t, a, a->parts[i].node, i);
}

// One that was forgotten comes into no bucket: nobody would take it out.
static void on_node_locked(struct td_asks *t, struct td_ask *a, const char *node, size_t part)
{
	struct td_ask *found;
	HASH_FIND_STR(t->by_uid, a->uid, found);
	if (found != a || !node)
		return;
	struct td_ask_at *x = td_calloc(1, sizeof(*x)), **at = &t->nodes[hash(node) % TD_LEN(t->nodes)];
	*x = (struct td_ask_at){a, part, *at};
	*at = x;
}

void td_ask_set_nodes(struct td_asks *t, struct td_ask *a, const char *s)
{
	if (td_streq(a->nodes, s))
		return;
	char *now = td_strdup(s);
	pthread_mutex_lock(&t->lock);
	off_nodes_locked(t, a, false);
	char *old = a->nodes;
	a->nodes = now;
	on_node_locked(t, a, now, TD_ASK_LONE);
	pthread_mutex_unlock(&t->lock);
	free(old);
}

void td_ask_forget(struct td_asks *t, struct td_ask *a)
{
	struct td_ask *found;
	pthread_mutex_lock(&t->lock);
	HASH_FIND_STR(t->by_uid, a->uid, found);

	bool had = found == a;
	if (had) {
		unlink_job_locked(t, a);
		off_nodes_locked(t, a, true);
		off_nodes_locked(t, a, false);
		set_key_locked(t, a, NULL);
		HASH_DEL(t->by_uid, a);
		t->pending -= a->counted;
		t->pending_gen += a->counted;
		a->counted = false;
	}
	pthread_mutex_unlock(&t->lock);

	if (had)
		td_ask_unref(a); // the table's reference
}

void td_ask_pending(struct td_asks *t, struct td_ask *a, bool pending)
{
	struct td_ask_wait *over = NULL;
	pthread_mutex_lock(&t->lock);
	if (a->counted != pending) {
		t->pending += pending ? 1 : (size_t)-1;
		t->pending_gen++;
		a->counted = pending;
	}
	if (!pending) {
		over = a->wait;
		a->wait = NULL;
	}
	pthread_mutex_unlock(&t->lock);
	td_ask_wait_unref(over);
}

void td_ask_str(struct td_asks *t, char **field, const char *s)
{
	if (td_streq(*field, s))
		return;
	char *now = td_strdup(s);
	pthread_mutex_lock(&t->lock);
	char *old = *field;
	*field = now;
	pthread_mutex_unlock(&t->lock);
	free(old);
}

void td_ask_set_parts(struct td_asks *t, struct td_ask *a, struct td_ask_part *v, size_t n)
{
	pthread_mutex_lock(&t->lock);
	off_nodes_locked(t, a, true);
	struct td_ask_part *old = a->parts;
	size_t n_old = a->n_parts;
	a->parts = v;
	a->n_parts = n;
	for (size_t i = 0; i < n; i++)
		on_node_locked(t, a, v[i].node, i);
	pthread_mutex_unlock(&t->lock);
	parts_free(old, n_old);
}

void td_ask_unbound(struct td_ask *a)
{
	a->own.bound_sent = false;
	for (size_t i = 0; i < a->n_members; i++)
		a->members[i].bound_sent = false;
}
