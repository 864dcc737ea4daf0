#include "pool/storage.h"

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}
static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}
// Sums stay below this, whatever somebody writes.
static int64_t plus(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

// What claims there can come to before the API server enforces what is said now.
static int64_t reach(const struct td_pool_storage_space *s, int64_t said)
{
	return s->counted ? most(most(said, s->hard), s->used) : said;
}

// What is left of a quota beside what is used.
static int64_t left_of(const struct td_pool_storage_limit *q, const struct td_pool_storage_space *spaces)
{
	int64_t used = 0;
	for (size_t k = 0; k < q->n; k++)
		used = plus(used, spaces[q->spaces[k]].used);
	return most(q->quota - used, 0);
}

// The part of each namespace in what is left of all quotas above it, and in *ret_room what it was asked for of that.
static void parts(const struct td_pool_storage_limit *limits, size_t n_limits,
		  const struct td_pool_storage_space *spaces, size_t n, int64_t *ret, int64_t *ret_room)
{
	for (size_t i = 0; i < n; i++) {
		ret[i] = INT64_MAX;
		ret_room[i] = most(spaces[i].room, 0);
	}
	// No quota above has more than is left of it, whoever asks.
	for (size_t l = 0; l < n_limits; l++) {
		int64_t left = left_of(&limits[l], spaces);
		for (size_t k = 0; k < limits[l].n; k++) {
			int64_t *room = &ret_room[limits[l].spaces[k]];
			*room = least(*room, left);
			left -= *room;
		}
	}
	for (size_t l = 0; l < n_limits; l++) {
		const struct td_pool_storage_limit *q = &limits[l];
		int64_t left = left_of(q, spaces), size = most((int64_t)q->n, 1);
		for (size_t k = 0; k < q->n; k++)
			left -= ret_room[q->spaces[k]];
		for (size_t k = 0; k < q->n; k++) {
			size_t at = q->spaces[k];
			ret[at] = least(ret[at], ret_room[at] + left / size + ((int64_t)k < left % size ? 1 : 0));
		}
	}
	for (size_t i = 0; i < n; i++)
		if (ret[i] == INT64_MAX)
			ret[i] = 0; // no quota is above it
}

static bool contains(const struct td_pool_storage_limit *q, size_t space)
{
	for (size_t k = 0; k < q->n; k++)
		if (q->spaces[k] == space)
			return true;
	return false;
}

// How much more may be said for a namespace.
static int64_t room(const struct td_pool_storage_limit *limits, size_t n_limits,
		    const struct td_pool_storage_space *spaces, const int64_t *said, size_t space)
{
	int64_t all = INT64_MAX;
	for (size_t l = 0; l < n_limits; l++) {
		if (!contains(&limits[l], space))
			continue;
		int64_t taken = 0;
		for (size_t k = 0; k < limits[l].n; k++) {
			size_t at = limits[l].spaces[k];
			taken = plus(taken, at == space ? said[at] : reach(&spaces[at], said[at]));
		}
		all = least(all, limits[l].quota - taken);
	}
	return all == INT64_MAX ? 0 : most(all, 0);
}

static bool exceeded(const struct td_pool_storage_limit *q, const struct td_pool_storage_space *spaces)
{
	int64_t sum = 0;
	for (size_t k = 0; k < q->n; k++)
		sum = plus(sum, spaces[q->spaces[k]].said);
	return sum > q->quota;
}

void td_pool_storage_split(struct td_arena *arena, const struct td_pool_storage_limit *limits, size_t n_limits,
			   const struct td_pool_storage_space *spaces, size_t n, int64_t *ret)
{
	int64_t *part = td_arena_alloc(arena, (n + 1) * sizeof(*part)),
		*asked = td_arena_alloc(arena, (n + 1) * sizeof(*asked));
	bool anew = false;
	parts(limits, n_limits, spaces, n, part, asked);
	for (size_t l = 0; l < n_limits; l++)
		anew = anew || exceeded(&limits[l], spaces);
	for (size_t i = 0; i < n; i++) {
		ret[i] = spaces[i].said;
	}
	for (size_t i = 0; i < n && !anew; i++) {
		int64_t has = most(ret[i] - spaces[i].used, 0);
		// An eighth is gone, or some of what was asked for, or there is some that nobody has.
		anew = spaces[i].counted && (has < part[i] - part[i] / 8 || has < asked[i] ||
					     (has < part[i] && room(limits, n_limits, spaces, ret, i)));
	}
	if (!anew)
		return;
	for (size_t i = 0; i < n; i++)
		ret[i] = least(ret[i], plus(spaces[i].used, part[i]));
	for (size_t i = 0; i < n; i++) {
		int64_t want = plus(spaces[i].used, part[i]);
		if (spaces[i].counted && want > ret[i])
			ret[i] += least(want - ret[i], room(limits, n_limits, spaces, ret, i));
	}
}
