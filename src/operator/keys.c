// Turns a cluster's keys over, one step after another (pool/keys.h says which is due; docs/keys.md what it is for).
// The step that was made last is noted at the Secret of slurm.key, or of munge.key, in the same write as the keys.
#include "operator/operator.h"

#include "base/log.h"
#include "pool/keys.h"
#include "slurm/keys.h"

#include <string.h>

// Where kubelets bring files, and where Tandem's own does.
enum { KUBELET_BRINGS_MS = 120000, BROUGHT_MS = 4000, MUNGE_LATE_MS = 5000, LOOK_MS = 500 };

static const char *const steps[] = {
	[TD_KEYS_KEEP] = "", [TD_KEYS_SPREAD] = "spread", [TD_KEYS_USE] = "use", [TD_KEYS_DROP] = ""};

// What a Secret says of itself.
struct turn {
	long long generation, before;
	enum td_pool_keys last;
	int64_t since_ms;
};

static struct turn read_turn(const struct td_object *secret)
{
	struct turn t = {.generation = 1, .before = 1};
	const char *step = td_object_annotation(secret, TD_ANN_KEY_STEP);
	long long since = 0;
	td_parse_i64(td_object_annotation(secret, TD_ANN_KEY_GENERATION), &t.generation);
	td_parse_i64(td_object_annotation(secret, TD_ANN_KEY_BEFORE), &t.before);
	td_parse_i64(td_object_annotation(secret, TD_ANN_KEY_SINCE), &since);
	t.since_ms = since;
	for (enum td_pool_keys k = TD_KEYS_SPREAD; k <= TD_KEYS_USE; k++)
		if (td_streq(step, steps[k]))
			t.last = k;
	return t;
}

// The Secret, also one that somebody made beforehand, without our label. TD_NOT_FOUND: there is none yet.
static int secret_of(struct td_op *op, const struct td_object *sc, const char *suffix, struct td_cancel *c,
		     struct td_object **ret, struct td_error *err)
{
	td_auto_free char *name = td_asprintf("%s-%s", sc->name, suffix);
	*ret = td_informer_get(op->secrets, sc->ns, name);
	return *ret ? 0 : td_kube_get(op->k, &td_secrets, sc->ns, name, c, ret, err);
}

static const char *main_secret(const yyjson_val *sc)
{
	return td_slurm_munge(sc) ? "munge-key" : "slurm-key";
}

static void put_text(yyjson_mut_doc *d, yyjson_mut_val *data, const char *key, const char *text)
{
	td_auto_free char *b = td_slurm_key_write(text);
	td_jm_key_str(d, data, key, b);
}

// A key of slurm.jwks; the default one is what a daemon proves by it who it is.
static void jwk(yyjson_mut_doc *d, yyjson_mut_val *list, long long kid, const char *base64, bool used)
{
	yyjson_mut_val *k = yyjson_mut_obj(d);
	td_jm_str(d, k, "alg", "HS256");
	td_jm_str(d, k, "kty", "oct");
	td_jm_strf(d, k, "kid", "%lld", kid);
	td_jm_str(d, k, "k", base64);
	if (used)
		td_jm_str(d, k, "use", "default");
	yyjson_mut_arr_append(list, k);
}

// Adds the data of a step of slurm.key. Of two keys slurm.other is the one that is only believed.
static void slurm_data(yyjson_mut_doc *d, yyjson_mut_val *data, const yyjson_val *have, enum td_pool_keys step,
		       const struct turn *t)
{
	const char *key = td_jkey_str(have, "slurm.key"), *other = td_jkey_str(have, "slurm.other");
	td_auto_free char *fresh = step == TD_KEYS_SPREAD ? td_slurm_key_new(TD_SLURM_KEY_BYTES) : NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *set = td_jm_new();
	yyjson_mut_val *keys = td_jm_arr(set, yyjson_mut_doc_get_root(set), "keys");
	if (step == TD_KEYS_SPREAD) {
		jwk(set, keys, t->before, key, true);
		jwk(set, keys, t->generation, fresh, false);
		td_jm_key_str(d, data, "slurm.other", fresh);
	} else if (step == TD_KEYS_USE) {
		jwk(set, keys, t->before, key, false);
		jwk(set, keys, t->generation, other, true);
		td_jm_key_str(d, data, "slurm.key", other);
		td_jm_key_str(d, data, "slurm.other", key);
	} else {
		jwk(set, keys, t->generation, key, true);
		td_jm_key_set(d, data, "slurm.other", yyjson_mut_null(d));
	}
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(set), NULL),
			  *now = td_asprintf("%lld%s%s", t->generation, *steps[step] ? "." : "", steps[step]);
	put_text(d, data, "slurm.jwks", text);
	put_text(d, data, "state", now);
	explicit_bzero(text, strlen(text));
	if (fresh)
		explicit_bzero(fresh, strlen(fresh));
}

// munged has one key only, so all of them take the next one in the same second.
static void munge_data(yyjson_mut_doc *d, yyjson_mut_val *data, const yyjson_val *have, enum td_pool_keys step,
		       int64_t switch_ms)
{
	if (step == TD_KEYS_SPREAD) {
		td_auto_free char *fresh = td_slurm_key_new(TD_SLURM_MUNGE_KEY_BYTES),
				  *at = td_asprintf("%lld", (long long)(switch_ms / 1000));
		td_jm_key_str(d, data, "munge.next", fresh);
		put_text(d, data, "munge.switch", at);
		explicit_bzero(fresh, strlen(fresh));
		return;
	}
	td_jm_key_str(d, data, "munge.key", td_jkey_str(have, "munge.next"));
	td_jm_key_set(d, data, "munge.next", yyjson_mut_null(d));
	td_jm_key_set(d, data, "munge.switch", yyjson_mut_null(d));
}

static int patch(struct td_op *op, const struct td_object *secret, yyjson_mut_doc *d, struct td_cancel *c,
		 struct td_error *err)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", secret->uid);
	td_jm_str(d, root, "metadata.resourceVersion", secret->rv);
	int r = td_kube_patch(op->k, TD_AT(&td_secrets, secret->ns, secret->name), TD_PATCH_MERGE, root, c, NULL, err);
	if (r == TD_CONFLICT) // our cache is a moment behind
		return 0;
	return r ? td_wrap(err, "turning over the key in Secret %s/%s", secret->ns, secret->name) : 0;
}

static int make_step(struct td_op *op, const struct td_object *sc, const struct td_object *secret,
		     enum td_pool_keys step, const struct turn *now, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *data = td_jm_obj(d, root, "data"),
		       *notes = td_jm_obj(d, root, "metadata.annotations");
	int64_t at = td_real_ms(&td_clock_system);
	bool munge = td_slurm_munge(sc->root);
	struct turn t = *now;
	if (step == TD_KEYS_SPREAD) {
		t.before = now->generation;
		t.generation = td_jint(sc->root, "spec.auth.keyGeneration", 1);
	} else if (munge) {
		step = TD_KEYS_DROP; // nothing is believed but the one that is used
	}
	if (munge)
		munge_data(d, data, td_jget(secret->root, "data"), step,
			   at + (op->image ? KUBELET_BRINGS_MS : BROUGHT_MS));
	else
		slurm_data(d, data, td_jget(secret->root, "data"), step, &t);
	td_auto_free char *generation = td_asprintf("%lld", t.generation), *before = td_asprintf("%lld", t.before),
			  *since = td_asprintf("%lld", (long long)at);
	td_jm_key_str(d, notes, TD_ANN_KEY_GENERATION, generation);
	td_jm_key_str(d, notes, TD_ANN_KEY_BEFORE, before);
	td_jm_key_str(d, notes, TD_ANN_KEY_STEP, steps[step]);
	td_jm_key_str(d, notes, TD_ANN_KEY_SINCE, since);
	int r = patch(op, secret, d, c, err);
	if (!r)
		td_info("SlurmCluster %s/%s: %s, generation %lld: %s", sc->ns, sc->name, secret->name, t.generation,
			*steps[step] ? steps[step] : "the old key is gone");
	return r;
}

// The key of tokens has no second one beside it. It is made anew with the first step; who was refused meanwhile asks
// again with a token of the new one.
static int token_key(struct td_op *op, const struct td_object *sc, long long generation, struct td_cancel *c,
		     struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *secret = NULL;
	int r = secret_of(op, sc, "jwt-key", c, &secret, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : r;
	if (read_turn(secret).generation >= generation)
		return 0;
	td_auto_free char *fresh = td_slurm_key_new(TD_SLURM_JWT_KEY_BYTES), *now = td_asprintf("%lld", generation);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_key_str(d, td_jm_obj(d, root, "data"), "jwt_hs256.key", fresh);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_KEY_GENERATION, now);
	explicit_bzero(fresh, strlen(fresh));
	return patch(op, secret, d, c, err);
}

// Does slurmctld, and every slurmd that answers, have the keys that were written last? They say so in the nodes'
// comments (services.sh).
static bool seen(const struct td_op_view *v, const struct turn *t)
{
	const uint64_t away = TD_NODE(DOWN) | TD_NODE(NOT_RESPONDING) | TD_NODE_ABSENT;
	td_auto_free char *want = td_asprintf("%lld%s%s", t->generation, *steps[t->last] ? "." : "", steps[t->last]);
	for (size_t i = 0; i < v->nodes.n; i++) {
		struct td_op_said said;
		if (v->nodes.v[i].states & away)
			continue; // it reads them when it starts
		if (!td_op_says(&v->nodes.v[i], &said) || !td_streq(said.keys, want))
			return false;
	}
	return v->fresh;
}

int td_op_keys_sync(struct td_op *op, struct td_object *sc, struct td_op_view *v, int64_t *again_ms,
		    struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *secret = NULL;
	int r = secret_of(op, sc, main_secret(sc->root), c, &secret, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : r; // no valid configuration yet
	struct turn t = read_turn(secret);
	bool munge = td_slurm_munge(sc->root);
	const struct td_pool_keys_facts f = {
		.wanted = td_jint(sc->root, "spec.auth.keyGeneration", 1),
		.has = t.generation,
		.last = t.last,
		.age_ms = td_real_ms(&td_clock_system) - t.since_ms,
		.seen = munge || seen(v, &t),
		.spread_ms = (op->image ? KUBELET_BRINGS_MS : BROUGHT_MS) + (munge ? MUNGE_LATE_MS : 0),
		.overlap_ms = td_jint(sc->root, "spec.auth.keyOverlapSeconds", 600) * 1000,
	};
	enum td_pool_keys next = td_pool_keys_next(&f);
	if (next != TD_KEYS_KEEP)
		r = make_step(op, sc, secret, next, &t, c, err);
	if (!r)
		r = token_key(op, sc, t.generation, c, err);
	if ((next != TD_KEYS_KEEP || t.last != TD_KEYS_KEEP) && (*again_ms <= 0 || *again_ms > LOOK_MS))
		*again_ms = LOOK_MS;
	return r;
}

void td_op_keys_status(struct td_op *op, const struct td_object *sc, yyjson_mut_doc *d, yyjson_mut_val *status)
{
	td_auto_free char *name = td_asprintf("%s-%s", sc->name, main_secret(sc->root));
	td_auto(td_object_unref) struct td_object *secret = td_informer_get(op->secrets, sc->ns, name);
	if (!secret)
		return;
	struct turn t = read_turn(secret);
	static const char *const words[] = {[TD_KEYS_KEEP] = NULL,
					    [TD_KEYS_SPREAD] = "Spreading",
					    [TD_KEYS_USE] = "Overlapping",
					    [TD_KEYS_DROP] = NULL};
	td_jm_int(d, status, "keys.generation", t.last == TD_KEYS_SPREAD ? t.before : t.generation);
	td_jm_str(d, status, "keys.step", words[t.last]);
}

void td_op_keys_check(struct td_op *op, const struct td_object *sc, struct td_strv *problems)
{
	td_auto_free char *name = td_asprintf("%s-%s", sc->name, main_secret(sc->root));
	td_auto(td_object_unref) struct td_object *secret = td_informer_get(op->secrets, sc->ns, name);
	long long wanted = td_jint(sc->root, "spec.auth.keyGeneration", 1);
	struct turn t = secret ? read_turn(secret) : (struct turn){0};
	if (secret && wanted < t.generation)
		td_strv_addf(problems,
			     "spec.auth.keyGeneration: generation %lld is there, and old keys do not come back; write "
			     "%lld, or more for a new one",
			     t.generation, t.generation);
}
