// The JSONPath of additionalPrinterColumns: ".a.b", "[0]", "[*]", "['k']", "[?(@.x==\"y\")]", "\." in names. Nothing
// else.
#pragma once

#include "json/json.h"

// The first value at the path, or NULL. ret_text: every value found, joined by commas, as kubectl shows them.
yyjson_val *td_jsonpath_first(const yyjson_val *root, const char *path, struct td_buf *ret_text);
