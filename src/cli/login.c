// tandem login: makes an API key for this machine at a gateway, and keeps it for the other commands.
// tandem logout revokes it.
#include "cli/oidc.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

// A line from the terminal without an echo, or from the standard input. The caller wipes and frees it;
// NULL: there was none.
static char *secret(const char *ask)
{
	struct termios old, quiet;
	bool tty = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &old);
	if (tty) {
		fputs(ask, stderr);
		quiet = old;
		quiet.c_lflag &= ~(tcflag_t)ECHO;
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
	}
	char *line = NULL;
	size_t cap = 0;
	ssize_t n = getline(&line, &cap, stdin);
	if (tty) {
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
		fputc('\n', stderr);
	}
	if (n <= 0) {
		free(line);
		return NULL;
	}
	line[strcspn(line, "\r\n")] = '\0';
	return line;
}

static int by_password(struct td_client *c, const char *password, const char *host, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "user", c->user);
	td_jm_str(d, o, "password", password);
	td_jm_str(d, o, "name", host);
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_client_call(c, "POST", "/api/v1/login/key", d, &j, err);
	if (!r)
		c->key = td_strdup(td_jstr(td_json_root(j), "key"));
	return r ? r : c->key ? 0 : td_fail(err, TD_INVALID, "%s is no gateway of Tandem's", c->url);
}

// Once more with the key: it must be good, and it says whose it is. tokens: of the site's issuer, or NULL.
static int keep(struct td_client *c, yyjson_val *tokens, struct td_error *err)
{
	td_http_client_free(c->http);
	c->http = NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_client_connect(c, err);
	if (!r)
		r = td_client_call(c, "GET", "/api/v1/whoami", NULL, &j, err);
	if (r)
		return r;
	free(c->user);
	c->user = td_strdup(td_jstr_or(td_json_root(j), "user", "?"));
	if ((r = td_client_save(c, err)) ||
	    (r = tokens ? td_client_tokens_save(c->url, tokens, err) : td_client_tokens_forget(err)))
		return r;
	printf("You are %s at %s (cluster %s).\n", c->user, c->url, td_jstr_or(td_json_root(j), "cluster", "?"));
	return 0;
}

static int by_issuer(struct td_client *c, struct td_error *err)
{
	char host[65] = "";
	td_auto(td_json_unref) struct td_json *tokens = NULL;
	gethostname(host, sizeof(host) - 1);
	int r = td_client_connect(c, err);
	if (!r)
		r = td_client_by_issuer(c, *host ? host : "laptop", &tokens, err);
	return r ? r : keep(c, td_json_root(tokens), err);
}

static int log_in(struct td_client *c, bool with_key, struct td_error *err)
{
	char host[65] = "";
	gethostname(host, sizeof(host) - 1);
	int r = td_client_connect(c, err); // a wrong address is told before anything secret is typed
	if (r)
		return r;
	char *s = secret(with_key ? "Key: " : "Password: ");
	if (!s || !*s) {
		free(s);
		return td_fail(err, TD_INVALID, "no %s was given: type it, or pipe it in",
			       with_key ? "key" : "password");
	}
	if (with_key)
		c->key = td_strdup(s);
	else
		r = by_password(c, s, *host ? host : "laptop", err);
	explicit_bzero(s, strlen(s));
	free(s);
	return r ? r : keep(c, NULL, err);
}

int td_login_main(int argc, char **argv)
{
	const char *user = NULL, *ca = NULL;
	bool key = false, oidc = false;
	char **words;
	int code;
	struct td_error err = TD_ERROR_INIT;
	const struct td_option options[] = {
		{.name = "user",
		 .letter = 'u',
		 .value = "NAME",
		 TD_OPT_TEXT(&user),
		 .help = "who you are there (default: your name here)"},
		{.name = "key", TD_OPT_SWITCH(&key), .help = "asks for an API key instead of a password"},
		{.name = "oidc",
		 TD_OPT_SWITCH(&oidc),
		 .help = "by your site's own login, confirmed in any browser; the key ends after 30 days"},
		{.name = "ca",
		 .value = "FILE",
		 TD_OPT_TEXT(&ca),
		 .help = "checks the gateway's certificate with this one (PEM)"},
	};
	const struct td_command line = {
		.name = "login",
		.about = "Logs in at a gateway, whose address its administrator gives you (on one machine `tandem up` "
			 "prints it). It asks for your password, or reads it from the standard input; makes an API key "
			 "for this machine; and keeps that in ~/.config/tandem/login.json, which only you can read. "
			 "`tandem logout` revokes it.",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = 1,
		.args = "URL"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	td_auto_client struct td_client c = {.url = td_strdup(words[0]), .ca = td_strdup(ca)};
	for (size_t n = strlen(c.url); n && c.url[n - 1] == '/'; n--)
		c.url[n - 1] = '\0';
	const char *name = getenv("USER");
	c.user = td_strdup(user ? user : name && *name ? name : "");
	if (oidc && (key || user))
		return td_command_wrong("login",
					"--oidc goes with neither --user nor --key: your site says who you are");
	return (oidc ? by_issuer(&c, &err) : log_in(&c, key, &err)) ? td_client_failed("login", &err) : 0;
}

int td_logout_main(int argc, char **argv)
{
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_command line = {.name = "logout",
					.about = "Revokes the key that `tandem login` made, and forgets it."};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	td_auto_client struct td_client c = {0};
	int r = td_client_open(&c, &err);
	if (r == TD_NOT_FOUND) {
		puts("You are not logged in.");
		return 0;
	}
	if (!r && c.key && strlen(c.key) > 12) {
		td_auto_free char *path = td_asprintf("/api/v1/keys/%.8s", c.key + 4);
		r = td_client_call(&c, "DELETE", path, NULL, NULL, &err);
		if (r == TD_UNAUTHENTICATED) // it is no longer good anyway
			r = 0;
	}
	// The tokens first: whoever has none of them but a login may log out once more.
	if (!r)
		r = td_client_tokens_forget(&err);
	if (!r)
		r = td_client_forget(&err);
	return r ? td_client_failed("logout", &err) : 0;
}
