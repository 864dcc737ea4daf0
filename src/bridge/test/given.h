// What the tests of this room are given as text. Text that cannot be read fails the test.
#pragma once

#include "bridge/bridge.h"

struct td_json *given_json(const char *s);
struct td_settings *given_settings(const char *spec); // of a SlurmCluster with uid c1
