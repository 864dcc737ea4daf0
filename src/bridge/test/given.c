#include "bridge/test/given.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct td_json *given_json(const char *s)
{
	struct td_json *j = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_json_parse(s, strlen(s), &j, &err))
		fail_msg("%s: %s", s, err.msg);
	return j;
}

struct td_settings *given_settings(const char *spec)
{
	td_auto_free char *s = td_asprintf("{\"metadata\":{\"uid\":\"c1\"},\"spec\":%s}", spec);
	td_auto(td_json_unref) struct td_json *j = given_json(s);
	return td_settings_read(td_json_root(j));
}
