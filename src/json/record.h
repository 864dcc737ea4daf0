// Records: small JSON files of our own that must survive a crash whole.
#pragma once

#include "json/json.h"

#include <sys/types.h>

#define TD_RECORD_MAX (1u << 20)
int td_record_read(const char *path, struct td_json **ret,
		   struct td_error *err); // TD_NOT_FOUND: absent; TD_INVALID names the file
int td_record_write(const char *path, const yyjson_mut_val *root, mode_t mode,
		    struct td_error *err); // durable when it returns 0
