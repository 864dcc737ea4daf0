// The mark (mark.h): a decimal number of 20 digits and a newline, written in place.
#include "apiserver/mark.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LEN 21

// The number in the file; 0 when there is no mark or it is unreadable: then nothing is checked.
static uint64_t read_mark(const char *path)
{
	td_auto_buf struct td_buf b = {0};
	long long v;
	if (td_file_read(path, LEN + 1, &b, NULL) < 0 || b.len != LEN || b.s[LEN - 1] != '\n')
		return 0;
	b.s[LEN - 1] = 0;
	return td_parse_i64(b.s, &v) && v > 0 ? (uint64_t)v : 0;
}

int td_mark_open(const char *db_path, uint64_t revision, bool lossy, int *ret_fd, uint64_t *ret_jump,
		 struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s-mark", db_path), *accepted = td_asprintf("%s-mark.accepted", db_path);
	uint64_t mark = read_mark(path), pass = read_mark(accepted);

	const char *base = strrchr(db_path, '/');
	if (mark > revision && !lossy && mark > pass)
		return td_fail(err, TD_INVALID,
			       "state database %s: %llu acknowledged writes are missing: it ends at revision %llu, "
			       "%llu was acknowledged. It or its log (%s-wal) was damaged, or an older copy was put "
			       "back. Put the whole copy back, or go on without those writes: mv %s %s",
			       db_path, (unsigned long long)(mark - revision), (unsigned long long)revision,
			       (unsigned long long)mark, base ? base + 1 : db_path, path, accepted);

	if (pass > mark)
		mark = pass;
	td_auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
	*ret_jump = mark > revision ? mark + 1 : 0;
	td_mark_set(fd, *ret_jump ? mark : revision);
	*ret_fd = fd;
	fd = -1;

	return 0;
}

void td_mark_set(int fd, uint64_t revision)
{
	char text[LEN + 1];
	snprintf(text, sizeof(text), "%020llu\n", (unsigned long long)revision);
	// A failed write leaves a lower mark, which detects less but is never wrong.
	ssize_t n = pwrite(fd, text, LEN, 0);
	(void)n;
}

void td_mark_accepted(const char *db_path)
{
	td_auto_free char *accepted = td_asprintf("%s-mark.accepted", db_path);
	unlink(accepted);
}
