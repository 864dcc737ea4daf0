// agent.sock: what the API server relays to the node agent. It is a unix socket, mode 0600, with
// plain HTTP/1.1.
//   GET /containerLogs/<ns>/<pod>/<container>, with the queries
//       follow tailLines limitBytes sinceSeconds sinceTime timestamps previous
//   GET /exec/<ns>/<pod>/<container>?command=…&stdin&stdout&stderr&tty
//       WebSocket v5.channel.k8s.io, v4
//   GET /attach/<ns>/<pod>/<container>?stdin&stdout&stderr&tty   the same
//   GET /portForward/<ns>/<pod>   WebSocket SPDY/3.1+portforward.k8s.io; with ?port= also
//       v4.channel.k8s.io
//   GET /pods                     what runs, as JSON, for people
#pragma once

#include "http/server.h"
#include "kubelet/kubelet.h"

// Serves agent.sock until `c` is cancelled.
int td_stream_run(struct td_kubelet *a, struct td_cancel *c, struct td_error *err);

// The parts. Each answers the exchange `x`.
struct td_pod;
struct td_ctr;
void td_stream_logs(struct td_kubelet *a, struct td_http_x *x, struct td_pod *p, struct td_ctr *c);
void td_stream_attach(struct td_kubelet *a, struct td_http_x *x, struct td_pod *p, struct td_ctr *c);
void td_stream_forward(struct td_kubelet *a, struct td_http_x *x, struct td_pod *p);
void td_stream_exec(struct td_kubelet *a, struct td_http_x *x, struct td_pod *p, struct td_ctr *c);
// Answers with a metav1.Status.
void td_stream_error(struct td_http_x *x, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// A flag in the query is true if it is "true", "1" or empty.
bool td_stream_flag(const struct td_http_x *x, const char *name);

// Sends one message of a session. Its first byte is the channel (see exec.c). Returns 0, or the
// error of td_ws_send.
int td_stream_channel(struct td_ws *ws, char channel, const void *p, size_t n);
// Sends the empty first message, as a kubelet does, on the lowest channel that the client listens
// to. It goes before everything else, and waits until a moment after `accepted` (td_mono_ms at
// td_ws_accept).
// Reason: kubectl before 1.34 makes its channels while its reader already runs, and throws away
// what comes before they are made, with a complaint on stderr. Of 600 `kubectl exec`, 8 at a time
// on 2 cores, 5 complained when this message came with the answer to the upgrade; of 1,500, 2 lost
// their output when it came as soon as the process ran.
void td_stream_hello(struct td_ws *ws, bool out, bool err, int64_t accepted);
