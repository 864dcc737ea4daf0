// tandem env: prints shell lines for this home.
#include "base/options.h"
#include "cli/common.h"
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
	const struct td_command line = {.name = "env",
					.about = "Prints shell lines that set KUBECONFIG, PATH and TANDEM_HOME for "
						 "$TANDEM_HOME:\n  eval \"$(tandem env)\"",
					.exits = "0 printed, 1 nothing was ever started there, 2 wrong usage."};
	int code;
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;

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
