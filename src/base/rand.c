#include "base/rand.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void td_random(void *p, size_t n)
{
	char *s = p;
	while (n) {
		ssize_t k = getrandom(s, n, 0);
		if (k < 0)
			continue; // EINTR
		s += k;
		n -= (size_t)k;
	}
}

uint32_t td_random_below(uint32_t n)
{
	uint32_t v, limit = UINT32_MAX - UINT32_MAX % n;
	do
		td_random(&v, sizeof(v));
	while (v >= limit);
	return v % n;
}

const char *td_uuid(char buf[TD_UUID_LEN])
{
	unsigned char b[16];
	td_random(b, sizeof(b));
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	snprintf(buf, TD_UUID_LEN, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
	return buf;
}

void td_random_name(char *buf, size_t n)
{
	static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
	for (size_t i = 0; i < n; i++)
		buf[i] = alphabet[td_random_below(sizeof(alphabet) - 1)];
	buf[n] = '\0';
}
