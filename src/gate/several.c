// The test of several nodes before a job: the agent says whether a policy wants it, and keeps what the nodes' servers
// (standin/peer.h) say of this node.
#include "gate/preflight_priv.h"

#include "metrics/metrics.h"

#include <stdio.h>
#include <string.h>

// Who is to blame says so every few seconds, until all is well.
enum { SAID_MS = 60000 };

static const char *const results[] = {"passed", "failed", "error"};

void td_preflight_count_several(const char *node, const char *result, double n)
{
	for (size_t i = 0; i < TD_LEN(results); i++)
		if (!strcmp(results[i], result))
			td_metric_add(td_counter(td_metrics_process(), "tandem_preflight_exchanges_total",
						 "Tests of several nodes together before a job, by the node that led; "
						 "result: passed, failed, or error (no test took place).",
						 TD_LABELS("node", "result")),
				      n, TD_LABELS(node, result));
}

int td_preflight_several(struct td_preflight *p, const struct td_preflight_ask *q, const char *result, char **ret,
			 struct td_error *err)
{
	auto_preflight_policy struct td_preflight_policy policy = {0};
	*ret = NULL;
	if (*result) {
		td_preflight_count_several(p->o.names[q->node], result, 1);
		return 0;
	}
	bool wanted;
	if (!td_preflight_policy_read(p, q->node, &policy) || !policy.kib)
		return 0;
	int r = td_preflight_wants(&policy, q, &wanted, err);
	if (r || !wanted)
		return r;
	*ret = td_asprintf("kib=%lld tries=%lld say=%d storage=%s", policy.kib, policy.tries, policy.say,
			   policy.storage ? policy.storage : "");
	return 0;
}

bool td_preflight_suspect(struct td_preflight *p, int node, const struct td_preflight_suspicion *s)
{
	auto_preflight_policy struct td_preflight_policy policy = {0};
	bool say = td_preflight_policy_read(p, node, &policy) && policy.say;
	pthread_mutex_lock(&p->mu);
	struct td_preflight_node *n = &p->node[node];
	bool new = s->bad && !n->blamed;
	n->blamed = s->bad;
	n->by_storage = s->storage;
	n->blamed_ms = td_mono_ms(p->o.clock);
	n->blamed_job = s->job;
	snprintf(n->blamed_why, sizeof(n->blamed_why), "%s", s->why);
	for (char *t = n->blamed_why; *t; t++)
		if (*t == '_' || (unsigned char)*t < ' ')
			*t = ' ';
	pthread_mutex_unlock(&p->mu);
	return new && !say && s->job; // without a job nobody waits until the node is out
}

void td_preflight_several_findings(struct td_preflight *p, int node, struct td_checkup_findings *ret)
{
	pthread_mutex_lock(&p->mu);
	struct td_preflight_node *n = &p->node[node];
	if (n->blamed && td_mono_ms(p->o.clock) - n->blamed_ms > SAID_MS)
		n->blamed = false;
	if (n->blamed && ret->n < TD_HEALTH_FINDINGS) {
		const struct td_checkup_check *check =
			td_checkup_check_named(n->by_storage ? "shared-storage" : "exchange");
		struct td_checkup_finding *f = &ret->v[ret->n++];
		*f = (struct td_checkup_finding){.action = check->action};
		snprintf(f->check, sizeof(f->check), "%s", check->name);
		snprintf(f->condition, sizeof(f->condition), "%s", check->condition);
		if (n->blamed_job)
			snprintf(f->message, sizeof(f->message), "pre-flight of job %lld failed: %.110s",
				 (long long)n->blamed_job, n->blamed_why);
		else
			snprintf(f->message, sizeof(f->message), "its test with others while idle failed: %.100s",
				 n->blamed_why);
	}
	pthread_mutex_unlock(&p->mu);
}
