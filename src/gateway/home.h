// What is done in a person's home is done by a process that has become the person: `tandem
// home-io`, started for each call (home_io.c). It is shut in the home, so that neither a path nor a
// link leads out, and the kernel decides with the person's own rights.
#pragma once

#include "gateway/gateway.h"

#include <sys/types.h>

// The home below the directory of all homes: "/home/ann" is "ann". Points into home. NULL: it lies elsewhere.
const char *td_home_below(const struct td_gateway *g, const char *home);
struct td_home_call {
	const struct td_gateway_user *user;
	const char *verb;
	const char *args[4]; // NULL ends them
	const void *in;      // its standard input
	size_t in_len;
};
// Runs the verb to its end and appends what it wrote to *ret (NULL: nothing is kept, at most 64
// MiB). The error of home-io becomes ours, with its code.
int td_home_do(struct td_gateway *g, const struct td_home_call *call, struct td_cancel *c, struct td_buf *ret,
	       struct td_error *err);

// A verb whose output is read as it comes.
struct td_home_stream {
	pid_t pid;
	int out;  // read here
	int in;   // closing it tells the verb to come to its end
	int said; // what it says of a failure
};
int td_home_open(struct td_gateway *g, const struct td_home_call *call, struct td_home_stream *ret,
		 struct td_error *err);
// Ends and collects it. Its own failure, if it had one, is returned.
int td_home_close(struct td_home_stream *s, struct td_error *err);
