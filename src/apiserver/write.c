// create, update, and the finalize subresource.
#include "apiserver/srv.h"

#include <string.h>

static int create_once(struct td_req *q, yyjson_val *body, struct td_item **ret, struct td_refusal *r)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	int rc = td_body_object(q, body, &d, r);
	if (rc < 0 || (rc = td_srv_object_prepare(q, NULL, d, TD_VIA_MAIN, true, r)) < 0)
		return rc;
	return td_srv_object_commit(q, NULL, d, ret, r);
}

int td_do_create(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	td_auto(td_item_unref) struct td_item *i = NULL;

	int rc = td_body_read(q, false, &body, r);
	if (rc < 0)
		return rc;
	if (!q->res->established)
		return td_refuse(r, 405, "MethodNotAllowed",
				 "create not allowed while custom resource definition is terminating");
	yyjson_val *v = td_json_root(body);
	const char *name = td_jstr(v, "metadata.name");
	bool generated = (!name || !*name) && td_jstr(v, "metadata.generateName");
	for (int tries = 0;; tries++) {
		rc = create_once(q, v, &i, r);
		if (rc == TD_EXISTS && generated && tries < 8) { // try another random tail
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

int td_check_base(struct td_req *q, const struct td_item *old, yyjson_mut_val *o, struct td_refusal *r)
{
	const char *rv = td_jm_getstr(o, "metadata.resourceVersion"), *uid = td_jm_getstr(o, "metadata.uid");
	struct td_error e = TD_ERROR_INIT;
	uint64_t want;

	int rc = td_srv_parse_rv(q, "metadata.resourceVersion", rv, &want, r);
	if (rc < 0)
		return rc;
	if (uid && *uid && strcmp(uid, old->uid) != 0) {
		td_refuse(r, 409, "Conflict",
			  "Operation cannot be fulfilled on %s%s%s \"%s\": StorageError: invalid object, Code: 4, "
			  "AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
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
	td_auto(td_item_unref) struct td_item *old = td_item_get(q, q->name);
	if (!old)
		return td_refuse_not_found(q, q->name, r);
	const char *rv = td_jm_getstr(yyjson_mut_doc_get_root(d), "metadata.resourceVersion");
	bool strict = !q->k->builtin || td_srv_is_crd(q->k) || !strcmp(q->plural, "leases") ||
		      !strcmp(q->plural, "poddisruptionbudgets");

	// As in a real API server: an update of these must name its version.
	if ((!rv || !*rv) && strict) {
		td_cause_add(&r->causes, "FieldValueInvalid", "metadata.resourceVersion",
			     "Invalid value: 0: must be specified for an update");
		return td_refuse_invalid(r, q->group, q->plural, q->name);
	}

	if ((rc = td_check_base(q, old, yyjson_mut_doc_get_root(d), r)) < 0 ||
	    (rc = td_srv_object_prepare(q, old, d, *q->sub ? TD_VIA_STATUS : TD_VIA_MAIN, true, r)) < 0)
		return rc;
	return td_srv_object_commit(q, old, d, ret, r);
}

int td_srv_write_body(struct td_req *q,
		      int (*once)(struct td_req *q, yyjson_val *body, struct td_item **ret, struct td_refusal *r),
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
	int rc = td_srv_write_body(q, update_once, &i, r);
	if (rc == 0)
		td_reply_item(q, 200, i);
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
	if ((rc = td_check_base(q, old, yyjson_mut_doc_get_root(sent), r)) < 0)
		return rc;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_item_root(old));
	yyjson_mut_val *f = td_jm_get(yyjson_mut_doc_get_root(sent), "spec.finalizers");
	if (yyjson_mut_arr_size(f))
		td_jm_set(d, yyjson_mut_doc_get_root(d), "spec.finalizers", yyjson_mut_val_mut_copy(d, f));
	else
		td_jm_del(yyjson_mut_doc_get_root(d), "spec.finalizers");

	// Skips td_srv_object_prepare: the stored object was valid and only this list changes, and no
	// default may restore it.
	if ((rc = td_srv_object_commit(q, old, d, &ret, r)) < 0)
		return rc;

	td_reply_item(q, 200, ret);
	return 0;
}
