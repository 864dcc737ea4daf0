// Sets of indexes below 64, such as those of a node's devices, as text.
#pragma once

#include <stdint.h>

// Writes the bits of a set: "0-1,4"; "": none. Caller frees.
char *td_indexes_text(uint64_t mask);
