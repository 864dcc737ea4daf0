// The QOS of spec.preemption: kept in slurmdbd as the SlurmCluster says (pool/preempt.h decides).
// Rows of others are never touched; Tandem knows its own by their description, in which Slurm keeps
// what it likes.
#include "operator/operator.h"

#include "base/log.h"
#include "pool/preempt.h"
#include "slurm/accounting.h"
#include "slurm/preempt.h"
#include "slurm/qos.h"

#include <string.h>

enum { AGAIN_MS = 60000, RETRY_MS = 3000, QOS_MAX = 64 };

struct wanted {
	struct td_strv victims[QOS_MAX];
	struct td_pool_qos v[QOS_MAX];
	size_t n;
};

static void wanted_done(struct wanted *w)
{
	for (size_t i = 0; i < w->n; i++)
		td_strv_done(&w->victims[i]);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void wanted_read(const yyjson_val *sc, struct wanted *ret)
{
	yyjson_val *x, *y;
	size_t i, n, k, m;
	yyjson_arr_foreach (td_jget(sc, "spec.preemption.qos"), i, n, x) {
		if (ret->n == QOS_MAX)
			return;
		struct td_strv *victims = &ret->victims[ret->n];
		yyjson_arr_foreach (td_jget(x, "preempts"), k, m, y)
			if (yyjson_is_str(y) && !td_strv_has(victims, yyjson_get_str(y)))
				td_strv_add(victims, yyjson_get_str(y));
		if (victims->n)
			qsort(victims->v, victims->n, sizeof(char *), by_name);
		ret->v[ret->n++] = (struct td_pool_qos){.name = td_jstr_or(x, "name", ""),
							.preempts = (const char *const *)victims->v,
							.n_preempts = victims->n,
							.priority = td_jint(x, "priority", 0),
							.grace_s = td_slurm_preempt_s(td_jstr(x, "graceTime")),
							.exempt_s = td_slurm_preempt_s(td_jstr(x, "minSlice"))};
	}
}

static const struct td_pool_qos *wanted_find(const struct wanted *w, const char *name)
{
	for (size_t i = 0; i < w->n; i++)
		if (td_streq(w->v[i].name, name))
			return &w->v[i];
	return NULL;
}

struct qos_pass {
	struct td_op_view *v;
	const struct wanted *want;
	const struct td_slurm_qos_list *live;
	const char *mark;
	bool lists; // the second round: who preempts whom
	struct td_buf *foreign;
	size_t written;
};

static int write_row(const struct qos_pass *p, const struct td_pool_qos *q, const struct td_pool_qos *live,
		     struct td_error *err)
{
	const bool list = p->lists;
	const struct td_slurm_qos row = {.name = (char *)(uintptr_t)q->name,
					 .description = (char *)(uintptr_t)p->mark,
					 .preempts = (char **)(uintptr_t)q->preempts,
					 .n_preempts = list ? q->n_preempts : 0,
					 .empties = list && live->n_preempts,
					 .priority = q->priority,
					 .grace_s = q->grace_s,
					 .exempt_s = q->exempt_s};
	return td_slurm_qos_write(p->v->slurm, &row, p->v->call, err);
}

static int decide(struct qos_pass *p, const struct td_pool_qos *want, const struct td_slurm_qos *x,
		  struct td_error *err)
{
	struct td_pool_qos live = {0};
	if (x)
		live = (struct td_pool_qos){.name = x->name,
					    .preempts = (const char *const *)x->preempts,
					    .n_preempts = x->n_preempts,
					    .priority = x->priority,
					    .grace_s = x->grace_s,
					    .exempt_s = x->exempt_s};
	const struct td_pool_qos none = {.name = x ? x->name : NULL};
	enum td_pool_qos_do what = td_pool_qos_decide(want, x ? &live : NULL, x && td_streq(x->description, p->mark));
	int r = 0;

	switch (what) {
	case TD_QOS_LEAVE:
		return 0;
	case TD_QOS_FOREIGN:
		if (!p->lists)
			td_buf_printf(p->foreign, "%s%s", p->foreign->len ? ", " : "", want->name);
		return 0;
	case TD_QOS_MAKE:
		// All are there before one names another.
		r = write_row(p, want, &live, err);
		break;
	case TD_QOS_WRITE:
		r = p->lists ? write_row(p, want, &live, err) : 0;
		break;
	case TD_QOS_RETIRE:
		r = p->lists ? write_row(p, &none, &live, err) : 0;
		break;
	}

	if (!r && (p->lists || what == TD_QOS_MAKE)) {
		p->written++;
		if (p->lists)
			td_info("SlurmCluster %s: QOS %s: %s", p->v->key, want ? want->name : x->name,
				td_pool_qos_do_name(what));
	}
	return r;
}

static int round_of(struct qos_pass *p, struct td_error *err)
{
	int r = 0;
	for (size_t i = 0; i < p->want->n && !r; i++) {
		const struct td_slurm_qos *x = NULL;
		for (size_t k = 0; k < p->live->n; k++)
			if (td_streq(p->live->v[k].name, p->want->v[i].name))
				x = &p->live->v[k];
		r = decide(p, &p->want->v[i], x, err);
	}
	for (size_t k = 0; k < p->live->n && !r; k++)
		if (!wanted_find(p->want, p->live->v[k].name))
			r = decide(p, NULL, &p->live->v[k], err);
	return r;
}

static int sync_rows(struct td_object *sc, struct td_op_view *v, struct td_buf *foreign, struct td_error *err)
{
	__attribute__((cleanup(wanted_done))) struct wanted want = {0};
	td_auto_free char *mark = td_asprintf("tandem/%s/%s", sc->ns, sc->name);
	td_auto_qos struct td_slurm_qos_list live = {0};
	wanted_read(sc->root, &want);
	int r = td_slurm_qos(v->slurm, v->call, &live, err);
	if (r)
		return r;

	struct qos_pass p = {.v = v, .want = &want, .live = &live, .mark = mark, .foreign = foreign};
	r = round_of(&p, err);
	p.lists = true;
	return r ? r : round_of(&p, err);
}

void td_op_qos_sync(struct td_op_view *v, struct td_object *sc, int64_t *again_ms)
{
	int64_t now = td_mono_ms(&td_clock_system), gen = td_jint(sc->root, "metadata.generation", 0);
	bool declared = td_slurm_preempts(sc->root);
	struct td_op_qos *q = &v->qos;
	if (!td_slurm_accounting(sc->root) || v->problem || !v->fresh || !v->slurm)
		return;

	bool due = q->gen != gen || (declared && now >= q->due_ms);
	if (due) {
		td_auto_buf struct td_buf foreign = {0};
		struct td_error err = TD_ERROR_INIT;
		int r = sync_rows(sc, v, &foreign, &err);
		free(q->problem);
		q->problem = r ? td_asprintf("the QOS could not be written: %.400s",
					     td_slurm_is_silence(&err) ? "Slurm does not answer" : err.msg)
			     : foreign.len
				     ? td_asprintf("in slurmdbd and not made by Tandem, so they are left as they are: "
						   "%.400s; choose other names, or delete them there (sacctmgr)",
						   td_buf_str(&foreign))
				     : NULL;
		q->failed = r != 0;
		q->gen = r ? 0 : gen;
		q->due_ms = now + (r ? RETRY_MS : AGAIN_MS);
		q->known = true;
	}
	int64_t left = q->due_ms - now;
	if ((declared || q->failed) && (!*again_ms || left < *again_ms))
		*again_ms = left > 0 ? left : 1;
}
