// What a key of one project may do: submit runs and open sessions in that project, and look after these. All else is
// refused at the door (x-tandem-project in openapi.yaml), and what is another's, or outside, is not there for it.
//
// It is a limit of the gateway's doors. A job that it starts is its user's, with his home and his rights in Slurm.
#pragma once

#include "gateway/door.h"

// A request by such a key begins. may: the operation is one of those. TD_DENIED.
int td_gateway_scope_begin(struct td_gateway_ask *q, const char *project, bool may, const char *what,
			   struct td_error *err);
// Is this the account of a project that he runs in? TD_NOT_FOUND.
int td_gateway_scope_is(struct td_gateway_ask *q, const char *account, struct td_error *err);
// Puts the key's project into a body that names no account: q->body is then in *ret, which the caller unrefs. TD_DENIED:
// it names another. Nothing for other requests. Steps: "job.steps" of runs; NULL: the body itself.
int td_gateway_scope_body(struct td_gateway_ask *q, const char *steps, struct td_json **ret, struct td_error *err);
// Whether a run with this record, or a session that was asked for so, may be seen.
bool td_gateway_scope_run(const struct td_gateway_ask *q, const yyjson_val *record);
bool td_gateway_scope_session(const struct td_gateway_ask *q, const char *account);
