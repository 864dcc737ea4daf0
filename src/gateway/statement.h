// Statements: how the hub of a Federation proves to a member who asks. A statement says which federation
// and which member it is for, the person's name (or none: the hub asks for itself), and that it ends within
// a minute. Each member has a key of its own, so no member can speak to another.
//
// The hub signs with the entry member.NAME of its Secret CLUSTER-gateway, the member checks by the entry
// hub.FEDERATION of its own; both are the same text of 32 bytes or more. Whom the member lets in that way says
// its SlurmCluster (spec.federation.hubs): without an entry there nobody, whatever the Secret holds.
#pragma once

#include "gateway/door.h"

#define TD_STATEMENT "tdf:" // "tdf:FEDERATION:TOKEN" stands behind "Bearer "
enum { TD_STATEMENT_LIFE_S = 60, TD_STATEMENT_KEY_MIN = 32, TD_STATEMENT_CLOCKS_S = 30 };

struct td_statement {
	const char *federation, *member;
	const char *user; // NULL: the hub itself
};
// The caller wipes and frees it. TD_DENIED: there is no key for this member.
int td_statement_make(struct td_gateway *g, const struct td_statement *s, char **ret, struct td_error *err);
// *ret_user: NULL when the hub asks for itself; *ret_hub: the federation. The caller frees both.
// TD_UNAUTHENTICATED: it proves nothing here; TD_DENIED: it does, and he may not come that way.
int td_statement_check(struct td_gateway *g, const char *bearer, char **ret_user, char **ret_hub, struct td_error *err);

// Whether its hub may open sessions here (spec.federation.hubs[].sessions).
bool td_statement_sessions(struct td_gateway *g, const char *federation);

// The two halves of it, pure.
struct td_statement_rule {
	const yyjson_val *hubs;       // spec.federation.hubs
	const char *federation, *key; // key: that federation's; "" is none
	int64_t now;                  // epoch seconds
};
char *td_statement_sign(const struct td_statement *s, const char *key, int64_t now);
int td_statement_read(const struct td_statement_rule *r, const char *token, char **ret_user, struct td_error *err);
