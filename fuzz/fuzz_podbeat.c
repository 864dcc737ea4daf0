// Input: the log of a pod's container, of which its user writes all but the stamps. However it is cut in pieces, the same
// beats are found, and no figure is out of its range.
// rows: B6.3 B6.4
#include "pool/pace.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct td_pool_beats whole = {0}, parts = {0};
	char *text = malloc(size + 1);
	memcpy(text, data, size);
	size_t taken = td_pool_beats_read(&whole, text, size, 3), at = 0;
	for (size_t n = 1; at < size; n++) {
		size_t k = td_pool_beats_read(&parts, text + at, n < size - at ? n : size - at, 3);
		at += k;
		n = k ? 0 : n;
		if (!k && n >= size - at)
			break;
	}
	if (taken > size || at != taken || memcmp(&whole, &parts, sizeof(whole)) != 0 || whole.pace_us < 0 ||
	    whole.last < -1 || whole.n < 0)
		abort();
	struct td_pool_beat b;
	if (td_pool_beat(text, size, &b) && (b.step < -1 || b.us < -1 || (b.step < 0 && b.us >= 0)))
		abort();
	free(text);
	return 0;
}
