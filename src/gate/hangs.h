// Jobs of Slurm that hang (docs/health.md): `tandem-standin watch` in slurmd's pod says what it sees of each job, and
// does what is answered; here is the policy, which the operator writes on the Node, and what was seen before. That is not
// durable: an agent that starts anew waits from then on.
#pragma once

#include "checkup/checkup.h"
#include "gate/gate.h"
#include "kube/informer.h"

struct td_hangs_opts {
	struct td_gate *gate;
	struct td_informer *nodes;
	const struct td_clock *clock;
	const char *const *names; // of the nodes; all outlive the td_hangs
	int n;
	struct td_stragglers *stragglers; // which other looks are wanted; NULL: none
};
struct td_hangs;
struct td_hangs *td_hangs_new(const struct td_hangs_opts *o);
struct td_hangs *td_hangs_free(struct td_hangs *h);
// Do the lists of a policy (partitions, qos) name the job of the request?
bool td_hangs_named(const yyjson_val *policy, const struct td_gate_request *q);
// The signs of a policy as a mask (pool/hang.h).
unsigned td_hangs_signs(const yyjson_val *policy);
// The number of the signal that a policy names; 0: it names none.
int td_hangs_signal(const char *name);
// The busiest of the job's devices on a node, in percent. -1: it has none; -2: one does not say. f: as below.
double td_hangs_gpu(struct td_gate *gate, int node, int64_t job, const struct td_checkup_facts *f);
// Answers a request "hangs", "progress" or "use". f: the node's devices as the checks saw them last; NULL: not known. *ret: the
// answer's words; NULL: there is nothing to do.
void td_hangs_ask(struct td_hangs *h, int node, const struct td_gate_request *q, const struct td_checkup_facts *f,
		  char **ret);
