// create, update, and the scale, finalize and token subresources.
#include "apiserver/srv.h"

#include "api/selector.h"

#include <string.h>

static int create_once(struct td_req *q, yyjson_val *body, struct td_item **ret, struct td_refusal *r)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	int rc = td_body_object(q, body, &d, r);
	if (rc < 0 || (rc = td_object_prepare(q, NULL, d, TD_VIA_MAIN, true, r)) < 0)
		return rc;
	return td_object_commit(q, NULL, d, ret, r);
}

int td_do_create(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	td_auto(td_item_unref) struct td_item *i = NULL;
	int rc = td_body_read(q, false, &body, r);
	if (rc < 0)
		return rc;
	if (!q->res->established)
		return td_refuse(r, 405, "MethodNotAllowed", "create not allowed while custom resource definition is terminating");
	yyjson_val *v = td_json_root(body);
	const char *name = td_jstr(v, "metadata.name");
	bool generated = (!name || !*name) && td_jstr(v, "metadata.generateName");
	for (int tries = 0;; tries++) {
		rc = create_once(q, v, &i, r);
		if (rc == TD_EXISTS && generated && tries < 8) { // another random tail
			td_refusal_done(r);
			continue;
		}
		break;
	}
	if (rc < 0)
		return rc;
	td_reply_item(q, 201, i);
	return 0;
}

static int check_base(struct td_req *q, const struct td_item *old, yyjson_mut_val *o, struct td_refusal *r)
{
	const char *rv = td_jm_getstr(o, "metadata.resourceVersion"), *uid = td_jm_getstr(o, "metadata.uid");
	struct td_error e = TD_ERROR_INIT;
	uint64_t want;
	int rc = td_parse_rv(q, "metadata.resourceVersion", rv, &want, r);
	if (rc < 0)
		return rc;
	if (uid && *uid && strcmp(uid, old->uid) != 0) {
		td_refuse(r, 409, "Conflict",
			  "Operation cannot be fulfilled on %s%s%s \"%s\": StorageError: invalid object, Code: 4, AdditionalErrorMsg: "
			  "Precondition failed: UID in precondition: %s, UID in object meta: %s",
			  q->plural, *q->group ? "." : "", q->group, q->name, uid, old->uid);
		return td_refuse_about(r, q->group, q->plural, q->name);
	}
	if (want && want != old->rv) {
		td_fail(&e, TD_CONFLICT, "changed");
		return td_refuse_write(q, q->name, &e, r);
	}
	return 0;
}

static int update_once(struct td_req *q, yyjson_val *body, struct td_item **ret, struct td_refusal *r)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	int rc = td_body_object(q, body, &d, r);
	if (rc < 0)
		return rc;
	td_auto(td_item_unref) struct td_item *old = td_store_get(q->s->store, q->res->table, q->ns, q->name);
	if (!old)
		return td_refuse_not_found(q, q->name, r);
	const char *rv = td_jm_getstr(yyjson_mut_doc_get_root(d), "metadata.resourceVersion");
	if ((!rv || !*rv) && (!q->k->builtin || td_is_crd(q->k))) {
		td_cause_add(&r->causes, "FieldValueInvalid", "metadata.resourceVersion",
			     "Invalid value: 0: must be specified for an update");
		return td_refuse_invalid(r, q->group, q->k->kind, q->name);
	}
	if ((rc = check_base(q, old, yyjson_mut_doc_get_root(d), r)) < 0 ||
	    (rc = td_object_prepare(q, old, d, *q->sub ? TD_VIA_STATUS : TD_VIA_MAIN, true, r)) < 0)
		return rc;
	return td_object_commit(q, old, d, ret, r);
}

// Reads the body and writes it. One that names no version wins against whoever was faster.
static int write_body(struct td_req *q, int (*once)(struct td_req *q, yyjson_val *body, struct td_item **ret, struct td_refusal *r),
		      struct td_item **ret, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	int rc = td_body_read(q, false, &body, r);
	if (rc < 0)
		return rc;
	const char *rv = td_jstr(td_json_root(body), "metadata.resourceVersion");
	for (int tries = 0; tries < 5; tries++) {
		td_refusal_done(r);
		rc = once(q, td_json_root(body), ret, r);
		if (rc != TD_CONFLICT || (rv && *rv))
			break;
	}
	return rc;
}

int td_do_update(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_item_unref) struct td_item *i = NULL;
	int rc = write_body(q, update_once, &i, r);
	if (rc == 0)
		td_reply_item(q, 200, i);
	return rc;
}

// ---- scale ----
static const char *no_dot(const char *p)
{
	return p && *p == '.' ? p + 1 : p;
}

static void reply_scale(struct td_req *q, const struct td_item *i)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "kind", "Scale");
	td_jm_str(d, o, "apiVersion", "autoscaling/v1");
	static const char *const meta[] = {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"};
	for (size_t n = 0; n < TD_LEN(meta); n++) {
		td_auto_free char *p = td_asprintf("metadata.%s", meta[n]);
		td_jm_str(d, o, p, td_jstr(td_item_root(i), p));
	}
	td_jm_int(d, o, "spec.replicas", td_jint(td_item_root(i), no_dot(q->k->scale_spec), 0));
	td_jm_int(d, o, "status.replicas", td_jint(td_item_root(i), no_dot(q->k->scale_status), 0));
	yyjson_val *sel =
		q->k->scale_selector ? td_jget(td_item_root(i), no_dot(q->k->scale_selector)) : td_jget(td_item_root(i), "spec.selector");
	td_auto(td_selector_free) struct td_selector *s = NULL;
	if (yyjson_is_str(sel)) {
		td_jm_str(d, o, "status.selector", yyjson_get_str(sel));
	} else if (sel && td_selector_from_object(sel, &s, NULL) == 0) {
		td_auto_free char *text = td_selector_text(s);
		td_jm_str(d, o, "status.selector", text);
	}
	td_reply_doc(q, 200, d);
}

static int scale_sent(struct td_req *q, const struct td_item *old, yyjson_val *body, yyjson_val **ret, struct td_json **keep,
		      struct td_refusal *r)
{
	struct td_error err = TD_ERROR_INIT;
	if (!strcmp(q->verb, "update")) {
		*ret = td_jget(body, "spec.replicas");
		return 0;
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "metadata.resourceVersion", td_jstr(td_item_root(old), "metadata.resourceVersion"));
	td_jm_int(d, o, "spec.replicas", td_jint(td_item_root(old), no_dot(q->k->scale_spec), 0));
	td_auto(td_json_unref) struct td_json *scale = td_json_from_mut(o);
	const char *ct = td_http_header(q->x, "Content-Type");
	int rc = ct && td_starts(ct, "application/json-patch") ? td_json_patch(td_json_root(scale), body, keep, &err)
							       : td_json_merge_patch(td_json_root(scale), body, keep, &err);
	if (rc < 0)
		return td_refuse(r, 422, "Invalid", "%s", err.msg);
	*ret = td_jget(td_json_root(*keep), "spec.replicas");
	return 0;
}

static int scale_once(struct td_req *q, yyjson_val *body, struct td_item **ret, struct td_refusal *r)
{
	td_auto(td_item_unref) struct td_item *old = td_store_get(q->s->store, q->res->table, q->ns, q->name);
	if (!old)
		return td_refuse_not_found(q, q->name, r);
	td_auto(td_json_unref) struct td_json *keep = NULL;
	yyjson_val *v = NULL;
	int rc = scale_sent(q, old, body, &v, &keep, r);
	if (rc < 0)
		return rc;
	if (!yyjson_is_int(v) || yyjson_get_sint(v) < 0 || yyjson_get_sint(v) > INT32_MAX) {
		td_cause_add(&r->causes, "FieldValueInvalid", "spec.replicas", "Invalid value: must be a whole number of at least 0");
		return td_refuse_invalid(r, "autoscaling", "Scale", q->name);
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_item_root(old));
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	const char *rv = td_jstr(body, "metadata.resourceVersion");
	if (rv)
		td_jm_str(d, o, "metadata.resourceVersion", rv);
	if ((rc = check_base(q, old, o, r)) < 0)
		return rc;
	td_jm_int(d, o, no_dot(q->k->scale_spec), yyjson_get_sint(v));
	if ((rc = td_object_prepare(q, old, d, TD_VIA_SCALE, true, r)) < 0)
		return rc;
	return td_object_commit(q, old, d, ret, r);
}

int td_do_scale(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_item_unref) struct td_item *i = NULL;
	if (!strcmp(q->verb, "get")) {
		i = td_store_get(q->s->store, q->res->table, q->ns, q->name);
		if (!i)
			return td_refuse_not_found(q, q->name, r);
		reply_scale(q, i);
		return 0;
	}
	int rc = write_body(q, scale_once, &i, r);
	if (rc == 0)
		reply_scale(q, i);
	return rc;
}

// ---- namespaces/finalize ----
int td_do_finalize(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	td_auto(td_item_unref) struct td_item *ret = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *sent = NULL;
	int rc = td_body_read(q, false, &body, r);
	if (rc < 0 || (rc = td_body_object(q, td_json_root(body), &sent, r)) < 0)
		return rc;
	td_auto(td_item_unref) struct td_item *old = td_store_get(q->s->store, q->res->table, "", q->name);
	if (!old)
		return td_refuse_not_found(q, q->name, r);
	if ((rc = check_base(q, old, yyjson_mut_doc_get_root(sent), r)) < 0)
		return rc;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_item_root(old));
	yyjson_mut_val *f = td_jm_get(yyjson_mut_doc_get_root(sent), "spec.finalizers");
	if (yyjson_mut_arr_size(f))
		td_jm_set(d, yyjson_mut_doc_get_root(d), "spec.finalizers", yyjson_mut_val_mut_copy(d, f));
	else
		td_jm_del(yyjson_mut_doc_get_root(d), "spec.finalizers");
	// What is stored was right before; only this list changes, so no default may put it back.
	if ((rc = td_object_commit(q, old, d, &ret, r)) < 0)
		return rc;
	td_reply_item(q, 200, ret);
	return 0;
}

// ---- serviceaccounts/token ----
int td_do_token(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	int rc = td_body_read(q, true, &body, r);
	if (rc < 0)
		return rc;
	td_auto(td_item_unref) struct td_item *sa = td_store_get(q->s->store, q->res->table, q->ns, q->name);
	if (!sa)
		return td_refuse_not_found(q, q->name, r);
	if (!q->s->sa_key_len)
		return td_refuse(r, 500, NULL, "the server has no key to sign tokens with (pki/sa.key)");
	yyjson_val *v = td_json_root(body);
	long long seconds = td_jint(v, "spec.expirationSeconds", 3600);
	if (seconds < 600 || seconds > 31536000) {
		td_cause_add(&r->causes, "FieldValueInvalid", "spec.expirationSeconds",
			     "Invalid value: %lld: must be between 600 (10 minutes) and 31536000 (a year)", seconds);
		return td_refuse_invalid(r, "authentication.k8s.io", "TokenRequest", "");
	}
	int64_t exp = q->now / 1000 + seconds;
	td_auto_free char *token = td_auth_token(q->s, q->ns, q->name, sa->uid, exp);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = v && yyjson_is_obj(v) ? td_jm_copy(v) : td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	char t[TD_TIME_LEN];
	td_jm_str(d, o, "kind", "TokenRequest");
	td_jm_str(d, o, "apiVersion", "authentication.k8s.io/v1");
	td_jm_str(d, o, "metadata.name", q->name);
	td_jm_str(d, o, "metadata.namespace", q->ns);
	td_jm_int(d, o, "spec.expirationSeconds", seconds);
	td_jm_str(d, o, "status.token", token);
	td_jm_str(d, o, "status.expirationTimestamp", td_time_format(exp * 1000, t));
	td_reply_doc(q, 201, d);
	return 0;
}
