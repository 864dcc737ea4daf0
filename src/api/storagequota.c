#include "api/storagequota.h"

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
