#include "base/indexes.h"

#include "base/mem.h"

char *td_indexes_text(uint64_t mask)
{
	struct td_buf b = {0};
	for (int i = 0, j; i < 64; i = j + 1) {
		j = i;
		if (!(mask >> i & 1))
			continue;
		while (j + 1 < 64 && mask >> (j + 1) & 1)
			j++;
		td_buf_printf(&b, j > i ? "%s%d-%d" : "%s%d", b.len ? "," : "", i, j);
	}
	return td_buf_take(&b);
}
