// Who am I; login of the page; API keys.
#include "gateway/door.h"
#include "gateway/keys.h"
#include "gateway/scope.h"

#include "base/log.h"

#include <string.h>

enum { COOKIE_S = 12 * 3600, DAY_S = 86400 };

static void set_cookie(struct td_gateway_ask *q, const char *value, int life_s)
{
	td_auto_free char *h = td_asprintf("tandem=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d%s", value, life_s,
					   q->g->o.cert || q->g->o.behind_ingress ? "; Secure" : "");
	td_http_add_header(q->x, "Set-Cookie", h);
}

int td_gateway_come_in(struct td_gateway_ask *q, const char *user, struct td_error *err)
{
	td_auto_free char *value = NULL;
	int r = td_gateway_cookie(q->g, user, COOKIE_S, &value, err);
	if (!r)
		set_cookie(q, value, COOKIE_S);
	return r;
}

// Who it is, by the body's password or key. Slow enough that nobody guesses, for one name and for all.
static int prove(struct td_gateway_ask *q, char **ret_user, struct td_error *err)
{
	static const struct td_gateway_rate one = {"logins", 0.2, 10}, all = {"logins of all", 5, 50};
	const char *user = td_jstr(q->body, "user"), *password = td_jstr(q->body, "password"),
		   *key = td_jstr(q->body, "key");
	td_auto_free char *name = NULL;
	td_auto_key struct td_gateway_key its = {0};
	int r = td_gateway_limit(q->g->limits, &all, "", err);
	if (!r && !key && (!user || !password))
		r = td_fail(err, TD_INVALID, "give user and password, or a key");
	if (!r && !key)
		r = td_gateway_limit(q->g->limits, &one, user, err);
	if (!r)
		r = key ? td_gateway_by_key(q->g, key, &its, err) : td_gateway_by_password(q->g, user, password, err);
	// What this leads to, a cookie or another key, would do more.
	if (!r && its.project)
		r = td_fail(err, TD_DENIED,
			    "this key is of project %.63s alone, and nobody logs in with it: use a password, or "
			    "another key",
			    its.project);
	if (!r)
		name = td_strdup(key ? its.user : user);
	td_auto_user struct td_gateway_user u = {0};
	if (!r && (r = td_gateway_user(q->g, name, &u, err)) == TD_NOT_FOUND)
		r = td_fail(err, TD_UNAUTHENTICATED, "user or password is wrong");
	if (r) {
		td_info("login refused");
		return r;
	}
	td_info("login of %s", name);
	*ret_user = td_steal(name);
	return 0;
}

static int login(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_free char *name = NULL;
	int r = prove(q, &name, err);
	if (!r)
		r = td_gateway_come_in(q, name, err);
	return r ? r : td_gateway_done(q);
}

int td_gateway_key_answer(struct td_gateway_ask *q, const char *user, int64_t life_s, yyjson_mut_doc *d,
			  struct td_error *err)
{
	char id[TD_PEOPLE_ID + 1];
	td_auto_free char *key = NULL;
	const struct td_people_key k = {.user = user,
					.name = td_jstr(q->body, "name"),
					.project = td_jstr(q->body, "project"),
					.life_s = life_s};
	int r = k.project ? td_gateway_scope_is(q, k.project, err) : 0;
	if (!r)
		r = td_gateway_key_make(q->g, &k, &key, id, err);
	if (r)
		return r;
	td_jm_str(d, yyjson_mut_doc_get_root(d), "id", id);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "key", key);
	explicit_bzero(key, strlen(key));
	return 0;
}

static int send_key(struct td_gateway_ask *q, const char *user, int64_t life_s, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	int r = td_gateway_key_answer(q, user, life_s, d, err);
	if (!r)
		td_gateway_send(q, 201, d);
	return r;
}

static int login_key(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_free char *name = NULL;
	int r = prove(q, &name, err);
	return r ? r : send_key(q, name, 0, err);
}

static int logout(struct td_gateway_ask *q, struct td_error *err)
{
	set_cookie(q, "", 0);
	return td_gateway_done(q);
}

static int whoami(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "user", q->user.name);
	td_jm_int(d, o, "uid", q->user.uid);
	td_jm_int(d, o, "gid", q->user.gid);
	td_jm_str(d, o, "home", q->user.home);
	td_jm_str(d, o, "project", q->project);
	td_jm_strf(d, o, "cluster", "%s/%s", q->g->o.ns, q->g->o.cluster);
	td_jm_str(d, o, "version", TD_VERSION);
	td_gateway_send(q, 200, d);
	return 0;
}

static int list_keys(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	int r = td_gateway_key_list(q->g, q->user.name, d, td_jm_arr(d, yyjson_mut_doc_get_root(d), "keys"), err);
	if (!r)
		td_gateway_send(q, 200, d);
	return r;
}

static int make_key(struct td_gateway_ask *q, struct td_error *err)
{
	return send_key(q, q->user.name, td_jint(q->body, "days", 0) * DAY_S, err);
}

static int revoke_key(struct td_gateway_ask *q, struct td_error *err)
{
	int r = q->project && !td_streq(q->args[0], q->key)
			? td_fail(err, TD_DENIED, "this key is of project %.63s alone: it revokes itself, and no other",
				  q->project)
			: td_gateway_key_revoke(q->g, q->user.name, q->args[0], err);
	return r ? r : td_gateway_done(q);
}

const struct td_gateway_op td_gateway_account_ops[] = {
	{"login", login},        {"loginKey", login_key}, {"logout", logout},        {"whoami", whoami},
	{"listKeys", list_keys}, {"makeKey", make_key},   {"revokeKey", revoke_key}, {NULL, NULL},
};
