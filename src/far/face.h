// What a kubelet serves to its API server of the pods on its node: their logs, and programs and connections into them. A
// request goes on to the other cluster's API server, to the pod's copy, with the link's identity and none of the caller's
// headers but those of the stream; the bytes of it then pass as they are, WebSocket or SPDY.
#pragma once

#include "far/link.h"
#include "http/server.h"

// Who asks. All zero is nobody.
struct td_far_caller {
	char *user, *uid; // uid: may be NULL
	struct td_strv groups;
	struct td_json *extra; // the TokenReview whose status.user.extra belongs to him; NULL: none
};
void td_far_caller_done(struct td_far_caller *w);
#define td_auto_far_caller __attribute__((cleanup(td_far_caller_done)))
// TD_UNAUTHENTICATED: nobody whom the cluster knows. x: on TLS.
int td_far_caller(struct td_kube *here, const struct td_http_x *x, struct td_far_caller *ret, struct td_cancel *c,
		  struct td_error *err);
// TD_DENIED: he may not (verb nodes/proxy). node "": all nodes.
int td_far_caller_may(struct td_kube *here, const struct td_far_caller *w, const char *verb, const char *node,
		      struct td_cancel *c, struct td_error *err);
// The certificates (PEM) by which the API server knows its clients. The caller frees it.
int td_far_client_ca(struct td_kube *here, struct td_cancel *c, char **ret, struct td_error *err);

// Makes the request there of one here. path: split at "/", as td_http_path() has it: containerLogs, exec, attach and
// portForward as a kubelet knows them, and the query of either. Returns NULL for everything else. The caller frees it.
char *td_far_target(const struct td_http_x *x, const struct td_strv *path, const char *ns, const char *copy);
