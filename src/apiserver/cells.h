// The columns of built-in kinds in a Table, as the real API server prints them.
#pragma once

#include "json/json.h"

#include <stdint.h>

struct td_cellspec {
	const char *name, *type, *format, *description;
	int priority;
};
struct td_celltable {
	const char *group, *plural;
	const struct td_cellspec *columns;                                      // name NULL ends
	void (*row)(const yyjson_val *obj, int64_t now_ms, struct td_buf *out); // the cells as JSON values, comma-separated
};
const struct td_celltable *td_cells_find(const char *group, const char *plural); // NULL: none of ours

// Appends s as a JSON string (NULL: "").
void td_cell_str(struct td_buf *out, const char *s);
// "5m" since an RFC 3339 time; "<unknown>" when there is none.
void td_cell_age(struct td_buf *out, const char *since, int64_t now_ms);
