// Input: the bytes of a client of a session's worker. A frame lies within them, and a request's texts within the frame.
// rows: D3.7
#include "standin/worker.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(const struct standin_worker_frame *f, const char *text)
{
	const char *end = (const char *)f->data + f->n;
	if (text < (const char *)f->data || text >= end || !memchr(text, '\0', (size_t)(end - text)))
		abort();
}

static void request(const struct standin_worker_frame *f)
{
	struct standin_worker_request r;
	if (!td_standin_worker_request(f->data, f->n, &r)) {
		if (r.env)
			abort();
		return;
	}
	inside(f, r.dir);
	for (char **e = r.env; *e; e++) {
		inside(f, *e);
		const char *equals = strchr(*e + 1, '=');
		if (!equals || equals == *e + 1 || (**e != '=' && **e != '?'))
			abort();
	}
	if (!*r.argv)
		abort();
	for (char **a = r.argv; *a; a++)
		inside(f, *a);
	td_standin_worker_request_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct standin_worker_frame f;
	uint8_t *copy = malloc(size + 1); // what lies behind is seen
	memcpy(copy, data, size);
	long k;
	for (size_t at = 0; (k = td_standin_worker_frame(copy + at, size - at, &f)) > 0; at += (size_t)k) {
		if ((size_t)k > size - at || f.data + f.n != copy + at + k)
			abort();
		request(&f);
	}
	free(copy);
	return 0;
}
