// HTTP/1.1 client over libcurl (multi interface, woken by td_cancel). Thread-safe: connections are pooled inside.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

// Strings are copied. PEM data wins over nothing: give files or leave NULL.
struct td_http_client_opts {
	const char *base_url; // "https://127.0.0.1:6443", "http://10.77.0.5:6820"; for a unix socket any "http://name"
	const char *unix_socket;          // path, or NULL
	const char *ca_file;              // PEM; NULL: the system's
	const char *cert_file, *key_file; // client certificate (PEM), or NULL
	const char *token_file;           // bearer token, read again when the file changes; or NULL
	const char *bearer;               // fixed bearer token; or NULL
	int64_t timeout_ms;               // whole request, default 30 s; streams: until the first byte
};
struct td_http_client;
int td_http_client_new(const struct td_http_client_opts *o, struct td_http_client **ret, struct td_error *err);
struct td_http_client *td_http_client_free(struct td_http_client *c); // NULL ok; no request may run any more
TD_DEFINE_AUTO(struct td_http_client *, td_http_client_free)

struct td_http_call {
	const char *method; // "GET", …
	const char *path;   // path and query, already escaped; starts with '/'
	const void *body;   // NULL: none
	size_t body_len;
	const char *content_type;   // of body
	const char *accept;         // NULL: application/json
	const char *const *headers; // "Name: value", NULL-terminated; may be NULL
	int64_t timeout_ms;         // 0: the client's
	size_t max_body;            // 0: 64 MiB; a larger reply is TD_INVALID
	// When set, a 2xx body is streamed to on_data (from the calling thread) instead of kept; a non-zero return ends
	// the call with that code. There is no total timeout then, only idle_ms without a byte (0: none).
	int (*on_data)(void *ctx, const char *p, size_t n);
	void *ctx;
	int64_t idle_ms;
};
struct td_http_reply {
	int status;
	struct td_buf body;
	char content_type[128];
	int retry_after_s; // 0: not said
};
// 0 whenever a complete reply came, whatever its status. Else: TD_TRANSIENT (surely not sent), TD_UNCERTAIN (sent, no
// complete reply), TD_CANCELLED, TD_INVALID (reply too large).
int td_http_do(struct td_http_client *c, const struct td_http_call *call, struct td_cancel *cancel,
	       struct td_http_reply *ret, struct td_error *err);
void td_http_reply_done(struct td_http_reply *r);
#define td_auto_reply __attribute__((cleanup(td_http_reply_done)))

// Percent-encodes for a path segment or a query value; appends.
void td_url_escape(struct td_buf *b, const char *s);
