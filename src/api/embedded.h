// What the build tool embed-kinds writes: every kind file as JSON text, and the parts that kinds
// share by name ({"$ref": "podSpec"}).
#pragma once

struct td_embedded_kind {
	const char *group, *kind, *text;
};
extern const char *const td_embedded_parts;               // JSON object: name to schema
extern const struct td_embedded_kind td_embedded_kinds[]; // ends with kind NULL
