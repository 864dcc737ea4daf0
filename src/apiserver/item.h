// One version of one stored object: immutable, reference-counted, as JSON bytes. The parsed form is made when somebody
// asks for it: it takes three times the room, and most versions are only ever sent.
#pragma once

#include "json/json.h"

#include <stdbool.h>
#include <stdint.h>

struct td_item {
	int refs;
	uint64_t rv;                       // revision of this version
	uint64_t crv;                      // revision of the object's creation
	const char *ns, *name, *uid, *api; // "" when absent; api: its apiVersion. Of this block, as bytes
	const char *bytes;                 // compact JSON, NUL-terminated
	size_t len;
	struct td_json *doc; // atomic; td_item_root and td_item_doc know it
};

// Writes metadata.resourceVersion = rv (0: none, of what is stored nowhere) into d's root and makes an item of it. d
// stays the caller's.
struct td_item *td_item_new(yyjson_mut_doc *d, uint64_t rv, uint64_t crv);
// From stored bytes. TD_INVALID when they are not a JSON object.
int td_item_parse(const char *bytes, size_t len, uint64_t rv, uint64_t crv, struct td_item **ret, struct td_error *err);
struct td_item *td_item_ref(struct td_item *i);
struct td_item *td_item_unref(struct td_item *i); // NULL ok; returns NULL
TD_DEFINE_AUTO(struct td_item *, td_item_unref)

// The object, parsed on first use and kept as long as the item: for what reads one object several times, on an item of
// its own (the store gives copies for that).
yyjson_val *td_item_root(const struct td_item *i);
// The object for one look at it: what is kept, else parsed for the caller alone. For what goes over many (filters,
// tables). A new reference.
struct td_json *td_item_doc(const struct td_item *i);
// The same version as an item of one's own. NULL: NULL.
struct td_item *td_item_copy(const struct td_item *i);
// Bytes of memory held by it, the parsed form apart.
size_t td_item_cost(const struct td_item *i);

// A growing list of owned references.
struct td_items {
	struct td_item **v;
	size_t n, cap;
};
void td_items_add(struct td_items *l, struct td_item *i); // takes the reference
void td_items_done(struct td_items *l);
#define td_auto_items __attribute__((cleanup(td_items_done)))

// Order of keys: namespace, then name.
int td_item_cmp(const char *ns_a, const char *name_a, const char *ns_b, const char *name_b);
