// Fuzzes requests for certificates, as whoever has a token sends them: what is read was signed by its own key, and says
// which key that is.
// rows: B1.2 F1.2
#include "http/csr.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_csr struct td_csr c = {0};
	struct td_error err = TD_ERROR_INIT;
	int r = td_csr_read((const char *)data, size, &c, &err);
	if (r ? !err.msg[0] : strspn(c.key_id, "0123456789abcdef") != TD_KEY_ID_LEN - 1)
		abort();
	return 0;
}
