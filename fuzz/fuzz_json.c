// JSON and YAML as input; what YAML gives is written as YAML again.
// rows: F1.2
#include "json/json.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct td_json *j = NULL;
	if (size > 1 << 16)
		return 0;
	if (td_json_parse((const char *)data, size, &j, NULL) == 0) {
		td_auto(td_json_unref) struct td_json *r = NULL;
		td_json_patch(td_json_root(j), td_json_root(j), &r, NULL);
		td_json_unref(j);
	}

	td_auto_json_list struct td_json_list l = {0};
	if (td_yaml_parse((const char *)data, size, &l, NULL))
		return 0;
	for (size_t i = 0; i < l.n; i++) {
		td_auto_free char *y = td_yaml_text(td_json_root(l.v[i]));
		(void)y;
	}
	return 0;
}
