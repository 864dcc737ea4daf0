// The columns of built-in kinds in a Table, as a real API server prints them. Each column names the
// function that makes its cell, and the fields that it reads.
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
	const char *path, *other; // the arguments of cell: JSON paths or texts
};
struct td_celltable {
	const char *group, *plural;
	const struct td_cellspec *columns; // name NULL ends
};
// NULL: no built-in table.
const struct td_celltable *td_cells_find(const char *group, const char *plural);
extern const struct td_cellspec td_pod_cells[]; // cells_pod.c
// cells_access.c
extern const struct td_cellspec td_role_cells[], td_binding_cells[], td_endpoints_cells[], td_slice_cells[];

// Appends s as a JSON string; NULL becomes "".
void td_cell_str(struct td_buf *out, const char *s);
// Appends the age since an RFC 3339 time, such as "5m"; "<unknown>" when there is no such time.
void td_cell_age(struct td_buf *out, const char *since, int64_t now_ms);

// ---- cells that several kinds have ----
// The string at `path`, else `other`.
void td_cell_text(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out);
// The age since the object's creation.
void td_cell_since(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out);
#define TD_CELL_NAME                                                                                                   \
	{"Name", "string", "name", "Name must be unique within a namespace.", 0, td_cell_text, "metadata.name", NULL}
#define TD_CELL_AGE {"Age", "string", "", "When the object was created.", 0, td_cell_since, NULL, NULL}
