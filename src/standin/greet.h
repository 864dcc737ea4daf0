// How the two ends of a connection to a node's server know each other (docs/protocols.md 8):
//   server -> hello <asked>            16 random bytes in hexadecimal
//   client -> auth <answered> <proof>  16 of its own, and its proof
//   server -> ok <proof>               and only then the client says what is to be done
// A proof is the HMAC by Slurm's key, which only root reads, of: whose proof it is, both numbers, and the address and
// port of both ends as the prover's kernel has them. One that was relayed is of another connection, and of no use.
#pragma once

#include "standin/standin.h"

struct standin_greet {
	char asked[33], answered[33];
	char client[72], server[72]; // "10.0.0.1 7413"
};
// 1: the other end has Slurm's key, and is at the other end of this very connection. 0: it said nothing in time. -1: no.
int td_standin_greet(const struct standin_key *key, bool server, struct line_reader *in, int64_t deadline_ms);

// Its parts, for tests. They read lines of strangers.
bool td_standin_greet_ends(int fd, bool server, struct standin_greet *ret);
bool td_standin_greet_hello(struct standin_greet *g, const char *line);
bool td_standin_greet_auth(const struct standin_key *key, struct standin_greet *g, const char *line);
bool td_standin_greet_ok(const struct standin_key *key, const struct standin_greet *g, const char *line);
void td_standin_greet_proof(const struct standin_key *key, const struct standin_greet *g, bool server, char ret[41]);
