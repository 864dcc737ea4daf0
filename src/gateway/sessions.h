// Sessions: pods of people behind the gateway. The pod is all there is of one; it is in a namespace
// whose jobs Slurm counts as its owner's (spec.scheduler.namespaces of the SlurmCluster), and only there
// is it looked for.
#pragma once

#include "gateway/door.h"

// Answers a request for /s/ID/…: passes it on to the session ID of this person, or refuses.
int td_session_pass(struct td_gateway_ask *q, struct td_error *err);
// Ends sessions that are over by the rules (pool/idle.h), until the gateway ends. A thread's function.
void *td_session_thread(void *gateway);

// When each session had its last traffic, as far as this gateway saw.
struct td_session_traffic;
struct td_session_traffic *td_session_traffic_new(void);
struct td_session_traffic *td_session_traffic_free(struct td_session_traffic *t);
