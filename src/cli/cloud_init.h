// The user-data of a virtual machine that joins (docs/virtual-machines.md).
#pragma once

#include "json/json.h"

// token: what td_cli_token_issue() gave; key: the machine's, as PEM. Returns the file for cloud-init, which is secret: it has
// the key and the token. The caller wipes and frees it.
char *td_cli_cloud_init(const yyjson_val *token, const char *key);
