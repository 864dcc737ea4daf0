// What Slurm's login pod prints for `tandem quota` and `tandem usage`.
// rows: C10.4
#include "cli/ledger.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 1 << 16)
		return 0;
	td_auto_free char *text = td_strndup((const char *)data, size);
	for (int sums = 1; sums <= TD_LEDGER_SUMS; sums++) {
		td_auto_ledger struct td_ledger l = {0};
		td_ledger_read(text, sums, &l);
		td_ledger_sort(&l);
		if (l.n)
			td_ledger_at(&l, l.v[0].key[0])->sum[0] += 1;
	}
	return 0;
}
