// The inside of a gate, for files of this room only.
#pragma once

#include "gate/gate.h"

#include <pthread.h>

struct td_gate_node {
	// Orders durable writes. It is held during the write, never while waiting for anything
	// else.
	pthread_mutex_t writer;
	pthread_mutex_t mu; // guards table
	// Orders who takes a share and who starts something with one (shares.h): the one sees the other's process, or
	// the other sees that its share does not count. It is held while looking for processes. Comes before writer.
	pthread_mutex_t shares;
	struct td_gate_table table;
	char *name, *sockets; // of struct td_gate_site
	char *path;           // of the table
};
struct td_gate {
	struct td_gate_opts o;
	struct td_gate_node *node;
	pthread_mutex_t mu; // guards kicks
	pthread_cond_t changed;
	uint64_t kicks;
};
