// Inside the process of one home (`tandem home-io`): single-threaded, the person's own rights, and
// the home is its root directory. All paths are relative to the home and were checked
// (gateway/path.h); no link is followed.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <sys/types.h>

#define TD_HOME_RUNS "tandem/runs"
#define TD_HOME_CHUNKS "tandem/.chunks"
#define TD_HOME_CHUNK_MAX (4 << 20)

// Like open(), below the home, through no link. On failure a negative enum td_code.
int td_home_at(const char *path, int flags, mode_t mode, struct td_error *err);
// Makes the directory and what is missing above it.
int td_home_mkdirs(const char *path, struct td_error *err);
// Reads all of the standard input, at most `most` bytes.
int td_home_input(size_t most, struct td_buf *ret, struct td_error *err);
// Writes a file whole: beside it, then in its place.
int td_home_put(const char *path, const void *p, size_t n, mode_t mode, struct td_error *err);
int td_home_get(const char *path, size_t most, struct td_buf *ret, struct td_error *err);
// Removes a tree that this program made.
int td_home_remove(const char *path, struct td_error *err);

// The verbs. argv: their words, NULL-terminated.
struct td_home_verb {
	const char *name;
	int words; // how many
	int (*run)(char **argv, struct td_error *err);
};
// home_files.c
int td_home_missing(char **argv, struct td_error *err); // hashes in, a line each → those not here
int td_home_store(char **argv, struct td_error *err);   // chunks in: "HASH SIZE\n" and the bytes
int td_home_chunks(char **argv, struct td_error *err);  // hashes in, a line each → "HASH SIZE\n" and the bytes
int td_home_write(char **argv, struct td_error *err);   // JSON {path, mode, chunks} in
int td_home_list(char **argv, struct td_error *err);    // PATH → JSON
int td_home_read(char **argv, struct td_error *err);    // PATH OFFSET LENGTH: the bytes
int td_home_follow(char **argv, struct td_error *err);  // PATH OFFSET: until the input ends
int td_home_tail(char **argv, struct td_error *err);    // PATH: its last lines
int td_home_size(char **argv, struct td_error *err);    // PATH → JSON {size, modified}
// home_run.c
int td_home_make(char **argv, struct td_error *err);    // JSON {id, files, texts, record} in
int td_home_record(char **argv, struct td_error *err);  // ID; the record in
int td_home_consent(char **argv, struct td_error *err); // ID: it may begin
int td_home_runs(char **argv, struct td_error *err);    // → JSON list of records, newest first
int td_home_one(char **argv, struct td_error *err);     // ID → its record
// home_made.c
int td_home_want(char **argv, struct td_error *err);   // PLACE KEY; what it is made of in → "made" or "missing"
int td_home_made(char **argv, struct td_error *err);   // PLACE → JSON {made: […]}
int td_home_unmake(char **argv, struct td_error *err); // PLACE KEY
// home_schedule.c
int td_home_schedule_put(char **argv, struct td_error *err);  // ID; JSON {job, files} in
int td_home_schedule_get(char **argv, struct td_error *err);  // ID → that
int td_home_schedule_drop(char **argv, struct td_error *err); // ID
// The same of a run that waits at the hub of a federation, below tandem/federated.
int td_home_federated_put(char **argv, struct td_error *err);
int td_home_federated_get(char **argv, struct td_error *err);
int td_home_federated_drop(char **argv, struct td_error *err);

// Writes a file of chunks that are all here; the time of each is set to now. total: grows by its size.
int td_home_assemble(int dir, const char *path, const void *chunks, bool exec, struct td_error *err);
