// What the files of the REST client share: the client's struct, and the one function that makes a
// call (rest.c). jobs.c and nodes.c define the operations.
#pragma once

#include "http/client.h"
#include "slurm/adapter.h"
#include "slurm/token.h"

#include <stdatomic.h>

struct td_slurm {
	struct td_http_client *http;
	struct td_slurm_tokens *tokens;
	const struct td_slurm_adapter *a;
	char *url, *user;
	int dir; // the directory of the socket, open; -1: reached over the network
	int64_t timeout_ms;
	size_t n_nodes;        // td_slurm_expect()
	atomic_bool refused;   // the last call: for its token
	atomic_size_t version; // of a->versions: what slurmrestd had last
};

struct td_slurm_call {
	enum td_slurm_op op;                     // names its metrics and fault points
	const char *user, *method, *path, *body; // path: below /slurm/<version>
	bool db;                                 // path is below /slurmdb/<version>
	size_t max_body;                         // bytes of the reply; 0: 64 MiB
	int64_t timeout_ms;                      // 0: the client's
};

// The code for an error number of Slurm's. read: the call changes nothing.
int td_slurm_code(long long number, bool read);
// Puts Slurm's own words into err and returns the code. root: the reply's document, or NULL. text:
// the reply's body, which err quotes when root holds no error.
int td_slurm_refused(const struct td_slurm_call *k, int status, const yyjson_val *root, const char *text,
		     struct td_error *err);
// Makes a call and returns the document of a reply with status 200, whatever it holds. With
// ret_status it returns the document of any reply, and its status. A call whose token was refused
// has done nothing and is made once more with a fresh token. Caller unrefs *ret.
int td_slurm_call(struct td_slurm *s, const struct td_slurm_call *k, struct td_cancel *c, int *ret_status,
		  struct td_json **ret, struct td_error *err);
// The same, but a reply with status 200 that lists errors is a failure as well. ret may be NULL.
int td_slurm_call_ok(struct td_slurm *s, const struct td_slurm_call *k, struct td_cancel *c, struct td_json **ret,
		     struct td_error *err);
