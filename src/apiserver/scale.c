// The scale subresource: the number of replicas of any kind that has them. Field ownership is kept
// in the scaled object.
#include "apiserver/srv.h"

#include "api/selector.h"

#include <string.h>

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
	long long want = td_jint(td_item_root(i), no_dot(q->k->scale_spec), 0);
	if (want)
		td_jm_int(d, o, "spec.replicas", want);
	else
		td_jm_obj(d, o, "spec");
	td_jm_int(d, o, "status.replicas", td_jint(td_item_root(i), no_dot(q->k->scale_status), 0));
	yyjson_val *sel = q->k->scale_selector && !q->k->builtin
				  ? td_jget(td_item_root(i), no_dot(q->k->scale_selector))
				  : td_jget(td_item_root(i), "spec.selector");
	td_auto(td_selector_free) struct td_selector *s = NULL;
	if (yyjson_is_str(sel)) {
		td_jm_str(d, o, "status.selector", yyjson_get_str(sel));
	} else if (sel && td_selector_from_object(sel, &s, NULL) == 0) {
		td_auto_free char *text = td_selector_text(s);
		td_jm_str(d, o, "status.selector", text);
	}

	td_reply_doc(q, 200, d);
}

struct sent {
	yyjson_val *replicas; // NULL: nothing is said of them
	struct td_json *keep; // what it is part of; NULL: the body
};

static int scale_sent(struct td_req *q, enum td_patch_form t, const struct td_item *old, yyjson_val *body,
		      struct sent *ret, struct td_refusal *r)
{
	struct td_error err = TD_ERROR_INIT;
	if (!strcmp(q->verb, "update")) {
		const char *name = td_jstr_or(body, "metadata.name", "");
		if (!*name)
			return td_refuse(
				r, 400, NULL,
				"the name of the object (%s based on URL) was undeterminable: name must be provided",
				q->name);
		if (strcmp(name, q->name) != 0)
			return td_refuse(r, 400, NULL,
					 "the name of the object (%s) does not match the name on the URL (%s)", name,
					 q->name);
		ret->replicas = td_jget(body, "spec.replicas");
		return 0;
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "metadata.resourceVersion", td_jstr(td_item_root(old), "metadata.resourceVersion"));
	td_jm_int(d, o, "spec.replicas", td_jint(td_item_root(old), no_dot(q->k->scale_spec), 0));
	td_auto(td_json_unref) struct td_json *scale = td_json_from_mut(o);
	int rc = t == TD_JSON_PATCH ? td_json_patch(td_json_root(scale), body, &ret->keep, &err)
				    : td_json_merge_patch(td_json_root(scale), body, &ret->keep, &err);
	if (rc < 0)
		return td_refuse(r, 422, "Invalid", "%s", err.msg);

	ret->replicas = td_jget(td_json_root(ret->keep), "spec.replicas");
	return 0;
}

static int check_replicas(struct td_req *q, yyjson_val *v, struct td_refusal *r)
{
	long long n = yyjson_get_sint(v); // absent: 0
	if (n >= 0 && n <= INT32_MAX)
		return 0;
	td_cause_add(&r->causes, "FieldValueInvalid", "spec.replicas",
		     "Invalid value: %lld: must be greater than or equal to 0", n);
	return td_refuse_invalid(r, "autoscaling", "Scale", q->name);
}

// Returns a field of o that is not known; NULL: there is none.
static const char *unknown_field(yyjson_val *o, const char *const *known, size_t n_known)
{
	size_t i, max;
	yyjson_val *k, *v;
	yyjson_obj_foreach (o, i, max, k, v) {
		bool found = false;
		for (size_t n = 0; n < n_known; n++)
			found = found || yyjson_equals_str(k, known[n]);
		if (!found)
			return yyjson_get_str(k);
	}
	return NULL;
}

// Checks an applied Scale as a real API server does: 400, 409 and 422 as for every applied object.
static int check_applied(struct td_req *q, const struct td_item *old, yyjson_val *body, struct td_refusal *r)
{
	static const char *const top[] = {"apiVersion", "kind", "metadata", "spec", "status"}, *const spec[] = {
												       "replicas"};
	const char *name = td_jstr_or(body, "metadata.name", ""), *ns = td_jstr_or(body, "metadata.namespace", ""),
		   *uid = td_jstr_or(body, "metadata.uid", ""), *rv = td_jstr_or(body, "metadata.resourceVersion", ""),
		   *bad;

	int rc = td_apply_kind(body, "autoscaling/v1", "Scale", r);
	if (rc < 0)
		return rc;
	if (!yyjson_is_obj(body))
		return td_refuse(r, 400, NULL,
				 "the body is not an object: a Scale is a mapping with apiVersion, kind and metadata");
	if (*ns && strcmp(ns, q->ns) != 0)
		return td_refuse(
			r, 400, NULL,
			"the namespace of the provided object does not match the namespace sent on the request");
	if (*name && strcmp(name, q->name) != 0)
		return td_refuse(r, 400, NULL, "the name of the object (%s) does not match the name on the URL (%s)",
				 name, q->name);
	bool in_spec = !(bad = unknown_field(body, top, TD_LEN(top)));
	if (bad || (bad = unknown_field(td_jkey(body, "spec"), spec, TD_LEN(spec))))
		return td_refuse(r, 400, NULL,
				 "failed to create typed patch object (%s/%s; autoscaling/v1, Kind=Scale): %s.%s: "
				 "field not declared in schema",
				 ns, q->name, in_spec ? ".spec" : "", bad);

	yyjson_val *v = td_jget(body, "spec.replicas");
	if (v && !yyjson_is_int(v) && !yyjson_is_null(v))
		return td_refuse(r, 400, NULL,
				 "failed to create typed patch object (%s/%s; autoscaling/v1, Kind=Scale): "
				 ".spec.replicas: expected a whole number",
				 ns, q->name);

	if (*uid && strcmp(uid, old->uid) != 0) {
		td_auto_free char *kind = td_asprintf("%s/scale", q->plural);
		td_refuse(r, 409, "Conflict",
			  "Operation cannot be fulfilled on %s%s%s \"%s\": Precondition failed: UID in precondition: "
			  "%s, UID in object meta: %s",
			  kind, *q->group ? "." : "", q->group, q->name, uid, old->uid);
		return td_refuse_about(r, q->group, kind, q->name);
	}

	if (*rv && !td_streq(rv, td_jstr(td_item_root(old), "metadata.resourceVersion"))) {
		struct td_error e = TD_ERROR_INIT;
		td_fail(&e, TD_CONFLICT, "changed");
		return td_refuse_write(q, q->name, &e, r);
	}

	return check_replicas(q, v, r);
}

// Server-side apply of a Scale. Its one field is owned in the scaled object, under this
// subresource. An apply without a number gives the field up: replicas become 0 if nobody else owns
// it, and the managedFields entry stays, as in a real API server.
static int scale_apply(struct td_req *q, struct td_item *old, yyjson_val *body, struct td_item **ret,
		       struct td_refusal *r)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *av = td_asprintf("%s%s%s", q->group, *q->group ? "/" : "", q->version);
	struct td_api_apply a = {
		.subresource = "scale",
		.api_version = av,
		.shown_version = "autoscaling/v1",
		.typed = q->k->builtin,
		.no_status = q->k->builtin && q->k->status,
		.disown = !td_jint(td_item_root(old), no_dot(q->k->scale_spec), 0),
		.force = td_http_query(q->x, "force") && td_query_true(q, "force"),
		.now_ms = q->now,
	};

	int rc = check_applied(q, old, body, r);
	if (rc < 0)
		return rc;
	if ((rc = td_apply_manager(q, &a.manager, r)) < 0)
		return rc;
	yyjson_val *v = td_jget(body, "spec.replicas");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *said = td_jm_new();
	if (yyjson_is_int(v))
		td_jm_int(said, yyjson_mut_doc_get_root(said), no_dot(q->k->scale_spec), yyjson_get_sint(v));
	td_auto(td_json_unref) struct td_json *applied = td_json_from_mut(yyjson_mut_doc_get_root(said)), *now = NULL;
	rc = td_schema_apply(q->k->schema, td_item_root(old), td_json_root(applied), &a, &r->causes, &now, &err);
	if (rc == TD_CONFLICT)
		return td_apply_conflict(r);
	if (rc < 0)
		return td_refuse_err(r, &err);
	bool given_up = !yyjson_is_int(v) && !td_jget(td_json_root(now), no_dot(q->k->scale_spec));
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_jm_copy(yyjson_is_int(v) ? td_json_root(now) : td_item_root(old));
	if (given_up)
		td_jm_int(d, yyjson_mut_doc_get_root(d), no_dot(q->k->scale_spec), 0);
	if ((rc = td_srv_object_prepare(q, old, d, TD_VIA_SCALE, false, r)) < 0)
		return rc;

	return td_srv_object_commit(q, old, d, ret, r);
}

static int scale_once(struct td_req *q, yyjson_val *body, struct td_item **ret, struct td_refusal *r)
{
	td_auto(td_item_unref) struct td_item *old = td_item_get(q, q->name);
	if (!old)
		return td_refuse_not_found(q, q->name, r);

	enum td_patch_form t = TD_MERGE;
	int rc = !strcmp(q->verb, "patch") ? td_patch_type(q, &t, r) : 0;
	if (rc < 0)
		return rc;
	if (t == TD_APPLY)
		return scale_apply(q, old, body, ret, r);

	struct sent sent = {0};
	rc = scale_sent(q, t, old, body, &sent, r);
	td_auto(td_json_unref) struct td_json *keep = sent.keep;
	yyjson_val *v = sent.replicas;
	if (rc < 0)
		return rc;

	if (v && !yyjson_is_int(v)) {
		q->patched = !strcmp(q->verb, "patch");
		return td_refuse_decode(q, r, "spec.replicas must be a whole number");
	}
	if ((rc = check_replicas(q, v, r)) < 0)
		return rc;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_item_root(old));
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	const char *rv = td_jstr(body, "metadata.resourceVersion");
	if (rv)
		td_jm_str(d, o, "metadata.resourceVersion", rv);
	if ((rc = td_check_base(q, old, o, r)) < 0)
		return rc;

	td_jm_int(d, o, no_dot(q->k->scale_spec), yyjson_get_sint(v));
	if ((rc = td_srv_object_prepare(q, old, d, TD_VIA_SCALE, true, r)) < 0)
		return rc;

	return td_srv_object_commit(q, old, d, ret, r);
}

int td_do_scale(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_item_unref) struct td_item *i = NULL;
	if (!strcmp(q->verb, "get")) {
		i = td_item_get(q, q->name);
		if (!i)
			return td_refuse_not_found(q, q->name, r);
		reply_scale(q, i);
		return 0;
	}

	enum td_patch_form t = TD_MERGE;
	const char *who;
	int rc = !strcmp(q->verb, "patch") ? td_patch_type(q, &t, r) : 0;
	if (rc == 0 && t == TD_APPLY)
		rc = td_apply_manager(q, &who, r);
	if (rc < 0)
		return rc;
	rc = td_srv_write_body(q, scale_once, &i, r);
	if (rc == 0)
		reply_scale(q, i);

	return rc;
}
