// tandem completion: completion for a shell (programs/completion.*), with a table of all commands and
// options. A row is COMMAND|OPTION|LETTER|VALUE|CHOICES|HELP; that of the command itself has no
// option. Choices are separated by spaces.
#include "base/embedded.h"
#include "base/mem.h"
#include "base/options.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <string.h>

extern const struct td_embedded td_cli_files[];

struct rows {
	struct td_buf text;
	const struct td_cmd *of;
};

// Appends a text to a row: its first line, without what a quoted string of some shell cannot hold.
static void add(struct td_buf *b, const char *text)
{
	for (const char *p = text ? text : ""; *p && *p != '\n'; p++) {
		if (*p == '\'')
			td_buf_puts(b, "’");
		else if (*p != '\\')
			td_buf_putc(b, *p);
	}
}

static void row(struct rows *r, const struct td_option *o, const char *choices, const char *help)
{
	td_buf_printf(&r->text, "%s|%s|%.1s|", r->of->name, o ? o->name : "", o ? &o->letter : "");
	add(&r->text, o ? o->value : NULL);
	td_buf_putc(&r->text, '|');
	size_t at = r->text.len;
	add(&r->text, choices);
	for (; at < r->text.len; at++)
		if (r->text.s[at] == '|')
			r->text.s[at] = ' ';
	td_buf_putc(&r->text, '|');
	add(&r->text, help);
	td_buf_putc(&r->text, '\n');
}

static void add_command(const struct td_command *c, void *ctx)
{
	struct rows *r = ctx;
	row(r, NULL, c->choices, r->of->help);
	for (size_t i = 0; i < c->n; i++)
		row(r, &c->options[i], c->options[i].choices, c->options[i].help);
}

int td_cli_completion(int argc, char **argv, const struct td_cmd *roles, size_t n)
{
	static const char shells[] = "bash|zsh|fish";
	const struct td_command line = {
		.name = "completion",
		.about = "Prints completion of commands and options for a shell. In its start file:\n"
			 "  bash   eval \"$(tandem completion bash)\"\n"
			 "  zsh    source <(tandem completion zsh)      (after compinit)\n"
			 "  fish   tandem completion fish | source",
		.min_args = 1,
		.max_args = 1,
		.args = "bash|zsh|fish",
		.choices = shells};
	char **words;
	int code;
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;

	td_auto_strv struct td_strv known = {0};
	td_strv_split(&known, shells, '|');
	if (!td_strv_has(&known, words[0]))
		return td_command_wrong("completion", "\"%s\": give one of %s", words[0], shells);

	td_auto_buf struct td_buf all = {0};
	struct rows r = {0};
	td_command_reveal(add_command, &r);
	for (size_t i = 0; i < n; i++) {
		char *alone[] = {(char *)(uintptr_t)roles[i].name, NULL};
		r.of = &roles[i];
		if (roles[i].help && !roles[i].serves)
			roles[i].main(1, alone);
	}
	r.of = &(struct td_cmd){.name = "help", .help = "what a command does"};
	row(&r, NULL, NULL, r.of->help);

	td_auto_free char *name = td_asprintf("completion.%s", words[0]);
	const char *script = td_embedded(td_cli_files, name)->text, *at = strstr(script, "@TABLE@");
	td_buf_add(&all, script, (size_t)(at - script));
	td_buf_add(&all, r.text.s, r.text.len - 1);
	td_buf_puts(&all, at + strlen("@TABLE@"));
	td_buf_done(&r.text);
	return fputs(td_buf_str(&all), stdout) < 0 ? 1 : 0;
}
