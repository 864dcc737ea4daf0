// What the room's own files share of an issuer.
#pragma once

#include "oidc/oidc.h"

// A field of the issuer's document, an address that may be asked. The caller frees it. TD_UNSUPPORTED:
// the document has none.
int td_oidc_endpoint(struct td_oidc *i, const char *field, struct td_cancel *c, char **ret, struct td_error *err);
// Posts a form to an endpoint, as this client. A reply with another status than 200 is no failure.
struct td_oidc_reply {
	int status;
	struct td_json *body;
};
int td_oidc_post(struct td_oidc *i, const char *endpoint, struct td_buf *form, struct td_cancel *c,
		 struct td_oidc_reply *ret, struct td_error *err);
// Appends NAME=VALUE to a form or a query.
void td_oidc_param(struct td_buf *b, const char *name, const char *value);
const char *td_oidc_client_id(const struct td_oidc *i);
