#include "cli/node_host.h"

#include "base/clock.h"
#include "cli/client.h"
#include "cli/host.h"
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

int td_cli_hosts_run(const struct td_cli_hosts *q, const char *verb, const char *hosts)
{
	const char *slash = q->nodeset ? strchr(q->nodeset, '/') : NULL;
	td_auto_nodeview struct td_nodeview v = {0};
	td_auto_strv struct td_strv names = {0};
	struct td_error err = TD_ERROR_INIT;
	if (!hosts)
		return td_command_wrong("node", "%s which machines? Give a name or a hostlist such as n[1-8]", verb);
	if (!slash || slash == q->nodeset || !slash[1])
		return td_command_wrong("node", "%s needs --nodeset NAMESPACE/NAME", verb);
	if (td_hostlist_parse(hosts, &names, &err) || !names.n)
		return td_command_wrong("node", "%s \"%s\": %s", verb, hosts, err.msg);
	td_auto_free char *ns = td_strndup(q->nodeset, (size_t)(slash - q->nodeset));
	if (td_cli_nodes_open(&q->remote, &v, &err))
		return td_client_failed("node", &err);
	if (!strcmp(verb, "dismiss"))
		return dismissed(v.kube, q, ns, slash + 1, &names);
	if (td_host_admit(v.kube, ns, slash + 1, &names, &err))
		return td_client_failed("node", &err);
	if (!q->output)
		printf("Admitted to %s/%s. On each of them, as root: tandem host --nodeset %s/%s\n", ns, slash + 1, ns,
		       slash + 1);
	return 0;
}
