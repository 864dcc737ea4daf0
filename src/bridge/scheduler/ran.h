// What ran before, by the line that its time counts in (turns.h): pods that are gone are known from the mark of their job
// (pool/notes.h), which nobody but an operator of Slurm writes, in slurmdbd's records. What runs now, or has ended since
// this bridge leads, is noted here at once, because slurmdbd learns a mark late (docs/facts/slurm.md S-A12).
//
// Cost: a user's runs of one QOS in the last DAYS days are read once after a bridge has begun to lead, when his first
// pod of that QOS comes, about 5 KiB each; from then on what has ended since, at most once in FRESH_MS (a minute; 2 s at the
// begin). About 200 bytes for each run that counts. At most two workers wait for slurmdbd, and after it did not answer
// nobody does for as long as that took. Lock: one of its own, taken last, never held during I/O.
#pragma once

#include "bridge/bridge.h"
#include "pool/slice.h"

struct td_ran;
struct td_ran *td_ran_new(void);
struct td_ran *td_ran_free(struct td_ran *u); // NULL ok

// This job of the line runs since start_s; end_s: it has ended then; 0: not yet.
void td_ran_saw(struct td_bridge *b, const char *line, int64_t job, int64_t start_s, int64_t end_s);
// Reads what has ended of the user's (NULL: of anybody's) in these QOS, "a,b". TD_THROTTLED: another worker reads it now,
// or as many as may read others'. Else it could not be read; what was known stays.
int td_ran_read(struct td_bridge *b, struct td_link *l, const char *user, const char *qos, struct td_cancel *c,
		struct td_error *err);
// The line's runs but those of the jobs in not[n_not]. One that is not known to have ended ends now_s. Caller frees *ret.
size_t td_ran_of(struct td_bridge *b, const char *line, const int64_t * not, size_t n_not, int64_t now_s,
		 struct td_pool_slice_pod **ret);
// One reply of slurmdbd's: notes the runs of the SlurmCluster with this UID that count in a line. Pure but for u.
struct td_slurm_runs;
void td_ran_take(struct td_ran *u, const char *cluster_uid, const struct td_slurm_runs *runs);
// The line of a job by its mark; NULL: it counts in none. Caller frees.
char *td_ran_line(const char *admin_comment, const char *cluster_uid);
// "NAMESPACE/LINE/PERSON", as an index of pods and as a key here: nobody counts in another person's, or namespace's.
char *td_ran_key(const char *ns, const char *line, const char *person);
