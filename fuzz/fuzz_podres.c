// rows: A10.3 D4.1
// What a kubelet answers about the devices of its pods.
#include "gate/podres.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_podres struct td_podres_list l = {0};
	struct td_error e = TD_ERROR_INIT;
	td_podres_read(data, size, &l, &e);
	return 0;
}
