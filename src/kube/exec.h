// A program in a running container, or a connection to a port of a pod, over the API server's WebSocket. Of a program the
// first byte of every message is its channel: 0 its input; 1 and 2 its output and errors; 3 the end, a Status, as the last
// message.
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

// Connects to a port of the pod, as it is inside of it. The first byte of every message is its channel: 0 the bytes of
// the connection, both ways; 1 why it failed. The first message of each channel from there says the port, in two bytes.
// The WebSocket ends with the connection. It needs the rights get and create on pods/portforward. Errors as for the
// verbs; one that is found later is a message of channel 1.
int td_kube_forward(struct td_kube *k, const char *ns, const char *pod, int port, struct td_cancel *c,
		    struct td_ws_far **ret, struct td_error *err);
