// Job files: tandem.yaml, TACC's tuxiv.conf (also called tuxiv.config), and scripts for sbatch become the job that the
// gateway's API takes (makeRun in openapi.yaml). Pure (fuzz/fuzz_jobfile.c).
#pragma once

#include "json/json.h"

// Reads a file's text. `name`: of the run when the file gives none. *ret: the job. notes: what the file
// asks for that is not done, a sentence each. TD_INVALID names the field and the fix.
int td_jobfile_tandem(const char *text, size_t len, const char *name, yyjson_mut_doc **ret, struct td_strv *notes,
		      struct td_error *err);
int td_jobfile_tuxiv(const char *text, size_t len, const char *name, yyjson_mut_doc **ret, struct td_strv *notes,
		     struct td_error *err);
// The same of a script that was written for sbatch (jobscript.c), from its #SBATCH lines. text: ends with a NUL.
// command: the line of shell that runs it. TD_INVALID names the line, the option and the fix; an option that has no
// meaning here is refused, too.
int td_jobfile_sbatch(const char *text, const char *name, const char *command, yyjson_mut_doc **ret,
		      struct td_strv *notes, struct td_error *err);
// "8Gi", "500M", "64G", a number of MiB → MiB. Slurm's letters: K, M, G, T are powers of 1024.
int td_jobfile_memory(const char *text, long long *ret_mib, struct td_error *err);
// "90" (minutes), "30m", "2h", "1d", "H:MM:SS", "D-HH:MM:SS" → minutes, rounded up.
int td_jobfile_minutes(const char *text, long long *ret, struct td_error *err);
// "2" or "h100:2". *ret_type: NULL, or the type, which the caller frees.
int td_jobfile_gpus(const char *text, long long *ret, char **ret_type, struct td_error *err);
// A directory's or a program's name made fit for a run's.
char *td_jobfile_name(const char *s);
// Appends a word, quoted for a shell.
void td_jobfile_quote(struct td_buf *b, const char *word);
