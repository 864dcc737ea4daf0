// rows: A10.3 D4.1
// What a kubelet sends by gRPC: the headers of HTTP/2, and the answer about devices.
#include "gate/podres.h"
#include "http/hpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void field(void *ctx, const char *name, const char *value)
{
	td_buf_puts(ctx, name);
	td_buf_puts(ctx, value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct td_hpack h = {0};
	td_auto_buf struct td_buf b = {0};
	td_auto_podres struct td_podres_list l = {0};
	struct td_error e = TD_ERROR_INIT;
	// Two blocks: the second one finds the table of the first.
	if (!td_hpack_read(&h, data, size / 2, field, &b, &e))
		td_hpack_read(&h, data + size / 2, size - size / 2, field, &b, &e);
	td_hpack_done(&h);
	td_podres_read(data, size, &l, &e);
	return 0;
}
