// JSON and YAML as input. What is read is written as YAML, and reads back as the same value.
// rows: F1.2
#include "json/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Must come back as it was. Left out: texts that may go over the bounds of the reader, null, which is
// an empty document, and NUL, which ends a key.
static void round_trip(yyjson_val *v)
{
	td_auto_free char *text = td_yaml_text(v);
	td_auto_json_list struct td_json_list back = {0};
	if (strlen(text) > 1 << 16 || yyjson_is_null(v) || strstr(text, "\\u0000"))
		return;
	if (td_yaml_parse(text, strlen(text), &back, NULL) || back.n != 1 || !td_jequal(td_json_root(back.v[0]), v))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct td_json *j = NULL;
	if (size > 1 << 16)
		return 0;
	if (td_json_parse((const char *)data, size, &j, NULL) == 0) {
		td_auto(td_json_unref) struct td_json *r = NULL;
		td_json_patch(td_json_root(j), td_json_root(j), &r, NULL);
		round_trip(td_json_root(j));
		td_json_unref(j);
	}

	td_auto_json_list struct td_json_list l = {0};
	if (td_yaml_parse((const char *)data, size, &l, NULL))
		return 0;
	for (size_t i = 0; i < l.n; i++)
		round_trip(td_json_root(l.v[i]));
	return 0;
}
