// One request, as a handler sees it.
#pragma once

#include "base/clock.h"
#include "gateway/gateway.h"
#include "http/server.h"

struct td_gateway_door;
struct td_gateway_ask {
	struct td_gateway *g;
	struct td_http_x *x;         // NULL: the clock asks (schedule.h), and nobody is answered
	struct td_cancel *stop;      // of one without x: what ends it; NULL: the gateway's end
	struct td_gateway_user user; // who asks; empty where nobody has to be known
	bool session;                // it is for a session, not for the API
	bool silent;                 // Slurm did not answer: it is asked nothing more
	const char *key;             // id of the key; NULL: the page's cookie
	const char *project;         // the key's: nothing is done outside of it (scope.h); NULL: no such key
	const char *hub;             // the federation whose hub asks in his name, or for itself; NULL: he asks himself
	char *args[2];               // what stands in the path for {id}
	struct td_gateway_door *door;
	yyjson_val *body; // checked against the schema; NULL: the operation takes none
};

// A handler answers and returns 0, or fails before it has answered: then the door answers.
struct td_gateway_op {
	const char *id; // operationId
	int (*run)(struct td_gateway_ask *q, struct td_error *err);
};
// The operations of each file.
extern const struct td_gateway_op td_gateway_account_ops[], td_gateway_job_ops[], td_gateway_run_ops[],
	td_gateway_log_ops[], td_gateway_file_ops[], td_gateway_session_ops[], td_gateway_env_ops[],
	td_gateway_data_ops[], td_gateway_schedule_ops[], td_gateway_usage_ops[], td_gateway_tenant_ops[],
	td_gateway_login_ops[], td_gateway_device_ops[], td_gateway_bill_ops[], td_gateway_member_ops[],
	td_gateway_project_ops[];

// Fires when nobody waits for the answer any more.
struct td_cancel *td_gateway_cancel(const struct td_gateway_ask *q);
// Answers with JSON.
void td_gateway_send(struct td_gateway_ask *q, int status, const yyjson_mut_doc *d);
// The HTTP status of a failure with this code.
int td_gateway_status(int code);
// Answers {"ok": true}.
int td_gateway_done(struct td_gateway_ask *q);
// A number in the query; def when it is not there. TD_INVALID names it.
int td_gateway_query_int(struct td_gateway_ask *q, const char *name, long long def, long long *ret,
			 struct td_error *err);

// The value of one cookie; NULL: it has none. The caller frees it.
char *td_gateway_cookie_of(const struct td_http_x *x, const char *name);
// Gives the page's cookie of a user who has proven who he is (account.c).
int td_gateway_come_in(struct td_gateway_ask *q, const char *user, struct td_error *err);

// Checks a body against the schema of an operation, as the door does.
int td_gateway_body_check(const struct td_gateway_ask *q, const char *operation, const yyjson_val *body,
			  struct td_error *err);

// The door itself. TD_INVALID: openapi.yaml and the operations do not fit.
int td_gateway_door_new(struct td_gateway *g, struct td_gateway_door **ret, struct td_error *err);
struct td_gateway_door *td_gateway_door_free(struct td_gateway_door *d);
void td_gateway_handle(struct td_http_x *x, void *door); // for the server
struct td_gateway *td_gateway_door_of(const struct td_gateway_door *d);
// The API's description, as JSON text.
const char *td_gateway_openapi(const struct td_gateway_door *d, size_t *ret_len);

// ---- limits.c ----
// How often a person may ask, and how often a password may be tried. Thread-safe.
struct td_gateway_limits *td_gateway_limits_new(const struct td_clock *clock);
struct td_gateway_limits *td_gateway_limits_free(struct td_gateway_limits *l);
struct td_gateway_rate {
	const char *kind; // "calls", "logins"
	double per_s, burst;
};
// Takes one from the bucket of (kind, name). TD_THROTTLED, with retry_after_ms, when it is empty.
int td_gateway_limit(struct td_gateway_limits *l, const struct td_gateway_rate *rate, const char *name,
		     struct td_error *err);
// How many connections that last one person may have at once, so that nobody has all that there are. Takes one,
// until it is released. TD_THROTTLED: he has `most` of them.
int td_gateway_hold(struct td_gateway_limits *l, const char *name, int most, struct td_error *err);
void td_gateway_release(struct td_gateway_limits *l, const char *name);

// ---- page.c ----
// Answers with a file of the page. False: there is none of that path.
bool td_gateway_page(struct td_http_x *x);
