// The store of an informer: objects by key and indexes, under one lock. Readers get copies of lists
// with references of their own.
#pragma once

#include "kube/kube.h"

struct td_kstore;
struct td_kstore *td_kstore_new(void);
struct td_kstore *td_kstore_free(struct td_kstore *s);
// Must be called while the store is empty.
void td_kstore_add_index(struct td_kstore *s, const char *name,
			 void (*fn)(const struct td_object *o, struct td_strv *ret_values));
// Puts `now` in and takes a reference to it. *ret_old is what was there before, as the caller's
// reference, or NULL.
void td_kstore_put(struct td_kstore *s, struct td_object *now, struct td_object **ret_old);
// Takes an object out and returns it as the caller's reference, or NULL.
struct td_object *td_kstore_take(struct td_kstore *s, const char *ns, const char *name);
// Returns a reference, or NULL.
struct td_object *td_kstore_get(struct td_kstore *s, const char *ns, const char *name);
size_t td_kstore_count(struct td_kstore *s);
void td_kstore_list(struct td_kstore *s, const char *ns, struct td_objects *ret);
void td_kstore_by_index(struct td_kstore *s, const char *index, const char *value, struct td_objects *ret);
