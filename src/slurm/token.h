// Tokens for slurmrestd (auth/jwt): HS256 over the jwt key, {"exp","iat","sun"}. Short-lived, minted again before half
// their life is over.
//
// Whoever holds the key can mint sun=<any user>: the key is read from its Secret and kept in this struct only.
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

struct td_slurm_tokens; // thread-safe
// life_s 0: 1200. The key is copied.
struct td_slurm_tokens *td_slurm_tokens_new(const void *key, size_t key_len, int life_s, const struct td_clock *clock);
struct td_slurm_tokens *td_slurm_tokens_free(struct td_slurm_tokens *t);
TD_DEFINE_AUTO(struct td_slurm_tokens *, td_slurm_tokens_free)
// A token with at least half its life left. TD_INVALID when `user` is not a user name. Caller frees.
int td_slurm_token(struct td_slurm_tokens *t, const char *user, char **ret, struct td_error *err);
// Forgets what is cached (after HTTP 511: the clocks disagree or the key changed).
void td_slurm_tokens_drop(struct td_slurm_tokens *t);
// What useradd accepts: [a-z_][a-z0-9_.-]*, at most 32 bytes; or digits (a uid).
bool td_slurm_user_ok(const char *s);
