// Authentication, impersonation and authorization. Users come from client certificates (CN, O) and
// bearer tokens (token.c); rbac.h says what they may do. As in a real API server, members of
// system:masters may do everything, whatever the roles say.
#include "apiserver/srv.h"

#include "api/selector.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { AGAIN_S = 2 }; // until whoever has an issuer's token shall ask again

#define AUTHENTICATED "system:authenticated"
#define ACCOUNTS "system:serviceaccounts"

void td_user_done(struct td_user *u)
{
	free(u->name);
	free(u->uid);
	td_strv_done(&u->groups);
	td_strv_done(&u->extra);
	*u = (struct td_user){0};
}

bool td_user_in(const struct td_user *u, const char *group)
{
	return td_strv_has(&u->groups, group);
}

bool td_auth_is_role(const struct td_user *u)
{
	return td_user_in(u, "tandem:roles");
}

bool td_user_account(const char *user, char **ret_ns, char **ret_name)
{
	static const char prefix[] = "system:serviceaccount:";
	const char *ns = td_starts(user, prefix) ? user + sizeof(prefix) - 1 : NULL,
		   *colon = ns ? strchr(ns, ':') : NULL;
	if (!colon || strchr(colon + 1, ':'))
		return false;
	td_auto_free char *space = td_strndup(ns, (size_t)(colon - ns));
	if (!td_is_dns_label(space) || !td_is_dns_subdomain(colon + 1))
		return false;
	if (ret_name)
		*ret_name = td_strdup(colon + 1);
	if (ret_ns)
		*ret_ns = td_steal(space);
	return true;
}

void td_user_account_groups(struct td_user *u, const char *ns)
{
	td_strv_add(&u->groups, ACCOUNTS);
	td_strv_addf(&u->groups, ACCOUNTS ":%s", ns);
}

static bool none_of(const struct td_strv *l, const char *a, const char *b)
{
	return !td_strv_has(l, a) && !td_strv_has(l, b);
}

// ---- authorization ----
static bool asks(const struct td_srv *s, const struct td_user *u, const struct td_rbac_ask *a, char **ret_why)
{
	if (ret_why)
		*ret_why = NULL;
	if (td_user_in(u, "system:masters"))
		return true;
	td_auto(td_rbac_unref) struct td_rbac *r = td_rbac_cache_get(s->rbac);
	return td_rbac_allows(r, a, ret_why);
}

bool td_auth_ask(const struct td_srv *s, const struct td_user *u, struct td_rbac_ask *a, char **ret_why)
{
	a->user = u->name ? u->name : "";
	a->groups = &u->groups;
	return asks(s, u, a, ret_why);
}

int td_auth_forbid(const struct td_rbac_ask *a, const char *why, struct td_refusal *r)
{
	td_auto_free char *tail = why && *why ? td_asprintf(": %s", why) : td_strdup("");
	if (a->path)
		return td_refuse_generic(r, 403, NULL, "forbidden: User \"%s\" cannot %s path \"%s\"%s", a->user,
					 a->verb, a->path, tail);
	td_auto_free char *scope =
		*a->ns ? td_asprintf("in the namespace \"%s\"", a->ns) : td_strdup("at the cluster scope");
	td_auto_free char *name = *a->name ? td_asprintf(" \"%s\"", a->name) : td_strdup("");
	td_refuse(r, 403, NULL,
		  "%s%s%s%s is forbidden: User \"%s\" cannot %s resource \"%s%s%s\" in API group \"%s\" %s%s",
		  a->resource, *a->group ? "." : "", a->group, name, a->user, a->verb, a->resource, *a->sub ? "/" : "",
		  a->sub, a->group, scope, tail);
	return td_refuse_about(r, a->group, a->resource, *a->name ? a->name : NULL);
}

// The name of the one object that a list or watch is about. As in a real API server, a field
// selector for the name counts as a name in the path.
static const char *selected_name(const struct td_req *q)
{
	static const char *const verbs[] = {"list", "watch"};
	const char *text = td_http_query(q->x, "fieldSelector"), *name = NULL;
	bool fits = false;
	for (size_t i = 0; i < TD_LEN(verbs); i++)
		fits |= !strcmp(q->verb, verbs[i]);
	td_auto(td_field_selector_free) struct td_field_selector *f = NULL;
	if (fits && text && td_field_selector_parse(text, &f, NULL) == 0)
		name = td_field_selector_exact(f, "metadata.name");
	return name ? td_arena_strdup(q->arena, name) : "";
}

int td_auth_may_verb(const struct td_req *q, const char *verb, struct td_refusal *r)
{
	if (!q->user.name)
		return td_refuse(r, 401, NULL, "Unauthorized");
	struct td_rbac_ask a = {
		.verb = verb,
		.group = q->group,
		.resource = q->plural,
		.sub = q->sub,
		.name = *q->name ? q->name : selected_name(q),
		.ns = q->ns,
		.path = *q->plural ? NULL : q->path,
	};

	// A namespace counts as inside itself, so a RoleBinding in it may allow reading it.
	if (!*q->group && !strcmp(q->plural, "namespaces") && *q->name)
		a.ns = q->name;
	td_auto_free char *why = NULL;
	if (td_auth_ask(q->s, &q->user, &a, &why))
		return 0;

	// Either bootstrap_rbac.c or deploy/ lacks a right, or somebody else has the role's key.
	if (td_auth_is_role(&q->user))
		td_warn("%s asked for what it may not: %s %s%s%s%s%s", q->user.name, verb, a.path ? a.path : a.resource,
			*a.sub ? "/" : "", a.sub, *a.ns ? " in namespace " : "", a.ns);

	return td_auth_forbid(&a, why, r);
}

int td_auth_may(const struct td_req *q, struct td_refusal *r)
{
	return td_auth_may_verb(q, q->verb, r);
}

// ---- authentication ----
// Whether `who` may act as this user; refuses if not. resource: users, groups, serviceaccounts.
static int may_be(struct td_srv *s, const struct td_user *who, const char *resource, const char *ns, const char *name,
		  struct td_refusal *r)
{
	struct td_rbac_ask a = {
		.verb = "impersonate", .group = "", .resource = resource, .sub = "", .name = name, .ns = ns};
	td_auto_free char *why = NULL;
	return td_auth_ask(s, who, &a, &why) ? 0 : td_auth_forbid(&a, why, r);
}

static int impersonate(struct td_srv *s, struct td_http_x *x, struct td_user *u, struct td_refusal *r)
{
	__attribute__((cleanup(td_user_done))) struct td_user as = {0};
	const char *h, *v;
	int rc;
	bool groups = false;

	for (size_t i = 0; td_http_header_at(x, i, &h, &v); i++) {
		if (strncasecmp(h, "Impersonate-", 12) != 0)
			continue;
		if (!strcasecmp(h, "Impersonate-User")) {
			if (as.name)
				return td_refuse(r, 400, NULL,
						 "Impersonate-User came twice: one request acts as one user");
			as.name = *v ? td_strdup(v) : NULL;
		} else if (!strcasecmp(h, "Impersonate-Group")) {
			groups = true;
			if ((rc = may_be(s, u, "groups", "", v, r)) < 0)
				return rc;
			td_strv_add(&as.groups, v);
		} else {
			return td_refuse(r, 400, NULL,
					 "%.100s: the embedded API serves Impersonate-User and Impersonate-Group only: "
					 "leave this header out",
					 h);
		}
	}

	if (!as.name)
		return groups ? td_refuse(r, 400, NULL,
					  "Impersonate-Group came without Impersonate-User: say as which user to act")
			      : 0;
	td_auto_free char *ns = NULL, *name = NULL;
	bool account = td_user_account(as.name, &ns, &name);
	if ((rc = may_be(s, u, account ? "serviceaccounts" : "users", account ? ns : "", account ? name : as.name, r)) <
	    0)
		return rc;
	if (account && !groups)
		td_user_account_groups(&as, ns);
	bool anonymous = !strcmp(as.name, "system:anonymous");
	if (anonymous && !td_user_in(&as, "system:unauthenticated"))
		td_strv_add(&as.groups, "system:unauthenticated");
	else if (!anonymous && none_of(&as.groups, AUTHENTICATED, "system:unauthenticated"))
		td_strv_add(&as.groups, AUTHENTICATED);
	td_user_done(u);
	*u = as;
	as = (struct td_user){0};
	return 0;
}

int td_auth_user(struct td_srv *s, struct td_http_x *x, struct td_user *ret, struct td_refusal *r)
{
	const char *h = td_http_header(x, "Authorization");
	const char *cn = td_http_peer_cn(x);
	if (cn && *cn) {
		ret->name = td_strdup(cn);
		const struct td_strv *o = td_http_peer_orgs(x);
		for (size_t i = 0; o && i < o->n; i++)
			td_strv_add(&ret->groups, o->v[i]);
	} else if (h) {
		if (strncasecmp(h, "Bearer ", 7) != 0)
			return td_refuse(r, 401, NULL, "Unauthorized");
		td_auto_strv struct td_strv audiences = {0};
		td_strv_add(&audiences, TD_AUDIENCE);
		const struct td_srv_token t = {h + 7 + strspn(h + 7, " "), &audiences, td_http_cancel(x)};
		int rc = td_token_user(s, &t, ret, NULL, NULL);
		if (rc == TD_TRANSIENT) {
			rc = td_refuse(r, 503, NULL, "the issuer of the token cannot be asked now: try again");
			r->retry_after_s = AGAIN_S;
			return rc;
		}
		if (rc < 0)
			return td_refuse(r, 401, NULL, "Unauthorized");
	}

	if (!ret->name)
		return 0;
	if (!td_user_in(ret, AUTHENTICATED))
		td_strv_add(&ret->groups, AUTHENTICATED);
	return impersonate(s, x, ret, r);
}
