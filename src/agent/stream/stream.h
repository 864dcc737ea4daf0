// agent.sock: what the API server relays to the node agent. Unix socket, mode 0600, plain HTTP/1.1.
//   GET /containerLogs/<ns>/<pod>/<container>?follow&tailLines&limitBytes&sinceSeconds&sinceTime&timestamps&previous
//   GET /exec/<ns>/<pod>/<container>?command=…&stdin&stdout&stderr&tty      WebSocket v5.channel.k8s.io, v4
//   GET /attach/<ns>/<pod>/<container>?stdin&stdout&stderr&tty                the same
//   GET /portForward/<ns>/<pod>                                              WebSocket SPDY/3.1+portforward.k8s.io
//   GET /pods                                                               what runs, as JSON, for people
#pragma once

#include "agent/agent.h"
#include "http/server.h"

int td_stream_run(struct td_agent *a, struct td_cancel *c, struct td_error *err);

// The parts; each answers the exchange.
struct td_pod;
struct td_ctr;
void td_stream_logs(struct td_agent *a, struct td_http_x *x, struct td_pod *p, struct td_ctr *c);
void td_stream_attach(struct td_agent *a, struct td_http_x *x, struct td_pod *p, struct td_ctr *c);
void td_stream_forward(struct td_agent *a, struct td_http_x *x, struct td_pod *p);
void td_stream_exec(struct td_agent *a, struct td_http_x *x, struct td_pod *p, struct td_ctr *c);
void td_stream_error(struct td_http_x *x, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool td_stream_flag(const struct td_http_x *x, const char *name); // query: "true" or "1"
