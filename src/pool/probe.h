// Which idle nodes are tested now (docs/health.md, idle nodes). Pure, as pool.h. The operator asks every few seconds at
// most; what was tested is known from the nodes themselves, so nothing is remembered.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_pool_probe_node {
	bool able;       // it is idle, in service, well, and its agent answers
	bool running;    // its test has been asked for, and has not ended
	int64_t last_ms; // when it was tested last, or asked to be, or came: epoch
	int64_t took_ms; // by that test; 0: none
};
struct td_pool_probe_rule {
	int64_t every_ms;  // a node is tested again after so long
	int64_t each_ms;   // what a test is expected to take
	int64_t budget_ms; // of all nodes together, in an hour
	size_t percent;    // of all nodes that are tested at once; one at least
};
// The indexes of those whose test begins now, those that were not tested for longest first; ret has room for n. *again_ms:
// when to ask again.
size_t td_pool_probe_next(const struct td_pool_probe_rule *r, const struct td_pool_probe_node *v, size_t n,
			  int64_t now_ms, size_t *ret, int64_t *again_ms);

// The same of several idle nodes together: which ones exchange data with each other now.
struct td_pool_group_node {
	bool able;         // it is idle, in service, well, and no test of its own goes on or is due
	int64_t last_ms;   // when it was tested with others last, or came: epoch
	const char *place; // those of one place, such as a rack, are tested together; NULL: it is tested with nobody
};
struct td_pool_group_rule {
	int64_t every_ms; // a node is tested with others again after so long
	size_t most;      // nodes of a test; two at least are
};
// The indexes of the nodes of one test, who leads it first: of the place with the node that was not tested for longest those that
// were not tested for longest. 0: there is no test. ret has room for rule.most. *again_ms is lowered to when to ask again.
size_t td_pool_probe_group(const struct td_pool_group_rule *r, const struct td_pool_group_node *v, size_t n,
			   int64_t now_ms, size_t *ret, int64_t *again_ms);
