// The ConfigMaps and Secrets that a pod names, and what they are called in the other cluster. Pure.
//
// All copies lie in one namespace there. So what is one there has a name that is made of its namespace and name here and of
// the NodeSet: no pod can name another namespace's, because no name that a pod says goes there as it is.
#pragma once

#include "base/mem.h"
#include "json/json.h"

struct td_far_ref {
	bool secret;   // else a ConfigMap
	bool optional; // wherever it is named: the pod does without it
	char *name;    // here
};
struct td_far_refs {
	struct td_far_ref *v;
	size_t n;
};
// Adds what the spec of a pod names, each once. Not what is in the volume of its account's token.
void td_far_refs_of(const yyjson_val *pod, struct td_far_refs *ret);
void td_far_refs_done(struct td_far_refs *r);
#define td_auto_far_refs __attribute__((cleanup(td_far_refs_done)))

// "s/NAMESPACE/NAME" or "c/NAMESPACE/NAME": a key of the link's queue. The caller frees it.
char *td_far_ref_key(bool secret, const char *ns, const char *name);
// Its name there: "NAMESPACE-NAME-<32 hex digits>". The caller frees it.
char *td_far_ref_there(const char *set_uid, const char *key);
// Gives the names there to all that a copy's spec names. ns: of the pod here.
void td_far_refs_rename(yyjson_mut_doc *d, yyjson_mut_val *spec, const char *set_uid, const char *ns);
// Appends "s/NAME" and "c/NAME" for all that the spec of a pod there names.
void td_far_refs_there(const yyjson_val *pod, struct td_strv *ret);

// The volume that Kubernetes adds to every pod for the token of its account. A copy has none.
bool td_far_token_volume(const char *name);
