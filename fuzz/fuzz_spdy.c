// What a port-forward client sends: frames, and header blocks that share one compression history.
// The used bytes never exceed the given ones, and names and values come in pairs.
// rows: F1.4
#include "kubelet/stream/spdy.h"

#include <stdlib.h>

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct td_spdy_headers h = {0};
	struct td_spdy_frame f;
	const char *p = (const char *)data;
	for (size_t at = 0, used; at < size && !td_spdy_frame_read(p + at, size - at, &f, &used, NULL) && used;
	     at += used) {
		td_auto_strv struct td_strv pairs = {0};
		check(used <= size - at);
		if (f.type != TD_SPDY_SYN_STREAM)
			continue;
		check(f.data >= p && f.data + f.n <= p + size);
		if (td_spdy_headers_read(&h, f.data, f.n, &pairs, NULL))
			break;
		check(pairs.n % 2 == 0);
	}
	td_spdy_headers_done(&h);
	return 0;
}
