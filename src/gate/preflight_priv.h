// What preflight.c and several.c share.
#pragma once

#include "gate/preflight.h"
#include "pool/preflight.h"
#include "json/json.h"

#include <pthread.h>

struct td_preflight_sick {
	bool is;
	int64_t job, at_ms; // whose test failed, and when (monotonic)
	char why[128];
};
struct td_preflight_node {
	struct td_holder passed[TD_HEALTH_GPUS]; // the last one that passed
	struct td_preflight_sick sick[TD_HEALTH_GPUS];
	// For a test of several nodes (several.c)
	bool blamed, by_storage;
	int64_t blamed_ms, blamed_job; // when it was last said (monotonic), and whose test it was
	char blamed_why[128];
};
struct td_preflight {
	struct td_preflight_opts o;
	pthread_mutex_t mu; // guards node
	struct td_preflight_node *node;
};

// The policy, as the operator writes it on the Node. Texts point into json.
struct td_preflight_policy {
	struct td_json *json;
	struct td_strv lists[3];
	long long ms, tries, limit_ms; // limit_ms: what takes longer has failed; 0: LIMIT_MS
	bool must;                     // what cannot be tested has failed
	const char *program;
	bool say;            // only say that it failed
	long long kib;       // of the test of several nodes; 0: there is none
	const char *storage; // its directory; NULL: none
};
// False: there is none.
bool td_preflight_policy_read(struct td_preflight *p, int node, struct td_preflight_policy *ret);
void td_preflight_policy_done(struct td_preflight_policy *p);
#define auto_preflight_policy __attribute__((cleanup(td_preflight_policy_done)))
// *ret: the policy wants a test of the job. TD_NOT_FOUND: its QOS decides, and was not said.
int td_preflight_wants(const struct td_preflight_policy *p, const struct td_preflight_ask *q, bool *ret,
		       struct td_error *err);

// ---- several.c ----

void td_preflight_count_several(const char *node, const char *result, double n);
void td_preflight_several_findings(struct td_preflight *p, int node, struct td_checkup_findings *ret);
