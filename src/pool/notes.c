#include "pool/notes.h"

#include "base/mem.h"
#include "base/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "tandem/"

static void put(struct td_buf *b, const char *key, const char *value)
{
	if (!*value)
		return;
	td_buf_printf(b, "%s%s=", b->len ? "&" : "", key);
	for (const char *p = value; *p; p++)
		if (isalnum((unsigned char)*p) || strchr(".-_", *p))
			td_buf_putc(b, *p);
		else
			td_buf_printf(b, "%%%02X", (unsigned char)*p);
}

char *td_notes_mark(const char *prefix, const char *cluster, const struct td_notes *n, const char *uid)
{
	td_auto_buf struct td_buf b = {0};
	put(&b, n->gang ? "gang" : "pod", n->pod);
	put(&b, "user", n->user);
	put(&b, "service", n->service);
	put(&b, "line", n->line);
	put(&b, "end", n->end);
	if (n->busy + n->idle > 0)
		td_buf_printf(&b, "%sbusy=%.0f&idle=%.0f", b.len ? "&" : "", n->busy, n->idle);
	if (!b.len || !*n->ns)
		return td_asprintf("%s%s/%s", prefix, cluster, uid);
	return td_asprintf("%s%s/%s/%s/%s", prefix, cluster, n->ns, td_buf_str(&b), uid);
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The value that begins at s and has len bytes; what does not fit is cut off.
static void value(const char *s, size_t len, char *ret, size_t n)
{
	size_t k = 0;
	for (size_t i = 0; i < len && k + 1 < n; i++) {
		bool coded = s[i] == '%' && i + 2 < len && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0;
		ret[k++] = coded ? (char)(hex(s[i + 1]) * 16 + hex(s[i + 2])) : s[i];
		i += coded ? 2 : 0;
	}
	ret[k] = '\0';
}

static double number(const char *s, size_t len)
{
	double v = 0;
	for (size_t i = 0; i < len && i < 15 && isdigit((unsigned char)s[i]); i++)
		v = v * 10 + (s[i] - '0');
	return v;
}

bool td_notes_read(const char *admin_comment, struct td_notes *ret)
{
	if (!admin_comment || !td_starts(admin_comment, PREFIX))
		return false;
	const char *cluster = admin_comment + strlen(PREFIX), *ns = strchr(cluster, '/'),
		   *notes = ns ? strchr(ns + 1, '/') : NULL, *end = notes ? strchr(notes + 1, '/') : NULL;
	// tandem/out/… and tandem/shadow/… are jobs of Tandem's own.
	if (!end || td_starts(cluster, "out/") || td_starts(cluster, "shadow/") ||
	    !memchr(notes, '=', (size_t)(end - notes)))
		return false;
	struct td_notes n = {0};
	value(ns + 1, (size_t)(notes - ns - 1), n.ns, sizeof(n.ns));
	for (const char *p = notes + 1; p < end;) {
		size_t len = strcspn(p, "&/"), key = strcspn(p, "=&/");
		const char *v = p + key + 1;
		size_t m = key < len ? len - key - 1 : 0;
		if (key == 3 && !strncmp(p, "pod", key)) {
			value(v, m, n.pod, sizeof(n.pod));
		} else if (key == 4 && !strncmp(p, "gang", key)) {
			n.gang = true;
			value(v, m, n.pod, sizeof(n.pod));
		} else if (key == 4 && !strncmp(p, "user", key)) {
			value(v, m, n.user, sizeof(n.user));
		} else if (key == 7 && !strncmp(p, "service", key)) {
			value(v, m, n.service, sizeof(n.service));
		} else if (key == 4 && !strncmp(p, "line", key)) {
			value(v, m, n.line, sizeof(n.line));
		} else if (key == 3 && !strncmp(p, "end", key)) {
			value(v, m, n.end, sizeof(n.end));
		} else if (key == 4 && !strncmp(p, "busy", key)) {
			n.busy = number(v, m);
		} else if (key == 4 && !strncmp(p, "idle", key)) {
			n.idle = number(v, m);
		}
		p += len + (p[len] == '&');
		if (*p == '/')
			break;
	}
	*ret = n;
	return true;
}

bool td_notes_use(const char *admin_comment, int64_t start, struct td_notes *ret)
{
	static const char mark[] = "tandem-use:";
	for (const char *p = admin_comment ? admin_comment : ""; (p = strstr(p, mark));) {
		double v[3];
		p += strlen(mark);
		for (int i = 0; i < 3; i++) {
			size_t len = strspn(p, "0123456789");
			v[i] = len ? number(p, len) : -1;
			p += len + (p[len] == ':');
		}
		if (v[0] == (double)start && v[1] >= 0 && v[2] >= 0) {
			*ret = (struct td_notes){.busy = v[1], .idle = v[2]};
			return true;
		}
	}
	return false;
}

double td_notes_idle(const struct td_notes *n)
{
	return n->busy + n->idle > 0 ? n->idle / (n->busy + n->idle) : -1;
}

const char *td_notes_scratch(const char *admin_comment)
{
	const char *s = admin_comment ? strstr(admin_comment, TD_SAID_SCRATCH) : NULL;
	return s ? s + strlen(TD_SAID_SCRATCH) : NULL;
}
