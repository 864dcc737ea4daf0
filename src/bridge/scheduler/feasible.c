// On which nodes a pod may run, remembered: pods of one kind come in hundreds, and each is looked at several times.
#include "bridge/scheduler/feasible.h"

#include "bridge/scheduler/ask.h"

#include <string.h>

enum { KINDS = 64, MOST_TEXT = 16384 }; // of pods that are remembered; whoever makes a pod says how long its text is

struct feasible_kind {
	char *text; // what of the pods counts
	uint64_t gen, print;
	size_t n;
	bool *v;
};
struct td_feasibles {
	pthread_mutex_t lock; // guards the rest
	struct feasible_kind v[KINDS];
	size_t next; // is replaced next
};

struct td_feasibles *td_feasibles_new(void)
{
	struct td_feasibles *f = td_calloc(1, sizeof(*f));
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

struct td_feasibles *td_feasibles_free(struct td_feasibles *f)
{
	if (!f)
		return NULL;
	for (size_t i = 0; i < KINDS; i++) {
		free(f->v[i].text);
		free(f->v[i].v);
	}
	pthread_mutex_destroy(&f->lock);
	free(f);
	return NULL;
}

char *td_feasible_kind(const struct td_object *pod, bool whole, const yyjson_val *sets)
{
	static const char *const fields[] = {"nodeSelector", "affinity", "tolerations"};
	const char *other = td_object_label(pod, TD_LABEL_OTHER);
	td_auto_buf struct td_buf b = {0};
	td_buf_printf(&b, "%d %s", whole, other ? other : "");
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		const yyjson_val *v = td_jkey(td_jget(pod->root, "spec"), fields[i]);
		td_auto_free char *text = v ? td_json_text(v, NULL) : NULL;
		td_buf_printf(&b, "\n%s", text ? text : "");
	}
	td_auto_free char *text = sets ? td_json_text(sets, NULL) : NULL;
	td_buf_printf(&b, "\n%s", text ? text : "");
	return b.len <= MOST_TEXT ? td_buf_take(&b) : NULL;
}

static bool tolerates(const yyjson_val *spec, const char *taint)
{
	yyjson_val *t;
	size_t i, n;
	yyjson_arr_foreach (td_jkey(spec, "tolerations"), i, n, t)
		if (!*td_jstr_or(t, "key", "") || td_streq(td_jstr(t, "key"), taint))
			return true;
	return false;
}

bool td_feasible_to_come(const struct td_object *pod, const yyjson_val *set)
{
	const yyjson_val *spec = td_jget(pod->root, "spec");
	yyjson_val *x;
	size_t i, n;
	if (yyjson_obj_size(td_jkey(spec, "nodeSelector")) || td_jget(spec, "affinity.nodeAffinity") ||
	    td_object_label(pod, TD_LABEL_OTHER))
		return false;
	yyjson_arr_foreach (td_jkey(set, "taints"), i, n, x)
		if (yyjson_is_str(x) && !tolerates(spec, yyjson_get_str(x)))
			return false;
	return true;
}

bool *td_feasible_known(struct td_feasibles *f, const char *kind, uint64_t gen, const struct td_slurm_nodes *l)
{
	bool *ret = NULL;
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < KINDS && !ret; i++) {
		const struct feasible_kind *k = &f->v[i];
		if (k->text && k->gen == gen && k->print == l->print && k->n == l->n && !strcmp(k->text, kind))
			ret = td_memdup(k->v, (k->n + 1) * sizeof(*k->v));
	}
	pthread_mutex_unlock(&f->lock);
	return ret;
}

void td_feasible_learn(struct td_feasibles *f, const char *kind, uint64_t gen, const struct td_slurm_nodes *l,
		       const bool *v)
{
	struct feasible_kind now = {.text = td_strdup(kind),
				    .gen = gen,
				    .print = l->print,
				    .n = l->n,
				    .v = td_memdup(v, (l->n + 1) * sizeof(*v))};
	pthread_mutex_lock(&f->lock);
	size_t at = 0;
	while (at < KINDS && !(f->v[at].text && !strcmp(f->v[at].text, kind)))
		at++;
	if (at == KINDS) {
		at = f->next;
		f->next = (f->next + 1) % KINDS;
	}
	struct feasible_kind old = f->v[at];
	f->v[at] = now;
	pthread_mutex_unlock(&f->lock);
	free(old.text);
	free(old.v);
}
