// What the HTTP client lends to dial.c and tunnel.c; td_http_client_connect is in dial.c.
#pragma once

#include "http/client.h"

#include <curl/curl.h>

// Sets where and how a connection of this client is made.
void td_http_client_reach(const struct td_http_client *c, CURL *e, const char *url, int64_t timeout);
// Makes one connection, with TLS where the URL says so, and lends it: `easy` is added to `multi`, and *ret_fd is its
// socket. TD_TRANSIENT: it is not reached; TD_CANCELLED.
int td_http_client_connect(struct td_http_client *c, CURLM *multi, CURL *easy, struct td_cancel *cancel, int *ret_fd,
			   struct td_error *err);
// The base URL, without a slash at its end.
const char *td_http_client_base(const struct td_http_client *c);
