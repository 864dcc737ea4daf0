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

// Asks "QUESTION [y/N] " on the terminal. TD_CANCELLED: the answer was not yes. TD_INVALID: nobody is
// there to be asked, and err says to add --yes.
int td_term_agree(const char *question, struct td_error *err);
