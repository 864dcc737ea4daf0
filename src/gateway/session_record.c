// What is kept of a session besides its pod: the ConfigMap session-ID beside it, with what was asked
// for. It is made before the pod and goes when the session is stopped, so a session whose pod was
// ended by the rules can be resumed at the same address.
#include "gateway/sessions.h"

#include "base/names.h"
#include "gateway/scope.h"

#include <string.h>

static char *name_of(const char *id)
{
	return td_asprintf("session-%s", id);
}

int td_session_record_make(struct td_gateway_ask *q, const char *ns, const char *id, struct td_object **ret,
			   struct td_error *err)
{
	td_auto_free char *name = name_of(id), *request = td_json_text(q->body, NULL);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_str(d, o, "kind", "ConfigMap");
	td_jm_str(d, o, "metadata.name", name);
	td_jm_str(d, o, "metadata.namespace", ns);
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), TD_LABEL_SESSION, id);
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.annotations"), TD_ANN_SESSION_OWNER, q->user.name);
	td_jm_str(d, o, "data.request", request);
	if (td_jint(q->body, "replicas", 0))
		td_jm_strf(d, o, "data.replicas", "%lld", (long long)td_jint(q->body, "replicas", 0));
	if (td_session_host_asked(q->body))
		td_session_host_record_write(q->body, d);
	else
		td_session_nodes_record(q->body, id, d);
	// The pod's /etc/passwd and /etc/group: shells, git and ssh ask for the user's name.
	td_jm_strf(d, o, "data.passwd",
		   "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
		   "%s:x:%lld:%lld::%s:/bin/bash\n",
		   q->user.name, (long long)q->user.uid, (long long)q->user.gid, q->user.home);
	td_jm_strf(d, o, "data.group", "root:x:0:\nnogroup:x:65534:\n%s:x:%lld:\n", q->user.name,
		   (long long)q->user.gid);
	return td_kube_create(q->g->kube, &td_configmaps, ns, o, td_http_cancel(q->x), ret, err);
}

bool td_session_record_scoped(const struct td_gateway_ask *q, const struct td_object *record)
{
	const char *request = td_jstr_or(record->root, "data.request", "");
	td_auto(td_json_unref) struct td_json *j = NULL;
	return !q->project || (!td_json_parse(request, strlen(request), &j, NULL) &&
			       td_gateway_scope_session(q, td_jstr(td_json_root(j), "account")));
}

int td_session_record_get(struct td_gateway_ask *q, const char *ns, const char *id, struct td_object **ret,
			  struct td_error *err)
{
	td_auto_free char *name = name_of(id);
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_kube_get(q->g->kube, &td_configmaps, ns, name, td_http_cancel(q->x), &o, err);
	if (r == TD_NOT_FOUND || (!r && !td_streq(td_object_annotation(o, TD_ANN_SESSION_OWNER), q->user.name)))
		return td_fail(err, TD_NOT_FOUND, "there is no session %.40s: `tandem session list` shows yours", id);
	if (!r && !td_session_record_scoped(q, o))
		return td_fail(err, TD_NOT_FOUND, "there is no session %.40s in project %.63s, of which this key is",
			       id, q->project);
	if (!r)
		*ret = td_steal(o);
	return r;
}

int td_session_record_list(struct td_gateway *g, const char *ns, struct td_cancel *c, struct td_objects *ret,
			   struct td_error *err)
{
	return td_kube_list(g->kube, &td_configmaps, ns, TD_LABEL_SESSION, NULL, c, ret, err);
}

int td_session_record_end(struct td_gateway *g, const char *ns, const char *id, const struct td_session_end *end,
			  struct td_error *err)
{
	td_auto_free char *name = name_of(id), *at = td_asprintf("%lld", (long long)end->at);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	if (end->at) {
		td_jm_str(d, o, "data.ended", at);
		td_jm_str(d, o, "data.why", end->why);
	} else {
		td_jm_set(d, o, "data.began", yyjson_mut_null(d));
		td_jm_set(d, o, "data.ended", yyjson_mut_null(d));
		td_jm_set(d, o, "data.why", yyjson_mut_null(d));
	}
	const struct td_kube_place place = {.resource = &td_configmaps, .ns = ns, .name = name};
	return td_kube_patch(g->kube, &place, TD_PATCH_MERGE, o, g->cancel, NULL, err);
}

int td_session_record_set(struct td_gateway *g, const struct td_object *record, yyjson_mut_doc *data,
			  struct td_error *err)
{
	const struct td_kube_place place = {.resource = &td_configmaps, .ns = record->ns, .name = record->name};
	return td_kube_patch(g->kube, &place, TD_PATCH_MERGE, yyjson_mut_doc_get_root(data), g->cancel, NULL, err);
}

int td_session_record_remove(struct td_gateway_ask *q, const struct td_object *record, struct td_error *err)
{
	const struct td_kube_delete_opts how = {.uid = record->uid, .grace_s = -1};
	return td_kube_delete(q->g->kube, &td_configmaps, record->ns, record->name, &how, td_http_cancel(q->x), err);
}

void td_session_record_write(const struct td_object *record, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	const char *id = td_object_label(record, TD_LABEL_SESSION),
		   *request = td_jstr_or(record->root, "data.request", ""),
		   *ended = td_jstr(record->root, "data.ended");
	td_auto(td_json_unref) struct td_json *j = NULL;
	long long at = 0;
	td_jm_str(d, w, "id", id);
	td_jm_str(d, w, "state", ended ? "reclaimed" : "stopped");
	td_jm_str(d, w, "words", td_jstr(record->root, "data.why"));
	if (ended && td_parse_i64(ended, &at))
		td_jm_int(d, w, "ended", at);
	if (td_json_parse(request, strlen(request), &j, NULL))
		return; // somebody has changed it: it can be removed
	const struct td_session_kind *kind = td_session_kind(td_jstr_or(td_json_root(j), "kind", "endpoint"));
	td_jm_str(d, w, "kind", kind ? kind->name : NULL);
	td_jm_str(d, w, "command", td_jstr(td_json_root(j), "command"));
	if (kind && kind->served)
		td_jm_strf(d, w, "path", "/s/%s/", id);
}
