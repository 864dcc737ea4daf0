// Asks a policy of the site's own (tandem/policy.h) in a process of its own (host.c).
//
// Nothing that it does is believed: it may crash, hang or answer nonsense. Then its policy does not
// count for a while, and its jobs wait in Slurm's own order. It is asked again only when the jobs have
// changed, or the last answer is old.
#include "bridge/policy/policies.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ANSWER_MS = 5000, OLD_MS = 30000, AGAIN_MS = 30000 };

static void job_line(struct td_buf *b, const struct td_policies_known *k, int64_t urgency)
{
	const char *words[] = {k->user, k->account, k->qos, k->partition};
	td_buf_printf(b, "%" PRId64 "\t%" PRId64, k->id, k->submit_s);
	for (int i = 0; i < TD_POLICY_TRES; i++)
		td_buf_printf(b, "\t%" PRId64, k->tres[i]);
	td_buf_printf(b, "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%d", k->limit_min, urgency, k->nice, k->aside);
	for (size_t i = 0; i < TD_LEN(words); i++) {
		td_buf_putc(b, '\t');
		for (const char *p = words[i] ? words[i] : ""; *p; p++)
			td_buf_putc(b, *p == '\t' || *p == '\n' ? ' ' : *p);
	}
	td_buf_putc(b, '\n');
}

// "ok 2 0 1\n" → an order of n jobs. False: it is none.
static bool parse(const char *text, size_t n, size_t *ret)
{
	td_auto_free bool *seen = td_calloc(n + 1, sizeof(*seen));
	const char *p = text;
	if (!td_starts(p, "ok"))
		return false;
	p += strlen("ok");
	for (size_t i = 0; i < n; i++) {
		char *end;
		if (*p != ' ' || p[1] < '0' || p[1] > '9')
			return false;
		unsigned long long at = strtoull(p + 1, &end, 10);
		if (at >= n || seen[at])
			return false;
		seen[at] = true;
		ret[i] = (size_t)at;
		p = end;
	}
	return !strcmp(p, "\n");
}

bool td_policies_answer(const char *text, size_t n, size_t *ret, struct td_error *err)
{
	td_auto_free size_t *order = td_calloc(n + 1, sizeof(*order));
	if (parse(text, n, order)) {
		memcpy(ret, order, n * sizeof(*ret));
		return true;
	}
	size_t len = strcspn(text, "\n");
	if (td_starts(text, "bad "))
		td_fail(err, TD_INVALID, "%.*s", (int)(len > 300 ? 300 : len) - 4, text + 4);
	else if (td_starts(text, "ok"))
		td_fail(err, TD_INVALID, "its answer is no order: every job that waits must be in it once");
	else
		td_fail(err, TD_INVALID, "it gave no answer");
	return false;
}

// Runs it once. On an error err says why, in words for people.
static int ask(const struct td_policies_ask *a, const char *text, size_t *ret, struct td_error *err)
{
	char exe[] = "/proc/self/exe", role[] = "policy-host";
	td_auto_free char *path = td_asprintf("%s/%s", a->dir, a->rule->plugin);
	char *argv[] = {exe, role, path, NULL};
	td_auto_buf struct td_buf out = {0};
	struct td_error e = TD_ERROR_INIT;
	int status = 0, r = td_run(argv, text, ANSWER_MS, a->cancel, &status, &out, &e);
	if (r == TD_CANCELLED)
		return td_fail(err, TD_CANCELLED, "cancelled");
	if (r == TD_UNCERTAIN)
		return td_fail(err, TD_UNCERTAIN, "it gave no answer within %d s, and was ended", ANSWER_MS / 1000);
	if (r)
		return td_fail(err, r, "%s", e.msg);
	if (status > 128)
		return td_fail(err, TD_INTERNAL, "it died of signal %d", status - 128);
	return td_policies_answer(td_buf_str(&out), a->n, ret, err) ? 0 : err->code;
}

int td_policies_plugin(struct td_policies_plugin *p, const struct td_policies_ask *a, size_t *ret, struct td_error *err)
{
	if (*p->problem && a->now_ms < p->again_ms)
		return td_fail(err, TD_THROTTLED, "%s", p->problem);
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < a->n; i++)
		job_line(&b, a->waiting[i], a->urgency[i]);
	for (size_t i = 0; i < a->n_running; i++)
		job_line(&b, a->running[i], 0);
	td_auto_free char *text =
		td_asprintf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %zu %zu %s\n%s", a->now_s, a->total[0],
			    a->total[1], a->total[2], a->n, a->n_running, a->rule->arguments, td_buf_str(&b));
	uint64_t print = td_hash_str(TD_HASH, td_buf_str(&b));
	if (p->order && p->print == print && p->n == a->n && a->now_ms - p->asked_ms < OLD_MS) {
		memcpy(ret, p->order, a->n * sizeof(*ret));
		return 0;
	}

	td_auto_free size_t *order = td_calloc(a->n + 1, sizeof(*order));
	int r = ask(a, text, order, err);
	if (r == TD_CANCELLED)
		return r;
	free(p->order);
	p->order = NULL;
	if (r) {
		snprintf(p->problem, sizeof(p->problem), "%s", err->msg);
		p->again_ms = a->now_ms + AGAIN_MS;
		return r;
	}
	*p->problem = '\0';
	memcpy(ret, order, a->n * sizeof(*ret));
	p->order = td_steal(order);
	p->n = a->n;
	p->print = print;
	p->asked_ms = a->now_ms;
	return 0;
}
