#include "pool/federation.h"

#include <inttypes.h>
#include <string.h>

// ---- which member ----

static bool in(const struct td_strv *l, const char *s)
{
	return !l->n || (s && td_strv_has(l, s));
}

// One of these; who names none fits only where all do.
static bool one_in(const struct td_strv *l, const struct td_strv *some)
{
	for (size_t i = 0; some && i < some->n; i++)
		if (in(l, some->v[i]))
			return true;
	return !l->n;
}

static bool fits(const struct td_fed_rule *r, const struct td_fed_ask *a)
{
	return in(&r->users, a->user) && in(&r->teams, a->team) && in(&r->accounts, a->account) &&
	       one_in(&r->partitions, a->partitions) && one_in(&r->gpu_types, a->gpu_types) && a->gpus >= r->min_gpus &&
	       (r->max_gpus < 0 || a->gpus <= r->max_gpus);
}

const char *td_fed_team_of(const struct td_fed_team *teams, size_t n, const char *user, const char *account)
{
	for (size_t i = 0; i < n && account; i++)
		if (td_strv_has(&teams[i].accounts, account))
			return teams[i].name;
	for (size_t i = 0; i < n; i++)
		if (td_strv_has(&teams[i].users, user))
			return teams[i].name;
	return NULL;
}

static const struct td_fed_member *member_of(const struct td_fed_field *f, const char *name)
{
	for (size_t i = 0; i < f->n_members; i++)
		if (!strcmp(f->members[i].name, name))
			return &f->members[i];
	return NULL;
}

static bool takes(const struct td_fed_field *f, const struct td_fed_member *m)
{
	return !f->refused || !td_strv_has(f->refused, m->name);
}

// Whether a run goes to x rather than to y: where it is free; then where the team has used fewer whole hours for the member's
// weight, then where fewer runs are for its weight.
static bool before(const struct td_fed_member *x, const struct td_fed_member *y)
{
	if (x->full != y->full)
		return y->full;
	int64_t ux = (int64_t)(x->used / (double)x->weight), uy = (int64_t)(y->used / (double)y->weight);
	return ux != uy ? ux < uy : (x->live + 1) * y->weight < (y->live + 1) * x->weight;
}

static void joined(const struct td_strv *l, struct td_buf *b)
{
	for (size_t i = 0; i < l->n; i++)
		td_buf_printf(b, "%s%s", i ? ", " : "", l->v[i]);
}

static void go(const struct td_fed_field *f, const struct td_fed_member *m, struct td_fed_choice *ret)
{
	ret->where = TD_FED_GO;
	ret->member = (size_t)(m - f->members);
}

// The best of `names`; first: the first that can. NULL: none can.
static const struct td_fed_member *best(const struct td_fed_field *f, const struct td_strv *names, bool first,
					bool *ret_may_later)
{
	const struct td_fed_member *b = NULL;
	for (size_t i = 0; i < names->n; i++) {
		const struct td_fed_member *m = member_of(f, names->v[i]);
		if (!m || !takes(f, m))
			continue;
		*ret_may_later = true;
		if (m->reached && (!b || (!first && before(m, b))))
			b = m;
	}
	return b;
}

static void insisted(const struct td_fed_field *f, const struct td_fed_rule *rule, const struct td_fed_ask *a,
		     struct td_fed_choice *ret)
{
	const struct td_fed_member *m = member_of(f, a->insists);
	bool named = !rule || td_strv_has(&rule->members, a->insists) || td_strv_has(&rule->otherwise, a->insists);
	td_auto_buf struct td_buf may = {0};
	if (rule) {
		joined(&rule->members, &may);
		if (rule->otherwise.n)
			td_buf_puts(&may, ", ");
		joined(&rule->otherwise, &may);
	} else {
		for (size_t i = 0; i < f->n_members; i++)
			td_buf_printf(&may, "%s%s", i ? ", " : "", f->members[i].name);
	}
	if (!m || !named) {
		ret->where = TD_FED_FORBIDDEN;
		ret->why = m ? td_asprintf("cluster %s: rule %s sends such runs to %s: name one of these, or none",
					   a->insists, rule->name, td_buf_str(&may))
			     : td_asprintf("cluster %s: there is no such member: name one of %s", a->insists,
					   td_buf_str(&may));
	} else if (!takes(f, m)) {
		ret->where = TD_FED_NOWHERE;
		ret->why = td_asprintf("%s, which was asked for, does not take it", m->name);
	} else if (!m->reached) {
		ret->where = TD_FED_WAIT;
		ret->why = td_asprintf("%s, which was asked for, cannot be reached", m->name);
	} else {
		go(f, m, ret);
		ret->why = td_asprintf("it was asked for by name");
	}
}

void td_fed_choose(const struct td_fed_field *f, const struct td_fed_ask *a, struct td_fed_choice *ret)
{
	const struct td_fed_rule *rule = NULL;
	for (size_t i = 0; i < f->n_rules && !rule; i++)
		if (fits(&f->rules[i], a))
			rule = &f->rules[i];
	*ret = (struct td_fed_choice){.rule = rule ? rule->name : NULL};
	if (a->insists) {
		insisted(f, rule, a, ret);
		return;
	}

	td_auto_strv struct td_strv all = {0};
	for (size_t i = 0; i < f->n_members; i++)
		td_strv_add(&all, f->members[i].name);
	const struct td_strv *names = rule ? &rule->members : &all;
	bool later = false, aside = false;
	const struct td_fed_member *m = best(f, names, false, &later);
	if (!m && rule && (m = best(f, &rule->otherwise, true, &later)))
		aside = true;
	td_auto_buf struct td_buf words = {0};
	if (rule)
		td_buf_printf(&words, "rule %s names ", rule->name);
	else
		td_buf_puts(&words, "no rule is about it, so every member may have it: ");
	joined(names, &words);
	if (rule && rule->otherwise.n) {
		td_buf_puts(&words, ", otherwise ");
		joined(&rule->otherwise, &words);
	}
	if (!m) {
		ret->where = later ? TD_FED_WAIT : TD_FED_NOWHERE;
		td_buf_printf(&words, "; none of these %s", later ? "can be reached" : "takes it");
	} else {
		go(f, m, ret);
		if (aside)
			td_buf_puts(&words, "; the first ones cannot be reached or do not take it");
		else if (names->n > 1 && m->used >= 1)
			td_buf_printf(&words,
				      "; of these it has most left of the team's share for its weight "
				      "(%.0f GPU hours used there)",
				      m->used);
		else if (names->n > 1)
			td_buf_printf(&words,
				      "; of those that can be reached it has fewest runs for its weight "
				      "(%" PRId64 " of weight %" PRId64 ")",
				      m->live, m->weight);
	}
	ret->why = td_buf_take(&words);
}

// ---- limits ----

// What can still flow from step u to a later one, and where the search for a way came from.
struct flow {
	size_t n;
	bool *before;               // [u * n + v]: v begins after u, straight or by others
	int64_t *through;           // [u * n + v]
	int64_t *from, *to;         // what is left of each step's figure on either side
	size_t *left_by, *right_by; // n: not seen; left_by n + 1: from the source
};

// One way from the source to the sink, taken as wide as it is. 0: there is none.
static int64_t widen(struct flow *f, size_t *queue)
{
	size_t n = f->n, head = 0, tail = 0, end = n;
	for (size_t i = 0; i < n; i++) {
		f->right_by[i] = n;
		f->left_by[i] = f->from[i] > 0 ? n + 1 : n;
		if (f->from[i] > 0)
			queue[tail++] = i;
	}
	while (head < tail && end == n) {
		size_t u = queue[head++];
		for (size_t v = 0; v < n && end == n; v++) {
			if (!f->before[u * n + v] || f->right_by[v] != n)
				continue;
			f->right_by[v] = u;
			if (f->to[v] > 0) {
				end = v;
				break;
			}
			for (size_t w = 0; w < n; w++) // back along what flows into v
				if (f->left_by[w] == n && f->through[w * n + v] > 0) {
					f->left_by[w] = v;
					queue[tail++] = w;
				}
		}
	}
	if (end == n)
		return 0;
	int64_t width = f->to[end];
	for (size_t v = end;;) {
		size_t u = f->right_by[v];
		if (f->left_by[u] == n + 1) {
			width = f->from[u] < width ? f->from[u] : width;
			break;
		}
		v = f->left_by[u];
		width = f->through[u * n + v] < width ? f->through[u * n + v] : width;
	}
	f->to[end] -= width;
	for (size_t v = end;;) {
		size_t u = f->right_by[v];
		f->through[u * n + v] += width;
		if (f->left_by[u] == n + 1) {
			f->from[u] -= width;
			break;
		}
		v = f->left_by[u];
		f->through[u * n + v] -= width;
	}
	return width;
}

// By Dilworth's theorem this is how many chains of steps are needed to have each step as often as it has GPUs, and
// that is the sum of all less the widest flow from steps to later ones.
int64_t td_fed_at_once(const struct td_fed_step *v, size_t n)
{
	td_auto_free bool *before = td_calloc(n * n + 1, sizeof(*before));
	td_auto_free int64_t *through = td_calloc(n * n + 1, sizeof(*through)), *from = td_calloc(n + 1, sizeof(*from)),
			     *to = td_calloc(n + 1, sizeof(*to));
	td_auto_free size_t *left = td_calloc(n + 1, sizeof(*left)), *right = td_calloc(n + 1, sizeof(*right)),
			    *queue = td_calloc(n + 1, sizeof(*queue));
	int64_t sum = 0;
	for (size_t i = 0; i < n; i++) {
		sum += from[i] = to[i] = v[i].gpus;
		for (size_t k = 0; k < v[i].n_after; k++)
			for (size_t u = 0; u < i; u++)
				before[u * n + i] |= u == v[i].after[k] || before[u * n + v[i].after[k]];
	}
	struct flow f = {n, before, through, from, to, left, right};
	for (int64_t more; (more = widen(&f, queue)) > 0;)
		sum -= more;
	return sum;
}

int64_t td_fed_counts(int64_t holds, int64_t held)
{
	return held > holds ? held : holds;
}

int64_t td_fed_session_promised(const struct td_fed_promise *p, int64_t now_s)
{
	// One of a clock that is far ahead keeps nobody back for ever.
	return now_s < p->until_s && p->until_s - now_s <= 2LL * TD_FED_SESSION_S && p->holds > 0 ? p->holds : 0;
}

bool td_fed_promise_over(const struct td_fed_promise *p, enum td_fed_phase phase, int64_t attempt)
{
	return phase >= TD_FED_ENDED || attempt > p->attempt || (attempt == p->attempt && phase == TD_FED_WAITING);
}

bool td_fed_promise_may(const struct td_fed_promise *is, const struct td_fed_promise *mine)
{
	return is->attempt <= mine->attempt;
}

char *td_fed_over(const struct td_fed_limit *l, const struct td_fed_used *u, int64_t gpus)
{
	if (!l || gpus <= 0)
		return NULL;
	// What a member holds that does not say so is not taken for nothing.
	if (!u->known && (l->gpus >= 0 || l->gpu_hours >= 0))
		return td_asprintf("team %s has a limit, and not every member has said what it uses there", l->team);
	if (l->gpus >= 0 && u->gpus + gpus > l->gpus)
		return td_asprintf("team %s holds %" PRId64 " of %" PRId64
				   " GPUs over all members, and this asks for %" PRId64,
				   l->team, u->gpus, l->gpus, gpus);
	if (l->gpu_hours >= 0 && u->gpu_hours >= (double)l->gpu_hours)
		return td_asprintf("team %s has used %.1f of %" PRId64 " GPU hours of %" PRId64
				   " days over all members",
				   l->team, u->gpu_hours, l->gpu_hours, l->days);
	return NULL;
}

char *td_fed_over_one(const struct td_fed_limit *l, const char *user, const struct td_fed_used *has, int64_t gpus)
{
	if (!l || l->user_gpus < 0 || gpus <= 0)
		return NULL;
	if (!has->known)
		return td_asprintf("people of team %s have a limit, and not every member has said what they hold there",
				   l->team);
	return has->gpus + gpus <= l->user_gpus
		       ? NULL
		       : td_asprintf("%s holds %" PRId64 " of %" PRId64
				     " GPUs that one of team %s may hold over all members, and this asks for %" PRId64,
				     user, has->gpus, l->user_gpus, l->team, gpus);
}

int64_t td_fed_holds_one(const struct td_fed_sessions *s, int64_t held, int64_t runs)
{
	return held + s->waits > runs + s->asks ? held + s->waits : runs + s->asks;
}

char *td_fed_sessions_over(const struct td_fed_limit *l, const char *user, const struct td_fed_sessions *s)
{
	return !l || l->user_sessions < 0 || s->n < l->user_sessions
		       ? NULL
		       : td_asprintf("%s has %" PRId64 " of %" PRId64
				     " sessions that one of team %s may have over all members: stop one first",
				     user, s->n, l->user_sessions, l->team);
}

// ---- its way ----

static const char *const phases[] = {"Waiting", "Placed", "Started", "Ended", "Refused", "Cancelled"};

const char *td_fed_phase_name(enum td_fed_phase p)
{
	return phases[p];
}

bool td_fed_phase_parse(const char *name, enum td_fed_phase *ret)
{
	for (size_t i = 0; i < TD_LEN(phases); i++)
		if (name && !strcmp(name, phases[i])) {
			*ret = (enum td_fed_phase)i;
			return true;
		}
	return false;
}

static enum td_fed_do placed(const struct td_fed_state *s)
{
	switch (s->seen) {
	case TD_FED_UNREACHED:
		return s->silent_s >= s->lost_after_s ? TD_FED_MOVE : TD_FED_KEEP;
	case TD_FED_ABSENT:
		// What the member had, it has forgotten: to send it again would find the run's directory and no more.
		if (s->sent)
			return s->phase_s >= TD_FED_FORGOT_S ? TD_FED_MOVE : TD_FED_KEEP;
		return s->phase_s >= TD_FED_SEND_S ? TD_FED_SEND : TD_FED_KEEP;
	case TD_FED_BEGUN:
		return TD_FED_LET;
	case TD_FED_GAVE_UP:
		return TD_FED_MOVE;
	case TD_FED_OVER:
		return TD_FED_END;
	default:
		return TD_FED_KEEP;
	}
}

enum td_fed_do td_fed_next(const struct td_fed_state *s)
{
	switch (s->phase) {
	case TD_FED_WAITING:
		return TD_FED_PLACE;
	case TD_FED_PLACED:
		return placed(s);
	case TD_FED_STARTED:
		// It may have begun: it goes elsewhere only when its member says that it never did, nor will.
		if (s->refused)
			return TD_FED_MOVE;
		if (s->seen == TD_FED_UNREACHED || s->seen == TD_FED_WAITS)
			return TD_FED_KEEP;
		if (s->seen == TD_FED_BEGUN)
			return s->told ? TD_FED_KEEP : TD_FED_TELL;
		// Its word may have come too late, or an answer was lost: telling it once more finds out.
		if (!s->told)
			return TD_FED_TELL;
		return s->seen == TD_FED_ABSENT && s->phase_s < TD_FED_SEND_S ? TD_FED_KEEP : TD_FED_END;
	default:
		return TD_FED_KEEP;
	}
}

bool td_fed_start_counts(const struct td_fed_start *s, int64_t now_s)
{
	// One from the future is of a clock that is ahead: it counts for no longer than one of now.
	return s->by && now_s - s->since_s < TD_FED_START_COUNTS_S && s->since_s - now_s < TD_FED_START_COUNTS_S;
}
