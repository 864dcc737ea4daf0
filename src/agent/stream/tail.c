#include "agent/stream/stream.h"

#include <unistd.h>

int64_t td_log_tail_offset(int fd, int64_t size, int64_t lines)
{
	char buf[8192];
	if (lines < 0)
		return 0;
	if (!lines)
		return size;
	int64_t at = size, seen = 0;
	while (at > 0) {
		size_t n = at < (int64_t)sizeof(buf) ? (size_t)at : sizeof(buf);
		at -= (int64_t)n;
		if (pread(fd, buf, n, at) != (ssize_t)n)
			return 0;
		for (size_t i = n; i-- > 0;) {
			if (buf[i] != '\n' || at + (int64_t)i == size - 1) // the end of the last line starts no line
				continue;
			if (++seen == lines)
				return at + (int64_t)i + 1;
		}
	}
	return 0;
}
