// A whole API server in this process over plain HTTP on loopback, with the real HTTP client.
#pragma once

#include "apiserver/srv.h"
#include "base/cancel.h"
#include "http/client.h"

#include <pthread.h>

struct harness {
	char dir[64];
	struct td_srv srv;
	struct td_http_server *http;
	struct td_http_client *client;
	struct td_cancel *cancel;
	pthread_t thread;
	char *admin, *bridge, *nobody; // bearer tokens
	const char *as;                // the token to use; NULL: none
};
void harness_start(struct harness *h, size_t ring);   // aborts the test on failure
void harness_stop(struct harness *h);                 // also removes its directory
void harness_restart(struct harness *h, size_t ring); // the same files, a new server

// Sends one request and returns the status. *ret (may be NULL): the reply's document, NULL when it
// is not JSON; the caller drops the reference.
int ask(struct harness *h, const char *method, const char *path, const char *ctype, const char *body,
	struct td_json **ret);
// Sends one request and checks the status, and (want not NULL) the string at a path of the reply.
void expect(struct harness *h, const char *method, const char *path, const char *ctype, const char *body, int status,
	    const char *at, const char *want);
// The field `at` of what GET returns, as JSON; "" when absent. The caller frees it.
char *field(struct harness *h, const char *path, const char *at);
#define MERGE "application/merge-patch+json"
#define JSON "application/json"

// A watch in a thread of its own. It collects events until it is stopped.
struct watcher {
	struct harness *h;
	char *path;
	pthread_t thread;
	struct td_cancel *cancel;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct td_buf partial;
	struct td_json *events[4096];
	size_t n;
	bool ended;
};
void watcher_start(struct watcher *w, struct harness *h, const char *path);
// Waits until there are n events (10 s at most) and returns how many there are.
size_t watcher_wait(struct watcher *w, size_t n);
bool watcher_wait_end(struct watcher *w);
const char *watcher_type(struct watcher *w, size_t i);
const char *watcher_name(struct watcher *w, size_t i);
void watcher_stop(struct watcher *w);
