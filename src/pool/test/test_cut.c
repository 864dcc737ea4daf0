// Whether a wish for parts of a GPU fits, held against every placement that there is.
// rows: D2.5
#include "pool/cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// An H100 of 80 GB, after NVIDIA's tables of placements.
static const struct td_cut_kind h100[] = {{"1g.10gb", 1, 0x7f, 7}, {"1g.10gb.me", 1, 0x7f, 1}, {"1g.20gb", 2, 0x55, 4},
					  {"2g.20gb", 2, 0x15, 3}, {"3g.40gb", 4, 0x11, 2},    {"4g.40gb", 4, 0x01, 1},
					  {"7g.80gb", 8, 0x01, 1}};
enum { KINDS = 7 };

static int fits(const char *const *wish, size_t n, struct td_error *err)
{
	int at[TD_CUT_PARTS];
	uint32_t taken = 0;
	int r = td_pool_cut_place(h100, KINDS, wish, n, at, err);
	for (size_t i = 0; !r && i < n; i++) {
		const struct td_cut_kind *k = h100;
		while (strcmp(k->name, wish[i]) != 0)
			k++;
		uint32_t its = (uint32_t)((UINT64_C(1) << k->size) - 1) << at[i];
		assert_true(k->at >> at[i] & 1);
		assert_false(its & taken);
		taken |= its;
	}
	return r;
}

static void usual_layouts_fit(void **state)
{
	static const char *const v[][8] = {
		{"1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb"},
		{"3g.40gb", "3g.40gb"},
		{"3g.40gb", "4g.40gb"},
		{"1g.10gb", "1g.10gb", "3g.40gb"},
		{"3g.40gb", "1g.10gb", "1g.10gb.me", "2g.20gb"},
		{"2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"},
		{"7g.80gb"}};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		size_t n = 0;
		while (n < 8 && v[i][n])
			n++;
		assert_int_equal(fits(v[i], n, NULL), 0);
	}
}

static void what_does_not_fit_is_named(void **state)
{
	static const struct {
		const char *v[8], *words;
	} w[] = {{{"5g.50gb"},
		  "\"5g.50gb\" is no part that it has: it can be cut in 1g.10gb, 1g.10gb.me, 1g.20gb, 2g.20gb"},
		 {{"3g.40gb", "3g.40gb", "1g.10gb"}, "3g.40gb 3g.40gb 1g.10gb do not fit beside each other"},
		 {{"1g.10gb.me", "1g.10gb.me"}, "it has 1 of 1g.10gb.me at most"},
		 {{"7g.80gb", "1g.10gb"}, "do not fit"}};
	for (size_t i = 0; i < sizeof(w) / sizeof(w[0]); i++) {
		struct td_error err = TD_ERROR_INIT;
		size_t n = 0;
		while (n < 8 && w[i].v[n])
			n++;
		assert_int_equal(fits(w[i].v, n, &err), TD_INVALID);
		assert_non_null(strstr(err.msg, w[i].words));
	}
	struct td_error err = TD_ERROR_INIT;
	int at[TD_CUT_PARTS];
	const char *one[] = {"1g.10gb"};
	assert_int_equal(td_pool_cut_place(NULL, 0, one, 1, at, &err), TD_INVALID);
	assert_int_equal(td_pool_cut_place(h100, KINDS, NULL, 0, at, &err), 0);
}

// Every placement, tried in the order of the wish.
static bool any(const int *kind, size_t n, size_t k, uint32_t taken)
{
	if (k == n)
		return true;
	for (int at = 0; at < 8; at++) {
		uint32_t its = (uint32_t)((UINT64_C(1) << h100[kind[k]].size) - 1) << at;
		if ((h100[kind[k]].at >> at & 1) && !(its & taken) && any(kind, n, k + 1, taken | its))
			return true;
	}
	return false;
}

// Every wish of up to five parts, in every order.
static void it_finds_a_place_exactly_where_there_is_one(void **state)
{
	size_t found = 0, all = 0;
	for (size_t n = 1; n <= 5; n++) {
		int kind[5] = {0};
		for (bool more = true; more; all++) {
			const char *wish[5];
			int count[KINDS] = {0};
			bool may = true;
			for (size_t i = 0; i < n; i++) {
				wish[i] = h100[kind[i]].name;
				may &= ++count[kind[i]] <= h100[kind[i]].most;
			}
			bool is = !fits(wish, n, NULL);
			assert_int_equal(is, may && any(kind, n, 0, 0));
			found += is;
			size_t k = 0;
			while (k < n && ++kind[k] == KINDS)
				kind[k++] = 0;
			more = k < n;
		}
	}
	assert_true(found > 100 && found < all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usual_layouts_fit),
		cmocka_unit_test(what_does_not_fit_is_named),
		cmocka_unit_test(it_finds_a_place_exactly_where_there_is_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
