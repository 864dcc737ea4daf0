// Runs all controllers and the embedded API server in this process, over plain HTTP on loopback.
// Nobody runs pods: a test says what has become of them.
#pragma once

#include "apiserver/test/harness.h"

// Fixtures of a group of tests. *state is the server's struct harness.
int plane_setup(void **state);
int plane_teardown(void **state);
