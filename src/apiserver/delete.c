// delete and deletecollection: preconditions, grace period, and propagation by finalizers.
#include "apiserver/srv.h"

#include <string.h>

int td_delete_opts(struct td_req *q, yyjson_val *body, struct td_delete_opts *ret, struct td_refusal *r)
{
	struct td_delete_opts o = {.grace = -1};
	const char *g = td_http_query(q->x, "gracePeriodSeconds"), *p = td_http_query(q->x, "propagationPolicy");

	if (g && *g && (!td_parse_i64(g, &o.grace) || o.grace < 0))
		return td_refuse(r, 400, NULL,
				 "gracePeriodSeconds: Invalid value: \"%.64s\": must be a number of at least 0", g);
	o.propagation = p && *p ? p : NULL;

	if (body) {
		const char *kind = td_jstr(body, "kind");
		if (!yyjson_is_obj(body) || (kind && *kind && strcmp(kind, "DeleteOptions") != 0))
			return td_refuse(r, 400, NULL, "the body of a DELETE is a DeleteOptions object, not %s",
					 kind ? kind : "this");

		yyjson_val *v = td_jget(body, "gracePeriodSeconds");
		if (yyjson_is_int(v))
			o.grace = yyjson_get_sint(v);
		if (td_jstr(body, "propagationPolicy"))
			o.propagation = td_jstr(body, "propagationPolicy");
		else if (!o.propagation && yyjson_is_bool(td_jget(body, "orphanDependents")))
			o.propagation = td_jbool(body, "orphanDependents", false) ? "Orphan" : "Background";

		o.uid = td_jstr(body, "preconditions.uid");
		o.rv = td_jstr(body, "preconditions.resourceVersion");

		size_t i, n;
		yyjson_val *dry;
		yyjson_arr_foreach (td_jget(body, "dryRun"), i, n, dry)
			td_dry_run(q, yyjson_is_str(dry) ? yyjson_get_str(dry) : "", r);
		if (td_jstr(body, "propagationPolicy") && yyjson_is_bool(td_jget(body, "orphanDependents")))
			td_cause_add(
				&r->causes, "FieldValueInvalid", "propagationPolicy",
				"Invalid value: \"%.64s\": orphanDependents and deletionPropagation cannot be both set",
				o.propagation);
	}

	if (o.grace < -1)
		// As in a real API server: a negative value means at once, but with a trace.
		o.grace = 1;
	if (o.propagation && strcmp(o.propagation, "Background") && strcmp(o.propagation, "Foreground") &&
	    strcmp(o.propagation, "Orphan")) {
		td_cause_add(&r->causes, "FieldValueNotSupported", "propagationPolicy",
			     "Unsupported value: \"%.64s\": supported values: \"Foreground\", \"Background\", "
			     "\"Orphan\", \"nil\"",
			     o.propagation);
	}

	if (r->causes.n)
		return td_refuse_options(r, "DeleteOptions");
	// Jobs have an older default.
	if (!o.propagation && q->k && !strcmp(q->k->group, "batch") && !strcmp(q->k->plural, "jobs")) {
		o.propagation = "Orphan";
		td_reply_warn(
			q,
			"child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
			"to remove them or set propagationPolicy=Orphan to suppress this warning");
	}

	*ret = o;
	return 0;
}

static int preconditions(struct td_req *q, const struct td_item *i, const struct td_delete_opts *o,
			 struct td_refusal *r)
{
	const char *rv = td_jstr_or(td_item_root(i), "metadata.resourceVersion", "");
	if (o->uid && strcmp(o->uid, i->uid) != 0)
		td_refuse(r, 409, "Conflict",
			  "Operation cannot be fulfilled on %s \"%s\": the UID in the precondition (%s) does not match "
			  "the UID in record (%s). The object might have been deleted and then recreated",
			  q->k->kind, i->name, o->uid, i->uid);
	else if (o->rv && strcmp(o->rv, rv) != 0)
		td_refuse(r, 409, "Conflict",
			  "Operation cannot be fulfilled on %s \"%s\": the ResourceVersion in the precondition (%s) "
			  "does not match the ResourceVersion in record (%s). The object might have been modified",
			  q->k->kind, i->name, o->rv, rv);
	else
		return 0;

	td_refuse_about(r, q->group, q->k->kind, i->name);
	return TD_DENIED; // a retry would not help
}

static void set_finalizer(yyjson_mut_doc *d, yyjson_mut_val *o, const char *name, bool want)
{
	yyjson_mut_val *a = td_jm_arr(d, o, "metadata.finalizers"), *v;
	size_t i, n;
	yyjson_mut_arr_foreach (a, i, n, v)
		if (td_streq(yyjson_mut_get_str(v), name)) {
			if (!want)
				yyjson_mut_arr_remove(a, i);
			return;
		}
	if (want)
		yyjson_mut_arr_add_strcpy(d, a, name);
}

// The object's grace period in seconds; 0 for everything but pods that run on a node.
static long long grace_of(const struct td_kind *k, const struct td_item *i, const struct td_delete_opts *o)
{
	if (*k->group || strcmp(k->plural, "pods") != 0)
		return 0;
	const char *phase = td_jstr_or(td_item_root(i), "status.phase", "");
	if (!*td_jstr_or(td_item_root(i), "spec.nodeName", "") || !strcmp(phase, "Succeeded") ||
	    !strcmp(phase, "Failed"))
		return 0;
	return o->grace >= 0 ? o->grace : td_jint(td_item_root(i), "spec.terminationGracePeriodSeconds", 30);
}

static bool holds(const struct td_kind *k, yyjson_mut_val *o)
{
	if (yyjson_mut_arr_size(td_jm_get(o, "metadata.finalizers")))
		return true;
	return !*k->group && !strcmp(k->plural, "namespaces") && yyjson_mut_arr_size(td_jm_get(o, "spec.finalizers"));
}

static int delete_once(struct td_req *q, const char *ns, const char *name, const struct td_delete_opts *o,
		       struct td_deleted *ret, struct td_refusal *r)
{
	const struct td_kind *k = q->k;
	td_auto(td_item_unref) struct td_item *old = td_store_get(q->s->store, q->res->table, ns, name);
	if (!old)
		return td_refuse_not_found(q, name, r);
	int rc = preconditions(q, old, o, r);
	if (rc < 0 || (rc = td_srv_networks_delete(q, name, r)) < 0)
		return rc;
	bool is_ns = !*k->group && !strcmp(k->plural, "namespaces");
	if (is_ns && (!strcmp(name, "default") || !strcmp(name, "kube-system") || !strcmp(name, "kube-public"))) {
		td_refuse(r, 403, NULL, "namespaces \"%s\" is forbidden: this namespace may not be deleted", name);
		return td_refuse_about(r, "", "namespaces", name);
	}
	if (!strcmp(k->plural, "priorityclasses") &&
	    (!strcmp(name, "system-node-critical") || !strcmp(name, "system-cluster-critical"))) {
		td_refuse(r, 403, NULL,
			  "priorityclasses.scheduling.k8s.io \"%s\" is forbidden: this is a system priority class and "
			  "cannot be deleted",
			  name);
		return td_refuse_about(r, k->group, k->plural, name);
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_item_root(old));
	yyjson_mut_val *m = yyjson_mut_doc_get_root(d);
	bool deleting = td_jget(td_item_root(old), "metadata.deletionTimestamp") != NULL;
	if (o->propagation) {
		set_finalizer(d, m, "foregroundDeletion", !strcmp(o->propagation, "Foreground"));
		set_finalizer(d, m, "orphan", !strcmp(o->propagation, "Orphan"));
		if (!yyjson_mut_arr_size(td_jm_get(m, "metadata.finalizers")))
			td_jm_del(m, "metadata.finalizers");
	}

	long long grace = grace_of(k, old, o);
	if (deleting) { // a second delete may only shorten the period
		long long was = td_jint(td_item_root(old), "metadata.deletionGracePeriodSeconds", 0);
		if (o->grace < 0 || grace > was)
			grace = was;
	}

	if (td_srv_is_crd(k) && !q->dry_run)
		set_finalizer(d, m, "customresourcecleanup.apiextensions.k8s.io", true);
	char t[TD_TIME_LEN];
	if (grace == 0 && !holds(k, m)) {
		td_auto(td_item_unref) struct td_item *gone = NULL;
		if ((rc = td_srv_object_remove(q, old, &gone, r)) < 0)
			return rc;
		// The pod's last state says that it was deleted.
		if (!*k->group && !strcmp(k->plural, "pods")) {
			if (!deleting && td_jget(td_item_root(old), "metadata.generation"))
				td_jm_int(d, m, "metadata.generation",
					  td_jint(td_item_root(old), "metadata.generation", 0) + 1);
			td_jm_str(d, m, "metadata.deletionTimestamp", td_time_format(q->now, t));
			td_jm_int(d, m, "metadata.deletionGracePeriodSeconds", 0);
		}
		// A pod or a Service is the reply itself, so it gets the revision of the deletion;
		// other objects appear only in the list of a deletecollection, as they were.
		bool told = !*k->group && (!strcmp(k->plural, "pods") ||
					   (!strcmp(k->plural, "services") && !strcmp(q->verb, "delete")));
		*ret = (struct td_deleted){td_item_new(d, told ? gone->rv : old->rv, old->crv), true};
		return 0;
	}

	if (!deleting || grace < td_jint(td_item_root(old), "metadata.deletionGracePeriodSeconds", 0)) {
		if (!deleting && td_jget(td_item_root(old), "metadata.generation"))
			td_jm_int(d, m, "metadata.generation",
				  td_jint(td_item_root(old), "metadata.generation", 0) + 1);
		td_jm_str(d, m, "metadata.deletionTimestamp", td_time_format(q->now + grace * 1000, t));
		if (!is_ns)
			td_jm_int(d, m, "metadata.deletionGracePeriodSeconds", grace);
	}

	if (is_ns)
		td_jm_str(d, m, "status.phase", "Terminating");
	ret->gone = false;
	rc = td_srv_object_commit(q, old, d, &ret->left, r);
	if (rc == 0 && td_srv_is_crd(k) && !q->dry_run)
		ret->gone = td_srv_crd_drain(q, ret->left);

	return rc;
}

int td_delete_item(struct td_req *q, const char *ns, const char *name, const struct td_delete_opts *o,
		   struct td_deleted *ret, struct td_refusal *r)
{
	int rc = 0;
	for (int tries = 0; tries < 16; tries++) {
		td_refusal_done(r);
		rc = delete_once(q, ns, name, o, ret, r);
		if (rc != TD_CONFLICT)
			break;
	}
	return rc;
}

int td_do_delete(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	struct td_delete_opts o = {0};
	struct td_deleted d = {0};
	int rc = td_body_read(q, true, &body, r);
	if (rc < 0 || (rc = td_delete_opts(q, td_json_root(body), &o, r)) < 0 ||
	    (rc = td_delete_item(q, q->ns, q->name, &o, &d, r)) < 0)
		return rc;
	td_auto(td_item_unref) struct td_item *i = d.left;
	bool pod = !*q->group && (!strcmp(q->plural, "pods") || !strcmp(q->plural, "services"));
	// As a real API server does, answers with the last state of pods and services.
	if (d.gone && !pod)
		td_reply_success(q, 200, q->name, i->uid);
	else
		td_reply_item(q, 200, i);
	return 0;
}

int td_do_delete_collection(struct td_req *q, struct td_refusal *r)
{
	__attribute__((cleanup(td_filter_done))) struct td_filter f = {0};
	td_auto(td_json_unref) struct td_json *body = NULL;
	td_auto_items struct td_items l = {0};
	struct td_delete_opts o = {0};
	uint64_t rv;
	struct td_error err = TD_ERROR_INIT;

	int rc = td_body_read(q, true, &body, r);
	if (rc < 0 || (rc = td_delete_opts(q, td_json_root(body), &o, r)) < 0 || (rc = td_filter_init(q, &f, r)) < 0)
		return rc;
	if (q->k->namespaced && !*q->ns)
		return td_refuse_method(r);
	if (!q->k->namespaced && !strcmp(q->plural, "namespaces"))
		return td_refuse_method(r);
	if (td_store_list(q->s->store, q->res->table, q->ns, 0, &l, &rv, &err) < 0)
		return td_refuse_err(r, &err);

	td_auto_buf struct td_buf b = {0};
	td_buf_printf(
		&b,
		"{\"kind\":\"%s\",\"apiVersion\":\"%s%s%s\",\"metadata\":{\"resourceVersion\":\"%llu\"},\"items\":[",
		q->k->list_kind, q->group, *q->group ? "/" : "", q->version, (unsigned long long)rv);

	size_t n = 0;
	struct td_list_options lo = {0};
	if ((rc = td_list_options(q, &lo, r)) < 0)
		return rc;
	for (size_t i = 0; i < l.n && !(lo.limit && n == (size_t)lo.limit); i++) {
		struct td_deleted d = {0};
		if (!td_filter_matches(&f, l.v[i]))
			continue;
		rc = td_delete_item(q, l.v[i]->ns, l.v[i]->name, &o, &d, r);
		if (rc == TD_NOT_FOUND) {
			td_refusal_done(r);
			continue;
		}
		if (rc < 0)
			return rc;
		if (n++)
			td_buf_putc(&b, ',');
		td_item_write_in_list(q->k, d.left, &b);
		td_item_unref(d.left);
	}

	td_buf_puts(&b, "]}\n");
	td_reply_json(q, 200, td_buf_str(&b), b.len);
	return 0;
}
