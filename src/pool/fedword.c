#include "pool/fedword.h"

#include <string.h>

static int64_t at_least_0(int64_t n)
{
	return n > 0 ? n : 0;
}

// ---- at the hub ----

static struct td_fedword_person *person(struct td_fedword_person *v, size_t *n, const char *user)
{
	for (size_t i = 0; i < *n; i++)
		if (td_streq(v[i].user, user))
			return &v[i];
	v[*n] = (struct td_fedword_person){.user = user};
	return &v[(*n)++];
}

static void add(struct td_fedword_row *v, size_t *n, const struct td_fedword_held *h)
{
	for (size_t i = 0; i < *n; i++)
		if (td_streq(v[i].account, h->account) && td_streq(v[i].user, h->user)) {
			v[i].gpus += h->gpus;
			return;
		}
	v[(*n)++] = (struct td_fedword_row){h->account, h->user, h->gpus};
}

// A member's part of a limit. All parts together are more than the limit by one for each member at most.
static int64_t part(int64_t limit, const struct td_fedword_facts *f, size_t member)
{
	int64_t sum = 0;
	for (size_t i = 0; i < f->n_members; i++)
		sum += f->weights[i];
	return limit < 0 || sum <= 0 ? limit : (limit * f->weights[member] + sum - 1) / sum;
}

void td_fedword_reckon(struct td_arena *arena, const struct td_fedword_facts *f, size_t member,
		       struct td_fedword_team *ret)
{
	struct td_fedword_row *rows = td_arena_alloc(arena, (f->n_held + 1) * sizeof(*rows));
	struct td_fedword_person *people = td_arena_alloc(arena, (f->n_held + f->n_runs + 1) * sizeof(*people));
	int64_t *at = td_arena_alloc(arena, (f->n_members + 1) * sizeof(*at));
	ret->gpus = f->gpus;
	ret->user_gpus = f->user_gpus;
	ret->alone = part(f->gpus, f, member);
	ret->user_alone = part(f->user_gpus, f, member);
	ret->spent = f->spent;
	ret->used = ret->waits = 0;
	ret->n_rows = ret->n_people = 0;
	for (size_t i = 0; i < f->n_held; i++) {
		const struct td_fedword_held *h = &f->held[i];
		at[h->member] += h->gpus;
		ret->used += h->gpus;
		person(people, &ret->n_people, h->user)->used += h->gpus;
		if (h->member == member)
			add(rows, &ret->n_rows, h);
	}
	// A run counts from when it is given to a member, with what it may hold.
	for (size_t i = 0; i < f->n_runs; i++) {
		const struct td_fedword_run *r = &f->runs[i];
		int64_t more = at_least_0(r->holds - r->held);
		struct td_fedword_person *his = person(people, &ret->n_people, r->user);
		at[r->member] += more;
		ret->used += more;
		his->used += more;
		if (r->member == member) {
			ret->waits += more;
			his->waits += more;
		}
	}
	ret->rows = rows;
	ret->people = people;
	ret->at = at;
}

// ---- at the member ----

static bool in(const char *const *v, size_t n, const char *s)
{
	for (size_t i = 0; i < n; i++)
		if (td_streq(v[i], s))
			return true;
	return false;
}

static bool within(const struct td_fedword *w, const char *account, const char *up)
{
	for (size_t steps = 0; account && steps <= w->n_below; steps++) {
		if (td_streq(account, up))
			return true;
		const char *parent = NULL;
		for (size_t i = 0; i < w->n_below && !parent; i++)
			if (td_streq(w->below[i].account, account))
				parent = w->below[i].parent;
		account = parent;
	}
	return false;
}

// What counts for the team in this cell, as Slurm counts it there.
static int64_t here(const struct td_fedword *w, const struct td_fedword_team *t, const char *account, const char *user)
{
	const char *last = NULL; // rows of one account come one after the other, mostly
	bool is = false;
	int64_t sum = 0;
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct td_fedword_row *r = &t->rows[i];
		if (!td_streq(last, r->account))
			is = user ? td_streq(r->account, account) : within(w, r->account, account);
		last = r->account;
		if (is && (!user || td_streq(r->user, user)))
			sum += r->gpus;
	}
	return sum;
}

static void lower(struct td_fedword_cap *c, int64_t gpus, enum td_fedword_why why, const struct td_fedword_team *t)
{
	if (c->gpus < 0 || gpus < c->gpus)
		*c = (struct td_fedword_cap){gpus, why, t};
}

static int64_t room(const struct td_fedword *w, int64_t room, int64_t alone)
{
	room = at_least_0(room);
	return w->age_s >= TD_FEDWORD_SILENT_S && alone > room ? alone : room;
}

static void of_team(const struct td_fedword *w, const struct td_fedword_team *t, int64_t holds,
		    struct td_fedword_cap *ret)
{
	if (t->gpus >= 0)
		lower(ret, room(w, t->gpus - t->used + t->waits + holds, t->alone), TD_FEDWORD_TEAM, t);
	if (t->spent && w->age_s < TD_FEDWORD_SILENT_S)
		lower(ret, 0, TD_FEDWORD_HOURS, t);
}

static void of_person(const struct td_fedword *w, const struct td_fedword_team *t, const char *user, int64_t holds,
		      struct td_fedword_cap *ret)
{
	int64_t used = 0;
	for (size_t i = 0; i < t->n_people; i++)
		if (td_streq(t->people[i].user, user))
			used = t->people[i].used - t->people[i].waits;
	if (t->user_gpus >= 0)
		lower(ret, room(w, t->user_gpus - used + holds, t->user_alone), TD_FEDWORD_PERSON, t);
}

struct td_fedword_cap td_fedword_cap(const struct td_fedword *w, const char *account, const char *user)
{
	struct td_fedword_cap c = {.gpus = -1};
	bool taken = in(w->taken, w->n_taken, account);
	for (size_t i = 0; i < w->n_teams; i++) {
		const struct td_fedword_team *t = &w->teams[i];
		if (in(t->accounts, t->n_accounts, account)) {
			int64_t holds = here(w, t, account, user);
			if (user)
				of_person(w, t, user, holds, &c);
			else
				of_team(w, t, holds, &c);
			return c;
		}
		// Who names no account of a team is of the team that lists him.
		if (user && !taken && in(t->users, t->n_users, user)) {
			int64_t holds = here(w, t, account, user);
			of_team(w, t, holds, &c);
			of_person(w, t, user, holds, &c);
			return c;
		}
	}
	return c;
}

void td_fedword_say(const struct td_fedword_words *w, struct td_buf *b)
{
	td_buf_printf(b, " The limit is that of Federation %s: ", w->federation);
	if (w->why == TD_FEDWORD_HOURS) {
		td_buf_printf(
			b,
			"team %s has used its GPU hours over all members, so nothing more of it starts here. "
			"There is room when days with use are no longer counted, or when who keeps the Federation "
			"raises limits[].gpuHours",
			w->team);
	} else {
		td_buf_printf(b, "%s%s%s%s counts for %lld of %lld GPUs over all members", w->user ? "" : "team ",
			      w->user ? w->user : w->team, w->user ? " of team " : "", w->user ? w->team : "",
			      (long long)w->used, (long long)w->limit);
		if (w->at && *w->at)
			td_buf_printf(b, " (%s)", w->at);
		td_buf_printf(b,
			      ", which leaves %lld for all that it holds here. There is room when jobs there or here "
			      "end, or when who keeps the Federation raises limits[].%sgpus",
			      (long long)w->gpus, w->user ? "perUser." : "");
	}
	td_buf_puts(b, w->silent ? "; its hub has said nothing for an hour or more, so these figures are old." : ".");
}
