// What embed-kinds wrote: every kind file as JSON text with the shared parts inlined.
#pragma once

extern const char *const td_embedded_meta;    // schema of metadata
extern const char *const td_embedded_kinds[]; // ends with NULL
