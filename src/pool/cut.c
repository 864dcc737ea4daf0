// Places for the parts of a GPU (cut.h).
#include "pool/cut.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

struct placing {
	const struct td_cut_kind *of[TD_CUT_PARTS];
	int order[TD_CUT_PARTS]; // the largest first
	size_t n;
	int *at;
};

// One part after the other; what takes an earlier one's room away comes back to it. Of equal parts the later one begins
// behind the earlier one, so that no two orders of the same are tried.
static bool place(const struct placing *s, size_t k, uint32_t taken)
{
	if (k == s->n)
		return true;
	const int i = s->order[k];
	const struct td_cut_kind *kind = s->of[i];
	const bool same = k && s->of[s->order[k - 1]] == kind;
	for (int at = same ? s->at[s->order[k - 1]] + 1 : 0; at + kind->size <= 32; at++) {
		const uint32_t its = (uint32_t)(((UINT64_C(1) << kind->size) - 1) << at);
		if (!(kind->at >> at & 1) || (its & taken))
			continue;
		s->at[i] = at;
		if (place(s, k + 1, taken | its))
			return true;
	}
	return false;
}

int td_pool_cut_place(const struct td_cut_kind *kinds, size_t n, const char *const *wish, size_t n_wish,
		      int ret_at[TD_CUT_PARTS], struct td_error *err)
{
	td_auto_buf struct td_buf has = {0}, all = {0};
	int at[TD_CUT_PARTS] = {0};
	struct placing s = {.n = n_wish, .at = at};
	if (n_wish > TD_CUT_PARTS)
		return td_fail(err, TD_INVALID, "more than %d parts", TD_CUT_PARTS);
	for (size_t k = 0; k < n; k++)
		td_buf_printf(&has, "%s%s", k ? ", " : "", kinds[k].name);
	for (size_t i = 0; i < n_wish; i++) {
		int count = 0;
		for (size_t k = 0; k < n; k++)
			s.of[i] = strcmp(kinds[k].name, wish[i]) != 0 ? s.of[i] : &kinds[k];
		if (!s.of[i])
			return td_fail(err, TD_INVALID, "\"%.40s\" is no part that it has: it can be cut in %s",
				       wish[i], n ? td_buf_str(&has) : "none");
		for (size_t k = 0; k <= i; k++)
			count += s.of[k] == s.of[i];
		if (s.of[i]->most && count > s.of[i]->most)
			return td_fail(err, TD_INVALID, "it has %d of %s at most", s.of[i]->most, wish[i]);
		td_buf_printf(&all, "%s%s", i ? " " : "", wish[i]);
	}
	// A part may have no room before one that is as large and stands behind it, so that equal ones are side by side.
	for (size_t i = 0; i < n_wish; i++) {
		size_t k = i;
		for (; k && (s.of[s.order[k - 1]]->size < s.of[i]->size ||
			     (s.of[s.order[k - 1]]->size == s.of[i]->size && s.of[s.order[k - 1]] > s.of[i]));
		     k--)
			s.order[k] = s.order[k - 1];
		s.order[k] = (int)i;
	}
	if (!place(&s, 0, 0))
		return td_fail(
			err, TD_INVALID,
			"%.200s do not fit beside each other: it can be cut in %s, and a part takes as much of its "
			"memory as its name says",
			td_buf_str(&all), td_buf_str(&has));
	memcpy(ret_at, at, sizeof(at));
	return 0;
}
