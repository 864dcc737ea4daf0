// Parses one line that a stand-in sends to the knock port (standin/wire.h). Pure; fuzzed by
// fuzz/fuzz_knock.c.
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
	int64_t job;             // of a hello: above 0
	char uid[64], token[64]; // of a hello: not verified here
	char name[16];           // of a signal: "TERM"; "" when the line has none
};
// False for a hello that lacks a field or has an impossible value; *ret is then untouched.
bool td_knock_line_parse(const char *line, struct td_knock_line *ret);
