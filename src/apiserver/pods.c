// What only pods have: binding, and the streams that the agent serves. For eviction see evict.c.
#include "apiserver/srv.h"

#include "base/names.h"

#include <stdio.h>
#include <string.h>

static yyjson_mut_val *condition(yyjson_mut_doc *d, yyjson_mut_val *o, const char *type)
{
	yyjson_mut_val *a = td_jm_arr(d, o, "status.conditions"), *c;
	size_t i, n;
	yyjson_mut_arr_foreach (a, i, n, c)
		if (td_streq(td_jm_getstr(c, "type"), type))
			return c;
	c = yyjson_mut_arr_add_obj(d, a);
	td_jm_str(d, c, "type", type);
	return c;
}

void td_srv_pod_condition(struct td_req *q, yyjson_mut_doc *d, const char *type, const char *reason,
			  const char *message)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	char t[TD_TIME_LEN];
	yyjson_mut_val *c = condition(d, o, type);
	if (!td_streq(td_jm_getstr(c, "status"), "True"))
		td_jm_str(d, c, "lastTransitionTime", td_time_format(q->now, t));
	td_jm_set(d, c, "lastProbeTime", yyjson_mut_null(d));
	td_jm_str(d, c, "status", "True");
	td_jm_del(c, "reason");
	td_jm_del(c, "message");
	td_jm_str(d, c, "reason", reason);
	td_jm_str(d, c, "message", message);
}

// ---- binding ----
static int conflict(struct td_req *q, struct td_refusal *r, const char *fmt, const char *a, const char *b)
{
	td_auto_buf struct td_buf m = {0};
	td_buf_printf(&m, "Operation cannot be fulfilled on pods/binding \"%s\": ", q->name);
	for (const char *p = fmt; *p; p++) { // fmt has two %s at most
		if (p[0] == '%' && p[1] == 's') {
			td_buf_puts(&m, a);
			a = b;
			p++;
		} else {
			td_buf_putc(&m, *p);
		}
	}
	td_refuse(r, 409, "Conflict", "%s", td_buf_str(&m));
	td_refuse_about(r, "", "pods/binding", q->name);
	return TD_DENIED;
}

static int bind_check(struct td_req *q, const struct td_item *pod, yyjson_val *b, struct td_refusal *r)
{
	const char *uid = td_jstr(b, "metadata.uid"), *rv = td_jstr(b, "metadata.resourceVersion");
	const char *have_rv = td_jstr_or(td_item_root(pod), "metadata.resourceVersion", "");

	bool other = uid && *uid && strcmp(uid, pod->uid) != 0;
	if (other || (rv && *rv && strcmp(rv, have_rv) != 0)) {
		const char *what = other ? "UID" : "ResourceVersion";
		td_refuse(r, 409, "Conflict",
			  "Operation cannot be fulfilled on pods \"%s\": StorageError: invalid object, Code: 4, "
			  "AdditionalErrorMsg: Precondition failed: %s in precondition: %s, %s in object meta: %s",
			  q->name, what, other ? uid : rv, what, other ? pod->uid : have_rv);
		td_refuse_about(r, "", "pods", q->name);
		return TD_DENIED;
	}

	if (td_jget(td_item_root(pod), "metadata.deletionTimestamp"))
		return conflict(q, r, "pod %s is being deleted, cannot be assigned to a host", pod->name, "");
	const char *node = td_jstr_or(td_item_root(pod), "spec.nodeName", "");
	if (*node) {
		td_auto_free char *quoted = td_asprintf("\"%s\"", node);
		return conflict(q, r, "pod %s is already assigned to node %s", pod->name, quoted);
	}
	if (yyjson_arr_size(td_jget(td_item_root(pod), "spec.schedulingGates")))
		return conflict(q, r, "pod %s has non-empty .spec.schedulingGates", pod->name, "");

	return 0;
}

static int bind_once(struct td_req *q, yyjson_val *b, const char *node, struct td_refusal *r)
{
	td_auto(td_item_unref) struct td_item *old = td_store_get(q->s->store, q->res->table, q->ns, q->name),
					      *ret = NULL;
	if (!old)
		return td_refuse_not_found(q, q->name, r);
	int rc = bind_check(q, old, b, r);
	if (rc < 0)
		return rc;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_item_root(old));
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "spec.nodeName", node);
	yyjson_val *key, *v, *notes = td_jget(b, "metadata.annotations");
	size_t i, n;
	yyjson_obj_foreach (notes, i, n, key, v) {
		if (!yyjson_is_str(v))
			return td_refuse(r, 400, NULL,
					 "metadata.annotations of the Binding: the value of \"%s\" is not a string",
					 yyjson_get_str(key));
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.annotations"), yyjson_get_str(key), yyjson_get_str(v));
	}

	td_srv_pod_condition(q, d, "PodScheduled", NULL, NULL);
	if ((rc = td_admit(q, old, d, r)) < 0)
		return rc;

	return td_srv_object_commit(q, old, d, &ret, r);
}

int td_do_binding(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	int rc = td_body_read(q, false, &body, r);
	if (rc < 0)
		return rc;
	yyjson_val *b = td_json_root(body);
	const char *name = td_jstr_or(b, "metadata.name", ""), *kind = td_jstr_or(b, "target.kind", "Node"),
		   *node = td_jstr_or(b, "target.name", "");
	if (!td_streq(td_jstr_or(b, "kind", "Binding"), "Binding"))
		return td_refuse(r, 400, NULL, "the body of a binding has kind Binding, not %s",
				 td_jstr_or(b, "kind", ""));
	if (!*q->name) // POST …/bindings
		q->name = td_arena_strdup(q->arena, name);
	if (strcmp(name, q->name) != 0)
		return td_refuse(r, 400, NULL, "name in URL does not match name in Binding object");
	if (*kind && strcmp(kind, "Node") != 0)
		return td_refuse(
			r, 500, "",
			"Binding \"%s\" is invalid: target.kind: Unsupported value: \"%s\": supported values: \"Node\"",
			q->name, kind);

	if (!*node)
		return td_refuse(r, 500, "", "Binding \"%s\" is invalid: target.name: Required value", q->name);
	if (!td_is_dns_subdomain(node))
		return td_refuse(r, 400, NULL, "target.name: \"%.64s\" is no name of a node", node);
	for (int tries = 0; tries < 8; tries++) {
		td_refusal_done(r);
		rc = bind_once(q, b, node, r);
		if (rc != TD_CONFLICT)
			break;
	}

	if (rc < 0)
		return rc;
	td_reply_success(q, 201, NULL, NULL);
	return 0;
}

// ---- log, exec, attach, port-forward ----
static const char *const container_lists[] = {"spec.containers", "spec.initContainers", "spec.ephemeralContainers"};

static bool has_container(yyjson_val *pod, const char *name)
{
	for (size_t l = 0; l < TD_LEN(container_lists); l++) {
		yyjson_val *a = td_jget(pod, container_lists[l]), *c;
		size_t i, n;
		yyjson_arr_foreach (a, i, n, c)
			if (td_streq(td_jstr(c, "name"), name))
				return true;
	}
	return false;
}

static int container_of(struct td_req *q, const struct td_item *pod, const char **ret, struct td_refusal *r)
{
	const char *c = td_http_query(q->x, "container");
	yyjson_val *a = td_jget(td_item_root(pod), "spec.containers"), *v;
	if (!c || !*c) {
		c = yyjson_arr_size(a) == 1 ? td_jstr(yyjson_arr_get_first(a), "name")
					    : td_jkey_str(td_jget(td_item_root(pod), "metadata.annotations"),
							  "kubectl.kubernetes.io/default-container");
		if (!c || !has_container(td_item_root(pod), c)) {
			td_auto_buf struct td_buf names = {0};
			size_t i, n;
			yyjson_arr_foreach (a, i, n, v)
				td_buf_printf(&names, "%s%s", i ? " " : "", td_jstr_or(v, "name", ""));
			return td_refuse(r, 400, NULL,
					 "a container name must be specified for pod %s, choose one of: [%s]",
					 pod->name, td_buf_str(&names));
		}
	}

	if (!has_container(td_item_root(pod), c))
		return td_refuse(r, 400, NULL, "container %s is not valid for pod %s", c, pod->name);
	*ret = c;
	return 0;
}

static int log_options(struct td_req *q, struct td_refusal *r)
{
	static const struct {
		const char *name, *words;
		long long min;
	} numbers[] = {{"tailLines", "greater than or equal to 0", 0},
		       {"sinceSeconds", "greater than 0", 1},
		       {"limitBytes", "greater than 0", 1}};

	for (size_t i = 0; i < TD_LEN(numbers); i++) {
		const char *v = td_http_query(q->x, numbers[i].name);
		long long n = 0;
		if (!v || !*v)
			continue;
		if (!td_parse_i64(v, &n))
			return td_refuse(r, 400, NULL, "%s: Invalid value: \"%.64s\": must be a number",
					 numbers[i].name, v);
		if (n < numbers[i].min)
			td_cause_add(&r->causes, "FieldValueInvalid", numbers[i].name,
				     "Invalid value: %lld: must be %s", n, numbers[i].words);
	}

	const char *since = td_http_query(q->x, "sinceTime");
	int64_t ms;
	if (since && *since && td_time_parse(since, &ms) != 0)
		return td_refuse(
			r, 400, NULL,
			"sinceTime: Invalid value: \"%.64s\": must be an RFC 3339 time such as 2026-01-31T12:00:00Z",
			since);

	return r->causes.n ? td_refuse_invalid(r, "", "PodLogOptions", q->name) : 0;
}

// The socket of whoever has the pods of that node.
static const char *socket_of(const struct td_req *q, const char *node)
{
	td_auto(td_item_unref) struct td_item *n =
		td_store_get(q->s->store, td_store_table(q->s->store, "", "nodes"), "", node);
	bool other = n && td_jkey(td_jget(td_item_root(n), "metadata.annotations"), TD_ANN_OTHER_SET);
	return other && q->s->other_socket ? q->s->other_socket : q->s->agent_socket;
}

int td_do_pod_stream(struct td_req *q, struct td_refusal *r)
{
	bool log = !strcmp(q->sub, "log");
	if (log && strcmp(q->verb, "get") != 0)
		return td_refuse_method(r);
	td_auto(td_item_unref) struct td_item *pod = td_store_get(q->s->store, q->res->table, q->ns, q->name);
	if (!pod)
		return td_refuse_not_found(q, q->name, r);
	const char *query = strchr(td_http_target(q->x), '?');
	query = query ? query + 1 : "";
	bool forward = !strcmp(q->sub, "portforward");
	const char *c = "";
	int rc = log ? log_options(q, r) : 0;
	if (rc < 0)
		return rc;
	if (!forward && (rc = container_of(q, pod, &c, r)) < 0)
		return rc;
	if (!forward && !log && (rc = td_srv_identity_enter(q, pod, r)) < 0)
		return rc;

	// A pod without a node has no log yet.
	if (!*td_jstr_or(td_item_root(pod), "spec.nodeName", "") && !strcmp(q->sub, "log")) {
		td_http_send(q->x, 204, "text/plain", "", 0);
		return 0;
	}

	if (!*td_jstr_or(td_item_root(pod), "spec.nodeName", ""))
		return td_refuse(r, 400, NULL, "pod %s does not have a host assigned", pod->name);
	const char *what = !strcmp(q->sub, "log") ? "containerLogs" : forward ? "portForward" : q->sub;
	td_auto_free char *target = forward ? td_asprintf("/%s/%s/%s?%s", what, pod->ns, pod->name, query)
					    : td_asprintf("/%s/%s/%s/%s?%s", what, pod->ns, pod->name, c, query);
	td_http_relay(q->x, socket_of(q, td_jstr(td_item_root(pod), "spec.nodeName")), target);

	return 0;
}
