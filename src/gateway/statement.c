#include "gateway/statement.h"

#include "gateway/keys.h"
#include "http/pki.h"

#include <string.h>

#define FOR "tandem-federation"

char *td_statement_sign(const struct td_statement *s, const char *key, int64_t now)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "for", FOR);
	td_jm_str(d, o, "iss", s->federation);
	td_jm_str(d, o, "aud", s->member);
	td_jm_str(d, o, "sub", s->user);
	td_jm_bool(d, o, "hub", !s->user);
	td_jm_int(d, o, "iat", now);
	td_jm_int(d, o, "exp", now + TD_STATEMENT_LIFE_S);
	td_auto_free char *claims = td_json_mut_text(o, NULL), *token = td_jwt_sign(key, strlen(key), claims);
	return td_asprintf(TD_STATEMENT "%s:%s", s->federation, token);
}

int td_statement_read(const struct td_statement_rule *r, const char *token, char **ret_user, struct td_error *err)
{
	yyjson_val *hub = td_jfind(r->hubs, "name", r->federation), *users = td_jget(hub, "users");
	td_auto_free char *claims = NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!hub || strlen(r->key) < TD_STATEMENT_KEY_MIN ||
	    td_jwt_verify(r->key, strlen(r->key), token, &claims, NULL) ||
	    td_json_parse(claims, strlen(claims), &j, NULL))
		return td_fail(err, TD_UNAUTHENTICATED, "federation \"%.60s\" proves nothing here", r->federation);
	const yyjson_val *o = td_json_root(j);
	const char *user = td_jstr(o, "sub");
	long long made = td_jint(o, "iat", 0), ends = td_jint(o, "exp", 0);
	bool itself = td_jbool(o, "hub", false);
	if (!td_streq(td_jstr(o, "for"), FOR) || !td_streq(td_jstr(o, "iss"), r->federation) ||
	    !td_streq(td_jstr(o, "aud"), td_jstr(hub, "as")) || itself == (user != NULL))
		return td_fail(err, TD_UNAUTHENTICATED, "federation %s: this statement is not for this member",
			       r->federation);
	if (made > r->now + TD_STATEMENT_CLOCKS_S || ends + TD_STATEMENT_CLOCKS_S <= r->now ||
	    ends - made > TD_STATEMENT_LIFE_S)
		return td_fail(err, TD_UNAUTHENTICATED,
			       "federation %s: this statement is too old, or the clocks of hub and member differ",
			       r->federation);
	if (user && !td_jhas(users, "*") && !td_jhas(users, user))
		return td_fail(err, TD_DENIED,
			       "%.40s may not come here through federation %s: its administrator adds him to "
			       "spec.federation.hubs of the SlurmCluster",
			       user, r->federation);
	*ret_user = td_strdup(user);
	return 0;
}

int td_statement_make(struct td_gateway *g, const struct td_statement *s, char **ret, struct td_error *err)
{
	td_auto_free char *entry = td_asprintf("member.%s", s->member), *key = NULL;
	int r = td_gateway_secret(g, entry, &key, err);
	if (r)
		return r;
	if (strlen(key) < TD_STATEMENT_KEY_MIN)
		return td_fail(err, TD_DENIED, "member %s: the Secret %s/%s-gateway has no key %s of %d bytes or more",
			       s->member, g->o.ns, g->o.cluster, entry, TD_STATEMENT_KEY_MIN);
	*ret = td_statement_sign(s, key, td_real_ms(&td_clock_system) / 1000);
	explicit_bzero(key, strlen(key));
	return 0;
}

int td_statement_check(struct td_gateway *g, const char *bearer, char **ret_user, char **ret_hub, struct td_error *err)
{
	const char *name = bearer + strlen(TD_STATEMENT), *colon = strchr(name, ':');
	if (!colon || colon == name || colon - name > 253)
		return td_fail(err, TD_UNAUTHENTICATED, "this is no statement of a federation");
	td_auto_free char *federation = td_strndup(name, (size_t)(colon - name)),
			  *entry = td_asprintf("hub.%s", federation), *key = NULL;
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
	int r = td_gateway_secret(g, entry, &key, err);
	if (r)
		return r;
	const struct td_statement_rule rule = {.hubs = sc ? td_jget(sc->root, "spec.federation.hubs") : NULL,
					       .federation = federation,
					       .key = key,
					       .now = td_real_ms(&td_clock_system) / 1000};
	r = td_statement_read(&rule, colon + 1, ret_user, err);
	explicit_bzero(key, strlen(key));
	if (!r)
		*ret_hub = td_steal(federation);
	return r;
}

bool td_statement_sessions(struct td_gateway *g, const char *federation)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
	const yyjson_val *hub = sc ? td_jfind(td_jget(sc->root, "spec.federation.hubs"), "name", federation) : NULL;
	return td_jbool(hub, "sessions", false);
}
