// Helpers of tests: documents from YAML text, and comparisons with readable failures.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/kinds.h"

__attribute__((unused)) static struct td_json *Y(const char *s)
{
	struct td_json_list l = {0};
	struct td_error err = TD_ERROR_INIT;
	if (td_yaml_parse(s, strlen(s), &l, &err) || l.n != 1)
		fail_msg("test YAML: %s\n%s", err.msg, s);

	struct td_json *j = td_json_ref(l.v[0]);
	td_json_list_done(&l);
	return j;
}

__attribute__((unused)) static void assert_json(const yyjson_val *have, const char *want)
{
	td_auto(td_json_unref) struct td_json *w = Y(want);
	if (td_jequal(have, td_json_root(w)))
		return;
	td_auto_free char *h = td_yaml_text(have), *t = td_yaml_text(td_json_root(w));
	fail_msg("have:\n%s\nwant:\n%s", h, t);
}

__attribute__((unused)) static bool has_cause(const struct td_causes *c, const char *reason, const char *field,
					      const char *part)
{
	for (size_t i = 0; i < c->n; i++)
		if ((!reason || !strcmp(c->v[i].reason, reason)) && !strcmp(c->v[i].field, field) &&
		    strstr(c->v[i].message, part))
			return true;

	for (size_t i = 0; i < c->n; i++)
		print_message("cause: %s %s: %s\n", c->v[i].reason, c->v[i].field, c->v[i].message);
	return false;
}
