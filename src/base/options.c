// Command lines from a table: parsing, checks and the help text.
#include "base/options.h"

#include "base/near.h"

#include <stdio.h>
#include <string.h>

// The columns for names in the help, where the text of a longer name starts on the next line; and all
// columns, which are those of a terminal that nobody has widened.
enum { HELP_WIDTH = 24, COLUMNS = 80 };

// ---- values ----

int td_duration_parse(const char *text, int64_t *ret_ms, struct td_error *err)
{
	char *end = NULL;
	double unit = 0, v = *text >= '0' && *text <= '9' ? strtod(text, &end) : 0;
	if (end)
		unit = !strcmp(end, "s") ? 1000 : !strcmp(end, "m") ? 60000 : !strcmp(end, "h") ? 3600000 : 0;
	if (unit == 0 || v > 1e6)
		return td_fail(err, TD_INVALID, "\"%s\" is not a time such as 30s, 5m or 2h", text);

	*ret_ms = (int64_t)(v * unit);
	return 0;
}

static bool is_choice(const char *choices, const char *text)
{
	td_auto_strv struct td_strv all = {0};
	td_strv_split(&all, choices, '|');
	return td_strv_has(&all, text);
}

static int read_number(const struct td_option *o, const char *text, struct td_error *err)
{
	bool seconds = o->kind == TD_OPTION_SECONDS, bounded = o->min || o->max;
	size_t len = strlen(text);
	td_auto_free char *digits = td_strndup(text, seconds && td_ends(text, "s") ? len - 1 : len);
	long long v;

	if (td_parse_i64(digits, &v) && v >= (bounded ? o->min : INT32_MIN) && v <= (bounded ? o->max : INT32_MAX)) {
		*(int *)o->to = (int)v;
		return 0;
	}

	if (!bounded)
		return td_fail(err, TD_INVALID, "--%s is \"%s\": give a number", o->name, text);
	return td_fail(err, TD_INVALID, "--%s is \"%s\": give %s from %lld to %lld", o->name, text,
		       seconds ? "whole seconds" : "a number", (long long)o->min, (long long)o->max);
}

static int read_value(const struct td_option *o, char *text, struct td_error *err)
{
	switch (o->kind) {
	case TD_OPTION_SWITCH:
		*(bool *)o->to = true;
		return 0;
	case TD_OPTION_TEXT:
		if (o->choices && !is_choice(o->choices, text))
			return td_fail(err, TD_INVALID, "--%s is \"%s\": give one of %s", o->name, text, o->choices);
		*(const char **)o->to = text;
		return 0;
	case TD_OPTION_LIST:
		td_strv_add(o->to, text);
		return 0;
	case TD_OPTION_INT:
	case TD_OPTION_SECONDS:
		return read_number(o, text, err);
	case TD_OPTION_DURATION:
		return td_duration_parse(text, o->to, err) ? td_wrap(err, "--%s", o->name) : 0;
	case TD_OPTION_LEVEL: {
		int level = td_log_level_parse(text);
		if (level < 0)
			return td_fail(err, TD_INVALID, "--%s is \"%s\": give debug, info, warn or error", o->name,
				       text);
		*(enum td_log_level *)o->to = (enum td_log_level)level;
		return 0;
	}
	}
	return td_fail(err, TD_INTERNAL, "--%s has no kind", o->name);
}

// ---- parsing ----

// Finds the option that `arg` names, and its value where that is part of `arg` ("--name=VALUE",
// "-lVALUE"). Returns NULL when there is no such option.
static const struct td_option *find(const struct td_command *c, char *arg, char **ret_value)
{
	*ret_value = NULL;
	bool is_long = arg[1] == '-';
	char *equals = is_long ? strchr(arg, '=') : NULL;
	size_t len = equals ? (size_t)(equals - arg) - 2 : strlen(arg) - (is_long ? 2 : 0);

	for (size_t i = 0; i < c->n; i++) {
		const struct td_option *o = &c->options[i];
		if (is_long && strlen(o->name) == len && !strncmp(o->name, arg + 2, len)) {
			*ret_value = equals ? equals + 1 : NULL;
			return o;
		}
		if (!is_long && o->letter && arg[1] == o->letter && (!arg[2] || o->value)) {
			*ret_value = arg[2] ? arg + 2 : NULL;
			return o;
		}
	}
	return NULL;
}

// The name of an option that a mistyped one is close to; "": none is.
static const char *close_to(const struct td_command *c, const char *arg)
{
	td_auto_free const char **names = td_calloc(c->n + 1, sizeof(*names));
	td_auto_free char *typed = td_strndup(arg, strcspn(arg, "="));
	if (!td_starts(typed, "--") || !typed[2])
		return "";
	for (size_t i = 0; i < c->n; i++)
		if (td_starts(c->options[i].name, typed + 2))
			return c->options[i].name;
	for (size_t i = 0; i < c->n; i++)
		names[i] = c->options[i].name;
	const char *near = td_nearest(typed + 2, names, c->n);
	return near ? near : "";
}

static int check_words(const struct td_command *c, char **args, size_t n, struct td_error *err)
{
	const char *wanted = c->args ? c->args : "an argument";
	if (n > c->max_args && !c->rest)
		return td_fail(err, TD_INVALID, "\"%s\" is one word too many: it takes %s", args[c->max_args],
			       c->max_args ? wanted : "options only");
	if (n < c->min_args)
		return td_fail(err, TD_INVALID, strchr(wanted, '|') ? "say what: %s" : "%s is missing", wanted);
	return 0;
}

int td_options_parse(const struct td_command *c, int argc, char **argv, char ***ret_args, size_t *ret_n, bool *ret_help,
		     struct td_error *err)
{
	td_auto_free bool *given = td_calloc(c->n + 1, sizeof(bool));
	size_t n = 0; // words so far: they move to argv[1]…
	bool ended = false;

	for (int i = 1; i < argc; i++) {
		char *arg = argv[i], *value;
		if (ended || arg[0] != '-' || !arg[1]) {
			argv[1 + n++] = arg;
			ended = ended || c->rest;
			continue;
		}
		if (!strcmp(arg, "--")) {
			ended = true;
			continue;
		}
		if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
			*ret_help = true;
			return 0;
		}

		const struct td_option *o = find(c, arg, &value);
		if (!o) {
			const char *near = close_to(c, arg);
			return td_fail(err, TD_INVALID, "there is no option %s%s%s%s", arg,
				       *near ? " (do you mean --" : "", near, *near ? "?)" : "");
		}
		if (!o->value && value)
			return td_fail(err, TD_INVALID, "--%s takes no value", o->name);
		if (o->value && !value) {
			if (i + 1 >= argc)
				return td_fail(err, TD_INVALID, "--%s needs a value: %s", o->name, o->value);
			value = argv[++i];
		}
		int r = read_value(o, value, err);
		if (r)
			return r;
		given[o - c->options] = true;
	}

	for (size_t i = 0; i < c->n; i++)
		if (c->options[i].required && !given[i])
			return td_fail(err, TD_INVALID, "--%s %s is missing", c->options[i].name, c->options[i].value);
	int r = check_words(c, argv + 1, n, err);
	if (r)
		return r;

	if ((int)n + 1 < argc)
		// This was the place of an option, which nobody needs any more.
		argv[1 + n] = NULL;
	*ret_args = argv + 1;
	*ret_n = n;
	*ret_help = false;
	return 0;
}

// ---- help ----

static void synopsis(const struct td_command *c, struct td_buf *ret)
{
	td_buf_printf(ret, "usage: tandem %s", c->name);
	if (c->usage) {
		td_buf_printf(ret, " %s\n", c->usage);
		return;
	}

	bool more = false;
	for (size_t i = 0; i < c->n; i++) {
		if (c->options[i].required)
			td_buf_printf(ret, " --%s %s", c->options[i].name, c->options[i].value);
		else
			more = true;
	}
	td_buf_puts(ret, more ? " [OPTION…]" : "");
	if (c->args)
		td_buf_printf(ret, c->min_args ? " %s" : " [%s]", c->args);
	td_buf_putc(ret, '\n');
}

// Appends words, broken at COLUMNS; the cursor is at column `at`, further lines begin at `indent`.
static void words(struct td_buf *ret, const char *text, size_t at, size_t indent)
{
	td_auto_strv struct td_strv all = {0};
	td_strv_split(&all, text, ' ');
	for (size_t i = 0; i < all.n; i++) {
		size_t len = strlen(all.v[i]);
		if (i && at + 1 + len > COLUMNS) {
			td_buf_printf(ret, "\n%*s", (int)indent, "");
			at = indent;
		} else if (i) {
			td_buf_putc(ret, ' ');
			at++;
		}
		td_buf_puts(ret, all.v[i]);
		at += len;
	}
	td_buf_putc(ret, '\n');
}

// Appends paragraphs. Lines that begin with a space stand for themselves, such as examples.
static void paragraphs(struct td_buf *ret, const char *text)
{
	td_auto_buf struct td_buf p = {0};
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		size_t n = strcspn(line, "\n");
		bool plain = n && *line != ' ';
		if (plain) {
			td_buf_puts(&p, p.len ? " " : "");
			td_buf_add(&p, line, n);
		}
		if (p.len && (!plain || !line[n])) {
			words(ret, td_buf_str(&p), 0, 0);
			td_buf_reset(&p);
		}
		if (!plain) {
			td_buf_add(ret, line, n);
			td_buf_putc(ret, '\n');
		}
	}
}

static void describe(const struct td_option *o, struct td_buf *ret)
{
	size_t start = ret->len;
	td_buf_puts(ret, "  ");
	if (o->letter)
		td_buf_printf(ret, "-%c, ", o->letter);
	td_buf_printf(ret, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");

	size_t used = ret->len - start;
	if (o->help && used + 2 > HELP_WIDTH) {
		td_buf_putc(ret, '\n');
		used = 0;
	}
	if (o->help)
		td_buf_printf(ret, "%*s", (int)(HELP_WIDTH - used), "");

	td_auto_free char *text = td_strdup(o->help ? o->help : "");
	for (char *c = text; *c; c++)
		*c = *c == '\n' ? ' ' : *c;
	words(ret, text, HELP_WIDTH, HELP_WIDTH);
}

void td_options_help(const struct td_command *c, struct td_buf *ret)
{
	synopsis(c, ret);
	td_buf_putc(ret, '\n');
	paragraphs(ret, c->about);
	td_buf_putc(ret, '\n');
	for (size_t i = 0; i < c->n; i++)
		describe(&c->options[i], ret);
	td_auto_free char *exits =
		td_asprintf("Exit codes: %s", c->exits ? c->exits : "0 done, 1 failed, 2 wrong usage.");
	td_buf_puts(ret, c->n ? "\n" : "");
	words(ret, exits, 0, 0);
}

int td_command_wrong(const char *name, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "tandem %s: ", name);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n`tandem %s --help` says more.\n", name);
	va_end(ap);
	return 2;
}

static void (*reveal)(const struct td_command *c, void *ctx);
static void *reveal_ctx;

void td_command_reveal(void (*f)(const struct td_command *c, void *ctx), void *ctx)
{
	reveal = f;
	reveal_ctx = ctx;
}

bool td_command_line(const struct td_command *c, int argc, char **argv, char ***ret_args, int *ret_exit)
{
	struct td_error err = TD_ERROR_INIT;
	char **args;
	size_t n;
	bool help = false;

	if (reveal) {
		reveal(c, reveal_ctx);
		*ret_exit = 0;
		return false;
	}
	if (td_options_parse(c, argc, argv, &args, &n, &help, &err)) {
		*ret_exit = td_command_wrong(c->name, "%s", err.msg);
		return false;
	}
	if (help) {
		td_auto_buf struct td_buf text = {0};
		td_options_help(c, &text);
		fputs(td_buf_str(&text), stdout);
		*ret_exit = 0;
		return false;
	}

	if (ret_args)
		*ret_args = args;
	return true;
}
