// The phase and conditions of a SlurmCluster, and when its configuration is written or put in
// force.
#include "pool/cluster.h"

#include <stdio.h>

enum {
	NODES_WAIT_MS = 1500,   // the first NodeSet usually comes together with the cluster
	CTLD_STARTS_MS = 10000, // a younger slurmctld may lose a SIGTERM
	TRIAL_AGAIN_MS = 30000  // what was not answered in time may be answered later
};

static struct td_pool_condition yes_no(const char *type, bool yes, const char *const reasons[2],
				       const char *const messages[2])
{
	return (struct td_pool_condition){type, yes ? TD_STATUS_TRUE : TD_STATUS_FALSE, reasons[!yes], messages[!yes]};
}

static struct td_pool_condition devices(const struct td_pool_cluster_facts *f)
{
	// The default is nvidia.com/gpu. A cluster that does not name devices may well have none.
	const char *found = f->gpus ? TD_STATUS_TRUE : f->devices_asked ? TD_STATUS_FALSE : TD_STATUS_UNKNOWN;
	if (f->problem)
		return (struct td_pool_condition){"DevicesFound", TD_STATUS_UNKNOWN, "ConfigInvalid",
						  "see condition ConfigValid"};
	if (!f->nodes)
		return (struct td_pool_condition){"DevicesFound", TD_STATUS_UNKNOWN, "NoNodes",
						  "no node is in its NodeSets yet"};
	return (struct td_pool_condition){"DevicesFound", found, f->gpus ? "Found" : "NoDevices", f->devices};
}

void td_pool_cluster_decide(const struct td_pool_cluster_facts *f, struct td_pool_cluster_plan *ret)
{
	static const char *const running[] = {"Running", "NotRunning"};
	bool valid = !f->problem, rest = f->rest > 0, login = f->logins >= f->logins_wanted;
	bool ready = valid && f->answers && rest && login && f->in_force;

	ret->phase = ready                       ? "Running"
		     : !valid && !f->was_running ? "Invalid"
		     : f->was_running            ? "Degraded"
						 : "Starting";

	bool why = !login && f->login_why;
	snprintf(ret->logins, sizeof(ret->logins), "%lld of %lld login pods are ready%s%.300s", f->logins,
		 f->logins_wanted, why ? "; " : "", why ? f->login_why : "");
	ret->v[0] = yes_no("ConfigValid", valid, (const char *const[]){"Valid", "Invalid"},
			   (const char *const[]){"the configuration is written", f->problem});
	if (valid && f->trying)
		ret->v[0] = (struct td_pool_condition){"ConfigValid", TD_STATUS_UNKNOWN, "Trying", f->trying};

	ret->v[1] = devices(f);
	ret->v[2] = yes_no("ControllerReady", f->answers, (const char *const[]){"Answers", "NoAnswer"},
			   (const char *const[]){"slurmctld answers", "slurmctld does not answer yet"});
	ret->v[3] = yes_no("RestApiReady", rest, running,
			   (const char *const[]){"slurmrestd runs", "no slurmrestd pod is ready"});
	ret->v[4] = yes_no("LoginReady", login, running, (const char *const[]){ret->logins, ret->logins});
	ret->n = 5;
	bool both = f->ctlds >= f->ctlds_wanted;
	snprintf(ret->ctlds, sizeof(ret->ctlds), "%lld of %lld slurmctld pods run%s%.300s", f->ctlds, f->ctlds_wanted,
		 !both && f->ctld_why ? "; " : "", !both && f->ctld_why ? f->ctld_why : "");
	if (f->ctlds_wanted > 1)
		ret->v[ret->n++] = yes_no("BackupReady", both, running, (const char *const[]){ret->ctlds, ret->ctlds});
	if (f->accounting)
		ret->v[ret->n++] = yes_no(
			"AccountingReady", f->dbds > 0, running,
			(const char *const[]){"slurmdbd has its database",
					      "slurmdbd or its database is away: jobs go on, and slurmctld keeps what "
					      "is to be recorded"});
	if (f->preempts)
		ret->v[ret->n++] =
			!f->qos_known ? (struct td_pool_condition){"PreemptionReady", TD_STATUS_UNKNOWN, "NotKnown",
								   "slurmdbd was not asked yet"}
				      : yes_no("PreemptionReady", !f->qos_problem,
					       (const char *const[]){"Declared", "NotDeclared"},
					       (const char *const[]){"the QOS in slurmdbd are as spec.preemption says",
								     f->qos_problem});
	if (f->policies)
		ret->v[ret->n++] = yes_no(
			"PoliciesReady", !f->policy_problem, (const char *const[]){"Ordering", "Failed"},
			(const char *const[]){"jobs wait in the order of spec.scheduler.policies", f->policy_problem});
	if (f->planes)
		ret->v[ret->n++] =
			yes_no("PlanesReady", !f->plane_problem, (const char *const[]){"AsAsked", "NotAsAsked"},
			       (const char *const[]){"the interfaces that nodes tell of are as spec.fabric.planes says",
						     f->plane_problem});
	if (f->logins_wanted > 0)
		ret->v[ret->n++] =
			f->login_unknown
				? (struct td_pool_condition){"ServicesRunning", TD_STATUS_UNKNOWN, "NotKnown",
							     "the events about login pods could not be listed: has the "
							     "operator its ClusterRole of this release?"}
				: yes_no("ServicesRunning", !f->login_failed,
					 (const char *const[]){"Running", "Failed"},
					 (const char *const[]){
						 "neither sshd nor a service of the site has failed in a login pod",
						 f->login_failed});
	if (f->storage_left) // it is said only then: few sites have so many people
		ret->v[ret->n++] = (struct td_pool_condition){"StorageGroupsFit", TD_STATUS_FALSE, "TooManyPeople",
							      f->storage_left};
	if (f->api_asked)
		ret->v[ret->n++] = yes_no(
			"KubernetesServes", !f->api_lacks, (const char *const[]){"Served", "NotServed"},
			(const char *const[]){"the API server serves all that the spec asks of it", f->api_lacks});
	if (!valid && !f->absent) // what waits for the object need not wait any longer
		ret->v[ret->n++] = (struct td_pool_condition){"Stalled", TD_STATUS_TRUE, "ConfigInvalid", f->problem};
	ret->v[ret->n++] = (struct td_pool_condition){"Ready", ready ? TD_STATUS_TRUE : TD_STATUS_FALSE,
						      ready          ? "Ready"
						      : !valid       ? "ConfigInvalid"
						      : !f->answers  ? "ControllerNotReady"
						      : !f->in_force ? "ConfigRollingOut"
						      : !rest        ? "RestApiNotReady"
								     : "LoginNotReady",
						      ready          ? "the cluster is ready"
						      : !valid       ? f->problem
						      : !f->answers  ? "slurmctld does not answer yet"
						      : !f->in_force ? "the new configuration is being rolled out"
						      : !rest        ? "no slurmrestd pod is ready"
								     : ret->logins};
}

bool td_pool_login_fails(long long count, int64_t age_ms)
{
	enum { BURST = 20, SPARSE_MS = 400000 };
	return age_ms < (count < BURST ? 3 * TD_LOGIN_PROBE_MS : SPARSE_MS);
}

bool td_pool_config_waits(const struct td_pool_config_facts *f)
{
	if (!f->exists)
		return f->nodes == 0 && f->seen_ms < NODES_WAIT_MS;
	return !f->answered && !f->same && f->ctld_ms >= 0 && f->ctld_ms < CTLD_STARTS_MS;
}

enum td_pool_trial td_pool_trial_decide(const struct td_pool_trial_facts *f)
{
	if (f->tried)
		return TD_TRIAL_PASSED;
	if (!f->pod)
		return TD_TRIAL_START;
	if (f->deleting)
		return TD_TRIAL_WAIT;
	if (!f->ended)
		return f->stuck ? TD_TRIAL_STUCK : TD_TRIAL_WAIT;
	if (f->code == TD_TRIAL_STARTS)
		return TD_TRIAL_PASSED;
	bool sure = f->code == TD_TRIAL_FAILS || f->code == TD_TRIAL_OTHER_RELEASE || f->code == TD_TRIAL_OLDER ||
		    f->code == TD_TRIAL_TOO_NEW;
	return sure || f->ended_ms < TRIAL_AGAIN_MS ? TD_TRIAL_REFUSED : TD_TRIAL_AGAIN;
}

const char *td_pool_trial_name(enum td_pool_trial t)
{
	static const char *const names[] = {"passed", "start", "wait", "stuck", "refused", "again"};
	return (size_t)t < sizeof(names) / sizeof(names[0]) ? names[t] : "?";
}

enum td_pool_force td_pool_config_force(const struct td_pool_force_facts *f)
{
	return !f->answers || f->in_force || !f->told ? TD_FORCE_NOTHING
	       : f->first                             ? TD_FORCE_FIRST
	       : f->seen                              ? TD_FORCE_SEEN
						      : TD_FORCE_WAIT;
}
