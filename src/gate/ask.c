// Reads for one decision, with a short deadline: this node's pods from the API, and from the node's
// kubelet (GET /pods on its port). Both use the same identity (a ServiceAccount's token, or what
// the kubeconfig holds).
//
// The kubelet is asked about pods that were deleted by force. The API has forgotten them, while
// their kubelet, perhaps cut off, may not know that yet and may start them again. No answer in time
// means unknown, and unknown is never free.
#include "gate/agent.h"
#include "http/client.h"

#include <stdio.h>
#include <string.h>

enum { ASK_MS = 2000, AGAIN_MS = 250, PORT = 10250, PODS_MAX = 32 << 20 };

// Writes the URL of this node's kubelet.
static int where(struct td_gate_agent *a, char *url, size_t n, struct td_error *err)
{
	if (a->o.url) {
		snprintf(url, n, "%s", a->o.url);
		return 0;
	}
	td_auto(td_object_unref) struct td_object *o = td_informer_get(a->nodes, NULL, a->o.node);
	yyjson_val *v;
	size_t i, max;
	int port = o ? (int)td_jint(o->root, "status.daemonEndpoints.kubeletEndpoint.Port", PORT) : PORT;
	yyjson_arr_foreach (o ? td_jget(o->root, "status.addresses") : NULL, i, max, v) {
		const char *at = td_jstr_or(v, "address", "");
		if (td_streq(td_jstr(v, "type"), "InternalIP") && *at) {
			snprintf(url, n, strchr(at, ':') ? "https://[%s]:%d" : "https://%s:%d", at, port);
			return 0;
		}
	}

	return td_fail(err, TD_NOT_FOUND, "node %s has no InternalIP in its status: give --kubelet URL", a->o.node);
}

int td_gate_agent_call(struct td_gate_agent *a, const char *url, const char *path, const char *patch,
		       struct td_http_reply *ret, struct td_error *err)
{
	const struct td_http_call call = {.method = patch ? "PATCH" : "GET",
					  .path = path,
					  .content_type = patch ? "application/strategic-merge-patch+json" : NULL,
					  .body = patch,
					  .body_len = patch ? strlen(patch) : 0,
					  .max_body = PODS_MAX};
	return td_kube_call_as(a->o.kubeconfig, url, url ? a->o.ca : NULL, ASK_MS, &call, a->cancel, ret, err);
}

int td_gate_agent_pods(struct td_gate_agent *a, const char *url, const char *path, struct td_json **ret,
		       struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_reply struct td_http_reply rep = {0};
	int r = td_gate_agent_call(a, url, path, NULL, &rep, err);
	if (r)
		return r;
	if (rep.status == 401 || rep.status == 403)
		return td_fail(
			err, TD_DENIED, "%d %.200s%s", rep.status, td_buf_str(&rep.body),
			url ? ": the agent's account needs get on nodes/pods (nodes/proxy before Kubernetes 1.33)"
			    : "");
	if (rep.status != 200 || td_json_parse(td_buf_str(&rep.body), rep.body.len, &j, NULL) ||
	    !td_streq(td_jstr(td_json_root(j), "kind"), "PodList"))
		return td_fail(err, TD_INTERNAL, "its answer (%d) is no list of pods", rep.status);
	*ret = td_steal(j);
	return 0;
}

yyjson_val *td_gate_agent_find(const struct td_json *list, const char *uid)
{
	yyjson_val *v;
	size_t i, max;
	yyjson_arr_foreach (td_jget(td_json_root(list), "items"), i, max, v)
		if (td_streq(td_jstr(v, "metadata.uid"), uid))
			return v;
	return NULL;
}

int td_gate_agent_read(struct td_gate_agent *a, const char *uid, struct td_object **ret, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_free char *path = td_asprintf("/api/v1/pods?fieldSelector=spec.nodeName%%3D%s", a->o.node);
	int r = td_gate_agent_pods(a, NULL, path, &j, err);
	if (r)
		return td_wrap(err, "API");
	yyjson_val *v = td_gate_agent_find(j, uid);
	*ret = v ? td_object_kept(v) : NULL;
	return 0;
}

enum td_known td_gate_agent_ask(struct td_gate_agent *a, const char *uid, struct td_error *err)
{
	char url[256];
	td_auto(td_json_unref) struct td_json *j = NULL;
	struct td_error e = TD_ERROR_INIT;
	if (td_streq(a->o.url, "none"))
		return TD_KNOWN_NO;

	pthread_mutex_lock(&a->ask);
	// Several may wait for one pod, and each looks every 100 ms, so an answer is repeated for a
	// while. "No" is never repeated: it ends the waiting, so it must be fresh.
	int64_t now = td_mono_ms(a->clock);
	if (strcmp(a->said.uid, uid) || a->said.known == TD_KNOWN_NO || now - a->said.at_ms > AGAIN_MS) {
		int r = where(a, url, sizeof(url), &e);
		if (!r && (r = td_gate_agent_pods(a, url, "/pods", &j, &e)))
			td_wrap(&e, "kubelet %s", url);
		a->said.known = r ? TD_KNOWN_UNANSWERED : td_gate_agent_find(j, uid) ? TD_KNOWN_YES : TD_KNOWN_NO;
		a->said.at_ms = td_mono_ms(a->clock);
		a->said.err = e;
		snprintf(a->said.uid, sizeof(a->said.uid), "%s", uid);
	}

	enum td_known known = a->said.known;
	*err = a->said.err;
	pthread_mutex_unlock(&a->ask);
	return known;
}
