// Why a step of a run did not end well: in words, and with the last lines that it wrote.
#pragma once

#include "gateway/jobs.h"

// What is known of the end of a job. Pure.
struct td_gateway_end {
	const char *state;  // td_gateway_job_state(): "failed", "timeout", …
	const char *reason; // Slurm's, "DependencyNeverSatisfied"; may be NULL
	const char *by;     // who cancelled it; NULL: not known
	const char *after;  // the step before it that did not end well; NULL: none
	const char *held;   // td_notes_scratch(): it was ended for what it held of a disk; NULL: it was not
	const char *nodes;  // where it ran, "n[0-1]"; may be NULL
	int64_t exit_code, signal, minutes, memory_mb;
};
// The caller frees it. NULL: it ended well, or has not ended.
char *td_gateway_cause(const struct td_gateway_end *e);

// Adds `lines`, the last that it wrote, to each step of a run that did not end well and has none yet.
// shown: what td_gateway_run_write() made of the record.
void td_gateway_last_lines(struct td_gateway_ask *q, const yyjson_val *record, yyjson_mut_doc *d,
			   yyjson_mut_val *shown);
