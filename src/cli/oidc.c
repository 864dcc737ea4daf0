// Logging in by the site's own issuer, through the gateway: an address and a code that are confirmed in
// any browser. tandem kubeconfig gives kubectl the same login.
#include "cli/oidc.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/file.h"
#include "cmd/roles.h"
#include "json/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { FIRST_MS = 1000, GOOD_S = 60, INTERVAL_S = 5, INTERVAL_MOST_S = 300, WAIT_MOST_S = 3600 };

static char *place(const char *ext)
{
	td_auto_free char *login = td_client_place();
	*strrchr(login, '/') = '\0';
	return td_asprintf("%s/oidc.%s", login, ext);
}

static int64_t bounded(int64_t n, int64_t most)
{
	return n < 1 ? 1 : n > most ? most : n;
}

static int ask(struct td_client *c, const char *path, const char *field, const char *value, const char *name,
	       struct td_json **ret, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_str(d, yyjson_mut_doc_get_root(d), field, value);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "name", name);
	return td_client_call(c, "POST", path, d, ret, err);
}

int td_client_by_issuer(struct td_client *c, const char *host, struct td_json **ret_tokens, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *begun = NULL, *got = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *none = td_jm_new();
	int r = td_client_call(c, "POST", "/api/v1/login/device", none, &begun, err);
	if (r)
		return r;
	yyjson_val *b = td_json_root(begun);
	const char *complete = td_jstr(b, "complete"), *device = td_jstr_or(b, "device", "");
	int64_t interval = bounded(td_jint(b, "interval", INTERVAL_S), INTERVAL_MOST_S),
		left_s = bounded(td_jint(b, "expires", 600), WAIT_MOST_S);
	fprintf(stderr, "Open %s in any browser, and confirm there that the code is %s.\n",
		complete ? complete : td_jstr_or(b, "address", "?"), td_jstr_or(b, "code", "?"));

	int64_t until = td_mono_ms(&td_clock_system) + left_s * 1000, wait_ms = FIRST_MS;
	while (!got && td_mono_ms(&td_clock_system) < until) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		td_cancel_wait(NULL, wait_ms);
		r = ask(c, "/api/v1/login/device/key", "device", device, host, &j, err);
		// Who does not answer now is asked half as often (RFC 8628, 3.5).
		bool later = r == TD_TRANSIENT || r == TD_THROTTLED;
		if (r && !later)
			return r;
		interval =
			bounded(interval + (later ? interval : td_jint(td_json_root(j), "longer", 0)), INTERVAL_MOST_S);
		wait_ms = interval * 1000;
		if (!later && !td_jbool(td_json_root(j), "waiting", false))
			got = td_steal(j);
	}
	if (r)
		return td_wrap(err, "nobody confirmed the login in time, or the answer was lost: begin again");
	const char *key = td_jstr(td_json_root(got), "key");
	if (!key)
		return td_fail(err, TD_UNAUTHENTICATED, "nobody confirmed the login in time: begin again");
	c->key = td_strdup(key);
	*ret_tokens = td_steal(got);
	return 0;
}

int td_client_tokens_save(const char *url, yyjson_val *tokens, struct td_error *err)
{
	td_auto_free char *path = place("json"), *dir = td_strdup(path);
	*strrchr(dir, '/') = '\0';
	int r = td_mkdir_p(dir, 0700, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "url", url);
	static const char *const fields[] = {"idToken", "refresh", "expires"};
	for (size_t i = 0; i < TD_LEN(fields); i++)
		td_jm_copyval(d, o, fields[i], td_jkey(tokens, fields[i]));
	return td_record_write(path, o, 0600, err);
}

int td_client_tokens_forget(struct td_error *err)
{
	td_auto_free char *path = place("json");
	return unlink(path) && errno != ENOENT ? td_fail_errno(err, TD_INTERNAL, errno, "remove %s", path) : 0;
}

// The ID token that is kept, renewed when it ends soon. One at a time: what renews a token may count
// once only.
static int token(struct td_json **ret, struct td_error *err)
{
	td_auto_free char *path = place("json"), *lock = place("lock");
	td_auto_close int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if ((fd < 0 && errno != ENOENT) || (fd >= 0 && flock(fd, LOCK_EX) < 0)) // ENOENT: nor is there a login
		return td_fail_errno(err, TD_INTERNAL, errno, "lock %s", lock);
	td_auto(td_json_unref) struct td_json *kept = NULL, *fresh = NULL;
	int r = td_record_read(path, &kept, err);
	if (r)
		return r == TD_NOT_FOUND
			       ? td_fail(err, r, "log in by your site's own login first: tandem login --oidc URL")
			       : r;
	yyjson_val *k = td_json_root(kept);
	if (td_jint(k, "expires", 0) > td_real_ms(&td_clock_system) / 1000 + GOOD_S) {
		*ret = td_steal(kept);
		return 0;
	}
	const char *refresh = td_jstr(k, "refresh");
	if (!refresh)
		return td_fail(err, TD_UNAUTHENTICATED,
			       "the login has ended, and the issuer renews none: tandem login --oidc URL");
	td_auto_client struct td_client c = {0};
	if ((r = td_client_open(&c, err)))
		return r;
	// What renews the login is for nobody but the gateway that gave it.
	if (!td_streq(c.url, td_jstr(k, "url")))
		return td_fail(err, TD_INVALID,
			       "the login is one at %s, and $TANDEM_URL says %s: tandem login --oidc %s",
			       td_jstr_or(k, "url", "?"), c.url, c.url);
	if ((r = ask(&c, "/api/v1/oidc/token", "refresh", refresh, NULL, &fresh, err)))
		return r == TD_UNAUTHENTICATED ? td_wrap(err, "log in again with tandem login --oidc %s", c.url) : r;
	// An issuer that gives nothing new to renew with means the old one.
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(fresh));
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	if (!td_jm_getstr(o, "refresh"))
		td_jm_str(d, o, "refresh", refresh);
	td_auto(td_json_unref) struct td_json *all = td_json_from_mut(o);
	if ((r = td_client_tokens_save(c.url, td_json_root(all), err)))
		return r;
	*ret = td_steal(all);
	return 0;
}

// What kubectl asks its plug-in for (client.authentication.k8s.io/v1).
static int credential(struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *t = NULL;
	char when[TD_TIME_LEN];
	int r = token(&t, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "apiVersion", "client.authentication.k8s.io/v1");
	td_jm_str(d, o, "kind", "ExecCredential");
	td_jm_str(d, o, "status.token", td_jstr(td_json_root(t), "idToken"));
	td_jm_str(d, o, "status.expirationTimestamp",
		  td_time_format(td_jint(td_json_root(t), "expires", 0) * 1000, when));
	td_auto_free char *text = td_json_mut_text(o, NULL);
	puts(text);
	return 0;
}

static int kubeconfig(struct td_error *err)
{
	td_auto_client struct td_client c = {0};
	td_auto(td_json_unref) struct td_json *j = NULL, *good = NULL;
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	int r = token(&good, err); // or kubectl would be the first to say that there is no login
	if (!r)
		r = td_client_open(&c, err);
	if (!r)
		r = td_client_call(&c, "GET", "/api/v1/kubeconfig", NULL, &j, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *cluster, *context, *user;
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_str(d, o, "kind", "Config");
	td_jm_str(d, o, "current-context", "tandem");
	cluster = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "clusters"));
	td_jm_str(d, cluster, "name", "tandem");
	td_jm_str(d, cluster, "cluster.server", td_jstr(td_json_root(j), "server"));
	td_jm_str(d, cluster, "cluster.certificate-authority-data", td_jstr(td_json_root(j), "ca"));
	context = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "contexts"));
	td_jm_str(d, context, "name", "tandem");
	td_jm_str(d, context, "context.cluster", "tandem");
	td_jm_str(d, context, "context.user", "tandem");
	user = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "users"));
	td_jm_str(d, user, "name", "tandem");
	td_jm_str(d, user, "user.exec.apiVersion", "client.authentication.k8s.io/v1");
	td_jm_str(d, user, "user.exec.command", *self ? self : "tandem");
	td_jm_str(d, user, "user.exec.interactiveMode", "Never");
	yyjson_mut_val *args = td_jm_arr(d, user, "user.exec.args");
	yyjson_mut_arr_add_str(d, args, "kubeconfig");
	yyjson_mut_arr_add_str(d, args, "--token");
	td_auto(td_json_unref) struct td_json *all = td_json_from_mut(o);
	td_auto_free char *text = td_yaml_text(td_json_root(all));
	fputs(text, stdout);
	return 0;
}

int td_kubeconfig_main(int argc, char **argv)
{
	bool only_token = false;
	int code;
	struct td_error err = TD_ERROR_INIT;
	const struct td_option options[] = {
		{.name = "token",
		 TD_OPT_SWITCH(&only_token),
		 .help = "prints what kubectl asks its plug-in for instead"},
	};
	const struct td_command line = {
		.name = "kubeconfig",
		.about = "Prints a kubeconfig with which kubectl is you, by the login of `tandem login --oidc`: tandem "
			 "kubeconfig > ~/.kube/tandem. It holds no secret; kubectl asks this command for a token each "
			 "time, which is renewed when need be.",
		.options = options,
		.n = TD_LEN(options)};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	return (only_token ? credential(&err) : kubeconfig(&err)) ? td_client_failed("kubeconfig", &err) : 0;
}
