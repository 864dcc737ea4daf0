// Exact devices on a real Kubernetes: a pod's ResourceClaims say how many devices to ask Slurm for,
// and the claims are allocated to the devices that Slurm granted (docs/design/0011-dra.md). Pure;
// claims_write.c carries it out.
#pragma once

#include "bridge/settings.h"
#include "kube/slices.h"

// The API's own bounds. A pod with more claims is refused.
enum { TD_CLAIMS = 32, TD_CLAIM_REQUESTS = 32 };

struct td_claim_request {
	const char *name;      // points into the claim
	long long count;       // devices
	struct td_object *cls; // its DeviceClass; a reference
};
struct td_claim {
	struct td_object *obj; // a reference
	struct td_claim_request req[TD_CLAIM_REQUESTS];
	size_t n;
};
struct td_claims { // of one pod, in its order; each claim once
	struct td_claim v[TD_CLAIMS];
	size_t n;
	long long count; // devices of all claims
};
void td_claims_done(struct td_claims *c);
#define td_auto_claims __attribute__((cleanup(td_claims_done)))

struct td_claims_from { // where objects are looked up; both return a reference, or NULL
	struct td_object *(*claim)(void *ctx, const char *ns, const char *name);
	struct td_object *(*cls)(void *ctx, const char *name);
	void *ctx;
};
// Does the pod name claims at all?
bool td_claims_any(const yyjson_val *pod);
// Reads what the claims ask for. TD_NOT_FOUND: not now; err says what the pod waits for (a claim
// that is not made yet, or that another pod holds). TD_INVALID: never; err names the field and the
// fix.
int td_claims_read(const struct td_settings *s, const char *settings_name, const yyjson_val *pod,
		   const struct td_claims_from *from, struct td_claims *ret, struct td_error *err);

// The status that each claim shall have, as a document {"allocation":…,"reservedFor":[…]} for claim i in ret[i]; the
// caller unrefs them. TD_INVALID: the grant does not fit what is published.
struct td_claims_grant {
	const char *devices; // as td_devices_text; NULL: none
	const char *node;
	const struct td_dra_devices *on; // the node's devices by Slurm's indexes
};
int td_claims_plan(const struct td_claims *c, const struct td_settings *s, const yyjson_val *pod,
		   const struct td_claims_grant *g, struct td_json *ret[TD_CLAIMS], struct td_error *err);

enum td_claim_do {
	TD_CLAIM_DONE,
	// So that the allocation ends with the pod and the claim cannot go before it.
	TD_CLAIM_FINALIZER,
	TD_CLAIM_ALLOCATE, // allocation and reservedFor in one write
	// Remove both in one write: they are from a grant that has ended. Only when the pod is
	// surely unbound.
	TD_CLAIM_CLEAR,
	TD_CLAIM_WAIT, // another pod holds it, or it is being deleted: the grant is given back
};
struct td_claim_step {
	enum td_claim_do what;
	const char *why; // static
};
// The next write to one claim, from the claim's present state alone: after a crash at any point the
// same steps are found again. want: from td_claims_plan(); NULL: the pod has no grant.
struct td_claim_step td_claim_next(const yyjson_val *claim, const char *pod_uid, const yyjson_val *want);
