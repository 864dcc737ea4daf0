// The JSONPath of additionalPrinterColumns: ".a.b", "[0]", "[*]", "['k']", "[?(@.x==\"y\")]", and
// "\." in names. Nothing else is supported.
#pragma once

#include "json/json.h"

// Returns the first value at the path, or NULL. ret_text: gets every value found, joined by commas,
// as kubectl shows them.
yyjson_val *td_jsonpath_first(const yyjson_val *root, const char *path, struct td_buf *ret_text);
