// tandem env list|delete, tandem data list|delete: what was made or fetched for one's runs, on the cluster.
#include "cli/envs.h"

#include "cli/client.h"
#include "cmd/roles.h"

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
	printf("%-20s  %-8s %7.1f MB  %-13s %s\n", td_jstr_or(e, "key", "?"),
	       td_jstr_or(e, "python", td_jstr_or(e, "kind", "?")), (double)td_jint(e, "bytes", 0) / 1e6,
	       td_client_when(td_jint(e, "used", 0), when, sizeof(when)), td_buf_str(&of));
}

// what: "env" or "data".
static int made(const char *what, const char *verb, const char *key, bool json)
{
	bool env = !strcmp(what, "env");
	struct td_error err = TD_ERROR_INIT;
	td_auto_client struct td_client c = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_buf struct td_buf path = {0};
	bool remove = !strcmp(verb, "delete");
	td_buf_puts(&path, env ? "/api/v1/environments" : "/api/v1/data");
	if (remove) {
		td_buf_putc(&path, '/');
		td_url_escape(&path, key);
	}
	if (td_client_open(&c, &err) ||
	    td_client_call(&c, remove ? "DELETE" : "GET", td_buf_str(&path), NULL, &j, &err))
		return td_client_failed(what, &err);
	if (remove) {
		printf("%s %s is deleted.\n", env ? "Environment" : "Data set", key);
		return 0;
	}
	if (json) {
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
		return 0;
	}
	printf("%-20s  %-8s %10s  %-13s %s\n", "KEY", env ? "PYTHON" : "BY", "SIZE", "LAST USED", env ? "OF" : "FROM");
	size_t i, n;
	yyjson_val *e;
	yyjson_arr_foreach (td_jget(td_json_root(j), "made"), i, n, e)
		show(e);
	return 0;
}

int td_cli_envs(const char *verb, const char *key, bool json)
{
	return made("env", verb, key, json);
}

int td_data_main(int argc, char **argv)
{
	const char *output = NULL;
	char **words;
	int code;
	const struct td_option options[] = {{.name = "output",
					     .letter = 'o',
					     .value = "FORMAT",
					     .help = "of list; json: for machines",
					     TD_OPT_TEXT(&output),
					     .choices = "json"}};
	const struct td_command line = {
		.name = "data",
		.usage = "list [-o json] | data delete KEY",
		.about = "The data sets that were fetched on the cluster for your runs (`data` of "
			 "tandem.yaml), with their last use. `delete` removes one; the next run "
			 "that needs it has it fetched anew.",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = 2,
		.args = "list|delete",
		.choices = "list|delete"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	bool remove = !strcmp(words[0], "delete");
	if (!remove && strcmp(words[0], "list") != 0)
		return td_command_wrong("data", "\"%s\": give list or delete", words[0]);
	if (remove != !!words[1])
		return td_command_wrong("data", remove ? "delete: which one?" : "list takes no KEY");
	return made("data", words[0], words[1], output != NULL);
}
