// What proves which machine it is: a key that never leaves it.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#define TD_MACHINE_KEY "/var/lib/tandem-machine/key.pem" // where it lies by default
// Reads the key, and makes it when it is not there. *ret_id: the machine's id, "key:…". The caller frees the id and
// wipes the key.
int td_machine_key(const char *path, struct td_buf *ret_pem, char **ret_id, struct td_error *err);
