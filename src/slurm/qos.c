// QOS in slurmdbd.
#include "slurm/qos.h"

#include "slurm/rest_priv.h"

#include <string.h>

void td_slurm_qos_done(struct td_slurm_qos_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->v[i].n_preempts; k++)
			free(l->v[i].preempts[k]);
		free(l->v[i].preempts);
		for (size_t k = 0; k < l->v[i].n_grp; k++)
			free(l->v[i].grp[k].tres);
		free(l->v[i].grp);
		free(l->v[i].name);
		free(l->v[i].description);
	}
	free(l->v);
	*l = (struct td_slurm_qos_list){0};
}

// A number object {set, infinite, number}; 0 when it is not set.
static long long number(const yyjson_val *v, const char *path)
{
	const yyjson_val *n = td_jget(v, path);
	return td_jbool(n, "set", false) ? td_jint(n, "number", 0) : 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int td_slurm_qos(struct td_slurm *s, struct td_cancel *c, struct td_slurm_qos_list *ret, struct td_error *err)
{
	const struct td_slurm_call k = {.method = "GET", .db = true, .path = "/qos/"};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_slurm_call_ok(s, &k, c, &j, err);
	if (r)
		return td_wrap(err, "QOS");

	yyjson_val *v, *x, *list = td_jget(td_json_root(j), "qos");
	if (!yyjson_is_arr(list))
		return td_fail(err, TD_TRANSIENT, "QOS: no list in the reply");

	struct td_slurm_qos_list l = {.v = td_calloc(yyjson_arr_size(list) + 1, sizeof(*l.v))};
	size_t i, n, m, len;
	yyjson_arr_foreach (list, i, n, v) {
		struct td_slurm_qos *q = &l.v[l.n++];
		yyjson_val *victims = td_jget(v, "preempt.list");
		*q = (struct td_slurm_qos){.name = td_strdup(td_jstr_or(v, "name", "")),
					   .description = td_strdup(td_jstr_or(v, "description", "")),
					   .preempts = td_calloc(yyjson_arr_size(victims) + 1, sizeof(char *)),
					   .id = td_jint(v, "id", 0),
					   .priority = number(v, "priority"),
					   .grace_s = td_jint(v, "limits.grace_time", 0),
					   .exempt_s = number(v, "preempt.exempt_time")};
		q->grp = td_slurm_tres_read(td_jget(v, "limits.max.tres.total"), &q->n_grp);
		yyjson_arr_foreach (victims, m, len, x)
			if (yyjson_is_str(x) && !td_streq(yyjson_get_str(x), TD_SLURM_QOS_NOBODY))
				q->preempts[q->n_preempts++] = td_strdup(yyjson_get_str(x));
		if (q->n_preempts)
			qsort(q->preempts, q->n_preempts, sizeof(char *), by_name);
	}

	*ret = l;
	return 0;
}

static void set(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, long long n)
{
	yyjson_mut_val *v = td_jm_obj(d, o, path);
	td_jm_bool(d, v, "set", true);
	td_jm_int(d, v, "number", n);
}

static int nobody(struct td_slurm *s, struct td_cancel *c, struct td_error *err)
{
	const struct td_slurm_qos q = {.name = (char[]){TD_SLURM_QOS_NOBODY}, .description = (char[]){"no job has it"}};
	return td_slurm_qos_write(s, &q, c, err);
}

int td_slurm_qos_write(struct td_slurm *s, const struct td_slurm_qos *q, struct td_cancel *c, struct td_error *err)
{
	int r = q->empties && !q->n_preempts ? nobody(s, c, err) : 0;
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *o = yyjson_mut_obj(d), *victims;
	yyjson_mut_arr_append(td_jm_arr(d, root, "qos"), o);
	td_jm_str(d, o, "name", q->name);
	td_jm_str(d, o, "description", q->description);
	set(d, o, "priority", q->priority);
	set(d, o, "preempt.exempt_time", q->exempt_s);
	td_jm_int(d, o, "limits.grace_time", q->grace_s);
	if (q->n_grp)
		td_slurm_tres_write(d, td_jm_arr(d, o, "limits.max.tres.total"), q->grp, q->n_grp);
	victims = td_jm_arr(d, o, "preempt.list");
	for (size_t i = 0; i < q->n_preempts; i++)
		yyjson_mut_arr_append(victims, yyjson_mut_strcpy(d, q->preempts[i]));
	if (q->empties && !q->n_preempts)
		yyjson_mut_arr_append(victims, yyjson_mut_strcpy(d, TD_SLURM_QOS_NOBODY));

	td_auto_free char *body = td_json_mut_text(root, NULL);
	const struct td_slurm_call k = {.method = "POST", .db = true, .path = "/qos/", .body = body};
	r = td_slurm_call_ok(s, &k, c, NULL, err);
	return r ? td_wrap(err, "QOS %s", q->name) : 0;
}
