// For this room only: the client struct, kubeconfig, paths, and the mapping from replies to codes.
#pragma once

#include "http/client.h"
#include "kube/kube.h"

struct td_kube {
	struct td_http_client *http;
	char *server, *ca_file;
	uint64_t requests, bytes; // atomics
	int fds[3];               // memfds of inline CA, certificate and key; -1: none
};

// What a kubeconfig, or the service account files of a pod, say about one server.
struct td_kube_config {
	char *server, *ca_file, *cert_file, *key_file, *token_file, *token;
	int fds[3];
};
int td_kube_config_load(const char *kubeconfig, struct td_kube_config *ret, struct td_error *err);
void td_kube_config_done(struct td_kube_config *c);

// Appends "/api/v1/namespaces/NS/pods/NAME/SUB". ns, name and sub may be NULL.
void td_kube_path(struct td_buf *b, const struct td_gvr *r, const char *ns, const char *name, const char *sub);
// Fills err from a reply that is not 2xx and returns the code.
int td_kube_refusal(const struct td_http_reply *r, bool write, struct td_error *err);
// A GET whose 2xx body is passed on as it arrives; idle_ms as in td_http_call. A refusal becomes an
// error as for the verbs.
int td_kube_stream(struct td_kube *k, const char *path, int64_t idle_ms,
		   int (*on_data)(void *ctx, const char *p, size_t n), void *ctx, struct td_cancel *c,
		   struct td_error *err);
// measure.c: td_kube_verb returns the verb of a call and writes its resource, both for labels. The
// others count the result of a call (status 0: no reply came) and more bytes of a stream.
const char *td_kube_verb(const struct td_http_call *call, char *ret_resource, size_t n);
void td_kube_counted(const struct td_http_call *call, int status, size_t bytes, int64_t took_ms);
void td_kube_received(const struct td_http_call *call, size_t bytes);
// Appends "&labelSelector=…&fieldSelector=…"; a selector that is NULL or empty is left out.
void td_kube_selectors(struct td_buf *b, const char *labels, const char *fields);
// Compares resourceVersions as numbers. Returns false when either is not a number.
bool td_rv_older(const char *a, const char *b);
