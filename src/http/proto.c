// Fields of Protocol Buffers (https://protobuf.dev/programming-guides/encoding).
#include "http/grpc.h"

#include <string.h>

static bool varint(struct td_proto *m, uint64_t *ret)
{
	uint64_t v = 0;
	for (int shift = 0; shift < 64 && m->p < m->end; shift += 7) {
		unsigned char c = *m->p++;
		v |= (uint64_t)(c & 127) << shift;
		if (!(c & 128)) {
			*ret = v;
			return true;
		}
	}
	return false;
}

bool td_proto_next(struct td_proto *m, struct td_proto_field *ret)
{
	uint64_t tag, n = 0;
	if (m->p >= m->end || !varint(m, &tag))
		return false;
	*ret = (struct td_proto_field){.number = (unsigned)(tag >> 3)};
	if ((tag & 7) == 0)
		return varint(m, &ret->value);
	if ((tag & 7) == 2 && !varint(m, &n))
		return false;
	n = (tag & 7) == 1 ? 8 : (tag & 7) == 5 ? 4 : (tag & 7) == 2 ? n : UINT64_MAX;
	if (n > (uint64_t)(m->end - m->p))
		return false;
	ret->p = m->p;
	ret->len = (size_t)n;
	m->p += n;
	return true;
}

bool td_proto_is(const struct td_proto_field *f, const char *text)
{
	return f->p && f->len == strlen(text) && !memcmp(f->p, text, f->len);
}

void td_proto_copy(const struct td_proto_field *f, char *ret, size_t n)
{
	size_t len = !f->p ? 0 : f->len < n ? f->len : n - 1;
	if (len)
		memcpy(ret, f->p, len);
	ret[len] = '\0';
}

static void put(struct td_buf *b, uint64_t v)
{
	for (; v > 127; v >>= 7)
		td_buf_putc(b, (char)(v | 128));
	td_buf_putc(b, (char)v);
}

void td_proto_bytes(struct td_buf *b, unsigned number, const void *p, size_t len)
{
	put(b, (uint64_t)number << 3 | 2);
	put(b, len);
	td_buf_add(b, p, len);
}

void td_proto_text(struct td_buf *b, unsigned number, const char *text)
{
	td_proto_bytes(b, number, text, strlen(text));
}

void td_proto_number(struct td_buf *b, unsigned number, uint64_t value)
{
	put(b, (uint64_t)number << 3);
	put(b, value);
}
