#include "cli/client.h"

#include "base/file.h"
#include "base/rand.h"
#include "json/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CALL_MS = 120000, IDLE_MS = 0 };

char *td_client_own_dir(const char *variable, const char *below_home)
{
	const char *at = getenv(variable), *home = getenv("HOME");
	return at && *at == '/' ? td_asprintf("%s/tandem", at)
				: td_asprintf("%s/%s/tandem", home && *home == '/' ? home : "", below_home);
}

char *td_client_place(void)
{
	td_auto_free char *dir = td_client_own_dir("XDG_CONFIG_HOME", ".config");
	return td_asprintf("%s/login.json", dir);
}

bool td_client_known(void)
{
	td_auto_free char *path = td_client_place();
	const char *url = getenv("TANDEM_URL");
	return (url && *url) || td_path_exists(path);
}

int td_client_connect(struct td_client *c, struct td_error *err)
{
	if (!td_starts(c->url, "http://") && !td_starts(c->url, "https://"))
		return td_fail(err, TD_INVALID,
			       "\"%.200s\" is no address: it begins with https:// (or http:// on this machine)",
			       c->url);
	// A key in the clear could be read on the way.
	const char *host = strstr(c->url, "://") + 3;
	if (td_starts(c->url, "http://") && !td_starts(host, "127.") && !td_starts(host, "localhost") &&
	    !td_starts(host, "[::1]"))
		return td_fail(err, TD_INVALID, "%.200s: over a network give https://, so that nobody reads the key",
			       c->url);
	const struct td_http_client_opts o = {
		.base_url = c->url, .ca_file = c->ca, .bearer = c->key, .timeout_ms = CALL_MS};
	return td_http_client_new(&o, &c->http, err);
}

int td_client_open(struct td_client *ret, struct td_error *err)
{
	const char *url = getenv("TANDEM_URL"), *key = getenv("TANDEM_KEY"), *ca = getenv("TANDEM_CA");
	td_auto_client struct td_client c = {0};
	if (url && *url) {
		c.url = td_strdup(url);
		c.key = td_strdup(key);
		c.ca = td_strdup(ca);
	} else {
		td_auto_free char *path = td_client_place();
		td_auto(td_json_unref) struct td_json *j = NULL;
		int r = td_record_read(path, &j, err);
		if (r)
			return r == TD_NOT_FOUND ? td_fail(err, r, "log in first: tandem login URL") : r;
		c.url = td_strdup(td_jstr_or(td_json_root(j), "url", ""));
		c.key = td_strdup(td_jstr(td_json_root(j), "key"));
		c.user = td_strdup(td_jstr(td_json_root(j), "user"));
		c.ca = td_strdup(td_jstr(td_json_root(j), "ca"));
	}
	int r = td_client_connect(&c, err);
	if (r)
		return r;
	*ret = c;
	c = (struct td_client){0};
	return 0;
}

void td_client_close(struct td_client *c)
{
	td_http_client_free(c->http);
	if (c->key)
		explicit_bzero(c->key, strlen(c->key));
	free(c->url);
	free(c->user);
	free(c->key);
	free(c->ca);
	*c = (struct td_client){0};
}

int td_client_save(const struct td_client *c, struct td_error *err)
{
	td_auto_free char *path = td_client_place(), *dir = td_strdup(path);
	*strrchr(dir, '/') = '\0';
	int r = td_mkdir_p(dir, 0700, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "url", c->url);
	td_jm_str(d, o, "user", c->user);
	td_jm_str(d, o, "key", c->key);
	td_jm_str(d, o, "ca", c->ca);
	return td_record_write(path, o, 0600, err);
}

int td_client_forget(struct td_error *err)
{
	td_auto_free char *path = td_client_place();
	return unlink(path) && errno != ENOENT ? td_fail_errno(err, TD_INTERNAL, errno, "remove %s", path) : 0;
}

// The gateway's refusal in a reply.
static int refusal(const struct td_client *c, int status, const char *text, size_t n, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	const char *words = NULL;
	if (n && !td_json_parse(text, n, &j, NULL))
		words = td_jstr(td_json_root(j), "error.message");
	int code = status == 401   ? TD_UNAUTHENTICATED
		   : status == 403 ? TD_DENIED
		   : status == 404 ? TD_NOT_FOUND
		   : status == 409 ? TD_CONFLICT
		   : status == 429 ? TD_THROTTLED
		   : status == 501 ? TD_UNSUPPORTED
		   : status < 500  ? TD_INVALID
				   : TD_TRANSIENT;
	if (words)
		return td_fail(err, code, "%s", words);
	return td_fail(err, code, "%s answered with HTTP %d", c->url, status);
}

static int call(struct td_client *c, const struct td_http_call *k, struct td_json **ret, struct td_error *err)
{
	td_auto_reply struct td_http_reply rep = {0};
	int r = td_http_do(c->http, k, NULL, &rep, err);
	if (r)
		return td_wrap(err, "%s", c->url);
	if (rep.status / 100 != 2)
		return refusal(c, rep.status, td_buf_str(&rep.body), rep.body.len, err);
	if (!ret)
		return 0;
	r = td_json_parse(td_buf_str(&rep.body), rep.body.len, ret, err);
	return r ? td_wrap(err, "%s is no gateway of Tandem's", c->url) : 0;
}

int td_client_call(struct td_client *c, const char *method, const char *path, const yyjson_mut_doc *body,
		   struct td_json **ret, struct td_error *err)
{
	size_t n = 0;
	td_auto_free char *text =
		body ? td_json_mut_text(yyjson_mut_doc_get_root((yyjson_mut_doc *)(uintptr_t)body), &n) : NULL;
	const struct td_http_call k = {.method = method,
				       .path = path,
				       .body = text,
				       .body_len = n,
				       .content_type = body ? "application/json" : NULL};
	return call(c, &k, ret, err);
}

int td_client_put(struct td_client *c, const char *path, const void *p, size_t n, struct td_error *err)
{
	const struct td_http_call k = {
		.method = "PUT", .path = path, .body = p, .body_len = n, .content_type = "application/octet-stream"};
	return call(c, &k, NULL, err);
}

int td_client_stream(struct td_client *c, const char *path, int (*on_data)(void *ctx, const char *p, size_t n),
		     void *ctx, struct td_error *err)
{
	const struct td_http_call k = {
		.method = "GET", .path = path, .accept = "*/*", .on_data = on_data, .ctx = ctx, .idle_ms = IDLE_MS};
	td_auto_reply struct td_http_reply rep = {0};
	int r = td_http_do(c->http, &k, NULL, &rep, err);
	if (r)
		return td_wrap(err, "%s", c->url);
	return rep.status / 100 == 2 ? 0 : refusal(c, rep.status, td_buf_str(&rep.body), rep.body.len, err);
}

int td_client_dial(struct td_client *c, const struct td_ws_dial *d, struct td_ws_far **ret, struct td_error *err)
{
	td_auto_reply struct td_http_reply refused = {0};
	int r = td_ws_dial(c->http, d, NULL, ret, &refused, err);
	if (!r && refused.status)
		r = refusal(c, refused.status, td_buf_str(&refused.body), refused.body.len, err);
	return r;
}

const char *td_client_run(const char *word)
{
	const char *slash = strchr(word, '/');
	return slash && slash != word ? slash + 1 : word;
}

char *td_client_run_shown(yyjson_val *run)
{
	const char *member = td_jstr(run, "federation.member"), *id = td_jstr_or(run, "id", "?");
	return member ? td_asprintf("%s/%s", member, id) : td_strdup(id);
}

char *td_client_run_dir(const yyjson_val *run)
{
	return td_jget(run, "federation") ? td_strdup("")
					  : td_asprintf("~/tandem/runs/%s/", td_jstr_or(run, "id", "?"));
}

int td_client_failed(const char *name, const struct td_error *err)
{
	fprintf(stderr, "tandem %s: %s\n", name, err->msg);
	return 1;
}

void td_client_replicas(yyjson_val *session, struct td_buf *ret)
{
	yyjson_val *r = td_jget(session, "replicas"), *v;
	size_t i, n;
	if (td_jint(r, "asked", 0))
		td_buf_printf(ret, "  %lld/%lld ready", (long long)td_jint(r, "ready", 0),
			      (long long)td_jint(r, "asked", 0));
	yyjson_arr_foreach (td_jget(r, "each"), i, n, v) {
		const char *state = td_jstr_or(v, "state", "?"), *words = td_jstr_or(v, "words", "");
		bool unreached = td_jbool(v, "unreached", false);
		if (!strcmp(state, "ready") && !unreached)
			continue;
		td_buf_printf(ret, "; replica %lld %s", (long long)td_jint(v, "number", 0),
			      unreached ? "is not reached" : state);
		if (*words) // of last words the first
			td_buf_printf(ret, ": %.*s", (int)strcspn(words, "\n"), words);
	}
}

void td_client_nodes(yyjson_val *session, struct td_buf *ret)
{
	static const char *const over[] = {"done", "failed", "reclaimed", "stopped"};
	yyjson_val *r = td_jget(session, "nodes"), *v;
	size_t i, n;
	bool some = false;
	for (i = 0; i < TD_LEN(over); i++)
		if (td_streq(td_jstr(session, "state"), over[i]))
			return; // its words say what became of it
	if (td_jint(r, "asked", 0))
		td_buf_printf(ret, "  %lld/%lld nodes ready", (long long)td_jint(r, "ready", 0),
			      (long long)td_jint(r, "asked", 0));
	yyjson_arr_foreach (td_jget(r, "each"), i, n, v)
		if (td_jstr(v, "node")) {
			td_buf_printf(ret, "%s%s", some ? ", " : " on ", td_jstr(v, "node"));
			some = true;
		}
	yyjson_arr_foreach (some ? td_jget(r, "each") : NULL, i, n, v) {
		const char *state = td_jstr_or(v, "state", "?"), *words = td_jstr_or(v, "words", "");
		if (!td_jint(v, "number", 0) || !strcmp(state, "ready") || !strcmp(state, "running"))
			continue; // of the first one all is said before
		td_buf_printf(ret, "; node %lld %s", (long long)td_jint(v, "number", 0), state);
		if (*words)
			td_buf_printf(ret, ": %.*s", (int)strcspn(words, "\n"), words);
	}
}

void td_client_requests(yyjson_val *session, struct td_buf *ret)
{
	yyjson_val *r = td_jget(session, "requests");
	if (!r)
		return;
	td_buf_printf(ret, "%lld waiting", (long long)td_jint(r, "inFlight", 0));
	if (td_jint(r, "perMinute", 0))
		td_buf_printf(ret, ", %lld a minute, half within %lld ms, 95 %% within %lld ms",
			      (long long)td_jint(r, "perMinute", 0), (long long)td_jint(r, "p50Ms", 0),
			      (long long)td_jint(r, "p95Ms", 0));
}

const char *td_client_when(int64_t epoch, char *buf, size_t n)
{
	time_t t = (time_t)epoch, now = time(NULL);
	struct tm a, b;
	localtime_r(&t, &a);
	localtime_r(&now, &b);
	bool today = a.tm_yday == b.tm_yday && a.tm_year == b.tm_year,
	     near = t < now + 180 * 86400 && t > now - 180 * 86400;
	strftime(buf, n, today ? "%H:%M:%S" : near ? "%b %d %H:%M" : "%Y-%m-%d", &a);
	return buf;
}

const char *td_client_size(long long bytes, char *buf, size_t n)
{
	if (bytes < 1000)
		snprintf(buf, n, "%lld byte%s", bytes, bytes == 1 ? "" : "s");
	else if (bytes < 999500)
		snprintf(buf, n, "%.0f kB", (double)bytes / 1e3);
	else if (bytes < 999950000)
		snprintf(buf, n, "%.1f MB", (double)bytes / 1e6);
	else
		snprintf(buf, n, "%.1f GB", (double)bytes / 1e9);
	return buf;
}
