// Which rank of a job is slower than the others.
#include "pool/straggle.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_number(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

// The lower one of two in the middle: where two of four are slow, the others say what is usual.
static int64_t median(int64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_number);
	return v[(n - 1) / 2];
}

static bool near(const struct td_pool_pace *p, int64_t step)
{
	return p->rank >= 0 && p->rank < TD_STRAGGLE_RANKS && llabs(p->step - step) <= TD_STRAGGLE_APART;
}

// By how many percent of the median, without rounding up; what is less than noise is 100.
static int64_t percent_of(int64_t us, int64_t median_us)
{
	if (us - median_us < TD_STRAGGLE_LEAST_US)
		return 100;
	return us * 100 / (median_us > 0 ? median_us : 1);
}

// True: this rank is to be told of.
static bool go_on(const struct td_pool_straggle_rule *r, struct td_pool_straggle_rank *s, int64_t step, int64_t percent)
{
	bool back = s->begun && step < s->step; // it went on from a checkpoint
	bool again = s->begun && step == s->step;
	s->begun = true;
	s->step = step;
	if (back)
		s->slow = s->well = 0;
	if (!again) {
		bool slow = percent >= r->percent;
		s->slow = slow ? s->slow + (s->slow < r->steps) : 0;
		// Who was told of is well below half of the way only: else one at the border is told of for ever.
		s->well = percent > 100 + (r->percent - 100) / 2 ? 0 : s->well + (s->well < r->steps);
		if (s->well >= r->steps)
			s->told = false;
	}
	return !s->told && s->slow >= r->steps;
}

bool td_pool_straggle(const struct td_pool_straggle_rule *r, struct td_pool_straggle_rank *state,
		      const struct td_pool_pace *v, size_t n, struct td_pool_straggler *ret)
{
	if (n < TD_STRAGGLE_LEAST)
		return false;
	td_auto_free int64_t *x = td_calloc(n, sizeof(*x));
	size_t k = 0;
	for (size_t i = 0; i < n; i++)
		x[i] = v[i].step;
	int64_t step = median(x, n);
	for (size_t i = 0; i < n; i++)
		if (near(&v[i], step))
			x[k++] = v[i].us;
	if (k < TD_STRAGGLE_LEAST)
		return false;
	int64_t usual = median(x, k);

	const struct td_pool_pace *worst = NULL;
	for (size_t i = 0; i < n; i++)
		if (near(&v[i], step) && go_on(r, &state[v[i].rank], v[i].step, percent_of(v[i].us, usual)) &&
		    (!worst || v[i].us > worst->us))
			worst = &v[i];
	if (!worst)
		return false;
	state[worst->rank].told = true;
	*ret = (struct td_pool_straggler){*worst, usual, (int)k};
	return true;
}

static void words(const struct td_pool_straggler *s, const char *who, const char *whose, char *ret, size_t n)
{
	snprintf(ret, n, "%s computes %.1f times as long as the others (step %lld: %.3g s, median of %d %s %.3g s)",
		 who, (double)s->pace.us / (double)(s->median_us > 0 ? s->median_us : 1), (long long)s->pace.step,
		 (double)s->pace.us / 1e6, s->ranks, whose, (double)s->median_us / 1e6);
}

void td_pool_straggle_words(const struct td_pool_straggler *s, char *ret, size_t n)
{
	char who[TD_STRAGGLE_NODE + 64], gpu[24] = "";
	if (s->pace.gpu >= 0)
		snprintf(gpu, sizeof(gpu), " (gpu%d)", s->pace.gpu);
	snprintf(who, sizeof(who), "rank %d on %s%s", s->pace.rank, s->pace.node, gpu);
	words(s, who, "ranks", ret, n);
}

void td_pool_straggle_pod_words(const struct td_pool_straggler *s, const char *pod, char *ret, size_t n)
{
	char who[TD_STRAGGLE_NODE + 256 + 16];
	snprintf(who, sizeof(who), "pod %.253s on %s", pod, s->pace.node);
	words(s, who, "pods", ret, n);
}

size_t td_pool_paces(const char *text, struct td_pool_pace *v, size_t max)
{
	size_t n = 0;
	for (const char *s = text; *s && n < max; s += *s == ',') {
		long long step, us;
		int end = 0;
		struct td_pool_pace p = {0};
		if (sscanf(s, "%d:%lld:%lld:%63[A-Za-z0-9._-]:%d%n", &p.rank, &step, &us, p.node, &p.gpu, &end) == 5 &&
		    (s[end] == ',' || !s[end]) && p.rank >= 0 && p.rank < TD_STRAGGLE_RANKS && step >= 0 && us >= 0 &&
		    us <= INT64_MAX / 100) {
			p.step = step;
			p.us = us;
			v[n++] = p;
		}
		s += strcspn(s, ",");
	}
	return n;
}

static int by_use(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double td_pool_straggle_use(int percent, const double *use, size_t n, bool *ret_slow)
{
	td_auto_free double *sorted = td_calloc(n + 1, sizeof(*sorted));
	for (size_t i = 0; i < n; i++)
		sorted[i] = use[i];
	qsort(sorted, n, sizeof(*sorted), by_use);
	// Of an even number the lower one, so that half of them are never slow.
	double median = n ? sorted[(n - 1) / 2] : 0;
	for (size_t i = 0; i < n; i++)
		ret_slow[i] = n >= TD_STRAGGLE_LEAST && median >= TD_STRAGGLE_WORKS && use[i] * percent <= median * 100;
	return median;
}
