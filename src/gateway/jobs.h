// The queue and the pool, as they were last seen.
#pragma once

#include "gateway/door.h"

// A look at Slurm that is at most about half a second old; on a large queue older, so that Slurm has
// time for others. The caller unrefs it. NULL: err says why there is none.
struct td_gateway_seen *td_gateway_look(struct td_gateway *g, struct td_error *err);
// The last one, however old it is: for when there is no other. NULL: none yet. The caller unrefs it.
struct td_gateway_seen *td_gateway_last_look(struct td_gateway *g);
struct td_gateway_seen *td_gateway_seen_unref(struct td_gateway_seen *s);
TD_DEFINE_AUTO(struct td_gateway_seen *, td_gateway_seen_unref)

// A job in words: "waiting", "running", "suspended", "done", "failed", "cancelled", "timeout", ….
const char *td_gateway_job_state(const struct td_slurm_job *j);
// Adds a job's fields to o. `now`: epoch seconds.
void td_gateway_job_write(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_slurm_job *j, int64_t now);
// Ends a job of this user, or an array of his. TD_NOT_FOUND: there is none of that id that is his and
// has not ended.
int td_gateway_job_end(struct td_gateway *g, const char *user, int64_t id, struct td_cancel *c, struct td_error *err);

// ---- faults.c: what the checks of a node's agent found (annotation tandem.dev/faults) ----
// Adds to a node of the pool: `fault` to each device in its list `gpus` that has one, `faults` of the node itself, and
// why it is held out of service.
void td_gateway_faults_write(struct td_gateway *g, const char *node, yyjson_mut_doc *d, yyjson_mut_val *o);
// h (base/hash.h) and they.
uint64_t td_gateway_faults_print(struct td_gateway *g, uint64_t h, const char *node);
