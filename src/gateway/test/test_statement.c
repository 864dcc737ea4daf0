// Statements of a federation's hub: who gets in by one, and who does not.
// rows: C6.1
#include "gateway/statement.h"
#include "http/pki.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define KEY "0123456789abcdef0123456789abcdef"
static const char hubs_text[] = "[{\"name\": \"campus\", \"as\": \"east\", \"users\": [\"ann\", \"bob\"]},"
				" {\"name\": \"open\", \"as\": \"east\", \"users\": [\"*\"]},"
				" {\"name\": \"shut\", \"as\": \"east\", \"users\": []}]";
static struct td_json *hubs;

static int code(const char *federation, const char *key, const char *token, int64_t now)
{
	struct td_error e = TD_ERROR_INIT;
	char *user = NULL;
	const struct td_statement_rule rule = {
		.hubs = td_json_root(hubs), .federation = federation, .key = key, .now = now};
	int r = td_statement_read(&rule, token, &user, &e);
	free(user);
	return r;
}

static int says(const struct td_statement *s, const char *key, int64_t at, int64_t now)
{
	td_auto_free char *bearer = td_statement_sign(s, key, at);
	assert_true(td_starts(bearer, TD_STATEMENT));
	const char *token = strchr(bearer + strlen(TD_STATEMENT), ':') + 1;
	return code(s->federation, KEY, token, now);
}

static void who_comes_in(void **state)
{
	struct td_error e = TD_ERROR_INIT;
	const struct td_statement ann = {"campus", "east", "ann"}, eve = {"campus", "east", "eve"},
				  any = {"open", "east", "eve"}, none = {"shut", "east", "ann"},
				  itself = {"campus", "east", NULL};
	assert_int_equal(says(&ann, KEY, 1000, 1000), 0);
	assert_int_equal(says(&any, KEY, 1000, 1000), 0);
	assert_int_equal(says(&itself, KEY, 1000, 1000), 0);
	assert_int_equal(says(&eve, KEY, 1000, 1000), TD_DENIED);
	assert_int_equal(says(&none, KEY, 1000, 1000), TD_DENIED);

	td_auto_free char *bearer = td_statement_sign(&ann, KEY, 1000), *user = NULL;
	const struct td_statement_rule rule = {
		.hubs = td_json_root(hubs), .federation = "campus", .key = KEY, .now = 1000};
	assert_int_equal(td_statement_read(&rule, strrchr(bearer, ':') + 1, &user, &e), 0);
	assert_string_equal(user, "ann");
}

static void who_does_not(void **state)
{
	const struct td_statement ann = {"campus", "east", "ann"}, other = {"campus", "west", "ann"},
				  unknown = {"elsewhere", "east", "ann"};
	// Another key, another member, another federation, another time.
	assert_int_equal(says(&ann, "0123456789abcdef0123456789abcdeX", 1000, 1000), TD_UNAUTHENTICATED);
	assert_int_equal(says(&other, KEY, 1000, 1000), TD_UNAUTHENTICATED);
	assert_int_equal(says(&unknown, KEY, 1000, 1000), TD_UNAUTHENTICATED);
	assert_int_equal(says(&ann, KEY, 1000, 1000 + TD_STATEMENT_LIFE_S + TD_STATEMENT_CLOCKS_S), TD_UNAUTHENTICATED);
	assert_int_equal(says(&ann, KEY, 1000 + TD_STATEMENT_CLOCKS_S + 1, 1000), TD_UNAUTHENTICATED);

	td_auto_free char *bearer = td_statement_sign(&ann, KEY, 1000);
	const char *token = strrchr(bearer, ':') + 1;
	assert_int_equal(code("open", KEY, token, 1000), TD_UNAUTHENTICATED); // of another federation with the same key
	assert_int_equal(code("campus", "", token, 1000), TD_UNAUTHENTICATED); // no key: nobody
	assert_int_equal(code("campus", "short", token, 1000), TD_UNAUTHENTICATED);

	// Signed by the right key, and no statement: a cookie, a longer life, somebody who is also the hub itself.
	static const char *const claims[] = {"{\"aud\": \"tandem-page\", \"sub\": \"ann\", \"exp\": 99999999999}",
					     "{\"for\": \"tandem-federation\", \"iss\": \"campus\", \"aud\": \"east\", "
					     "\"sub\": \"ann\", \"iat\": 1000, "
					     "\"exp\": 9999999}",
					     "{\"for\": \"tandem-federation\", \"iss\": \"campus\", \"aud\": \"east\", "
					     "\"sub\": \"ann\", \"hub\": true, "
					     "\"iat\": 1000, \"exp\": 1060}",
					     "{\"for\": \"tandem-federation\", \"iss\": \"campus\", \"aud\": \"east\", "
					     "\"iat\": 1000, \"exp\": 1060}",
					     "[]",
					     "no JSON"};
	for (size_t i = 0; i < TD_LEN(claims); i++) {
		td_auto_free char *t = td_jwt_sign(KEY, strlen(KEY), claims[i]);
		assert_int_equal(code("campus", KEY, t, 1000), TD_UNAUTHENTICATED);
	}
	assert_int_equal(code("campus", KEY, "", 1000), TD_UNAUTHENTICATED);
}

static int setup(void **state)
{
	return td_json_parse(hubs_text, strlen(hubs_text), &hubs, NULL);
}

static int teardown(void **state)
{
	hubs = td_json_unref(hubs);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(who_comes_in), cmocka_unit_test(who_does_not)};
	return cmocka_run_group_tests(tests, setup, teardown);
}
