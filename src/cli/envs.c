// tandem env list, tandem env delete: one's Python environments on the cluster.
#include "cli/envs.h"

#include "cli/client.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static void show(yyjson_val *e)
{
	char when[32];
	td_auto_buf struct td_buf of = {0};
	size_t i, n;
	yyjson_val *s;
	yyjson_arr_foreach (td_jget(e, "of"), i, n, s)
		if (of.len < 60)
			td_buf_printf(&of, "%s%s", i ? ", " : "", yyjson_get_str(s));
		else if (of.s[of.len - 1] != '.')
			td_buf_puts(&of, " ...");
	printf("%-20s  %-8s %7.1f MB  %-13s %s\n", td_jstr_or(e, "key", "?"), td_jstr_or(e, "python", "?"),
	       (double)td_jint(e, "bytes", 0) / 1e6, td_client_when(td_jint(e, "used", 0), when, sizeof(when)),
	       td_buf_str(&of));
}

int td_cli_envs(const char *verb, const char *key, bool json)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_client struct td_client c = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_buf struct td_buf path = {0};
	bool remove = !strcmp(verb, "delete");
	td_buf_puts(&path, "/api/v1/environments");
	if (remove) {
		td_buf_putc(&path, '/');
		td_url_escape(&path, key);
	}
	if (td_client_open(&c, &err) ||
	    td_client_call(&c, remove ? "DELETE" : "GET", td_buf_str(&path), NULL, &j, &err))
		return td_client_failed("env", &err);
	if (remove) {
		printf("Environment %s is deleted.\n", key);
		return 0;
	}
	if (json) {
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
		return 0;
	}
	printf("%-20s  %-8s %10s  %-13s %s\n", "KEY", "PYTHON", "SIZE", "LAST USED", "OF");
	size_t i, n;
	yyjson_val *e;
	yyjson_arr_foreach (td_jget(td_json_root(j), "made"), i, n, e)
		show(e);
	return 0;
}
