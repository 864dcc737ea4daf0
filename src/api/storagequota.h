// The words of a quota that are about storage, and what they count of a claim. Pure.
#pragma once

#include "json/json.h"

#include <stdbool.h>
#include <stdint.h>

// The word of a ResourceQuota for one of a Tenant's spec.quota: "storage" is "requests.storage"; "persistentvolumeclaims"
// and "CLASS.storageclass.storage.k8s.io/requests.storage" (or …/persistentvolumeclaims) are the same. NULL: it is not
// about storage.
const char *td_api_storage_word(const char *name);
// Does such a word, of either, count bytes, and not claims?
bool td_api_storage_bytes(const char *word);
// What a claim of so many bytes, of a storage class ("": none), adds to what the word of a ResourceQuota counts.
int64_t td_api_storage_counts(const char *word, int64_t bytes, const char *class);
// The bytes, or the number, that a quantity of JSON says, in text or as a number: from 0 up, and INT64_MAX where it is more
// than that. NULL: 0.
int64_t td_api_storage_amount(const yyjson_val *v);
