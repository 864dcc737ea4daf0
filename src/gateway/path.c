#include "gateway/path.h"

#include "base/mem.h"

#include <string.h>

enum { PATH_MOST = 1024, PART_MOST = 255, NAME_MOST = 40 };

// UTF-8 without overlong forms, surrogates and control characters.
static bool readable(const char *s)
{
	for (const unsigned char *p = (const unsigned char *)s; *p;) {
		unsigned n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;
		unsigned long v = n == 1 ? *p : n ? *p & (0xffu >> (n + 1)) : 0;
		static const unsigned long least[] = {0, 0, 0x80, 0x800, 0x10000};
		if (!n)
			return false;
		for (unsigned i = 1; i < n; i++) {
			if (p[i] >> 6 != 2)
				return false;
			v = v << 6 | (p[i] & 63);
		}
		if (v < least[n] || v < 0x20 || (v >= 0x7f && v < 0xa0) || (v >= 0xd800 && v < 0xe000) || v > 0x10ffff)
			return false;
		p += n;
	}
	return true;
}

int td_gateway_path_check(const char *path, struct td_error *err)
{
	if (!path || !*path)
		return td_fail(err, TD_INVALID, "a path is empty");
	if (!readable(path))
		return td_fail(err, TD_INVALID, "a path has control characters or is no UTF-8");
	if (strlen(path) > PATH_MOST)
		return td_fail(err, TD_INVALID, "%.40s…: a path has at most %d bytes", path, PATH_MOST);
	if (*path == '/')
		return td_fail(err, TD_INVALID, "%.200s: give a path below the home, without \"/\" in front", path);

	for (const char *p = path;;) {
		size_t n = strcspn(p, "/");
		if (!n || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return td_fail(err, TD_INVALID, "%.200s: a path has no \"//\", \".\" or \"..\" in it", path);
		if (n > PART_MOST)
			return td_fail(err, TD_INVALID, "%.40s…: a name has at most %d bytes", p, PART_MOST);
		if (!p[n])
			return 0;
		p += n + 1;
	}
}

int td_gateway_name_check(const char *what, const char *name, struct td_error *err)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
			  more[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t n = name ? strlen(name) : 0;
	if (!n || n > NAME_MOST || !strchr(first, *name) || strspn(name, more) != n)
		return td_fail(err, TD_INVALID,
			       "%s \"%.60s\": use letters, digits, \".\", \"_\" and \"-\", at most %d, and begin "
			       "with a letter or a digit",
			       what, name ? name : "", NAME_MOST);
	return 0;
}
