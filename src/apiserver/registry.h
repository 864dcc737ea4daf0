// The served kinds: built-in ones and those of CRDs, as immutable snapshots. A request works on one
// snapshot from begin to end.
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
// Makes the registry with all stored CRDs.
struct td_registry *td_registry_new(struct td_store *s);
struct td_registry *td_registry_free(struct td_registry *r);
// Call after a CRD was written or removed: makes a new snapshot from the stored CRDs. Invalid CRDs
// are skipped.
void td_registry_reload(struct td_registry *r);
struct td_snap *td_registry_snap(struct td_registry *r); // new reference
struct td_snap *td_snap_ref(struct td_snap *s);
struct td_snap *td_snap_unref(struct td_snap *s);
TD_DEFINE_AUTO(struct td_snap *, td_snap_unref)

// NULL: this resource is not served.
const struct td_res *td_snap_find(const struct td_snap *s, const char *group, const char *version, const char *plural);
// version NULL: in any version.
bool td_snap_has_group(const struct td_snap *s, const char *group, const char *version);
