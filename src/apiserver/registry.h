// What is served: built-in kinds and those of CRDs, as immutable snapshots. A request works on one snapshot from begin
// to end.
#pragma once

#include "api/kinds.h"
#include "apiserver/store.h"

struct td_res { // one served version of one resource
	const struct td_kind *kind;
	struct td_table *table; // shared by the versions of a resource
	bool established;       // false: the CRD is being deleted, creates are refused
};
struct td_snap {
	int refs;
	struct td_res *v;
	size_t n;
	struct td_kind **owned;
	size_t n_owned;
	unsigned gen;
};
struct td_registry;
struct td_registry *td_registry_new(struct td_store *s); // with everything that is stored
struct td_registry *td_registry_free(struct td_registry *r);
// After a CRD was written or removed: serve what is stored now. Bad CRDs are skipped.
void td_registry_reload(struct td_registry *r);
struct td_snap *td_registry_snap(struct td_registry *r); // new reference
struct td_snap *td_snap_ref(struct td_snap *s);
struct td_snap *td_snap_unref(struct td_snap *s);
TD_DEFINE_AUTO(struct td_snap *, td_snap_unref)

const struct td_res *td_snap_find(const struct td_snap *s, const char *group, const char *version,
				  const char *plural);                                   // NULL: none
bool td_snap_has_group(const struct td_snap *s, const char *group, const char *version); // version NULL: any
