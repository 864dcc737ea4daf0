// patch: merge, JSON, strategic merge, server-side apply. Each reads the object, patches it, checks
// it and writes it; after a conflict it starts again.
#include "apiserver/srv.h"

#include <string.h>

int td_patch_type(struct td_req *q, enum td_patch_form *ret, struct td_refusal *r)
{
	static const struct {
		const char *name;
		enum td_patch_form t;
	} types[] = {
		{"application/merge-patch+json", TD_MERGE},
		{"application/json-patch+json", TD_JSON_PATCH},
		{"application/strategic-merge-patch+json", TD_STRATEGIC},
		{"application/apply-patch+yaml", TD_APPLY},
		{"application/apply-patch+json", TD_APPLY},
	};
	const char *ct = td_http_header(q->x, "Content-Type");

	for (size_t i = 0; ct && i < TD_LEN(types); i++) {
		size_t n = strlen(types[i].name);
		if (strncasecmp(ct, types[i].name, n) != 0 || (ct[n] && ct[n] != ';' && ct[n] != ' '))
			continue;
		if (types[i].t == TD_STRATEGIC && !q->k->builtin)
			break;
		*ret = types[i].t;
		return 0;
	}

	if (!q->k->builtin)
		return td_refuse(
			r, 415, "UnsupportedMediaType",
			"the body of the request was in an unknown format - accepted media types include: "
			"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml");

	return td_refuse_generic(r, 415, "UnsupportedMediaType", "415: Unsupported Media Type");
}

// The message of the causes of kind conflict: one for each field, sorted by manager.
static char *conflict_message(const struct td_causes *c)
{
	td_auto_buf struct td_buf b = {0};
	td_buf_printf(&b, "Apply failed with %zu conflict%s: ", c->n, c->n == 1 ? "" : "s");
	for (size_t i = 0; i < c->n; i++) {
		const struct td_cause *v = &c->v[i];
		if (c->n == 1)
			td_buf_printf(&b, "%s: %s", v->message, v->field);
		else if (!i || !td_streq(v->with, v[-1].with))
			td_buf_printf(&b, "%sconflicts with %s:", i ? "\n" : "", v->with);
		if (c->n > 1)
			td_buf_printf(&b, "\n- %s", v->field);
	}
	return td_buf_take(&b);
}

int td_apply_conflict(struct td_refusal *r)
{
	td_auto_free char *text = conflict_message(&r->causes);
	td_refuse(r, 409, "Conflict", "%s", text);
	return TD_DENIED; // a retry would not help
}

int td_apply_manager(const struct td_req *q, const char **ret, struct td_refusal *r)
{
	const char *m = td_http_query(q->x, "fieldManager");
	if (m && *m) {
		*ret = m;
		return 0;
	}
	td_cause_add(&r->causes, "FieldValueRequired", "fieldManager", "Required value: is required for apply patch");
	return td_refuse_invalid(r, "meta.k8s.io", "PatchOptions", "");
}

int td_apply_kind(yyjson_val *patch, const char *want_api, const char *want_kind, struct td_refusal *r)
{
	const char *api = td_jstr_or(patch, "apiVersion", ""), *kind = td_jstr_or(patch, "kind", "");
	if (td_jget(patch, "metadata.managedFields"))
		return td_refuse(r, 400, NULL, "metadata.managedFields must be nil");
	if (yyjson_is_obj(patch) && (strcmp(api, want_api) != 0 || strcmp(kind, want_kind) != 0))
		return td_refuse(r, 400, NULL, "invalid object type: %s%s, Kind=%s", strchr(api, '/') ? "" : "/", api,
				 kind);
	return 0;
}

static int apply(struct td_req *q, const struct td_item *old, yyjson_val *patch, struct td_json **ret,
		 struct td_refusal *r)
{
	struct td_error err = TD_ERROR_INIT;
	const char *m = NULL, *kind = q->k->kind;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	td_auto_free char *want = td_asprintf("%s%s%s", q->group, *q->group ? "/" : "", q->version);

	int rc = td_apply_manager(q, &m, r);
	if (rc < 0 || (rc = td_apply_kind(patch, want, kind, r)) < 0)
		return rc;
	rc = td_body_object(q, patch, &d, r); // fills in kind, name and namespace as on create
	if (rc < 0)
		return rc;
	td_auto_free char *av = td_asprintf("%s%s%s", q->group, *q->group ? "/" : "", q->version);
	const struct td_api_apply a = {
		.manager = m,
		.subresource = q->sub,
		.api_version = av,
		.typed = q->k->builtin,
		.no_status = q->k->builtin && q->k->status && !*q->sub,
		.force = td_http_query(q->x, "force") && td_query_true(q, "force"),
		.now_ms = q->now,
	};
	td_auto_free char *gv = td_asprintf("%s%s", *q->group ? "" : "/", want);
	td_auto_strv struct td_strv unknown = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *copy = td_jm_copy(patch);
	td_schema_prune(q->k->schema, yyjson_mut_doc_get_root(copy), &unknown);
	td_auto(td_json_unref) struct td_json *patch_doc = td_json_from_mut(yyjson_mut_doc_get_root(copy));

	// Whatever fieldValidation says: an unknown field could have no owner.
	if (unknown.n)
		return td_refuse(
			r, 400, NULL,
			"failed to create typed patch object (%s/%s; %s, Kind=%s): .%s: field not declared in schema",
			td_jstr_or(patch, "metadata.namespace", ""), q->name, gv, kind, unknown.v[0]);

	td_auto_causes struct td_causes twice = {0};
	td_schema_validate(q->k->schema, td_json_root(patch_doc), &twice);
	for (size_t i = 0; i < twice.n; i++)
		if (td_streq(twice.v[i].reason, "FieldValueDuplicate"))
			return td_refuse(r, 400, NULL,
					 "failed to create typed patch object (%s/%s; %s, Kind=%s): .%s: duplicate "
					 "entries for its key",
					 td_jstr_or(patch, "metadata.namespace", ""), q->name, gv, kind,
					 twice.v[i].field);

	if (q->k->status) { // an apply of the object and one of its status own separate parts
		yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
		td_jm_del(o, *q->sub ? "spec" : "status");
	}
	td_auto(td_json_unref) struct td_json *applied = td_json_from_mut(yyjson_mut_doc_get_root(d));
	const char *rv = td_jstr(td_json_root(applied), "metadata.resourceVersion");
	if (rv && *rv && old && strcmp(rv, td_jstr_or(td_item_root(old), "metadata.resourceVersion", "")) != 0) {
		td_fail(&err, TD_CONFLICT, "changed");
		return td_refuse_write(q, q->name, &err, r);
	}
	rc = td_schema_apply(q->k->schema, old ? td_item_root(old) : NULL, td_json_root(applied), &a, &r->causes, ret,
			     &err);
	if (rc == TD_CONFLICT)
		return td_apply_conflict(r);

	return rc < 0 ? td_refuse_err(r, &err) : 0;
}

static int patched(struct td_req *q, enum td_patch_form t, const struct td_item *old, yyjson_val *patch,
		   struct td_json **ret, struct td_refusal *r)
{
	struct td_error err = TD_ERROR_INIT;
	switch (t) {
	case TD_APPLY:
		return apply(q, old, patch, ret, r);
	case TD_MERGE:
		if (!yyjson_is_obj(patch))
			return td_refuse(r, 400, NULL, "a merge patch is an object");
		return td_json_merge_patch(td_item_root(old), patch, ret, &err) < 0 ? td_refuse_err(r, &err) : 0;
	case TD_STRATEGIC:
		if (!yyjson_is_obj(patch))
			return td_refuse(r, 400, NULL, "a strategic merge patch is an object");
		return td_strategic_merge(q->k->schema, td_item_root(old), patch, ret, &err) < 0
			       ? td_refuse_err(r, &err)
			       : 0;
	case TD_JSON_PATCH:
		break;
	}
	if (yyjson_is_arr(patch) && yyjson_arr_size(patch) > 10000)
		return td_refuse(r, 413, "RequestEntityTooLarge",
				 "The allowed maximum operations in a JSON patch is 10000, got %zu",
				 yyjson_arr_size(patch));
	int rc = td_json_patch(td_item_root(old), patch, ret, &err);
	if (rc < 0 && yyjson_is_arr(patch))
		return td_refuse_generic(r, 422, "Invalid",
					 "the server rejected our request due to an error in our request: %s", err.msg),
		       TD_INVALID;

	return rc < 0 ? td_refuse(r, 400, NULL, "%s", err.msg) : 0;
}

static int patch_once(struct td_req *q, enum td_patch_form t, yyjson_val *patch, struct td_item **ret,
		      bool *ret_created, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *now = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;

	td_auto(td_item_unref) struct td_item *old = td_item_get(q, q->name);
	if (!old && (t != TD_APPLY || *q->sub))
		return td_refuse_not_found(q, q->name, r);
	if (!old && !q->res->established)
		return td_refuse(r, 405, "MethodNotAllowed",
				 "create not allowed while custom resource definition is terminating");

	// An apply that creates the object needs both rights.
	int rc = old ? 0 : td_auth_may_verb(q, "create", r);
	if (rc == 0)
		rc = patched(q, t, old, patch, &now, r);
	if (rc < 0 || (rc = td_body_object(q, td_json_root(now), &d, r)) < 0)
		return rc;
	const char *uid = td_jm_getstr(yyjson_mut_doc_get_root(d), "metadata.uid");
	if (uid && *uid && (!old || strcmp(uid, old->uid) != 0)) {
		for (int twice = 0; twice < 2; twice++) // a real API server says it twice
			td_cause_add(&r->causes, "FieldValueInvalid", "metadata.uid",
				     "Invalid value: \"%s\": field is immutable", uid);
		return td_refuse_invalid(r, q->group, q->k->kind, q->name);
	}

	if (old) {
		yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
		const char *rv = td_jm_getstr(o, "metadata.resourceVersion");
		struct td_error e = TD_ERROR_INIT;
		if (rv && *rv && strcmp(rv, td_jstr_or(td_item_root(old), "metadata.resourceVersion", "")) != 0) {
			td_fail(&e, TD_CONFLICT, "changed");
			td_refuse_write(q, q->name, &e, r);
			return TD_DENIED; // the patch itself names the version: no retry
		}
	} else {
		td_jm_del(yyjson_mut_doc_get_root(d), "metadata.resourceVersion");
	}

	rc = td_srv_object_prepare(q, old, d, *q->sub ? TD_VIA_STATUS : TD_VIA_MAIN, t != TD_APPLY, r);
	if (rc < 0)
		return rc;
	rc = td_srv_object_commit(q, old, d, ret, r);
	if (rc == 0)
		*ret_created = !old;

	return rc;
}

int td_do_patch(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	td_auto(td_item_unref) struct td_item *i = NULL;
	enum td_patch_form t = TD_MERGE;
	bool created = false;

	int rc = td_patch_type(q, &t, r);
	if (rc < 0)
		return rc;
	q->patched = t != TD_APPLY;
	if ((rc = td_body_read(q, false, &body, r)) < 0)
		return rc;
	for (int tries = 0; tries < 8; tries++) {
		td_refusal_done(r);
		rc = patch_once(q, t, td_json_root(body), &i, &created, r);
		if (rc != TD_CONFLICT && rc != TD_EXISTS)
			break;
	}

	if (rc < 0)
		return rc;
	td_reply_item(q, created ? 201 : 200, i);
	return 0;
}
