// Which filter an account has, and where its profile lies.
#include "spank/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 1 << 20 };

int td_calls_file(const char *path, struct td_buf *ret, struct td_error *err)
{
	td_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0)
		return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_INTERNAL, errno, "%s", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return td_fail(err, TD_DENIED, "%s: it must be a file of root's that nobody else may write", path);
	char chunk[8192];
	ssize_t n;
	td_auto_buf struct td_buf b = {0};
	while ((n = read(fd, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR)) {
		if (n > 0)
			td_buf_add(&b, chunk, (size_t)n);
		if (b.len > FILE_MOST)
			return td_fail(err, TD_INVALID, "%s: it has more than a megabyte", path);
	}
	if (n < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
	td_buf_done(ret);
	*ret = b;
	b = (struct td_buf){0};
	return 0;
}

char *td_calls_of(const char *list, const char *account)
{
	size_t n = strlen(account);
	for (const char *line = list; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (n && !strncasecmp(line, account, n) && line[n] == ' ')
			return td_strndup(line + n + 1, strcspn(line + n + 1, "\n"));
	return NULL;
}

int td_calls_load(const char *profile, const char *profiles, struct td_calls_filter *ret, struct td_error *err)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	if (!strcmp(profile, "RuntimeDefault"))
		return td_calls_compile(td_calls_default, strlen(td_calls_default), ret, err);
	const char *name = profile + strlen(TD_FILTER_LOCAL);
	if (strncmp(profile, TD_FILTER_LOCAL, strlen(TD_FILTER_LOCAL)) != 0 || !*name || *name == '.' ||
	    name[strspn(name, chars)])
		return td_fail(err, TD_INVALID, "\"%.100s\" is no name of a profile", profile);
	td_auto_free char *path = td_asprintf("%s/%s", profiles, name);
	td_auto_buf struct td_buf text = {0};
	int r = td_calls_file(path, &text, err);
	if (!r)
		r = td_calls_compile(td_buf_str(&text), text.len, ret, err);
	return r ? td_wrap(err, "profile %s", name) : 0;
}
