#include "pool/block.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	return x && y ? strcmp(x, y) : !x - !y; // NULL comes last
}

static int largest_first(const void *a, const void *b)
{
	const struct td_pool_netblock *x = a, *y = b;
	return x->nodes != y->nodes ? (x->nodes < y->nodes ? 1 : -1) : strcmp(x->name, y->name);
}

size_t td_pool_blocks_count(const char **name, size_t n, struct td_pool_netblock *ret)
{
	size_t k = 0;
	if (n)
		qsort(name, n, sizeof(*name), by_name);
	for (size_t i = 0; i < n && name[i]; i++) {
		if (!i || strcmp(name[i], name[i - 1]) != 0)
			ret[k++] = (struct td_pool_netblock){.name = name[i]};
		ret[k - 1].nodes++;
	}
	if (k)
		qsort(ret, k, sizeof(*ret), largest_first);
	return k;
}

bool td_pool_blocks_hold(const struct td_pool_netblock *v, size_t n, const struct td_pool_netblock_want *w, char *why,
			 size_t len)
{
	if (w->nodes < 1 || w->base < 1 || !n)
		return true; // other rules say what is wrong there
	if (w->segment > w->base) {
		snprintf(why, len, "a segment has %" PRId64 " nodes at most (spec.topology.blockSizes), not %" PRId64,
			 w->base, w->segment);
		return false;
	}
	int64_t have = 0;
	if (w->segment) {
		for (size_t i = 0; i < n; i++)
			have += v[i].nodes / w->segment;
		if (have * w->segment >= w->nodes)
			return true;
		snprintf(why, len,
			 "it wants %" PRId64 " segment%s of %" PRId64
			 " nodes, each in one block, and the nodes that it may "
			 "use make %" PRId64 ": of %zu block%s the largest, %.80s, has %" PRId64 " of them",
			 w->nodes / w->segment, w->nodes / w->segment > 1 ? "s" : "", w->segment, have, n,
			 n > 1 ? "s" : "", v[0].name, v[0].nodes);
		return false;
	}
	const int64_t blocks = (w->nodes + w->base - 1) / w->base;
	for (size_t i = 0; i < n && (int64_t)i < blocks; i++)
		have += v[i].nodes;
	if (have >= w->nodes)
		return true;
	if (blocks == 1)
		snprintf(why, len,
			 "no block has %" PRId64 " nodes that it may use: the largest, %.80s, has %" PRId64
			 " of them. What "
			 "has at most %" PRId64 " nodes lies in one block; with --segment it may lie in several",
			 w->nodes, v[0].name, v[0].nodes, w->base);
	else
		snprintf(why, len,
			 "%" PRId64 " nodes must lie in %" PRId64 " blocks, and the %" PRId64 " largest have %" PRId64
			 " that it may use; with --segment it may lie in more",
			 w->nodes, blocks, blocks, have);
	return false;
}
