#include "gateway/seen.h"

#include <string.h>

enum { CHEAP_MS = 60, TIMES = 20, ANYWAY_MS = 15000, ANYWAY_TIMES = 100, ONE_MS = 6, FEW_LEAST = 8 };

enum td_gateway_jobs_do td_gateway_jobs_next(const struct td_gateway_pace *p, int64_t now_ms)
{
	int64_t age = now_ms - p->list_ms, anyway = p->cost_ms * ANYWAY_TIMES;
	if (!p->list_ms || age >= (anyway > ANYWAY_MS ? anyway : ANYWAY_MS))
		return TD_JOBS_LIST;
	return p->cost_ms < CHEAP_MS || now_ms - p->asked_ms >= p->cost_ms * TIMES ? TD_JOBS_ASK : TD_JOBS_STATES;
}

size_t td_gateway_jobs_few(const struct td_gateway_pace *p)
{
	size_t n = (size_t)(p->cost_ms / ONE_MS);
	return n > FEW_LEAST ? n : FEW_LEAST;
}

void td_gateway_records_done(struct td_gateway_records *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_json_unref(l->v[i].from);
	free(l->v);
	free(l->by_id);
	free(l->by_array);
	*l = (struct td_gateway_records){0};
}

static void put(struct td_gateway_records *l, const struct td_gateway_record *x)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->v = td_realloc(l->v, l->cap * sizeof(*l->v));
	}
	l->v[l->n] = *x;
	l->v[l->n++].from = td_json_ref(x->from);
}

void td_gateway_records_add(struct td_gateway_records *ret, struct td_json *reply)
{
	size_t i, n, k, m;
	yyjson_val *v, *w;
	yyjson_arr_foreach (td_jget(td_json_root(reply), "jobs"), i, n, v) {
		struct td_gateway_record x = {.id = td_jint(v, "job_id", 0),
					      .array = td_jint(v, "array_job_id.number", 0),
					      .v = v,
					      .from = reply};
		yyjson_arr_foreach (td_jget(v, "job_state"), k, m, w)
			x.states |= td_slurm_job_state_parse(yyjson_get_str(w));
		put(ret, &x);
	}
}

void td_gateway_records_copy(const struct td_gateway_records *l, struct td_gateway_records *ret)
{
	for (size_t i = 0; i < l->n; i++)
		put(ret, &l->v[i]);
	td_gateway_records_index(ret);
}

struct record_place {
	int64_t key;
	size_t at;
};

static int by_key(const void *a, const void *b)
{
	const struct record_place *x = a, *y = b;
	return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

// The places of those with a key, sorted by it.
static size_t *sorted(const struct td_gateway_records *l, bool arrays, size_t *ret_n)
{
	td_auto_free struct record_place *p = td_calloc(l->n + 1, sizeof(*p));
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++)
		if (!arrays || (l->v[i].array && l->v[i].array != l->v[i].id))
			p[n++] = (struct record_place){arrays ? l->v[i].array : l->v[i].id, i};
	if (n)
		qsort(p, n, sizeof(*p), by_key);
	size_t *at = td_calloc(n + 1, sizeof(*at));
	for (size_t i = 0; i < n; i++)
		at[i] = p[i].at;
	*ret_n = n;
	return at;
}

void td_gateway_records_index(struct td_gateway_records *l)
{
	size_t n;
	free(l->by_id);
	free(l->by_array);
	l->by_id = sorted(l, false, &n);
	l->by_array = sorted(l, true, &l->n_arrays);
}

// The first position in `at` whose key is not below id.
static size_t first(const struct td_gateway_records *l, const size_t *at, size_t n, bool arrays, int64_t id)
{
	size_t a = 0, b = n;
	while (a < b) {
		size_t m = (a + b) / 2;
		const struct td_gateway_record *x = &l->v[at[m]];
		if ((arrays ? x->array : x->id) < id)
			a = m + 1;
		else
			b = m;
	}
	return a;
}

static const struct td_gateway_record *find(const struct td_gateway_records *l, int64_t id)
{
	size_t i = first(l, l->by_id, l->n, false, id);
	return i < l->n && l->v[l->by_id[i]].id == id ? &l->v[l->by_id[i]] : NULL;
}

const yyjson_val *td_gateway_records_next(const struct td_gateway_records *l, int64_t id, struct td_gateway_cursor *c)
{
	for (;;) {
		const size_t *at = c->arrays ? l->by_array : l->by_id, n = c->arrays ? l->n_arrays : l->n;
		size_t i = c->next ? c->next : first(l, at, n, c->arrays, id);
		c->next = i + 1;
		if (i < n && (c->arrays ? l->v[at[i]].array : l->v[at[i]].id) == id)
			return l->v[at[i]].v;
		if (c->arrays)
			return NULL;
		*c = (struct td_gateway_cursor){.arrays = true};
	}
}

static int by_state_id(const void *a, const void *b)
{
	const struct td_slurm_state *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static const struct td_slurm_state *state_of(const struct td_slurm_states *l, int64_t id)
{
	const struct td_slurm_state key = {.id = id};
	return l->n ? bsearch(&key, l->v, l->n, sizeof(*l->v), by_state_id) : NULL;
}

size_t td_gateway_records_news(const struct td_gateway_records *old, const struct td_slurm_states *now, int64_t *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < now->n; i++) {
		const struct td_gateway_record *x = find(old, now->v[i].id);
		if (!x || x->states != now->v[i].states)
			ret[n++] = now->v[i].id;
	}
	return n;
}

void td_gateway_records_merge(const struct td_gateway_records *old, const struct td_slurm_states *now,
			      const struct td_gateway_records *fresh, struct td_gateway_records *ret)
{
	td_auto_free bool *used = td_calloc(fresh->n + 1, sizeof(*used));
	for (size_t i = 0; i < old->n; i++) {
		const struct td_slurm_state *s = state_of(now, old->v[i].id);
		const struct td_gateway_record *x = find(fresh, old->v[i].id);
		if (!s && !x) // Slurm has forgotten it
			continue;
		struct td_gateway_record y = x ? *x : old->v[i];
		if (s)
			y.states = s->states; // where the two differ for long it is not read at each look
		if (x)
			used[x - fresh->v] = true;
		put(ret, &y);
	}
	for (size_t i = 0; i < fresh->n; i++) {
		const struct td_slurm_state *s = state_of(now, fresh->v[i].id);
		struct td_gateway_record y = fresh->v[i];
		if (s)
			y.states = s->states;
		if (!used[i] && find(fresh, y.id) == &fresh->v[i])
			put(ret, &y);
	}
	td_gateway_records_index(ret);
}
