// One table of all Slurm job states and one of all node states (slurm.h of 26.05 and the enums of parser v0.0.42;
// squeue(1), sinfo(1)).
//
// Both are lists of flags: a base state and any number of others. A flag that we do not know is kept as TD_JOB_OTHER /
// TD_NODE_OTHER.
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

// What a job's states mean for the ask it stands for.
enum td_job_phase {
	TD_PHASE_UNKNOWN,  // empty list or only flags we do not know: decide nothing
	TD_PHASE_WAITING,  // holds nothing yet
	TD_PHASE_STARTING, // resources are given, the nodes are being prepared: not a grant yet
	TD_PHASE_RUNNING,  // a grant (when the prolog has passed too)
	TD_PHASE_LOST,   // runs no longer as granted (suspended, shrunk, stopped): the grant has ended, the job must be
			 // ended
	TD_PHASE_ENDING, // the grant has ended; Slurm still cleans up
	TD_PHASE_ENDED,  // the grant has ended
	TD_PHASE_FLAG,   // (in the table only) says nothing by itself
};

enum td_job_state_bit {
#define X(name, phase) TD_JOB_BIT_##name,
	TD_JOB_STATES(X)
#undef X
		TD_JOB_BIT_OTHER,
	TD_JOB_BITS,
};
#define TD_JOB(name) (UINT64_C(1) << TD_JOB_BIT_##name)

uint64_t td_job_state_parse(const char *name); // one flag; unknown ones are TD_JOB(OTHER)
enum td_job_phase td_job_phase(uint64_t states);
bool td_job_ended(uint64_t states); // ENDING or ENDED: nothing of it comes back (a requeued job says PENDING)
// "RUNNING", "CANCELLED+COMPLETING": for people and for logs.
const char *td_job_states_text(uint64_t states, char *buf, size_t n);
// Why an ended job ended, in words: "cancelled", "time limit reached", …
const char *td_job_end_words(uint64_t states);

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
uint64_t td_node_state_parse(const char *name);
// For people: sinfo's words, most important first: "down", "drained", "draining", "idle", "mixed", …
const char *td_node_words(uint64_t states);
// Something is wrong with it, so that Slurm gives it no work; a drain is somebody's wish and no such thing. The only
// place that says so.
#define TD_NODE_BAD                                                                                                    \
	(TD_NODE(INVALID) | TD_NODE(UNKNOWN) | TD_NODE(DOWN) | TD_NODE(ERROR) | TD_NODE(FAIL) |                        \
	 TD_NODE(NOT_RESPONDING) | TD_NODE(INVALID_REG))
bool td_node_bad(uint64_t states);
bool td_node_busy(uint64_t states);    // a job is on it (COMPLETING counts)
bool td_node_drained(uint64_t states); // DRAIN and no job on it (COMPLETING counts as a job)
bool td_node_usable(uint64_t states);  // could start a job now, room given
