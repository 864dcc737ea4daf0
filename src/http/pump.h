// The pump: one epoll thread for connections that nobody waits on. It does two things:
//  - it feeds pushed replies (watches): fill() when woken, write as the peer reads, cut who does not read or is gone;
//  - it watches the connection of a running handler and fires the handler's cancel when the peer is gone.
#pragma once

#include "http/conn.h"
#include "http/server.h"

#define TD_PUSH_UNSENT_MAX (8u << 20)

struct td_pump;
int td_pump_new(int64_t write_ms, int max, struct td_pump **ret, struct td_error *err); // starts the thread
struct td_pump *td_pump_free(struct td_pump *p); // ends every push (closed() runs), joins; no watch may be left

// Fires `cancel` when the peer of fd is gone, until td_pump_unwatch(): one per fd.
void td_pump_watch(struct td_pump *p, int fd, struct td_cancel *cancel);
void td_pump_unwatch(struct td_pump *p, int fd);

bool td_pump_full(struct td_pump *p); // as many pushes as allowed
// head: taken over (reset); chunked: frame the body; ended: only the head goes out and the stream ends.
struct td_http_push_handle *td_push_new(struct td_pump *p, const struct td_http_push *push, struct td_buf *head,
					bool chunked, bool ended);
void td_push_attach(struct td_http_push_handle *h, struct td_conn *c); // takes c over
