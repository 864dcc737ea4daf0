// The firewall between users (docs/network.md, "Native jobs among each other"): in a pod where users' processes run, a
// new connection to what a user listens on is let in only from the same user's process, or from a job of the same
// account. It is for one network namespace, and needs NET_ADMIN there.
//
// The kernel's rules (firewall_rules.c) are written once, and outlive this program. Packets of TCP connections that are
// there meet one comparison. The first packet of a new one (TCP), or of a flow that was not seen for a while (UDP), waits
// in a queue (NFQUEUE), and the program says what becomes of it (firewall.c). While nobody serves the queue the kernel
// drops what it would get: nothing is let in that was not judged.
//
// Whose is the socket that the packet is for? The kernel says (firewall_owner.c). Whose is the one that sent it? On the
// same node the kernel says that as well; on another one the firewall there is asked:
//   -> ask      whose is the socket at FROM that talks to TO?  The asker is TO.
//   <- answer   its user, and the accounts of the jobs that he has there
// Both are datagrams to FIREWALL_PORT. There they go into the queue and never to a socket, and nobody but root may send
// one from a guarded pod. An answer counts with the number of its question, which nobody else has seen, and from the
// address that was asked. Who has no such rules says by ICMP that nobody listens: a place without users, which is left
// to the network's own policies. Who says nothing is not let in.
//
// It is cut into
//   firewall.c        the program: its queue, its questions, its loop
//   firewall_rules.c  the rules
//   firewall_owner.c  whose a socket is
//   firewall_jobs.c   the accounts of a user's jobs on this node
//   firewall_wire.c   packets and messages as bytes, and what is let in. Pure
#pragma once

#include "standin/standin.h"

#include <netinet/in.h>

enum {
	FIREWALL_PORT = 6821,
	FIREWALL_QUEUE = 6821,
	FIREWALL_OK = 0x7d0a11, // marks of a packet that was judged; they do not leave its network namespace
	FIREWALL_NO = 0x7d0a12,
	FIREWALL_ACCOUNTS = 1024, // bytes, with the NUL
	FIREWALL_MESSAGE = 64 + FIREWALL_ACCOUNTS,
};

// ---- firewall_wire.c ----
struct firewall_end {
	struct in6_addr at; // IPv4 as ::ffff:a.b.c.d
	uint16_t port;      // of the host's byte order
};
// The first packet of a connection, or a flow's.
struct firewall_flow {
	int proto; // IPPROTO_TCP, IPPROTO_UDP
	struct firewall_end from, to;
};
// Reads an IPv4 or IPv6 packet with its TCP or UDP header. *ret_data, *ret_n: what a datagram holds, as far as it was
// copied. False: it is none of these, or is not all there.
bool td_firewall_packet(const uint8_t *p, size_t n, struct firewall_flow *ret, const uint8_t **ret_data, size_t *ret_n);
// Is it a later fragment (IPv6; those of IPv4 have been put together)? It is nothing without the first one, which has the
// ports and is judged.
bool td_firewall_fragment(const uint8_t *p, size_t n);

struct firewall_message {
	bool answer;
	bool known; // of an answer: there is such a socket
	uint64_t number;
	struct firewall_flow flow;        // an answer repeats it
	uint32_t uid;                     // ask: the owner of the socket at `to`; answer: of the one at `from`
	char accounts[FIREWALL_ACCOUNTS]; // of an answer: lines
};
size_t td_firewall_write(const struct firewall_message *m, uint8_t ret[FIREWALL_MESSAGE]); // its length
bool td_firewall_read(const uint8_t *p, size_t n, struct firewall_message *ret);

// Is the uid the system's, which the firewall leaves alone?
bool td_firewall_system(uint32_t uid);
// May `from` connect to what `owner` listens on? The accounts are lines; "": none.
bool td_firewall_may(uint32_t owner, const char *owner_accounts, uint32_t from, const char *from_accounts);
// Are these n bytes one of the lines?
bool td_firewall_line(const char *lines, const char *s, size_t n);
// A block of addresses, such as "10.0.0.0/8", "fd00::/8" or one address.
struct firewall_block {
	struct in6_addr at;
	int bits;
};
bool td_firewall_block(const char *s, struct firewall_block *ret);
bool td_firewall_within(const struct firewall_block *b, const struct in6_addr *at);

// ---- firewall_rules.c ----

// Writes the rules into this network namespace, unless they are there. 0, or an errno.
int td_firewall_rules(void);

// ---- firewall_owner.c ----
enum firewall_whose {
	FIREWALL_NOBODYS, // there is no such socket, or it is several users'
	FIREWALL_KNOWN,
	FIREWALL_UNKNOWN, // the kernel does not answer
};
int td_firewall_diag_open(void); // a descriptor for the two; -1: errno
// Whose is the socket that gets the flow's packets here?
enum firewall_whose td_firewall_listener(int diag, const struct firewall_flow *f, uint32_t *ret_uid);
// Whose is the socket here that sent the flow's first packet?
enum firewall_whose td_firewall_sender(int diag, const struct firewall_flow *f, uint32_t *ret_uid);

// ---- firewall_jobs.c ----
#define FIREWALL_JOBS "/run/tandem-network"
// Lets nobody but its owner, root, write into the directory, which is anybody's when the kubelet makes it, and where jobs
// see it. Before slurmd runs. False: it could not, and why is on stderr. No directory is well.
bool td_firewall_jobs_close(const char *jobs);
// Called by Slurm's Prolog: writes whose the job is and for which account, where there is a directory FIREWALL_JOBS.
// False: it could not, and why is on stderr.
bool td_firewall_job(const char *job, const char *uid, const char *account);
// The accounts of the user's jobs here, as lines: those whose job has a socket of slurmstepd in the spool directory.
void td_firewall_accounts(const char *jobs, const char *spool, uint32_t uid, char ret[FIREWALL_ACCOUNTS]);
// Removes what is said of jobs that have ended a while ago; nothing where the spool directory cannot be read.
void td_firewall_sweep(const char *jobs, const char *spool);

// ---- firewall.c ----
int td_standin_firewall(int argc, char **argv);
