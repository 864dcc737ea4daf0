// Whose a job became. Slurm 24.11 gives that of a user whom slurmctld does not know yet to nobody: every immediate
// allocation, in whose request it heeds no number, and a job of somebody whose number is not known here
// (docs/facts/slurm.md S-A5, S-I6). So the first one of each user is looked at.
#include "bridge/scheduler/run.h"

#include "base/log.h"

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

void td_owner_read(struct td_bridge_run *r)
{
	struct td_owner o = {0};
	if (!r->a->user && r->pod && td_pod_state(r->pod) == TD_POD_WAITING &&
	    td_settings_owner(r->s, r->pod->ns, &o) && o.user)
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
