// Values seen through a schema, for server-side apply (structured merge and diff of the Kubernetes
// API).
#pragma once

#include "api/fieldset.h"
#include "api/schema_priv.h"

// Adds the fields that v sets: leaves, list items and empty containers; with `containers` also
// every map, as updates record them.
void td_typed_set(struct td_arena *a, const struct td_schema *s, const yyjson_val *v, bool containers,
		  struct td_fields *to);
// Adds the fields that differ: those of now to changed, those that only old has to removed. Both
// may be the same set.
void td_typed_diff(struct td_arena *a, const struct td_schema *s, const yyjson_val *old, const yyjson_val *now,
		   struct td_fields *changed, struct td_fields *removed);
// Lays `over` on `base`: maps are joined, list items matched by key, atomic values replaced.
yyjson_mut_val *td_typed_merge(yyjson_mut_doc *d, const struct td_schema *s, const yyjson_val *base,
			       const yyjson_val *over);
// Removes from v the fields that are in `gone` and in no branch of `keep`.
void td_typed_remove(const struct td_schema *s, yyjson_mut_val *v, const struct td_fields *gone,
		     struct td_fields *keep);
