#include "base/term.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool td_term_colors(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
	return isatty(fd) && !(no && *no) && term && *term && strcmp(term, "dumb") != 0;
}

const char *td_term_color(bool on, enum td_term_color c)
{
	static const char *const begin[] = {"\033[0m", "\033[32m", "\033[33m", "\033[31m", "\033[1m"};
	return on ? begin[c] : "";
}

int td_term_columns(int fd)
{
	struct winsize w;
	if (!isatty(fd))
		return 0;
	return !ioctl(fd, TIOCGWINSZ, &w) && w.ws_col > TD_TERM_COLUMNS ? w.ws_col : TD_TERM_COLUMNS;
}

// How many columns the first n bytes take.
static int columns_of(const char *s, size_t n)
{
	int all = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '\033')
			while (i + 1 < n && s[i] != 'm')
				i++;
		else
			all += ((unsigned char)s[i] & 0xc0) != 0x80;
	}
	return all;
}

char *td_term_wrapped(const char *text, int indent, int columns)
{
	struct td_buf b = {0};
	int at = 0;
	bool begun = false; // this line has a word
	while (*text) {
		size_t gap = strspn(text, " "), word = strcspn(text + gap, " \n");
		int wide = columns_of(text + gap, word);
		if (text[gap] == '\n') {
			td_buf_putc(&b, '\n');
			text += gap + 1;
			at = 0;
			begun = false;
			continue;
		}
		if (!word)
			break;
		if (columns && begun && at + (int)gap + wide > columns) {
			td_buf_printf(&b, "\n%*s", indent, "");
			at = indent;
			text += gap;
			gap = 0;
		}
		td_buf_add(&b, text, gap + word);
		at += (int)gap + wide;
		begun = true;
		text += gap + word;
	}
	td_buf_putc(&b, '\n');
	return td_buf_take(&b);
}

void td_term_wrap(const char *text, int indent, int columns)
{
	td_auto_free char *lines = td_term_wrapped(text, indent, columns);
	fputs(lines, stdout);
}

int td_term_agree(const char *question, struct td_error *err)
{
	if (!isatty(0) || !isatty(2))
		return td_fail(err, TD_INVALID, "%s There is no terminal to ask at: add --yes", question);

	char answer[16];
	fprintf(stderr, "%s [y/N] ", question);
	if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
		return 0;
	return td_fail(err, TD_CANCELLED, "nothing was done");
}
