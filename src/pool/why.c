// Slurm's reasons for a waiting job, in plain words.
#include "pool/pool.h"

#include <string.h>

#define BEHIND "ReqNodeNotAvail, May be reserved for other job"

const char *td_pool_reason_words(const char *r, int64_t nodes)
{
	static const struct {
		const char *reason, *words;
	} table[] = {
		{"None", "Slurm has not looked at it yet"},
		{"Priority", "jobs of higher priority wait before it"},
		{"Resources", "it is next, and waits until enough CPUs, memory or GPUs are free on one node"},
		{"Dependency", "it waits for another job"},
		{"DependencyNeverSatisfied",
		 "the job that it waits for did not end as it should have: it will never start"},
		{"JobArrayTaskLimit", "its array runs as many tasks at once as it may"},
		{"BeginTime", "its begin time has not come"},
		{"Prolog", "its node is being prepared"},
		{"Licenses", "it waits for a licence"},
		{"JobHeldAdmin", "an administrator holds it; if nobody did, slurmctld does not know its user: check "
				 "the mapping in spec.scheduler"},
		{"JobHeldUser", "its user holds it (scontrol release lets it go)"},
		{"PartitionDown", "its partition is down"},
		{"PartitionInactive", "its partition is inactive"},
		{"PartitionNodeLimit", "it asks for more than its partition allows"},
		{"PartitionTimeLimit", "its time limit is above its partition's"},
		{"AssociationJobLimit", "its account is at its limit of jobs"},
		{"AssocGrpGRES", "its account is at its limit of GPUs"},
		{"AssocGrpCpuLimit", "its account is at its limit of CPUs"},
		{"AssocGrpMemLimit", "its account is at its limit of memory"},
		{"AssocMaxGRESPerJob", "it asks for more GPUs than its account may use in one job"},
		{"QOSMaxGRESPerUser", "its user is at the QOS's limit of GPUs"},
		{"QOSGrpGRES", "its QOS is at its limit of GPUs"},
		{"QOSMaxJobsPerUserLimit", "its user is at the QOS's limit of jobs"},
		{"QOSMaxCpuPerUserLimit", "its user is at the QOS's limit of CPUs"},
		{"ReqNodeNotAvail", "the nodes that it may use are drained, down or reserved"},
		{BEHIND, "the nodes that it may use are drained, down or reserved, or others come first there"},
		{"NodeDown", "the node it needs is down"},
		{"BadConstraints", "no node can meet what it asks for"},
		{"Reservation", "it waits for its reservation"},
		{"MaxJobCount", "Slurm is at its limit of jobs"},
		{"InvalidAccount", "its account does not exist in Slurm"},
		{"InvalidQOS", "its QOS does not exist in Slurm"},
		{"Cleaning", "Slurm still cleans up after its last run"},
	};

	if (!r || !*r)

		return "Slurm says no reason";
	if (nodes > 1 && !strcmp(r, "Resources"))
		return "it is next, and waits until enough CPUs, memory or GPUs are free on all the nodes that it "
		       "wants at "
		       "once";
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(table[i].reason, r))
			return table[i].words;
	if (!strncmp(r, "QOS", 3))
		return "a limit of its QOS is reached";
	if (!strncmp(r, "Assoc", 5))
		return "a limit of its account is reached";
	return NULL;
}

bool td_pool_reason_aside(const char *r)
{
	static const char *const begins[] = {
		"JobHeld",           "Dependency",      "BeginTime", "Reservation", "PartitionDown",
		"PartitionInactive", "ReqNodeNotAvail", "Assoc",     "QOS",         "Max"};
	for (size_t i = 0; r && i < sizeof(begins) / sizeof(begins[0]); i++)
		if (!strncmp(r, begins[i], strlen(begins[i])) && strcmp(r, BEHIND) != 0)
			return true;
	return false;
}
