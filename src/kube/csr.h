// CertificateSigningRequests, as far as a new node makes them with a bootstrap token.
#pragma once

#include "kube/kube.h"

#define TD_CSR_SIGNER "kubernetes.io/kube-apiserver-client-kubelet"
#define TD_CSR_GROUP "system:bootstrappers:tandem" // of Tandem's own bootstrap tokens
#define TD_CSR_NODES "system:nodes"
#define TD_CSR_NODE "system:node:"
#define TD_CSR_TOKENS "kube-system"                 // the namespace of bootstrap tokens
#define TD_CSR_SECRET "bootstrap-token-"            // the Secret of one: with its id behind
#define TD_CSR_TOKEN "system:bootstrap:"            // the user who comes with one
#define TD_CSR_MACHINE "key:"                       // a machine's id: with the id of its key behind (http/csr.h)
enum { TD_CSR_ID_LEN = 6, TD_CSR_SECRET_LEN = 16 }; // of a token, ID.SECRET

// What one asks for. Texts point into the object, or are owned.
struct td_kube_csr {
	const char *token;  // the id of the bootstrap token by which it was made; NULL: not by one of Tandem's
	char *cn, *org;     // of the subject; NULL: it cannot be said
	char machine[80];   // "key:…", proven by the request's signature; "": the request cannot be read
	bool names, usages; // it asks for other names, too; its usages are those of a node's client certificate
	const char *decided, *certificate; // "Approved", "Denied" or "Failed"; the certificate in base64. NULL: not yet
};
void td_kube_csr_read(const struct td_object *o, struct td_kube_csr *ret);
void td_kube_csr_done(struct td_kube_csr *c);
#define td_auto_kube_csr __attribute__((cleanup(td_kube_csr_done)))
