// tandem node token, tokens, revoke and machine-id: what new machines join with (docs/join.md).
#pragma once

#include "cli/remote.h"

struct td_cli_token {
	struct td_remote remote;
	const char *machine, *name, *nodeset, *key, *output;
	const char *cloud_init; // a file to be written for a machine whose key is made here; NULL: none
	struct td_strv labels;  // KEY=VALUE
	int ttl_s;
	bool again;
};
// Makes a NodeToken and its Secret. *ret: what the machine joins with: token, machine, node, server, caHash, ca, expires.
int td_cli_token_issue(struct td_kube *k, const struct td_cli_token *q, struct td_json **ret, struct td_error *err);
// True when the word is one of those four.
bool td_cli_token_verb(const char *word);
// Does it. id: the second word, of revoke. Returns the exit code.
int td_cli_token_run(const struct td_cli_token *q, const char *verb, const char *id);
