// The columns of built-in kinds in a Table, as the real API server prints them: every column says where its cell comes
// from.
#pragma once

#include "json/json.h"

#include <stdint.h>

struct td_cellspec;
// Appends one cell as a JSON value.
typedef void (*td_cell_f)(const struct td_cellspec *c, const yyjson_val *obj, int64_t now_ms, struct td_buf *out);
struct td_cellspec {
	const char *name, *type, *format, *description;
	int priority;
	td_cell_f cell;
	const char *path, *other; // what cell makes of them, it says
};
struct td_celltable {
	const char *group, *plural;
	const struct td_cellspec *columns; // name NULL ends
};
const struct td_celltable *td_cells_find(const char *group, const char *plural); // NULL: none of ours
extern const struct td_cellspec td_pod_cells[];                                  // cells_pod.c
extern const struct td_cellspec td_role_cells[], td_binding_cells[], td_endpoints_cells[],
	td_slice_cells[]; // cells_access.c

// Appends s as a JSON string (NULL: "").
void td_cell_str(struct td_buf *out, const char *s);
// "5m" since an RFC 3339 time; "<unknown>" when there is none.
void td_cell_age(struct td_buf *out, const char *since, int64_t now_ms);

// ---- cells that several kinds have ----
void td_cell_text(const struct td_cellspec *c, const yyjson_val *o, int64_t now,
		  struct td_buf *out); // the string at path, else `other`
void td_cell_since(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out); // since creation
#define TD_CELL_NAME                                                                                                   \
	{"Name", "string", "name", "Name must be unique within a namespace.", 0, td_cell_text, "metadata.name", NULL}
#define TD_CELL_AGE {"Age", "string", "", "When the object was created.", 0, td_cell_since, NULL, NULL}
