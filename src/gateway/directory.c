#include "gateway/directory.h"

#include "base/clock.h"
#include "base/embedded.h"
#include "kube/exec.h"
#include "slurm/conf.h"

#include <string.h>
#include <uthash.h>

extern const struct td_embedded td_gateway_files[];

enum {
	CACHE_MOST_S = 60,    // an answer is believed at most so long
	NONE_MS = 5000,       // so long nobody is nobody
	AGAIN_MS = 5000,      // after a failure, while an older answer counts
	KEPT_MS = 10 * 60000, // so long who was known stays known while it cannot be asked
	ASK_MS = 30000,       // for one answer
	SAID_MOST = 4096,     // bytes of one
	KNOWN_MOST = 10000,   // how many are kept
	LAST_ID = 2147483646, // no number of a person is larger
};

struct known {
	char *name;
	struct td_gateway_user user; // empty where code is not 0
	struct td_error no;          // why not
	int code;                    // 0, TD_NOT_FOUND, TD_DENIED; TD_TRANSIENT: not known yet
	int64_t at_ms, next_ms;      // mono: when it was said; when it is asked again
	bool asked;                  // by somebody, now
	UT_hash_handle hh;
};

struct td_gateway_directory {
	pthread_mutex_t lock; // guards all below
	pthread_cond_t said;  // some answer came
	struct known *people;
};

struct td_gateway_directory *td_gateway_directory_new(void)
{
	struct td_gateway_directory *d = td_calloc(1, sizeof(*d));
	pthread_condattr_t ca;
	pthread_mutex_init(&d->lock, NULL);
	pthread_condattr_init(&ca);
	pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
	pthread_cond_init(&d->said, &ca);
	pthread_condattr_destroy(&ca);
	return d;
}

static void drop(struct td_gateway_directory *d, struct known *k)
{
	HASH_DEL(d->people, k);
	td_gateway_user_done(&k->user);
	free(k->name);
	free(k);
}

struct td_gateway_directory *td_gateway_directory_free(struct td_gateway_directory *d)
{
	struct known *k, *next;
	if (!d)
		return NULL;
	HASH_ITER (hh, d->people, k, next)
		drop(d, k);
	pthread_mutex_destroy(&d->lock);
	pthread_cond_destroy(&d->said);
	free(d);
	return NULL;
}

// ---- what is said (pure) ----

static int strange(struct td_error *err)
{
	return td_fail(err, TD_TRANSIENT, "the directory service says nothing that can be understood");
}

// Cuts a line at its colons; some fields may be empty. False: it has not so many.
static bool fields(char *line, const char **ret, size_t n)
{
	size_t i = 0;
	for (char *end = line; end && i <= n; line = end + 1, i++) {
		if (i < n)
			ret[i] = line;
		if ((end = strchr(line, ':')))
			*end = '\0';
		else
			return i + 1 == n;
	}
	return false;
}

int td_gateway_directory_parse(const char *said, const char *name, struct td_gateway_user *ret, struct td_error *err)
{
	enum { NAME, UID = 2, GID, HOME = 5, FIELDS = 7 };
	td_auto_strv struct td_strv lines = {0};
	const char *f[FIELDS];
	long long uid, gid;
	td_strv_split(&lines, said, '\n');
	if (lines.n && !strcmp(lines.v[0], "away"))
		return td_fail(err, TD_TRANSIENT, "the directory service cannot be asked yet (SSSD beside slurmctld)");
	if (lines.n && !strcmp(lines.v[0], "none"))
		return td_fail(err, TD_NOT_FOUND, "the directory service has no user \"%.40s\"", name);
	// A comment (gecos) that has the end of a line makes more of them, and its owner may have written it.
	if (lines.n != 2 || !td_starts(lines.v[0], "is "))
		return strange(err);
	if (!fields(lines.v[0] + strlen("is "), f, FIELDS) || !td_parse_i64(f[UID], &uid) ||
	    !td_parse_i64(f[GID], &gid))
		return strange(err);
	if (strcmp(f[NAME], name) != 0) // it may not care about case; here two names would be one person
		return td_fail(err, TD_DENIED, "the directory service writes this name \"%.40s\": use that one",
			       f[NAME]);
	if (uid < 1000 || uid > LAST_ID || uid == TD_SLURM_UID || uid == 65534)
		return td_fail(err, TD_DENIED,
			       "the directory service gives %s the uid %lld: a person's is 1000 or more, and not 64030 "
			       "(slurm) or 65534 (nobody)",
			       name, uid);
	if (gid < 100 || gid > LAST_ID || gid == TD_SLURM_UID || gid == 65534)
		return td_fail(err, TD_DENIED,
			       "the directory service gives %s the gid %lld: a person's is 100 or more, and not 64030 "
			       "(slurm) or 65534 (nogroup)",
			       name, gid);
	if (strcmp(lines.v[1], name) != 0)
		return td_fail(
			err, TD_DENIED,
			"the directory service gives %s the uid %lld, which is %.40s's here: give one of the two "
			"another",
			name, uid, *lines.v[1] ? lines.v[1] : "nobody");
	if (!td_slurm_is_path(f[HOME]))
		return td_fail(err, TD_DENIED,
			       "the directory service says no home for %s that can be one: it is an absolute path of "
			       "letters, digits, '.', '_', '-', '/'",
			       name);
	*ret = (struct td_gateway_user){.name = td_strdup(name), .home = td_strdup(f[HOME]), .uid = uid, .gid = gid};
	return 0;
}

// ---- asking ----

// What the program says, from one pod.
static int listen_to(struct td_ws_far *far, struct td_cancel *c, struct td_buf *ret, struct td_error *err)
{
	td_auto_buf struct td_buf m = {0};
	bool binary;
	int r;
	td_ws_far_within(far, ASK_MS);
	while (!(r = td_ws_far_recv(far, c, &m, &binary, err))) {
		if (m.len && m.s[0] == TD_EXEC_STATUS)
			return 0;
		if (m.len && m.s[0] == TD_EXEC_OUT)
			td_buf_add(ret, m.s + 1, m.len - 1);
		if (ret->len > SAID_MOST)
			return strange(err);
		td_buf_reset(&m);
	}
	return r;
}

static int hear(struct td_gateway *g, const char *pod, const char *name, struct td_buf *ret, struct td_error *err)
{
	const struct td_embedded *f = td_embedded(td_gateway_files, "who.sh");
	const char *const argv[] = {"/bin/sh", "-c", f->text, "who", name, NULL};
	const struct td_kube_exec e = {.ns = g->o.ns, .pod = pod, .container = "slurmctld", .argv = argv};
	td_auto(td_ws_far_free) struct td_ws_far *far = NULL;
	int r = td_kube_exec(g->kube, &e, g->cancel, &far, err);
	if (!r)
		r = listen_to(far, g->cancel, ret, err);
	return r ? td_wrap(err, "who %s is, asked in pod %s/%s", name, g->o.ns, pod) : 0;
}

// Any slurmctld will do: a backup has SSSD beside it, too.
static int ask(struct td_gateway *g, const struct td_object *cluster, const char *name, struct td_gateway_user *ret,
	       struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	for (long long i = 0; i < td_slurm_controllers(cluster->root); i++) {
		td_auto_free char *pod = td_asprintf("%s-slurmctld-%lld", g->o.cluster, i);
		td_auto_buf struct td_buf said = {0};
		if (hear(g, pod, name, &said, &e))
			continue; // nothing was said, whatever the code is
		int r = td_gateway_directory_parse(td_buf_str(&said), name, ret, &e);
		if (r != TD_TRANSIENT)
			return r ? td_fail(err, r, "%s", e.msg) : 0;
	}
	return td_fail(err, TD_TRANSIENT, "the directory service cannot be asked now: %s", e.msg);
}

static int answer(const struct known *k, struct td_gateway_user *ret, struct td_error *err)
{
	if (k->code)
		return td_fail(err, k->code, "%s", k->no.msg);
	*ret = (struct td_gateway_user){.name = td_strdup(k->user.name),
					.home = td_strdup(k->user.home),
					.uid = k->user.uid,
					.gid = k->user.gid};
	return 0;
}

static struct known *entry_locked(struct td_gateway_directory *d, const char *name)
{
	struct known *k, *next;
	HASH_FIND_STR(d->people, name, k);
	if (k)
		return k;
	if (HASH_COUNT(d->people) >= KNOWN_MOST)
		HASH_ITER (hh, d->people, k, next)
			if (!k->asked)
				drop(d, k);
	k = td_calloc(1, sizeof(*k));
	k->name = td_strdup(name);
	k->code = TD_TRANSIENT;
	HASH_ADD_KEYPTR(hh, d->people, k->name, strlen(k->name), k);
	return k;
}

// Takes an answer over. What cannot be asked leaves what is known for a while.
static void learn_locked(struct known *k, int r, struct td_gateway_user *u, const struct td_error *e, int64_t cache_ms)
{
	int64_t now = td_mono_ms(&td_clock_system);
	k->asked = false;
	if (r == TD_NOT_FOUND || r == TD_DENIED || !r) {
		td_gateway_user_done(&k->user);
		k->user = *u;
		*u = (struct td_gateway_user){0};
		k->code = r;
		k->no = *e;
		k->at_ms = now;
		k->next_ms = now + (r ? NONE_MS : cache_ms);
		return;
	}
	k->next_ms = now + AGAIN_MS;
	if (k->code || now - k->at_ms > KEPT_MS) {
		k->code = TD_TRANSIENT;
		k->no = *e;
		k->next_ms = now;
	}
}

// SSSD itself keeps an answer for cacheSeconds.
static int64_t cache_ms(const yyjson_val *cluster)
{
	int64_t s = td_jint(cluster, "spec.identity.ldap.cacheSeconds", CACHE_MOST_S);
	return 1000 * (s < CACHE_MOST_S ? s : CACHE_MOST_S);
}

int td_gateway_directory_user(struct td_gateway *g, const struct td_object *cluster, const char *name,
			      struct td_gateway_user *ret, struct td_error *err)
{
	struct td_gateway_directory *d = g->directory;
	if (!td_slurm_is_user(name) || td_slurm_is_system_name(name))
		return td_fail(err, TD_NOT_FOUND,
			       "no person's name is \"%.40s\": it has lower-case letters, digits, '_', '-', at most 32",
			       name);
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += 2 * ASK_MS / 1000;
	pthread_mutex_lock(&d->lock);
	for (;;) {
		struct known *k = entry_locked(d, name);
		int64_t now = td_mono_ms(&td_clock_system);
		// While somebody asks, the others do with what was said last.
		if (k->code != TD_TRANSIENT && (now < k->next_ms || (k->asked && !k->code))) {
			int r = answer(k, ret, err);
			pthread_mutex_unlock(&d->lock);
			return r;
		}
		if (!k->asked) {
			k->asked = true;
			break;
		}
		if (pthread_cond_timedwait(&d->said, &d->lock, &ts)) {
			pthread_mutex_unlock(&d->lock);
			return td_fail(err, TD_TRANSIENT, "the directory service did not answer in time");
		}
	}
	pthread_mutex_unlock(&d->lock);

	struct td_error e = TD_ERROR_INIT;
	td_auto_user struct td_gateway_user u = {0};
	int asked = ask(g, cluster, name, &u, &e);
	pthread_mutex_lock(&d->lock);
	struct known *k = entry_locked(d, name);
	learn_locked(k, asked, &u, &e, cache_ms(cluster->root));
	int r = answer(k, ret, err);
	pthread_cond_broadcast(&d->said);
	pthread_mutex_unlock(&d->lock);
	return r;
}
