// Says on a waiting pod why it waits: condition PodScheduled=False with Slurm's reason in plain
// words.
#include "bridge/scheduler/gang.h"
#include "bridge/scheduler/run.h"

#include "api/condition.h"

#include <string.h>

enum { AGAIN_MS = 10000, FAR_S = 300 * 86400 };

char *td_ask_waits_text(const struct td_ask *a, int64_t now_s)
{
	td_auto_buf struct td_buf b = {0};
	const char *words = td_pool_reason_words(a->reason, a->size > 1 ? 2 : 1), *r = a->reason ? a->reason : "";

	if (a->beyond)
		td_buf_printf(&b, "It is beyond the minimum of %lld of its gang, which runs. ", (long long)a->beyond);
	if (a->size)
		td_buf_printf(&b, "All %zu members of its gang%s%s%s wait in Slurm's queue as job %lld", a->size,
			      a->roles ? " (" : "", a->roles ? a->roles : "", a->roles ? ")" : "", (long long)a->job);
	else
		td_buf_printf(&b, "It waits in Slurm's queue as job %lld", (long long)a->job);
	if (!*r || !strcmp(r, "None"))
		td_buf_puts(&b, ".");
	else if (words)
		td_buf_printf(&b, ": %s (%s).", words, r);
	else
		td_buf_printf(&b, ": %s.", r);

	// A job without a time limit before it puts the expected start a year away: that says
	// nothing.
	if (a->expect > now_s && a->expect - now_s < FAR_S) {
		char t[TD_TIME_LEN];
		td_buf_printf(&b, " Slurm expects to start it at %s.",
			      td_time_format((a->expect + 59) / 60 * 60 * 1000, t));
	}

	return td_buf_take(&b);
}

bool td_bridge_run_says(const struct td_object *pod, const char *text)
{
	yyjson_val *cond = td_condition(pod->root, "PodScheduled");
	return cond && td_streq(td_jstr(cond, "status"), "False") && td_streq(td_jstr(cond, "message"), text);
}

int td_bridge_run_show(struct td_bridge_run *r, const char *reason, const char *text, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	struct td_ask_pod *p = r->p;
	const struct td_object *pod = r->pod;
	int64_t now = td_now(b);

	if (r->gang)
		return td_gang_show(r, reason, text, err);
	if (td_streq(p->said, text) || (p->said && now - p->said_ms < AGAIN_MS && !a->refused))
		return 0;

	yyjson_val *cond = td_condition(pod->root, "PodScheduled");
	p->said_ms = now;
	td_ask_str(b->asks, &p->said, text);
	if (td_bridge_run_says(pod, text) && td_streq(td_jstr(cond, "reason"), reason))
		return 0;

	const struct td_condition_want w = {
		.type = "PodScheduled", .status = "False", .reason = reason, .message = text};
	int k = td_kube_pod_condition(b->kube, pod, &w, b->clock, r->c, err);
	// The pod is gone, or another one has its name: the watch will tell.
	if (k == TD_NOT_FOUND || k == TD_CONFLICT)
		return 0;
	if (k)
		p->said_ms = 0;
	return k ? td_wrap(err, "saying on pod %s/%s why it waits", pod->ns, pod->name) : 0;
}
