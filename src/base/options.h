// Command lines: each role and command has one table of options. Parsing, checks, messages and the
// help text all come from that table.
//
// 	const struct td_option options[] = {
// 		{.name = "namespace", .letter = 'n', .value = "NS", .help = "where it runs",
// 		 TD_OPT_TEXT(&o->ns), .required = true},
// 		{.name = "gpus", .value = "N", .help = "GPUs of each node (default 8)",
// 		 TD_OPT_INT(&o->gpus, 0, 64)},
// 		{.name = "purge", .help = "removes the state too", TD_OPT_SWITCH(&o->purge)},
// 	};
// 	const struct td_command c = {
// 		.name = "up", .about = "Starts everything.",
// 		.options = options, .n = TD_LEN(options)};
// 	if (!td_command_line(&c, argc, argv, NULL, &exit_code))
// 		return exit_code;
//
// `--name VALUE`, `--name=VALUE`, `-l VALUE` and `-lVALUE` mean the same. `--` ends the options.
// `--help` and `-h` print the help. Names cannot be abbreviated. When an option is given again, the
// last value counts; lists grow.
#pragma once

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdint.h>

enum td_option_kind {
	TD_OPTION_SWITCH,   // bool *: true when given
	TD_OPTION_TEXT,     // const char **: points into argv
	TD_OPTION_LIST,     // struct td_strv *: copies
	TD_OPTION_INT,      // int *: from min to max
	TD_OPTION_DURATION, // int64_t *, milliseconds: "30s", "1.5m", "2h"
	TD_OPTION_SECONDS,  // int *: whole seconds, "15" or "15s"; from min to max
	TD_OPTION_LEVEL,    // enum td_log_level *
};

struct td_option {
	const char *name;  // without the dashes
	char letter;       // 0: none
	const char *value; // what the help calls its value; NULL for a switch
	const char *help;  // words, which the help breaks into lines
	enum td_option_kind kind;
	// Where the value goes; its type depends on the kind. It keeps its content when the option
	// is not given.
	void *to;
	int64_t min, max;    // of INT and SECONDS; both 0: no limits
	const char *choices; // of TEXT: the allowed values, "json|yaml"; NULL: any
	bool required;       // it is an error when it is not given
};

#define TD_OPT_SWITCH(p) .kind = TD_OPTION_SWITCH, .to = (p)
#define TD_OPT_TEXT(p) .kind = TD_OPTION_TEXT, .to = (p)
#define TD_OPT_LIST(p) .kind = TD_OPTION_LIST, .to = (p)
#define TD_OPT_INT(p, lo, hi) .kind = TD_OPTION_INT, .to = (p), .min = (lo), .max = (hi)
#define TD_OPT_DURATION(p) .kind = TD_OPTION_DURATION, .to = (p)
#define TD_OPT_SECONDS(p, lo, hi) .kind = TD_OPTION_SECONDS, .to = (p), .min = (lo), .max = (hi)
// The option that every role has.
#define TD_OPT_LOG_LEVEL(p)                                                                                            \
	{.name = "log-level",                                                                                          \
	 .value = "LEVEL",                                                                                             \
	 .help = "debug, info, warn or error (default info)",                                                          \
	 .kind = TD_OPTION_LEVEL,                                                                                      \
	 .to = (p)}

// What the exit codes of a role mean: td_command.exits.
#define TD_ROLE_EXITS "0 stopped by SIGTERM or SIGINT, 1 failed, 2 wrong usage."

struct td_command {
	const char *name; // as typed after `tandem`: for messages and the help
	// The words after the name in the first line of the help. NULL: made from the options.
	const char *usage;
	// What it does: paragraphs, which the help breaks into lines; lines that begin with a space stay
	// as they are. The last one is without "\n".
	const char *about;
	const struct td_option *options;
	size_t n;
	// How many words it takes besides the options. An error says which one is missing or too
	// many.
	size_t min_args, max_args;
	const char *args;    // what the help calls these words, "POD"; NULL: none are taken
	const char *choices; // what the first of them may be, "list|build"; NULL: anything. For completion only
	// The first word that is not an option ends the options. That word and all that follow are
	// a command of the user's own.
	bool rest;
	// For example "0 up, 1 failed, 2 wrong usage."; NULL: "0 done, 1 failed, 2 wrong usage."
	const char *exits;
};

// Parses argv[1]… into the places that the table names. The words besides the options are
// *ret_args, *ret_n of them. They point into argv, which is reordered so that they stand together.
// *ret_help is true when --help was given; nothing after it is checked then. TD_INVALID: the
// message names the option and what to give. On failure, places may hold the values of the options
// before the wrong one.
int td_options_parse(const struct td_command *c, int argc, char **argv, char ***ret_args, size_t *ret_n, bool *ret_help,
		     struct td_error *err);

// Appends the text of `tandem NAME --help`, at most 80 columns wide where words are of usual length.
void td_options_help(const struct td_command *c, struct td_buf *ret);

// Parses the command line for a main function. Returns true to go on. Returns false to end with
// *ret_exit: 0 after --help (printed on stdout), 2 after an error (printed on stderr, with a
// pointer to --help). *ret_args receives the words besides the options, NULL-terminated; ret_args
// may be NULL where the command takes none.
bool td_command_line(const struct td_command *c, int argc, char **argv, char ***ret_args, int *ret_exit);

// From now on td_command_line() parses nothing: it hands its table to f and ends with exit code 0. So
// one command can read the tables of the others.
void td_command_reveal(void (*f)(const struct td_command *c, void *ctx), void *ctx);

// Reports an error in the command line that only the command itself can see: prints "tandem NAME:
// message" and a pointer to --help on stderr. Returns 2.
int td_command_wrong(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Parses "30s", "1.5m" or "2h" into milliseconds. Refuses a number without a unit. TD_INVALID
// leaves *ret_ms untouched.
int td_duration_parse(const char *text, int64_t *ret_ms, struct td_error *err);
