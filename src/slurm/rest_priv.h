// What the files of the REST client share: the client's inside and its one way to make a call (rest.c). jobs.c and
// nodes.c say what is asked for.
#pragma once

#include "http/client.h"
#include "slurm/adapter.h"
#include "slurm/token.h"

struct td_slurm {
	struct td_http_client *http;
	struct td_slurm_tokens *tokens;
	const struct td_slurm_adapter *a;
	char *url, *user;
	int dir; // of the socket; -1: reached over the network
	int64_t timeout_ms;
};

struct td_slurm_call {
	enum td_slurm_op op;                     // of the metrics; a write's name is that of its fault points too
	const char *user, *method, *path, *body; // path below /slurm/<version>
	size_t max_body;
	int64_t timeout_ms;
	int (*on_data)(void *ctx, const char *p, size_t n);
	void *ctx;
};

// Slurm's error number → what the caller decides. read: the call changes nothing.
int td_slurm_code(long long number, bool read);
// Puts Slurm's own words into err and returns the code. root: the reply's document, or NULL; text: its body, shown
// where no error is in it.
int td_slurm_refused(const struct td_slurm_call *k, int status, const yyjson_val *root, const char *text,
		     struct td_error *err);
// The reply's document when the status is 200, whatever it holds; with ret_status any document, and its status, for
// those who look further. A refused token is tried once more with a fresh one: nothing was done. *ret: NULL after a
// streamed reply. Caller unrefs.
int td_slurm_call(struct td_slurm *s, const struct td_slurm_call *k, struct td_cancel *c, int *ret_status,
		  struct td_json **ret, struct td_error *err);
// The same, and HTTP 200 with errors inside is a failure as well. ret may be NULL.
int td_slurm_call_ok(struct td_slurm *s, const struct td_slurm_call *k, struct td_cancel *c, struct td_json **ret,
		     struct td_error *err);
