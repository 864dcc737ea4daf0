// The informer's store: objects by key, indexes, and a copy-out interface under one lock.
#pragma once

#include "kube/kube.h"

struct td_store;
struct td_store *td_store_new(void);
struct td_store *td_store_free(struct td_store *s);
void td_store_add_index(struct td_store *s, const char *name,
			void (*fn)(const struct td_object *o, struct td_strv *ret_values)); // while empty
// Puts `now` in (takes a reference); *ret_old: what was there, the caller's reference, or NULL.
void td_store_put(struct td_store *s, struct td_object *now, struct td_object **ret_old);
// Takes ns/name out; returns the caller's reference, or NULL.
struct td_object *td_store_take(struct td_store *s, const char *ns, const char *name);
struct td_object *td_store_get(struct td_store *s, const char *ns, const char *name); // a reference, or NULL
void td_store_list(struct td_store *s, const char *ns, struct td_objects *ret);
void td_store_by_index(struct td_store *s, const char *index, const char *value, struct td_objects *ret);
