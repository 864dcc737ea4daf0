#include "gate/rings.h"

#include "base/log.h"
#include "base/names.h"
#include "metrics/metrics.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { BESIDE_MS = 3000, KIB_MAX = 64 << 10, NAMES_MAX = 2999 };

static const char *const ends[] = {"passed", "failed", "ended", "error"};

struct ring_node {
	char id[64]; // of the test that is wanted; "": none
	char *nodes; // "n0,n1"
	long long kib, least, percent;
	bool told, over;    // `watch` knows it; somebody has come
	int64_t arrived_ms; // mono: somebody came last
};
struct td_gate_rings {
	struct td_gate_rings_opts o;
	pthread_mutex_t mu; // guards node
	struct ring_node *node;
};

static void count(const char *node, const char *result, double n)
{
	td_metric_add(td_counter(td_metrics_process(), "tandem_idle_exchanges_total",
				 "Tests of several idle nodes together, by the node that led; result: passed, failed, "
				 "ended (work came), or error (no test took place).",
				 TD_LABELS("node", "result")),
		      n, TD_LABELS(node, result));
}

struct td_gate_rings *td_gate_rings_new(const struct td_gate_rings_opts *o)
{
	struct td_gate_rings *r = td_calloc(1, sizeof(*r));
	r->o = *o;
	r->node = td_calloc((size_t)o->n, sizeof(*r->node));
	pthread_mutex_init(&r->mu, NULL);
	for (int i = 0; i < o->n; i++) {
		r->node[i].arrived_ms = td_mono_ms(o->clock) - BESIDE_MS;
		for (size_t k = 0; k < TD_LEN(ends); k++)
			count(o->names[i], ends[k], 0);
	}
	return r;
}

struct td_gate_rings *td_gate_rings_free(struct td_gate_rings *r)
{
	if (!r)
		return NULL;
	for (int i = 0; i < r->o.n; i++)
		free(r->node[i].nodes);
	pthread_mutex_destroy(&r->mu);
	free(r->node);
	free(r);
	return NULL;
}

// The names with commas; NULL: there are less than two, they are too many, or one is no name of a node: `watch` finds its
// words by blanks, and gives the names to scontrol.
static char *names_of(yyjson_val *list)
{
	td_auto_buf struct td_buf b = {0};
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (list, i, n, x) {
		const char *name = yyjson_is_str(x) ? yyjson_get_str(x) : "";
		if (!isalnum((unsigned char)*name) ||
		    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(name))
			return NULL;
		td_buf_printf(&b, "%s%s", b.len ? "," : "", name);
	}
	return yyjson_arr_size(list) > 1 && b.len <= NAMES_MAX ? td_buf_take(&b) : NULL;
}

void td_gate_rings_on_node(struct td_gate_rings *r, int node, const struct td_object *now)
{
	// What says that it is drained, or has jobs.
	static const char *const not[] = {TD_ANN_HOLD, TD_ANN_SLURM_STATE, TD_ANN_SLURM_USE, TD_ANN_SLURM_JOBS};
	const char *text = td_object_annotation(now, TD_ANN_PROBE_TOGETHER),
		   *said = td_object_annotation(now, TD_ANN_PROBED_TOGETHER);
	td_auto(td_json_unref) struct td_json *j = NULL, *k = NULL;
	yyjson_val *root = text && !td_json_parse(text, strlen(text), &j, NULL) ? td_json_root(j) : NULL;
	const char *id = td_jstr_or(root, "id", "");
	bool over = false, done = said && !td_json_parse(said, strlen(said), &k, NULL) &&
				  td_streq(td_jstr(td_json_root(k), "id"), id);
	for (size_t i = 0; i < TD_LEN(not); i++)
		over |= td_object_annotation(now, not[i]) != NULL;
	td_auto_free char *nodes = names_of(td_jget(root, "nodes"));
	if (!nodes || done || strlen(id) >= sizeof(r->node[0].id) ||
	    strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz") != strlen(id))
		id = "";
	pthread_mutex_lock(&r->mu);
	struct ring_node *n = &r->node[node];
	if (strcmp(n->id, id) != 0) {
		long long kib = td_jint(root, "kib", 1024);
		free(n->nodes);
		n->nodes = *id ? td_steal(nodes) : NULL;
		snprintf(n->id, sizeof(n->id), "%s", id);
		n->kib = kib < 1 ? 1 : kib > KIB_MAX ? KIB_MAX : kib;
		n->least = td_jint(root, "leastMBps", 0);
		n->percent = td_jint(root, "percent", 0);
		n->told = n->over = false;
	}
	n->over |= over;
	pthread_mutex_unlock(&r->mu);
}

// Is the name one of "n0,n1"?
static bool among(const char *list, const char *name)
{
	size_t n = strlen(name);
	for (const char *s = list; s && *s; s += strcspn(s, ","), s += *s == ',')
		if (!strncmp(s, name, n) && (!s[n] || s[n] == ','))
			return true;
	return false;
}

void td_gate_rings_arrive(struct td_gate_rings *r, int node)
{
	pthread_mutex_lock(&r->mu);
	r->node[node].arrived_ms = td_mono_ms(r->o.clock);
	for (int i = 0; i < r->o.n; i++)
		if (r->node[i].told && among(r->node[i].nodes, r->o.names[node]))
			r->node[i].over = true;
	pthread_mutex_unlock(&r->mu);
}

char *td_gate_rings_ask(struct td_gate_rings *r, int node)
{
	char *ret = NULL;
	pthread_mutex_lock(&r->mu);
	struct ring_node *n = &r->node[node];
	if (*n->id && !n->told && !n->over && td_mono_ms(r->o.clock) - n->arrived_ms >= BESIDE_MS) {
		n->told = true;
		ret = td_asprintf("ring=%s:%lld:%lld:%lld:%s", n->id, n->kib, n->least, n->percent, n->nodes);
	}
	pthread_mutex_unlock(&r->mu);
	return ret;
}

static int tell(struct td_gate_rings *r, int node, const struct td_gate_request *q, const char *result,
		struct td_cancel *c, struct td_error *err)
{
	const char *name = r->o.names[node];
	char when[TD_TIME_LEN];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new(), *patch = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *root = yyjson_mut_doc_get_root(patch);
	td_auto_free char *why = td_strdup(strcmp(q->why, "-") ? q->why : "");
	for (char *p = why; *p; p++)
		if (*p == '_')
			*p = ' ';
	td_jm_str(d, o, "id", q->id);
	td_jm_str(d, o, "at", td_time_format(td_real_ms(r->o.clock), when));
	td_jm_str(d, o, "result", result);
	if (q->mbps > 0 && strcmp(result, "ended"))
		td_jm_int(d, o, "MBps", q->mbps);
	td_jm_str(d, o, "message", *why && strcmp(result, "ended") ? why : NULL);
	td_auto_free char *text = td_json_mut_text(o, NULL);
	td_jm_key_str(patch, td_jm_obj(patch, root, "metadata.annotations"), TD_ANN_PROBED_TOGETHER, text);
	count(name, result, 1);
	if (!strcmp(result, "failed") || !strcmp(result, "error"))
		td_warn("node %s: its test with others while idle: %s: %s", name, result, why);
	return td_kube_patch(r->o.kube, TD_AT(&td_nodes, NULL, name), TD_PATCH_MERGE, root, c, NULL, err);
}

int td_gate_rings_said(struct td_gate_rings *r, int node, const struct td_gate_request *q, struct td_cancel *c,
		       struct td_error *err)
{
	const char *result = NULL;
	pthread_mutex_lock(&r->mu);
	struct ring_node *n = &r->node[node];
	bool its = *q->id && n->told && !strcmp(n->id, q->id), over = its && n->over;
	if (its && strcmp(q->state, "on") != 0) {
		for (size_t i = 0; i < TD_LEN(ends); i++)
			if (!strcmp(ends[i], q->state))
				result = over ? "ended" : ends[i];
		*n->id = '\0'; // it is done once
		n->told = false;
	}
	pthread_mutex_unlock(&r->mu);
	if (!its || (over && !result))
		return td_fail(err, TD_CONFLICT, "the test is not wanted any more");
	return result ? tell(r, node, q, result, c, err) : 0;
}
