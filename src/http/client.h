// An HTTP/1.1 client over libcurl's multi interface; a td_cancel wakes a call that waits.
// Thread-safe: the client pools its connections inside.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

// Where and how the client connects. All strings are copied.
struct td_http_client_opts {
	// "https://127.0.0.1:6443", "http://10.77.0.5:6820"; with a unix socket any "http://name".
	const char *base_url;
	const char *unix_socket;          // path, or NULL
	const char *ca_file;              // PEM; NULL: the system's CAs
	const char *cert_file, *key_file; // client certificate (PEM), or NULL
	// Holds a bearer token. The client reads it again when it changes. NULL: none.
	const char *token_file;
	const char *bearer; // a fixed bearer token, or NULL
	// Who answers is not asked. Only for what is proven otherwise, such as a CA by its hash.
	bool unproven;
	// Of a whole request (default 30 s). Of a streamed reply only until its first byte.
	int64_t timeout_ms;
};
struct td_http_client;
// Errors: TD_INVALID (the options do not fit), TD_NOT_FOUND or TD_DENIED (a file cannot be read).
int td_http_client_new(const struct td_http_client_opts *o, struct td_http_client **ret, struct td_error *err);
// NULL is fine. No request may run any more.
struct td_http_client *td_http_client_free(struct td_http_client *c);
TD_DEFINE_AUTO(struct td_http_client *, td_http_client_free)
// Ends the requests that are under way, and every later one, as if the server had closed the
// connection: TD_TRANSIENT, or TD_UNCERTAIN when it was sent.
void td_http_client_stop(struct td_http_client *c);

// Makes the header "Authorization: Bearer …"; *ret is NULL when the client has no token. The caller wipes and frees it.
int td_http_client_auth(struct td_http_client *c, char **ret, struct td_error *err);

struct td_http_call {
	const char *method; // "GET", …
	const char *path;   // path and query, already escaped; starts with '/'
	const void *body;   // NULL: none
	size_t body_len;
	const char *content_type;   // of the body
	const char *accept;         // NULL: application/json
	const char *const *headers; // "Name: value", NULL-terminated; may be NULL
	int64_t timeout_ms;         // 0: the client's own
	size_t max_body;            // 0: 64 MiB; a larger reply is TD_INVALID
	// When set, the body of a 2xx reply goes to on_data (called in the calling thread) instead
	// of being kept. A non-zero return ends the call with that code. Such a call has no total
	// timeout, only idle_ms without a byte (0: none).
	int (*on_data)(void *ctx, const char *p, size_t n);
	void *ctx;
	int64_t idle_ms;
};
struct td_http_reply {
	int status;
	struct td_buf body;
	char content_type[128];
	int retry_after_s; // 0: not given
};
// Returns 0 whenever a complete reply came, whatever its status. Errors: TD_TRANSIENT (surely not
// sent), TD_UNCERTAIN (sent, but no complete reply), TD_CANCELLED, TD_INVALID (the reply is too
// large).
int td_http_do(struct td_http_client *c, const struct td_http_call *call, struct td_cancel *cancel,
	       struct td_http_reply *ret, struct td_error *err);
void td_http_reply_done(struct td_http_reply *r);
#define td_auto_reply __attribute__((cleanup(td_http_reply_done)))

// Appends `s`, percent-encoded for a path segment or a query value.
void td_url_escape(struct td_buf *b, const char *s);

// ---- a connection as a descriptor ----
// Connects as requests of this client do, and copies bytes between that and *ret_fd, which the caller closes: it
// reads the end when the far side has said everything. TD_TRANSIENT: it is not reached. The client outlives it.
struct td_http_tunnel;
int td_http_tunnel_new(struct td_http_client *c, struct td_cancel *cancel, struct td_http_tunnel **ret, int *ret_fd,
		       struct td_error *err);
struct td_http_tunnel *td_http_tunnel_free(struct td_http_tunnel *t);
TD_DEFINE_AUTO(struct td_http_tunnel *, td_http_tunnel_free)
