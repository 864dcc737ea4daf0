// tandem key: one's own API keys, at the gateway.
#include "base/clock.h"
#include "cli/client.h"
#include "cli/common.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <string.h>

enum { DAY_S = 86400 };

struct key_asked {
	const char *project, *name, *output;
	int days; // 0: it does not end
};

static int list(struct td_client *c, const struct key_asked *a, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_client_call(c, "GET", "/api/v1/keys", NULL, &j, err);
	if (!r)
		td_cli_keys(td_json_root(j), false, a->output != NULL);
	return r;
}

static int create(struct td_client *c, const struct key_asked *a, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "name", a->name ? a->name : a->project ? a->project : "by tandem key");
	td_jm_int(d, o, "days", a->days);
	td_jm_str(d, o, "project", a->project);
	int r = td_client_call(c, "POST", "/api/v1/keys", d, &j, err);
	if (r)
		return r;
	td_auto_free char *text = a->output ? td_json_pretty(td_json_root(j)) : NULL;
	puts(text ? text : td_jstr_or(td_json_root(j), "key", ""));
	return 0;
}

static int revoke(struct td_client *c, const char *id, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	td_buf_puts(&path, "/api/v1/keys/");
	td_url_escape(&path, id);
	return td_client_call(c, "DELETE", td_buf_str(&path), NULL, NULL, err);
}

// Another key like this one, which then goes. If this ends in between, both are good, and `list` shows them.
static int rotate(struct td_client *c, const char *id, const char *output, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_client_call(c, "GET", "/api/v1/keys", NULL, &j, err);
	if (r)
		return r;
	const yyjson_val *k = td_jfind(td_jget(td_json_root(j), "keys"), "id", id);
	if (!k)
		return td_fail(err, TD_NOT_FOUND, "you have no key \"%.20s\": `tandem key list` shows yours", id);
	long long ends = td_jint(k, "expires", 0), left = ends - td_real_ms(&td_clock_system) / 1000;
	if (ends && left <= 0)
		return td_fail(err, TD_INVALID, "key %.20s has ended: make another one with `tandem key create`", id);
	const struct key_asked like = {.project = td_jstr(k, "project"),
				       .name = td_jstr_or(k, "name", "by tandem key"),
				       .output = output,
				       .days = ends ? (int)((left + DAY_S - 1) / DAY_S) : 0};
	r = create(c, &like, err);
	return r ? r : revoke(c, id, err);
}

int td_key_main(int argc, char **argv)
{
	struct key_asked a = {0};
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "project",
		 .value = "PROJECT",
		 TD_OPT_TEXT(&a.project),
		 .help = "of create: the key does nothing outside of this project (its account)"},
		{.name = "for", .value = "WHAT", TD_OPT_TEXT(&a.name), .help = "of create: what the key is for"},
		{.name = "days",
		 .value = "N",
		 TD_OPT_INT(&a.days, 1, 3650),
		 .help = "of create: it ends after so many days (default: never)"},
		TD_CLIENT_OUTPUT(&a.output),
	};
	const struct td_command line = {
		.name = "key",
		.about = "Keeps your API keys at the gateway where you have logged in, for programs that act as you "
			 "($TANDEM_URL, $TANDEM_KEY):\n"
			 "  tandem key list                those that there are, without their secrets\n"
			 "  tandem key create              makes one, and prints it this once\n"
			 "  tandem key rotate KEY          makes another like it, and revokes it\n"
			 "  tandem key revoke KEY          it is refused within a second",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = 2,
		.args = "list|create|rotate|revoke [KEY]",
		.choices = "list|create|rotate|revoke"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	bool lists = !strcmp(words[0], "list"), makes = !strcmp(words[0], "create"),
	     turns = !strcmp(words[0], "rotate");
	if (!lists && !makes && !turns && strcmp(words[0], "revoke") != 0)
		return td_command_wrong("key", "\"%s\": give list, create, rotate or revoke", words[0]);
	if (lists || makes ? words[1] != NULL : !words[1])
		return td_command_wrong("key", "%s: give %s", words[0],
					lists || makes ? "nothing else"
						       : "the key's id, as `tandem key list` shows it");
	if (!makes && (a.project || a.name || a.days))
		return td_command_wrong("key", "%s: --%s is of create", words[0],
					a.project ? "project"
					: a.name  ? "for"
						  : "days");
	td_auto_client struct td_client c = {0};
	int r = td_client_open(&c, &err);
	if (!r)
		r = lists   ? list(&c, &a, &err)
		    : makes ? create(&c, &a, &err)
		    : turns ? rotate(&c, words[1], a.output, &err)
			    : revoke(&c, words[1], &err);
	if (!r && !lists && !makes && !turns && !a.output)
		printf("Key %s is revoked.\n", words[1]);
	return r ? td_client_failed("key", &err) : 0;
}
