#include "cli/node_host.h"

#include "base/clock.h"
#include "cli/client.h"
#include "cli/host.h"
#include "cli/host_login.h"
#include "cli/nodeview.h"
#include "slurm/hostlist.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 500 };

bool td_cli_hosts_verb(const char *word)
{
	return !strcmp(word, "admit") || !strcmp(word, "dismiss");
}

static int dismissed(struct td_kube *k, const struct td_cli_hosts *q, const char *ns, const char *set,
		     const struct td_strv *names)
{
	struct td_error err = TD_ERROR_INIT;
	size_t left = 0, said = 0;
	int r = td_host_dismiss(k, ns, set, names, &err);
	do {
		if (r || (r = td_host_forget(k, ns, set, names, &left, &err)))
			return td_client_failed("node", &err);
		if (left && left != said && !q->output)
			fprintf(stderr, "%zu of %zu still have jobs, or Slurm a record of them.\n", left, names->n);
		said = left;
		if (left && q->wait)
			td_cancel_wait(NULL, LOOK_MS);
	} while (left && q->wait);
	if (!q->output && left)
		printf("They take no new jobs, and leave when those that run have ended: the same command again says "
		       "when, and takes their rights.\n");
	else if (!q->output)
		printf("Out of %s/%s.\n", ns, set);
	return 0;
}

// Login machines: no NodeSet names them, and nothing of them is waited for.
static int login(struct td_kube *k, const struct td_cli_hosts *q, bool in, const struct td_strv *names)
{
	struct td_error err = TD_ERROR_INIT;
	const char *cluster = strchr(q->login, '/') + 1;
	td_auto_free char *ns = td_strndup(q->login, (size_t)(cluster - 1 - q->login));
	int r = in ? td_host_login_admit(k, ns, cluster, names, &err)
		   : td_host_login_dismiss(k, ns, cluster, names, &err);
	if (r)
		return td_client_failed("node", &err);
	if (!q->output && in)
		printf("Admitted as login machines of %s. On each of them, as root: tandem host --login %s\n", q->login,
		       q->login);
	else if (!q->output)
		printf("No login machines of %s any more: their sackd ends, and the key goes, within a minute.\n",
		       q->login);
	return 0;
}

int td_cli_hosts_run(const struct td_cli_hosts *q, const char *verb, const char *hosts)
{
	const char *whose = q->nodeset ? q->nodeset : q->login, *slash = whose ? strchr(whose, '/') : NULL;
	td_auto_nodeview struct td_nodeview v = {0};
	td_auto_strv struct td_strv names = {0};
	struct td_error err = TD_ERROR_INIT;
	if (!hosts)
		return td_command_wrong("node", "%s which machines? Give a name or a hostlist such as n[1-8]", verb);
	if (!slash || slash == whose || !slash[1] || (q->nodeset && q->login))
		return td_command_wrong("node", "%s needs --nodeset NAMESPACE/NAME, or --login NAMESPACE/NAME", verb);
	if (td_hostlist_parse(hosts, &names, &err) || !names.n)
		return td_command_wrong("node", "%s \"%s\": %s", verb, hosts, err.msg);
	td_auto_free char *ns = td_strndup(whose, (size_t)(slash - whose));
	if (td_cli_nodes_open(&q->remote, &v, &err))
		return td_client_failed("node", &err);
	if (q->login)
		return login(v.kube, q, !strcmp(verb, "admit"), &names);
	if (!strcmp(verb, "dismiss"))
		return dismissed(v.kube, q, ns, slash + 1, &names);
	if (td_host_admit(v.kube, ns, slash + 1, &names, &err))
		return td_client_failed("node", &err);
	if (!q->output)
		printf("Admitted to %s/%s. On each of them, as root: tandem host --nodeset %s/%s\n", ns, slash + 1, ns,
		       slash + 1);
	return 0;
}
