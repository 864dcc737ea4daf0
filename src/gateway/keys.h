// Who a person is: API keys, passwords, and the cookies of the page.
//
// All are in the Secret CLUSTER-gateway (kube/people.h). A change there counts within a second.
#pragma once

#include "gateway/gateway.h"
#include "kube/people.h"

struct td_gateway_keys *td_gateway_keys_new(void);
struct td_gateway_keys *td_gateway_keys_free(struct td_gateway_keys *k);

// The Secret was changed here: the next look reads it.
void td_gateway_keys_changed(struct td_gateway *g);

// What an administrator put into the Secret beside keys and passwords; "" is none. The caller wipes and
// frees it.
int td_gateway_secret(struct td_gateway *g, const char *entry, char **ret, struct td_error *err);
// Whether anything can be signed. TD_TRANSIENT: not yet; where people log in by an issuer the operator makes what lacks.
int td_gateway_signs(struct td_gateway *g, struct td_error *err);
// Signs claims for a while, for a browser to bring back; what: what they are, so that no other thing
// signed here is taken for them. TD_UNAUTHENTICATED: not what was signed, or too late.
int td_gateway_seal(struct td_gateway *g, const char *what, int life_s, yyjson_mut_doc *claims, char **ret,
		    struct td_error *err);
int td_gateway_unseal(struct td_gateway *g, const char *what, const char *sealed, struct td_json **ret,
		      struct td_error *err);

struct td_gateway_key {
	char *user, *id;
	char *project; // the account outside of which it does nothing (scope.h); NULL: it does all that its user may
};
void td_gateway_key_done(struct td_gateway_key *k);
#define td_auto_key __attribute__((cleanup(td_gateway_key_done)))
// Each returns the user's name, which the caller frees, or TD_UNAUTHENTICATED.
int td_gateway_by_key(struct td_gateway *g, const char *key, struct td_gateway_key *ret, struct td_error *err);
int td_gateway_by_password(struct td_gateway *g, const char *user, const char *password, struct td_error *err);
int td_gateway_by_cookie(struct td_gateway *g, const char *cookie, char **ret_user, struct td_error *err);
// A cookie for the page, good for life_s seconds, or until the password or its key changes.
int td_gateway_cookie(struct td_gateway *g, const char *user, int life_s, char **ret, struct td_error *err);

// Makes a key; *ret is shown once and kept nowhere.
int td_gateway_key_make(struct td_gateway *g, const struct td_people_key *k, char **ret, char ret_id[TD_PEOPLE_ID + 1],
			struct td_error *err);
// account.c: the same for a request, whose body says the key's "name" and perhaps "project"; adds its "id" and "key" to the answer d.
struct td_gateway_ask;
int td_gateway_key_answer(struct td_gateway_ask *q, const char *user, int64_t life_s, yyjson_mut_doc *d,
			  struct td_error *err);
// TD_NOT_FOUND: this user has no such key.
int td_gateway_key_revoke(struct td_gateway *g, const char *user, const char *id, struct td_error *err);
// Appends the user's keys to a list: id, name, created, expires.
int td_gateway_key_list(struct td_gateway *g, const char *user, yyjson_mut_doc *d, yyjson_mut_val *list,
			struct td_error *err);
