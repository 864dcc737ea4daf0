// From what a client sent to what is stored. The steps come in the order of a real API server.
#include "apiserver/srv.h"

#include "api/names.h"
#include "base/log.h"
#include "base/rand.h"

#include <stdio.h>
#include <string.h>

static bool is_core(const struct td_kind *k, const char *plural)
{
	return !*k->group && !strcmp(k->plural, plural);
}

static bool has_generation(const struct td_kind *k)
{
	if (!k->builtin)
		return true;
	return (k->status && !is_core(k, "nodes") && !is_core(k, "namespaces") && !is_core(k, "services") &&
		!is_core(k, "persistentvolumeclaims")) ||
	       td_srv_is_crd(k) || !strcmp(k->plural, "priorityclasses");
}

// ---- unknown fields ----
static int prune(struct td_req *q, yyjson_mut_val *o, struct td_refusal *r)
{
	td_auto_strv struct td_strv unknown = {0};
	td_schema_prune(q->k->schema, o, &unknown);
	if (!unknown.n || q->strictness == TD_FIELDS_IGNORE)
		return 0;
	if (q->strictness == TD_FIELDS_WARN) {
		for (size_t i = 0; i < unknown.n && i < 16; i++)
			td_reply_warn(q, "unknown field \"%s\"", unknown.v[i]);
		return 0;
	}
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < unknown.n && i < 16; i++)
		td_buf_printf(&b, "%sunknown field \"%s\"", i ? ", " : "", unknown.v[i]);
	return td_refuse_decode(q, r, "strict decoding error: %s", td_buf_str(&b));
}

// ---- metadata that the server owns ----
static void keep(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_item *old, const char *path)
{
	yyjson_val *v = td_jget(td_item_root(old), path);
	if (v)
		td_jm_copyval(d, o, path, v);
	else
		td_jm_del(o, path);
}

// Warns of a name that becomes part of hostnames and is no DNS label.
static void warn_name(struct td_req *q, const char *name)
{
	const struct td_kind *k = q->k;
	bool pod = is_core(k, "pods");
	if (!pod && strcmp(k->plural, "deployments") && strcmp(k->plural, "replicasets") && strcmp(k->plural, "jobs"))
		return;
	td_auto_strv struct td_strv l = {0};
	td_name_faults(TD_N_LABEL, name, &l);
	if (l.n && k->builtin && td_is_dns_subdomain(name))
		td_reply_warn(q,
			      "metadata.name: this is used in %s, which can result in surprising behavior; a DNS label "
			      "is recommended: [%s]",
			      pod ? "the Pod's hostname" : "Pod names and hostnames", l.v[0]);
}

static int meta_create(struct td_req *q, yyjson_mut_doc *d, yyjson_mut_val *o, struct td_refusal *r)
{
	const char *rv = td_jm_getstr(o, "metadata.resourceVersion"), *name = td_jm_getstr(o, "metadata.name"),
		   *gen = td_jm_getstr(o, "metadata.generateName");
	if (rv && *rv)
		return td_refuse(r, 400, NULL, "resourceVersion should not be set on objects to be created");
	if ((!name || !*name) && gen && *gen) {
		char tail[8];
		td_random_name(tail, 5);
		size_t max = 63 - 5; // so that the name fits a label value, as in a real API server
		td_jm_strf(d, o, "metadata.name", "%.*s%s", (int)max, gen, tail);
	} else if (!name || !*name) {
		td_cause_add(&r->causes, "FieldValueRequired", "metadata.name",
			     "Required value: name or generateName is required");
		return td_refuse_invalid(r, q->k->group, q->k->kind, "");
	}

	warn_name(q, td_jm_getstr(o, "metadata.name"));
	char uid[TD_UUID_LEN], t[TD_TIME_LEN];
	td_jm_str(d, o, "metadata.uid", td_uuid(uid));
	td_jm_str(d, o, "metadata.creationTimestamp", td_time_format(q->now, t));
	static const char *const drop[] = {"metadata.resourceVersion", "metadata.deletionTimestamp",
					   "metadata.deletionGracePeriodSeconds", "metadata.selfLink"};
	for (size_t i = 0; i < TD_LEN(drop); i++)
		td_jm_del(o, drop[i]);
	if (has_generation(q->k)) // other kinds keep what was sent, as in a real API server
		td_jm_int(d, o, "metadata.generation", 1);

	return 0;
}

// Checks that the deletion fields that a client sends are the stored ones. A real API server
// reports each fault twice, and so does this one.
static bool frozen_meta(const struct td_item *old, yyjson_mut_val *o, struct td_causes *ret)
{
	static const char *const paths[] = {"metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds"};
	bool ok = true;

	for (size_t i = 0; i < TD_LEN(paths); i++) {
		yyjson_mut_val *v = td_jm_get(o, paths[i]);
		if (!v || yyjson_mut_is_null(v))
			continue;
		td_auto(td_json_unref) struct td_json *sent = td_json_from_mut(v);
		yyjson_val *was = td_jget(td_item_root(old), paths[i]);
		if (was && td_jequal(was, td_json_root(sent)))
			continue;
		td_auto_free char *t = td_json_text(td_json_root(sent), NULL);
		for (int twice = 0; twice < 2; twice++)
			td_cause_add(ret, "FieldValueInvalid", paths[i], "Invalid value: %s: field is immutable", t);
		ok = false;
	}

	return ok;
}

static void meta_update(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_item *old, bool keep_managed)
{
	static const char *const fixed[] = {"metadata.uid",
					    "metadata.creationTimestamp",
					    "metadata.deletionTimestamp",
					    "metadata.deletionGracePeriodSeconds",
					    "metadata.generation",
					    "metadata.resourceVersion"};
	for (size_t i = 0; i < TD_LEN(fixed); i++)
		keep(d, o, old, fixed[i]);
	yyjson_mut_val *sent = td_jm_get(o, "metadata.managedFields");
	// A client that sends [{}] wants the tracking to start anew.
	bool anew = yyjson_mut_arr_size(sent) == 1 && yyjson_mut_is_obj(yyjson_mut_arr_get_first(sent)) &&
		    !yyjson_mut_obj_size(yyjson_mut_arr_get_first(sent));
	if (keep_managed && !anew)
		keep(d, o, old, "metadata.managedFields");
}

// Deletes empty fields of metadata: an empty field says the same as an absent one.
static void drop_empty(yyjson_mut_val *o)
{
	static const char *const maps[] = {"metadata.labels", "metadata.annotations", "metadata.finalizers",
					   "metadata.ownerReferences", "metadata.managedFields"};
	for (size_t i = 0; i < TD_LEN(maps); i++) {
		yyjson_mut_val *v = td_jm_get(o, maps[i]);
		// Validation refuses a wrong type.
		bool fits = i < 2 ? yyjson_mut_is_obj(v) : yyjson_mut_is_arr(v);
		if (v && (yyjson_mut_is_null(v) || (fits && yyjson_mut_get_len(v) == 0)))
			td_jm_del(o, maps[i]);
	}
}

static void status_only(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, bool keep_managed)
{
	yyjson_mut_val *sent = yyjson_mut_doc_get_root(d), *o = yyjson_val_mut_copy(d, td_item_root(old));
	yyjson_mut_val *status = td_jm_get(sent, "status");
	if (status)
		td_jm_set(d, o, "status", yyjson_mut_val_mut_copy(d, status));
	else
		td_jm_del(o, "status");

	// In built-in kinds, writers of status may change labels and annotations too (kubelets do);
	// in custom resources they may not. The labels of deployments stay as they are.
	static const char *const meta[] = {"metadata.labels", "metadata.annotations"};
	for (size_t i = !strcmp(q->k->plural, "deployments") ? 1 : 0; q->k->builtin && i < TD_LEN(meta); i++) {
		yyjson_mut_val *v = td_jm_get(sent, meta[i]);
		if (v)
			td_jm_set(d, o, meta[i], yyjson_mut_val_mut_copy(d, v));
		else
			td_jm_del(o, meta[i]);
	}

	yyjson_mut_val *managed = td_jm_get(sent, "metadata.managedFields");
	if (!keep_managed && managed)
		td_jm_set(d, o, "metadata.managedFields", yyjson_mut_val_mut_copy(d, managed));
	yyjson_mut_doc_set_root(d, o);
}

// ---- what changed ----
// Whether anything differs but metadata and (where it is a subresource) status.
static bool spec_changed(const struct td_kind *k, yyjson_val *a, yyjson_val *b)
{
	size_t i, n, seen = 0, others = 0;
	yyjson_val *key, *v;
	yyjson_obj_foreach (a, i, n, key, v) {
		const char *s = yyjson_get_str(key);
		if (!strcmp(s, "metadata") || !strcmp(s, "apiVersion") || !strcmp(s, "kind") ||
		    (k->status && !strcmp(s, "status")))
			continue;
		seen++;
		yyjson_val *w = td_jkey(b, s);
		if (!w || !td_jequal(v, w))
			return true;
	}

	yyjson_obj_foreach (b, i, n, key, v) {
		const char *s = yyjson_get_str(key);
		if (strcmp(s, "metadata") && strcmp(s, "apiVersion") && strcmp(s, "kind") &&
		    !(k->status && !strcmp(s, "status")))
			others++;
	}

	return seen != others;
}

static bool same_maps(yyjson_val *a, yyjson_val *b, const char *skip1, const char *skip2)
{
	size_t i, n, na = 0, nb = 0;
	yyjson_val *key, *v;
	yyjson_obj_foreach (a, i, n, key, v) {
		const char *s = yyjson_get_str(key);
		if (!strcmp(s, skip1) || !strcmp(s, skip2))
			continue;
		na++;
		yyjson_val *w = td_jkey(b, s);
		if (!w || !td_jequal(v, w))
			return false;
	}

	yyjson_obj_foreach (b, i, n, key, v) {
		const char *s = yyjson_get_str(key);
		if (strcmp(s, skip1) && strcmp(s, skip2))
			nb++;
	}

	return na == nb;
}

// Whether the write would change nothing but the times in managedFields: then nothing is written.
// with_managed: managedFields count too.
static bool unchanged(const struct td_item *old, yyjson_val *now, bool with_managed)
{
	return same_maps(td_item_root(old), now, "metadata", "") &&
	       same_maps(td_jget(td_item_root(old), "metadata"), td_jget(now, "metadata"), "resourceVersion",
			 with_managed ? "" : "managedFields");
}

// An object that is being deleted gets no new finalizers: its deletion might never end.
static size_t finalizers_check(const struct td_item *old, yyjson_val *v, struct td_causes *ret)
{
	yyjson_val *was = td_jget(td_item_root(old), "metadata.finalizers"), *f, *g;
	size_t i, n, j, m, bad = 0;

	if (!td_jget(td_item_root(old), "metadata.deletionTimestamp"))
		return 0;
	yyjson_arr_foreach (td_jget(v, "metadata.finalizers"), i, n, f) {
		bool there = false;
		yyjson_arr_foreach (was, j, m, g)
			there |= td_jequal(f, g);
		if (there)
			continue;
		for (int twice = 0; twice < 2; twice++) // a real API server says it twice
			td_cause_add(ret, "FieldValueForbidden", "metadata.finalizers",
				     "Forbidden: no new finalizers can be added if the object is being deleted, found "
				     "new finalizers []string{\"%s\"}",
				     yyjson_is_str(f) ? yyjson_get_str(f) : "");
		bad++;
	}

	return bad;
}

static int validate(struct td_req *q, const struct td_item *old, yyjson_val *v, enum td_via via, struct td_refusal *r)
{
	const struct td_kind *k = q->k;
	const char *name = td_jstr_or(v, "metadata.name", "");
	size_t n = td_meta_check(k, v, &r->causes);

	n += td_schema_validate(k->schema, v, &r->causes);
	if (old)
		n += finalizers_check(old, v, &r->causes);
	for (size_t i = 0; k->builtin && i < r->causes.n; i++)
		if (r->causes.v[i].kind == TD_CAUSE_UNDECODABLE) {
			td_auto_free char *why = td_asprintf("%s: %s", r->causes.v[i].field, r->causes.v[i].message);
			return td_refuse_decode(q, r, "%s", why);
		}

	if (!n && k->check)
		n += k->check(v, old ? td_item_root(old) : NULL, &r->causes);
	if (k->builtin && via == TD_VIA_MAIN)
		n += td_served_check(k, v, old ? td_item_root(old) : NULL, &r->causes);

	return n ? td_refuse_invalid(r, k->group, k->kind, name) : 0;
}

static bool any_replicas(const struct td_kind *k, yyjson_mut_val *o)
{
	const char *path = k->scale_spec + (*k->scale_spec == '.');
	yyjson_mut_val *v = td_jm_get(o, path);
	return v && yyjson_mut_get_sint(v);
}

static void track_change(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, enum td_via via)
{
	td_auto_free char *av = td_asprintf("%s%s%s", q->k->group, *q->k->group ? "/" : "", q->k->version);
	const struct td_api_apply a = {
		.manager = q->manager,
		.subresource = via == TD_VIA_STATUS  ? "status"
			       : via == TD_VIA_SCALE ? "scale"
						     : "",
		.api_version = av,
		.typed = q->k->builtin,
		.no_status = q->k->builtin && q->k->status && via != TD_VIA_STATUS,
		.disown = via == TD_VIA_SCALE && !any_replicas(q->k, yyjson_mut_doc_get_root(d)),
		.now_ms = q->now,
	};
	td_schema_track(q->k->schema, old ? td_item_root(old) : NULL, d, yyjson_mut_doc_get_root(d), &a);
}

// Whether the Job gets the labels of its pod template: it has none of its own, or the same.
static bool same_labels(yyjson_mut_val *job)
{
	yyjson_mut_val *own = td_jm_get(job, "metadata.labels"),
		       *pods = td_jm_get(job, "spec.template.metadata.labels");
	yyjson_mut_val *manual = td_jm_get(job, "spec.manualSelector");
	return !(manual && yyjson_mut_is_true(manual)) && (!own || (pods && yyjson_mut_equals(own, pods)));
}

// Sets the fields of a Service that the server chooses, as it does addresses.
static void service_families(yyjson_mut_doc *d, yyjson_mut_val *o)
{
	if (!td_jm_get(o, "spec.ipFamilies"))
		yyjson_mut_arr_add_str(d, td_jm_arr(d, o, "spec.ipFamilies"), "IPv4");
	if (!td_jm_get(o, "spec.ipFamilyPolicy"))
		td_jm_str(d, o, "spec.ipFamilyPolicy", "SingleStack");
}

int td_srv_object_prepare(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, enum td_via via, bool track,
			  struct td_refusal *r)
{
	const struct td_kind *k = q->k;
	int rc;

	if ((rc = prune(q, yyjson_mut_doc_get_root(d), r)) < 0)
		return rc;
	if (old && via == TD_VIA_MAIN && !frozen_meta(old, yyjson_mut_doc_get_root(d), &r->causes))
		return td_refuse_invalid(r, k->group, k->kind, old->name);
	if (old && via == TD_VIA_STATUS)
		status_only(q, old, d, track);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	if (k->builtin)
		td_schema_tidy(k->schema, o);
	if (!old) {
		if ((rc = meta_create(q, d, o, r)) < 0)
			return rc;
	} else if (via != TD_VIA_SYSTEM) {
		meta_update(d, o, old, track);
	}

	drop_empty(o);
	// A new node brings its first status, as kubelets send it.
	if (k->status && !is_core(k, "nodes") && via == TD_VIA_MAIN) {
		if (old)
			keep(d, o, old, "status");
		else
			td_jm_del(o, "status");
	} else if (k->status && via == TD_VIA_MAIN && old) {
		keep(d, o, old, "status");
	}

	td_schema_default(k->schema, d, o);
	if (k->set_defaults)
		k->set_defaults(d, o);
	if (td_srv_is_crd(k))
		td_srv_crd_prepare(q, old, d);

	// Runs before admission: fields that the server adds have no manager.
	if (track && via != TD_VIA_SYSTEM)
		track_change(q, old, d, via);
	bool job_labels = !old && !strcmp(k->group, "batch") && same_labels(o);
	rc = via == TD_VIA_MAIN ? td_admit(q, old, d, r) : via == TD_VIA_STATUS ? td_admit_grants(q, old, d, r) : 0;
	if (rc < 0)
		return rc;
	if (!old && is_core(k, "services"))
		service_families(d, o);
	td_auto(td_json_unref) struct td_json *now = td_json_from_mut(o);
	if (old && has_generation(k) && strcmp(k->plural, "priorityclasses") && via != TD_VIA_STATUS &&
	    spec_changed(k, td_item_root(old), td_json_root(now)))
		td_jm_int(d, o, "metadata.generation", td_jint(td_item_root(old), "metadata.generation", 0) + 1);
	if ((rc = validate(q, old, td_json_root(now), via, r)) < 0)
		return rc;

	// In a real API server's defaulting both labels are one map, so what the server adds to the
	// template's labels is in the Job's too.
	if (job_labels)
		td_jm_set(d, o, "metadata.labels",
			  yyjson_mut_val_mut_copy(d, td_jm_get(o, "spec.template.metadata.labels")));

	return 0;
}

int td_refuse_write(const struct td_req *q, const char *name, const struct td_error *err, struct td_refusal *r)
{
	td_auto_free char *what = td_asprintf("%s%s%s", q->plural, *q->group ? "." : "", q->group);
	switch (err->code) {
	case TD_EXISTS:
		td_refuse(r, 409, "AlreadyExists", "%s \"%s\" already exists", what, name);
		td_refuse_about(r, q->group, q->plural, name);
		return TD_EXISTS;
	case TD_CONFLICT:
		td_refuse(r, 409, "Conflict",
			  "Operation cannot be fulfilled on %s \"%s\": the object has been modified; please apply your "
			  "changes to the latest version and try again",
			  what, name);
		td_refuse_about(r, q->group, q->plural, name);
		return TD_CONFLICT;
	case TD_NOT_FOUND:
		return td_refuse_not_found(q, name, r);
	case TD_DENIED:
		if (err->http == 404) {
			td_refuse(r, 404, NULL, "%s", err->msg);
			return td_refuse_about(r, "", "namespaces", q->ns);
		}
		td_refuse(r, 403, NULL, "%s \"%s\" is forbidden: %s", what, name, err->msg);
		td_cause_add(&r->causes, "NamespaceTerminating", "metadata.namespace",
			     "namespace %s is being terminated", q->ns);
		return td_refuse_about(r, q->group, q->plural, name);
	default:
		return td_refuse_err(r, err);
	}
}

// Whether this write removes the object: it is being deleted, and its last finalizer is gone.
static bool finished(const struct td_kind *k, yyjson_mut_val *o)
{
	if (!td_jm_get(o, "metadata.deletionTimestamp"))
		return false;
	yyjson_mut_val *f = td_jm_get(o, "metadata.finalizers"),
		       *g = td_jm_get(o, "metadata.deletionGracePeriodSeconds");
	if (yyjson_mut_arr_size(f) || (g && yyjson_mut_get_sint(g) > 0))
		return false;
	return !is_core(k, "namespaces") || !yyjson_mut_arr_size(td_jm_get(o, "spec.finalizers"));
}

static int commit(struct td_req *q, struct td_item *old, yyjson_mut_doc *d, struct td_item **ret, struct td_refusal *r)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	const char *name = td_jm_getstr(o, "metadata.name");
	if (q->dry_run) {
		struct td_error e = TD_ERROR_INIT;
		if (!old) { // the check that the store would make
			td_auto(td_item_unref) struct td_item *there =
				td_store_get(q->s->store, q->res->table, q->ns, name);
			if (there) {
				td_fail(&e, TD_EXISTS, "exists");
				return td_refuse_write(q, name, &e, r);
			}
		}
		*ret = td_item_new(d, old ? old->rv : 0, 0);
		return 0;
	}

	if (old && finished(q->k, o)) {
		td_auto(td_item_unref) struct td_item *gone = NULL;
		int rc = td_srv_object_remove(q, old, &gone, r);
		if (rc == 0)
			// Returns what was written, though it is no longer stored.
			*ret = td_item_new(d, old->rv, old->crv);
		return rc;
	}

	if (old) {
		td_auto(td_json_unref) struct td_json *now = td_json_from_mut(o);
		const char *ct = td_http_header(q->x, "Content-Type");
		bool watched = td_jget(td_item_root(old), "metadata.managedFields"),
		     watch = td_jget(td_json_root(now), "metadata.managedFields");
		if (unchanged(old, td_json_root(now),
			      watched != watch || (ct && td_starts(ct, "application/apply-patch")))) {
			*ret = td_item_ref(old);
			return 0;
		}
	}

	td_jm_del(o, "metadata.resourceVersion");
	const struct td_srv_write w = {
		.table = q->res->table,
		.ns = q->k->namespaced ? q->ns : "",
		.name = name,
		.base = old ? old->rv : 0,
		.doc = d,
		.in_namespace = !old && q->k->namespaced,
	};
	struct td_error err = TD_ERROR_INIT;
	int rc = td_store_write(q->s->store, &w, ret, &err);
	if (rc < 0)
		return td_refuse_write(q, name, &err, r);
	if (td_srv_is_crd(q->k))
		td_srv_crd_written(q->s);

	// Creates the account at once, so that the namespace's first pod finds it. A controller
	// restores it if it is deleted, or if a crash prevents this write.
	if (!old && is_core(q->k, "namespaces") && td_account_ensure(q->s, name, &err) < 0)
		td_warn("namespace %s: no ServiceAccount \"default\" yet: %s", name, err.msg);

	return 0;
}

int td_srv_object_commit(struct td_req *q, struct td_item *old, yyjson_mut_doc *d, struct td_item **ret,
			 struct td_refusal *r)
{
	bool held;
	int rc = td_srv_claims_enter(q, old, yyjson_mut_doc_get_root(d), &held, r);
	if (rc < 0)
		return rc;
	rc = commit(q, old, d, ret, r);
	td_srv_claims_leave(held);
	return rc;
}

int td_srv_object_remove(struct td_req *q, struct td_item *old, struct td_item **ret, struct td_refusal *r)
{
	if (q->dry_run) {
		*ret = td_item_ref(old);
		return 0;
	}
	const struct td_srv_write w = {.table = q->res->table, .ns = old->ns, .name = old->name, .base = old->rv};
	struct td_error err = TD_ERROR_INIT;
	int rc = td_store_write(q->s->store, &w, ret, &err);
	if (rc < 0)
		return td_refuse_write(q, old->name, &err, r);
	td_srv_crd_removed(q, *ret);
	return 0;
}
