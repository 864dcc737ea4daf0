// Finds the pods of a gang's ask again, which is known by the UID that was made from theirs: after a
// restart of the bridge, and from outside.
#include "bridge/scheduler/gang.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_ASKS = 16 };

static const char *granted_uid(const struct td_object *pod)
{
	return td_object_annotation(pod, TD_ANN_GANG_UID);
}

static bool made_from(const struct td_object **v, size_t n, const char *uid)
{
	char got[40];
	td_gang_uid(v, n, got);
	return !strcmp(got, uid);
}

struct aged {
	const char *made;
	size_t at; // among those that wait
};

static int by_age(const void *a, const void *b)
{
	const struct aged *x = a, *y = b;
	int d = strcmp(x->made, y->made);
	return d ? d : x->at < y->at ? -1 : x->at > y->at;
}

// The first `take` of those of v that are marked, to the front.
static void front(const struct td_object **v, size_t n, const bool *marked, size_t take, const struct td_object **ret)
{
	size_t k = 0;
	for (int in = 1; in >= 0; in--) {
		size_t seen = 0;
		for (size_t i = 0; i < n; i++) {
			bool its = marked[i] && seen++ < take;
			if (its == in)
				ret[k++] = v[i];
		}
	}
}

// Where the take-th of those that are marked is; n: they are fewer.
static size_t nth(const bool *marked, size_t n, size_t take)
{
	size_t i = 0;
	for (; i < n; i++)
		if (marked[i] && !--take)
			break;
	return i;
}

bool td_gang_pick(const struct td_object *const *members, size_t n_members, const struct td_object **waiting, size_t n,
		  size_t take, const char *uid)
{
	if (take > n || !(n_members + take))
		return false;
	td_auto_free const struct td_object **v = td_calloc(n_members + n + 1, sizeof(*v));
	if (n_members)
		memcpy(v, members, n_members * sizeof(*v));
	if (n)
		memcpy(v + n_members, waiting, n * sizeof(*v));
	if (made_from(v, n_members + take, uid))
		return true;

	// When the ask was made there were fewer: the oldest.
	td_auto_free struct aged *age = td_calloc(n + 1, sizeof(*age));
	td_auto_free bool *there = td_calloc(n + 1, sizeof(*there));
	for (size_t i = 0; i < n; i++)
		age[i] = (struct aged){td_jstr_or(waiting[i]->root, "metadata.creationTimestamp", ""), i};
	qsort(age, n, sizeof(*age), by_age);
	size_t last = n; // of those that are there, the take-th: who is behind it changes nothing
	for (size_t k = 0; k < n; k++) {
		there[age[k].at] = true;
		if (k + 1 < take || (k + 1 > take && age[k].at > last))
			continue;
		last = nth(there, n, take);
		front(waiting, n, there, take, v + n_members);
		if (made_from(v, n_members + take, uid)) {
			memcpy(waiting, v + n_members, n * sizeof(*v));
			return true;
		}
	}
	return false;
}

struct named {
	char *gang;
	const struct td_object *pod;
};

static int by_gang(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->gang, ((const struct named *)b)->gang);
}

// Is the ask one of these n pods of one gang, which wait? What their owner says is read only when it is not of all of
// them (`all`): after a restart each job of a gang that waits comes here, and all gangs that wait are looked at.
static int would_be(struct td_bridge *b, const struct named *v, size_t n, bool all, const char *uid, bool *ret,
		    struct td_cancel *c, struct td_error *err)
{
	struct td_gang_says says;
	td_auto_free const struct td_object **m = td_calloc(n + 1, sizeof(*m));
	for (size_t i = 0; i < n; i++)
		m[i] = v[i].pod;
	if (all) {
		*ret = made_from(m, n, uid);
		return 0;
	}
	td_gang_sort(m, n);
	int r = td_gang_read(b, m, n, &says, c, err);
	if (!r && says.late)
		td_gang_put_back(m, n);
	*ret = !r && td_gang_pick(NULL, 0, m, n, (size_t)says.now, uid);
	return r == TD_INVALID || r == TD_NOT_FOUND ? 0 : r;
}

int td_gang_adopt(struct td_bridge *b, const char *uid, const struct td_objects *pods, bool *ret, struct td_cancel *c,
		  struct td_error *err)
{
	td_auto_free struct named *v = td_calloc(pods->n + 1, sizeof(*v));
	td_auto_free char *found = NULL;
	size_t n = 0;
	int r = 0;
	for (size_t i = 0; i < pods->n; i++) {
		char *gang = td_gang_of(pods->v[i]);
		if (!gang)
			continue;
		if (!found && td_streq(granted_uid(pods->v[i]), uid) && td_pod_state(pods->v[i]) != TD_POD_DONE)
			found = td_strdup(gang);
		if (granted_uid(pods->v[i]) || td_pod_state(pods->v[i]) != TD_POD_WAITING)
			free(gang);
		else
			v[n++] = (struct named){gang, pods->v[i]};
	}

	qsort(v, n, sizeof(*v), by_gang);
	for (int all = 1; all >= 0; all--)
		for (size_t i = 0, end; i < n && !found; i = end) {
			bool its = false;
			for (end = i; end < n && !strcmp(v[end].gang, v[i].gang); end++)
				;
			// One that cannot be read says nothing of the others.
			struct td_error e = TD_ERROR_INIT;
			int one = would_be(b, v + i, end - i, all, uid, &its, c, &e);
			if (one && !r)
				r = td_fail(err, one, "gang %s: %.400s", v[i].gang, e.msg);
			if (its)
				found = td_strdup(v[i].gang);
		}
	for (size_t i = 0; i < n; i++)
		free(v[i].gang);
	*ret = found;
	if (!found)
		return r;

	bool is_new;
	td_auto_free char *key = td_asprintf(TD_GANG_KEY "%s", found);
	td_ask_unref(td_ask_ensure(b->asks, uid, key, &is_new));
	td_queue_add(b->pod_queue, key);
	return 0;
}

struct td_ask *td_gang_ask(struct td_bridge *b, const struct td_object *pod)
{
	const char *uid = granted_uid(pod);
	if (uid)
		return td_ask_get(b->asks, uid);
	td_auto_free char *gang = td_gang_of(pod), *key = gang ? td_asprintf(TD_GANG_KEY "%s", gang) : NULL;
	struct td_ask *asks[KEY_ASKS], *found = NULL;
	size_t n = key ? td_asks_of_key(b->asks, key, asks, KEY_ASKS) : 0;
	for (size_t i = 0; i < n; i++) {
		pthread_mutex_lock(&b->asks->lock);
		bool its = false;
		for (size_t k = 0; k < asks[i]->n_members; k++)
			its |= !strcmp(asks[i]->members[k].uid, pod->uid);
		pthread_mutex_unlock(&b->asks->lock);
		if (its && !found)
			found = asks[i];
		else
			td_ask_unref(asks[i]);
	}
	return found;
}
