// A member of a Federation: what it keeps for its hubs.
#pragma once

#include "gateway/gateway.h"

#include "json/json.h"

// ---- member_word.c: what hubs say of limits ----
struct td_member_words; // what is known to be kept; the gateway's
struct td_member_words *td_member_words_new(void);
struct td_member_words *td_member_words_free(struct td_member_words *w);
// Whether this SlurmCluster lets the federation's hub limit what it has.
bool td_member_word_let(const yyjson_val *sc, const char *federation);
// Why this SlurmCluster does not hold back by what the federation's hub says; NULL: it does.
const char *td_member_word_not(const yyjson_val *sc, const char *federation);
// Keeps a word: JSON of a hub. TD_INVALID: it is none. One request of Kubernetes in ten seconds where it is not new.
int td_member_word_take(struct td_gateway *g, const char *federation, const char *text, struct td_cancel *c,
			struct td_error *err);
