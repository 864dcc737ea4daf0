// The patterns of schemas, on POSIX regular expressions. One is compiled when the first value is held against it: most never are, and
// compiled ones are large ("{1,254}" takes half a megabyte).
#include "api/schema_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PATTERN_MAX = 4096 };

// RE2 syntax that POSIX lacks: \d \w \s and their complements, (?: groups. What cannot be said makes regcomp fail or is refused here.
static char *translate(const char *re)
{
	static const char *const cls[] = {"d", "0-9", "w", "0-9A-Za-z_", "s", " \t\n\r\f\v"};
	td_auto_buf struct td_buf b = {0};
	bool set = false;
	for (const char *p = re; *p; p++) {
		if (*p == '\\' && p[1]) {
			p++;
			bool done = false;
			for (size_t k = 0; k < TD_LEN(cls) && !done; k += 2) {
				bool neg = *p == cls[k][0] - 32;
				if (*p != cls[k][0] && !neg)
					continue;
				if (set && neg)
					return NULL;
				td_buf_printf(&b, set ? "%s%s" : "[%s%s]", neg ? "^" : "", cls[k + 1]);
				done = true;
			}
			if (done)
				continue;
			if (strchr("bBAzZQEpP", *p))
				return NULL;
			static const char ctl[] = "n\nt\tr\rf\fv\v";
			const char *q = strchr(ctl, *p);
			if (*p >= 'a' && q && (q - ctl) % 2 == 0)
				td_buf_putc(&b, q[1]);
			else if (set) // POSIX sets know no escapes; '-' and ']' have a place instead
				*p == ']' || *p == '^' ? td_buf_puts(&b, *p == ']' ? "[.].]" : "[.^.]")
				: *p == '-'            ? td_buf_puts(&b, "[.-.]")
						       : td_buf_putc(&b, *p);
			else
				td_buf_printf(&b, "\\%c", *p);
			continue;
		}
		if (!set && p[0] == '(' && p[1] == '?') {
			if (p[2] != ':')
				return NULL;
			td_buf_putc(&b, '(');
			p += 2;
			continue;
		}
		if (!set && strchr("*+?}", *p) && p[1] == '?') { // lazy: the same language
			td_buf_putc(&b, *p++);
			continue;
		}
		if (*p == '[' && !set) {
			set = true;
			td_buf_putc(&b, '[');
			if (p[1] == '^')
				td_buf_putc(&b, *++p);
			if (p[1] == ']')
				td_buf_putc(&b, *++p);
			continue;
		}
		if (*p == ']')
			set = false;
		td_buf_putc(&b, *p);
	}
	return td_buf_take(&b);
}

static bool compile(const char *pattern, regex_t *ret)
{
	td_auto_free char *re = strlen(pattern) <= PATTERN_MAX ? translate(pattern) : NULL;
	return re && !regcomp(ret, re, REG_EXTENDED | REG_NOSUB);
}

bool td_pattern_ok(const char *pattern)
{
	regex_t re;
	if (!compile(pattern, &re))
		return false;
	regfree(&re);
	return true;
}

bool td_pattern_matches(struct td_pattern *p, const char *s)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards the making of every p->re
	if (!__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&lock);
		if (!p->ready && !compile(p->text, &p->re)) {
			fprintf(stderr, "pattern %s cannot be compiled\n", p->text); // it could be when the schema was taken
			abort();
		}
		__atomic_store_n(&p->ready, true, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&lock);
	}
	return !regexec(&p->re, s, 0, NULL, 0);
}

void td_pattern_done(struct td_pattern *p)
{
	if (p->ready)
		regfree(&p->re);
}
