// tandem schedule: one's runs that are submitted by the clock.
#include "cli/client.h"
#include "cmd/roles.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *utc(int64_t at, char *buf, size_t n)
{
	struct tm tm;
	time_t t = at;
	strftime(buf, n, "%Y-%m-%d %H:%M UTC", gmtime_r(&t, &tm));
	return buf;
}

void td_client_schedule_say(yyjson_val *s)
{
	char when[32];
	printf("Schedule %s: next at %s.\n", td_jstr_or(s, "id", "?"), utc(td_jint(s, "next", 0), when, sizeof(when)));
}

static int list(struct td_client *c, bool json, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_client_call(c, "GET", "/api/v1/schedules", NULL, &j, err);
	if (r)
		return r;
	if (json) {
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
		return 0;
	}
	printf("%-28s %-16s %-21s %s\n", "SCHEDULE", "WHEN (UTC)", "NEXT", "LAST RUN");
	size_t i, n;
	yyjson_val *s;
	yyjson_arr_foreach (td_jget(td_json_root(j), "schedules"), i, n, s) {
		char when[32] = "never";
		if (td_jint(s, "next", 0))
			utc(td_jint(s, "next", 0), when, sizeof(when));
		printf("%-28s %-16s %-21s %s\n", td_jstr_or(s, "id", "?"), td_jstr_or(s, "cron", "?"), when,
		       td_jstr_or(s, "run", ""));
		if (td_jstr(s, "problem"))
			printf("      | not submitted: %s\n", td_jstr(s, "problem"));
	}
	return 0;
}

int td_schedule_main(int argc, char **argv)
{
	const char *output = NULL;
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	const struct td_option options[] = {TD_CLIENT_OUTPUT(&output)};
	const struct td_command line = {
		.name = "schedule",
		.usage = "list [-o json] | schedule cancel ID",
		.about =
			"Your runs that are submitted by the clock, which is UTC. `tandem submit` makes them, from "
			"`schedule: \"0 3 * * *\"` in the job file or with --schedule. `cancel` ends one; runs that it "
			"has submitted go on.",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = 2,
		.args = "list|cancel",
		.choices = "list|cancel"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	bool end = !strcmp(words[0], "cancel");
	if (!end && strcmp(words[0], "list") != 0)
		return td_command_wrong("schedule", "\"%s\": give list or cancel", words[0]);
	if (end != !!words[1])
		return td_command_wrong("schedule", end ? "cancel: which one?" : "list takes no ID");
	td_auto_client struct td_client c = {0};
	int r = td_client_open(&c, &err);
	if (!r && end) {
		td_auto_buf struct td_buf path = {0};
		td_buf_puts(&path, "/api/v1/schedules/");
		td_url_escape(&path, words[1]);
		r = td_client_call(&c, "DELETE", td_buf_str(&path), NULL, NULL, &err);
		if (!r)
			printf("Schedule %s is cancelled.\n", words[1]);
	} else if (!r) {
		r = list(&c, output != NULL, &err);
	}
	return r ? td_client_failed("schedule", &err) : 0;
}
