#include "slurm/conf_line.h"

#include <string.h>
#include <strings.h>

enum { LINES_MAX = 65536, PAIRS_MAX = 256, BAD_MAX = 64 };

void td_slurm_line_done(struct td_slurm_line *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].key);
		free(l->v[i].value);
	}
	free(l->v);
	*l = (struct td_slurm_line){0};
}

void td_slurm_lines_done(struct td_slurm_lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_slurm_line_done(&l->v[i]);
	free(l->v);
	td_strv_done(&l->bad);
	*l = (struct td_slurm_lines){0};
}

static void add(struct td_slurm_line *l, char *key, char *value)
{
	l->v = td_realloc(l->v, (l->n + 1) * sizeof(*l->v));
	l->v[l->n++] = (struct td_slurm_pair){key, value};
}

void td_slurm_line_set(struct td_slurm_line *l, const char *key, const char *value)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcasecmp(l->v[i].key, key)) {
			free(l->v[i].value);
			l->v[i].value = td_strdup(value);
			return;
		}
	add(l, td_strdup(key), td_strdup(value));
}

// Reads one whole line, whose comment is gone.
static void one(const char *s, size_t at, struct td_slurm_lines *ret)
{
	static const char blank[] = " \t\r\v\f";
	struct td_slurm_line l = {.at = at};
	while (*(s += strspn(s, blank)) && l.n < PAIRS_MAX) {
		size_t n = strcspn(s, "= \t\r\v\f");
		const char *eq = s + n + strspn(s + n, blank);
		bool include = n == 7 && !strncasecmp(s, "include", 7) && *eq && *eq != '=';
		if ((*eq != '=' && !include) || !n) {
			size_t len = n ? n : 1;
			if (ret->bad.n < BAD_MAX)
				td_strv_addf(&ret->bad, "%zu: \"%.*s\" is no KEY=VALUE", at, (int)(len < 60 ? len : 60),
					     s);
			s += len;
			continue;
		}
		const char *v = include ? eq : eq + 1 + strspn(eq + 1, blank);
		bool quoted = *v == '"';
		size_t m = quoted ? strcspn(v + 1, "\"") : strcspn(v, blank);
		add(&l, td_strndup(s, n), td_strndup(v + quoted, m));
		s = v + quoted + m;
		s += quoted && *s == '"';
	}
	if (!l.n)
		return;
	ret->v = td_realloc(ret->v, (ret->n + 1) * sizeof(*ret->v));
	ret->v[ret->n++] = l;
}

void td_slurm_lines_read(const char *text, struct td_slurm_lines *ret)
{
	size_t at = 0, first = 1;
	td_auto_buf struct td_buf whole = {0};
	for (const char *s = text; *s && ret->n < LINES_MAX;) {
		size_t n = strcspn(s, "\n"), len = n;
		at++;
		if (!whole.len)
			first = at;
		for (size_t i = 0; i < n; i++)
			if (s[i] == '#' && (i == 0 || s[i - 1] != '\\')) {
				len = i;
				break;
			}
		bool more = len == n && n && (s[n - 1] == '\\' || (n > 1 && s[n - 1] == '\r' && s[n - 2] == '\\'));
		td_buf_add(&whole, s, more ? n - (s[n - 1] == '\r' ? 2 : 1) : len);
		s += n + (s[n] == '\n');
		if (more && *s)
			continue;
		one(whole.len ? td_buf_str(&whole) : "", first, ret);
		whole.len = 0;
		td_buf_puts(&whole, "");
	}
}
