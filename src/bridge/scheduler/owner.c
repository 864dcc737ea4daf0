// Whose a job became. Slurm 24.11 gives that of a user whom slurmctld does not know yet to nobody: every immediate
// allocation, in whose request it heeds no number, and a job of somebody whose number is not known here
// (docs/facts/slurm.md S-A5, S-I6). So the first one of each user is looked at.
#include "bridge/scheduler/gang.h"

#include "base/log.h"

#include <string.h>

static bool known(struct td_bridge *b, const char *user)
{
	pthread_mutex_lock(&b->lock);
	bool is = td_strv_has(&b->known_users, user);
	pthread_mutex_unlock(&b->lock);
	return is;
}

static void know(struct td_bridge *b, const char *user)
{
	pthread_mutex_lock(&b->lock);
	if (!td_strv_has(&b->known_users, user))
		td_strv_add(&b->known_users, user);
	pthread_mutex_unlock(&b->lock);
}

void td_owner_forget(struct td_bridge *b)
{
	pthread_mutex_lock(&b->lock);
	td_strv_done(&b->known_users);
	pthread_mutex_unlock(&b->lock);
}

bool td_owner_of(const struct td_bridge_run *r, struct td_owner *ret)
{
	const char *person = td_want_person(r->pod->root);
	for (size_t i = 0; r->gang && i < r->gang->n; i++) // of several people: nobody's own
		if (!td_streq(person, td_want_person(r->gang->v[i].pod->root)))
			person = NULL;
	return td_settings_owner_of(r->s, r->pod->ns, person, ret);
}

char *td_owner_person(struct td_bridge *b, const char *uid, const char *key)
{
	td_auto_objects struct td_objects pods = {0};
	if (key && td_starts(key, TD_GANG_KEY))
		td_informer_by_index(b->pods, "gang", key + strlen(TD_GANG_KEY), &pods);
	else
		td_informer_by_index(b->pods, "uid", uid, &pods);
	const char *person = pods.n ? td_want_person(pods.v[0]->root) : NULL;
	for (size_t i = 1; i < pods.n; i++)
		if (!td_streq(person, td_want_person(pods.v[i]->root)))
			person = NULL;
	return td_strdup(person);
}

void td_owner_read(struct td_bridge_run *r)
{
	struct td_owner o = {0};
	if (!r->a->user && r->pod && td_pod_state(r->pod) == TD_POD_WAITING && td_owner_of(r, &o) && o.user)
		td_ask_str(r->b->asks, &r->a->user, o.user);
}

void td_owner_leave(struct td_bridge_run *r)
{
	const struct td_ask *a = r->a;
	if (a->job && a->know == TD_JOB_READ && a->named && !a->admin_set && !(a->job_user && *a->job_user) &&
	    !td_slurm_job_ended(a->states))
		td_end_extra(r->b, r->s, r->l->slurm, a->job, a->uid, r->c);
}

int td_owner_check(struct td_bridge_run *r, int64_t job, struct td_error *err)
{
	const char *user = r->a->user;
	if (!user || known(r->b, user))
		return 0;
	td_auto_job struct td_slurm_job j = {0};
	struct td_error e = TD_ERROR_INIT;
	if (td_slurm_job(r->l->slurm, job, r->c, &j, &e))
		return 0; // who reads it next sees whose it is
	if (td_streq(j.user, user)) {
		know(r->b, user);
		return 0;
	}
	int k = td_slurm_job_end(r->l->slurm, job, r->want.ask.name, NULL, &e);
	if (k && k != TD_NOT_FOUND)
		td_warn("pod %s: Slurm job %lld became user \"%s\"'s instead of %s's, and could not be ended: %s",
			r->a->key, (long long)job, j.user ? j.user : "", user, e.msg);
	return td_fail_detail(err, TD_DENIED, TD_SLURM_ERR_USER, "Slurm does not know user %s", user);
}
