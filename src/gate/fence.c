// A job ended before its pod was bound, and the next job asks for its devices. The pod is fenced
// (kube/fence.h): after that, a Binding that is on its way fails. So the pod never comes here with
// that grant, and nobody has to wait and see.
#include "kube/fence.h"
#include "base/log.h"
#include "gate/agent.h"
#include "http/client.h"

#include <string.h>

enum { TRIES = 5 };

// True when the name can go into a path: it has no character with a meaning there.
static bool is_name(const char *s)
{
	return s && s[0] != '.' && s[0] && s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-")] == '\0';
}

static enum td_seen once(struct td_gate_agent *a, const struct td_holder *h, const char *ns, const char *name,
			 struct td_object **ret, bool *ret_again, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *list = NULL;
	td_auto_free char *path = td_asprintf("/api/v1/namespaces/%s/pods?fieldSelector=metadata.name%%3D%s", ns, name);
	if (td_gate_agent_pods(a, NULL, path, &list, err)) {
		td_wrap(err, "API");
		return TD_SEEN_UNREAD;
	}
	yyjson_val *pod = td_gate_agent_find(list, h->ask);
	enum td_seen seen = td_seen_named(pod, a->o.node, h->job, h->start);
	if (seen == TD_SEEN_ACTIVE || seen == TD_SEEN_TERMINAL)
		*ret = td_object_kept(pod);
	if (seen != TD_SEEN_WAITS)
		return seen;

	td_auto_reply struct td_http_reply rep = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_fence_patch(
		h->ask, td_jstr(pod, "metadata.resourceVersion"), h->job, h->start, a->o.node, td_real_ms(a->clock));
	size_t len;
	td_auto_free char *patch = td_json_mut_text(yyjson_mut_doc_get_root(d), &len);
	td_auto_free char *status = td_asprintf("/api/v1/namespaces/%s/pods/%s/status?fieldManager=tandem", ns, name);
	// When the reply was lost, the next look shows what became of the patch.
	if (td_gate_agent_call(a, NULL, status, patch, &rep, err)) {
		td_wrap(err, "API");
		return TD_SEEN_UNREAD;
	}
	if (rep.status == 200) {
		td_info("agent: job %lld ended before its pod %s/%s was bound: the pod is fenced", (long long)h->job,
			ns, name);
		return TD_SEEN_NEVER;
	}

	// It is gone or has changed, perhaps it was bound: look again.
	*ret_again = rep.status == 404 || rep.status == 409;
	bool later = *ret_again || rep.status == 429 || rep.status >= 500;
	td_fail(err, later ? TD_TRANSIENT : TD_DENIED, "API: %d %.200s", rep.status, td_buf_str(&rep.body));
	return later ? TD_SEEN_UNREAD : TD_SEEN_WAITS;
}

enum td_seen td_gate_agent_fence(struct td_gate_agent *a, const struct td_holder *h, struct td_object **ret,
				 struct td_error *err)
{
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(h->ask_pod, &ns, &name);
	if (!is_name(ns) || !is_name(name))
		return TD_SEEN_ABSENT; // no pod has such a name

	enum td_seen seen = TD_SEEN_UNREAD;
	bool again = true;
	for (int i = 0; i < TRIES && again; i++) {
		again = false;
		seen = once(a, h, ns, name, ret, &again, err);
	}
	return seen;
}
