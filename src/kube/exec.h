// A program in a running container, over the API server's WebSocket. The first byte of every message is its
// channel: 0 its input; 1 and 2 its output and errors; 3 the end, a Status, as the last message.
#pragma once

#include "http/dial.h"
#include "kube/kube.h"

enum { TD_EXEC_IN, TD_EXEC_OUT, TD_EXEC_ERR, TD_EXEC_STATUS };

struct td_kube_exec {
	const char *ns, *pod, *container;
	const char *const *argv; // NULL-terminated
};
// Starts it, with input and without a terminal. It needs the rights get and create on pods/exec. Errors as
// for the verbs.
int td_kube_exec(struct td_kube *k, const struct td_kube_exec *e, struct td_cancel *c, struct td_ws_far **ret,
		 struct td_error *err);
