// Tokens for slurmrestd (auth/jwt): JSON Web Tokens, HS256 over the jwt key, with exp, iat and sun
// (docs/facts/slurm.md S-A1). They are short-lived; a new one is minted when half the life of the
// last is over.
//
// Whoever holds the key can mint a token for any user. So the key is read from its Secret and kept
// in this struct only.
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

struct td_slurm_tokens; // thread-safe
// life_s: seconds; 0: 1200. clock NULL: the system's. The key is copied.
struct td_slurm_tokens *td_slurm_tokens_new(const void *key, size_t key_len, int life_s, const struct td_clock *clock);
struct td_slurm_tokens *td_slurm_tokens_free(struct td_slurm_tokens *t);
TD_DEFINE_AUTO(struct td_slurm_tokens *, td_slurm_tokens_free)
// Returns a token with at least half its life left. TD_INVALID when `user` is not a user name.
// Caller frees.
int td_slurm_token(struct td_slurm_tokens *t, const char *user, char **ret, struct td_error *err);
// Forgets all cached tokens: after HTTP 511, which says that the clocks disagree or that the key
// has changed.
void td_slurm_tokens_drop(struct td_slurm_tokens *t);
// Is it a name that useradd accepts ([a-z_][a-z0-9_.-]*, at most 32 bytes), or a uid in digits?
bool td_slurm_user_ok(const char *s);
