// Events that expire (expiry.h).
#include "apiserver/expiry.h"

#include <stdlib.h>

#define TTL_MS 3600000
#define NOTE_EVERY_MS 60000
#define NOTES 64 // enough for TTL_MS, and a few more

struct expiry_note { // revision rv was the last one at time mono
	int64_t mono;
	uint64_t rv;
};

struct td_expiry {
	struct td_store *store;
	const struct td_clock *clock;
	struct td_table *events;
	struct expiry_note notes[NOTES]; // circular; the oldest is at head
	size_t head, n;
	uint64_t start;  // the revision at the start of this process
	char *ns, *name; // the last Event looked at; NULL: begin anew
};

struct td_expiry *td_expiry_new(struct td_store *s, const struct td_clock *clock)
{
	struct td_expiry *e = td_calloc(1, sizeof(*e));
	e->store = s;
	e->clock = clock;
	e->events = td_store_table(s, "", "events");
	e->start = td_store_revision(s);
	return e;
}

struct td_expiry *td_expiry_free(struct td_expiry *e)
{
	if (!e)
		return NULL;
	free(e->ns);
	free(e->name);
	free(e);
	return NULL;
}

// Adds a note when one is due. Returns the revision up to which everything is old enough to expire.
static uint64_t old_enough(struct td_expiry *e)
{
	int64_t now = td_mono_ms(e->clock);
	const struct expiry_note *last = e->n ? &e->notes[(e->head + e->n - 1) % NOTES] : NULL;
	if (!last || now - last->mono >= NOTE_EVERY_MS) {
		if (e->n == NOTES) {
			e->head = (e->head + 1) % NOTES;
			e->n--;
		}
		e->notes[(e->head + e->n++) % NOTES] = (struct expiry_note){now, td_store_revision(e->store)};
	}
	uint64_t rv = 0;
	for (size_t i = 0; i < e->n && now - e->notes[(e->head + i) % NOTES].mono >= TTL_MS; i++)
		rv = e->notes[(e->head + i) % NOTES].rv;
	return rv;
}

static int64_t last_seen(const struct td_item *i)
{
	static const char *const times[] = {"series.lastObservedTime", "lastTimestamp", "eventTime",
					    "metadata.creationTimestamp"};
	int64_t last = 0, v;
	td_auto(td_json_unref) struct td_json *doc = td_item_doc(i);
	for (size_t k = 0; k < TD_LEN(times); k++) {
		const char *x = td_jstr(td_json_root(doc), times[k]);
		if (x && td_time_parse(x, &v) == 0 && v > last)
			last = v;
	}
	return last;
}

size_t td_expiry_turn(struct td_expiry *e)
{
	uint64_t old = old_enough(e);
	td_auto_items struct td_items l = {0};

	td_store_page(e->store, e->events, e->ns, e->name, TD_EXPIRY_PAGE, &l);
	size_t i = 0, gone = 0;
	for (; i < l.n && gone < TD_EXPIRY_DELETES; i++) {
		const struct td_item *x = l.v[i];
		if (x->rv > old && (x->rv > e->start || td_real_ms(e->clock) - last_seen(x) < TTL_MS))
			continue;
		const struct td_srv_write w = {.table = e->events, .ns = x->ns, .name = x->name, .base = x->rv};
		// A conflict means that the Event was written again meanwhile: it stays.
		gone += td_store_write(e->store, &w, NULL, NULL) == 0;
	}

	bool end = i == l.n && l.n < TD_EXPIRY_PAGE;
	free(e->ns);
	free(e->name);
	e->ns = end || !i ? NULL : td_strdup(l.v[i - 1]->ns);
	e->name = end || !i ? NULL : td_strdup(l.v[i - 1]->name);

	return gone;
}
