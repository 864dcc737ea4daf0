// People by the issuer of a SlurmCluster (spec.identity.oidc): the tokens that let them into its gateway
// count here too. As with a real API server's --oidc-* options, the name is a claim; and it must be one
// of the SlurmCluster's own users, so that nobody becomes a role or a service account by his name. Where people come
// from a directory service (spec.identity.ldap), which this server cannot ask, it may be any name that a person can
// have: what he may is what somebody has bound to that name, as on a real cluster.
//
// What the SlurmClusters say is read again after a write to one of them, so it counts at once.
#include "apiserver/srv.h"

#include "base/log.h"
#include "oidc/oidc.h"

#include <pthread.h>
#include <string.h>

enum { GROUPS_MOST = 200, CLUSTERS_MOST = 32 };

struct srv_issuer {
	struct td_item *cluster;
	struct td_oidc *oidc;
};

struct td_srv_people {
	struct td_store *store;
	struct td_table *table;
	struct td_sub sub;
	const struct td_clock *clock;
	uint64_t writes;      // atomic: number of groups of writes to SlurmClusters
	pthread_mutex_t lock; // guards what follows
	struct srv_issuer v[CLUSTERS_MOST];
	size_t n;
	uint64_t read_at; // `writes` before they were read; UINT64_MAX: never
};

static void stale(void *ctx)
{
	struct td_srv_people *p = ctx;
	__atomic_add_fetch(&p->writes, 1, __ATOMIC_RELEASE);
}

struct td_srv_people *td_srv_people_new(struct td_store *s, const struct td_clock *clock)
{
	struct td_srv_people *p = td_calloc(1, sizeof(*p));
	p->store = s;
	p->clock = clock;
	p->read_at = UINT64_MAX;
	pthread_mutex_init(&p->lock, NULL);
	p->table = td_store_table(s, "tandem.dev", "slurmclusters");
	p->sub = (struct td_sub){.wake = stale, .ctx = p};
	td_store_subscribe(s, p->table, &p->sub);
	return p;
}

static void forget(struct srv_issuer *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		td_item_unref(v[i].cluster);
		td_oidc_unref(v[i].oidc);
	}
}

struct td_srv_people *td_srv_people_free(struct td_srv_people *p)
{
	if (!p)
		return NULL;
	td_store_unsubscribe(p->store, p->table, &p->sub);
	forget(p->v, p->n);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}

static void read_locked(struct td_srv_people *p)
{
	struct srv_issuer old[CLUSTERS_MOST];
	struct td_items l = {0};
	uint64_t rv;
	size_t n_old = p->n;
	memcpy(old, p->v, sizeof(old));
	p->n = 0;
	td_store_list(p->store, p->table, NULL, 0, &l, &rv, NULL);
	for (size_t i = 0; i < l.n && p->n < CLUSTERS_MOST; i++) {
		yyjson_val *o = td_jget(td_item_root(l.v[i]), "spec.identity.oidc");
		const struct td_oidc_opts want = {.issuer = td_jstr(o, "issuer"),
						  .client_id = td_jstr_or(o, "clientID", ""),
						  .ca = td_jstr(o, "ca"),
						  .clock = p->clock};
		struct td_error err = TD_ERROR_INIT;
		struct td_oidc *oidc = NULL;
		if (!o)
			continue;
		for (size_t k = 0; k < n_old && !oidc; k++) // with the keys that it has read
			oidc = td_oidc_same(old[k].oidc, &want) ? td_oidc_ref(old[k].oidc) : NULL;
		if (!oidc && td_oidc_new(&want, &oidc, &err)) {
			td_warn("SlurmCluster %s/%s: spec.identity.oidc: %s", l.v[i]->ns, l.v[i]->name, err.msg);
			continue;
		}
		p->v[p->n++] = (struct srv_issuer){.cluster = td_item_ref(l.v[i]), .oidc = oidc};
	}
	td_items_done(&l);
	forget(old, n_old);
}

// Those that say that they made such a token. The caller forgets them.
static size_t that_say(struct td_srv_people *p, const char *iss, struct srv_issuer *ret)
{
	size_t n = 0;
	pthread_mutex_lock(&p->lock);
	uint64_t now = __atomic_load_n(&p->writes, __ATOMIC_ACQUIRE);
	if (p->read_at != now) {
		read_locked(p);
		p->read_at = now;
	}
	for (size_t i = 0; i < p->n; i++)
		if (td_streq(td_jstr(td_item_root(p->v[i].cluster), "spec.identity.oidc.issuer"), iss))
			ret[n++] = (struct srv_issuer){td_item_ref(p->v[i].cluster), td_oidc_ref(p->v[i].oidc)};
	pthread_mutex_unlock(&p->lock);
	return n;
}

static void groups(yyjson_val *v, struct td_strv *ret)
{
	yyjson_val *g;
	size_t i, n;
	if (yyjson_is_str(v))
		td_strv_addf(ret, "oidc:%s", yyjson_get_str(v));
	yyjson_arr_foreach (v, i, n, g)
		if (i < GROUPS_MOST && yyjson_is_str(g) && yyjson_get_len(g))
			td_strv_addf(ret, "oidc:%s", yyjson_get_str(g));
}

static const char *claim_of(const yyjson_val *oidc)
{
	return td_jstr_or(oidc, "usernameClaim", "preferred_username");
}

static bool lists(const yyjson_val *cluster, const char *name)
{
	return td_jfind(td_jget(cluster, "spec.users"), "name", name);
}

// Whether somebody of the directory service may be called so: as spec.users has names, and none that machines have.
static bool of_directory(const yyjson_val *cluster, const char *name)
{
	static const char may[] = "0123456789-abcdefghijklmnopqrstuvwxyz_";
	size_t n = strlen(name);
	return td_jget(cluster, "spec.identity.ldap") && n && n <= 32 && strspn(name, may) == n &&
	       strcspn(name, "0123456789-") && strcmp(name, "root") != 0 && strcmp(name, "admin") != 0;
}

// Whether somebody else may have that name by another issuer, or by another claim of the same one, which people may
// choose for themselves: then it would mean two people. Of one who is in spec.users here (listed), a directory
// beside another issuer does not tell; there that name is refused.
static bool shared(struct td_srv_people *p, const yyjson_val *oidc, const char *name, bool listed)
{
	bool yes = false;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->n && !yes; i++) {
		yyjson_val *root = td_item_root(p->v[i].cluster), *its = td_jget(root, "spec.identity.oidc");
		yes = (!td_streq(td_jstr(its, "issuer"), td_jstr(oidc, "issuer")) ||
		       !td_streq(claim_of(its), claim_of(oidc))) &&
		      (lists(root, name) || (!listed && of_directory(root, name)));
	}
	pthread_mutex_unlock(&p->lock);
	return yes;
}

// The person of these claims.
static bool person(struct td_srv_people *p, const struct srv_issuer *i, const yyjson_val *claims, struct td_user *ret)
{
	yyjson_val *root = td_item_root(i->cluster), *oidc = td_jget(root, "spec.identity.oidc");
	const char *group = td_jstr(oidc, "groupsClaim"), *name = td_oidc_name(claims, claim_of(oidc), NULL);
	bool listed = name && lists(root, name);
	if (!name || (!listed && !of_directory(root, name)) || shared(p, oidc, name, listed))
		return false;
	ret->name = td_strdup(name);
	if (group)
		groups(td_jkey(claims, group), &ret->groups);
	return true;
}

int td_srv_person(struct td_srv *s, const char *token, struct td_cancel *c, struct td_user *ret)
{
	td_auto_free char *iss = s->people ? td_oidc_claimed_issuer(token) : NULL;
	struct srv_issuer v[CLUSTERS_MOST];
	size_t n = iss ? that_say(s->people, iss, v) : 0;
	bool found = false, away = false;
	for (size_t i = 0; i < n && !found; i++) {
		td_auto(td_json_unref) struct td_json *claims = NULL;
		struct td_error err = TD_ERROR_INIT;
		int r = td_oidc_check(v[i].oidc, token, NULL, c, &claims, &err);
		away |= r == TD_TRANSIENT;
		found = !r && person(s->people, &v[i], td_json_root(claims), ret);
		if (!found)
			td_info("a token of %s was refused: %s", iss,
				r ? err.msg
				  : "its person is not in spec.users, or has his name with somebody of another issuer");
	}
	forget(v, n);
	return found ? 0 : away ? TD_TRANSIENT : TD_UNAUTHENTICATED;
}
