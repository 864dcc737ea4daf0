// The test of several nodes before a job of several nodes (docs/health.md): the first node's Prolog (exchange.c)
// leads, and a small server in each node's slurmd pod (peer.c) does what it says.
//
// TCP, lines as in wire.h. Only who has Slurm's key is served, and told what to do (greet.h). Then, one after the other:
//   -> listen                              <- port <n>: of a socket for the ring's data
//   -> ring <rank> <n> <address> <port> <token> <KiB> <ms>
//        takes part in one all-reduce over n nodes: sends to that address, receives at the socket of `listen`
//   -> store <directory> <token>           writes a file there, syncs it, reads it back
//   -> fetch <directory> <token> <node>    reads the file of that node
//   -> drop <directory> <token>            removes its own
//   -> suspect <job, 0: none> <address or -> <directory, - or =KIB:MS: what a pair must do> <text>
//        tells its agent that this node is to blame, and tries again by itself, with the peer at that address or
//        in that directory, until all is well
//   -> signs <job>                         <- signs cpu= output= beat= gpu=: of the job's processes here, as `watch` says
//        it of its first node (wire.h); gpu: the greatest use of its devices here, -1: it has none, -2: not known
//   -> stacks <job> <signal>               <- file <name>: what its processes here do (look.c)
//   <- ok | bad <text>
#pragma once

#include "standin/standin.h"

enum { STANDIN_PEER_PORT = 7413, STANDIN_LIMIT_MS = 15000 };

// ring.c. One all-reduce over sockets of which one leads to the next node and one comes from the one before; they do
// not block. False: why says what went wrong.
struct standin_ring {
	int to, from;
	int rank, n;
	size_t kib;
	const char *fault; // of a virtual node: "down", "corrupt", "slow"; NULL: none
};
bool td_standin_ring(const struct standin_ring *r, int64_t deadline_ms, char *why, size_t n_why);
// A socket to a numeric address. -1: errno says why.
int td_standin_connect(const char *address, int port, int64_t deadline_ms);

// blame.c. Which node is to blame, from the exchanges of pairs. Pure.
#define STANDIN_NODES 64
struct standin_pairs {
	int n;                                               // nodes
	signed char v[STANDIN_NODES + 1][STANDIN_NODES + 1]; // 0: not tried, 1: well, -1: failed; both ways the same
};
// The node that failed with everybody, when it was tried with two or more, or failed where its partner did well with
// another. -1: it is a link: *ret_a and *ret_b are its ends, or (both -1) no pair failed, too few were tried, or each
// of three or more failed with all that it was tried with.
int td_standin_blame(const struct standin_pairs *p, int *ret_a, int *ret_b);

// lead.c. A connection to a node's server.
struct standin_peer {
	char node[256], address[64];
	int fd;     // -1: none
	bool ended; // the server has ended the connection: that says nothing of the node
	struct line_reader in;
};
// 0: it is there. 1: nobody serves there, or it does not know us. -1: the node cannot be reached.
int td_standin_peer_open(struct standin_peer *p, const struct standin_key *key, int64_t deadline_ms, char *why,
			 size_t n_why);
void td_standin_peer_close(struct standin_peer *p);
// Says a line and reads the answer: NULL: "ok"; else what is wrong, until the next call.
const char *td_standin_peer_tell(struct standin_peer *p, int64_t deadline_ms, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
// One ring over these nodes, which may take ms; this waits a little longer for the nodes' words. bad[i] is what went wrong at the i-th ("" : nothing). True: all is well.
enum { STANDIN_SLACK_MS = 1000 };
struct standin_round {
	struct standin_peer **v;
	int n;
	size_t kib;
	int64_t ms;
	char (*bad)[160];
};
bool td_standin_peers_ring(const struct standin_round *r);
