#include "base/mem.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *must(void *p)
{
	if (!p) {
		static const char m[] = "tandem: out of memory\n";
		(void)!write(2, m, sizeof(m) - 1);
		abort();
	}
	return p;
}

void *td_malloc(size_t size)
{
	return must(malloc(size ? size : 1));
}

void *td_calloc(size_t n, size_t size)
{
	return must(calloc(n ? n : 1, size ? size : 1));
}

void *td_realloc(void *p, size_t size)
{
	return must(realloc(p, size ? size : 1));
}

char *td_strdup(const char *s)
{
	return s ? must(strdup(s)) : NULL;
}

char *td_strndup(const char *s, size_t n)
{
	return must(strndup(s, n));
}

void *td_memdup(const void *p, size_t n)
{
	void *q = td_malloc(n);
	if (n)
		memcpy(q, p, n);
	return q;
}

char *td_vasprintf(const char *fmt, va_list ap)
{
	char *s = NULL;
	if (vasprintf(&s, fmt, ap) < 0)
		must(NULL);
	return s;
}

char *td_asprintf(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = td_vasprintf(fmt, ap);
	va_end(ap);
	return s;
}

void td_close_auto(int *fd)
{
	if (*fd >= 0) {
		int e = errno;
		close(*fd);
		errno = e;
	}
}

// ---- td_buf ----

void td_buf_reserve(struct td_buf *b, size_t extra)
{
	if (extra > SIZE_MAX / 2 - b->len)
		must(NULL);
	size_t need = b->len + extra + 1;
	if (need <= b->cap)
		return;
	size_t cap = b->cap ? b->cap : 64;
	while (cap < need)
		cap *= 2;
	b->s = td_realloc(b->s, cap);
	if (!b->cap)
		b->s[0] = '\0';
	b->cap = cap;
}

void td_buf_add(struct td_buf *b, const void *p, size_t n)
{
	td_buf_reserve(b, n);
	if (n)
		memcpy(b->s + b->len, p, n);
	b->len += n;
	b->s[b->len] = '\0';
}

void td_buf_puts(struct td_buf *b, const char *s)
{
	td_buf_add(b, s, strlen(s));
}

void td_buf_putc(struct td_buf *b, char c)
{
	td_buf_add(b, &c, 1);
}

void td_buf_quote(struct td_buf *b, const char *word)
{
	td_buf_putc(b, '\'');
	for (; *word; word++)
		if (*word == '\'')
			td_buf_puts(b, "'\\''");
		else
			td_buf_putc(b, *word);
	td_buf_putc(b, '\'');
}

void td_buf_printf(struct td_buf *b, const char *fmt, ...)
{
	va_list ap, aq;
	va_start(ap, fmt);
	va_copy(aq, ap);
	int n = vsnprintf(NULL, 0, fmt, aq);
	va_end(aq);
	if (n > 0) {
		td_buf_reserve(b, (size_t)n);
		vsnprintf(b->s + b->len, (size_t)n + 1, fmt, ap);
		b->len += (size_t)n;
	}
	va_end(ap);
}

void td_buf_reset(struct td_buf *b)
{
	b->len = 0;
	if (b->cap)
		b->s[0] = '\0';
}

void td_buf_done(struct td_buf *b)
{
	free(b->s);
	*b = (struct td_buf){0};
}

const char *td_buf_str(const struct td_buf *b)
{
	return b->s ? b->s : "";
}

char *td_buf_take(struct td_buf *b)
{
	char *s = b->s ? b->s : td_strdup("");
	*b = (struct td_buf){0};
	return s;
}

// ---- td_strv ----

void td_strv_steal(struct td_strv *l, char *s)
{
	if (l->n + 2 > l->cap) {
		l->cap = l->cap ? l->cap * 2 : 8;
		l->v = td_realloc(l->v, l->cap * sizeof(char *));
	}
	l->v[l->n++] = s;
	l->v[l->n] = NULL;
}

void td_strv_add(struct td_strv *l, const char *s)
{
	td_strv_steal(l, td_strdup(s));
}

void td_strv_addf(struct td_strv *l, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_strv_steal(l, td_vasprintf(fmt, ap));
	va_end(ap);
}

bool td_strv_has(const struct td_strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], s) == 0)
			return true;
	return false;
}

void td_strv_split(struct td_strv *l, const char *s, char sep)
{
	while (s && *s) {
		const char *e = strchrnul(s, sep);
		if (e > s)
			td_strv_steal(l, td_strndup(s, (size_t)(e - s)));
		s = *e ? e + 1 : e;
	}
}

void td_strv_done(struct td_strv *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct td_strv){0};
}

// ---- td_arena ----

struct chunk {
	struct chunk *next;
	size_t used, cap;
	_Alignas(16) char data[];
};

struct td_arena {
	struct chunk *head;
};

struct td_arena *td_arena_new(void)
{
	return td_calloc(1, sizeof(struct td_arena));
}

void *td_arena_alloc(struct td_arena *a, size_t size)
{
	if (size > SIZE_MAX / 2)
		must(NULL);
	size = (size + 15) & ~(size_t)15;

	struct chunk *c = a->head;
	if (!c || c->cap - c->used < size) {
		size_t cap = c ? c->cap * 2 : 1024;
		if (cap > 65536)
			cap = 65536;
		if (cap < size)
			cap = size;
		c = td_calloc(1, sizeof(*c) + cap);
		c->cap = cap;
		c->next = a->head;
		a->head = c;
	}

	void *p = c->data + c->used;
	c->used += size;
	return p;
}

char *td_arena_strndup(struct td_arena *a, const char *s, size_t n)
{
	n = strnlen(s, n);
	char *p = td_arena_alloc(a, n + 1);
	memcpy(p, s, n);
	return p;
}

char *td_arena_strdup(struct td_arena *a, const char *s)
{
	return s ? td_arena_strndup(a, s, strlen(s)) : NULL;
}

char *td_arena_printf(struct td_arena *a, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *s = td_vasprintf(fmt, ap);
	va_end(ap);
	return td_arena_strdup(a, s);
}

void td_arena_free(struct td_arena *a)
{
	if (!a)
		return;
	for (struct chunk *c = a->head, *n; c; c = n) {
		n = c->next;
		free(c);
	}
	free(a);
}

// ---- strings ----

bool td_starts(const char *s, const char *prefix)
{
	return s && strncmp(s, prefix, strlen(prefix)) == 0;
}

bool td_ends(const char *s, const char *suffix)
{
	size_t n = s ? strlen(s) : 0, m = strlen(suffix);
	return s && n >= m && strcmp(s + n - m, suffix) == 0;
}

bool td_parse_i64(const char *s, long long *ret)
{
	if (!s || !*s)
		return false;
	char *end;
	errno = 0;
	long long v = strtoll(s, &end, 10);
	if (errno || *end || s[0] == ' ' || s[0] == '+')
		return false;
	*ret = v;
	return true;
}
