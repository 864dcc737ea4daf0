// Sets of fields as FieldsV1 writes them: a tree whose edges are "f:name", "k:{keys}" or "v:value" and whose members
// are marked.
#pragma once

#include "json/json.h"

struct td_fields {      // lives in an arena
	const char *pe; // edge to here; NULL at the root
	bool member;
	struct td_fields **v; // sorted by pe
	size_t n, cap;
};

struct td_fields *td_fields_new(struct td_arena *a);
struct td_fields *td_fields_child(struct td_fields *f, const char *pe);                   // NULL: none
struct td_fields *td_fields_get(struct td_arena *a, struct td_fields *f, const char *pe); // makes it
struct td_fields *td_fields_parse(struct td_arena *a, const yyjson_val *v); // an unreadable part is left out
yyjson_mut_val *td_fields_emit(yyjson_mut_doc *d, const struct td_fields *f);
bool td_fields_empty(const struct td_fields *f);
bool td_fields_equal(const struct td_fields *a, const struct td_fields *b);
void td_fields_add(struct td_arena *a, struct td_fields *to, const struct td_fields *from); // union, into `to`
void td_fields_sub(struct td_fields *from, const struct td_fields *what); // members of what leave from
void td_fields_drop(struct td_fields *f, const char *pe);                 // the whole branch
// Calls f with the readable path of every member of both ( .spec.containers[name="x"].image ).
typedef void (*td_fields_path_f)(const char *path, void *arg);
void td_fields_common(const struct td_fields *a, const struct td_fields *b, td_fields_path_f f, void *arg);
