#include "gate/jobuse.h"

#include "base/file.h"
#include "base/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

// A job whose processes none of the last looks has seen has ended (useful.c looks every 5 s).
enum { ENDED_MS = 12000, KEEP_MS = 30000, FIRST_MS = 60000, LAST_MS = 3600000, FORGET_MS = 86400000 };
enum { JOBS = 1024, IN_A_LINE = 16, LEAST_S = 5, LEAST_PERCENT = 1, FILE_MAX = JOBS * 100 };

struct jobuse_job {
	char key[48]; // "JOB:START", as it is said
	double busy, idle;
	int64_t seen_ms, next_ms, pause_ms; // next_ms: when it is said, after it has ended
	UT_hash_handle hh;
};
struct td_jobuse {
	char *path;
	pthread_mutex_t mu; // guards the rest
	struct jobuse_job *jobs;
	bool changed;
	int64_t kept_ms;
};

static struct jobuse_job *find(struct td_jobuse *u, int64_t job, int64_t start)
{
	struct jobuse_job *x = NULL;
	char key[sizeof(x->key)];
	snprintf(key, sizeof(key), "%" PRId64 ":%" PRId64, job, start);
	HASH_FIND_STR(u->jobs, key, x);
	return x;
}

static struct jobuse_job *add(struct td_jobuse *u, int64_t job, int64_t start, int64_t now_ms)
{
	struct jobuse_job *x = td_calloc(1, sizeof(*x));
	snprintf(x->key, sizeof(x->key), "%" PRId64 ":%" PRId64, job, start);
	x->seen_ms = now_ms;
	HASH_ADD_STR(u->jobs, key, x);
	return x;
}

static void drop(struct td_jobuse *u, struct jobuse_job *x)
{
	HASH_DEL(u->jobs, x);
	free(x);
	u->changed = true;
}

struct td_jobuse *td_jobuse_new(const char *path, int64_t now_ms)
{
	struct td_jobuse *u = td_calloc(1, sizeof(*u));
	td_auto_buf struct td_buf text = {0};
	u->path = path ? td_strdup(path) : NULL;
	u->kept_ms = now_ms;
	pthread_mutex_init(&u->mu, NULL);
	if (path)
		(void)td_file_read(path, FILE_MAX, &text, NULL); // none: nothing is known
	for (const char *p = td_buf_str(&text); *p && HASH_COUNT(u->jobs) < JOBS; p += strcspn(p, "\n"), p += *p != 0) {
		int64_t job, start, busy, idle;
		char line[100];
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(p, "\n"), p);
		if (sscanf(line, "%" SCNd64 ":%" SCNd64 ":%" SCNd64 ":%" SCNd64, &job, &start, &busy, &idle) != 4 ||
		    busy < 0 || idle < 0 || find(u, job, start))
			continue;
		struct jobuse_job *x = add(u, job, start, now_ms);
		x->busy = (double)busy;
		x->idle = (double)idle;
	}
	return u;
}

struct td_jobuse *td_jobuse_free(struct td_jobuse *u)
{
	struct jobuse_job *x, *tmp;
	if (!u)
		return NULL;
	HASH_ITER (hh, u->jobs, x, tmp)
		drop(u, x);
	pthread_mutex_destroy(&u->mu);
	free(u->path);
	free(u);
	return NULL;
}

void td_jobuse_add(struct td_jobuse *u, const struct td_holder *h, const struct td_useful_part *p, int64_t now_ms)
{
	if (h->pod || h->job <= 0 || h->start <= 0)
		return;
	pthread_mutex_lock(&u->mu);
	struct jobuse_job *x = find(u, h->job, h->start);
	if (!x && HASH_COUNT(u->jobs) < JOBS)
		x = add(u, h->job, h->start, now_ms);
	if (x) {
		x->busy += p->busy;
		x->idle += p->idle;
		x->seen_ms = now_ms;
		x->next_ms = 0;
		u->changed = true;
	}
	pthread_mutex_unlock(&u->mu);
}

void td_jobuse_keep(struct td_jobuse *u, int64_t now_ms)
{
	td_auto_buf struct td_buf text = {0};
	struct jobuse_job *x, *tmp;
	pthread_mutex_lock(&u->mu);
	bool due = u->path && u->changed && now_ms - u->kept_ms >= KEEP_MS;
	if (due) {
		HASH_ITER (hh, u->jobs, x, tmp)
			td_buf_printf(&text, "%s:%.0f:%.0f\n", x->key, x->busy, x->idle);
		u->changed = false;
		u->kept_ms = now_ms;
	}
	pthread_mutex_unlock(&u->mu);
	struct td_error e = TD_ERROR_INIT;
	if (due && td_file_write(u->path, text.len ? text.s : "", text.len, 0600, &e))
		td_debug("what jobs' devices did is not kept: %s", e.msg);
}

char *td_jobuse_ended(struct td_jobuse *u, int64_t now_ms)
{
	td_auto_buf struct td_buf b = {0};
	struct jobuse_job *x, *tmp;
	int n = 0;
	pthread_mutex_lock(&u->mu);
	HASH_ITER (hh, u->jobs, x, tmp) {
		int64_t since = now_ms - x->seen_ms;
		if (since < ENDED_MS)
			continue;
		if (since > FORGET_MS || x->idle < LEAST_S || x->idle * 100 < LEAST_PERCENT * (x->busy + x->idle)) {
			// It may come back, when no process of it was there for a while.
			if (since > LAST_MS)
				drop(u, x);
			continue;
		}
		if (n == IN_A_LINE || now_ms < x->next_ms)
			continue;
		x->pause_ms = !x->next_ms ? FIRST_MS : x->pause_ms < LAST_MS ? x->pause_ms * 2 : LAST_MS;
		x->next_ms = now_ms + x->pause_ms;
		td_buf_printf(&b, "%s%s:%.0f:%.0f", n++ ? "," : "", x->key, x->busy, x->idle);
	}
	pthread_mutex_unlock(&u->mu);
	return b.len ? td_buf_take(&b) : NULL;
}

bool td_jobuse_of(struct td_jobuse *u, int64_t job, int64_t start, double *ret_busy, double *ret_idle)
{
	pthread_mutex_lock(&u->mu);
	struct jobuse_job *x = find(u, job, start);
	if (x) {
		*ret_busy = x->busy;
		*ret_idle = x->idle;
	}
	pthread_mutex_unlock(&u->mu);
	return x;
}

void td_jobuse_done(struct td_jobuse *u, int64_t job, int64_t start)
{
	pthread_mutex_lock(&u->mu);
	struct jobuse_job *x = find(u, job, start);
	if (x)
		drop(u, x);
	pthread_mutex_unlock(&u->mu);
}
