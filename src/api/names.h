// Rules of names beyond td_is_dns_label and td_is_dns_subdomain (kinds.h).
#pragma once

#include <stdbool.h>

bool td_is_qualified_name(const char *s); // a label key: [subdomain/]name
bool td_is_label_value(const char *s);
bool td_is_duration(const char *s); // in Go's syntax: 1h30m, 500ms, 0

// td_name_faults appends each fault of a name to *ret, in the words of Kubernetes. A correct name
// adds nothing.
enum td_name_rule { TD_N_SUBDOMAIN, TD_N_LABEL, TD_N_LABEL_1035, TD_N_QUALIFIED, TD_N_LABEL_VALUE, TD_N_CONFIG_KEY };
struct td_strv;
void td_name_faults(enum td_name_rule rule, const char *s, struct td_strv *ret);
