// The part of `tandem env` that is about Python environments.
#pragma once

#include <stdbool.h>

// verb: "list" or "delete", of which key is the object. Returns the exit code.
int td_cli_envs(const char *verb, const char *key, bool json);
