#include "api/storagequota.h"

#include "api/quantity.h"

#include <string.h>

#define BYTES "requests.storage"
#define COUNT "persistentvolumeclaims"
#define CLASS ".storageclass.storage.k8s.io/"

// What it counts, without "CLASS.storageclass.storage.k8s.io/".
static const char *plain_of(const char *word)
{
	const char *at = strstr(word, CLASS);
	return at && at > word ? at + strlen(CLASS) : word;
}

const char *td_api_storage_word(const char *name)
{
	if (!strcmp(name, "storage"))
		return BYTES;
	const char *plain = plain_of(name);
	bool bytes = plain != name && !strcmp(plain, BYTES);
	return bytes || !strcmp(plain, COUNT) ? name : NULL;
}

bool td_api_storage_bytes(const char *word)
{
	return !strcmp(word, "storage") || !strcmp(plain_of(word), BYTES);
}

int64_t td_api_storage_counts(const char *word, int64_t bytes, const char *class)
{
	const char *plain = plain_of(word);
	if (plain != word) {
		size_t len = (size_t)(plain - word) - strlen(CLASS);
		if (strlen(class) != len || strncmp(word, class, len) != 0)
			return 0;
	}
	return td_api_storage_bytes(plain) ? bytes : 1;
}

int64_t td_api_storage_amount(const yyjson_val *quantity)
{
	yyjson_val *v = (yyjson_val *)(uintptr_t)quantity;
	int64_t n = yyjson_get_sint(v);
	if (yyjson_is_str(v) && td_quantity_ceil(yyjson_get_str(v), &n, NULL))
		n = INT64_MAX;
	// A number may be one that is no int64_t: 1e19 and 10000000000000000000 are quantities, too.
	if (yyjson_is_real(v)) {
		double d = yyjson_get_real(v);
		n = d >= 0x1p63 ? INT64_MAX : d > 0 ? (int64_t)d + ((double)(int64_t)d < d) : 0;
	} else if (yyjson_is_uint(v) && yyjson_get_uint(v) > INT64_MAX) {
		n = INT64_MAX;
	}
	return n > 0 ? n : 0;
}
