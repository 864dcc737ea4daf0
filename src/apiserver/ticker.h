// A thread for what happens by time alone: it wakes watches whose bookmarks are due, keeps Service
// default/kubernetes right, and lets Events expire.
#pragma once

#include "apiserver/srv.h"

struct td_ticker;
struct td_ticker *td_ticker_start(struct td_srv *s, struct td_cancel *cancel);
void td_ticker_join(struct td_ticker *t); // after cancel; frees t. NULL ok
