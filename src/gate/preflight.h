// The quick test of a job's devices before it starts (docs/health.md, pre-flight): exactly the devices that it
// was given, after the gate let it in and before any of its processes. A HealthPolicy says whose; the operator
// writes that on the Node.
//
// A device that failed is a finding of the node's checks until the same test passes on it while nobody holds
// it: once the node is out of service, and every 10 s before. The findings are not durable. An agent that
// starts anew has none, and what was begun for them goes on: the node returns by its test.
#pragma once

#include "checkup/checkup.h"
#include "gate/gate.h"
#include "kube/informer.h"

struct td_preflight_opts {
	struct td_gate *gate;
	struct td_informer *nodes;
	const struct td_clock *clock;
	const char *const *names; // of the nodes; all outlive the td_preflight
	const char *selftest;     // the program tandem-standin, for fake devices; NULL: there are none
	bool test_gpus;           // as in nodehealth.h
	int gpus_each;
	const char *const *faults; // of each node: its file of faults; NULL: none
	const char *actions;       // directory of a site's programs; NULL: none
	int n;
};
struct td_preflight;
struct td_preflight *td_preflight_new(const struct td_preflight_opts *o);
struct td_preflight *td_preflight_free(struct td_preflight *p);

struct td_preflight_ask {
	int node;
	uint64_t mask;
	const struct td_holder *h;
	const char *partition, *qos, *ns;       // NULL: not known, or none
	int64_t timeout_ms;                     // at most 30 s are used
	const struct td_checkup_findings *know; // what the checks find now; NULL: nothing
};
// 0: the job may start. TD_DENIED: a device failed, and *ret_tries says how often a job may meet that.
// TD_NOT_FOUND: it depends on the job's QOS, which is NULL here. A holder that passed passes again.
int td_preflight_run(struct td_preflight *p, const struct td_preflight_ask *q, long long *ret_tries,
		     struct td_cancel *c, struct td_error *err);
// Waits, at most so long, until the node is drained in Slurm with our words, so that the Prolog's failure does
// not drain it with Slurm's.
void td_preflight_await_drain(struct td_preflight *p, int node, int64_t ms, struct td_cancel *c);
// Tests again what failed, where that is due.
void td_preflight_again(struct td_preflight *p, int node, struct td_cancel *c);
// Appends the devices that failed.
void td_preflight_findings(struct td_preflight *p, int node, struct td_checkup_findings *ret);

// ---- idle nodes (probe.c) ----

struct td_preflight_probe {
	int node;
	uint64_t mask; // of its devices; nobody holds them
	int64_t ms, limit_ms;
};
struct td_preflight_figures {                         // 0: not measured
	double gflops, memory, disk_write, disk_read; // the last three in MB/s
};
// Tests devices that nobody holds, with the program that the policy's preflight names, too. TD_DENIED: some failed, and are
// findings from now on; why says it. Other errors say that no test took place.
int td_preflight_probe(struct td_preflight *p, const struct td_preflight_probe *q, struct td_cancel *c,
		       struct td_preflight_figures *f, char *why, size_t n, struct td_error *err);

// ---- several nodes together (several.c) ----

// Whether a policy wants the nodes of q's job tested together: *ret says how, for the first node's Prolog; NULL: no.
// result: what came of the test, and only that is counted; "": it is asked for. TD_NOT_FOUND: as td_preflight_run.
int td_preflight_several(struct td_preflight *p, const struct td_preflight_ask *q, const char *result, char **ret,
			 struct td_error *err);
struct td_preflight_suspicion {
	bool bad, storage; // storage: shared storage is what failed, not the exchange of data
	int64_t job;
	const char *why; // '_' for ' '
};
// The node is, or is no more, to blame for such a test. It is a finding for a minute, and is said again meanwhile.
// True: this is new, and the node is to be taken out of service.
bool td_preflight_suspect(struct td_preflight *p, int node, const struct td_preflight_suspicion *s);
