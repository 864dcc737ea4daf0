// What an installation says of kubelets that are too old for a right of the agents.
#include "cli/apply.h"

#include <stdio.h>
#include <stdlib.h>

enum { FINE_MINOR = 33 }; // kubelets know nodes/pods from 1.33 on

bool td_cli_old_kubelets(const yyjson_val *version)
{
	// Some providers write "32+".
	const char *major = td_jstr(version, "major"), *minor = td_jstr(version, "minor");
	return major && minor && strtol(major, NULL, 10) == 1 && strtol(minor, NULL, 10) < FINE_MINOR;
}

// Whether the agents' account may get nodes/proxy. An administrator who may not ask: it may not.
static bool agent_may(struct td_kube *k, struct td_cancel *c)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "apiVersion", "authorization.k8s.io/v1");
	td_jm_str(d, root, "kind", "SubjectAccessReview");
	td_jm_str(d, root, "spec.user", "system:serviceaccount:tandem-node:tandem-agent");
	td_jm_str(d, root, "spec.resourceAttributes.verb", "get");
	td_jm_str(d, root, "spec.resourceAttributes.resource", "nodes");
	td_jm_str(d, root, "spec.resourceAttributes.subresource", "proxy");

	td_auto(td_json_unref) struct td_json *ask = td_json_from_mut(root), *said = NULL;
	size_t len = 0;
	td_auto_free char *text = td_json_text(td_json_root(ask), &len);
	const struct td_kube_body body = {"application/json", text, len};
	return !td_kube_raw(k, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &body, c, &said, NULL) &&
	       td_jbool(td_json_root(said), "status.allowed", false);
}

void td_cli_tell_kubelets(struct td_kube *k, const char *kubelet, struct td_cancel *c)
{
	td_auto(td_json_unref) struct td_json *version = NULL;
	if (td_streq(kubelet, "none") || td_kube_raw(k, "GET", "/version", NULL, c, &version, NULL) ||
	    !td_cli_old_kubelets(td_json_root(version)) || agent_may(k, c))
		return;

	printf("\nThis is Kubernetes %s. Kubelets before 1.33 answer an agent only when it may get nodes/proxy: "
	       "without\n"
	       "it the devices of a pod that is deleted by force stay held. Choose one:\n"
	       "  `--kubelet none`: agents do not ask (tandem-agent(8) says what that gives up)\n"
	       "  a strong right: who has it can run commands in every pod. It is yours: delete both when the last\n"
	       "  kubelet is newer, and when Tandem goes\n"
	       "    kubectl create clusterrole tandem-agent-proxy --verb=get --resource=nodes/proxy\n"
	       "    kubectl create clusterrolebinding tandem-agent-proxy --clusterrole=tandem-agent-proxy \\\n"
	       "      --serviceaccount=tandem-node:tandem-agent\n",
	       td_jstr_or(td_json_root(version), "gitVersion", ""));
}
