// Sets of fields in the form of FieldsV1: a tree whose edges are "f:name", "k:{keys}" or "v:value".
// Nodes that belong to the set are marked as members. All nodes live in an arena of the caller.
#pragma once

#include "json/json.h"

struct td_fields {
	const char *pe; // the edge to this node; NULL at the root
	bool member;
	struct td_fields **v; // sorted by pe
	size_t n, cap;
};

struct td_fields *td_fields_new(struct td_arena *a);
struct td_fields *td_fields_child(struct td_fields *f, const char *pe); // NULL: none
// Returns the child and creates it when it is missing.
struct td_fields *td_fields_get(struct td_arena *a, struct td_fields *f, const char *pe);
// Leaves out what it cannot read.
struct td_fields *td_fields_parse(struct td_arena *a, const yyjson_val *v);
yyjson_mut_val *td_fields_emit(yyjson_mut_doc *d, const struct td_fields *f);
bool td_fields_empty(const struct td_fields *f);
bool td_fields_equal(const struct td_fields *a, const struct td_fields *b);
// Adds all members of `from` to `to`.
void td_fields_add(struct td_arena *a, struct td_fields *to, const struct td_fields *from);
// Removes all members of `what` from `from`.
void td_fields_sub(struct td_fields *from, const struct td_fields *what);
// Removes the whole branch `pe` of f.
void td_fields_drop(struct td_fields *f, const char *pe);
// Calls f with the readable path (.spec.containers[name="x"].image) of every node that is a member
// of both sets.
typedef void (*td_fields_path_f)(const char *path, void *arg);
void td_fields_common(const struct td_fields *a, const struct td_fields *b, td_fields_path_f f, void *arg);
