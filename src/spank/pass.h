// A message with a descriptor, over a Unix socket of packets.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// fd -1: the message alone. False: it is not sent.
bool td_ct_send(int sock, const void *p, size_t n, int fd);
// Bytes of the message, at most `max`; 0 or less: there is none. *ret_fd: its descriptor, closed on exec; -1: it has
// none.
ssize_t td_ct_recv(int sock, void *p, size_t max, int *ret_fd);
