// What the admin comment of an ask's job says of its pods, so that Slurm's history knows whose they were, of which
// service, how they ended and how much their devices computed (pool/notes.h).
#include "bridge/scheduler/gang.h"
#include "bridge/scheduler/run.h"
#include "bridge/scheduler/victim.h"

#include "base/log.h"
#include "kube/service.h"
#include "pool/notes.h"
#include "standin/wire.h"

#include <stdio.h>
#include <string.h>

// What one pod adds at the end of the job.
static void add_end(const struct td_object *pod, struct td_notes *n, bool *all_well)
{
	struct td_kube_use use;
	const char *phase = td_jstr_or(pod->root, "status.phase", "");
	if (td_kube_use_read(pod->root, &use)) {
		n->busy += use.busy;
		n->idle += use.idle;
	}
	// Who was deleted, or ended because its grant ended, did not end by itself.
	bool itself = !td_object_deleting(pod) && !td_object_annotation(pod, TD_ANN_ENDED);
	*all_well = *all_well && itself && !strcmp(phase, "Succeeded");
	if (td_victim_told(pod, NULL))
		snprintf(n->end, sizeof(n->end), "preempted");
	else if (itself && !*n->end && !strcmp(phase, "Failed"))
		snprintf(n->end, sizeof(n->end), "failed");
}

static void read_notes(const struct td_bridge_run *r, bool end, struct td_notes *ret)
{
	struct td_notes n = {0};
	const struct td_object *one = r->pod ? r->pod : r->gang && r->gang->n ? r->gang->v[0].pod : NULL;
	if (!one) {
		*ret = n;
		return;
	}
	struct td_service of;
	const char *user = td_want_person(one->root), *key = r->a->key, *gang = strchr(key, '/');
	n.gang = td_starts(key, TD_GANG_KEY) && gang;
	snprintf(n.ns, sizeof(n.ns), "%s", one->ns);
	snprintf(n.pod, sizeof(n.pod), "%s", n.gang ? gang + 1 : one->name);
	snprintf(n.user, sizeof(n.user), "%s", user ? user : "");
	if (td_service_of(one, &of))
		snprintf(n.service, sizeof(n.service), "%s/%s", of.kind, of.name);
	const char *line = r->a->line, *at = line && td_starts(line, n.ns) ? line + strlen(n.ns) : NULL;
	const size_t len = at ? strlen(at) : 0, person = strlen(n.user);
	// Of "NAMESPACE/LINE/PERSON" what is between.
	if (len > person + 2 && len - person - 2 < sizeof(n.line) && !strcmp(at + len - person, n.user))
		snprintf(n.line, sizeof(n.line), "%.*s", (int)(len - person - 2), at + 1);
	bool all_well = end;
	if (end && r->gang)
		for (size_t i = 0; i < r->gang->n; i++)
			add_end(r->gang->v[i].pod, &n, &all_well);
	else if (end)
		add_end(one, &n, &all_well);
	if (all_well && !*n.end)
		snprintf(n.end, sizeof(n.end), "succeeded");
	*ret = n;
}

char *td_ask_mark(const struct td_bridge_run *r, bool end)
{
	struct td_notes n;
	read_notes(r, end, &n);
	return td_notes_mark(TD_WIRE_STANDIN, r->s->cluster_uid, &n, r->a->uid);
}

void td_ask_note_use(const struct td_bridge_run *r)
{
	struct td_notes n;
	read_notes(r, true, &n);
	if (n.busy + n.idle <= 0)
		return;
	*n.end = '\0'; // nobody has ended yet
	td_auto_free char *text = td_notes_mark(TD_WIRE_STANDIN, r->s->cluster_uid, &n, r->a->uid);
	td_ask_str(r->b->asks, &r->a->note, text);
}

void td_ask_note_end(const struct td_bridge_run *r)
{
	struct td_ask *a = r->a;
	struct td_notes n, was;
	if (a->end_noted || !a->admin_set || !r->l || !a->job)
		return;
	read_notes(r, true, &n);
	if (td_notes_read(a->note, &was)) {
		if (!*n.pod)
			n = was;
		else if (was.busy + was.idle > n.busy + n.idle)
			n.busy = was.busy, n.idle = was.idle;
	}
	// How a batch job ended its exit code says, and without devices nobody asks.
	bool known = (a->batch && strcmp(n.end, "preempted") != 0) || !a->devices || !strchr(a->devices, ':');
	if (n.busy + n.idle <= 0 && (!*n.end || known))
		return;
	td_auto_free char *text = td_notes_mark(TD_WIRE_STANDIN, r->s->cluster_uid, &n, a->uid);
	struct td_error e = TD_ERROR_INIT;
	// Once: figures are not worth a second request, and the job's end does not wait for them.
	a->end_noted = true;
	if (td_slurm_job_update(r->l->slurm, a->job, &(const struct td_slurm_job_change){.admin_comment = text}, r->c,
				&e))
		td_debug("job %lld: saying how its pod ended: %s", (long long)a->job, e.msg);
}
