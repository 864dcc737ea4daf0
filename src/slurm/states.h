// All states of Slurm's jobs and nodes, each in one table (slurm.h of 26.05 and the enums of parser
// v0.0.42; squeue(1), sinfo(1)), and what they mean.
//
// A state is a list of flags: a base state and any number of others. A flag that is not in the
// table is kept as TD_JOB(OTHER) or TD_NODE(OTHER).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_JOB_STATES(X)                                                                                               \
	X(PENDING, TD_PHASE_WAITING)                                                                                   \
	X(RUNNING, TD_PHASE_RUNNING)                                                                                   \
	X(SUSPENDED, TD_PHASE_LOST)                                                                                    \
	X(COMPLETED, TD_PHASE_ENDED)                                                                                   \
	X(CANCELLED, TD_PHASE_ENDED)                                                                                   \
	X(FAILED, TD_PHASE_ENDED)                                                                                      \
	X(TIMEOUT, TD_PHASE_ENDED)                                                                                     \
	X(NODE_FAIL, TD_PHASE_ENDED)                                                                                   \
	X(PREEMPTED, TD_PHASE_ENDED)                                                                                   \
	X(BOOT_FAIL, TD_PHASE_ENDED)                                                                                   \
	X(DEADLINE, TD_PHASE_ENDED)                                                                                    \
	X(OUT_OF_MEMORY, TD_PHASE_ENDED)                                                                               \
	X(LAUNCH_FAILED, TD_PHASE_FLAG)                                                                                \
	X(UPDATE_DB, TD_PHASE_FLAG)                                                                                    \
	X(REQUEUED, TD_PHASE_FLAG)                                                                                     \
	X(REQUEUE_HOLD, TD_PHASE_FLAG)                                                                                 \
	X(SPECIAL_EXIT, TD_PHASE_FLAG)                                                                                 \
	X(RESIZING, TD_PHASE_LOST)                                                                                     \
	X(CONFIGURING, TD_PHASE_STARTING)                                                                              \
	X(COMPLETING, TD_PHASE_ENDING)                                                                                 \
	X(STOPPED, TD_PHASE_LOST)                                                                                      \
	X(RECONFIG_FAIL, TD_PHASE_FLAG)                                                                                \
	X(POWER_UP_NODE, TD_PHASE_STARTING)                                                                            \
	X(REVOKED, TD_PHASE_ENDED)                                                                                     \
	X(REQUEUE_FED, TD_PHASE_FLAG)                                                                                  \
	X(RESV_DEL_HOLD, TD_PHASE_FLAG)                                                                                \
	X(SIGNALING, TD_PHASE_FLAG)                                                                                    \
	X(STAGE_OUT, TD_PHASE_ENDING)                                                                                  \
	X(EXPEDITING, TD_PHASE_FLAG)

// What a job's states mean for the ask that it stands for.
enum td_job_phase {
	TD_PHASE_UNKNOWN,  // no flags, or only unknown ones: decide nothing
	TD_PHASE_WAITING,  // holds nothing yet
	TD_PHASE_STARTING, // has resources, but its nodes are being prepared: not a grant yet
	TD_PHASE_RUNNING,  // a grant, once the prolog has passed, too
	// Runs no longer as granted (suspended, shrunk, stopped): the grant has ended, and the job
	// must be ended.
	TD_PHASE_LOST,
	TD_PHASE_ENDING, // the grant has ended; Slurm still cleans up
	TD_PHASE_ENDED,  // the grant has ended
	TD_PHASE_FLAG,   // only in the table: says nothing by itself
};

enum td_job_state_bit {
#define X(name, phase) TD_JOB_BIT_##name,
	TD_JOB_STATES(X)
#undef X
		TD_JOB_BIT_OTHER,
	TD_JOB_BITS,
};
#define TD_JOB(name) (UINT64_C(1) << TD_JOB_BIT_##name)

// One flag; TD_JOB(OTHER) for an unknown name and for NULL.
uint64_t td_slurm_job_state_parse(const char *name);
enum td_job_phase td_job_phase(uint64_t states);
// ENDING or ENDED: this run does not come back. A requeued job becomes PENDING.
bool td_slurm_job_ended(uint64_t states);
// "RUNNING", "CANCELLED+COMPLETING": for people and for logs. Returns buf, which has n bytes.
const char *td_slurm_job_states_text(uint64_t states, char *buf, size_t n);
// Why an ended job has ended: "its time limit was reached" and the like. Static.
const char *td_slurm_job_end_words(uint64_t states);

#define TD_NODE_STATES(X)                                                                                              \
	X(INVALID)                                                                                                     \
	X(UNKNOWN)                                                                                                     \
	X(DOWN)                                                                                                        \
	X(IDLE)                                                                                                        \
	X(ALLOCATED)                                                                                                   \
	X(ERROR)                                                                                                       \
	X(MIXED)                                                                                                       \
	X(FUTURE)                                                                                                      \
	X(RESERVED)                                                                                                    \
	X(UNDRAIN)                                                                                                     \
	X(CLOUD)                                                                                                       \
	X(RESUME)                                                                                                      \
	X(DRAIN)                                                                                                       \
	X(COMPLETING)                                                                                                  \
	X(NOT_RESPONDING)                                                                                              \
	X(POWERED_DOWN)                                                                                                \
	X(FAIL)                                                                                                        \
	X(POWERING_UP)                                                                                                 \
	X(MAINTENANCE)                                                                                                 \
	X(REBOOT_REQUESTED)                                                                                            \
	X(REBOOT_CANCELED)                                                                                             \
	X(POWERING_DOWN)                                                                                               \
	X(DYNAMIC_FUTURE)                                                                                              \
	X(REBOOT_ISSUED)                                                                                               \
	X(PLANNED)                                                                                                     \
	X(INVALID_REG)                                                                                                 \
	X(POWER_DOWN)                                                                                                  \
	X(POWER_UP)                                                                                                    \
	X(POWER_DRAIN)                                                                                                 \
	X(DYNAMIC_NORM)                                                                                                \
	X(BLOCKED)                                                                                                     \
	X(EXTERNAL)
enum td_node_state_bit {
#define X(name) TD_NODE_BIT_##name,
	TD_NODE_STATES(X)
#undef X
		TD_NODE_BIT_OTHER,
	TD_NODE_BITS,
};
#define TD_NODE(name) (UINT64_C(1) << TD_NODE_BIT_##name)
uint64_t td_slurm_node_state_parse(const char *name);
// For people: the most important state in sinfo's words: "down", "drained", "draining", "idle",
// "mixed", … Static.
const char *td_slurm_node_words(uint64_t states);
// Something is wrong with the node, so that Slurm gives it no jobs. A drain is not among these: it
// is somebody's wish. No other place defines this.
#define TD_NODE_BAD                                                                                                    \
	(TD_NODE(INVALID) | TD_NODE(UNKNOWN) | TD_NODE(DOWN) | TD_NODE(ERROR) | TD_NODE(FAIL) |                        \
	 TD_NODE(NOT_RESPONDING) | TD_NODE(INVALID_REG))
// It has no slurmd, or not yet or no more: nodes on demand. No other place defines this.
#define TD_NODE_ABSENT (TD_NODE(POWERED_DOWN) | TD_NODE(POWERING_DOWN) | TD_NODE(POWERING_UP))
bool td_slurm_node_bad(uint64_t states);
bool td_slurm_node_busy(uint64_t states);    // it has a job, which may be COMPLETING
bool td_slurm_node_drained(uint64_t states); // DRAIN, and not busy
bool td_slurm_node_usable(uint64_t states);  // it could start a job now, if it has room
