// Memory: allocation that aborts when memory is out (daemons restart and are level-triggered),
// ownership bound to scopes, arenas, and one string builder.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

// ---- allocation: never returns NULL, not for size 0 either; aborts when memory is out ----
void *td_malloc(size_t size);
void *td_calloc(size_t n, size_t size);
void *td_realloc(void *p, size_t size);
char *td_strdup(const char *s); // NULL stays NULL
char *td_strndup(const char *s, size_t n);
void *td_memdup(const void *p, size_t n);
char *td_asprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *td_vasprintf(const char *fmt, va_list ap);

// ---- ownership in a scope ----
// Every owned local is declared with td_auto(f): f(value) runs when the scope ends. f accepts NULL.
// Hand a value over only with td_steal().
//   td_auto_free char *s = td_strdup(x);
//   TD_DEFINE_AUTO(struct td_json *, td_json_unref)
//   td_auto(td_json_unref) struct td_json *j = …;
#define td_auto(f) __attribute__((cleanup(f##_auto)))
#define TD_DEFINE_AUTO(type, f)                                                                                        \
	__attribute__((unused)) static inline void f##_auto(type *p)                                                   \
	{                                                                                                              \
		if (*p)                                                                                                \
			f(*p);                                                                                         \
	}
static inline void td_free_auto(void *p)
{
	free(*(void **)p);
}
#define td_auto_free __attribute__((cleanup(td_free_auto)))
void td_close_auto(int *fd); // closes a descriptor >= 0
#define td_auto_close __attribute__((cleanup(td_close_auto)))
#define td_steal(p)                                                                                                    \
	({                                                                                                             \
		__typeof__(p) *td_p_ = &(p);                                                                           \
		__typeof__(p) td_v_ = *td_p_;                                                                          \
		*td_p_ = NULL;                                                                                         \
		td_v_;                                                                                                 \
	})
static inline int td_steal_fd(int *fd)
{
	int v = *fd;
	*fd = -1;
	return v;
}
#define TD_LEN(a) (sizeof(a) / sizeof((a)[0]))

// ---- string builder ----
// A zero-initialised builder is empty and valid. `s` is NUL-terminated whenever cap > 0;
// td_buf_str() never returns NULL.
struct td_buf {
	char *s;
	size_t len, cap;
};
void td_buf_add(struct td_buf *b, const void *p, size_t n);
void td_buf_puts(struct td_buf *b, const char *s);
void td_buf_putc(struct td_buf *b, char c);
void td_buf_printf(struct td_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Adds a word in single quotes, so that a POSIX shell takes it as it is.
void td_buf_quote(struct td_buf *b, const char *word);
void td_buf_reserve(struct td_buf *b, size_t extra);
void td_buf_reset(struct td_buf *b); // empties it, keeps the memory
void td_buf_done(struct td_buf *b);  // frees the memory
const char *td_buf_str(const struct td_buf *b);
char *td_buf_take(struct td_buf *b); // the caller owns the text; b is empty again; never NULL
#define td_auto_buf __attribute__((cleanup(td_buf_done)))

// ---- list of strings ----
// The list owns its strings. `v` is NULL-terminated when n > 0, so that it can serve as argv. A
// zero-initialised list is empty.
struct td_strv {
	char **v;
	size_t n, cap;
};
void td_strv_add(struct td_strv *l, const char *s);
void td_strv_addf(struct td_strv *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void td_strv_steal(struct td_strv *l, char *s); // takes ownership of s
bool td_strv_has(const struct td_strv *l, const char *s);
void td_strv_split(struct td_strv *l, const char *s, char sep); // empty pieces are dropped
void td_strv_done(struct td_strv *l);
#define td_auto_strv __attribute__((cleanup(td_strv_done)))

// ---- arena: many small allocations that end together ----
struct td_arena;
struct td_arena *td_arena_new(void);
void *td_arena_alloc(struct td_arena *a, size_t size); // zeroed, 16-byte aligned
char *td_arena_strdup(struct td_arena *a, const char *s);
char *td_arena_strndup(struct td_arena *a, const char *s, size_t n);
char *td_arena_printf(struct td_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void td_arena_free(struct td_arena *a); // NULL is fine
TD_DEFINE_AUTO(struct td_arena *, td_arena_free)

// ---- small string helpers ----
static inline bool td_streq(const char *a, const char *b) // NULL equals only NULL
{
	return a == b || (a && b && __builtin_strcmp(a, b) == 0);
}
bool td_starts(const char *s, const char *prefix);
bool td_ends(const char *s, const char *suffix);
// Parses a decimal number that is the whole string. On false, *ret is untouched.
bool td_parse_i64(const char *s, long long *ret);
