// The Python environment and the data sets of a job: from what a file says to what the gateway's API takes.
#pragma once

#include "json/json.h"

// Reads the field `environment` of tandem.yaml: a file's name, a list of packages, "none", or {file,
// packages, python, index}. root.environment becomes {file, packages, python, index}. Pure.
int td_jobenv_tandem(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err);
// Reads the field `data` of tandem.yaml, NAME: PATH or NAME: {url, sha256, unpack} or {git, ref}: root.data
// becomes the list that the API takes. Pure.
int td_jobdata_tandem(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err);
// Reads `environment` of tuxiv.conf: Conda's names become those of Python's index. notes: what is not
// done. Pure.
int td_jobenv_tuxiv(yyjson_val *v, yyjson_mut_doc *d, struct td_strv *notes, struct td_error *err);
// Makes of root.environment what the API takes, {requirements, python, index}: reads its file, and those
// that it names with -r, below dir. asked: of the command line (a file, or "none"); NULL: nothing was
// asked. look: without any of these, dir/requirements.txt is taken when it is there; *ret_found: it was.
struct td_jobenv_in {
	const char *dir, *asked;
	bool look;
};
int td_jobenv_resolve(const struct td_jobenv_in *in, yyjson_mut_doc *d, bool *ret_found, struct td_error *err);
