#include "slurm/adopt.h"

#include "slurm/hostlist.h"

#include <string.h>

static const char *const phases[] = {"old", "leaving", "moved", "returning"};

#define TERMS "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

const char *td_adopt_phase_name(enum td_adopt_phase p)
{
	return phases[p];
}

char *td_adopt_write(const struct td_strv *hosts, enum td_adopt_phase p)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *list = td_hostlist_write(hosts);
	td_jm_str(d, root, "hosts", list);
	td_jm_str(d, root, "phase", phases[p]);
	return td_json_mut_text(root, NULL);
}

int td_adopt_read(const yyjson_val *set, struct td_strv *ret_hosts, enum td_adopt_phase *ret, struct td_error *err)
{
	const char *name = td_jstr_or(set, "metadata.name", "?"),
		   *text = td_jkey_str(td_jget(set, "metadata.annotations"), TD_ANN_ADOPT);
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_strv struct td_strv hosts = {0};
	if (!text)
		return td_fail(err, TD_INVALID,
			       "NodeSet %s has no annotation " TD_ANN_ADOPT ": it is none that `tandem adopt plan` has "
			       "written",
			       name);
	if (td_json_parse(text, strlen(text), &j, NULL) ||
	    td_hostlist_parse(td_jstr_or(td_json_root(j), "hosts", ""), &hosts, NULL) || !hosts.n)
		return td_fail(err, TD_INVALID, "NodeSet %s: annotation " TD_ANN_ADOPT " names no hosts", name);
	for (size_t i = 0; i < TD_LEN(phases); i++)
		if (td_streq(td_jstr(td_json_root(j), "phase"), phases[i])) {
			*ret = (enum td_adopt_phase)i;
			*ret_hosts = hosts;
			hosts = (struct td_strv){0};
			return 0;
		}
	return td_fail(err, TD_INVALID, "NodeSet %s: annotation " TD_ANN_ADOPT " has no phase that is known", name);
}

void td_slurm_adopt(struct td_slurm_import *x)
{
	for (size_t i = 0; i < x->n; i++) {
		yyjson_val *o = td_json_root(x->v[i]), *v;
		if (!td_streq(td_jstr(o, "kind"), "NodeSet"))
			continue;
		td_auto_strv struct td_strv hosts = {0};
		size_t k, n;
		yyjson_arr_foreach (td_jget(o, TERMS ".[0].matchExpressions.[0].values"), k, n, v)
			td_strv_add(&hosts, yyjson_get_str(v));
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(o);
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		td_auto_free char *text = td_adopt_write(&hosts, TD_ADOPT_OLD);
		td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_ADOPT, text);
		td_jm_del(td_jm_get(root, "spec"), "affinity");
		td_jm_arr(d, root, "spec.hosts");
		td_json_unref(x->v[i]);
		x->v[i] = td_json_from_mut(root);
	}
}

bool td_adopt_node_read(const char *line, char ret_name[64], struct td_adopt_node *ret)
{
	const char *state = strchr(line, '|'), *reason = state ? strchr(state + 1, '|') : NULL;
	size_t n = state ? (size_t)(state - line) : 0;
	if (!reason || !n || n >= 64)
		return false;
	memcpy(ret_name, line, n);
	ret_name[n] = '\0';
	ret->drained = td_starts(state + 1, "drain");
	ret->ours = ret->drained && td_starts(reason + 1, TD_REASON_ADOPT);
	ret->silent = reason[-1] == '*';
	return true;
}
