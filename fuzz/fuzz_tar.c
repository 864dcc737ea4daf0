// Input: the tar of a layer, as image import gets it. It is unpacked over a directory, with
// whiteouts, or without when the first byte is odd. Whatever it says, what lies beside the
// directory stays as it is.
// rows: F1.4
#include "base/file.h"
#include "oci/unpack.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct input {
	const uint8_t *p;
	size_t n;
};

static int from_memory(void *ctx, void *buf, size_t n, size_t *ret_n, struct td_error *err)
{
	struct input *in = ctx;
	*ret_n = n < in->n ? n : in->n;
	memcpy(buf, in->p, *ret_n);
	in->p += *ret_n;
	in->n -= *ret_n;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[] = "/dev/shm/td-fuzz-XXXXXX", root[64], canary[64];
	struct td_error err = TD_ERROR_INIT;
	if (!size || !mkdtemp(dir))
		return 0;

	snprintf(root, sizeof(root), "%s/root", dir);
	snprintf(canary, sizeof(canary), "%s/canary", dir);
	mkdir(root, 0755);
	if (td_file_write(canary, "here", 4, 0600, NULL) < 0)
		abort();

	struct input in = {data + 1, size - 1};
	struct td_tar *t = td_tar_new(from_memory, &in);
	td_auto_close int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct td_unpack u = {.root = fd, .whiteouts = !(data[0] & 1)};
	if (td_unpack(&u, t, &err) < 0 && !err.msg[0])
		abort();
	td_tar_free(t);

	td_auto_buf struct td_buf b = {0};
	struct stat st, out;
	if (td_file_read(canary, 16, &b, NULL) < 0 || b.len != 4 || stat(canary, &st) < 0 || st.st_nlink != 1 ||
	    (st.st_mode & 07777) != 0600 || st.st_uid || stat(dir, &out) < 0 || out.st_nlink != 3)
		abort();

	td_rm_rf(dir, NULL);
	return 0;
}
