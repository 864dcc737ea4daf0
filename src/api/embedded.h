// What embed-kinds wrote: every kind file as JSON text, and the parts that they share by name ({"$ref": "podSpec"}).
#pragma once

struct td_embedded_kind {
	const char *group, *kind, *text;
};
extern const char *const td_embedded_parts;               // a map: name to schema
extern const struct td_embedded_kind td_embedded_kinds[]; // ends with kind NULL
