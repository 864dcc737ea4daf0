#include "gate/met.h"

#include <stdio.h>
#include <string.h>

static bool same(const yyjson_val *x, const struct td_checkup_finding *f)
{
	return td_streq(td_jstr(x, "check"), f->check) && td_streq(td_jstr(x, "device"), f->device) &&
	       td_jint(x, "code", 0) == f->code;
}

static void read_one(const yyjson_val *x, struct td_met *ret)
{
	const yyjson_val *m = td_jget(x, "met");
	int64_t job = td_jint(m, "job", 0);
	if (job <= 0)
		return;
	*ret = (struct td_met){.known = true, .live = td_jbool(m, "live", false)};
	struct td_holder *h = &ret->who;
	const char *pod = td_jstr(m, "podUid");
	h->job = job;
	h->pod = pod;
	snprintf(h->uid, sizeof(h->uid), "%s", pod ? pod : td_jstr_or(m, "user", ""));
	snprintf(h->ask, sizeof(h->ask), "%s", pod ? pod : "");
	snprintf(h->ask_pod, sizeof(h->ask_pod), "%s", td_jstr_or(m, "pod", ""));
	snprintf(h->account, sizeof(h->account), "%s", td_jstr_or(m, "account", ""));
}

void td_met_find(const char *before, const struct td_checkup_findings *l, td_met_ask_f *ask, void *ctx,
		 struct td_met ret[TD_HEALTH_FINDINGS])
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (before && td_json_parse(before, strlen(before), &j, NULL))
		j = NULL;
	for (size_t k = 0; k < l->n; k++) {
		const struct td_checkup_finding *f = &l->v[k];
		long long device;
		bool found = false;
		yyjson_val *x;
		size_t i, n;
		ret[k] = (struct td_met){0};
		// A site's check may have said anything.
		if (!td_starts(f->device, "gpu") || !td_parse_i64(f->device + 3, &device) || device < 0 ||
		    device >= TD_HEALTH_GPUS)
			continue;
		yyjson_arr_foreach (j ? td_json_root(j) : NULL, i, n, x)
			if (!found && same(x, f)) {
				found = true;
				read_one(x, &ret[k]);
			}
		if (!found && !ask(ctx, (int)device, &ret[k]))
			ret[k] = (struct td_met){0};
	}
}

void td_met_say(const struct td_met *met, struct td_checkup_findings *l)
{
	for (size_t i = 0; i < l->n; i++) {
		char words[64], *m = l->v[i].message;
		if (!met[i].known)
			continue;
		snprintf(words, sizeof(words), ", %s job %lld", met[i].live ? "met by" : "last held by",
			 (long long)met[i].who.job);
		if (strlen(m) + strlen(words) < sizeof(l->v[i].message))
			memcpy(m + strlen(m), words, strlen(words) + 1);
	}
}

void td_met_write(const struct td_met *m, yyjson_mut_doc *d, yyjson_mut_val *finding)
{
	const struct td_holder *h = &m->who;
	if (!m->known)
		return;
	td_jm_int(d, finding, "met.job", h->job);
	td_jm_bool(d, finding, "met.live", m->live);
	td_jm_str(d, finding, h->pod ? "met.podUid" : "met.user", h->uid);
	// What a job's comment says counts for nothing, but of a pod that is known to be the job's.
	if (h->pod && *h->ask_pod && !strcmp(h->ask, h->uid))
		td_jm_str(d, finding, "met.pod", h->ask_pod);
	if (*h->account)
		td_jm_str(d, finding, "met.account", h->account);
}
