// tandem env: prints shell lines for this home; `tandem env list|delete` is envs.c.
#include "base/options.h"
#include "cli/common.h"
#include "cli/envs.h"
#include "cmd/roles.h"
#include "local/supervise.h"

#include <stdio.h>
#include <string.h>

// Prints one line for a POSIX shell, with the value in single quotes.
static void quoted(const char *name, const char *value, const char *tail)
{
	printf("export %s='", name);
	for (; *value; value++)
		if (*value == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*value);
	printf("'%s\n", tail);
}

int td_env_main(int argc, char **argv)
{
	const char *output = NULL;
	char **words;
	int code;
	const struct td_option options[] = {{.name = "output",
					     .letter = 'o',
					     .value = "FORMAT",
					     .help = "of list; json: for machines",
					     TD_OPT_TEXT(&output),
					     .choices = "json"}};
	const struct td_command line = {.name = "env",
					.usage = "| env list [-o json] | env delete KEY",
					.about =
						"Prints shell lines that set KUBECONFIG, PATH and TANDEM_HOME for "
						"$TANDEM_HOME:\n  eval \"$(tandem env)\"\n"
						"`list` shows the Python environments that your runs have made on the "
						"cluster, with their last use; `delete` removes one. The next run that "
						"needs it has it made anew.",
					.options = options,
					.n = TD_LEN(options),
					.max_args = 2,
					.args = "list|delete",
					.choices = "list|delete",
					.exits = "0 done, 1 failed (nothing was ever started there), 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (words[0] && strcmp(words[0], "list") != 0 && strcmp(words[0], "delete") != 0)
		return td_command_wrong("env", "\"%s\": give list, delete or nothing", words[0]);
	if (words[0] && !strcmp(words[0], "delete") != !!words[1])
		return td_command_wrong("env", words[1] ? "list takes no KEY" : "delete: which one?");
	if (words[0])
		return td_cli_envs(words[0], words[1], output != NULL);

	struct td_error err = TD_ERROR_INIT;
	td_auto_instance struct td_instance i = {0};
	if (td_instance_load(&i, &err)) {
		fprintf(stderr, "tandem env: %s\n", err.msg);
		return 1;
	}

	td_auto_free char *conf = td_instance_kubeconfig(&i, "admin"), *self = td_self_path();
	char *slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';

	quoted("TANDEM_HOME", i.home, "");
	quoted("KUBECONFIG", conf, "");
	quoted("PATH", self, ":\"$PATH\"");
	return 0;
}
