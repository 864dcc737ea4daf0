// Which nodes of a NodeSet have a line of their own in its status. One object holds at most 1.5 MB (etcd), and each
// change of a line writes all of it: of many nodes only those have one of which there is something to say; the rest is
// a number. Pure.
#pragma once

#include "pool/nodeset.h"

enum {
	TD_POOL_LINES_ALL = 256,  // up to so many nodes have a line each
	TD_POOL_LINES_MOST = 512, // of more nodes so many lines at most
};

enum td_pool_line {
	TD_LINE_PLAIN, // as it should be: no line is missed
	TD_LINE_SAYS,  // something is to be said to people
	TD_LINE_READ,  // a program acts on its line: never left out
};
struct td_pool_line_facts {  // of one node, beside what td_pool_nodeset_decide said
	bool fresh;          // Slurm's answer is
	const char *message; // td_pool_member_message; NULL: none
	bool failed;         // a service of the site has failed there
	bool old;            // its slurmd says that it has another configuration than the one in force
	bool devices;        // a NodeAction changes its devices, and reads the line
};
enum td_pool_line td_pool_line_of(const struct td_pool_member *m, const struct td_pool_line_facts *f);
// Fills ret_show[n], and returns how many are not shown. Those that are needed first, then by their order.
size_t td_pool_lines_choose(const enum td_pool_line *v, size_t n, bool *ret_show);
