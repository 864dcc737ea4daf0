// Test helper: a server that runs in a thread of its own.
#pragma once

#include "base/clock.h"
#include "base/file.h"
#include "http/client.h"
#include "http/pki.h"
#include "http/server.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct served {
	struct td_http_server *s;
	struct td_cancel *cancel;
	pthread_t thread;
	char url[128];
	int port;
};

static inline void *serve_thread(void *arg)
{
	struct served *t = arg;
	struct td_error err = {0};
	if (td_http_server_run(t->s, t->cancel, &err) < 0)
		fprintf(stderr, "server: %s\n", err.msg);
	return NULL;
}

static inline void serve_start(struct served *t, struct td_http_server_opts *o)
{
	static const char *const any[] = {"127.0.0.1:0", NULL};
	struct td_error err = {0};
	if (!o->listen)
		o->listen = any;

	if (td_http_server_new(o, &t->s, &err) < 0)
		fail_msg("%s", err.msg);

	t->port = td_http_server_port(t->s);
	snprintf(t->url, sizeof(t->url), "%s://127.0.0.1:%d", o->cert_file ? "https" : "http", t->port);
	t->cancel = td_cancel_new();
	pthread_create(&t->thread, NULL, serve_thread, t);
}

static inline void serve_stop(struct served *t)
{
	td_cancel_fire(t->cancel);
	pthread_join(t->thread, NULL);
	td_http_server_free(t->s);
	td_cancel_unref(t->cancel);
}

static inline int64_t test_now(void)
{
	return td_mono_ms(&td_clock_system);
}
