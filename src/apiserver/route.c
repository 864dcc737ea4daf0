// From a path to a handler. The checks come in this order: the request's form, authentication,
// authorization, what it asks.
#include "apiserver/srv.h"

#include "api/names.h"
#include "base/log.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// Splits the path below /api/V or /apis/G/V: [namespaces/NS/]PLURAL[/NAME[/SUB…]].
static void split(struct td_req *q, char *rest)
{
	q->ns = q->plural = q->name = q->sub = "";
	char *v[5] = {0};
	size_t n = 0;
	for (char *p = rest; p && *p && n < 5; n++) {
		v[n] = p;
		p = n < 4 ? strchr(p, '/') : NULL; // the last part keeps the rest
		if (p)
			*p++ = 0;
	}

	size_t i = 0;
	// "namespaces/NS/status" and "namespaces/NS/finalize" are subresources of the namespace
	// itself.
	if (n >= 3 && !strcmp(v[0], "namespaces") &&
	    !(n == 3 && !*q->group && (!strcmp(v[2], "status") || !strcmp(v[2], "finalize")))) {
		q->ns = v[1];
		i = 2;
	}

	if (i < n)
		q->plural = v[i++];
	if (i < n)
		q->name = v[i++];
	if (i < n)
		q->sub = v[i];
}

static int verb_of(struct td_req *q, struct td_refusal *r)
{
	const char *m = td_http_method(q->x);
	if (!strcmp(m, "GET"))
		q->verb = *q->sub || *q->name ? "get" : td_query_true(q, "watch") ? "watch" : "list";
	else if (!strcmp(m, "POST"))
		q->verb = "create";
	else if (!strcmp(m, "PUT"))
		q->verb = "update";
	else if (!strcmp(m, "PATCH"))
		q->verb = "patch";
	else if (!strcmp(m, "DELETE"))
		q->verb = *q->name ? "delete" : "deletecollection";
	else
		return td_refuse_method(r);
	return 0;
}

// Checks the client's timeout. The reply comes at once, so it needs no deadline; but a value that
// is no duration is refused.
static int check_timeout(const struct td_req *q, struct td_refusal *r)
{
	const char *t = td_http_query(q->x, "timeout");
	if (!t || !*t || td_is_duration(t))
		return 0;
	return td_refuse(r, 400, NULL,
			 "invalid timeout specified in the request URL - \"%.64s\" is no duration such as 30s or 1m30s",
			 t);
}

static int no_resource(struct td_refusal *r)
{
	return td_refuse_generic(r, 404, NULL, "the server could not find the requested resource");
}

// Whether this is a resource of real Kubernetes that this API does not have: the refusal then says
// so, so that nobody looks for a typing error.
static bool elsewhere(const char *group, const char *plural)
{
	static const struct {
		const char *group, *plurals; // "": the whole group
	} real[] = {
		{"", " componentstatuses limitranges persistentvolumes podtemplates "
		     "replicationcontrollers resourcequotas "},
		{"apps", " daemonsets controllerrevisions "},
		{"batch", " cronjobs "},
		{"autoscaling", ""},
		{"events.k8s.io", ""},
		{"networking.k8s.io", " ingresses ingressclasses ipaddresses servicecidrs "},
		{"storage.k8s.io", ""},
		{"resource.k8s.io", ""},
		{"admissionregistration.k8s.io", ""},
		{"apiregistration.k8s.io", ""},
		{"certificates.k8s.io", ""},
		{"flowcontrol.apiserver.k8s.io", ""},
		{"node.k8s.io", ""},
		{"metrics.k8s.io", ""},
	};
	td_auto_free char *word = td_asprintf(" %s ", plural);

	for (size_t i = 0; i < TD_LEN(real); i++)
		if (!strcmp(real[i].group, group) && (!*real[i].plurals || strstr(real[i].plurals, word)))
			return true;
	return false;
}

static int refuse_elsewhere(const struct td_req *q, struct td_refusal *r)
{
	return td_refuse_generic(r, 404, NULL,
				 "the embedded API has no %s%s%s: it serves what `kubectl api-resources` lists, a real "
				 "Kubernetes has the rest%s",
				 q->plural, *q->group && *q->plural ? "." : "", q->group,
				 !strcmp(q->group, "events.k8s.io")
					 ? "; events are written and read as events of group \"\", version v1"
				 : !strcmp(q->plural, "controllerrevisions")
					 ? "; old templates of a StatefulSet are not kept: apply the one you want back"
					 : "");
}

static bool is_verb(const struct td_req *q, const char *verbs) // verbs: such as "get update patch"
{
	size_t n = strlen(q->verb);
	for (const char *p = strstr(verbs, q->verb); p; p = strstr(p + 1, q->verb))
		if ((p == verbs || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

// Refuses a subresource of real Kubernetes that this API does not have, and names what does its
// work here.
static int no_subresource(const struct td_req *q, struct td_refusal *r)
{
	static const struct {
		const char *plural, *sub, *instead;
	} real[] = {
		{"nodes", "proxy", "embedded nodes have no kubelet to talk to; use `kubectl logs` and `kubectl exec`"},
		{"pods", "proxy", "use `kubectl port-forward`"},
		{"services", "proxy", "use `kubectl port-forward` to one of its pods"},
		{"pods", "ephemeralcontainers", "use `kubectl exec` to look into a running container"},
		{"pods", "resize", "delete the pod and make it again with other resources"},
	};
	size_t n = strcspn(q->sub, "/"); // the proxied path follows "proxy"
	for (size_t i = 0; !*q->group && i < TD_LEN(real); i++)
		if (!strcmp(q->plural, real[i].plural) && strlen(real[i].sub) == n && !strncmp(q->sub, real[i].sub, n))
			return td_refuse_generic(r, 404, NULL, "the embedded API has no %s/%s: %s", q->plural,
						 real[i].sub, real[i].instead);
	return no_resource(r);
}

static int subresource(struct td_req *q, struct td_refusal *r)
{
	const struct td_kind *k = q->k;
	bool pod = !*k->group && !strcmp(k->plural, "pods");

	if (!strcmp(q->sub, "status") && k->status) {
		if (is_verb(q, "get"))
			return td_do_get(q, r);
		if (is_verb(q, "update"))
			return td_do_update(q, r);
		return is_verb(q, "patch") ? td_do_patch(q, r) : td_refuse_method(r);
	}

	if (!strcmp(q->sub, "scale") && k->scale)
		return is_verb(q, "get update patch") ? td_do_scale(q, r) : td_refuse_method(r);
	if (pod && !strcmp(q->sub, "binding"))
		return is_verb(q, "create") ? td_do_binding(q, r) : td_refuse_method(r);
	if (pod && !strcmp(q->sub, "eviction"))
		return is_verb(q, "create") ? td_do_eviction(q, r) : td_refuse_method(r);
	if (pod && (!strcmp(q->sub, "log") || !strcmp(q->sub, "exec") || !strcmp(q->sub, "attach") ||
		    !strcmp(q->sub, "portforward")))
		return is_verb(q, "get create") ? td_do_pod_stream(q, r) : td_refuse_method(r);
	if (!*k->group && !strcmp(k->plural, "namespaces") && !strcmp(q->sub, "finalize"))
		return is_verb(q, "update") ? td_do_finalize(q, r) : td_refuse_method(r);
	if (!*k->group && !strcmp(k->plural, "serviceaccounts") && !strcmp(q->sub, "token"))
		return is_verb(q, "create") ? td_do_token(q, r) : td_refuse_method(r);

	return no_subresource(q, r);
}

// Warns in every reply about a custom resource in a version that its CRD calls deprecated.
static void warn_deprecated(struct td_req *q)
{
	yyjson_val *v, *versions = td_jget(td_json_root(q->k->source), "spec.versions");
	size_t i, n;
	yyjson_arr_foreach (versions, i, n, v) {
		if (!td_streq(td_jstr(v, "name"), q->k->version) || !td_jbool(v, "deprecated", false))
			continue;
		const char *words = td_jstr(v, "deprecationWarning");
		if (words)
			td_reply_warn(q, "%s", words);
		else
			td_reply_warn(q, "%s/%s %s is deprecated", q->k->group, q->k->version, q->k->kind);
	}
}

static int resource(struct td_req *q, struct td_refusal *r)
{
	int rc = td_auth_may(q, r);
	if (rc < 0)
		return rc;

	// POST …/namespaces/NS/bindings is the old way to bind.
	if (!*q->group && !strcmp(q->plural, "bindings") && !strcmp(q->version, "v1")) {
		q->plural = "pods";
		q->sub = "binding";
	}

	q->res = td_snap_find(q->snap, q->group, q->version, q->plural);
	if (q->res)
		q->k = q->res->kind;
	if (!q->res && ((rc = td_review(q, r)) == 0 || r->http))
		return rc;
	if (!q->res) {
		if (elsewhere(q->group, q->plural))
			return refuse_elsewhere(q, r);
		if (td_snap_has_group(q->snap, q->group, NULL) || !*q->group)
			return no_resource(r);
		td_http_send(q->x, 404, "text/plain; charset=utf-8", "404 page not found\n", 19);
		return 0;
	}

	if (q->k->namespaced && *q->name && !*q->ns)
		return no_resource(r);
	if (!q->k->namespaced && *q->ns)
		return no_resource(r);
	if (!q->k->builtin)
		warn_deprecated(q);
	bool reads = !strcmp(q->verb, "get") || !strcmp(q->verb, "list") || !strcmp(q->verb, "watch");
	if (!reads && (rc = td_srv_write_options(q, r)) < 0)
		return rc;

	// Streams negotiate for themselves.
	bool stream = *q->sub && (!strcmp(q->sub, "log") || !strcmp(q->sub, "exec") || !strcmp(q->sub, "attach") ||
				  !strcmp(q->sub, "portforward"));
	if (!stream && strcmp(q->verb, "watch") && (rc = check_timeout(q, r)) < 0)
		return rc;
	if (!stream && (rc = td_reply_negotiate(q, r)) < 0)
		return rc;
	if (*q->sub)
		return subresource(q, r);
	const struct {
		const char *verb;
		int (*f)(struct td_req *, struct td_refusal *);
		bool named;
	} verbs[] = {
		{"get", td_do_get, true},       {"list", td_do_list, false},
		{"watch", td_do_watch, false},  {"create", td_do_create, false},
		{"update", td_do_update, true}, {"patch", td_do_patch, true},
		{"delete", td_do_delete, true}, {"deletecollection", td_do_delete_collection, false},
	};
	for (size_t i = 0; i < TD_LEN(verbs); i++)
		if (!strcmp(verbs[i].verb, q->verb)) {
			bool fits = !strcmp(q->verb, "watch") || verbs[i].named == (*q->name != 0);
			if (!strcmp(q->verb, "create") && q->k->namespaced && !*q->ns)
				fits = false;
			return fits ? verbs[i].f(q, r) : td_refuse_method(r);
		}

	return td_refuse_method(r);
}

// The Kubernetes minor version whose behaviour t/test_parity.py proves. Clients warn when their
// version is far from it, as they do with a real API server.
static int version(struct td_req *q, struct td_refusal *r)
{
	if (strcmp(td_http_method(q->x), "GET") != 0)
		return td_refuse_method(r);
	static const char text[] = "{\"major\":\"1\",\"minor\":\"34\",\"gitVersion\":\"v1.34.0+tandem" TD_VERSION
				   "\",\"gitCommit\":\"\",\"gitTreeState\":\"clean\",\"buildDate\":\"1970-01-01T00:00:"
				   "00Z\",\"goVersion\":\"none\",\"compiler\":\"gcc\",\"platform\":\"linux/amd64\"}";
	td_http_send(q->x, 200, "application/json", text, sizeof(text) - 1);
	return 0;
}

static int route(struct td_req *q, struct td_refusal *r)
{
	if (td_srv_health_open(q->path) && td_srv_health(q))
		return 0;
	if (!strcmp(q->path, "/version") || !strcmp(q->path, "/version/"))
		return version(q, r);

	int rc = td_auth_user(q->s, q->x, &q->user, r);
	if (rc < 0)
		return rc;
	if (!q->user.name)
		return td_refuse(r, 401, NULL, "Unauthorized");

	q->snap = td_registry_snap(q->s->reg);
	char *p = td_arena_strdup(q->arena, q->path);
	size_t len = strlen(p);
	while (len > 1 && p[len - 1] == '/')
		p[--len] = 0;

	char *rest = NULL;
	q->group = q->version = q->ns = q->plural = q->name = q->sub = "";
	if (td_starts(p, "/api/")) {
		q->version = p + 5;
		rest = strchr(p + 5, '/');
	} else if (td_starts(p, "/apis/")) {
		q->group = p + 6;
		char *v = strchr(p + 6, '/');
		if (v) {
			*v++ = 0;
			q->version = v;
			rest = strchr(v, '/');
		}
	}

	if (rest) {
		*rest++ = 0;
		if (td_starts(rest, "watch/")) // the old form of ?watch=1
			return no_resource(r);
		split(q, rest);
		rc = verb_of(q, r);
		return rc < 0 ? rc : resource(q, r);
	}

	char *verb = td_arena_strdup(q->arena, td_http_method(q->x));
	for (char *c = verb; *c; c++)
		*c = (char)tolower((unsigned char)*c);

	// As in a real API server: the verb of a path that is no resource is the method.
	q->verb = verb;
	if ((rc = td_auth_may(q, r)) < 0 || (rc = check_timeout(q, r)) < 0)
		return rc;
	if (!strcmp(q->path, "/metrics")) {
		td_srv_metrics(q);
		return 0;
	}
	if (td_srv_health(q))
		return 0;
	rc = td_discovery(q, r);
	if (rc < 0 && !r->http)
		rc = td_openapi(q, r);
	if (rc < 0 && !r->http && *q->group && elsewhere(q->group, ""))
		return refuse_elsewhere(q, r);
	if (rc < 0 && !r->http) {
		td_http_send(q->x, 404, "text/plain; charset=utf-8", "404 page not found\n", 19);
		return 0;
	}

	return rc;
}

void td_srv_refused(struct td_http_x *x, int status, const char *why, void *ctx)
{
	struct td_srv *s = ctx;
	td_auto_refusal struct td_refusal r = {0};
	if (status == 413)
		td_refuse(&r, 413, NULL, "Request entity too large: limit is %d", TD_BODY_MAX);
	else
		td_refuse(&r, status, NULL, "%s", why);
	__atomic_add_fetch(&s->count.refused, 1, __ATOMIC_RELAXED);
	td_reply_refusal(x, &r);
}

void td_srv_handle(struct td_http_x *x, void *ctx)
{
	struct td_srv *s = ctx;
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	td_auto_refusal struct td_refusal r = {0};
	struct td_req q = {.s = s,
			   .x = x,
			   .arena = arena,
			   .path = td_http_path(x),
			   .now = td_real_ms(s->clock),
			   .manager = "unknown"};

	q.group = q.version = q.plural = q.ns = q.name = q.sub = "";
	q.verb = "get";
	if (route(&q, &r) < 0) {
		td_debug("%s %s: %d %s", td_http_method(x), td_http_target(x), r.http, r.message ? r.message : "");
		__atomic_add_fetch(&s->count.refused, 1, __ATOMIC_RELAXED);
		td_reply_refusal(x, &r);
	}

	__atomic_add_fetch(&s->count.requests, 1, __ATOMIC_RELAXED);
	td_user_done(&q.user);
	td_snap_unref(q.snap);
}
