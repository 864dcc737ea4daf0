// Command lines: one table of options for each role and command. Parsing, checks, messages and the help text all come
// from it.
//
//	const struct td_option options[] = {
//		{.name = "namespace", .letter = 'n', .value = "NS", .help = "where it runs", TD_OPT_TEXT(&o->ns),
//.required = true},
//		{.name = "gpus", .value = "N", .help = "GPUs of each node (default 8)", TD_OPT_INT(&o->gpus, 0, 64)},
//		{.name = "purge", .help = "removes the state too", TD_OPT_SWITCH(&o->purge)},
//	};
//	const struct td_command c = {.name = "up", .about = "Starts everything.", .options = options, .n =
// TD_LEN(options)}; 	if (!td_command_line(&c, argc, argv, NULL, &exit_code)) 		return exit_code;
//
// `--name VALUE`, `--name=VALUE`, `-l VALUE` and `-lVALUE` mean the same; `--` ends the options; `--help` and `-h`
// print the help. Names are whole: no abbreviations. An option may be given again: the last one counts, lists grow.
#pragma once

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdint.h>

enum td_option_kind {
	TD_OPTION_SWITCH,   // bool *: true when given
	TD_OPTION_TEXT,     // const char **: points into argv
	TD_OPTION_LIST,     // struct td_strv *: copies
	TD_OPTION_INT,      // int *: min to max
	TD_OPTION_DURATION, // int64_t *, milliseconds: "30s", "1.5m", "2h"; min to max in ms
	TD_OPTION_SECONDS,  // int *: whole seconds, "15" or "15s"; min to max
	TD_OPTION_LEVEL,    // enum td_log_level *
};

struct td_option {
	const char *name;  // without the dashes
	char letter;       // 0: none
	const char *value; // what the help calls its value; NULL for a switch
	const char *help;  // one or more lines; "\n" starts the next one, aligned
	enum td_option_kind kind;
	void *to;            // where the value goes, by kind; keeps its content when the option is not given
	int64_t min, max;    // INT, DURATION, SECONDS; both 0: no limits
	const char *choices; // TEXT: the allowed values, "json|yaml"; NULL: any
	bool required;       // an error when it is not given
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
	const char *name;  // as typed behind `tandem`: for messages and the help
	const char *usage; // the words behind the name in the first line of the help; NULL: made from the options
	const char *about; // what it does: whole lines of at most 100 columns, the last one without "\n"
	const struct td_option *options;
	size_t n;
	size_t min_args, max_args; // words besides the options; an error says which is missing or too many
	const char *args;          // what the help calls them, "POD"; NULL: none are taken
	bool rest; // the first word that is no option ends the options: it and what follows is a command of the user's
		   // own
	const char *exits; // "0 up, 1 failed, 2 wrong usage."; NULL: "0 done, 1 failed, 2 wrong usage."
};

// Parses argv[1]… into the places that the table names. *ret_args: the first of the words besides the options, *ret_n
// how many; they point into argv, which is reordered so that they stand together. *ret_help: --help was given; nothing
// else was checked then. TD_INVALID: the message names the option and what to give. Places may hold values of the
// options before the wrong one.
int td_options_parse(const struct td_command *c, int argc, char **argv, char ***ret_args, size_t *ret_n, bool *ret_help,
		     struct td_error *err);

// The text of `tandem NAME --help`, at most 100 columns wide where names are of usual length.
void td_options_help(const struct td_command *c, struct td_buf *ret);

// For main functions. true: go on. false: end with *ret_exit: 0 after --help (on stdout), 2 after an error (on stderr,
// with a pointer to --help). ret_args: NULL-terminated words besides the options; may be NULL where the command takes
// none.
bool td_command_line(const struct td_command *c, int argc, char **argv, char ***ret_args, int *ret_exit);

// An error in the command line that only the command itself can see: prints "tandem NAME: message" and the hint to
// --help on stderr. Returns 2.
int td_command_wrong(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// "30s", "1.5m", "2h" as milliseconds; a number alone is refused. TD_INVALID leaves *ret_ms untouched.
int td_duration_parse(const char *text, int64_t *ret_ms, struct td_error *err);
