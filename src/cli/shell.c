// tandem shell: runs a shell or a command in the Slurm login pod as one of its users, through kubectl
// exec (programs/shell.sh). The exit code is the command's own.
#include "base/embedded.h"
#include "base/mem.h"
#include "base/names.h"
#include "cli/common.h"
#include "cli/remote.h"
#include "cmd/roles.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct td_embedded td_cli_files[];

// Returns the name of a ready login pod; the caller frees it. NULL: there is none, as a message on
// stderr says.
static char *login_pod(struct td_kube *k, const char *ns, const char *cluster, const struct td_remote *remote)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_objects struct td_objects l = {0};
	td_auto_free char *labels = td_asprintf(TD_LABEL_NAME "=login%s%s", cluster ? "," TD_LABEL_CLUSTER "=" : "",
						cluster ? cluster : "");

	if (td_kube_list(k, &td_pods, ns, labels, NULL, NULL, &l, &err)) {
		fprintf(stderr, "tandem shell: %s\n", err.msg);
		return NULL;
	}

	for (size_t i = 0; i < l.n; i++) {
		yyjson_val *st = td_jget(l.v[i]->root, "status.containerStatuses.[0]");
		if (td_jbool(st, "ready", false) && !td_object_deleting(l.v[i]))
			return td_strdup(l.v[i]->name);
	}

	td_auto_free char *words = td_remote_words(remote), *at = td_cli_at(remote->kubeconfig);
	fprintf(stderr, "tandem shell: %s. See `tandem status%s` and `kubectl%s -n %s get pods`.\n",
		l.n       ? "the login pod is not running yet"
		: cluster ? "there is no login pod"
			  : "there is no login pod (was `tandem up` started with --no-slurm?)",
		words, at, ns);
	return NULL;
}

int td_shell_main(int argc, char **argv)
{
	struct td_remote remote = {0};
	struct td_error err = TD_ERROR_INIT;
	const char *user = "", *mine = getenv("SUDO_USER");
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

	td_auto_instance struct td_instance i = {0};
	td_auto(td_kube_free) struct td_kube *k = NULL;
	td_auto(td_object_unref) struct td_object *sc = NULL;
	if (remote.kubeconfig) {
		if (td_kube_new(remote.kubeconfig, &k, &err) || !(sc = td_remote_cluster(k, &remote, NULL, &err))) {
			fprintf(stderr, "tandem shell: %s\n", err.msg);
			return 1;
		}
	} else if (td_cli_open("shell", &i, &k)) {
		return 1;
	}

	const char *ns = sc ? sc->ns : "slurm";
	td_auto_free char *pod = login_pod(k, ns, sc ? sc->name : NULL, &remote),
			  *conf = sc ? td_strdup(remote.kubeconfig) : td_instance_kubeconfig(&i, "admin");

	if (!pod)
		return 1;

	td_auto_strv struct td_strv a = {0};
	td_strv_add(&a, "kubectl");
	td_strv_addf(&a, "--kubeconfig=%s", conf);
	td_strv_addf(&a, "--namespace=%s", ns);
	td_strv_add(&a, "exec");
	td_strv_add(&a, "--quiet");
	td_strv_add(&a, isatty(0) && isatty(1) ? "-it" : "-i");
	td_strv_add(&a, pod);
	td_strv_add(&a, "--");

	mine = mine ? mine : getenv("USER");
	const char *const program[] = {"sh", "-c", td_embedded(td_cli_files, "shell.sh")->text,
				       "sh", user, mine ? mine : ""};
	for (size_t n = 0; n < TD_LEN(program); n++)
		td_strv_add(&a, program[n]);
	for (char **w = words; *w; w++)
		td_strv_add(&a, *w);

	execvp(a.v[0], a.v);
	fprintf(stderr, "tandem shell: kubectl: %s. Run \"tools/setup\".\n", strerror(errno));
	return 1;
}
