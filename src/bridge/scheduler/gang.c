// What pods say about the gang that they belong to. Pure but for the look at an owner's size.
#include "bridge/scheduler/gang.h"

#include "http/pki.h"

#include <stdlib.h>
#include <string.h>

char *td_gang_of(const struct td_object *pod)
{
	const char *name = td_object_annotation(pod, TD_ANN_GANG_NAME);
	if (name && (td_object_annotation(pod, TD_ANN_GANG_UID) || td_object_annotation(pod, TD_ANN_GANG_CORE)))
		return td_asprintf("%s/%s", pod->ns, name);
	// A pod that was bound alone stays alone.
	if (td_jstr(pod->root, "spec.nodeName"))
		return NULL;
	td_auto_free char *its = td_gang_name(pod);
	return its ? td_asprintf("%s/%s", pod->ns, its) : NULL;
}

void td_gang_index(const struct td_object *pod, struct td_strv *ret)
{
	td_auto_free char *gang = td_gang_of(pod);
	if (gang)
		td_strv_add(ret, gang);
}

void td_gang_on_pod(void *pod_queue, struct td_object *old, struct td_object *now)
{
	td_enqueue_self(pod_queue, old, now);
	td_auto_free char *was = old ? td_gang_of(old) : NULL, *is = now ? td_gang_of(now) : NULL;
	const char *const both[] = {was, td_streq(was, is) ? NULL : is};
	for (size_t i = 0; i < TD_LEN(both); i++) {
		td_auto_free char *key = both[i] ? td_asprintf(TD_GANG_KEY "%s", both[i]) : NULL;
		if (key)
			td_queue_add(pod_queue, key);
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void td_gang_uid(const struct td_object *const *pods, size_t n, char ret[40])
{
	td_auto_free const char **v = td_calloc(n + 1, sizeof(*v));
	for (size_t i = 0; i < n; i++)
		v[i] = pods[i]->uid;
	qsort(v, n, sizeof(*v), by_text);

	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < n; i++)
		td_buf_printf(&b, "%s\n", v[i]);
	char hex[65];
	td_sha256_hex(td_buf_str(&b), b.len, hex);
	snprintf(ret, 40, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

// ---- what they say ----

struct sorted { // read once: a comparison comes often
	const struct td_object *pod;
	struct td_gang_place_in place;
	const char *role;
};

static struct sorted sorted(const struct td_object *pod)
{
	return (struct sorted){pod, td_gang_place_of(pod), td_gang_role(pod)};
}

static int by_rank(const void *a, const void *b)
{
	const struct sorted *p = a, *q = b;
	if (p->place.group != q->place.group)
		return p->place.group < q->place.group ? -1 : 1;
	int role = td_gang_role_cmp(p->role, q->role);
	if (role)
		return role;
	int64_t i = p->place.index, k = q->place.index;
	if (i != k)
		return i < 0 ? 1 : k < 0 ? -1 : i < k ? -1 : 1;
	// "w-2" comes before "w-10": names of one length differ in their numbers only.
	size_t n = strlen(p->pod->name), m = strlen(q->pod->name);
	return n != m ? (n < m ? -1 : 1) : strcmp(p->pod->name, q->pod->name);
}

void td_gang_sort(const struct td_object **pods, size_t n)
{
	td_auto_free struct sorted *v = td_calloc(n + 1, sizeof(*v));
	for (size_t i = 0; i < n; i++)
		v[i] = sorted(pods[i]);
	qsort(v, n, sizeof(*v), by_rank);
	for (size_t i = 0; i < n; i++)
		pods[i] = v[i].pod;
}

void td_gang_put_back(const struct td_object **pods, size_t n)
{
	td_auto_free const struct td_object **v = td_calloc(n + 1, sizeof(*v));
	size_t k = 0;
	for (int lead = 0; lead <= 1; lead++)
		for (size_t i = 0; i < n; i++)
			if (td_gang_leads(pods[i]) == lead)
				v[k++] = pods[i];
	for (size_t i = 0; i < n; i++)
		pods[i] = v[i];
}

bool td_gang_before(const struct td_object *x, const struct td_object *y)
{
	struct sorted p = sorted(x), q = sorted(y);
	return by_rank(&p, &q) < 0;
}

static int loss_of(const struct td_object *pod, enum td_pool_gang_loss *ret, struct td_error *err)
{
	const char *s = td_gang_on_loss(pod);
	if (!s || !strcmp(s, "fail"))
		*ret = TD_GANG_FAIL;
	else if (!strcmp(s, "restart"))
		*ret = TD_GANG_RESTART;
	else if (!strcmp(s, "replace"))
		*ret = TD_GANG_REPLACE;
	else
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_GANG_LOSS
			       ": \"%.40s\" is no policy: write \"fail\", \"restart\" or "
			       "\"replace\"",
			       s);
	return 0;
}

// A number of pods. What the first pod says, all must say.
static int number_of(const struct td_object *const *pods, size_t i, const char *key, int64_t *io, struct td_error *err)
{
	const char *s = td_object_annotation(pods[i], key);
	long long n = 0;
	if (s && (!td_parse_i64(s, &n) || n < 1 || n > TD_GANG_MAX))
		return td_fail(err, TD_INVALID, "annotation %s: \"%.40s\" is no number of pods from 1 to %d", key, s,
			       TD_GANG_MAX);
	if (i && n != *io)
		return td_fail(err, TD_INVALID,
			       "annotation %s: pods %s and %s of one gang do not say the same: write one number on all "
			       "of them",
			       key, pods[0]->name, pods[i]->name);
	*io = n;
	return 0;
}

// Of what the pods and their owner say: how many start together, and how many there may be.
static int sizes(int64_t size, int64_t min, const struct td_gang_owned *o, struct td_gang_says *ret,
		 struct td_error *err)
{
	if (o->size && size && o->size != size)
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_GANG_SIZE
			       ": it says %lld, and its %s runs %lld pods at once: leave "
			       "the annotation out, or write %lld",
			       (long long)size, o->whose, (long long)o->size, (long long)o->size);
	if (o->min && min && o->min != min)
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_GANG_MIN
			       ": it says %lld, and its %s says %lld: leave the annotation out, or write %lld",
			       (long long)min, o->whose, (long long)o->min, (long long)o->min);
	size = size ? size : o->size;
	min = min ? min : o->min;
	if (!size && !min)
		return td_fail(err, TD_INVALID,
			       "how many pods its gang has is not said: write annotation " TD_ANN_GANG_SIZE
			       " on each of them");

	ret->size = min ? min : size;
	ret->most = o->most > size ? o->most : size ? size : TD_GANG_MAX;
	if (ret->size > TD_GANG_MAX)
		return td_fail(err, TD_INVALID, "a gang has at most %d pods", TD_GANG_MAX);
	if (ret->size > ret->most)
		return td_fail(
			err, TD_INVALID,
			"its gang needs %lld pods to start and has at most %lld: write annotation %s as a number "
			"from 1 to %lld",
			(long long)ret->size, (long long)ret->most, o->min ? TD_ANN_GANG_SIZE : TD_ANN_GANG_MIN,
			(long long)ret->most);
	return 0;
}

// The gang keeps places for those who come later. A minimum is theirs: the one that leads is beside it.
static int places(const struct td_object *const *pods, size_t n, int64_t min, struct td_gang_says *io,
		  struct td_error *err)
{
	for (size_t i = 0; i < n; i++) {
		td_auto(td_object_unref) struct td_object *one = NULL;
		int r = td_gang_later(pods[i], &one, err);
		if (r)
			return r;
	}
	if (io->on_loss != TD_GANG_REPLACE)
		return td_fail(
			err, TD_INVALID,
			"annotation " TD_ANN_GANG_LOSS
			": a gang that keeps places for pods that come later goes on without them: leave it out, "
			"or write \"replace\" on all of them");
	if (min && io->size == TD_GANG_MAX)
		return td_fail(err, TD_INVALID, "a gang has at most %d pods, with the one that leads", TD_GANG_MAX);
	if (min) {
		io->size++;
		io->most += io->most < TD_GANG_MAX;
	}
	return 0;
}

int td_gang_read(struct td_bridge *b, const struct td_object *const *pods, size_t n, struct td_gang_says *ret,
		 struct td_cancel *c, struct td_error *err)
{
	struct td_gang_says says = {0};
	int64_t size = 0, min = 0;
	bool later = false;
	for (size_t i = 0; i < n; i++) {
		enum td_pool_gang_loss loss = TD_GANG_FAIL;
		int r = loss_of(pods[i], &loss, err);
		if (r)
			return r;
		if (i && loss != says.on_loss)
			return td_fail(err, TD_INVALID,
				       "annotation " TD_ANN_GANG_LOSS
				       ": pods %s and %s of one gang do not say the same: "
				       "write one policy on all of them",
				       pods[0]->name, pods[i]->name);
		says.on_loss = loss;
		later |= td_object_annotation(pods[i], TD_ANN_GANG_LATER) != NULL;
		r = number_of(pods, i, TD_ANN_GANG_SIZE, &size, err);
		r = r ? r : number_of(pods, i, TD_ANN_GANG_MIN, &min, err);
		if (r)
			return r;
	}

	struct td_gang_owned owned = {.whose = "owner"};
	int r = n ? td_gang_owner_size(b, pods[0], &owned, c, err) : 0;
	if (!r && owned.alone && !size && !min) {
		*ret = (struct td_gang_says){.size = 1, .now = 1, .most = 1, .alone = true};
		return 0;
	}
	r = r ? r : sizes(size, min, &owned, &says, err);
	if (r)
		return r;
	// Its owner makes the others when this one is ready.
	if (!later && n == 1 && (owned.size > 1 || owned.keeps) && td_gang_leads(pods[0])) {
		td_auto_free char *text = NULL;
		if ((r = td_gang_owner_later(b, pods[0], &text, c, err)))
			return r;
		if ((later = text != NULL) && !td_object_annotation(pods[0], TD_ANN_GANG_LOSS))
			says.on_loss = TD_GANG_REPLACE;
	}
	if (later && (r = places(pods, n, owned.min ? owned.min : min, &says, err)))
		return r;
	says.now = later ? 1 : says.size;
	says.first = owned.first;
	says.late = owned.late;
	*ret = says;
	return 0;
}
