// rows: C6.3
// What a hub tells its members of limits, of what they said themselves.
#include "gateway/hub.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct td_gateway g;
static struct td_hub *hub;

static struct td_json *json(const char *text)
{
	struct td_json *j = NULL;
	struct td_error e = TD_ERROR_INIT;
	if (td_json_parse(text, strlen(text), &j, &e))
		fail_msg("%s", e.msg);
	return j;
}

static void federation(const char *users)
{
	td_auto_free char *text = td_asprintf(
		"{\"metadata\": {\"name\": \"campus\"}, \"spec\": {\"members\": [{\"name\": \"east\"}, {\"name\": "
		"\"west\"}], \"teams\": [{\"name\": \"free\", \"users\": [\"bob\"]}, {\"name\": \"lab\", \"accounts\": "
		"[\"physics\"], \"users\": [\"ann\", \"bob\"%s]}], \"limits\": [{\"team\": \"lab\", \"gpus\": 8}]}}",
		users);
	td_auto(td_object_unref) struct td_object *o = td_object_new(json(text));
	g.hubs = td_hubs_new();
	hub = td_hub_of(o);
}

static int done(void **state)
{
	hub = td_hub_unref(hub);
	g.hubs = td_hubs_free(g.hubs);
	return 0;
}

static void said(const char *member, const char *look)
{
	td_auto(td_json_unref) struct td_json *j = json(look);
	td_hub_heard(&g, member, NULL, j);
}

static char *word(const char *member, bool *ret_long)
{
	const struct td_hub_view v = {.hub = hub};
	td_auto(td_hub_words_free) struct td_hub_words *w = td_hub_words(&g, &v);
	return td_hub_word(w, member, ret_long);
}

static void it_is_of_what_all_members_said(void **state)
{
	bool too_long;
	federation("");
	said("east", "{\"limits\": {}, \"held\": [{\"account\": \"physics\", \"user\": \"eve\", \"gpus\": 2}, "
		     "{\"account\": \"open\", "
		     "\"user\": \"ann\", \"gpus\": 1}, {\"account\": \"open\", \"user\": \"bob\", \"gpus\": 4}, "
		     "{\"account\": \"physics\", \"user\": \"eve\", \"gpus\": -9}]}");
	assert_null(word("east", &too_long)); // what west holds is not known
	assert_false(too_long);
	said("west", "{\"limits\": {}, \"held\": [{\"account\": \"physics\", \"user\": \"bob\", \"gpus\": 3}]}");
	td_auto_free char *text = word("east", &too_long);
	td_auto(td_json_unref) struct td_json *j = json(text),
					      *want = json("[{\"accounts\": [\"physics\"], \"users\": [\"ann\"], "
							   "\"rows\": [[\"physics\", \"eve\", 2], [\"open\", "
							   "\"ann\", 1]], \"people\": [[\"eve\", 2, 0], [\"ann\", 1, "
							   "0], [\"bob\", 3, 0]], \"at\": [[\"east\", 3], "
							   "[\"west\", 3]], \"name\": \"lab\", \"gpus\": 8, "
							   "\"perUser\": -1, \"used\": 6, \"waits\": 0, \"alone\": 4, "
							   "\"userAlone\": -1, \"spent\": false}]");
	if (!td_jequal(td_jget(td_json_root(j), "teams"), td_json_root(want)))
		fail_msg("%s", text);
	assert_null(word("north", &too_long)); // no member
}

static void one_that_is_too_long_is_known_to_be(void **state)
{
	bool too_long;
	td_auto_buf struct td_buf b = {0};
	for (int i = 0; i < 9000; i++)
		td_buf_printf(&b, ", \"somebody-with-quite-a-name-%05d\"", i);
	federation(td_buf_str(&b));
	said("east", "{\"limits\": {}, \"held\": []}");
	said("west", "{\"limits\": {}, \"held\": []}");
	assert_null(word("east", &too_long));
	assert_true(too_long);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(it_is_of_what_all_members_said, done),
		cmocka_unit_test_teardown(one_that_is_too_long_is_known_to_be, done),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
