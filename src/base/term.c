#include "base/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
