// What hubs say of limits over all members (pool/fedword.h), kept in the ConfigMap CLUSTER-federation, from where the
// operator makes limits in Slurm of it: one entry a Federation, {"at": epoch seconds, "word": …}.
//
// A word that says nothing new is written down once a minute, so that its age is known. One list of one object is asked
// for in ten seconds at most where nothing changes, since another gateway may have written.
#include "gateway/member.h"

#include "base/log.h"
#include "base/names.h"
#include "slurm/accounting.h"

#include <string.h>

enum { AGAIN_S = 60, READ_MS = 10000 };

struct td_member_words {
	pthread_mutex_t writing; // held by the one that asks Kubernetes; guards what follows
	struct td_object *kept;
	int64_t read_ms; // mono; 0: never
	char *failed;    // why the last one was not kept; NULL: it was
	int64_t failed_ms;
};

struct td_member_words *td_member_words_new(void)
{
	struct td_member_words *w = td_calloc(1, sizeof(*w));
	pthread_mutex_init(&w->writing, NULL);
	return w;
}

struct td_member_words *td_member_words_free(struct td_member_words *w)
{
	if (!w)
		return NULL;
	td_object_unref(w->kept);
	free(w->failed);
	pthread_mutex_destroy(&w->writing);
	free(w);
	return NULL;
}

// ---- may it be kept? ----

bool td_member_word_let(const yyjson_val *sc, const char *federation)
{
	return td_jbool(td_jfind(td_jget(sc, "spec.federation.hubs"), "name", federation), "limits", false);
}

const char *td_member_word_not(const yyjson_val *sc, const char *federation)
{
	if (!td_member_word_let(sc, federation))
		return "its administrator does not let the hub limit anything: spec.federation.hubs[].limits of its "
		       "SlurmCluster";
	if (!td_slurm_limits_enforced(sc))
		return "it enforces no limits: set spec.accounting.enforce: limits in its SlurmCluster";
	return NULL;
}

// ---- keeping it ----

static int read_kept(struct td_gateway *g, struct td_member_words *w, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects all = {0};
	td_auto_free char *labels = td_asprintf(TD_LABEL_FED_LIMITS "=%s", g->o.cluster);
	int r = td_kube_list(g->kube, &td_configmaps, g->o.ns, labels, NULL, c, &all, err);
	if (r)
		return r;
	td_object_unref(w->kept);
	w->kept = all.n ? td_object_ref(all.v[0]) : NULL;
	w->read_ms = td_mono_ms(&td_clock_system);
	return 0;
}

// True: the same word is there, and no minute old.
static bool there(const struct td_object *kept, const char *federation, const yyjson_val *word, int64_t now)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	const char *text = kept ? td_jkey_str(td_jget(kept->root, "data"), federation) : NULL;
	if (!text || td_json_parse(text, strlen(text), &j, NULL))
		return false;
	int64_t age = now - td_jint(td_json_root(j), "at", 0);
	return age >= 0 && age < AGAIN_S && td_jequal(td_jget(td_json_root(j), "word"), word);
}

// Takes out what hubs said that may say nothing any more.
static void forget(struct td_gateway *g, const struct td_object *kept, yyjson_mut_doc *d, yyjson_mut_val *data)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
	yyjson_val *said = kept && sc ? td_jget(kept->root, "data") : NULL, *k, *v;
	size_t i, n;
	yyjson_obj_foreach (said, i, n, k, v)
		if (!td_jfind(td_jget(sc->root, "spec.federation.hubs"), "name", yyjson_get_str(k)))
			td_jm_key_set(d, data, yyjson_get_str(k), yyjson_mut_null(d));
}

static int write_kept(struct td_gateway *g, struct td_member_words *w, const char *federation, const char *text,
		      struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_auto_free char *name = td_asprintf("%s-federation", g->o.cluster);
	struct td_object *now = NULL;
	td_jm_key_str(d, td_jm_obj(d, o, "data"), federation, text);
	forget(g, w->kept, d, td_jm_obj(d, o, "data"));
	int r = w->kept ? td_kube_patch(g->kube, TD_AT(&td_configmaps, g->o.ns, name), TD_PATCH_MERGE, o, c, &now, err)
			: TD_NOT_FOUND;
	if (r == TD_NOT_FOUND) {
		td_jm_str(d, o, "apiVersion", "v1");
		td_jm_str(d, o, "kind", "ConfigMap");
		td_jm_str(d, o, "metadata.name", name);
		td_jm_str(d, o, "metadata.namespace", g->o.ns);
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), TD_LABEL_FED_LIMITS, g->o.cluster);
		r = td_kube_create(g->kube, &td_configmaps, g->o.ns, o, c, &now, err);
	}
	w->read_ms = r ? 0 : w->read_ms; // else it is looked at anew
	if (r)
		return td_wrap(err, "ConfigMap %s/%s", g->o.ns, name);
	td_object_unref(w->kept);
	w->kept = now;
	return 0;
}

int td_member_word_take(struct td_gateway *g, const char *federation, const char *text, struct td_cancel *c,
			struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *word = NULL;
	if (td_json_parse(text, strlen(text), &word, err))
		return td_wrap(err, "limits");
	if (!yyjson_is_arr(td_jget(td_json_root(word), "teams")))
		return td_fail(err, TD_INVALID, "limits.teams: a list is wanted");
	struct td_member_words *w = g->words;
	int64_t now = td_real_ms(&td_clock_system) / 1000;
	int r = 0;
	if (pthread_mutex_trylock(&w->writing)) // the next look says it again
		return 0;
	// An API server that is silent is not waited for in each look: the hub would take this cluster for lost.
	if (w->failed && td_mono_ms(&td_clock_system) - w->failed_ms < READ_MS) {
		r = td_fail(err, TD_TRANSIENT, "%s", w->failed);
		pthread_mutex_unlock(&w->writing);
		return r;
	}
	if (!w->read_ms || td_mono_ms(&td_clock_system) - w->read_ms > READ_MS)
		r = read_kept(g, w, c, err);
	bool none = !yyjson_arr_size(td_jget(td_json_root(word), "teams"));
	bool had = w->kept && td_jkey(td_jget(w->kept->root, "data"), federation);
	if (!r && (had || !none) && !there(w->kept, federation, td_json_root(word), now)) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
		size_t n;
		td_jm_int(d, o, "at", now);
		td_jm_copyval(d, o, "word", td_json_root(word));
		td_auto_free char *kept = td_json_mut_text(o, &n);
		r = write_kept(g, w, federation, kept, c, err);
	}
	free(w->failed);
	w->failed = r ? td_strdup(err->msg) : NULL;
	w->failed_ms = td_mono_ms(&td_clock_system);
	pthread_mutex_unlock(&w->writing);
	return r;
}
