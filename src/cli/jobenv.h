// The Python environment and the data sets of a job: from what a file says to what the gateway's API takes.
#pragma once

#include "json/json.h"

// Reads the field `environment` of tandem.yaml: a file's name, a list of packages, "none", or {file, packages, python,
// index, conda, channels, cuda}. root.environment becomes an object of these. Pure.
int td_jobenv_tandem(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err);
// Reads the field `data` of tandem.yaml, NAME: PATH or NAME: {url, sha256, unpack} or {git, ref}: root.data
// becomes the list that the API takes. Pure.
int td_jobdata_tandem(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err);
// Reads `environment` of tuxiv.conf, which is Conda's: dependencies and channels as they are. Pure.
int td_jobenv_tuxiv(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err);
// Reads `datasets` of tuxiv.conf into root.data: public data sets by their names. Pure.
int td_jobdata_tuxiv(yyjson_val *v, yyjson_mut_doc *d, struct td_error *err);
// Makes of root.environment what the API takes, {requirements, python, index} or {conda, channels, cuda, requirements,
// index}: reads its file (requirements.txt and those that it names with -r, Conda's environment.yml, or a lock of
// Conda), below dir. asked: of the command line (a file, or "none"); NULL: nothing was asked. look: without any of
// these, dir/requirements.txt or environment.yml is taken when it is there; *ret_found: which; NULL: none.
struct td_jobenv_in {
	const char *dir, *asked;
	bool look;
};
int td_jobenv_resolve(const struct td_jobenv_in *in, yyjson_mut_doc *d, const char **ret_found, struct td_error *err);
