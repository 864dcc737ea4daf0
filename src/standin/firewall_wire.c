// The firewall's packets and messages as bytes, and what is let in. Pure.
#include "standin/firewall.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum { SYSTEM_UIDS = 1000, SLURM_UID = 64030, EXTENSIONS = 8 };

static uint16_t u16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void v4(const uint8_t *p, struct in6_addr *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->s6_addr[10] = ret->s6_addr[11] = 0xff;
	memcpy(ret->s6_addr + 12, p, 4);
}

// What is behind the headers of IPv6: its protocol, and where it begins. False: it is a later fragment, whose protocol is
// told, but nothing of it is here.
static bool skip(const uint8_t *p, size_t n, int *ret_proto, size_t *ret_at)
{
	*ret_at = 40;
	*ret_proto = p[6];
	for (int i = 0; i < EXTENSIONS && *ret_at + 8 <= n; i++) {
		const uint8_t *x = p + *ret_at;
		bool fragment = *ret_proto == IPPROTO_FRAGMENT;
		if (*ret_proto != IPPROTO_HOPOPTS && *ret_proto != IPPROTO_ROUTING && *ret_proto != IPPROTO_DSTOPTS &&
		    !fragment)
			break;
		*ret_proto = x[0];
		if (fragment && u16(x + 2) >> 3)
			return false;
		*ret_at += fragment ? 8 : ((size_t)x[1] + 1) * 8;
	}
	return true;
}

bool td_firewall_packet(const uint8_t *p, size_t n, struct firewall_flow *ret, const uint8_t **ret_data, size_t *ret_n)
{
	struct firewall_flow f = {0};
	size_t at = 0;
	if (n >= 20 && p[0] >> 4 == 4) {
		at = (size_t)(p[0] & 15) * 4;
		if (at < 20 || (u16(p + 6) & 0x1fff))
			return false;
		f.proto = p[9];
		v4(p + 12, &f.from.at);
		v4(p + 16, &f.to.at);
	} else if (n >= 40 && p[0] >> 4 == 6) {
		if (!skip(p, n, &f.proto, &at))
			return false;
		memcpy(&f.from.at, p + 8, 16);
		memcpy(&f.to.at, p + 24, 16);
	} else {
		return false;
	}
	size_t head = f.proto == IPPROTO_TCP ? 20 : f.proto == IPPROTO_UDP ? 8 : 0;
	if (!head || at > n || n - at < head)
		return false;
	f.from.port = u16(p + at);
	f.to.port = u16(p + at + 2);
	*ret = f;
	*ret_data = p + at + head;
	*ret_n = n - at - head;
	return true;
}

bool td_firewall_fragment(const uint8_t *p, size_t n)
{
	int proto;
	size_t at;
	return n >= 40 && p[0] >> 4 == 6 && !skip(p, n, &proto, &at);
}

// ---- messages: 8 bytes that name them, 'a' or 'q', known, the protocol, 5 zeroes; the number; the ends; uid; accounts ----
enum { AT_KIND = 8, AT_NUMBER = 16, AT_FROM = 24, AT_TO = 42, AT_UID = 60 };
static const char name[9] = "TDFIRE1\n";

static void put(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
}

static uint64_t get(const uint8_t *p, int bytes)
{
	uint64_t v = 0;
	for (int i = 0; i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

size_t td_firewall_write(const struct firewall_message *m, uint8_t ret[FIREWALL_MESSAGE])
{
	size_t n = m->answer ? strlen(m->accounts) : 0;
	memset(ret, 0, 64);
	memcpy(ret, name, 8);
	ret[AT_KIND] = m->answer ? 'a' : 'q';
	ret[AT_KIND + 1] = m->known;
	ret[AT_KIND + 2] = (uint8_t)m->flow.proto;
	put(ret + AT_NUMBER, m->number, 8);
	memcpy(ret + AT_FROM, &m->flow.from.at, 16);
	put(ret + AT_FROM + 16, m->flow.from.port, 2);
	memcpy(ret + AT_TO, &m->flow.to.at, 16);
	put(ret + AT_TO + 16, m->flow.to.port, 2);
	put(ret + AT_UID, m->uid, 4);
	memcpy(ret + 64, m->accounts, n);
	return 64 + n;
}

bool td_firewall_read(const uint8_t *p, size_t n, struct firewall_message *ret)
{
	if (n < 64 || n - 64 >= FIREWALL_ACCOUNTS || memcmp(p, name, 8) != 0)
		return false;
	int kind = p[AT_KIND], proto = p[AT_KIND + 2];
	if ((kind != 'a' && kind != 'q') || (proto != IPPROTO_TCP && proto != IPPROTO_UDP) || memchr(p + 64, 0, n - 64))
		return false;
	memset(ret, 0, sizeof(*ret));
	ret->answer = kind == 'a';
	ret->known = p[AT_KIND + 1] == 1;
	ret->number = get(p + AT_NUMBER, 8);
	ret->flow.proto = proto;
	memcpy(&ret->flow.from.at, p + AT_FROM, 16);
	ret->flow.from.port = (uint16_t)get(p + AT_FROM + 16, 2);
	memcpy(&ret->flow.to.at, p + AT_TO, 16);
	ret->flow.to.port = (uint16_t)get(p + AT_TO + 16, 2);
	ret->uid = (uint32_t)get(p + AT_UID, 4);
	memcpy(ret->accounts, p + 64, n - 64);
	return true;
}

// ---- what is let in ----
bool td_firewall_system(uint32_t uid)
{
	return uid < SYSTEM_UIDS || uid == SLURM_UID;
}

bool td_firewall_line(const char *lines, const char *s, size_t n)
{
	while (*lines) {
		size_t k = strcspn(lines, "\n");
		if (n == k && !memcmp(lines, s, n))
			return true;
		lines += k + (lines[k] == '\n');
	}
	return false;
}

bool td_firewall_may(uint32_t owner, const char *owner_accounts, uint32_t from, const char *from_accounts)
{
	if (owner == from || td_firewall_system(owner) || td_firewall_system(from))
		return true;
	for (const char *a = owner_accounts; *a;) {
		size_t n = strcspn(a, "\n");
		if (n && td_firewall_line(from_accounts, a, n))
			return true;
		a += n + (a[n] == '\n');
	}
	return false;
}

bool td_firewall_block(const char *s, struct firewall_block *ret)
{
	char at[INET6_ADDRSTRLEN];
	size_t n = strcspn(s, "/");
	if (n >= sizeof(at))
		return false;
	memcpy(at, s, n);
	at[n] = '\0';
	struct firewall_block b = {.bits = 128};
	struct in_addr four;
	bool is4 = inet_pton(AF_INET, at, &four) == 1;
	if (is4)
		v4((const uint8_t *)&four, &b.at);
	else if (inet_pton(AF_INET6, at, &b.at) != 1)
		return false;
	if (s[n] == '/') {
		const char *digits = s + n + 1;
		size_t k = strspn(digits, "0123456789");
		int bits = k && k <= 3 && !digits[k] ? atoi(digits) : -1;
		if (bits < 0 || bits > (is4 ? 32 : 128))
			return false;
		b.bits = is4 ? 96 + bits : bits;
	}
	*ret = b;
	return true;
}

bool td_firewall_within(const struct firewall_block *b, const struct in6_addr *at)
{
	int bytes = b->bits / 8, rest = b->bits % 8;
	if (memcmp(&b->at, at, (size_t)bytes) != 0)
		return false;
	return !rest || !((b->at.s6_addr[bytes] ^ at->s6_addr[bytes]) >> (8 - rest));
}
