// Quantities: the canonical text has the same value, whole units and thousandths agree, and
// formatted values are read back.
// rows: F1.2
#include "api/quantity.h"
#include "api/quantity_priv.h"
#include "base/mem.h"

#include <string.h>

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_free char *s = td_strndup((const char *)data, size < 4096 ? size : 4096);
	char once[TD_QUANTITY_LEN], twice[TD_QUANTITY_LEN], text[40];
	int64_t milli, whole, back;
	__int128 a, b;
	if (td_quantity_read(s, &a, NULL, NULL))
		return 0;

	if (!td_quantity_canonical(s, once, NULL)) {
		check(!td_quantity_canonical(once, twice, NULL) && !strcmp(once, twice));
		check(!td_quantity_read(once, &b, NULL, NULL) && a == b);
	}
	if (!td_quantity_milli(s, &milli, NULL)) {
		check(milli == a);
		check(!td_quantity_ceil(s, &whole, NULL) && (__int128)whole * 1000 - a < 1000 &&
		      (__int128)whole * 1000 - a > -1000);
		check(!td_quantity_milli(td_quantity_format_milli(milli, text, sizeof(text)), &back, NULL) &&
		      back == milli);
		check(!td_quantity_ceil(td_quantity_format_bytes(whole, text, sizeof(text)), &back, NULL) &&
		      back == whole);
	}
	return 0;
}
