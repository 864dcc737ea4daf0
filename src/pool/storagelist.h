// Who has which file system of a storage group, as the text that goes to where people are (base/groupfiles.h). Pure, as
// pool.h.
#pragma once

#include "base/mem.h"

// What a ConfigMap holds is 1 MiB, and it has more than this text.
#define TD_STORAGE_LIST_MOST (900 << 10)

struct td_pool_storage_file {
	const char *name, *path;
};
struct td_pool_storage_has { // a user, and which of the file systems; more than once does no harm
	const char *user;
	size_t file;
};
struct td_pool_storage_list {
	const struct td_pool_storage_file *files;
	size_t n_files;
	struct td_pool_storage_has *v; // is sorted
	size_t n;
};
// The text, of `most` bytes or about: who would be beyond it is left out, so that who is taken out has nothing in any
// case; *ret_left says how many are. The same for the same grants in any order. The caller frees it.
char *td_pool_storage_text(struct td_pool_storage_list *l, size_t most, size_t *ret_left);
