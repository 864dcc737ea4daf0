// The informer's store: objects by key, indexes, and a copy-out interface under one lock.
#pragma once

#include "kube/kube.h"

struct td_kstore;
struct td_kstore *td_kstore_new(void);
struct td_kstore *td_kstore_free(struct td_kstore *s);
void td_kstore_add_index(struct td_kstore *s, const char *name,
			 void (*fn)(const struct td_object *o, struct td_strv *ret_values)); // while empty
// Puts `now` in (takes a reference); *ret_old: what was there, the caller's reference, or NULL.
void td_kstore_put(struct td_kstore *s, struct td_object *now, struct td_object **ret_old);
// Takes ns/name out; returns the caller's reference, or NULL.
struct td_object *td_kstore_take(struct td_kstore *s, const char *ns, const char *name);
struct td_object *td_kstore_get(struct td_kstore *s, const char *ns, const char *name); // a reference, or NULL
size_t td_kstore_count(struct td_kstore *s);
void td_kstore_list(struct td_kstore *s, const char *ns, struct td_objects *ret);
void td_kstore_by_index(struct td_kstore *s, const char *index, const char *value, struct td_objects *ret);
