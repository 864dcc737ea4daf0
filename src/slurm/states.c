#include "slurm/states.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	enum td_job_phase phase;
} jobs[] = {
#define X(n, p) {#n, p},
	TD_JOB_STATES(X)
#undef X
		{"OTHER", TD_PHASE_FLAG},
};
static const char *const nodes[] = {
#define X(n) #n,
	TD_NODE_STATES(X)
#undef X
		"OTHER",
};

uint64_t td_slurm_job_state_parse(const char *name)
{
	for (unsigned i = 0; name && i < TD_JOB_BIT_OTHER; i++)
		if (!strcmp(jobs[i].name, name))
			return UINT64_C(1) << i;
	return TD_JOB(OTHER);
}

// Of several flags the first phase in this order wins: the more careful one. So a requeued job,
// which is PENDING and COMPLETING, is ENDING: it ends as a grant now and waits afterwards.
enum td_job_phase td_job_phase(uint64_t states)
{
	static const enum td_job_phase order[] = {TD_PHASE_ENDING,   TD_PHASE_ENDED,   TD_PHASE_LOST,
						  TD_PHASE_STARTING, TD_PHASE_RUNNING, TD_PHASE_WAITING};
	for (size_t k = 0; k < TD_LEN(order); k++)
		for (unsigned i = 0; i < TD_JOB_BITS; i++)
			if ((states >> i & 1) && jobs[i].phase == order[k])
				return order[k];
	return TD_PHASE_UNKNOWN;
}

bool td_slurm_job_ended(uint64_t states)
{
	enum td_job_phase p = td_job_phase(states);
	return p == TD_PHASE_ENDING || p == TD_PHASE_ENDED;
}

const char *td_slurm_job_states_text(uint64_t states, char *buf, size_t n)
{
	size_t len = 0;
	buf[0] = '\0';
	for (unsigned i = 0; i < TD_JOB_BITS && len + 1 < n; i++)
		if (states >> i & 1)
			len += (size_t)snprintf(buf + len, n - len, "%s%s", len ? "+" : "", jobs[i].name);
	if (!states)
		snprintf(buf, n, "none");
	return buf;
}

const char *td_slurm_job_end_words(uint64_t states)
{
	static const struct {
		uint64_t bit;
		const char *words;
	} table[] = {
		{TD_JOB(PREEMPTED), "preempted by a job of higher priority"},
		{TD_JOB(TIMEOUT), "its time limit was reached"},
		{TD_JOB(NODE_FAIL), "its node failed"},
		{TD_JOB(DEADLINE), "its deadline passed"},
		{TD_JOB(OUT_OF_MEMORY), "it ran out of memory"},
		{TD_JOB(BOOT_FAIL), "its node failed to boot"},
		{TD_JOB(LAUNCH_FAILED), "its launch failed"},
		{TD_JOB(REVOKED), "another cluster of the federation took it"},
		{TD_JOB(CANCELLED), "cancelled (scancel)"},
		{TD_JOB(FAILED), "it failed"},
		{TD_JOB(COMPLETED), "it completed"},
		{TD_JOB(SUSPENDED), "suspended"},
		{TD_JOB(STOPPED), "stopped"},
		{TD_JOB(RESIZING), "resized"},
		{TD_JOB(PENDING), "requeued"},
	};
	for (size_t i = 0; i < TD_LEN(table); i++)
		if (states & table[i].bit)
			return table[i].words;
	return states ? "it ended" : "Slurm does not know it any more";
}

uint64_t td_slurm_node_state_parse(const char *name)
{
	for (unsigned i = 0; name && i < TD_NODE_BIT_OTHER; i++)
		if (!strcmp(nodes[i], name))
			return UINT64_C(1) << i;
	return TD_NODE(OTHER);
}

bool td_slurm_node_bad(uint64_t s)
{
	// Nobody expects an answer of a node without a slurmd.
	if (s & TD_NODE_ABSENT)
		s &= ~TD_NODE(NOT_RESPONDING);
	return s & TD_NODE_BAD;
}

bool td_slurm_node_busy(uint64_t s)
{
	return s & (TD_NODE(ALLOCATED) | TD_NODE(MIXED) | TD_NODE(COMPLETING));
}

bool td_slurm_node_drained(uint64_t s)
{
	return (s & TD_NODE(DRAIN)) && !td_slurm_node_busy(s);
}

const char *td_slurm_node_words(uint64_t s)
{
	if (s & TD_NODE(INVALID_REG))
		return "invalid registration";
	if (s & TD_NODE(DOWN))
		return s & TD_NODE(REBOOT_ISSUED) ? "rebooting" : "down";
	if (s & (TD_NODE(ERROR) | TD_NODE(FAIL) | TD_NODE(INVALID)))
		return "failed";
	if (s & (TD_NODE(POWERED_DOWN) | TD_NODE(POWERING_DOWN) | TD_NODE(POWER_DOWN)))
		return "powered down";
	if (s & TD_NODE(POWERING_UP))
		return "powering up";
	if (s & TD_NODE(FUTURE))
		return "future";
	if (s & TD_NODE(DRAIN))
		return td_slurm_node_busy(s) ? "draining" : "drained";
	if (s & TD_NODE(NOT_RESPONDING))
		return "not responding";
	if (s & TD_NODE(MAINTENANCE))
		return "maintenance";
	if (s & TD_NODE(ALLOCATED))
		return "allocated";
	if (s & TD_NODE(MIXED))
		return "mixed";
	if (s & TD_NODE(COMPLETING))
		return "completing";
	if (s & TD_NODE(IDLE))
		return s & TD_NODE(PLANNED) ? "planned" : "idle";
	return "unknown";
}

bool td_slurm_node_usable(uint64_t s)
{
	const uint64_t no = TD_NODE_BAD | TD_NODE(FUTURE) | TD_NODE(DRAIN) | TD_NODE(COMPLETING) |
			    TD_NODE(POWERED_DOWN) | TD_NODE(POWERING_UP) | TD_NODE(MAINTENANCE) |
			    TD_NODE(POWERING_DOWN) | TD_NODE(DYNAMIC_FUTURE) | TD_NODE(REBOOT_ISSUED) |
			    TD_NODE(REBOOT_REQUESTED) | TD_NODE(POWER_DOWN) | TD_NODE(POWER_DRAIN) | TD_NODE(BLOCKED) |
			    TD_NODE(EXTERNAL) | TD_NODE(RESERVED);
	return (s & (TD_NODE(IDLE) | TD_NODE(MIXED))) && !(s & no);
}
