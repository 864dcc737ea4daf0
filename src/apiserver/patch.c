// patch: merge, JSON, strategic merge, server-side apply. Read, patch, check, write; again when somebody was faster.
#include "apiserver/srv.h"

#include <string.h>

enum type { MERGE, JSON_PATCH, STRATEGIC, APPLY };

static int type_of(struct td_req *q, enum type *ret, struct td_refusal *r)
{
	static const struct {
		const char *name;
		enum type t;
	} types[] = {
		{"application/merge-patch+json", MERGE},
		{"application/json-patch+json", JSON_PATCH},
		{"application/strategic-merge-patch+json", STRATEGIC},
		{"application/apply-patch+yaml", APPLY},
		{"application/apply-patch+json", APPLY},
	};
	const char *ct = td_http_header(q->x, "Content-Type");
	for (size_t i = 0; ct && i < TD_LEN(types); i++) {
		size_t n = strlen(types[i].name);
		if (strncasecmp(ct, types[i].name, n) != 0 || (ct[n] && ct[n] != ';' && ct[n] != ' '))
			continue;
		if (types[i].t == STRATEGIC && !q->k->builtin)
			break;
		*ret = types[i].t;
		return 0;
	}
	return td_refuse(r, 415, "UnsupportedMediaType",
			 "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, "
			 "application/merge-patch+json, %sapplication/apply-patch+yaml",
			 q->k->builtin ? "application/strategic-merge-patch+json, " : "");
}

static int apply(struct td_req *q, const struct td_item *old, yyjson_val *patch, struct td_json **ret, struct td_refusal *r)
{
	struct td_error err = TD_ERROR_INIT;
	const char *m = td_http_query(q->x, "fieldManager");
	if (!m || !*m) {
		td_cause_add(&r->causes, "FieldValueRequired", "fieldManager", "Required value: is required for apply patch");
		return td_refuse_invalid(r, "meta.k8s.io", "PatchOptions", "");
	}
	if (td_jget(patch, "metadata.managedFields"))
		return td_refuse(r, 400, NULL, "metadata.managedFields must be nil");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	int rc = td_body_object(q, patch, &d, r); // kind, name and namespace are filled in as on create
	if (rc < 0)
		return rc;
	td_auto_free char *av = td_asprintf("%s%s%s", q->group, *q->group ? "/" : "", q->version);
	const struct td_apply a = {
		.manager = m,
		.subresource = q->sub,
		.api_version = av,
		.force = td_http_query(q->x, "force") && td_query_true(q, "force"),
		.now_ms = q->now,
	};
	td_auto(td_json_unref) struct td_json *applied = td_json_from_mut(yyjson_mut_doc_get_root(d));
	const char *rv = td_jstr(td_json_root(applied), "metadata.resourceVersion");
	if (rv && *rv && old && strcmp(rv, td_jstr_or(td_item_root(old), "metadata.resourceVersion", "")) != 0) {
		td_fail(&err, TD_CONFLICT, "changed");
		return td_refuse_write(q, q->name, &err, r);
	}
	rc = td_schema_apply(q->k->schema, old ? td_item_root(old) : NULL, td_json_root(applied), &a, &r->causes, ret, &err);
	if (rc == TD_CONFLICT) {
		td_auto_buf struct td_buf b = {0};
		td_buf_printf(&b, "Apply failed with %zu conflict%s: ", r->causes.n, r->causes.n == 1 ? "" : "s");
		for (size_t i = 0; i < r->causes.n; i++)
			td_buf_printf(&b, "%s%s: %s", i ? ", " : "", r->causes.v[i].message, r->causes.v[i].field);
		td_refuse(r, 409, "Conflict", "%s", td_buf_str(&b));
		return TD_DENIED; // reading again would not help
	}
	return rc < 0 ? td_refuse_err(r, &err) : 0;
}

static int patched(struct td_req *q, enum type t, const struct td_item *old, yyjson_val *patch, struct td_json **ret, struct td_refusal *r)
{
	struct td_error err = TD_ERROR_INIT;
	switch (t) {
	case APPLY:
		return apply(q, old, patch, ret, r);
	case MERGE:
		if (!yyjson_is_obj(patch))
			return td_refuse(r, 400, NULL, "a merge patch is an object");
		return td_json_merge_patch(td_item_root(old), patch, ret, &err) < 0 ? td_refuse_err(r, &err) : 0;
	case STRATEGIC:
		if (!yyjson_is_obj(patch))
			return td_refuse(r, 400, NULL, "a strategic merge patch is an object");
		return td_strategic_merge(q->k->schema, td_item_root(old), patch, ret, &err) < 0 ? td_refuse_err(r, &err) : 0;
	case JSON_PATCH:
		break;
	}
	if (yyjson_is_arr(patch) && yyjson_arr_size(patch) > 10000)
		return td_refuse(r, 413, "RequestEntityTooLarge", "The allowed maximum operations in a JSON patch is 10000, got %zu",
				 yyjson_arr_size(patch));
	int rc = td_json_patch(td_item_root(old), patch, ret, &err);
	if (rc == TD_CONFLICT)
		return td_refuse(r, 422, "Invalid", "the server rejected our request due to an error in our request: %s", err.msg),
		       TD_INVALID;
	return rc < 0 ? td_refuse(r, 400, NULL, "%s", err.msg) : 0;
}

static int patch_once(struct td_req *q, enum type t, yyjson_val *patch, struct td_item **ret, bool *ret_created, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *now = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	td_auto(td_item_unref) struct td_item *old = td_store_get(q->s->store, q->res->table, q->ns, q->name);
	if (!old && (t != APPLY || *q->sub))
		return td_refuse_not_found(q, q->name, r);
	if (!old && !q->res->established)
		return td_refuse(r, 405, "MethodNotAllowed", "create not allowed while custom resource definition is terminating");
	int rc = patched(q, t, old, patch, &now, r);
	if (rc < 0 || (rc = td_body_object(q, td_json_root(now), &d, r)) < 0)
		return rc;
	if (old) {
		yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
		const char *uid = td_jm_getstr(o, "metadata.uid"), *rv = td_jm_getstr(o, "metadata.resourceVersion");
		struct td_error e = TD_ERROR_INIT;
		if ((uid && *uid && strcmp(uid, old->uid) != 0) ||
		    (rv && *rv && strcmp(rv, td_jstr_or(td_item_root(old), "metadata.resourceVersion", "")) != 0)) {
			td_fail(&e, TD_CONFLICT, "changed");
			td_refuse_write(q, q->name, &e, r);
			return TD_DENIED; // the patch itself says so: not again
		}
	} else {
		td_jm_del(yyjson_mut_doc_get_root(d), "metadata.resourceVersion");
	}
	rc = td_object_prepare(q, old, d, *q->sub ? TD_VIA_STATUS : TD_VIA_MAIN, t != APPLY, r);
	if (rc < 0)
		return rc;
	rc = td_object_commit(q, old, d, ret, r);
	if (rc == 0)
		*ret_created = !old;
	return rc;
}

int td_do_patch(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	td_auto(td_item_unref) struct td_item *i = NULL;
	enum type t = MERGE;
	bool created = false;
	int rc = type_of(q, &t, r);
	if (rc < 0 || (rc = td_body_read(q, false, &body, r)) < 0)
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
