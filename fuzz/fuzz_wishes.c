// What a user writes of his job, and the bridge reads: the word of its signal in the comment, and its constraint. What was
// read can be read again.
// rows: C4.4 C7.1
#include "base/mem.h"
#include "pool/allowed.h"
#include "pool/leave.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	td_auto_free char *text = td_strndup((const char *)data, n);
	struct td_pool_leave_signal g, again;
	if (td_pool_leave_signal(text, &g)) {
		td_auto_free char *word = td_asprintf("slurm.tandem.dev/signal=%s%s@%lld", g.batch ? "B:" : "", g.name,
						      (long long)g.before_s);
		if (!td_pool_leave_signal(word, &again) || strcmp(again.name, g.name) != 0 || again.batch != g.batch ||
		    again.before_s != g.before_s)
			abort();
	}
	struct td_pool_leave l;
	if (td_pool_leave_read(text, &l) && (l.waiter <= 0 || l.restarts < 0))
		abort();
	int is = td_pool_constraint(text, "a100,ib");
	if (is < -1 || is > 1)
		abort();
	return 0;
}
