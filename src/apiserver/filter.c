// The filter of system calls that a Tenant has for all its pods: the annotation tandem.dev/seccomp of its namespace,
// "RuntimeDefault" or "localhost/NAME", as the operator has it from the Tenant. A pod that names none gets it; one that
// names another, or that has none by being privileged, is refused. On a cluster deploy/kustomize/base/60-admission.yaml
// refuses both.
#include "apiserver/srv.h"

#include "base/names.h"

#include <string.h>

static const char local[] = "localhost/";

// The namespace's filter; NULL: none. The caller frees it.
static char *wanted(struct td_req *q)
{
	td_auto(td_item_unref) struct td_item *ns = td_srv_space(q);
	return ns ? td_strdup(td_jkey_str(td_jget(td_item_root(ns), "metadata.annotations"), TD_ANN_SECCOMP)) : NULL;
}

static int other_filter(struct td_req *q, yyjson_mut_val *pod, const char *where, const char *filter, const char *fix,
			struct td_refusal *r)
{
	return td_srv_forbid(q, r, td_jm_getstr(pod, "metadata.name"),
			     "%s: pods of namespace %s have the filter of system calls %.100s, as its Tenant says: %s",
			     where, q->ns, filter, fix);
}

// Does this profile, which is there, say another filter?
static bool other(yyjson_mut_val *profile, const char *filter)
{
	const char *type = td_jm_getstr(profile, "type"), *file = td_jm_getstr(profile, "localhostProfile");
	return td_starts(filter, local) ? !td_streq(type, "Localhost") || !td_streq(file, filter + strlen(local))
					: !td_streq(type, filter);
}

int td_srv_filter(struct td_req *q, yyjson_mut_doc *d, struct td_refusal *r)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_auto_free char *filter = wanted(q);
	if (!filter)
		return 0;
	// A session's pod comes with a profile of the gateway's; what is said here counts.
	if (td_auth_is_role(&q->user))
		td_jm_del(o, "spec.securityContext.seccompProfile");

	for (struct td_srv_container c = {.pod = o}; td_srv_container_next(&c);) {
		yyjson_mut_val *own = td_jm_get(c.is, "securityContext.seccompProfile"),
			       *all = td_jm_get(c.is, "securityContext.privileged");
		if (own && other(own, filter))
			return other_filter(q, o, "a container's securityContext.seccompProfile", filter,
					    "leave it out", r);
		if (all && yyjson_mut_get_bool(all))
			return other_filter(q, o, "a container's securityContext.privileged", filter,
					    "a privileged container has none; leave it out", r);
	}
	yyjson_mut_val *its = td_jm_get(o, "spec.securityContext.seccompProfile");
	if (its && other(its, filter))
		return other_filter(q, o, "spec.securityContext.seccompProfile", filter, "leave it out", r);
	bool file = td_starts(filter, local);
	td_jm_str(d, o, "spec.securityContext.seccompProfile.type", file ? "Localhost" : filter);
	if (file)
		td_jm_str(d, o, "spec.securityContext.seccompProfile.localhostProfile", filter + strlen(local));
	return 0;
}
