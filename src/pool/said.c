#include "pool/said.h"

#include "base/mem.h"
#include "pool/price.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SEEN "; seen "
#define STACKS "; stacks: "

static const char *const marks[] = {
	[TD_SAID_HANGS] = "tandem: hangs on ",
	[TD_SAID_SLOW] = "tandem: straggler: ",
	[TD_SAID_AGAIN] = "tandem: began again: ",
	[TD_SAID_FAULT] = "tandem: fault on ",
};

// Where the sentence ends that begins at s.
static const char *end_of(const char *s)
{
	for (const char *p = s; (p = strstr(p, " tandem")); p++)
		if (p[strlen(" tandem")] == ':' || p[strlen(" tandem")] == '-')
			// "; stacks: tandem-hang-7-n1.txt, tandem-hang-7-n2.txt" are names.
			if (p[-1] != ':' && p[-1] != ',')
				return p;
	return s + strlen(s);
}

static void copy(char *to, size_t n, const char *from, size_t len)
{
	while (len && from[len - 1] == ' ')
		len--;
	snprintf(to, n, "%.*s", (int)(len < n ? len : n - 1), from);
}

// Takes the last part that begins with `mark` off the text. NULL: there is none. Else what follows the mark.
static const char *take(char *text, const char *mark)
{
	char *at = NULL;
	for (char *p = text; (p = strstr(p, mark)); p++)
		at = p;
	if (!at)
		return NULL;
	*at = '\0';
	return at + strlen(mark);
}

bool td_pool_said(const char *admin_comment, enum td_pool_said_what what, struct td_pool_said *ret)
{
	const char *s = admin_comment ? strstr(admin_comment, marks[what]) : NULL;
	if (!s)
		return false;
	for (const char *next = s; what == TD_SAID_FAULT && (next = strstr(next + 1, marks[what]));)
		s = next;
	struct td_pool_said r = {.rank = -1, .gpu = -1};
	char text[2 * TD_SAID_WORDS];
	const char *from = s + strlen(marks[what]);
	copy(text, sizeof(text), from, (size_t)(end_of(from) - from));
	const char *seen = take(text, SEEN);
	if (seen)
		td_moment_parse(seen, &r.seen_s);
	const char *stacks = what == TD_SAID_HANGS ? take(text, STACKS) : NULL;
	if (stacks)
		copy(r.stacks, sizeof(r.stacks), stacks, strlen(stacks));
	const char *words = text, *node = text;
	if (what == TD_SAID_SLOW) {
		node = strstr(text, " on ");
		node = node ? node + strlen(" on ") : "";
		const char *gpu = strstr(node, "(gpu");
		if (sscanf(text, "rank %d ", &r.rank) != 1)
			r.rank = -1;
		if (gpu && sscanf(gpu, "(gpu%d)", &r.gpu) != 1)
			r.gpu = -1;
	}
	copy(r.node, sizeof(r.node), node, strcspn(node, ": "));
	if (what != TD_SAID_SLOW) { // "n1: …"
		const char *rest = strstr(text, ": ");
		words = rest ? rest + strlen(": ") : text;
	}
	copy(r.words, sizeof(r.words), words, strlen(words));
	*ret = r;
	return true;
}

bool td_pool_said_now(const struct td_pool_said *s, int64_t start_s)
{
	return !s->seen_s || s->seen_s >= start_s;
}

static void trim(struct td_buf *b)
{
	while (b->len && b->s[b->len - 1] == ' ')
		b->s[--b->len] = '\0';
}

char *td_pool_said_again(const char *admin_comment, const char *node, const char *why, int64_t at_s)
{
	char when[TD_MOMENT_LEN], clean[TD_SAID_WORDS / 2];
	td_auto_buf struct td_buf b = {0};
	for (const char *p = admin_comment ? admin_comment : ""; *p;) {
		size_t i = 0; // a fault stays
		while (i < TD_SAID_FAULT && strncmp(p, marks[i], strlen(marks[i])) != 0)
			i++;
		if (i == TD_SAID_FAULT) {
			td_buf_putc(&b, *p++);
			continue;
		}
		p = end_of(p + strlen(marks[i]));
		trim(&b);
	}
	trim(&b);
	// A node's reason may begin with the mark of Tandem's own.
	static const char own[] = "tandem: ";
	while (!strncmp(why, own, strlen(own)))
		why += strlen(own);
	copy(clean, sizeof(clean), why, strcspn(why, "\r\n"));
	for (char *p = clean; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = ' ';
	for (char *p = clean; (p = strstr(p, " tandem"));)
		*p = '_'; // no sentence of its own
	td_moment_name(at_s > 0 ? at_s : 0, when);
	td_buf_printf(&b, "%s%s%s: %s" SEEN "%s", b.len ? " " : "", marks[TD_SAID_AGAIN], node, clean, when);
	return b.len < TD_SAID_COMMENT ? td_buf_take(&b) : NULL;
}
