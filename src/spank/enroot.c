// What a squashfs image of enroot says about its start.
#include "spank/enroot.h"

#include "base/embedded.h"

#include <string.h>

extern const struct td_embedded td_ct_files[];

static size_t name_length(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	return *s >= '0' && *s <= '9' ? 0 : n;
}

static void substitute(const char *s, size_t n, const char *(*value)(const char *name), struct td_buf *ret)
{
	for (const char *end = s + n; s < end;) {
		size_t k = s[0] == '$' && s + 1 < end && s[1] == '{' ? name_length(s + 2) : 0;
		if (!k || s + 2 + k >= end || s[2 + k] != '}') {
			td_buf_putc(ret, *s++);
			continue;
		}
		td_auto_free char *name = td_strndup(s + 2, k);
		const char *v = value(name);
		td_buf_puts(ret, v ? v : "");
		s += k + 3;
	}
}

void td_ct_environment_parse(const char *text, const char *(*value)(const char *name), struct td_buf *ret)
{
	for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
		end = p + strcspn(p, "\n");
		p += strspn(p, " \t");
		size_t name = name_length(p);
		if (p >= end || !name || p[name] != '=')
			continue;
		const char *v = p + name + 1, *last = end;
		while (last > v && strchr(" \t\r", last[-1]))
			last--;
		if (last - v >= 2 && (*v == '"' || *v == '\'') && last[-1] == *v) {
			v++;
			last--;
		} else {
			last = end;
		}
		td_buf_add(ret, p, name + 1);
		substitute(v, (size_t)(last - v), value, ret);
		td_buf_putc(ret, '\0');
	}
}

// Reads one word of a shell's line. False: what it is only the shell knows.
static bool word(const char *p, struct td_buf *ret)
{
	for (; *p && !strchr(" \t\n;&|", *p); p++) {
		if (strchr("$`*?[<>(){}~", *p))
			return false;
		if (*p == '\\') {
			if (!*++p)
				return false;
			td_buf_putc(ret, *p);
		} else if (*p == '\'' || *p == '"') {
			for (char quote = *p++; *p != quote; p++) {
				if (!*p || (quote == '"' && strchr("$`", *p)))
					return false;
				if (quote == '"' && *p == '\\' && p[1] && strchr("\\\"$`", p[1]))
					p++;
				td_buf_putc(ret, *p);
			}
		} else {
			td_buf_putc(ret, *p);
		}
	}
	return true;
}

char *td_ct_rc_workdir(const char *text)
{
	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		p += strspn(p, " \t");
		if (strncmp(p, "cd ", 3) != 0)
			continue;
		td_auto_buf struct td_buf b = {0};
		bool known = word(p + 3 + strspn(p + 3, " \t"), &b);
		return known && b.len && b.s[0] == '/' ? td_buf_take(&b) : NULL;
	}
	return NULL;
}

void td_ct_environment_write(const char *env, size_t n, struct td_buf *ret)
{
	for (const char *p = env; p && p < env + n; p += strlen(p) + 1)
		if (name_length(p) && p[name_length(p)] == '=' && !strchr(p, '\n'))
			td_buf_printf(ret, "%s\n", p);
}

void td_ct_rc_write(const char *workdir, const char *entry, size_t n, struct td_buf *ret)
{
	static const char at_dir[] = "@WORKDIR@", at_entry[] = "@ENTRYPOINT@ ";
	for (const char *p = td_embedded(td_ct_files, "rc.sh")->text; *p;) {
		if (td_starts(p, at_dir)) {
			td_buf_quote(ret, *workdir ? workdir : "/");
			p += sizeof(at_dir) - 1;
		} else if (td_starts(p, at_entry)) {
			for (const char *e = entry; e && e < entry + n; e += strlen(e) + 1) {
				td_buf_quote(ret, e);
				td_buf_putc(ret, ' ');
			}
			p += sizeof(at_entry) - 1;
		} else {
			td_buf_putc(ret, *p++);
		}
	}
}
