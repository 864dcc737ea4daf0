// Parses the input that this room's tests write as text. Text that cannot be parsed fails the test.
#pragma once

#include "bridge/bridge.h"

// Caller unrefs both.
struct td_json *given_json(const char *s);
struct td_settings *given_settings(const char *spec); // of a SlurmCluster with the uid "c1"
