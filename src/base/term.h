// The person at the terminal: whether there is one, colours, and a question before something is lost.
#pragma once

#include "base/err.h"

#include <stdbool.h>

// Whether what is written to this descriptor may be coloured: it is a terminal that can show
// colours, and NO_COLOR is not set (https://no-color.org).
bool td_term_colors(int fd);

enum td_term_color { TD_TERM_PLAIN, TD_TERM_GOOD, TD_TERM_WARN, TD_TERM_BAD, TD_TERM_BOLD };
// The bytes that begin a colour; "" when `on` is false. TD_TERM_PLAIN ends every colour.
const char *td_term_color(bool on, enum td_term_color c);

enum { TD_TERM_COLUMNS = 80 };
// How wide the lines for this descriptor may be: its terminal's, at least TD_TERM_COLUMNS; 0: it is
// none, and lines may have any length, because a program may read them.
int td_term_columns(int fd);
// The text, with the end of the line. Where it has more than `columns`, it goes on in further lines,
// which begin with `indent` spaces; it breaks at spaces only. Control sequences of td_term_color() and
// the second bytes of letters need no room. columns 0: one line. The caller frees it.
char *td_term_wrapped(const char *text, int indent, int columns);
// Writes that to stdout.
void td_term_wrap(const char *text, int indent, int columns);

// Asks "QUESTION [y/N] " on the terminal. TD_CANCELLED: the answer was not yes. TD_INVALID: nobody is
// there to be asked, and err says to add --yes.
int td_term_agree(const char *question, struct td_error *err);
