#include "api/block.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <string.h>

static bool is_v4(const char *s, uint32_t *ret)
{
	uint32_t all = 0;
	for (int i = 0; i < 4; i++) {
		size_t n = strspn(s, "0123456789");
		long long v;
		td_auto_free char *octet = td_strndup(s, n);
		if (!n || n > 8 || !td_parse_i64(octet, &v) || v > 255 || s[n] != (i < 3 ? '.' : '\0'))
			return false;
		all = all << 8 | (uint32_t)v;
		s += n + 1;
	}
	*ret = htonl(all);
	return true;
}

static bool ip_parse(const char *s, struct td_block *ret)
{
	struct in6_addr a;
	*ret = (struct td_block){0};
	if (is_v4(s, &ret->v4))
		return true;
	ret->six = inet_pton(AF_INET6, s, &a) == 1;
	return ret->six;
}

bool td_is_ip(const char *s, bool *ret_v6)
{
	struct td_block b;
	if (!ip_parse(s, &b))
		return false;
	if (ret_v6)
		*ret_v6 = b.six;
	return true;
}

bool td_block_parse(const char *s, struct td_block *ret)
{
	const char *slash = strchr(s, '/');
	td_auto_free char *ip = slash ? td_strndup(s, (size_t)(slash - s)) : NULL;
	struct td_block b;
	long long bits;
	if (!ip || !ip_parse(ip, &b) || strspn(slash + 1, "0123456789") != strlen(slash + 1) ||
	    !td_parse_i64(slash + 1, &bits) || bits > (b.six ? 128 : 32))
		return false;
	b.bits = (uint8_t)bits;
	*ret = b;
	return true;
}
