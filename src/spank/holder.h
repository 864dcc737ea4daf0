// Which process holds a container's namespaces. It is its user's, who may take every descriptor of it
// (pidfd_getfd) and end it: so neither a lock that it has nor its number alone says that it lives. Its number counts
// with the time at which it began, which no later process of that number has.
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

// Notes a child in dir/pid, as "PID START". One that is not found to live is an error.
int td_ct_holder_note(const char *dir, pid_t pid, struct td_error *err);
// Does it live? An error says neither: a container that may live is not made anew, nor its files removed.
int td_ct_holder_lives(const char *dir, bool *ret, struct td_error *err);
// Ends it, and waits for its end for at most 30 s; one that is gone is left alone, whoever has its number now.
int td_ct_holder_end(const char *dir, struct td_error *err);
