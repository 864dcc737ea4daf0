// Input: an OCI layout or the content of a `docker save` archive. Each line is a blob; "@3" stands
// for the digest of the fourth line when a later line has it. A line "-> TARGET" is a symbolic link
// "l<line>" instead. The last line is index.json, or manifest.json when it is a list. What is
// accepted has a digest for every layer, a name that is one directory, and no file that lies
// outside.
// rows: F1.4
#include "base/file.h"
#include "http/pki.h"
#include "oci/image_internal.h"
#include "oci/layout.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINES = 10, SIZE_MAX_IN = 1 << 14 };

static void check(int ok)
{
	if (!ok)
		abort();
}

static void put(const char *dir, const char *name, const struct td_buf *b)
{
	td_auto_free char *path = td_asprintf("%s/%s", dir, name);
	check(td_file_write(path, td_buf_str(b), b->len, 0644, NULL) >= 0);
}

static void write_layout(const char *dir, const char *p, const char *end)
{
	char digest[LINES][65];
	for (int n = 0; n < LINES && p < end; n++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p)), *e = nl ? nl : end;
		td_auto_buf struct td_buf b = {0};
		for (; p < e; p++) {
			if (*p == '@' && p + 1 < e && p[1] >= '0' && p[1] < '0' + n)
				td_buf_puts(&b, digest[*++p - '0']);
			else
				td_buf_putc(&b, *p);
		}

		p = nl ? nl + 1 : end;
		td_sha256_hex(td_buf_str(&b), b.len, digest[n]);
		td_auto_free char *blob = td_asprintf("blobs/sha256/%s", digest[n]),
				  *link = td_asprintf("%s/l%d", dir, n);
		if (p == end || n + 1 == LINES)
			put(dir, b.len && b.s[0] == '[' ? "manifest.json" : "index.json", &b);
		else if (td_starts(td_buf_str(&b), "-> "))
			(void)!symlink(b.s + 3, link);
		else
			put(dir, blob, &b);
	}
}

static void is_inside(const char *dir, int fd)
{
	char link[40], to[512];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, to, sizeof(to) - 1);
	check(n > 0);
	to[n] = '\0';
	check(td_starts(to, dir) && to[strlen(dir)] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[] = "/dev/shm/td-fuzz-XXXXXX";
	struct td_error err = TD_ERROR_INIT;
	if (!size || size > SIZE_MAX_IN || !mkdtemp(dir))
		return 0;

	td_auto_free char *blobs = td_asprintf("%s/blobs/sha256", dir);
	check(td_mkdir_p(blobs, 0755, NULL) == 0);
	write_layout(dir, (const char *)data, (const char *)data + size);
	td_auto_close int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	check(root >= 0 && img_is_layout(root));

	static const char *const names[] = {NULL, "debian:13"};
	for (size_t k = 0; k < TD_LEN(names); k++) {
		struct img_source s = {0};
		if (img_layout_read(root, names[k], &s, &err)) {
			check(err.msg[0] && !s.n && !s.config);
			continue;
		}

		check(strlen(s.key) == 64);
		td_auto_free char *name = NULL, *tag = NULL;
		if (s.name && img_name(s.name, &name, &tag, NULL) == 0)
			check(*name && *name != '.' && *tag && *tag != '.' && !strchr(name, '/') && !strchr(tag, '/'));
		for (size_t i = 0; i < s.n; i++) {
			td_auto_close int fd = -1;
			check(strlen(s.layers[i].diff_id) == 64);
			if (img_layout_open(root, s.layers[i].path, &fd, NULL) == 0)
				is_inside(dir, fd);
		}
		img_source_done(&s);
	}

	td_rm_rf(dir, NULL);
	return 0;
}
