// One line of a stand-in at the knock port (standin/wire.h), taken apart. Pure: fuzz/fuzz_knock.c.
#pragma once

#include "base/mem.h"

#include <stdint.h>

struct td_knock_line {
	enum {
		TD_KNOCK_PING,
		TD_KNOCK_PONG,
		TD_KNOCK_HELLO,
		TD_KNOCK_SIGNAL,
		TD_KNOCK_OTHER
	} what;                  // OTHER: a word of a later version
	int64_t job;             // hello: above 0
	char uid[64], token[64]; // hello; neither is checked here
	char name[16];           // signal: "TERM"; "" when not said
};
// False: a hello that lacks a field, or has one that cannot be right.
bool td_knock_line_parse(const char *line, struct td_knock_line *ret);
