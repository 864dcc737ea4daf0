// A binary min-heap of timed entries, which are embedded in the caller's structs. Not thread-safe.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The entry: put one into your struct. `at` is the key, in any unit. The heap maintains `pos` (0:
// the entry is not in a heap).
struct td_heap_node {
	int64_t at;
	size_t pos;
};
struct td_heap {
	struct td_heap_node **v; // 1-based
	size_t n, cap;
};
void td_heap_push(struct td_heap *h, struct td_heap_node *node);
struct td_heap_node *td_heap_peek(const struct td_heap *h); // NULL when empty
struct td_heap_node *td_heap_pop(struct td_heap *h);        // NULL when empty
// Does nothing when the node is not in the heap.
void td_heap_remove(struct td_heap *h, struct td_heap_node *node);
void td_heap_done(struct td_heap *h);
#define td_container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
