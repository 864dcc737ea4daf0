// A fake API server on loopback for the tests of this room: the HTTP server of room http with a
// handler of the test.
#pragma once

#include "http/server.h"
#include "kube/kube.h"

struct fake;
struct fake *fake_start(void (*handler)(struct td_http_x *x, void *ctx), void *ctx);
void fake_stop(struct fake *f);
struct td_kube *fake_client(struct fake *f); // a new client of the fake
const char *fake_url(const struct fake *f);
// Waits until *p, which another thread writes atomically, is at least n. Returns false after a
// minute, so that a hanging test ends.
bool fake_reached(const int *p, int n);
