// "Did you mean …?": the known word that a mistyped one is close to.
#pragma once

#include <stddef.h>

// The closest of the known words: one that begins with the typed one, or differs from it by a letter
// too much, too few, another or exchanged with its neighbour; of six letters or more by one in three.
// NULL: none is so close, or the word is itself one of them.
const char *td_nearest(const char *word, const char *const *known, size_t n);
