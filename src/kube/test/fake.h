// A fake API on loopback for the tests of this room: our own HTTP server with a handler of the test's.
#pragma once

#include "http/server.h"
#include "kube/kube.h"

struct fake;
struct fake *fake_start(void (*handler)(struct td_http_x *x, void *ctx), void *ctx);
void fake_stop(struct fake *f);
struct td_kube *fake_client(struct fake *f); // a new client of it
const char *fake_url(const struct fake *f);
// Waits until *p (written under no lock, atomic) is at least n; false after a minute, which only ends a test that
// hangs.
bool fake_reached(const int *p, int n);
