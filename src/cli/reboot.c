#include "cli/reboot.h"

#include <string.h>

static const struct td_object *act_on(const struct td_objects *actions, const char *node)
{
	for (size_t i = 0; i < actions->n; i++) {
		yyjson_val *o = actions->v[i]->root;
		if (td_streq(td_jstr(o, "spec.node"), node) && td_streq(td_jstr(o, "status.phase"), "Running") &&
		    td_streq(td_jstr(o, "status.step"), "reboot"))
			return actions->v[i];
	}
	return NULL;
}

char *td_cli_rebooting(const struct td_objects *actions, const struct td_objects *pods, const char *node)
{
	static const char *const daemons[] = {"slurmctld", "slurmdbd", "slurmrestd"};
	const struct td_object *act = act_on(actions, node);
	td_auto_strv struct td_strv has = {0};
	td_auto_buf struct td_buf list = {0};
	if (!act)
		return NULL;
	for (size_t d = 0; d < TD_LEN(daemons); d++)
		for (size_t i = 0; i < pods->n; i++)
			if (td_streq(td_jstr(pods->v[i]->root, "spec.nodeName"), node) &&
			    td_streq(td_object_label(pods->v[i], "app.kubernetes.io/name"), daemons[d]) &&
			    !td_strv_has(&has, daemons[d]))
				td_strv_add(&has, daemons[d]);
	for (size_t i = 0; i < has.n; i++)
		td_buf_printf(&list, "%s%s", !i ? "" : i + 1 < has.n ? ", " : " and ", has.v[i]);
	return td_asprintf("node %s is rebooting (NodeAction %s)%s%s%s", node, act->name,
			   has.n ? ": Slurm answers when it is back, because " : "", list.len ? td_buf_str(&list) : "",
			   has.n == 1 ? " is there"
			   : has.n    ? " are there"
				      : "");
}
