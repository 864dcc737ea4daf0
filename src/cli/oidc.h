// Logging in by the site's own issuer (oidc.c), and what is kept of it for kubectl.
#pragma once

#include "cli/client.h"

// Shows the person an address and a code, and waits until he has confirmed them; c->key is then his
// key. What kubectl needs is kept in *ret_tokens, for td_client_tokens_save.
int td_client_by_issuer(struct td_client *c, const char *host, struct td_json **ret_tokens, struct td_error *err);
// url: of the gateway that gave them.
int td_client_tokens_save(const char *url, yyjson_val *tokens, struct td_error *err);
int td_client_tokens_forget(struct td_error *err);
