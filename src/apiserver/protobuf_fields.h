// The fields of the Kubernetes API's protobuf messages: tables of field numbers and JSON names,
// generated from protobuf.txt at build time.
#pragma once

#include <stdint.h>

enum td_pb_kind {
	TD_PB_STRING,
	TD_PB_BYTES, // base64 in JSON
	TD_PB_BOOL,
	TD_PB_INT,
	TD_PB_MSG,
	TD_PB_TIME,      // {seconds 1, nanos 2}: RFC 3339, whole seconds
	TD_PB_MICROTIME, // the same with microseconds
	TD_PB_QUANTITY,  // {string 1}
	TD_PB_INTSTR,    // {type 1, intVal 2, strVal 3}
	TD_PB_RAW,       // {raw 1}: JSON text
};
enum { TD_PB_POINTER = 1, TD_PB_OMITEMPTY = 2, TD_PB_REPEATED = 4, TD_PB_MAP = 8, TD_PB_INLINE = 16 };

struct td_pb_field {
	const char *json;
	uint16_t number;
	uint8_t kind, flags;
	uint16_t message; // of TD_PB_MSG
};
struct td_pb_message {
	const char *name;
	uint16_t first, n; // in td_pb_fields
};
struct td_pb_root {
	const char *group, *kind; // kind NULL ends
	uint16_t message;
};
extern const struct td_pb_field td_pb_fields[];
extern const struct td_pb_message td_pb_messages[];
extern const struct td_pb_root td_pb_roots[];
