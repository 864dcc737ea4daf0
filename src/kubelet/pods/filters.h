// NetworkPolicies in force: each pod that one selects has a filter in its network namespace
// (oci/filter.c), before its first container starts.
//
// As every engine does, this one lets a node talk with its pods, so the roles of Tandem and the
// machine (the switch's address) always reach a pod. A pod may always talk to that address too, where
// the API and the gateway are: there is no other way out of the embedded plane.
// A pod with the label tandem.dev/private-network takes nothing that a policy does not allow, also
// when the policy is not there yet or no more.
#pragma once

#include "kube/kube.h"
#include "kubelet/kubelet.h"

struct td_filters;
struct td_pod;
struct td_filters *td_filters_new(struct td_kubelet *a);
struct td_filters *td_filters_free(struct td_filters *f);
// Brings the filter of p up to date, whose network is there and whose containers are not. An error is
// p's: it must not start. What other pods' filters say of p comes soon after (td_filters_changed): an
// address comes back only after all others of its node, so no filter still means its last owner.
int td_filters_sync(struct td_filters *f, struct td_pod *p, struct td_error *err);
// Does so soon. Any thread may call it.
void td_filters_changed(struct td_filters *f);
// The worker: runs until `c` is cancelled.
int td_filters_run(struct td_filters *f, struct td_cancel *c, struct td_error *err);

// ---- pure parts ----
struct td_filters_pod {
	const char *ns;
	const yyjson_val *labels;
	uint32_t ip; // network byte order; 0: none
};
struct td_filters_facts {
	const struct td_object *const *policies, *const *namespaces;
	size_t n_policies, n_namespaces;
	const struct td_filters_pod *pods;
	size_t n_pods;
	uint32_t node; // the switch's address
};
// What the policies say of all pods.
struct td_filters_rules;
struct td_filters_rules *td_filters_rules_new(const struct td_filters_facts *facts);
struct td_filters_rules *td_filters_rules_free(struct td_filters_rules *r);
TD_DEFINE_AUTO(struct td_filters_rules *, td_filters_rules_free)
// The filter of one of them. Its lists are ret_in and ret_out, of struct td_net_allow.
void td_filters_of(const struct td_filters_rules *r, const struct td_filters_pod *pod, struct td_net_filter *ret,
		   struct td_buf *ret_in, struct td_buf *ret_out);
// True when the failure r of taking away the filter of a pod of an earlier process (`want` TD_FILTER_NONE, `was`
// TD_FILTER_UNKNOWN) says that there was none: the kernel has no filters. After any other failure the old filter may
// be in force still, and it is tried again.
bool td_filters_none_there(int r, uint64_t want, uint64_t was);
