// What slurmd pods should be, remembered from pass to pass: a pass looks at every node, and hardly any has changed. Of
// a pod of 20 kB only its revision and what it tells Slurm is kept; the pod itself is built when it is made.
#define uthash_malloc(n) td_malloc(n)
#include "operator/nodeset.h"

#include "base/hash.h"

#include <string.h>

static uint64_t mix(uint64_t h, const char *s)
{
	return td_hash(td_hash_str(h, s), "\xff", 1); // "ab", "c" is not "a", "bc"
}

static uint64_t mix_json(uint64_t h, const yyjson_val *v)
{
	td_auto_free char *text = v ? td_json_text(v, NULL) : NULL;
	return mix(h, text);
}

uint64_t td_op_wish_base(const struct td_op_pass *p, const struct td_object *set)
{
	uint64_t h = mix(TD_HASH, p->op->image);
	const yyjson_val *const of[] = {p->in_force, set->root};
	for (size_t i = 0; i < TD_LEN(of); i++) { // not their status, which no pod is made of
		h = mix_json(h, td_jget(of[i], "spec"));
		h = mix_json(h, td_jget(of[i], "metadata.annotations"));
		h = mix_json(h, td_jget(of[i], "metadata.labels"));
		h = mix(h, td_jstr(of[i], "metadata.name"));
		h = mix(h, td_jstr(of[i], "metadata.namespace"));
		h = mix(h, td_jstr(of[i], "metadata.uid"));
	}
	return h;
}

static void mix_note(void *ctx, const char *key, const char *value)
{
	uint64_t *h = ctx;
	*h = mix(mix(*h, key), value);
}

static uint64_t print_of(uint64_t h, const struct td_op_row *x)
{
	const struct td_op_share *s = &x->share;
	td_auto_free char *share = td_asprintf("%lld %lld %lld %s %s %lld %d %lld", s->cpus, s->memory_mb, s->gpus,
					       s->types, s->numa, s->parts, s->shared, s->nics);
	h = mix(h, share);
	h = mix_json(h, td_jget(x->node->root, "metadata.labels"));
	td_op_notes_each(x->node->root, mix_note, &h);
	return h;
}

int td_op_row_pod(const struct td_op_pass *p, const struct td_object *set, const struct td_op_row *x,
		  struct td_json **ret, struct td_error *err)
{
	return td_op_slurmd_pod(p->in_force, set->root, x->node->root, &x->share, p->op->image, ret, err);
}

int td_op_row_wish(const struct td_op_pass *p, const struct td_object *set, uint64_t base, struct td_op_row *x,
		   struct td_error *err)
{
	struct td_op_wish *w = NULL;
	uint64_t print = print_of(base, x);
	HASH_FIND_STR(p->v->wishes, x->name, w);
	if (!w || w->print != print) {
		td_auto(td_json_unref) struct td_json *pod = NULL;
		int r = td_op_row_pod(p, set, x, &pod, err);
		if (r)
			return r;
		if (!w) {
			w = td_calloc(1, sizeof(*w));
			w->node = td_strdup(x->name);
			HASH_ADD_KEYPTR(hh, p->v->wishes, w->node, strlen(w->node), w);
		}
		w->print = print;
		snprintf(w->revision, sizeof(w->revision), "%s",
			 td_jkey_str(td_jget(td_json_root(pod), "metadata.annotations"), TD_ANN_REVISION));
		free(w->conf);
		w->conf = td_strdup(td_op_pod_conf(td_json_root(pod)));
	}
	w->seen = true;
	x->want = w;
	return 0;
}

void td_op_wishes_forget(struct td_op_view *v, bool all)
{
	struct td_op_wish *w, *tmp;
	HASH_ITER (hh, v->wishes, w, tmp) {
		if (w->seen && !all) {
			w->seen = false;
			continue;
		}
		HASH_DEL(v->wishes, w);
		free(w->node);
		free(w->conf);
		free(w);
	}
}
