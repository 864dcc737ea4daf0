#include "gate/met.h"

#include <stdio.h>
#include <string.h>

static bool same(const yyjson_val *x, const struct td_checkup_finding *f)
{
	if (!td_streq(td_jstr(x, "check"), f->check) || strcmp(td_jstr_or(x, "device", ""), f->device) != 0 ||
	    td_jint(x, "code", 0) != f->code)
		return false;
	// Of a device it is the same fault, whichever of its links is named.
	return *f->device || !strcmp(td_jstr_or(x, "link", ""), f->link);
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
	yyjson_val *k;
	size_t i, n;
	yyjson_arr_foreach (td_jget(m, "jobs"), i, n, k)
		if (ret->n_jobs < TD_MET_JOBS)
			ret->jobs[ret->n_jobs++] = yyjson_get_sint(k);
}

// The device that a finding is about; -1: the node. False: a site's check said something else, or it names its job itself.
static bool device_of(const struct td_checkup_finding *f, int *ret)
{
	long long device;
	*ret = -1;
	if (!*f->device)
		return strcmp(f->check, "exchange") != 0 && strcmp(f->check, "shared-storage") != 0;
	if (!td_starts(f->device, "gpu") || !td_parse_i64(f->device + 3, &device) || device < 0 ||
	    device >= TD_HEALTH_GPUS)
		return false;
	*ret = (int)device;
	return true;
}

void td_met_find(const char *before, const struct td_checkup_findings *l, td_met_ask_f *ask, void *ctx,
		 struct td_met ret[TD_HEALTH_FINDINGS])
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (before && td_json_parse(before, strlen(before), &j, NULL))
		j = NULL;
	for (size_t k = 0; k < l->n; k++) {
		const struct td_checkup_finding *f = &l->v[k];
		int device;
		bool found = false;
		yyjson_val *x;
		size_t i, n;
		ret[k] = (struct td_met){0};
		if (!device_of(f, &device))
			continue;
		yyjson_arr_foreach (j ? td_json_root(j) : NULL, i, n, x)
			if (!found && same(x, f)) {
				found = true;
				read_one(x, &ret[k]);
			}
		if (!found && !ask(ctx, device, &ret[k]))
			ret[k] = (struct td_met){0};
	}
}

enum { NAMED = 4 };

static void jobs_words(const struct td_met *met, size_t named, struct td_buf *ret)
{
	td_buf_printf(ret, ", %s job%s", met->live ? "met by" : "last held by", met->n_jobs > 1 ? "s" : "");
	if (met->n_jobs < 2)
		td_buf_printf(ret, " %lld", (long long)met->who.job);
	for (size_t i = 0; met->n_jobs > 1 && i < named; i++)
		td_buf_printf(ret, "%s %lld", i ? "," : "", (long long)met->jobs[i]);
	if (met->n_jobs > 1 && met->n_jobs > named)
		td_buf_printf(ret, " and %zu more", met->n_jobs - named);
}

void td_met_say(const struct td_met *met, struct td_checkup_findings *l)
{
	for (size_t i = 0; i < l->n; i++) {
		char *m = l->v[i].message;
		if (!met[i].known)
			continue;
		// As many as have room.
		for (size_t named = met[i].n_jobs > NAMED ? NAMED : met[i].n_jobs;; named--) {
			td_auto_buf struct td_buf words = {0};
			jobs_words(&met[i], named, &words);
			if (strlen(m) + words.len < sizeof(l->v[i].message)) {
				memcpy(m + strlen(m), td_buf_str(&words), words.len + 1);
				break;
			}
			if (named <= 1)
				break;
		}
	}
}

static void one_job(struct td_buf *b, int64_t job, const char *message, bool live)
{
	enum { MOST = 2400, TEXT = 160 };
	const char *met = strstr(message, live ? ", met by job" : ", last held by job");
	size_t n = met ? (size_t)(met - message) : strlen(message);
	if (job <= 0 || !n || b->len + TEXT + 48 > MOST)
		return;
	td_buf_printf(b, "%s%lld:", b->len ? "," : "", (long long)job);
	for (size_t i = 0; i < n && i < TEXT; i++) {
		unsigned char c = (unsigned char)message[i];
		td_buf_putc(b, c == '_' ? '~' : c <= ' ' || c == '=' || c >= '~' ? '_' : c == ',' ? ';' : (char)c);
	}
	td_buf_puts(b, live ? "" : ";_last_held_by_it");
}

char *td_met_jobs(const char *faults)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_buf struct td_buf b = {0};
	yyjson_val *x, *id;
	size_t i, n, k, m;
	if (!faults || td_json_parse(faults, strlen(faults), &j, NULL))
		return NULL;
	yyjson_arr_foreach (td_json_root(j), i, n, x) {
		const char *message = td_jstr_or(x, "message", "");
		// A pod says it itself; those that met it, too, need not.
		int64_t job = td_jint(x, "met.job", 0),
			pods = td_jget(x, "met.podUid") || td_jget(x, "met.pod") ? job : 0;
		bool live = td_jbool(x, "met.live", false);
		if (!yyjson_arr_size(td_jget(x, "met.jobs")) && !pods)
			one_job(&b, job, message, live);
		yyjson_arr_foreach (td_jget(x, "met.jobs"), k, m, id)
			if (yyjson_get_sint(id) != pods)
				one_job(&b, yyjson_get_sint(id), message, live);
	}
	return b.len ? td_buf_take(&b) : NULL;
}

void td_met_write(const struct td_met *m, yyjson_mut_doc *d, yyjson_mut_val *finding)
{
	const struct td_holder *h = &m->who;
	if (!m->known)
		return;
	td_jm_int(d, finding, "met.job", h->job);
	td_jm_bool(d, finding, "met.live", m->live);
	td_jm_str(d, finding, h->pod ? "met.podUid" : "met.user", *h->uid ? h->uid : NULL);
	for (size_t i = 0; m->n_jobs > 1 && i < m->n_jobs; i++)
		yyjson_mut_arr_add_sint(d, td_jm_arr(d, finding, "met.jobs"), m->jobs[i]);
	// What a job's comment says counts for nothing, but of a pod that is known to be the job's.
	if (h->pod && *h->ask_pod && !strcmp(h->ask, h->uid))
		td_jm_str(d, finding, "met.pod", h->ask_pod);
	if (*h->account)
		td_jm_str(d, finding, "met.account", h->account);
}
