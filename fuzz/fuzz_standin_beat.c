// Input: the file of a rank, which its user writes, and a list of ranks. What is taken comes through the list as it was.
// rows: B6.4
#include "pool/straggle.h"
#include "standin/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), line[256];
	memcpy(text, data, size);
	text[size] = '\0';
	struct standin_beat b;
	struct td_pool_pace v[8];
	if (td_standin_beat(text, &b)) {
		snprintf(line, sizeof(line), "%d:%lld:%lld:%s:%d", 7, b.step, b.us, b.node, b.gpu);
		if (td_pool_paces(line, v, 8) != 1 || v[0].rank != 7 || v[0].step != b.step || v[0].us != b.us ||
		    v[0].gpu != b.gpu || strcmp(v[0].node, b.node) != 0)
			abort();
	}
	size_t n = td_pool_paces(text, v, 8);
	for (size_t i = 0; i < n; i++)
		if (v[i].rank < 0 || v[i].rank >= TD_STRAGGLE_RANKS || v[i].us < 0 || v[i].step < 0 || !*v[i].node)
			abort();
	free(text);
	return 0;
}
