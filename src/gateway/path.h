// Which paths of people are taken: relative to the home, without tricks. Pure (fuzz/fuzz_gateway_path.c).
//
// The kernel refuses the rest: home-io is shut in the home and follows no link. This check gives
// words for what would fail there, and keeps out names that no shell or page could show.
#pragma once

#include "base/err.h"

// TD_INVALID says what is wrong: absolute, empty, a "." or ".." in it, a control character, no
// UTF-8, longer than 1024 bytes, a component longer than 255.
int td_gateway_path_check(const char *path, struct td_error *err);
// A name of a run or a step: letters, digits, '.', '_', '-', at most 40, and the first is a letter
// or a digit.
int td_gateway_name_check(const char *what, const char *name, struct td_error *err);
