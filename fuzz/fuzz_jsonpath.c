// Input: "PATH\nJSON", the path of a CRD's printer column and an object. What is selected is part
// of the object, and its text is bounded.
// rows: F1.10
#include "apiserver/jsonpath.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nl = memchr(data, '\n', size);
	td_auto(td_json_unref) struct td_json *doc = NULL;
	if (!nl || size > 1 << 14 ||
	    td_json_parse((const char *)nl + 1, size - (size_t)(nl + 1 - data), &doc, NULL) < 0)
		return 0;

	td_auto_free char *path = td_strndup((const char *)data, (size_t)(nl - data));
	td_auto_buf struct td_buf text = {0};
	yyjson_val *v = td_jsonpath_first(td_json_root(doc), path, &text);

	if (!v && text.len)
		abort();
	if (v && yyjson_is_null(v))
		abort();
	return 0;
}
