// The pump: one epoll thread for connections that no other thread waits on. It does two things:
//  - It feeds pushed replies (watches). It calls fill() when woken, writes as fast as the peer
//    reads, and cuts off a peer that does not read or is gone.
//  - It watches the connection of a running handler, and fires the handler's cancel when the peer
//    is gone.
#pragma once

#include "http/conn.h"
#include "http/server.h"

#define TD_PUSH_UNSENT_MAX (8u << 20)

struct td_pump;
// Starts the thread.
int td_pump_new(int64_t write_ms, int max, struct td_pump **ret, struct td_error *err);
// Ends every push (closed() runs) and joins the thread. No watch may be left.
struct td_pump *td_pump_free(struct td_pump *p);

// Fires `cancel` when the peer of fd is gone, until td_pump_unwatch(). One watch per fd.
void td_pump_watch(struct td_pump *p, int fd, struct td_cancel *cancel);
void td_pump_unwatch(struct td_pump *p, int fd);

bool td_pump_full(struct td_pump *p); // there are as many pushes as allowed
// Takes over the content of `head` and resets it. chunked: the body is framed in chunks. ended:
// only the head goes out and the stream ends.
struct td_http_push_handle *td_push_new(struct td_pump *p, const struct td_http_push *push, struct td_buf *head,
					bool chunked, bool ended);
void td_push_attach(struct td_http_push_handle *h, struct td_conn *c); // takes over c
