// rows: C10.5
// What a bill holds: lines of people while they fit, else sums of accounts.
#include "gateway/bills.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct crowd {
	int accounts, people; // people: of each account
	int name;             // letters of every name
};

static int bill(const struct crowd *c, struct td_json **ret, struct td_error *err)
{
	static const struct td_gateway_viewer nobody = {0};
	static const struct td_gateway_tariff tariff = {.currency = (char *)(uintptr_t)"EUR"};
	const struct td_period p = td_period_at(TD_PERIOD_MONTH, 20000);
	td_auto_usage struct td_usage rows = {0};
	td_auto_free char *text = NULL;
	for (int a = 0; a < c->accounts; a++)
		for (int u = 0; u < c->people; u++) {
			td_auto_free char *account = td_asprintf("a%0*d", c->name, a),
					  *user = td_asprintf("u%0*d", c->name, u);
			const struct td_usage_row r = {.day = 20000 + u % 5,
						       .account = account,
						       .user = user,
						       .type = (char *)(uintptr_t)"",
						       .sum = {.runs = 1, .cost = 2}};
			td_usage_put(&rows, &r);
		}
	int r = td_gateway_bill_text(&nobody, &tariff, &p, &rows, &text, err);
	if (!r) {
		assert_true(strlen(text) <= 900 << 10);
		assert_int_equal(td_json_parse(text, strlen(text), ret, NULL), 0);
	}
	return r;
}

static void people_while_they_fit(void **state)
{
	static const struct {
		struct crowd crowd;
		size_t lines;
		bool people;
	} rows[] = {
		{{3, 4, 1}, 12, true},       {{1, 4000, 5}, 4000, true}, {{2, 2001, 5}, 2, false}, // too many lines
		{{10, 300, 200}, 10, false}, // few, and too many bytes
		{{2000, 3, 5}, 2000, false},
	};
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		struct td_error err = TD_ERROR_INIT;
		if (bill(&rows[i].crowd, &j, &err))
			fail_msg("%zu: %s", i, err.msg);
		yyjson_val *lines = td_jget(td_json_root(j), "lines");
		assert_int_equal(yyjson_arr_size(lines), rows[i].lines);
		assert_int_equal(*td_jstr(td_json_root(j), "lines.[0].user") != '\0', rows[i].people);
		// Nothing is lost.
		assert_true(yyjson_get_num(td_jget(td_json_root(j), "total")) ==
			    2.0 * rows[i].crowd.accounts * rows[i].crowd.people);
	}
}

static void what_never_fits(void **state)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(bill(&(const struct crowd){4000, 1, 300}, &j, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, "spec.billing.period"));
	assert_null(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(people_while_they_fit), cmocka_unit_test(what_never_fits)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
