// Name rules beyond td_is_dns_label and td_is_dns_subdomain (kinds.h).
#pragma once

#include <stdbool.h>

bool td_is_qualified_name(const char *s); // a label key: [subdomain/]name
bool td_is_label_value(const char *s);
