// What ran before (ran.h).
#define uthash_malloc(n) td_malloc(n)
#include "bridge/scheduler/ran.h"
#include "bridge/scheduler/ask.h"

#include "base/log.h"
#include "bridge/settings.h"
#include "pool/notes.h"
#include "slurm/history.h"
#include "slurm/qos.h"
#include "standin/wire.h"

#include <string.h>
#include <uthash.h>

enum {
	DAYS = 90,
	DAY_S = 86400,
	FRESH_MS = 60000,
	BEGIN_MS = 120000,
	FRESH_BEGIN_MS = 2000, // what ended just before this bridge led comes a moment later
	LATE_S = 600,          // slurmctld tells slurmdbd of an end later than it was
	LEAST_S = 3600,        // a window that is not divided any more
	IDLE_MS = 86400000,    // a user's records of whom nobody asked for so long are forgotten
	LINE_RUNS = 4096,      // of one line; the oldest go
	READERS = 2,           // workers that wait for slurmdbd, of the eight that all pods have
	SILENT_MS = 1000,      // at least so long it is not asked after it has not answered, else as long as that took
};

struct ran_run {
	int64_t job, start_s, end_s;
	int64_t seen_s; // when it was seen to run last
};
struct ran_line {
	char *key;
	struct ran_run *v;
	size_t n, cap;
	UT_hash_handle hh;
};
struct ran_cursor { // what was read of one user in one QOS
	char *key;  // "USER/QOS"
	int64_t upto_s, read_ms;
	bool busy;
	UT_hash_handle hh;
};
struct td_ran {
	pthread_mutex_t lock; // guards all
	struct ran_line *lines;
	struct ran_cursor *cursors;
	int64_t since_ms, tidied_ms, silent_ms; // silent_ms: until then slurmdbd is not asked
	int readers;
};

struct td_ran *td_ran_new(void)
{
	struct td_ran *u = td_calloc(1, sizeof(*u));
	pthread_mutex_init(&u->lock, NULL);
	return u;
}

static void line_free(struct td_ran *u, struct ran_line *l)
{
	HASH_DEL(u->lines, l);
	free(l->key);
	free(l->v);
	free(l);
}

struct td_ran *td_ran_free(struct td_ran *u)
{
	struct ran_line *l, *tl;
	struct ran_cursor *k, *tk;
	if (!u)
		return NULL;
	HASH_ITER (hh, u->lines, l, tl)
		line_free(u, l);
	HASH_ITER (hh, u->cursors, k, tk) {
		HASH_DEL(u->cursors, k);
		free(k->key);
		free(k);
	}
	pthread_mutex_destroy(&u->lock);
	free(u);
	return NULL;
}

char *td_ran_key(const char *ns, const char *line, const char *person)
{
	return td_asprintf("%s/%s/%s", ns, line, person ? person : "");
}

char *td_ran_line(const char *admin_comment, const char *cluster_uid)
{
	struct td_notes n;
	td_auto_free char *mark = td_asprintf(TD_WIRE_STANDIN "%s/", cluster_uid);
	if (!admin_comment || !td_starts(admin_comment, mark) || !td_notes_read(admin_comment, &n) || !*n.line)
		return NULL;
	return td_ran_key(n.ns, n.line, n.user);
}

// Without end_s an end that is known stays.
static void saw_locked(struct td_ran *u, const char *line, struct ran_run r)
{
	struct ran_line *l;
	if (r.start_s <= 0 || r.job <= 0)
		return;
	HASH_FIND_STR(u->lines, line, l);
	if (!l) {
		l = td_calloc(1, sizeof(*l));
		l->key = td_strdup(line);
		HASH_ADD_KEYPTR(hh, u->lines, l->key, strlen(l->key), l);
	}
	for (size_t i = l->n; i--;)
		if (l->v[i].job == r.job && l->v[i].start_s == r.start_s) {
			// What slurmdbd says (it has not seen it run) is the truth; of what was seen the first.
			l->v[i].end_s = r.end_s && (!r.seen_s || !l->v[i].end_s) ? r.end_s : l->v[i].end_s;
			l->v[i].seen_s = r.seen_s > l->v[i].seen_s ? r.seen_s : l->v[i].seen_s;
			return;
		}
	if (l->n == LINE_RUNS)
		memmove(l->v, l->v + 1, --l->n * sizeof(*l->v));
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 4;
		l->v = td_realloc(l->v, l->cap * sizeof(*l->v));
	}
	l->v[l->n++] = r;
}

void td_ran_saw(struct td_bridge *b, const char *line, int64_t job, int64_t start_s, int64_t end_s)
{
	const int64_t now_s = td_real_ms(b->clock) / 1000;
	if (!b->ran || !line)
		return;
	pthread_mutex_lock(&b->ran->lock);
	saw_locked(b->ran, line, (struct ran_run){.job = job, .start_s = start_s, .end_s = end_s, .seen_s = now_s});
	pthread_mutex_unlock(&b->ran->lock);
}

void td_ran_take(struct td_ran *u, const char *cluster_uid, const struct td_slurm_runs *runs)
{
	pthread_mutex_lock(&u->lock);
	for (size_t i = 0; i < runs->n; i++) {
		const struct td_slurm_run *r = &runs->v[i];
		td_auto_free char *line =
			r->end > 0 && r->end >= r->start ? td_ran_line(r->admin_comment, cluster_uid) : NULL;
		if (line)
			saw_locked(u, line, (struct ran_run){.job = r->id, .start_s = r->start, .end_s = r->end});
	}
	pthread_mutex_unlock(&u->lock);
}

size_t td_ran_of(struct td_bridge *b, const char *line, const int64_t * not, size_t n_not, int64_t now_s,
		 struct td_pool_slice_pod **ret)
{
	size_t n = 0;
	struct ran_line *l = NULL;
	td_auto_free int64_t *open = NULL;
	*ret = NULL;
	if (!b->ran || !line)
		return 0;
	pthread_mutex_lock(&b->ran->lock);
	HASH_FIND_STR(b->ran->lines, line, l);
	if (l)
		*ret = td_calloc(l->n + 1, sizeof(**ret)), open = td_calloc(l->n + 1, sizeof(*open));
	for (size_t i = 0; l && i < l->n; i++) {
		const struct ran_run *r = &l->v[i];
		bool leave = false;
		for (size_t k = 0; k < n_not && !leave; k++)
			leave = not[k] == r->job;
		if (leave)
			continue;
		open[n] = r->end_s ? 0 : r->job;
		(*ret)[n++] = (struct td_pool_slice_pod){r->start_s, r->end_s ? r->end_s : r->seen_s};
	}
	pthread_mutex_unlock(&b->ran->lock);
	// One whose end nobody has seen ran until it was seen last, unless its ask is still there.
	for (size_t i = 0; i < n; i++) {
		td_auto(td_ask_unref) struct td_ask *a = open[i] ? td_ask_by_job(b->asks, open[i]) : NULL;
		if (a)
			(*ret)[i].end_s = now_s;
	}
	return n;
}

// ---- reading ----

// Forgets who was not asked for, with all lines: what is asked for anew is read anew. What runs is noted at the next read
// of its job.
static void tidy_locked(struct td_ran *u, int64_t now_ms, int64_t now_s)
{
	struct ran_line *l, *tl;
	struct ran_cursor *k, *tk;
	if (now_ms - u->tidied_ms < IDLE_MS / 24)
		return;
	u->tidied_ms = now_ms;
	HASH_ITER (hh, u->cursors, k, tk)
		if (!k->busy && now_ms - k->read_ms > IDLE_MS) {
			HASH_DEL(u->cursors, k);
			free(k->key);
			free(k);
		}
	HASH_ITER (hh, u->lines, l, tl) {
		size_t kept = 0;
		for (size_t i = 0; i < l->n; i++)
			if (!l->v[i].end_s || l->v[i].end_s > now_s - (int64_t)DAYS * DAY_S)
				l->v[kept++] = l->v[i];
		l->n = kept;
		if (!kept)
			line_free(u, l);
	}
}

// In pieces, where one reply does not hold all.
static int window(struct td_bridge *b, struct td_slurm *slurm, const char *cluster_uid,
		  const struct td_slurm_history_of *of, struct td_cancel *c, struct td_error *err)
{
	td_auto_runs struct td_slurm_runs runs = {0};
	int r = td_slurm_history_qos(slurm, of, c, &runs, err);
	if (!r)
		td_ran_take(b->ran, cluster_uid, &runs);
	if (r != TD_UNSUPPORTED || of->to - of->from <= LEAST_S)
		return r;
	td_slurm_runs_done(&runs);
	struct td_slurm_history_of old = *of, young = *of;
	old.to = young.from = of->from + (of->to - of->from) / 2;
	r = window(b, slurm, cluster_uid, &old, c, err);
	return r ? r : window(b, slurm, cluster_uid, &young, c, err);
}

// The number of the QOS; 0: it is not in slurmdbd.
static int number_of(struct td_slurm *slurm, const char *qos, struct td_cancel *c, int64_t *ret, struct td_error *err)
{
	td_auto_qos struct td_slurm_qos_list l = {0};
	int r = td_slurm_qos(slurm, c, &l, err);
	*ret = 0;
	for (size_t i = 0; !r && i < l.n; i++)
		if (!strcasecmp(l.v[i].name, qos))
			*ret = l.v[i].id;
	return r;
}

static int read_one(struct td_bridge *b, struct td_link *l, const char *user, const char *qos, struct td_cancel *c,
		    struct td_error *err)
{
	struct td_ran *u = b->ran;
	td_auto_free char *key = td_asprintf("%s/%s", user ? user : "", qos);
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	const int64_t now_ms = td_now(b), now_s = td_real_ms(b->clock) / 1000;
	struct ran_cursor *k;
	pthread_mutex_lock(&u->lock);
	u->since_ms = u->since_ms ? u->since_ms : now_ms;
	tidy_locked(u, now_ms, now_s);
	HASH_FIND_STR(u->cursors, key, k);
	if (!k) {
		k = td_calloc(1, sizeof(*k));
		k->key = td_strdup(key);
		HASH_ADD_KEYPTR(hh, u->cursors, k->key, strlen(k->key), k);
	}
	const bool busy = k->busy,
		   fresh = k->upto_s &&
			   now_ms - k->read_ms < (now_ms - u->since_ms < BEGIN_MS ? FRESH_BEGIN_MS : FRESH_MS);
	struct td_slurm_history_of of = {.cluster = b->o.cluster,
					 .user = user,
					 .from = k->upto_s ? k->upto_s - LATE_S : now_s - (int64_t)DAYS * DAY_S,
					 .to = now_s + 1};
	// A slurmdbd that is silent takes a minute to say so: it must not hold the workers of all pods.
	const bool silent = now_ms < u->silent_ms, full = u->readers >= READERS,
		   read = !fresh && !busy && !silent && !full;
	k->busy = k->busy || read;
	u->readers += read;
	pthread_mutex_unlock(&u->lock);
	if (fresh)
		return 0;
	if (silent && !busy)
		return td_fail(err, TD_TRANSIENT, "slurmdbd did not say a moment ago what ran before in QOS %s", qos);
	if (!read)
		return td_fail(err, TD_THROTTLED, "what ran before is being read from slurmdbd");

	int r = s ? number_of(l->slurm, qos, c, &of.qos, err) : td_fail(err, TD_TRANSIENT, "nothing is known yet");
	if (!r && of.qos)
		r = window(b, l->slurm, s->cluster_uid, &of, c, err);
	pthread_mutex_lock(&u->lock);
	k->busy = false; // it stays in the table while it is busy
	u->readers--;
	if (!r) {
		k->upto_s = now_s;
		k->read_ms = now_ms;
	} else if (r != TD_UNSUPPORTED && r != TD_CANCELLED) { // not for what is this user's alone
		const int64_t took = td_now(b) - now_ms;
		u->silent_ms = now_ms + took + (took > SILENT_MS ? took : SILENT_MS);
	}
	pthread_mutex_unlock(&u->lock);
	return r ? td_wrap(err, "what ran before in QOS %s", qos) : 0;
}

int td_ran_read(struct td_bridge *b, struct td_link *l, const char *user, const char *qos, struct td_cancel *c,
		struct td_error *err)
{
	td_auto_strv struct td_strv all = {0};
	td_strv_split(&all, qos, ',');
	int r = 0;
	for (size_t i = 0; i < all.n && !r; i++)
		r = read_one(b, l, user, all.v[i], c, err);
	return r;
}
