// A whole API server in this process over plain HTTP on loopback, asked through the real client.
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
	const char *as;                // the one that is used; NULL: none
};
void harness_start(struct harness *h, size_t ring);   // aborts the test when it cannot
void harness_stop(struct harness *h);                 // and removes its directory
void harness_restart(struct harness *h, size_t ring); // the same files, a new server

// One request; returns the status. *ret (may be NULL): the reply's document, NULL when it is not JSON; unref it.
int ask(struct harness *h, const char *method, const char *path, const char *ctype, const char *body,
	struct td_json **ret);
// Asks, expects a status, and (want not NULL) a string at a path of the reply.
void expect(struct harness *h, const char *method, const char *path, const char *ctype, const char *body, int status,
	    const char *at, const char *want);
char *field(struct harness *h, const char *path,
	    const char *at); // of what GET answers, as JSON; "" when absent; the caller frees
#define MERGE "application/merge-patch+json"
#define JSON "application/json"

// A watch in a thread of its own: collects events until it is stopped.
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
