// How much the devices of Slurm's native jobs computed, added up as the checks look. When a job has ended, `tandem-standin
// watch` in slurmd's pod writes it into the job's admin comment in slurmdbd (standin/note.c), where Slurm's history keeps
// it for `tandem usage`. Of jobs whose devices were busy nothing is said. It is in a file beside the gate's table, so
// that an agent that starts anew goes on, without the last seconds. One for each node; thread-safe.
#pragma once

#include "gate/gate.h"
#include "gate/useful.h"

struct td_jobuse;
// path: of the file; NULL: none. What it has is read.
struct td_jobuse *td_jobuse_new(const char *path, int64_t now_ms);
struct td_jobuse *td_jobuse_free(struct td_jobuse *u);
// Adds a part of the time of one device, in seconds, to the job that holds it. now_ms: monotonic, as everywhere here.
void td_jobuse_add(struct td_jobuse *u, const struct td_holder *h, const struct td_useful_part *p, int64_t now_ms);
// Writes the file when that is due.
void td_jobuse_keep(struct td_jobuse *u, int64_t now_ms);
// Jobs that have ended and idled, "JOB:START:BUSY:IDLE,…" in device seconds; NULL: none. Each is said again after a
// minute, later ever more seldom, until td_jobuse_done. Caller frees.
char *td_jobuse_ended(struct td_jobuse *u, int64_t now_ms);
// What a job's devices did here so far. False: nothing was measured.
bool td_jobuse_of(struct td_jobuse *u, int64_t job, int64_t start, double *ret_busy, double *ret_idle);
void td_jobuse_done(struct td_jobuse *u, int64_t job, int64_t start);
