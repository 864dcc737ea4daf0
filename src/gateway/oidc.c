// The issuer of the SlurmCluster, as it is named now, and whom its claims mean.
#include "gateway/oidc.h"

#include "gateway/keys.h"

#include <string.h>

const struct td_gateway_rate td_gateway_oidc_logins = {"logins by the issuer", 5, 50};

void td_gateway_oidc_done(struct td_gateway_oidc *o)
{
	td_object_unref(o->cluster);
	td_oidc_unref(o->issuer);
	free(o->scope);
	*o = (struct td_gateway_oidc){0};
}

// The one that is kept, unless the SlurmCluster or the Secret says something else by now.
static int issuer(struct td_gateway *g, const struct td_oidc_opts *want, struct td_oidc **ret, struct td_error *err)
{
	pthread_mutex_lock(&g->lock);
	struct td_oidc *have = g->oidc && td_oidc_same(g->oidc, want) ? td_oidc_ref(g->oidc) : NULL;
	pthread_mutex_unlock(&g->lock);
	if (have) {
		*ret = have;
		return 0;
	}
	struct td_oidc *fresh = NULL, *old;
	int r = td_oidc_new(want, &fresh, err);
	if (r)
		return r;
	pthread_mutex_lock(&g->lock);
	old = g->oidc;
	g->oidc = td_oidc_ref(fresh);
	pthread_mutex_unlock(&g->lock);
	td_oidc_unref(old);
	*ret = fresh;
	return 0;
}

int td_gateway_oidc(struct td_gateway *g, struct td_gateway_oidc *ret, struct td_error *err)
{
	td_auto_gateway_oidc struct td_gateway_oidc o = {.cluster =
								 td_informer_get(g->clusters, g->o.ns, g->o.cluster)};
	o.spec = o.cluster ? td_jget(o.cluster->root, "spec.identity.oidc") : NULL;
	if (!o.spec)
		return td_fail(err, TD_UNSUPPORTED,
			       "SlurmCluster %s/%s names no issuer (spec.identity.oidc): log in with a password",
			       g->o.ns, g->o.cluster);
	td_auto_free char *secret = NULL;
	int r = td_gateway_signs(g, err);
	if (!r)
		r = td_gateway_secret(g, "oidc-secret", &secret, err);
	if (r)
		return r;
	secret[strcspn(secret, "\r\n")] = '\0';
	const struct td_oidc_opts want = {.issuer = td_jstr(o.spec, "issuer"),
					  .client_id = td_jstr_or(o.spec, "clientID", ""),
					  .client_secret = *secret ? secret : NULL,
					  .ca = td_jstr(o.spec, "ca"),
					  .clock = &td_clock_system};
	r = issuer(g, &want, &o.issuer, err);
	explicit_bzero(secret, strlen(secret));
	if (r)
		return r;

	struct td_buf scope = {0};
	yyjson_val *list = td_jkey(o.spec, "scopes"), *s;
	size_t i, n;
	td_buf_puts(&scope, "openid profile");
	yyjson_arr_foreach (list, i, n, s)
		td_buf_printf(&scope, " %s", yyjson_get_str(s));
	o.scope = td_buf_take(&scope);
	*ret = o;
	o = (struct td_gateway_oidc){0};
	return 0;
}

int td_gateway_oidc_person(struct td_gateway *g, const struct td_gateway_oidc *o, const yyjson_val *claims,
			   struct td_gateway_user *ret, struct td_error *err)
{
	const char *name = td_oidc_name(claims, td_jstr_or(o->spec, "usernameClaim", "preferred_username"), err);
	if (!name)
		return TD_DENIED;
	int r = td_gateway_user(g, name, ret, err);
	return r == TD_NOT_FOUND ? td_fail(err, TD_DENIED,
					   "\"%.100s\" is nobody on this cluster, and logging in makes no account: an "
					   "administrator adds a user of that name to spec.users or to the "
					   "directory service (spec.identity.ldap)",
					   name)
				 : r;
}
