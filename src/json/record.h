// Records: small JSON files of Tandem's own that must survive a crash whole.
#pragma once

#include "json/json.h"

#include <sys/types.h>

#define TD_RECORD_MAX (1u << 20)
// TD_NOT_FOUND: there is no such file. TD_INVALID names the file.
int td_record_read(const char *path, struct td_json **ret, struct td_error *err);
// The file is durable when this returns 0.
int td_record_write(const char *path, const yyjson_mut_val *root, mode_t mode, struct td_error *err);
