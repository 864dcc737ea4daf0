// The Secret CLUSTER-gateway: keys and passwords of the people of one SlurmCluster. Written by `tandem
// user`, by `tandem up` (the first password) and by the gateway; read by the gateway. The operator makes it where
// people log in by an issuer (spec.identity.oidc), so that the first of them needs neither key nor password.
//
//   cookie          32 random bytes, which sign the page's cookies
//   schedule.ID     see gateway/schedule.h
//   password.USER   see http/password.h
//   key.ID          JSON {user, hash, name, created, expires, project}: hash is the SHA-256 of the whole
//                   key, which nobody gets back from there; times are epoch seconds, expires 0: never;
//                   project: the account outside of which the key does nothing, absent in most
// A key is "tdk_ID_SECRET": 8 letters and 43 characters.
#pragma once

#include "base/names.h"
#include "kube/kube.h"

#define TD_PEOPLE_SECRET "%s-gateway"
#define TD_PEOPLE_ID 8

// Whether the text looks like a key, and its id.
bool td_people_key_id(const char *key, char ret_id[TD_PEOPLE_ID + 1]);
struct td_people_key {
	const char *user, *name;
	const char *project; // NULL: it does all that its user may
	int64_t life_s;      // 0: it does not end
};
// A merge patch that adds a new key. *ret_key is the key itself, which is kept nowhere else: the caller
// shows it once, wipes and frees it.
yyjson_mut_doc *td_people_new_key(const struct td_people_key *k, char **ret_key, char ret_id[TD_PEOPLE_ID + 1]);
// A merge patch that sets a password.
yyjson_mut_doc *td_people_new_password(const char *user, const char *password);
// A merge patch that removes a key.
yyjson_mut_doc *td_people_no_key(const char *id);
// A password that is easy to type: 4 groups of 4 letters. The caller wipes and frees it.
char *td_people_password_made(void);
// Appends id, user, name, created, expires and project of the keys in a Secret, sorted by id. user NULL: all.
void td_people_keys(const yyjson_val *secret, const char *user, yyjson_mut_doc *d, yyjson_mut_val *list);
// The value under one key of a Secret, decoded, NUL-terminated; NULL: it has none. The caller frees it.
char *td_people_value(const yyjson_val *secret, const char *key, size_t *ret_len);

// Applies a merge patch; the Secret is made when it is not there yet. That needs the right to create
// Secrets in the namespace.
int td_people_write(struct td_kube *k, const char *ns, const char *cluster, const yyjson_mut_doc *patch,
		    struct td_cancel *c, struct td_error *err);
// The key that signs what browsers keep; NULL: there is none, or it is too short. The caller frees it.
char *td_people_signing(const yyjson_val *secret, size_t *ret_len);
// Whether there is one.
bool td_people_can_sign(const yyjson_val *secret);
// Makes the Secret when it is not there yet, or gives it what it lacks: a key to sign with, and the label that it is found
// by; else writes nothing. live: as it was seen; NULL: it is asked for. What others do to it at the same moment stays.
int td_people_ensure(struct td_kube *k, const char *ns, const char *cluster, const struct td_object *live,
		     struct td_cancel *c, struct td_error *err);
