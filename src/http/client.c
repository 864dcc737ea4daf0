// The HTTP client. Each call in flight has one curl multi handle with one easy handle. Between
// calls these are kept on a stack, so that whichever thread comes next uses the newest connection.
//
// The invariant: a write is never sent twice. libcurl itself repeats a request whose reused
// connection dies before a byte of the reply came, whatever the method. on_prereq() runs before
// each attempt. It refuses the second one unless nothing of the first left this process, or the
// method is safe (RFC 9110 §9.2.1).
#include "http/client_priv.h"

#include "base/clock.h"
#include "base/file.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	IDLE_MAX = 32, // connections kept open per client
	// Older idle connections are not used again; servers close theirs after 120 s.
	IDLE_S = 60,
	CONNECT_MS = 10000,    // the limit, TLS handshake included
	TOKEN_MAX = 64 * 1024, // largest token file, in bytes
	BODY_MAX = 64 << 20,   // default limit of a kept reply
	READ_BUFFER = 16384,   // per connection
	STREAM_BUFFER = 4096,
	UPLOAD_BUFFER = 16384, // the least that curl accepts
};

struct client_slot {
	CURLM *multi;
	CURL *easy;
	struct client_slot *next;
};

struct td_http_client {
	char *base_url, *unix_socket, *ca_file, *cert_file, *key_file, *token_file, *bearer;
	bool unproven;
	int64_t timeout_ms;
	struct td_cancel *stop; // fired by td_http_client_stop()
	pthread_mutex_t lock;   // guards everything below
	struct client_slot *idle;
	int n_idle;
	char *token; // content of token_file at token_stat
	struct stat token_stat;
};

// The state of one call while it runs.
struct client_run {
	const struct td_http_call *call;
	CURL *easy;
	struct td_http_reply reply;
	size_t max_body;
	int64_t last_byte; // monotonic
	bool safe, began;  // began: a status line has come
	int attempts;
	int abort_code; // set by a callback that ends the call
	bool abort_by_user;
	struct td_error err;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void curl_start(void)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		abort();
}

static int64_t now_ms(void)
{
	return td_mono_ms(&td_clock_system);
}

int td_http_client_new(const struct td_http_client_opts *o, struct td_http_client **ret, struct td_error *err)
{
	if (!o->base_url || (!td_starts(o->base_url, "http://") && !td_starts(o->base_url, "https://")))
		return td_fail(err, TD_INVALID, "HTTP client: base URL \"%s\" must start with http:// or https://",
			       o->base_url ? o->base_url : "");
	if (!o->cert_file != !o->key_file)
		return td_fail(err, TD_INVALID,
			       "HTTP client for %s: give both a certificate and a key file, or neither", o->base_url);
	const char *files[] = {o->ca_file, o->cert_file, o->key_file, o->token_file};
	for (size_t i = 0; i < TD_LEN(files); i++)
		if (files[i] && access(files[i], R_OK) < 0)
			return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_DENIED, errno,
					     "HTTP client for %s: cannot read %s", o->base_url, files[i]);

	pthread_once(&curl_once, curl_start);
	struct td_http_client *c = td_calloc(1, sizeof(*c));
	c->base_url = td_strdup(o->base_url);
	while (td_ends(c->base_url, "/"))
		c->base_url[strlen(c->base_url) - 1] = 0;
	c->unix_socket = td_strdup(o->unix_socket);
	c->ca_file = td_strdup(o->ca_file);
	c->cert_file = td_strdup(o->cert_file);
	c->key_file = td_strdup(o->key_file);
	c->token_file = td_strdup(o->token_file);
	c->bearer = td_strdup(o->bearer);
	c->unproven = o->unproven;
	c->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : 30000;

	c->stop = td_cancel_new();
	pthread_mutex_init(&c->lock, NULL);
	*ret = c;
	return 0;
}

static void slot_free(struct client_slot *s)
{
	curl_easy_cleanup(s->easy);
	curl_multi_cleanup(s->multi);
	free(s);
}

void td_http_client_stop(struct td_http_client *c)
{
	td_cancel_fire(c->stop);
}

struct td_http_client *td_http_client_free(struct td_http_client *c)
{
	if (!c)
		return NULL;

	while (c->idle) {
		struct client_slot *s = c->idle;
		c->idle = s->next;
		slot_free(s);
	}

	td_cancel_unref(c->stop);
	char *strs[] = {c->base_url, c->unix_socket, c->ca_file, c->cert_file, c->key_file, c->token_file, c->bearer};
	for (size_t i = 0; i < TD_LEN(strs); i++)
		free(strs[i]);
	if (c->token)
		explicit_bzero(c->token, strlen(c->token));
	free(c->token);

	pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

static struct client_slot *slot_get(struct td_http_client *c)
{
	pthread_mutex_lock(&c->lock);
	struct client_slot *s = c->idle;
	if (s) {
		c->idle = s->next;
		c->n_idle--;
	}
	pthread_mutex_unlock(&c->lock);

	if (s)
		return s;

	s = td_calloc(1, sizeof(*s));
	s->easy = curl_easy_init();
	s->multi = curl_multi_init();
	if (!s->easy || !s->multi)
		abort();
	curl_multi_setopt(s->multi, CURLMOPT_MAXCONNECTS, 1L);
	return s;
}

static void slot_put(struct td_http_client *c, struct client_slot *s)
{
	pthread_mutex_lock(&c->lock);
	bool keep = c->n_idle < IDLE_MAX;
	if (keep) {
		s->next = c->idle;
		c->idle = s;
		c->n_idle++;
	}
	pthread_mutex_unlock(&c->lock);
	if (!keep)
		slot_free(s);
}

// Makes "Authorization: Bearer …" for the call; *ret is NULL when the client has no token. The
// token file is read again when it was replaced or rewritten.
int td_http_client_auth(struct td_http_client *c, char **ret, struct td_error *err)
{
	if (!c->token_file) {
		*ret = c->bearer ? td_asprintf("Authorization: Bearer %s", c->bearer) : NULL;
		return 0;
	}

	struct stat st;
	if (stat(c->token_file, &st) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "token file %s", c->token_file);

	pthread_mutex_lock(&c->lock);
	bool same = c->token && st.st_ino == c->token_stat.st_ino && st.st_size == c->token_stat.st_size &&
		    st.st_mtim.tv_sec == c->token_stat.st_mtim.tv_sec &&
		    st.st_mtim.tv_nsec == c->token_stat.st_mtim.tv_nsec;
	char *h = same ? td_asprintf("Authorization: Bearer %s", c->token) : NULL;
	pthread_mutex_unlock(&c->lock);

	if (!h) {
		td_auto_buf struct td_buf b = {0};
		if (td_file_read(c->token_file, TOKEN_MAX, &b, err) < 0) {
			td_wrap(err, "token file %s", c->token_file);
			if (err)
				err->code = TD_TRANSIENT; // nothing was sent
			return TD_TRANSIENT;
		}
		while (b.len && strchr(" \t\r\n", b.s[b.len - 1]))
			b.s[--b.len] = 0;
		if (!b.len || strlen(b.s) != b.len || strpbrk(b.s, "\r\n"))
			return td_fail(err, TD_TRANSIENT, "token file %s: must hold one line", c->token_file);

		h = td_asprintf("Authorization: Bearer %s", b.s);
		pthread_mutex_lock(&c->lock);
		free(c->token);
		c->token = td_buf_take(&b);
		c->token_stat = st;
		pthread_mutex_unlock(&c->lock);
	}

	*ret = h;
	return 0;
}

// ---- callbacks of curl; they run in the calling thread ----

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
	struct client_run *r = ctx;
	n *= size;
	r->last_byte = now_ms();
	// A new status line also follows a 100 Continue: forget the headers so far.
	if (n > 5 && memcmp(p, "HTTP/", 5) == 0) {
		r->began = true;
		r->reply.content_type[0] = 0;
		r->reply.retry_after_s = 0;
		return n;
	}

	const char *colon = memchr(p, ':', n);
	if (!colon)
		return n;

	size_t name = (size_t)(colon - p);
	const char *v = colon + 1, *e = p + n;
	while (v < e && (*v == ' ' || *v == '\t'))
		v++;
	while (e > v && strchr(" \t\r\n", e[-1]))
		e--;

	if (name == 12 && strncasecmp(p, "Content-Type", 12) == 0)
		snprintf(r->reply.content_type, sizeof(r->reply.content_type), "%.*s", (int)(e - v), v);
	else if (name == 11 && strncasecmp(p, "Retry-After", 11) == 0) {
		long s = 0;
		for (; v < e && *v >= '0' && *v <= '9' && s < 86400; v++)
			s = s * 10 + (*v - '0');
		r->reply.retry_after_s = (int)(s < 86400 ? s : 86400);
	}

	return n;
}

static long status_of(CURL *easy)
{
	long s = 0;
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &s);
	return s;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct client_run *r = ctx;
	n *= size;
	r->last_byte = now_ms();
	long status = status_of(r->easy);
	if (r->call->on_data && status >= 200 && status < 300) {
		int rc = n ? r->call->on_data(r->call->ctx, p, n) : 0;
		r->last_byte = now_ms(); // the callback's time is not the peer's
		if (rc) {
			r->abort_code = rc;
			r->abort_by_user = true;
			return CURL_WRITEFUNC_ERROR;
		}
		return n;
	}

	if (n > r->max_body || r->reply.body.len > r->max_body - n) {
		r->abort_code = td_fail(&r->err, TD_INVALID, "reply larger than %zu bytes", r->max_body);
		return CURL_WRITEFUNC_ERROR;
	}
	td_buf_add(&r->reply.body, p, n);
	return n;
}

static bool was_sent(CURL *easy)
{
	long head = 0;
	curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &head);
	return head > 0;
}

static int on_prereq(void *ctx, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
	struct client_run *r = ctx;
	if (r->attempts++ == 0 || r->safe || !was_sent(r->easy))
		return CURL_PREREQFUNC_OK;
	r->abort_code = td_fail(&r->err, TD_UNCERTAIN, "connection closed before the reply");
	return CURL_PREREQFUNC_ABORT;
}

// ---- one call ----

static bool header_given(const struct td_http_call *call, const char *name)
{
	size_t n = strlen(name);
	for (const char *const *h = call->headers; h && *h; h++)
		if (strncasecmp(*h, name, n) == 0 && (*h)[n] == ':')
			return true;
	return false;
}

static struct curl_slist *headers(const struct td_http_call *call, const char *auth)
{
	struct curl_slist *l = NULL;
	char line[512];
	snprintf(line, sizeof(line), "Accept: %s", call->accept ? call->accept : "application/json");

	if (!header_given(call, "Accept"))
		l = curl_slist_append(l, line);
	if (!header_given(call, "Expect"))
		// With a large body, curl would wait for 100 Continue.
		l = curl_slist_append(l, "Expect:");

	if (call->content_type)
		snprintf(line, sizeof(line), "Content-Type: %s", call->content_type);
	else
		snprintf(line, sizeof(line), "Content-Type:");
	if (!header_given(call, "Content-Type"))
		l = curl_slist_append(l, line);

	if (auth && !header_given(call, "Authorization"))
		l = curl_slist_append(l, auth);

	for (const char *const *h = call->headers; h && *h; h++)
		l = curl_slist_append(l, *h);
	return l;
}

// What every connection of a client has in common.
void td_http_client_reach(const struct td_http_client *c, CURL *e, const char *url, int64_t timeout)
{
	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(e, CURLOPT_PROXY, ""); // never from the environment
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_USERAGENT, "tandem/" TD_VERSION);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 30L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 10L);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)(timeout < CONNECT_MS ? timeout : CONNECT_MS));
#if LIBCURL_VERSION_NUM >= 0x075700
	// A cancelled call does not wait for a resolver thread.
	curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
	if (c->unix_socket)
		curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->unix_socket);
	curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (c->unproven) {
		curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (c->ca_file) {
		curl_easy_setopt(e, CURLOPT_CAINFO, c->ca_file);
		// Otherwise every connection parses the whole system store: 2 MB and 10 ms each.
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	}
	if (c->cert_file) {
		curl_easy_setopt(e, CURLOPT_SSLCERT, c->cert_file);
		curl_easy_setopt(e, CURLOPT_SSLKEY, c->key_file);
	}
}

const char *td_http_client_base(const struct td_http_client *c)
{
	return c->base_url;
}

static void setup(struct td_http_client *c, struct client_run *r, const char *url, struct curl_slist *hdrs,
		  char *errbuf, int64_t timeout)
{
	CURL *e = r->easy;
	const struct td_http_call *call = r->call;

	curl_easy_reset(e); // keeps the connection
	td_http_client_reach(c, e, url, timeout);
	curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, (long)IDLE_S);

	// A stream lives as long as its role, and a role has dozens of them. curl's default buffers
	// (16 and 64 KB per stream) would be most of the role's memory.
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)(call->on_data ? STREAM_BUFFER : READ_BUFFER));
	curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BUFFER);

	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, errbuf);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, hdrs);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, r);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, r);
	curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_prereq);
	curl_easy_setopt(e, CURLOPT_PREREQDATA, r);

	bool has_body = call->body || call->body_len || td_streq(call->method, "POST") ||
			td_streq(call->method, "PUT") || td_streq(call->method, "PATCH");
	if (td_streq(call->method, "HEAD")) {
		curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
	} else if (has_body) {
		curl_easy_setopt(e, CURLOPT_POST, 1L);
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, call->body ? call->body : "");
		curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, call->method);
	} else {
		curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
		curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, call->method);
	}
}

static int give_up(struct td_http_client *c, struct client_run *r, struct td_error *err, const char *why)
{
	const char *m = r->call->method, *p = r->call->path;
	if (was_sent(r->easy))
		return td_fail(err, TD_UNCERTAIN, "%s %s%.200s: sent, but %s", m, c->base_url, p, why);
	return td_fail(err, TD_TRANSIENT, "%s %s%.200s: not sent: %s", m, c->base_url, p, why);
}

// Runs the transfer to its end. The easy handle is already in the multi handle.
static int drive(struct td_http_client *c, struct client_slot *s, struct client_run *r, int64_t timeout,
		 struct td_cancel *cancel, const char *errbuf, struct td_error *err)
{
	const struct td_http_call *call = r->call;
	int64_t start = now_ms();
	for (;;) {
		int running = 0;
		CURLMcode mc = curl_multi_perform(s->multi, &running);
		if (mc != CURLM_OK)
			return give_up(c, r, err, curl_multi_strerror(mc));
		if (!running)
			break;

		if (td_cancelled(cancel))
			return td_fail(err, TD_CANCELLED, "%s %s%.200s: cancelled", call->method, c->base_url,
				       call->path);
		if (td_cancelled(c->stop))
			return give_up(c, r, err, "another server is there by now");

		long status = r->began ? status_of(s->easy) : 0;
		bool streaming = call->on_data && status >= 200 && status < 300;
		int64_t now = now_ms(), end = streaming ? (call->idle_ms > 0 ? r->last_byte + call->idle_ms : INT64_MAX)
							: start + timeout;

		if (now >= end) {
			char why[64];
			snprintf(why, sizeof(why), streaming ? "no byte for %lld ms" : "no complete reply in %lld ms",
				 (long long)(streaming ? call->idle_ms : timeout));
			return give_up(c, r, err, why);
		}

		struct curl_waitfd w[] = {{.fd = td_cancel_fd(c->stop), .events = CURL_WAIT_POLLIN},
					  {.fd = td_cancel_fd(cancel), .events = CURL_WAIT_POLLIN}};
		curl_multi_poll(s->multi, w, cancel ? 2 : 1, end - now > 60000 ? 60000 : (int)(end - now), NULL);
	}

	int left;
	CURLMsg *m = curl_multi_info_read(s->multi, &left);
	CURLcode res = m && m->msg == CURLMSG_DONE ? m->data.result : CURLE_FAILED_INIT;

	if (res == CURLE_OK)
		return 0;
	if (r->abort_by_user)
		return td_fail(err, r->abort_code, "%s %s%.200s: ended by the reader", call->method, c->base_url,
			       call->path);
	if (r->abort_code)
		return td_fail(err, r->abort_code, "%s %s%.200s: %s", call->method, c->base_url, call->path,
			       r->err.msg);
	if (res == CURLE_URL_MALFORMAT || res == CURLE_UNSUPPORTED_PROTOCOL)
		return td_fail(err, TD_INVALID, "%s %s%.200s: bad URL", call->method, c->base_url, call->path);
	return give_up(c, r, err, errbuf[0] ? errbuf : curl_easy_strerror(res));
}

int td_http_do(struct td_http_client *c, const struct td_http_call *call, struct td_cancel *cancel,
	       struct td_http_reply *ret, struct td_error *err)
{
	if (!call->method || !call->path || call->path[0] != '/' || strpbrk(call->path, " \r\n\t"))
		return td_fail(err, TD_INVALID,
			       "HTTP call to %s: method and an escaped path that starts with / are needed",
			       c->base_url);

	if (td_cancelled(cancel))
		return td_fail(err, TD_CANCELLED, "%s %s%.200s: cancelled", call->method, c->base_url, call->path);

	td_auto_free char *auth = NULL;
	int rc = td_http_client_auth(c, &auth, err);
	if (rc < 0)
		return rc;

	td_auto_free char *url = td_asprintf("%s%s", c->base_url, call->path);
	char errbuf[CURL_ERROR_SIZE] = "";
	struct client_slot *s = slot_get(c);
	struct client_run r = {.call = call,
			       .easy = s->easy,
			       .max_body = call->max_body ? call->max_body : BODY_MAX,
			       .last_byte = now_ms()};

	r.safe = td_streq(call->method, "GET") || td_streq(call->method, "HEAD");
	int64_t timeout = call->timeout_ms > 0 ? call->timeout_ms : c->timeout_ms;
	struct curl_slist *hdrs = headers(call, auth);
	setup(c, &r, url, hdrs, errbuf, timeout);

	// curl writes with MSG_NOSIGNAL, but a TLS back end may not. Where SIGPIPE is not ignored,
	// the code below swallows this thread's own.
	sigset_t pipe_set, old, pending;
	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_set, &old);

	if (curl_multi_add_handle(s->multi, s->easy) != CURLM_OK)
		abort();
	rc = drive(c, s, &r, timeout, cancel, errbuf, err);

	long status = status_of(s->easy);
	// Closes the connection unless the reply was complete.
	curl_multi_remove_handle(s->multi, s->easy);
	curl_easy_setopt(s->easy, CURLOPT_ERRORBUFFER, NULL);

	sigpending(&pending);
	if (sigismember(&pending, SIGPIPE) && !sigismember(&old, SIGPIPE))
		sigtimedwait(&pipe_set, NULL, &(struct timespec){0});
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	curl_slist_free_all(hdrs);
	slot_put(c, s);

	if (rc) {
		td_http_reply_done(&r.reply);
		return rc;
	}

	r.reply.status = (int)status;
	*ret = r.reply;
	return 0;
}

void td_http_reply_done(struct td_http_reply *r)
{
	td_buf_done(&r->body);
	memset(r, 0, sizeof(*r));
}

void td_url_escape(struct td_buf *b, const char *s)
{
	for (; *s; s++) {
		unsigned char ch = (unsigned char)*s;
		if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
		    strchr("-._~", ch))
			td_buf_putc(b, (char)ch);
		else
			td_buf_printf(b, "%%%02X", ch);
	}
}
