#include "gateway/keys.h"

#include "base/clock.h"
#include "http/password.h"
#include "http/pki.h"
#include "kube/people.h"

#include <string.h>

// An unknown key is looked for again sooner: it may have been made a moment ago. How soon bounds what
// a stranger can make us ask.
enum { LOOK_MS = 1000, SOON_MS = 50, KEYS_MOST = 50 };

#define PAGE "tandem-page" // what a cookie of the page is

struct td_gateway_keys {
	pthread_mutex_t lock; // guards both
	struct td_object *secret;
	int64_t at_ms;
};

struct td_gateway_keys *td_gateway_keys_new(void)
{
	struct td_gateway_keys *k = td_calloc(1, sizeof(*k));
	pthread_mutex_init(&k->lock, NULL);
	k->at_ms = INT64_MIN / 2;
	return k;
}

struct td_gateway_keys *td_gateway_keys_free(struct td_gateway_keys *k)
{
	if (k) {
		td_object_unref(k->secret);
		pthread_mutex_destroy(&k->lock);
		free(k);
	}
	return NULL;
}

// The Secret, at most age_ms old. When it cannot be read nobody is let in: a key may be revoked.
static int secret(struct td_gateway *g, int64_t age_ms, struct td_object **ret, struct td_error *err)
{
	struct td_gateway_keys *k = g->keys;
	pthread_mutex_lock(&k->lock);
	struct td_object *have = td_mono_ms(&td_clock_system) - k->at_ms < age_ms ? td_object_ref(k->secret) : NULL;
	pthread_mutex_unlock(&k->lock);
	if (have) {
		*ret = have;
		return 0;
	}

	td_auto_free char *name = td_asprintf(TD_PEOPLE_SECRET, g->o.cluster);
	struct td_object *o = NULL, *old;
	int64_t at = td_mono_ms(&td_clock_system);
	int r = td_kube_get(g->kube, &td_secrets, g->o.ns, name, g->cancel, &o, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, TD_UNAUTHENTICATED,
			       "nobody has a key or a password yet: an administrator makes one with `tandem user key "
			       "NAME`");
	if (r)
		return td_wrap(err, "Secret %s/%s", g->o.ns, name);
	pthread_mutex_lock(&k->lock);
	old = k->secret;
	k->secret = td_object_ref(o);
	k->at_ms = at;
	pthread_mutex_unlock(&k->lock);
	td_object_unref(old);
	*ret = o;
	return 0;
}

void td_gateway_keys_changed(struct td_gateway *g)
{
	pthread_mutex_lock(&g->keys->lock);
	g->keys->at_ms = INT64_MIN / 2;
	pthread_mutex_unlock(&g->keys->lock);
}

void td_gateway_key_done(struct td_gateway_key *k)
{
	free(k->user);
	free(k->id);
	free(k->project);
	*k = (struct td_gateway_key){0};
}

int td_gateway_by_key(struct td_gateway *g, const char *key, struct td_gateway_key *ret, struct td_error *err)
{
	static const char no[] =
		"this key is not valid: it was revoked, has ended, or is mistyped (`tandem login` makes a "
		"new one)";
	char id[TD_PEOPLE_ID + 1], hash[65];
	if (!td_people_key_id(key, id))
		return td_fail(err, TD_UNAUTHENTICATED, "%s", no);
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = secret(g, LOOK_MS, &o, err);
	if (r)
		return r;

	td_auto_free char *entry = td_asprintf("key.%s", id);
	size_t n = 0;
	td_auto_free char *text = td_people_value(o->root, entry, &n);
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!text) {
		td_object_unref(td_steal(o));
		// Whoever looked in this very moment may have been too early.
		td_cancel_wait(g->cancel, SOON_MS);
		if ((r = secret(g, SOON_MS, &o, err)))
			return r;
		text = td_people_value(o->root, entry, &n);
	}
	if (!text || td_json_parse(text, n, &j, NULL))
		return td_fail(err, TD_UNAUTHENTICATED, "%s", no);
	td_sha256_hex(key, strlen(key), hash);
	long long ends = td_jint(td_json_root(j), "expires", 0);
	if (!td_password_same(hash, td_jstr_or(td_json_root(j), "hash", "")) ||
	    (ends && ends <= td_real_ms(&td_clock_system) / 1000))
		return td_fail(err, TD_UNAUTHENTICATED, "%s", no);
	*ret = (struct td_gateway_key){td_strdup(td_jstr_or(td_json_root(j), "user", "")), td_strdup(id),
				       td_strdup(td_jstr(td_json_root(j), "project"))};
	return 0;
}

int td_gateway_by_password(struct td_gateway *g, const char *user, const char *password, struct td_error *err)
{
	// A user without a password costs as much time as a wrong one, so that nobody learns who there is.
	static const char none[] = "pbkdf2-sha256$100000$AAAAAAAAAAAAAAAAAAAAAA==$"
				   "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
	td_auto_free char *entry = td_asprintf("password.%.40s", user), *last = NULL;
	for (int tries = 0; tries < 2; tries++) {
		td_auto(td_object_unref) struct td_object *o = NULL;
		int r = secret(g, tries ? SOON_MS : LOOK_MS, &o, err);
		if (r)
			return r;
		td_auto_free char *kept = td_people_value(o->root, entry, NULL);
		if (tries && td_streq(kept, last))
			break; // it was not set anew a moment ago
		if (td_password_fits(password, kept ? kept : none) && kept)
			return 0;
		free(last);
		last = td_steal(kept);
	}
	return td_fail(err, TD_UNAUTHENTICATED, "user or password is wrong");
}

// What a cookie is bound to besides its user: when the password changes, cookies end.
static void binding(const struct td_object *o, const char *user, char ret[65])
{
	td_auto_free char *entry = td_asprintf("password.%.40s", user);
	const char *kept = td_jkey_str(td_jget(o->root, "data"), entry);
	td_sha256_hex(kept ? kept : "", kept ? strlen(kept) : 0, ret);
}

// The key that signs.
static int signing(const struct td_object *o, char **ret, size_t *ret_n, struct td_error *err)
{
	*ret = td_people_signing(o->root, ret_n);
	return *ret ? 0 : td_fail(err, TD_INTERNAL, "Secret %s has no key \"cookie\" of 32 bytes", o->name);
}

int td_gateway_signs(struct td_gateway *g, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = secret(g, LOOK_MS, &o, err);
	if (r && r != TD_UNAUTHENTICATED)
		return r;
	if (!r && td_people_can_sign(o->root))
		return 0;
	if (!r)
		td_gateway_keys_changed(g); // it will be, in a moment
	return td_fail(err, TD_TRANSIENT,
		       "Secret %s/" TD_PEOPLE_SECRET
		       " has no key \"cookie\" yet to sign logins with: the operator makes "
		       "it; try again in a moment",
		       g->o.ns, g->o.cluster);
}

int td_gateway_seal(struct td_gateway *g, const char *what, int life_s, yyjson_mut_doc *claims, char **ret,
		    struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	td_auto_free char *key = NULL;
	size_t n = 0;
	int r = secret(g, LOOK_MS, &o, err);
	if (!r)
		r = signing(o, &key, &n, err);
	if (r)
		return r;
	yyjson_mut_val *root = yyjson_mut_doc_get_root(claims);
	td_jm_str(claims, root, "aud", what);
	td_jm_int(claims, root, "exp", td_real_ms(&td_clock_system) / 1000 + life_s);
	td_auto_free char *text = td_json_mut_text(root, NULL);
	*ret = td_jwt_sign(key, n, text);
	return 0;
}

static int unseal(const struct td_object *o, const char *what, const char *sealed, struct td_json **ret,
		  struct td_error *err)
{
	size_t n = 0;
	td_auto_free char *key = NULL, *claims = NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = signing(o, &key, &n, err);
	if (r)
		return r;
	if (td_jwt_verify(key, n, sealed, &claims, NULL) || td_json_parse(claims, strlen(claims), &j, NULL) ||
	    !td_streq(td_jstr(td_json_root(j), "aud"), what) ||
	    td_jint(td_json_root(j), "exp", 0) <= td_real_ms(&td_clock_system) / 1000)
		return td_fail(err, TD_UNAUTHENTICATED, "log in again");
	*ret = td_steal(j);
	return 0;
}

int td_gateway_unseal(struct td_gateway *g, const char *what, const char *sealed, struct td_json **ret,
		      struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = secret(g, LOOK_MS, &o, err);
	return r ? r : unseal(o, what, sealed, ret, err);
}

int td_gateway_secret(struct td_gateway *g, const char *entry, char **ret, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = secret(g, LOOK_MS, &o, err);
	if (r)
		return r;
	char *value = td_people_value(o->root, entry, NULL);
	*ret = value ? value : td_strdup("");
	return 0;
}

int td_gateway_cookie(struct td_gateway *g, const char *user, int life_s, char **ret, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = secret(g, LOOK_MS, &o, err);
	if (r)
		return r;
	char bound[65];
	binding(o, user, bound);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "sub", user);
	td_jm_str(d, root, "bound", bound);
	return td_gateway_seal(g, PAGE, life_s, d, ret, err);
}

int td_gateway_by_cookie(struct td_gateway *g, const char *cookie, char **ret_user, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = secret(g, LOOK_MS, &o, err);
	if (!r)
		r = unseal(o, PAGE, cookie, &j, err);
	if (r)
		return r;
	const char *user = td_jstr(td_json_root(j), "sub");
	char bound[65];
	if (!user)
		return td_fail(err, TD_UNAUTHENTICATED, "log in again");
	binding(o, user, bound);
	if (!td_password_same(bound, td_jstr_or(td_json_root(j), "bound", "")))
		return td_fail(err, TD_UNAUTHENTICATED, "the password has changed: log in again");
	*ret_user = td_strdup(user);
	return 0;
}

// ---- changes ----

int td_gateway_key_make(struct td_gateway *g, const struct td_people_key *k, char **ret, char ret_id[TD_PEOPLE_ID + 1],
			struct td_error *err)
{
	td_auto_free char *secret_name = td_asprintf(TD_PEOPLE_SECRET, g->o.cluster), *key = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *have = td_jm_new(), *patch = NULL;
	yyjson_mut_val *list = td_jm_arr(have, yyjson_mut_doc_get_root(have), "keys");
	int r = td_gateway_key_list(g, k->user, have, list, err);
	if (r)
		return r;
	if (yyjson_mut_arr_size(list) >= KEYS_MOST)
		return td_fail(err, TD_THROTTLED, "%s has %d keys already: revoke some first", k->user, KEYS_MOST);
	patch = td_people_new_key(k, &key, ret_id);
	r = td_kube_patch(g->kube, TD_AT(&td_secrets, g->o.ns, secret_name), TD_PATCH_MERGE,
			  yyjson_mut_doc_get_root(patch), g->cancel, NULL, err);
	if (r)
		return td_wrap(err, "Secret %s/%s", g->o.ns, secret_name);
	pthread_mutex_lock(&g->keys->lock);
	g->keys->at_ms = INT64_MIN / 2; // the next look sees it
	pthread_mutex_unlock(&g->keys->lock);
	*ret = td_steal(key);
	return 0;
}

int td_gateway_key_revoke(struct td_gateway *g, const char *user, const char *id, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = secret(g, 0, &o, err);
	if (r)
		return r;
	td_auto_free char *entry = td_asprintf("key.%.20s", id), *name = td_asprintf(TD_PEOPLE_SECRET, g->o.cluster);
	size_t n = 0;
	td_auto_free char *text = td_people_value(o->root, entry, &n);
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!text || td_json_parse(text, n, &j, NULL) || !td_streq(td_jstr(td_json_root(j), "user"), user))
		return td_fail(err, TD_NOT_FOUND, "%s has no key \"%.20s\": `tandem key list` shows them", user, id);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_people_no_key(id);
	r = td_kube_patch(g->kube, TD_AT(&td_secrets, g->o.ns, name), TD_PATCH_MERGE, yyjson_mut_doc_get_root(d),
			  g->cancel, NULL, err);
	pthread_mutex_lock(&g->keys->lock);
	g->keys->at_ms = INT64_MIN / 2;
	pthread_mutex_unlock(&g->keys->lock);
	return r ? td_wrap(err, "Secret %s/%s", g->o.ns, name) : 0;
}

int td_gateway_key_list(struct td_gateway *g, const char *user, yyjson_mut_doc *d, yyjson_mut_val *list,
			struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = secret(g, 0, &o, err);
	if (r)
		return r;
	td_people_keys(o->root, user, d, list);
	return 0;
}
