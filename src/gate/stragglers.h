// Slurm's jobs of which one rank is slower than the others (docs/health.md). `tandem-standin watch` on a job's first
// node says what the ranks say of themselves, and does what is answered; here is the policy, which the operator writes on
// the Node, and what was seen before. That is not durable: an agent that starts anew counts from then on.
#pragma once

#include "gate/hangs.h"

struct td_stragglers;
struct td_stragglers *td_stragglers_new(const struct td_hangs_opts *o); // its gate is not used
struct td_stragglers *td_stragglers_free(struct td_stragglers *s);
// How often `watch` looks; 0: there is no policy.
int64_t td_stragglers_every_ms(struct td_stragglers *s, int node);
// Answers a request "pace". *ret: the answer's words; NULL: there is nothing to do.
void td_stragglers_ask(struct td_stragglers *s, int node, const struct td_gate_request *q, char **ret);
// A rank of the job is slow on q->slow, and whoever asks has seen that it is one of the job's nodes: says on that Node
// that it shall be tested, which the operator decides. The agent of the job's first node, `by`, does that.
int td_stragglers_accuse(struct td_kube *k, struct td_informer *nodes, const char *by, const struct td_gate_request *q,
			 struct td_cancel *c, struct td_error *err);
