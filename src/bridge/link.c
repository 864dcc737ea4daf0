// The connection to slurmrestd (which pod, with which key) and the settings of the SlurmCluster.
// Both follow the caches, which a thread looks at every 250 ms.
#include "bridge/bridge.h"

#include "base/file.h"
#include "base/log.h"
#include "http/pki.h"
#include "kube/health.h"
#include "slurm/where.h"

#include <string.h>

enum { LOOK_MS = 250, TOKEN_LIFE_S = 1200 };

struct td_link *td_link_unref(struct td_link *l)
{
	if (l && __atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		td_slurm_free(l->slurm);
		free(l->url);
		explicit_bzero(l->secret, sizeof(l->secret));
		explicit_bzero(l->word, sizeof(l->word));
		explicit_bzero(l->pods_word, sizeof(l->pods_word));
		free(l);
	}
	return NULL;
}

struct td_link *td_bridge_link(struct td_bridge *b, struct td_error *err)
{
	pthread_mutex_lock(&b->lock);
	struct td_link *l = b->link;
	if (l)
		__atomic_add_fetch(&l->refs, 1, __ATOMIC_RELAXED);
	else
		td_fail(err, TD_TRANSIENT, "%s", *b->link_problem ? b->link_problem : "slurmrestd is not known yet");
	pthread_mutex_unlock(&b->lock);
	return l;
}

struct td_settings *td_bridge_settings(struct td_bridge *b)
{
	pthread_mutex_lock(&b->lock);
	struct td_settings *s = td_settings_ref(b->settings);
	pthread_mutex_unlock(&b->lock);
	return s;
}

// The URL of a slurmrestd pod. Caller frees; NULL: err says why.
static char *find_url(struct td_bridge *b, const char *current, struct td_error *err)
{
	if (b->o.slurmrestd)
		return td_strdup(b->o.slurmrestd);

	td_auto_objects struct td_objects pods = {0};
	td_informer_list(b->restds, b->o.ns, &pods);
	td_auto_free const yyjson_val **mine = td_calloc(pods.n ? pods.n : 1, sizeof(yyjson_val *));
	const struct td_slurm_where w = {.pods = mine, .n = pods.n, .current = current, .empty_dirs = b->o.empty_dirs};

	for (size_t i = 0; i < pods.n; i++)
		mine[i] = pods.v[i]->root;

	char *url = td_slurm_rest_url(&w, err);
	if (!url)
		td_wrap(err, "SlurmCluster %s/%s", b->o.ns, b->o.cluster);
	return url;
}

// Reads the jwt key, raw bytes: from the file of the options, else from the cluster's Secret.
static int read_key(struct td_bridge *b, struct td_buf *ret, struct td_error *err)
{
	if (b->o.jwt_key)
		return td_file_read(b->o.jwt_key, 4096, ret, err);

	td_auto_free char *name = td_asprintf("%s-jwt-key", b->o.cluster);
	td_auto(td_object_unref) struct td_object *o = NULL;

	int r = td_kube_get(b->kube, &td_secrets, b->o.ns, name, b->cancel, &o, err);
	if (r)
		return td_wrap(err, "Secret %s/%s", b->o.ns, name);

	const char *text = td_jkey_str(td_jget(o->root, "data"), "jwt_hs256.key");
	if (!text)
		return td_fail(err, TD_NOT_FOUND, "Secret %s/%s has no key jwt_hs256.key", b->o.ns, name);
	return td_base64_decode(text, ret, err);
}

// Keeps why there is no connection, and logs it when it is another reason than before.
static void problem(struct td_bridge *b, const char *msg)
{
	pthread_mutex_lock(&b->lock);
	if (strcmp(b->link_problem, msg) != 0) {
		snprintf(b->link_problem, sizeof(b->link_problem), "%s", msg);
		td_warn("%s", msg);
	}
	pthread_mutex_unlock(&b->lock);
}

// Reads the SlurmCluster. A change for which the running informers are wrong ends this lead.
static int settle(struct td_bridge *b, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(b->clusters, b->o.ns, b->o.cluster);
	if (!sc)
		return td_fail(err, TD_NOT_FOUND, "SlurmCluster %s/%s does not exist", b->o.ns, b->o.cluster);

	td_auto_objects struct td_objects all = {0};
	if (b->tenants)
		td_informer_list(b->tenants, NULL, &all);
	td_auto_free const yyjson_val **mine = td_calloc(all.n + 1, sizeof(*mine));
	struct td_tenant_list tenants = {.v = mine};
	for (size_t i = 0; i < all.n; i++)
		if (td_streq(td_jstr(all.v[i]->root, "spec.cluster.namespace"), b->o.ns) &&
		    td_streq(td_jstr(all.v[i]->root, "spec.cluster.name"), b->o.cluster))
			mine[tenants.n++] = all.v[i]->root;

	struct td_settings *s = td_settings_read_with(sc->root, &tenants), *old;

	pthread_mutex_lock(&b->lock);
	old = b->settings;
	bool same = old && !strcmp(old->text, s->text),
	     shadows = old && (old->shadows != s->shadows || (!same && s->n_lends + old->n_lends)),
	     other = old && (strcmp(old->scheduler, s->scheduler) != 0 || old->devices.dra != s->devices.dra);
	if (!same)
		b->settings = s;
	pthread_mutex_unlock(&b->lock);

	td_settings_unref(same ? s : old);

	if (other) {
		td_warn("spec.scheduler.schedulerName or spec.devices of SlurmCluster %s/%s changed: starting anew",
			b->o.ns, b->o.cluster);
		td_cancel_fire(b->cancel);
	}

	if (shadows)
		td_bridge_nodes_again(b);
	if (!same)
		td_owner_forget(b);
	if (!same)
		td_bridge_look_again(b); // a pod that was refused may be accepted now
	return 0;
}

static void derive(const char *what, const struct td_buf *key, char ret[65])
{
	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, what);
	td_buf_add(&b, key->s, key->len);
	td_sha256_hex(b.s, b.len, ret);
	explicit_bzero(b.s, b.len);
}

int td_bridge_connect(struct td_bridge *b, struct td_error *err)
{
	int r = settle(b, err);
	if (r)
		return r;

	pthread_mutex_lock(&b->lock);
	td_auto_free char *current = td_strdup(b->link ? b->link->url : NULL);
	pthread_mutex_unlock(&b->lock);

	struct td_error none = TD_ERROR_INIT;
	td_auto_free char *url = find_url(b, current, &none);
	if (!url) {
		// No pod is usable now. The current connection stays: its pod may come back, and
		// until then every call on it fails with its own error.
		return current ? 0 : td_fail(err, none.code, "%s", none.msg);
	}

	bool renew = atomic_exchange(&b->unauthenticated, false), relink = atomic_exchange(&b->relink, false);
	if (td_streq(url, current) && !renew && !relink)
		return 0;
	atomic_store(&b->passes, 0); // it may be another slurmctld

	td_auto_buf struct td_buf key = {0};
	r = read_key(b, &key, err);
	if (r)
		return r;

	struct td_link *l = td_calloc(1, sizeof(*l)), *old;
	l->refs = 1;
	l->url = td_strdup(url);
	td_sha256_hex(key.s, key.len, l->secret);
	derive("tandem word ", &key, l->word);
	derive("tandem pods ", &key, l->pods_word);
	const struct td_slurm_opts o = {
		.url = url, .key = key.s, .key_len = key.len, .token_life_s = TOKEN_LIFE_S, .clock = b->clock};

	r = td_slurm_new(&o, &l->slurm, err);
	explicit_bzero(key.s, key.len);
	if (r) {
		td_link_unref(l);
		return r;
	}

	pthread_mutex_lock(&b->lock);
	old = b->link;
	b->link = l;
	b->link_problem[0] = '\0';
	pthread_mutex_unlock(&b->lock);

	if (old && relink)
		td_slurm_stop(old->slurm);
	td_link_unref(old);
	if (!td_streq(url, current))
		td_info("slurmrestd at %s", url);

	td_bridge_poll_now(b);
	return 0;
}

void *td_bridge_connect_thread(void *bridge)
{
	struct td_bridge *b = bridge;
	td_auto(td_loop_free) struct td_loop *loop = td_loop_new("connection to slurmrestd", 0);
	for (; !td_cancel_wait(b->cancel, LOOK_MS); td_loop_idle(loop)) {
		struct td_error e = TD_ERROR_INIT;
		td_loop_busy(loop);
		if (td_bridge_connect(b, &e) && e.code != TD_CANCELLED)
			problem(b, e.msg);
	}
	return NULL;
}
