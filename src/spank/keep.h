// The service of a node, and how a step's task talks to it: a Unix socket of packets that only root can
// reach. The service works outside of every job's limits, and what it began goes on when the job is gone.
//   one packet with the arguments of `prepare`, each ended by a zero byte, and the image's file, if it is one: it is
//   opened in the task's place, because the service knows no job's own /tmp
//     -> say TEXT     any number of times
//     -> ready DIR    the container is there
//     -> error TEXT
#pragma once

#include "spank/container.h"

// Runs until it is killed. prepare: serves one request; it says its lines on the socket `fd`.
int td_ct_keep(void (*prepare)(int argc, char **argv, int fd, int file));
// Hands the arguments and the file (-1: none) to the service, and prints its lines. Returns the exit code.
int td_ct_ask(int argc, char **argv, int file);
