// Selectors and quantities from query strings. An accepted one has a canonical text that is
// accepted again and means the same.
// rows: F1.2
#include "api/quantity.h"
#include "api/quantity_priv.h"
#include "api/selector.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_free char *s = td_strndup((const char *)data, size);
	td_auto(td_selector_free) struct td_selector *a = NULL, *b = NULL;

	td_auto(td_field_selector_free) struct td_field_selector *f = NULL;
	if (!td_selector_parse(s, &a, NULL)) {
		td_auto_free char *t = td_selector_text(a), *u = NULL;
		if (td_selector_parse(t, &b, NULL))
			abort();
		u = td_selector_text(b);
		if (strcmp(t, u))
			abort();
		td_selector_matches(a, NULL);
	}
	if (!td_field_selector_parse(s, &f, NULL))
		td_field_selector_matches(f, NULL);

	char once[TD_QUANTITY_LEN], twice[TD_QUANTITY_LEN];
	int64_t n;
	td_quantity_milli(s, &n, NULL);
	td_quantity_ceil(s, &n, NULL);

	if (!td_quantity_canonical(s, once, NULL) && (td_quantity_canonical(once, twice, NULL) || strcmp(once, twice)))
		abort();
	return 0;
}
