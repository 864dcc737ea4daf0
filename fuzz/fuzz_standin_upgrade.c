// Input: what a stranger sends to the terminal of a session: a head, or the frames behind one. Nobody
// comes in without the token, and no frame is longer than what was read.
// rows: D3.4
#include "standin/standin.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char token[] = "0123456789abcdef0123456789abcdef";
	char accepted[29] = "";
	char *head = malloc(size + 1);
	memcpy(head, data, size);
	head[size] = '\0';
	int status = td_standin_upgrade_read(head, size, token, accepted);
	if (status != 101 && status != 400 && status != 401 && status != 426)
		abort();
	if (status == 101 && (!memmem(data, size, token, strlen(token)) || strlen(accepted) != 28))
		abort();
	free(head);

	uint8_t *copy = malloc(size + 1);
	memcpy(copy, data, size);
	for (size_t at = 0; at < size;) {
		struct standin_frame f;
		long k = td_standin_frame_read(copy + at, size - at, &f);
		if (k <= 0)
			break;
		uint8_t out[4];
		if ((size_t)k > size - at || f.data < copy + at || f.data + f.n != copy + at + k || f.op > 15)
			abort();
		if (td_standin_frame_head(f.op, f.n, out) + 4 + f.n > (size_t)k)
			abort(); // ours is the shortest form
		at += (size_t)k;
	}
	free(copy);
	return 0;
}
