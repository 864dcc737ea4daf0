// Claims on one node's devices, and the file that keeps them.
#include "gate/table.h"

#include "gate/shares.h"
#include "standin/wire.h"
#include "json/record.h"

#include <stdio.h>
#include <string.h>

static bool same(int64_t job_a, int64_t start_a, int64_t job_b, int64_t start_b)
{
	return job_a == job_b && (start_a == start_b || !start_a || !start_b);
}

void td_gate_copy(struct td_gate_table *to, const struct td_gate_table *from)
{
	to->n = from->n;
	memcpy(to->dev, from->dev, (size_t)from->n * sizeof(from->dev[0]));
}

bool td_holder_same(const struct td_holder *a, const struct td_holder *b)
{
	// Job 0 means that the node itself gave out the devices: the pod then tells holders apart.
	if (!a->job && !b->job)
		return !strcmp(a->uid, b->uid);
	// A gang's job has several pods on a node, each with devices of its own.
	return same(a->job, a->start, b->job, b->start) && !(a->pod && b->pod && strcmp(a->uid, b->uid));
}

// The k-th of those who hold the device, whole or in shares; NULL: there are no more.
static const struct td_holder *holder_at(const struct td_gate_dev *d, int k)
{
	if (!d->held || k > (td_shares_on(d) ? d->n_with : 0))
		return NULL;
	return k ? &d->with[k - 1] : &d->now;
}

int64_t td_gate_sluid_job(const struct td_gate_table *t, const char *sluid)
{
	const struct td_holder *at;
	for (int i = 0; i < t->n && td_wire_is_sluid(sluid); i++) {
		for (int k = 0; (at = holder_at(&t->dev[i], k)); k++)
			if (!strcmp(at->sluid, sluid))
				return at->job;
		for (int k = 0; k < t->dev[i].n_prev; k++)
			if (!strcmp(t->dev[i].prev[k].sluid, sluid))
				return t->dev[i].prev[k].job;
	}
	return 0;
}

// Did this holder of a device that h wants for itself begin in the same second as the pod's grant h?
static bool tied(const struct td_holder *at, const struct td_holder *h)
{
	return h->pod && h->start && at->start == h->start && !td_holder_same(at, h);
}

// Did one of those who hold the device begin after the pod's grant h? An allocation gets its id as it starts, so in one
// second the lower id is the earlier one.
static bool later_one(const struct td_gate_dev *d, const struct td_holder *h)
{
	const struct td_holder *at;
	bool later = false;
	for (int k = 0; h->pod && h->start && (at = holder_at(d, k)); k++)
		later = later || h->start < at->start || (tied(at, h) && h->job < at->job);
	return later;
}

int td_gate_tied(const struct td_gate_table *t, uint64_t mask, const struct td_holder *h, struct td_holder *out,
		 int max)
{
	int n = 0;
	for (int i = 0; i < t->n; i++) {
		const struct td_gate_dev *d = &t->dev[i];
		const struct td_holder *at;
		bool beside = h->share && td_shares_on(d);
		for (int k = 0; mask >> i & 1 && !beside && n < max && (at = holder_at(d, k)); k++)
			if (tied(at, h))
				out[n++] = *at;
	}
	return n;
}

// Says whether h may take device i.
static int check(const struct td_gate_dev *d, int i, const struct td_holder *h, struct td_error *err)
{
	if (!d->held || (td_holder_same(&d->now, h) && !d->now.share))
		return 0;
	bool shares = td_shares_on(d), beside = shares && h->share;
	if (shares && !h->share && td_shares_find((struct td_gate_dev *)d, h))
		return td_fail(err, TD_INVALID, "device %d: job %lld holds a share of it, and asks for the whole", i,
			       (long long)h->job);

	bool past = false;
	for (int k = 0; k < d->n_prev; k++)
		past = past || td_holder_same(&d->prev[k], h);
	for (int k = 0; k < d->n_past; k++)
		past = past || (h->job && same(d->past[k].job, d->past[k].start, h->job, h->start));
	// Only a pod can come late with an old grant. Prolog speaks for a job that starts now.
	// Holders of shares say nothing about each other: they start and end as they like. Who has the device whole
	// comes after all of them, or before.
	past = past || (!beside && later_one(d, h));
	if (past)
		return td_fail(err, TD_CONFLICT, "device %d went on to job %lld: the grant of job %lld has ended", i,
			       (long long)d->now.job, (long long)h->job);
	if (beside)
		return td_shares_join(d, h)
			       ? 0
			       : td_fail(err, TD_THROTTLED,
					 "device %d: %d hundredths are held, which leaves no room for %d of job %lld",
					 i, td_shares_sum(d, h), h->share, (long long)h->job);
	if (d->n_prev + d->n_with >= TD_GATE_PREV)
		return td_fail(err, TD_THROTTLED,
			       "device %d: %d earlier holders are not gone yet, the last is job %lld", i, d->n_prev,
			       (long long)d->now.job);
	return 0;
}

// Marks a known holder as the job's pod. True when something changed.
static bool mark(struct td_holder *at, const struct td_holder *h)
{
	if (at->pod && !strcmp(at->uid, h->uid) && (at->start || !h->start))
		return false;
	at->pod = true;
	if (!at->start)
		at->start = h->start;
	memcpy(at->uid, h->uid, sizeof(h->uid));
	return true;
}

// The holder at becomes an earlier one.
static void pass_on(struct td_gate_dev *d, const struct td_holder *at)
{
	d->prev[d->n_prev++] = *at;
	int keep = d->n_past < TD_GATE_PAST ? d->n_past : TD_GATE_PAST - 1;
	memmove(d->past + 1, d->past, (size_t)keep * sizeof(d->past[0]));
	d->past[0].job = at->job;
	d->past[0].start = at->start;
	d->n_past = keep + 1;
}

int td_gate_claim(struct td_gate_table *t, uint64_t mask, const struct td_holder *h, bool *ret_changed,
		  struct td_error *err)
{
	for (int i = 0; i < 64; i++) {
		if (!(mask >> i & 1))
			continue;
		if (i >= t->n)
			return td_fail(err, TD_INVALID, "device %d: the node has %d", i, t->n);
		int r = check(&t->dev[i], i, h, err);
		if (r)
			return r;
	}

	bool changed = false;
	for (int i = 0; i < t->n; i++) {
		struct td_gate_dev *d = &t->dev[i];
		if (!(mask >> i & 1))
			continue;
		if (td_shares_on(d) && h->share) {
			changed |= td_shares_take(d, h);
			struct td_holder *at = td_shares_find(d, h);
			if (h->pod)
				changed |= mark(at, h);
			continue;
		}

		if (d->held && td_holder_same(&d->now, h)) {
			struct td_holder was = d->now;
			if (!d->now.start)
				d->now.start = h->start;
			if (h->pod && (!d->now.pod || strcmp(d->now.uid, h->uid))) {
				d->now.pod = true;
				memcpy(d->now.uid, h->uid, sizeof(h->uid));
			}
			if (*h->ask) {
				memcpy(d->now.ask, h->ask, sizeof(h->ask));
				memcpy(d->now.ask_pod, h->ask_pod, sizeof(h->ask_pod));
			}
			if (*h->sluid)
				memcpy(d->now.sluid, h->sluid, sizeof(h->sluid));
			if (!*d->now.account && *h->account) {
				memcpy(d->now.account, h->account, sizeof(h->account));
				changed = true;
			}
			changed = changed || was.start != d->now.start || was.pod != d->now.pod ||
				  strcmp(was.uid, d->now.uid) || strcmp(was.ask, d->now.ask) ||
				  strcmp(was.ask_pod, d->now.ask_pod) || strcmp(was.sluid, d->now.sluid);
			continue;
		}

		for (int k = 0; k < d->n_with; k++)
			pass_on(d, &d->with[k]);
		d->n_with = 0;
		if (d->held)
			pass_on(d, &d->now);
		d->held = true;
		d->now = *h;
		changed = true;
	}

	*ret_changed = changed;
	return 0;
}

bool td_gate_tell(struct td_gate_table *t, uint64_t mask, const struct td_holder *h)
{
	bool changed = false;
	for (int i = 0; i < t->n; i++) {
		struct td_gate_dev *d = &t->dev[i];
		bool known = d->held && td_holder_same(&d->now, h);
		// Devices of the job that its grant does not name may be another member's of its gang.
		bool its = !mask || mask >> i & 1;
		if (known && its)
			changed |= mark(&d->now, h);
		for (int k = 0; k < d->n_with; k++)
			if (td_holder_same(&d->with[k], h)) {
				known = true;
				changed |= its && mark(&d->with[k], h);
			}
		for (int k = 0; k < d->n_prev; k++)
			if (td_holder_same(&d->prev[k], h)) {
				known = true;
				changed |= its && mark(&d->prev[k], h);
			}
		if (known || !(mask >> i & 1))
			continue;

		if (!d->held)
			d->now = *h;
		else if (h->share && td_shares_join(d, h))
			td_shares_take(d, h);
		else if (d->n_prev < TD_GATE_PREV)
			d->prev[d->n_prev++] = *h;
		else
			continue;
		d->held = changed = true;
	}

	return changed;
}

// The entry of h among those who hold the device; NULL: none.
static const struct td_holder *entry(const struct td_gate_dev *d, const struct td_holder *h)
{
	if (td_shares_on(d))
		return td_shares_find((struct td_gate_dev *)d, h);
	return d->held && td_holder_same(&d->now, h) ? &d->now : NULL;
}

bool td_gate_holds(const struct td_gate_table *t, uint64_t mask, const struct td_holder *h)
{
	for (int i = 0; i < 64; i++) {
		const struct td_holder *at = mask >> i & 1 && i < t->n ? entry(&t->dev[i], h) : NULL;
		if (mask >> i & 1 && (!at || at->idle))
			return false;
	}
	return true;
}

uint64_t td_gate_held(const struct td_gate_table *t, const struct td_holder *h)
{
	uint64_t mask = 0;
	for (int i = 0; i < t->n; i++)
		if (entry(&t->dev[i], h))
			mask |= (uint64_t)1 << i;
	return mask;
}

int td_gate_pending(const struct td_gate_table *t, uint64_t mask, struct td_holder *out, int max)
{
	int n = 0;
	for (int i = 0; i < t->n; i++) {
		if (!(mask >> i & 1))
			continue;
		for (int k = 0; k < t->dev[i].n_prev && n < max; k++) {
			const struct td_holder *h = &t->dev[i].prev[k];
			bool seen = false;
			for (int j = 0; j < n; j++)
				seen = seen || (td_holder_same(&out[j], h) && out[j].pod == h->pod);
			if (!seen)
				out[n++] = *h;
		}
	}
	return n;
}

bool td_gate_forget(struct td_gate_table *t, const struct td_holder *h)
{
	bool changed = false;
	for (int i = 0; i < t->n; i++) {
		struct td_gate_dev *d = &t->dev[i];
		for (int k = 0; k < d->n_prev;) {
			if (td_holder_same(&d->prev[k], h) && d->prev[k].pod == h->pod) {
				memmove(d->prev + k, d->prev + k + 1, (size_t)(d->n_prev - k - 1) * sizeof(d->prev[0]));
				d->n_prev--;
				changed = true;
			} else {
				k++;
			}
		}
	}
	return changed;
}

// ---- the file: one JSON document, always replaced as a whole ----

static yyjson_mut_val *holder_json(yyjson_mut_doc *d, const struct td_holder *h)
{
	yyjson_mut_val *o = yyjson_mut_obj(d);
	td_jm_int(d, o, "job", h->job);
	td_jm_int(d, o, "start", h->start);
	td_jm_bool(d, o, "pod", h->pod);
	td_jm_str(d, o, "uid", h->uid);
	if (h->share)
		td_jm_int(d, o, "share", h->share);
	if (h->idle)
		td_jm_bool(d, o, "idle", true);
	if (*h->ask)
		td_jm_str(d, o, "ask", h->ask);
	if (*h->ask_pod)
		td_jm_str(d, o, "askPod", h->ask_pod);
	if (*h->sluid)
		td_jm_str(d, o, "sluid", h->sluid);
	if (*h->account)
		td_jm_str(d, o, "account", h->account);
	return o;
}

static void holder_read(const yyjson_val *v, struct td_holder *ret)
{
	*ret = (struct td_holder){
		.job = td_jint(v, "job", 0), .start = td_jint(v, "start", 0), .pod = td_jbool(v, "pod", false)};
	snprintf(ret->uid, sizeof(ret->uid), "%s", td_jstr_or(v, "uid", ""));
	long long share = td_jint(v, "share", 0);
	ret->share = share > 0 && share <= 100 ? (int)share : 0;
	ret->idle = ret->share && td_jbool(v, "idle", false);
	snprintf(ret->ask, sizeof(ret->ask), "%s", td_jstr_or(v, "ask", ""));
	snprintf(ret->ask_pod, sizeof(ret->ask_pod), "%s", td_jstr_or(v, "askPod", ""));
	snprintf(ret->sluid, sizeof(ret->sluid), "%s", td_jstr_or(v, "sluid", ""));
	snprintf(ret->account, sizeof(ret->account), "%s", td_jstr_or(v, "account", ""));
}

int td_gate_load(const char *path, int n, const char *boot, struct td_gate_table *ret, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	struct td_gate_table t = {.n = n};
	int r = td_record_read(path, &j, err);
	if (r == TD_NOT_FOUND) {
		*ret = t;
		return 0;
	}
	if (r)
		return td_wrap(err, "gate table");
	if (boot && !td_streq(td_jstr(td_json_root(j), "boot"), boot)) {
		*ret = t;
		return 0;
	}

	yyjson_val *devs = td_jget(td_json_root(j), "devices"), *v;
	size_t i, max;
	yyjson_arr_foreach (devs, i, max, v) {
		int at = (int)td_jint(v, "index", -1);
		if (at < 0 || at >= n)
			continue;

		struct td_gate_dev *d = &t.dev[at];
		yyjson_val *e;
		size_t k, m;
		d->held = td_jget(v, "holder") != NULL;
		holder_read(td_jget(v, "holder"), &d->now);
		yyjson_arr_foreach (td_jget(v, "earlier"), k, m, e) {
			if (d->n_prev < TD_GATE_PREV)
				holder_read(e, &d->prev[d->n_prev++]);
		}
		yyjson_arr_foreach (td_jget(v, "with"), k, m, e) {
			if (d->n_with < TD_GATE_WITH)
				holder_read(e, &d->with[d->n_with++]);
		}
		yyjson_arr_foreach (td_jget(v, "past"), k, m, e) {
			if (d->n_past < TD_GATE_PAST) {
				d->past[d->n_past].job = td_jint(e, "job", 0);
				d->past[d->n_past++].start = td_jint(e, "start", 0);
			}
		}
	}

	*ret = t;
	return 0;
}

int td_gate_save(const char *path, const struct td_gate_table *t, const char *boot, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *devs = td_jm_arr(d, root, "devices");
	td_jm_str(d, root, "boot", boot);
	for (int i = 0; i < t->n; i++) {
		const struct td_gate_dev *v = &t->dev[i];
		if (!v->held)
			continue;

		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, devs);
		td_jm_int(d, o, "index", i);
		td_jm_set(d, o, "holder", holder_json(d, &v->now));
		yyjson_mut_val *a = td_jm_arr(d, o, "earlier");
		for (int k = 0; k < v->n_prev; k++)
			yyjson_mut_arr_append(a, holder_json(d, &v->prev[k]));
		if (v->n_with)
			a = td_jm_arr(d, o, "with");
		for (int k = 0; k < v->n_with; k++)
			yyjson_mut_arr_append(a, holder_json(d, &v->with[k]));
		a = td_jm_arr(d, o, "past");
		for (int k = 0; k < v->n_past; k++) {
			yyjson_mut_val *p = yyjson_mut_arr_add_obj(d, a);
			td_jm_int(d, p, "job", v->past[k].job);
			td_jm_int(d, p, "start", v->past[k].start);
		}
	}

	return td_record_write(path, root, 0600, err);
}
