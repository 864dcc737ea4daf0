// tandem shell: runs a shell or a command in the Slurm login pod as one of its users, through kubectl
// exec (programs/shell.sh). The exit code is the command's own.
#include "base/mem.h"
#include "cli/loginpod.h"
#include "cmd/roles.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int td_shell_main(int argc, char **argv)
{
	struct td_remote remote = {0};
	struct td_error err = TD_ERROR_INIT;
	const char *user = "";
	char **words;
	int code;
	// Whether "--" stands before the first word of the command. Every option here takes a value.
	int at = 1;
	while (at < argc && argv[at][0] == '-' && strcmp(argv[at], "--"))
		at += strchr(argv[at], '=') || (argv[at][1] != '-' && argv[at][1] && argv[at][2]) ? 1 : 2;
	bool dashes = at < argc && !strcmp(argv[at], "--");

	const struct td_option options[] = {
		{.name = "user",
		 .letter = 'u',
		 .value = "NAME",
		 .help = "who to be there (default: you, if the cluster has a user of your name, else\n"
			 "the first of spec.users); root is Slurm's administrator",
		 TD_OPT_TEXT(&user)},
		TD_REMOTE_OPTIONS(&remote),
	};
	const struct td_command line = {
		.name = "shell",
		.usage = "[OPTION…] [-- COMMAND [ARG…]]",
		.about = "Opens a shell in the Slurm login pod, or runs a command there, as an ordinary user in\n"
			 "his home:\n"
			 "  tandem shell -- srun -N2 hostname\n"
			 "  tandem shell --user root -- scontrol update nodename=n0 state=resume\n"
			 "Standard input is passed on.",
		.options = options,
		.n = TD_LEN(options),
		.rest = true,
		.exits = "the command's own; 1 when the login pod cannot be reached, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (td_remote_check(&remote, &err))
		return td_command_wrong("shell", "%s", err.msg);
	if (words[0] && !dashes) {
		td_auto_free char *flags = td_remote_words(&remote);
		return td_command_wrong("shell", "write \"--\" before the command: tandem shell%s%s%s -- %s",
					*user ? " --user " : "", user, flags, words[0]);
	}

	td_auto_login struct td_cli_login l = {0};
	if (td_cli_login_open("shell", &remote, &l))
		return 1;

	td_auto_strv struct td_strv a = {0};
	td_cli_login_as(&l, isatty(0) && isatty(1) ? "-it" : "-i", user, &a);
	for (char **w = words; *w; w++)
		td_strv_add(&a, *w);

	execvp(a.v[0], a.v);
	fprintf(stderr, "tandem shell: kubectl: %s. Run \"tools/setup\".\n", strerror(errno));
	return 1;
}
