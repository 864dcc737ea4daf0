// Bodies in Kubernetes' protobuf: an accepted body is a JSON object with kind and apiVersion.
// rows: F1.2
#include "apiserver/jsonpath.h"
#include "apiserver/protobuf.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (td_protobuf_parse((const char *)data, size, &j, NULL) == 0) {
		if (!td_jstr(td_json_root(j), "kind") || !td_jstr(td_json_root(j), "apiVersion"))
			abort();
		// The same bytes as a printer column's path over that object.
		td_auto_free char *path = td_strndup((const char *)data, size < 200 ? size : 200);
		td_auto_buf struct td_buf text = {0};
		td_jsonpath_first(td_json_root(j), path, &text);
		td_jsonpath_first(td_json_root(j), ".metadata..[*][?(@.a==\"b\")].c", &text);
	}
	return 0;
}
