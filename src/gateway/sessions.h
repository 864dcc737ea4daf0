// Sessions: pods of people behind the gateway. The pod is all there is of one; it is in a namespace
// whose jobs Slurm counts as its owner's (spec.scheduler.namespaces of the SlurmCluster), and only there
// is it looked for.
#pragma once

#include "gateway/door.h"
#include "pool/idle.h"

// What may run in one (session_kind.c).
struct td_session_kind {
	const char *name;
	const char *program; // the file that runs; NULL: the caller says what does
	bool served;         // it answers at a port
	bool whole;          // it wants paths as the browser sees them, with /s/ID
	bool token;          // it answers only to who has the session's token, which the gateway adds
	bool terminal;       // its page is the gateway's, and its one path is "tty"
};
// NULL: there is no such kind.
const struct td_session_kind *td_session_kind(const char *name);
const struct td_session_kind *td_session_kind_of(const struct td_object *pod);
// The session's token; NULL: it has none.
const char *td_session_token(const struct td_object *pod);

// Starts one (session_start.c).
int td_session_start(struct td_gateway_ask *q, struct td_error *err);
// Answers a request for /s/ID/…: passes it on to the session ID of this person, or refuses (session_pass.c).
int td_session_pass(struct td_gateway_ask *q, struct td_error *err);
// Ends sessions that are over by the rules (pool/idle.h), until the gateway ends. A thread's function.
void *td_session_thread(void *gateway);

// The rules for all. A person may ask for stricter ones as he starts a session.
extern const struct td_idle_rules td_session_rules;

// ---- shared by these files (sessions.c) ----
// The namespace whose pods are this person's jobs. The caller frees it; NULL: he has none.
char *td_session_namespace(struct td_gateway *g, const char *user, struct td_error *err);
// The pod of the session ID of who asks. TD_NOT_FOUND also when it is somebody else's.
int td_session_find(struct td_gateway_ask *q, const char *id, struct td_object **ret, struct td_error *err);
int td_session_list(struct td_gateway *g, const char *ns, struct td_cancel *c, struct td_objects *ret,
		    struct td_error *err);
// What there is to say of one.
void td_session_write(struct td_gateway *g, const struct td_object *o, yyjson_mut_doc *d, yyjson_mut_val *w);
// An annotation that is a number; 0: it is not there.
int64_t td_session_number(const struct td_object *o, const char *key);

// When each session had its last traffic, as far as this gateway saw.
struct td_session_traffic;
struct td_session_traffic *td_session_traffic_new(void);
struct td_session_traffic *td_session_traffic_free(struct td_session_traffic *t);
// Somebody uses it now.
void td_session_touch(struct td_session_traffic *t, const char *id);
