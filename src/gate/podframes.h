// Which functions the threads of a process of Python are in, as `py-spy dump --json` says it, in a line. What functions and
// files are called is their user's word.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { TD_PODFRAMES_TEXT = 600, TD_PODFRAMES_JSON = 1 << 18 };

// "MainThread: join (threading.py:1119) < main (train.py:6); worker: work (train.py:4)", at most size bytes; threads of the
// same functions once, with how many. "": it is nothing of the kind.
void td_podframes_words(const char *json, size_t n, char *ret, size_t size);
// Is the process one of CPython? By what it has mapped. proc: as /proc.
bool td_podframes_python(const char *proc, pid_t pid);
// Its number in its own PID namespace; 0: not known.
pid_t td_podframes_inner(const char *proc, pid_t pid);
