// Caches the tokens, one for each user.
#include "slurm/token.h"

#include "http/pki.h"

#include <ctype.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { USERS_MAX = 1024 };

struct entry {
	char *user, *token;
	int64_t at_ms; // epoch, ms: when it was minted
};
struct td_slurm_tokens {
	void *key;
	size_t key_len;
	int life_s;
	const struct td_clock *clock;
	pthread_mutex_t lock; // guards v, n
	struct entry *v;
	size_t n;
};

struct td_slurm_tokens *td_slurm_tokens_new(const void *key, size_t key_len, int life_s, const struct td_clock *clock)
{
	struct td_slurm_tokens *t = td_calloc(1, sizeof(*t));
	t->key = td_memdup(key, key_len);
	t->key_len = key_len;
	t->life_s = life_s > 0 ? life_s : 1200;
	t->clock = clock ? clock : &td_clock_system;
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

static void drop_locked(struct td_slurm_tokens *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->v[i].user);
		free(t->v[i].token);
	}
	t->n = 0;
}

void td_slurm_tokens_drop(struct td_slurm_tokens *t)
{
	pthread_mutex_lock(&t->lock);
	drop_locked(t);
	pthread_mutex_unlock(&t->lock);
}

struct td_slurm_tokens *td_slurm_tokens_free(struct td_slurm_tokens *t)
{
	if (!t)
		return NULL;
	drop_locked(t);
	pthread_mutex_destroy(&t->lock);
	explicit_bzero(t->key, t->key_len);
	free(t->key);
	free(t->v);
	free(t);
	return NULL;
}

bool td_slurm_user_ok(const char *s)
{
	size_t n = s ? strlen(s) : 0;
	if (!n || n > 32 || (!islower((unsigned char)s[0]) && s[0] != '_' && !isdigit((unsigned char)s[0])))
		return false;

	bool digits = isdigit((unsigned char)s[0]);
	for (size_t i = 0; i < n; i++)
		if (digits ? !isdigit((unsigned char)s[i])
			   : !islower((unsigned char)s[i]) && !isdigit((unsigned char)s[i]) && !strchr("_-.", s[i]))
			return false;

	return true;
}

int td_slurm_token(struct td_slurm_tokens *t, const char *user, char **ret, struct td_error *err)
{
	if (!td_slurm_user_ok(user))
		return td_fail(
			err, TD_INVALID,
			"\"%.40s\" is no Slurm user name (lower case letters, digits, \"_\", \"-\", \".\"; at most 32)",
			user ? user : "");

	pthread_mutex_lock(&t->lock);
	int64_t now = td_real_ms(t->clock);

	struct entry *e = NULL;
	for (size_t i = 0; i < t->n && !e; i++)
		if (!strcmp(t->v[i].user, user))
			e = &t->v[i];

	if (!e && t->n == USERS_MAX)
		drop_locked(t);
	if (!e) {
		t->v = td_realloc(t->v, (t->n + 1) * sizeof(*t->v));
		e = &t->v[t->n++];
		*e = (struct entry){.user = td_strdup(user)};
	}

	// After the clock was set back the age is negative: then mint a new token, too.
	if (!e->token || now - e->at_ms >= t->life_s * 500 || now < e->at_ms) {
		long long s = now / 1000;
		td_auto_free char *claims =
			td_asprintf("{\"exp\":%lld,\"iat\":%lld,\"sun\":\"%s\"}", s + t->life_s, s, user);
		free(e->token);
		e->token = td_jwt_sign(t->key, t->key_len, claims);
		e->at_ms = now;
	}

	*ret = td_strdup(e->token);
	pthread_mutex_unlock(&t->lock);
	return 0;
}
