// The five fields of a schedule. What is taken is due after any minute, and on a whole minute.
// rows: E5.2
#include "pool/cron.h"

#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 256)
		return 0;
	td_auto_free char *text = td_strndup((const char *)data, size);
	struct td_pool_cron c;
	if (td_pool_cron_parse(text, &c, NULL))
		return 0;
	int64_t next = td_pool_cron_next(&c, 1795647324);
	if (next <= 1795647324 || next % 60)
		abort();
	return 0;
}
