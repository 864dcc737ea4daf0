// A machine's key and its id.
#include "cli/machine.h"

#include "base/file.h"
#include "http/csr.h"
#include "http/pki.h"
#include "kube/csr.h"

#include <string.h>

enum { KEY_MAX = 64 * 1024 };

int td_machine_key(const char *path, struct td_buf *ret_pem, char **ret_id, struct td_error *err)
{
	char id[TD_KEY_ID_LEN];
	int r = td_file_read(path, KEY_MAX, ret_pem, err);
	if (r == TD_NOT_FOUND) {
		const char *slash = strrchr(path, '/');
		td_auto_free char *dir = slash && slash != path ? td_strndup(path, (size_t)(slash - path)) : NULL,
				  *key = td_pki_key_new();
		r = dir ? td_mkdir_p(dir, 0700, err) : 0;
		if (!r)
			r = td_file_write(path, key, strlen(key), 0600, err);
		if (!r)
			td_buf_puts(ret_pem, key);
		explicit_bzero(key, strlen(key));
	}
	if (r)
		return r;
	if ((r = td_csr_key_id(td_buf_str(ret_pem), ret_pem->len, id, err)))
		return td_wrap(err, "the machine's key %s", path);
	*ret_id = td_asprintf(TD_CSR_MACHINE "%s", id);
	return 0;
}
