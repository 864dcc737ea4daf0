// Types of devices that no node has: such a pod is refused with those that there are.
#include "bridge/cuts.h"
#include "bridge/scheduler/run.h"
#include "bridge/scheduler/want.h"

#include "api/condition.h"
#include "slurm/hostlist.h"
#include "slurm/view.h"

#include <string.h>

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// The types of a kind ("gpu:h100") that nodes have, each once and sorted. True: its own is one of them.
static bool is_there(const struct td_slurm_nodes *l, const char *kind, struct td_strv *ret)
{
	size_t len = strcspn(kind, ":");
	for (size_t i = 0; i < l->n; i++) {
		struct td_gres g[16];
		size_t n = 0;
		if (td_gres_parse(l->v[i].gres, g, TD_LEN(g), &n, NULL))
			continue;
		for (size_t k = 0; k < n; k++)
			if (*g[k].type && strlen(g[k].name) == len && !strncmp(g[k].name, kind, len) &&
			    !td_strv_has(ret, g[k].type))
				td_strv_add(ret, g[k].type);
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(char *), by_text);
	return td_strv_has(ret, kind + len + 1);
}

int td_want_types(const struct td_slurm_nodes *nodes, const struct td_want *w, struct td_error *err)
{
	for (int i = 0; i < TD_POOL_KINDS && w->kinds[i]; i++) {
		const char *kind = w->kinds[i], *type = strchr(kind, ':');
		td_auto_strv struct td_strv there = {0};
		if (!type || is_there(nodes, kind, &there))
			continue;
		td_auto_buf struct td_buf list = {0};
		for (size_t k = 0; k < there.n; k++)
			td_buf_printf(&list, "%s%s", k ? ", " : "", there.v[k]);
		return td_fail(err, TD_INVALID, "no node has %.*s of the type %.63s: %s%s", (int)(type - kind), kind,
			       type + 1, list.len ? "there are " : "Slurm knows no types of them", td_buf_str(&list));
	}
	return 0;
}

// Parts that no node has, but a GPU may be cut in: the pod waits for that.
static bool cut_comes(struct td_bridge *b, const struct td_ask *a, const struct td_object *pod,
		      const struct td_slurm_nodes *nodes, const struct td_want *w)
{
	for (int i = 0; i < TD_POOL_KINDS && w->kinds[i]; i++) {
		td_auto_strv struct td_strv there = {0};
		const char *type = strchr(w->kinds[i], ':');
		int64_t made = a->seen_ms;
		if (!type || !td_gres_is_part(type + 1) || is_there(nodes, w->kinds[i], &there))
			continue;
		td_time_parse(td_jstr_or(pod->root, "metadata.creationTimestamp", ""), &made);
		const struct td_cuts_note n = {.kind = type + 1,
					       .n = w->pool.gres[i],
					       .since_s = made / 1000,
					       .partition = w->ask.partition,
					       .ask = a->uid,
					       .pod = pod->uid,
					       .ns = pod->ns};
		return td_cuts_wait(b, &n);
	}
	return false;
}

int td_ask_types(const struct td_bridge_run *run, const struct td_object *pod, const struct td_want *w,
		 struct td_error *err)
{
	struct td_bridge *b = run->b;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	int r = snap && snap->nodes.n ? td_want_types(&snap->nodes, w, err) : 0;
	if (r == TD_INVALID && cut_comes(b, run->a, pod, &snap->nodes, w)) {
		td_auto_buf struct td_buf t = {0};
		td_cuts_words(b, 0, run->a->uid, &t);
		// One sentence, " It waits for …: ….", becomes part of another one.
		return t.len > 2 ? td_fail(err, TD_NOT_FOUND, "%.*s", (int)t.len - 2, td_buf_str(&t) + 1)
				 : td_fail(err, TD_NOT_FOUND, "a GPU is to be cut for it");
	}
	if (!r && w->share && !b->o.own_kubelet)
		r = td_fail(err, TD_INVALID,
			    "annotation " TD_ANN_ASK_PREFIX "gpu-share: the kubelets here give out whole devices only: "
			    "leave it out (native jobs may have a part of a GPU)");
	return r || !snap || !snap->nodes.n ? r : td_want_shares_there(&snap->nodes, w, err);
}
