// One version of one stored object: immutable, reference-counted, kept as JSON bytes. It is parsed
// on demand: the parsed form needs three times the memory, and most versions are only ever sent.
#pragma once

#include "json/json.h"

#include <stdbool.h>
#include <stdint.h>

struct td_item {
	int refs;
	uint64_t rv;  // revision of this version
	uint64_t crv; // revision of the object's creation
	// "" when absent; api: the object's apiVersion. They and bytes are part of the item's own
	// block.
	const char *ns, *name, *uid, *api;
	const char *bytes; // compact JSON, NUL-terminated
	size_t len;
	struct td_json *doc; // atomic; use td_item_root or td_item_doc
};

// Writes metadata.resourceVersion = rv into d's root (rv 0, for an object that is not stored: none)
// and makes an item of it. d stays the caller's.
struct td_item *td_item_new(yyjson_mut_doc *d, uint64_t rv, uint64_t crv);
// Makes an item from stored bytes. TD_INVALID: they are not a JSON object.
int td_item_parse(const char *bytes, size_t len, uint64_t rv, uint64_t crv, struct td_item **ret, struct td_error *err);
struct td_item *td_item_ref(struct td_item *i);
struct td_item *td_item_unref(struct td_item *i); // NULL ok; returns NULL
TD_DEFINE_AUTO(struct td_item *, td_item_unref)

// The object, parsed on first use and kept as long as the item. For code that reads one object
// several times, on an item of its own: the store returns copies for that.
yyjson_val *td_item_root(const struct td_item *i);
// The object for one look: the kept form, else one that is parsed for the caller alone. For code
// that reads many items (filters, tables). Returns a new reference.
struct td_json *td_item_doc(const struct td_item *i);
// A copy of the item, with a parsed form of its own. NULL gives NULL.
struct td_item *td_item_copy(const struct td_item *i);
// Bytes of memory that the item holds, without the parsed form.
size_t td_item_cost(const struct td_item *i);

// A growing list of owned references.
struct td_items {
	struct td_item **v;
	size_t n, cap;
};
void td_items_add(struct td_items *l, struct td_item *i); // takes the reference
void td_items_done(struct td_items *l);
#define td_auto_items __attribute__((cleanup(td_items_done)))

// Compares keys: by namespace, then by name.
int td_item_cmp(const char *ns_a, const char *name_a, const char *ns_b, const char *name_b);
