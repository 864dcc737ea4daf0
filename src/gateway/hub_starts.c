// One person's sessions are started one after the other at all gateways of a hub, where limits are kept: who starts one
// writes that into the Federation (state.starting, pool/federation.h) as it was read, and takes it away at the end.
#include "gateway/hub.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"

#include <inttypes.h>
#include <string.h>

enum { TRIES = 20, AGAIN_MS = 20, STARTS_MOST = 20 };

static bool kept(const struct td_hub *h)
{
	for (size_t i = 0; i < h->n_limits; i++)
		if (h->limits[i].user_gpus >= 0 || h->limits[i].user_sessions >= 0)
			return true;
	return false;
}

static struct td_fed_start read_start(const yyjson_val *v)
{
	return (struct td_fed_start){.by = td_jstr(v, "by"), .since_s = td_jint(v, "since", 0)};
}

// Writes the person's start, or (by NULL) that there is none, and takes away those that count no more. TD_CONFLICT:
// somebody else has written since.
static int write_start(struct td_gateway *g, const struct td_object *f, const char *user, const char *by,
		       struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *map = td_jm_obj(d, o, "state.starting"),
		       *mine = by ? yyjson_mut_obj(d) : yyjson_mut_null(d);
	int64_t now_s = td_real_ms(&td_clock_system) / 1000;
	size_t i, n;
	yyjson_val *k, *e;
	td_jm_str(d, o, "metadata.uid", f->uid);
	td_jm_str(d, o, "metadata.resourceVersion", f->rv);
	yyjson_obj_foreach (td_jget(f->root, "state.starting"), i, n, k, e) {
		struct td_fed_start s = read_start(e);
		if (!td_fed_start_counts(&s, now_s))
			td_jm_key_set(d, map, yyjson_get_str(k), yyjson_mut_null(d));
	}
	if (by) {
		td_jm_str(d, mine, "by", by);
		td_jm_int(d, mine, "since", now_s);
	}
	td_jm_key_set(d, map, user, mine);
	return td_kube_patch(g->kube, TD_AT(&td_federations, NULL, f->name), TD_PATCH_MERGE, o, c, NULL, err);
}

// Has the Federation say that by starts a session of his, or (ends) does so no more. What is so already, by a write whose
// reply was lost too, stays. TD_THROTTLED: another one starts one.
static int write_so(struct td_gateway *g, const char *federation, const char *user, const char *by, bool ends,
		    struct td_cancel *c, struct td_error *err)
{
	bool lost = false;
	for (int tries = 0; tries < TRIES; tries++) {
		td_auto(td_object_unref) struct td_object *f = NULL;
		int r = td_kube_get(g->kube, &td_federations, NULL, federation, c, &f, err);
		if (r)
			return r;
		struct td_fed_start s = read_start(td_jkey(td_jget(f->root, "state.starting"), user));
		if (td_streq(s.by, by) != ends)
			return 0;
		if (!ends && td_fed_start_counts(&s, td_real_ms(&td_clock_system) / 1000))
			return td_fail(err, TD_THROTTLED, "another session of yours is being started: try again");
		r = write_start(g, f, user, ends ? NULL : by, c, err);
		if (r == TD_DENIED)
			return td_fail(err, TD_TRANSIENT, "this gateway may not write to Federation %s: %s", federation,
				       err->msg);
		if (r == TD_UNCERTAIN && lost) // no session is started by it
			return td_fail(err, TD_TRANSIENT, "Federation %s: %s", federation, err->msg);
		if (r != TD_CONFLICT && r != TD_UNCERTAIN)
			return r;
		lost = r == TD_UNCERTAIN;
		if ((r = td_cancel_wait(c,
					AGAIN_MS + td_random_below(AGAIN_MS * (1 + tries))))) // not in step with others
			return td_fail(err, r, "cancelled");
	}
	return td_fail(err, TD_TRANSIENT, "Federation %s is changed all the time", federation);
}

static char *held_as(const struct td_gateway_ask *q)
{
	return td_asprintf("starts/%s", q->user.name); // no person's name has a '/'
}

int td_hub_start_begin(struct td_gateway_ask *q, const struct td_hub *h, struct td_hub_start *ret, struct td_error *err)
{
	td_auto_free char *held = held_as(q);
	uint64_t word = 0;
	if (td_gateway_hold(q->g->limits, held, h->n_limits ? 1 : STARTS_MOST, NULL))
		return td_fail(err, TD_THROTTLED, "another session of yours is being started: try again");
	*ret = (struct td_hub_start){.since_ms = td_mono_ms(&td_clock_system)};
	if (!kept(h))
		return 0;
	td_random(&word, sizeof(word));
	snprintf(ret->by, sizeof(ret->by), "%016" PRIx64, word);
	int r = write_so(q->g, h->name, q->user.name, ret->by, false, td_gateway_cancel(q), err);
	if (r)
		td_gateway_release(q->g->limits, held);
	return r;
}

int td_hub_start_still(const struct td_hub_start *s, struct td_error *err)
{
	return *s->by && td_mono_ms(&td_clock_system) - s->since_ms > TD_FED_START_GIVE_S * 1000LL
		       ? td_fail(err, TD_TRANSIENT,
				 "the members take too long to say which sessions there are: try again")
		       : 0;
}

void td_hub_start_end(struct td_gateway_ask *q, const struct td_hub *h, const struct td_hub_start *s, bool sure)
{
	td_auto_free char *held = held_as(q);
	struct td_error e = TD_ERROR_INIT;
	// What a member may do yet is counted when it is there: until then it keeps the next one from starting.
	if (*s->by && sure && write_so(q->g, h->name, q->user.name, s->by, true, q->g->cancel, &e))
		td_info("the start of a session of %s still counts in Federation %s: %s", q->user.name, h->name, e.msg);
	td_gateway_release(q->g->limits, held);
}
