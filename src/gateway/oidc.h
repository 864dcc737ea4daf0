// Logging in by an issuer that the SlurmCluster names (spec.identity.oidc, room oidc). It says who
// somebody is; that he exists here is said by spec.users, and nobody else comes in.
#pragma once

#include "gateway/door.h"
#include "oidc/oidc.h"

// What the SlurmCluster says now. The caller calls done.
struct td_gateway_oidc {
	struct td_object *cluster;
	yyjson_val *spec; // of spec.identity.oidc
	struct td_oidc *issuer;
	char *scope; // what is asked for
};
// How often anybody may begin or end a login by the issuer, in a browser or by a code.
extern const struct td_gateway_rate td_gateway_oidc_logins;

void td_gateway_oidc_done(struct td_gateway_oidc *o);
#define td_auto_gateway_oidc __attribute__((cleanup(td_gateway_oidc_done)))
// TD_UNSUPPORTED: it names no issuer. TD_TRANSIENT: nothing can be signed yet (keys.h).
int td_gateway_oidc(struct td_gateway *g, struct td_gateway_oidc *ret, struct td_error *err);
// Whose claims these are. TD_DENIED: nobody's here.
int td_gateway_oidc_person(struct td_gateway *g, const struct td_gateway_oidc *o, const yyjson_val *claims,
			   struct td_gateway_user *ret, struct td_error *err);
