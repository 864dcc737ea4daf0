// One issuer: its document (OpenID Connect Discovery 1.0), its keys as they change, its endpoints.
#include "oidc/issuer_priv.h"

#include "base/file.h"
#include "http/client.h"
#include "http/pki.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OLD_MS = 600000, SOON_MS = 1000, AGAIN_MS = 3000, LAST_MS = 3600000, CALL_MS = 10000, URL_MOST = 2048 };

struct td_oidc {
	char *issuer, *client_id, *client_secret, *ca, *ca_path;
	int ca_fd; // memory that holds ca; -1: none
	const struct td_clock *clock;
	int refs;

	pthread_mutex_t lock; // guards what follows
	struct td_json *doc;
	struct td_oidc_keys *keys;
	int64_t at_ms, failed_ms; // mono: of the last that was read, of the last try that failed
	struct td_error why;      // of that try
	pthread_mutex_t looking;  // held by the one that asks the issuer
};

// Nobody on the way may answer as the issuer.
static bool safe_url(const char *url)
{
	static const char *const own[] = {"http://127.0.0.1", "http://localhost", "http://[::1]"};
	if (!url || strlen(url) > URL_MOST || strpbrk(url, " \t\r\n\"<>\\^`{|}#"))
		return false;
	if (td_starts(url, "https://"))
		return url[strlen("https://")] && !strchr(url, '@');
	for (size_t i = 0; i < TD_LEN(own); i++) {
		const char *rest = td_starts(url, own[i]) ? url + strlen(own[i]) : "@";
		if ((*rest == '\0' || *rest == ':' || *rest == '/') && !strchr(rest, '@'))
			return true;
	}
	return false;
}

static int keep_ca(struct td_oidc *i, struct td_error *err)
{
	if (!i->ca)
		return 0;
	i->ca_fd = memfd_create("tandem-oidc-ca", MFD_CLOEXEC);
	if (i->ca_fd < 0 || td_write_all(i->ca_fd, i->ca, strlen(i->ca), err))
		return td_fail(err, TD_INTERNAL, "no memory file for the issuer's CA");
	i->ca_path = td_asprintf("/proc/self/fd/%d", i->ca_fd);
	return 0;
}

int td_oidc_new(const struct td_oidc_opts *o, struct td_oidc **ret, struct td_error *err)
{
	if (!safe_url(o->issuer) || strchr(o->issuer, '?'))
		return td_fail(err, TD_INVALID,
			       "issuer \"%.200s\": give an address with https:// (or http:// on this machine)",
			       o->issuer ? o->issuer : "");
	td_auto(td_oidc_unref) struct td_oidc *i = td_calloc(1, sizeof(*i));
	i->refs = 1;
	i->ca_fd = -1;
	i->issuer = td_strdup(o->issuer);
	i->client_id = td_strdup(o->client_id);
	i->client_secret = td_strdup(o->client_secret);
	i->ca = td_strdup(o->ca);
	i->clock = o->clock;
	i->failed_ms = i->at_ms = INT64_MIN / 2;
	pthread_mutex_init(&i->lock, NULL);
	pthread_mutex_init(&i->looking, NULL);
	int r = keep_ca(i, err);
	if (!r)
		*ret = td_steal(i);
	return r;
}

struct td_oidc *td_oidc_ref(struct td_oidc *i)
{
	if (i)
		__atomic_add_fetch(&i->refs, 1, __ATOMIC_RELAXED);
	return i;
}

struct td_oidc *td_oidc_unref(struct td_oidc *i)
{
	if (!i || __atomic_sub_fetch(&i->refs, 1, __ATOMIC_ACQ_REL))
		return NULL;
	if (i->client_secret)
		explicit_bzero(i->client_secret, strlen(i->client_secret));
	if (i->ca_fd >= 0)
		close(i->ca_fd);
	free(i->issuer);
	free(i->client_id);
	free(i->client_secret);
	free(i->ca);
	free(i->ca_path);
	td_json_unref(i->doc);
	td_oidc_keys_free(i->keys);
	pthread_mutex_destroy(&i->lock);
	pthread_mutex_destroy(&i->looking);
	free(i);
	return NULL;
}

bool td_oidc_same(const struct td_oidc *i, const struct td_oidc_opts *o)
{
	return td_streq(i->issuer, o->issuer) && td_streq(i->client_id, o->client_id) &&
	       td_streq(i->client_secret, o->client_secret) && td_streq(i->ca, o->ca);
}

const char *td_oidc_client_id(const struct td_oidc *i)
{
	return i->client_id;
}

// ---- asking it ----

struct oidc_call {
	const char *method, *url;
	const struct td_buf *form; // NULL: no body
	const char *authorization; // a whole header; NULL: none
};

static int call(struct td_oidc *i, const struct oidc_call *k, struct td_cancel *c, struct td_http_reply *ret,
		struct td_error *err)
{
	if (!safe_url(k->url))
		return td_fail(err, TD_INVALID, "%s names an address that is not asked: \"%.200s\"", i->issuer,
			       k->url ? k->url : "");
	const char *path = strchr(strstr(k->url, "://") + 3, '/');
	td_auto_free char *origin = path ? td_strndup(k->url, (size_t)(path - k->url)) : td_strdup(k->url);
	const struct td_http_client_opts o = {.base_url = origin, .ca_file = i->ca_path, .timeout_ms = CALL_MS};
	td_auto(td_http_client_free) struct td_http_client *h = NULL;
	const char *headers[] = {k->authorization, NULL};
	const struct td_http_call q = {.method = k->method,
				       .path = path ? path : "/",
				       .body = k->form ? td_buf_str(k->form) : NULL,
				       .body_len = k->form ? k->form->len : 0,
				       .content_type = k->form ? "application/x-www-form-urlencoded" : NULL,
				       .headers = headers,
				       .max_body = TD_OIDC_REPLY_MOST};
	int r = td_http_client_new(&o, &h, err);
	if (!r)
		r = td_http_do(h, &q, c, ret, err);
	if (r == TD_UNCERTAIN) // nothing that we ask changes anything for good
		r = err ? (err->code = TD_TRANSIENT) : TD_TRANSIENT;
	return r;
}

static int get(struct td_oidc *i, const char *url, struct td_cancel *c, struct td_http_reply *ret, struct td_error *err)
{
	int r = call(i, &(struct oidc_call){.method = "GET", .url = url}, c, ret, err);
	if (!r && ret->status != 200)
		r = td_fail(err, TD_TRANSIENT, "%s answered with HTTP %d", url, ret->status);
	return r;
}

// Its document, and the keys that this names.
static int read_it(struct td_oidc *i, struct td_cancel *c, struct td_json **ret_doc, struct td_oidc_keys **ret_keys,
		   struct td_error *err)
{
	size_t n = strlen(i->issuer);
	td_auto_free char *url =
		td_asprintf("%.*s/.well-known/openid-configuration", (int)(n - (i->issuer[n - 1] == '/')), i->issuer);
	td_auto_reply struct td_http_reply text = {0}, keys = {0};
	td_auto(td_json_unref) struct td_json *doc = NULL;
	int r = get(i, url, c, &text, err);
	if (!r)
		r = td_json_parse(td_buf_str(&text.body), text.body.len, &doc, err);
	if (r)
		return r;
	if (!td_streq(td_jstr(td_json_root(doc), "issuer"), i->issuer))
		return td_fail(err, TD_INVALID, "%s says that it is \"%.200s\", not %s", url,
			       td_jstr_or(td_json_root(doc), "issuer", ""), i->issuer);
	if ((r = get(i, td_jstr(td_json_root(doc), "jwks_uri"), c, &keys, err)))
		return r;
	if ((r = td_oidc_keys_parse(td_buf_str(&keys.body), keys.body.len, ret_keys, err)))
		return r;
	*ret_doc = td_steal(doc);
	return 0;
}

// 0: what there is was read no longer than age_ms ago.
static int fresh(struct td_oidc *i, int64_t age_ms, struct td_cancel *c, struct td_error *err)
{
	int64_t begun = td_mono_ms(i->clock);
	// Nobody whose keys are good waits for a look that another token brought about.
	pthread_mutex_lock(&i->lock);
	bool have = i->keys && begun - i->at_ms < age_ms;
	pthread_mutex_unlock(&i->lock);
	if (have)
		return 0;
	pthread_mutex_lock(&i->looking);
	pthread_mutex_lock(&i->lock);
	// Whoever waited here for another one's look has it now.
	bool good = i->keys && (begun - i->at_ms < age_ms || i->at_ms > begun);
	bool soon = !good && td_mono_ms(i->clock) - i->failed_ms < AGAIN_MS;
	int r = soon && err ? (*err = i->why).code : soon ? TD_TRANSIENT : 0;
	pthread_mutex_unlock(&i->lock);
	if (!good && !soon) {
		struct td_error e = TD_ERROR_INIT;
		struct td_json *doc = NULL;
		struct td_oidc_keys *keys = NULL;
		r = read_it(i, c, &doc, &keys, &e);
		pthread_mutex_lock(&i->lock);
		if (r) {
			td_fail(err, r, "the issuer %s cannot be asked now: %s", i->issuer, e.msg);
			td_fail(&i->why, r, "the issuer %s cannot be asked now: %s", i->issuer, e.msg);
			i->failed_ms = r == TD_CANCELLED ? i->failed_ms : td_mono_ms(i->clock);
		} else {
			td_json_unref(i->doc);
			td_oidc_keys_free(i->keys);
			i->doc = doc;
			i->keys = keys;
			i->at_ms = td_mono_ms(i->clock);
		}
		pthread_mutex_unlock(&i->lock);
	}
	pthread_mutex_unlock(&i->looking);
	return r;
}

// What there is, when need be of the last hour.
static int usable(struct td_oidc *i, struct td_cancel *c, struct td_error *err)
{
	int r = fresh(i, OLD_MS, c, err);
	pthread_mutex_lock(&i->lock);
	bool last = i->keys && td_mono_ms(i->clock) - i->at_ms < LAST_MS;
	pthread_mutex_unlock(&i->lock);
	return last && r != TD_CANCELLED ? 0 : r;
}

static int verify(struct td_oidc *i, const char *token, const char *nonce, struct td_json **ret, struct td_error *err)
{
	const struct td_oidc_want w = {
		.issuer = i->issuer, .client_id = i->client_id, .nonce = nonce, .now_s = td_real_ms(i->clock) / 1000};
	pthread_mutex_lock(&i->lock);
	int r = td_oidc_verify(i->keys, token, &w, ret, err);
	pthread_mutex_unlock(&i->lock);
	return r;
}

int td_oidc_check(struct td_oidc *i, const char *token, const char *nonce, struct td_cancel *c, struct td_json **ret,
		  struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	int r = usable(i, c, err);
	if (r)
		return r;
	r = verify(i, token, nonce, ret, &e);
	if (r == TD_NOT_FOUND) { // its keys may have changed
		pthread_mutex_lock(&i->lock);
		int64_t wait_ms = i->at_ms + SOON_MS - td_mono_ms(i->clock);
		pthread_mutex_unlock(&i->lock);
		if (wait_ms > 0)
			td_cancel_wait(c, (int)wait_ms);
		if ((r = fresh(i, SOON_MS, c, err)))
			return r;
		r = verify(i, token, nonce, ret, &e);
	}
	return r ? td_fail(err, TD_UNAUTHENTICATED, "%s", e.msg) : 0;
}

int td_oidc_endpoint(struct td_oidc *i, const char *field, struct td_cancel *c, char **ret, struct td_error *err)
{
	int r = usable(i, c, err);
	if (r)
		return r;
	pthread_mutex_lock(&i->lock);
	char *url = td_strdup(td_jstr(td_json_root(i->doc), field));
	pthread_mutex_unlock(&i->lock);
	if (!url || !safe_url(url)) {
		free(url);
		return td_fail(err, TD_UNSUPPORTED, "the issuer %s has no usable %s", i->issuer, field);
	}
	*ret = url;
	return 0;
}

bool td_oidc_offers(struct td_oidc *i, const char *list, const char *word, struct td_cancel *c)
{
	if (usable(i, c, NULL))
		return false;
	pthread_mutex_lock(&i->lock);
	yyjson_val *l = td_jkey(td_json_root(i->doc), list);
	bool has = !l || td_jhas(l, word);
	pthread_mutex_unlock(&i->lock);
	return has;
}

void td_oidc_param(struct td_buf *b, const char *name, const char *value)
{
	td_buf_printf(b, "%s%s=", b->len ? "&" : "", name);
	td_url_escape(b, value);
}

// Whether the client's secret goes into the form instead of a header.
static bool in_form(struct td_oidc *i)
{
	pthread_mutex_lock(&i->lock);
	yyjson_val *l = td_jkey(td_json_root(i->doc), "token_endpoint_auth_methods_supported");
	bool basic = !l || td_jhas(l, "client_secret_basic"), form = td_jhas(l, "client_secret_post");
	pthread_mutex_unlock(&i->lock);
	return !basic && form;
}

int td_oidc_post(struct td_oidc *i, const char *endpoint, struct td_buf *form, struct td_cancel *c,
		 struct td_oidc_reply *ret, struct td_error *err)
{
	td_auto_free char *url = NULL;
	td_auto_buf struct td_buf pair = {0}, header = {0};
	int r = td_oidc_endpoint(i, endpoint, c, &url, err);
	if (r)
		return r;
	bool secret = i->client_secret != NULL, post = secret && in_form(i);
	if (secret && !post) {
		td_url_escape(&pair, i->client_id);
		td_buf_putc(&pair, ':');
		td_url_escape(&pair, i->client_secret);
		td_buf_puts(&header, "Authorization: Basic ");
		td_base64(&header, pair.s, pair.len);
	} else {
		td_oidc_param(form, "client_id", i->client_id);
	}
	if (post)
		td_oidc_param(form, "client_secret", i->client_secret);

	td_auto_reply struct td_http_reply reply = {0};
	const struct oidc_call k = {
		.method = "POST", .url = url, .form = form, .authorization = header.len ? header.s : NULL};
	r = call(i, &k, c, &reply, err);
	if (pair.len)
		explicit_bzero(pair.s, pair.len);
	if (r)
		return td_wrap(err, "the issuer %s", i->issuer);
	if (reply.status >= 500 || td_json_parse(td_buf_str(&reply.body), reply.body.len, &ret->body, NULL))
		return td_fail(err, TD_TRANSIENT, "the issuer %s answered with HTTP %d", i->issuer, reply.status);
	ret->status = reply.status;
	return 0;
}
