// Checks and operations of an agent's nodes: one key per node.
#include "gate/nodehealth.h"
#include "gate/jobuse.h"
#include "gate/met.h"
#include "gate/out.h"
#include "gate/probe.h"
#include "gate/rings.h"

#include "api/condition.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "base/proc.h"
#include "gate/stragglers.h"
#include "gate/useful.h"
#include "pool/cut.h"
#include "pool/health.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	WORKERS = 2,
	RECORD_MAX = 16 << 10,
	PROGRAM_MS = 20 * 60 * 1000,
	ASKED_MS = 10 * 60 * 1000,
	DRAINED_MS = 8000,
	FREE_MS = 20000,
	TEST_MORE_MS = 10000,
	TEST_MOST_MS = 20000 // the operator asks for no more
};

struct one {
	struct td_checkup_facts facts;
	bool known;
	struct td_useful useful;
	char asked[64]; // the operation whose reboot this process asked for
	int64_t asked_ms;
	char *parts; // in which its GPUs can be cut, once all have said it; "": in none
};
struct td_nodehealth {
	struct td_nodehealth_opts o;
	struct td_queue *queue;
	pthread_mutex_t mu; // guards facts and known of all
	struct one *v;
	struct td_preflight *preflight; // NULL: none
	struct td_hangs *hangs;         // NULL: none
	struct td_stragglers *stragglers;
	struct td_gate_probes *probes; // NULL: none
	struct td_gate_rings *rings;   // there with probes
};

static int devices_of_node(void *ctx, int node)
{
	struct td_nodehealth *h = ctx;
	pthread_mutex_lock(&h->mu);
	int n = h->v[node].known ? h->v[node].facts.gpus : 0;
	pthread_mutex_unlock(&h->mu);
	return n;
}

static void found(void *ctx, int node)
{
	struct td_nodehealth *h = ctx;
	td_queue_add(h->queue, h->o.names[node]);
}

struct td_nodehealth *td_nodehealth_new(const struct td_nodehealth_opts *o)
{
	struct td_nodehealth *h = td_calloc(1, sizeof(*h));
	*h = (struct td_nodehealth){.o = *o, .queue = td_queue_new(o->clock)};
	h->v = td_calloc((size_t)o->n, sizeof(*h->v));
	pthread_mutex_init(&h->mu, NULL);
	for (int i = 0; o->gate && i < o->n; i++) {
		td_auto_free char *path = td_asprintf("%s/%s.use", td_gate_dir(o->gate), o->names[i]);
		h->v[i].useful.jobs = td_jobuse_new(path, td_mono_ms(o->clock));
	}
	if (o->gate) {
		h->preflight = td_preflight_new(&(struct td_preflight_opts){.gate = o->gate,
									    .nodes = o->nodes,
									    .clock = o->clock,
									    .names = o->names,
									    .selftest = o->selftest,
									    .test_gpus = o->test_gpus,
									    .gpus_each = o->gpus_each,
									    .faults = o->faults,
									    .actions = o->actions,
									    .n = o->n});
		h->probes = td_gate_probes_new(&(struct td_gate_probes_opts){.kube = o->kube,
									     .nodes = o->nodes,
									     .gate = o->gate,
									     .preflight = h->preflight,
									     .clock = o->clock,
									     .state = o->state,
									     .names = o->names,
									     .n = o->n,
									     .devices = devices_of_node,
									     .found = found,
									     .ctx = h});
		h->rings = td_gate_rings_new(&(struct td_gate_rings_opts){o->kube, o->clock, o->names, o->n});
		h->stragglers = td_stragglers_new(&(struct td_hangs_opts){o->gate, o->nodes, o->clock, o->names, o->n});
		h->hangs = td_hangs_new(
			&(struct td_hangs_opts){o->gate, o->nodes, o->clock, o->names, o->n, h->stragglers});
	}
	return h;
}

struct td_nodehealth *td_nodehealth_free(struct td_nodehealth *h)
{
	if (!h)
		return NULL;
	td_gate_probes_free(h->probes);
	td_gate_rings_free(h->rings);
	td_preflight_free(h->preflight);
	td_hangs_free(h->hangs);
	td_stragglers_free(h->stragglers);
	td_queue_free(h->queue);
	pthread_mutex_destroy(&h->mu);
	for (int i = 0; i < h->o.n; i++) {
		free(h->v[i].parts);
		td_jobuse_free(h->v[i].useful.jobs);
	}
	free(h->v);
	free(h);
	return NULL;
}

static int index_of(const struct td_nodehealth *h, const char *name)
{
	for (int i = 0; i < h->o.n; i++)
		if (!strcmp(h->o.names[i], name))
			return i;
	return -1;
}

void td_nodehealth_on_node(void *health, struct td_object *old, struct td_object *now)
{
	struct td_nodehealth *h = health;
	int i = now && h->probes ? index_of(h, now->name) : -1;
	if (i >= 0) {
		td_gate_probes_on_node(h->probes, i, now);
		td_gate_rings_on_node(h->rings, i, now);
	}
	if (now &&
	    !td_streq(old ? td_object_annotation(old, TD_ANN_OPERATION) : NULL,
		      td_object_annotation(now, TD_ANN_OPERATION)) &&
	    index_of(h, now->name) >= 0)
		td_queue_add(h->queue, now->name);
}

bool td_nodehealth_arrives(struct td_nodehealth *h, int node)
{
	if (h && h->rings)
		td_gate_rings_arrive(h->rings, node);
	return !h || !h->probes || td_gate_probes_arrive(h->probes, node);
}

void td_nodehealth_beside(struct td_nodehealth *h, int node)
{
	if (!h || !h->probes)
		return;
	td_gate_rings_arrive(h->rings, node);
	td_gate_probes_beside(h->probes, node);
}

bool td_nodehealth_facts(struct td_nodehealth *h, int node, struct td_checkup_facts *ret)
{
	pthread_mutex_lock(&h->mu);
	bool known = h->v[node].known;
	if (known)
		*ret = h->v[node].facts;
	pthread_mutex_unlock(&h->mu);
	return known;
}

void td_nodehealth_more(struct td_nodehealth *h, int node, struct td_checkup_findings *ret)
{
	if (h->preflight)
		td_preflight_findings(h->preflight, node, ret);
}

int td_nodehealth_preflight(struct td_nodehealth *h, struct td_preflight_ask *q, long long *ret_tries,
			    struct td_cancel *c, struct td_error *err)
{
	if (!h->preflight)
		return 0;
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	td_auto_free struct td_checkup_findings *l = td_calloc(1, sizeof(*l));
	if (td_nodehealth_facts(h, q->node, f))
		td_checkup_judge(f, l);
	q->know = l;
	int r = td_preflight_run(h->preflight, q, ret_tries, c, err);
	q->know = NULL;
	if (r == TD_DENIED) {
		td_queue_add(h->queue, h->o.names[q->node]);
		td_preflight_await_drain(h->preflight, q->node, DRAINED_MS, c);
	}
	return r;
}

int td_gate_preflight(struct td_nodehealth *h, int node, const struct td_gate_request *q, long long *ret_tries,
		      struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *ns = td_strndup(q->h.ask_pod, strcspn(q->h.ask_pod, "/"));
	struct td_preflight_ask ask = {.node = node,
				       .mask = q->mask,
				       .h = &q->h,
				       .partition = *q->partition ? q->partition : NULL,
				       .qos = *q->qos ? q->qos : NULL,
				       .ns = *ns ? ns : NULL,
				       // The Prolog's own deadline must not come first.
				       .timeout_ms = q->timeout_ms - DRAINED_MS - 2000};
	if (ask.timeout_ms < 1000)
		ask.timeout_ms = 1000;
	td_auto(td_object_unref) struct td_object *o = td_informer_get(h->o.nodes, NULL, h->o.names[node]);
	if (td_streq(q->h.uid, "0")) // it keeps them from all others, or tests the rest of the node
		ask.mask = td_out_less(o, ask.mask);
	return td_nodehealth_preflight(h, &ask, ret_tries, c, err);
}

// Whose devices idled: that goes into their jobs' admin comments.
static void add_ended(struct td_jobuse *jobs, int64_t now_ms, char **ret)
{
	td_auto_free char *ended = jobs ? td_jobuse_ended(jobs, now_ms) : NULL, *before = *ret;
	if (ended)
		*ret = td_asprintf("%s%sended=%s", before ? before : "", before ? " " : "", ended);
	else
		td_steal(before);
}

// That several idle nodes are to be tested together.
static void add_ring(struct td_gate_rings *rings, int node, char **ret)
{
	td_auto_free char *ring = td_gate_rings_ask(rings, node), *before = *ret;
	*ret = ring && before ? td_asprintf("%s %s", before, ring) : td_strdup(ring ? ring : before);
}

// Which native jobs met a fault that is there now: that goes into theirs, too. It comes last, because it is a text.
static void add_faults(struct td_nodehealth *h, int node, char **ret)
{
	td_auto(td_object_unref) struct td_object *o = td_informer_get(h->o.nodes, NULL, h->o.names[node]);
	td_auto_free char *jobs = o ? td_met_jobs(td_object_annotation(o, TD_ANN_FAULTS)) : NULL, *before = *ret;
	if (jobs)
		*ret = td_asprintf("%s%sfaults=%s", before ? before : "", before ? " " : "", jobs);
	else
		td_steal(before);
}

int td_gate_several(struct td_nodehealth *h, int node, const struct td_gate_request *q, char **ret, struct td_cancel *c,
		    struct td_error *err)
{
	*ret = NULL;
	if (!h->preflight)
		return 0;
	struct td_jobuse *jobs = h->v[node].useful.jobs;
	if (q->used) {
		double busy = 0, idle = 0;
		if (jobs)
			(void)td_jobuse_of(jobs, q->h.job, q->h.start, &busy, &idle);
		*ret = td_asprintf("busy=%.0f idle=%.0f", busy, idle);
		return 0;
	}
	if (q->noted) {
		if (jobs)
			td_jobuse_done(jobs, q->h.job, q->h.start);
		return 0;
	}
	if (q->rung)
		return td_gate_rings_said(h->rings, node, q, c, err);
	if (q->pace) {
		td_stragglers_ask(h->stragglers, node, q, ret);
		return 0;
	}
	if (q->hangs || q->progress || q->use) {
		td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
		bool known = !q->hangs && td_nodehealth_facts(h, node, f);
		td_hangs_ask(h->hangs, node, q, known ? f : NULL, ret);
		if (q->hangs) {
			add_ring(h->rings, node, ret);
			add_ended(h->v[node].useful.jobs, td_mono_ms(h->o.clock), ret);
			add_faults(h, node, ret);
		}
		return 0;
	}
	if (q->suspect && *q->slow)
		return td_stragglers_accuse(h->o.kube, h->o.nodes, h->o.names[node], q, c, err);
	if (q->suspect) {
		const struct td_preflight_suspicion s = {.bad = !strcmp(q->state, "bad"),
							 .storage = !strcmp(q->result, "storage"),
							 .job = q->h.job,
							 .why = q->why};
		bool out = td_preflight_suspect(h->preflight, node, &s);
		td_queue_add(h->queue, h->o.names[node]);
		if (out)
			td_preflight_await_drain(h->preflight, node, DRAINED_MS, c);
		return 0;
	}
	td_auto_free char *ns = td_strndup(q->h.ask_pod, strcspn(q->h.ask_pod, "/"));
	const struct td_preflight_ask ask = {.node = node,
					     .h = &q->h,
					     .partition = *q->partition ? q->partition : NULL,
					     .qos = *q->qos ? q->qos : NULL,
					     .ns = *ns ? ns : NULL};
	return td_preflight_several(h->preflight, &ask, q->result, ret, err);
}

// ---- checks ----

static int look(struct td_nodehealth *h, int i, struct td_cancel *c, struct td_checkup_findings *ret,
		struct td_error *err)
{
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	struct td_checkup_backend *b = &h->o.backends[i];
	int r = b->read(b->ctx, f, err);
	if (r)
		return r;
	td_useful_look(&h->v[i].useful, h->o.gate, i, f, td_mono_ms(h->o.clock));
	ret->n = 0;
	td_checkup_judge(f, ret);
	td_checkup_site(h->o.checks, c, ret);
	if (h->preflight) {
		td_preflight_again(h->preflight, i, c);
		td_preflight_findings(h->preflight, i, ret);
	}
	pthread_mutex_lock(&h->mu);
	h->v[i].facts = *f;
	h->v[i].known = true;
	pthread_mutex_unlock(&h->mu);
	return 0;
}

// The annotation; NULL: no finding.
static char *faults_text(const struct td_checkup_findings *l, const struct td_met *met)
{
	if (!l->n)
		return NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *list = yyjson_mut_arr(d);
	yyjson_mut_doc_set_root(d, list);
	for (size_t i = 0; i < l->n; i++) {
		const struct td_checkup_finding *f = &l->v[i];
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, "check", f->check);
		td_jm_str(d, o, "condition", f->condition);
		td_jm_str(d, o, "device", *f->device ? f->device : NULL);
		td_jm_str(d, o, "link", *f->link ? f->link : NULL);
		td_jm_int(d, o, "code", f->code);
		td_jm_str(d, o, "action", f->action);
		const struct td_checkup_check *check = td_checkup_check_named(f->check);
		td_jm_str(d, o, "scope", check && check->alone && *f->device ? "device" : NULL);
		td_jm_str(d, o, "message", f->message);
		td_met_write(&met[i], d, o);
	}
	return td_json_mut_text(list, NULL);
}

static void note(yyjson_mut_doc *d, yyjson_mut_val *root, const struct td_object *o, const char *key, const char *want,
		 bool *differs)
{
	if (td_streq(td_object_annotation(o, key), want))
		return;
	*differs = true;
	yyjson_mut_val *a = td_jm_obj(d, root, "metadata.annotations");
	if (want)
		td_jm_key_str(d, a, key, want);
	else
		td_jm_key_set(d, a, key, yyjson_mut_null(d));
}

// The findings of one type of condition in one text; the first one's check is its reason.
static const char *summary(const struct td_checkup_findings *l, const char *type, struct td_buf *text)
{
	const char *reason = NULL;
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].condition, type)) {
			td_buf_printf(text, "%s%s", text->len ? "; " : "", l->v[i].message);
			reason = reason ? reason : l->v[i].check;
		}
	return reason;
}

static bool has(yyjson_mut_doc *d, yyjson_mut_val *list, const char *type)
{
	yyjson_mut_val *x;
	size_t i, n;
	yyjson_mut_arr_foreach (list, i, n, x)
		if (td_streq(td_jm_getstr(x, "type"), type))
			return true;
	return false;
}

static void condition(struct td_nodehealth *h, const struct td_object *node, const struct td_checkup_findings *l,
		      const char *type, yyjson_mut_doc *d, yyjson_mut_val *list)
{
	yyjson_val *was = td_condition(node->root, type);
	td_auto_buf struct td_buf text = {0};
	const char *check = summary(l, type, &text);
	const char *status = check ? "True" : "False", *message = check ? td_buf_str(&text) : "the checks find nothing";
	if (has(d, list, type) || (!was && !check) ||
	    (was && td_streq(td_jstr(was, "status"), status) && td_streq(td_jstr(was, "message"), message)))
		return;
	// A reason is one word in capitals: "xid" → "Xid", "disk-full" → "DiskFull".
	char reason[64] = "Healthy";
	size_t n = 0;
	bool up = true;
	for (const char *p = check; p && *p && n + 1 < sizeof(reason); p++) {
		if (*p == '-' || *p == '_' || *p == '.') {
			up = true;
			continue;
		}
		reason[n++] = up && *p >= 'a' && *p <= 'z' ? (char)(*p - 32) : *p;
		up = false;
	}
	if (check)
		reason[n] = '\0';
	const struct td_condition_want w = {
		.type = type, .status = status, .reason = reason, .message = message, .heartbeat = true};
	td_condition_add(d, list, td_jget(node->root, "status.conditions"), &w, td_real_ms(h->o.clock));
}

// Asks in which parts the GPUs can be cut. *ret stays NULL until all of them have said it.
static void learn_parts(struct td_checkup_backend *b, char **ret)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *list = yyjson_mut_arr(d), *gpus = NULL;
	struct td_mig_kind before[TD_MIG_KINDS] = {0};
	size_t n_before = 0;
	int r = 0;
	yyjson_mut_doc_set_root(d, list);
	for (int gpu = 0; b->kinds && gpu < TD_HEALTH_GPUS; gpu++) {
		struct td_mig_kind v[TD_MIG_KINDS] = {0};
		size_t n = 0;
		if ((r = b->kinds(b->ctx, gpu, v, &n, NULL)))
			break;
		if (n && (!gpus || n != n_before || memcmp(v, before, sizeof(v)) != 0)) {
			yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list), *parts;
			gpus = td_jm_arr(d, o, "gpus");
			parts = td_jm_arr(d, o, "parts");
			for (size_t i = 0; i < n; i++) {
				yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, parts);
				td_jm_str(d, x, "name", v[i].profile);
				td_jm_int(d, x, "size", v[i].size);
				td_jm_int(d, x, "at", v[i].at);
				td_jm_int(d, x, "most", v[i].most);
			}
		}
		if (n) {
			memcpy(before, v, sizeof(before));
			n_before = n;
			yyjson_mut_arr_add_int(d, gpus, gpu);
		}
	}
	if (!r || r == TD_NOT_FOUND)
		*ret = yyjson_mut_arr_size(list) ? td_json_mut_text(list, NULL) : td_strdup("");
}

struct whose {
	const struct td_nodehealth *h;
	struct td_gate *gate;
	int node;
};

static void add_job(struct td_met *m, int64_t job)
{
	for (size_t i = 0; i < m->n_jobs; i++)
		if (m->jobs[i] == job)
			return;
	if (m->n_jobs < TD_MET_JOBS)
		m->jobs[m->n_jobs++] = job;
}

// What runs on the node: who holds its devices, and native jobs without any.
static bool who_is_there(const struct whose *w, struct td_met *ret)
{
	int64_t jobs[TD_MET_JOBS];
	*ret = (struct td_met){.live = true};
	for (int k = 0; w->gate && k < TD_HEALTH_GPUS; k++) {
		struct td_holder who;
		// Root's own jobs keep devices out of service.
		if (!td_gate_holder(w->gate, w->node, k, &who) || (!who.pod && !strcmp(who.uid, "0")))
			continue;
		if (!ret->n_jobs)
			ret->who = who;
		add_job(ret, who.job);
	}
	size_t n = w->h->o.jobs ? w->h->o.jobs(w->h->o.ctx, w->node, jobs, TD_MET_JOBS) : 0;
	for (size_t i = 0; i < n; i++)
		add_job(ret, jobs[i]);
	if (ret->n_jobs && !ret->who.job)
		ret->who.job = ret->jobs[0];
	ret->known = ret->n_jobs;
	return ret->known;
}

static bool who_met(void *ctx, int device, struct td_met *ret)
{
	const struct whose *w = ctx;
	if (device < 0)
		return who_is_there(w, ret);
	ret->live = w->gate && td_gate_holder(w->gate, w->node, device, &ret->who);
	ret->known = ret->live || (w->gate && td_gate_last(w->gate, w->node, device, &ret->who));
	return ret->known;
}

// result: the annotation that goes into the same write; NULL: as it is.
static int show(struct td_nodehealth *h, const struct td_object *node, struct td_checkup_findings *l,
		const char *result, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new(), *s = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *status = yyjson_mut_doc_get_root(s),
		       *list = td_jm_arr(s, status, "status.conditions");
	td_auto_free struct td_met *met = td_calloc(TD_HEALTH_FINDINGS, sizeof(*met));
	struct whose whose = {h, h->o.gate, index_of(h, node->name)};
	td_met_find(td_object_annotation(node, TD_ANN_FAULTS), l, who_met, &whose, met);
	td_met_say(met, l);
	td_auto_free char *text = faults_text(l, met), *programs = td_nodehealth_programs(h->o.actions);
	bool differs = false;
	note(d, root, node, TD_ANN_FAULTS, text, &differs);
	note(d, root, node, TD_ANN_PROGRAMS, programs, &differs);
	// While its driver is away a machine says nothing, and its GPUs are what they were.
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	td_auto_free char *gpus = h->o.inventory ? h->o.inventory(h->o.ctx, index_of(h, node->name)) : NULL;
	const bool known = td_nodehealth_facts(h, index_of(h, node->name), f);
	if (known && h->o.seen)
		h->o.seen(h->o.ctx, index_of(h, node->name), f);
	if (!gpus && known)
		gpus = td_checkup_inventory(f);
	if (gpus)
		note(d, root, node, TD_ANN_GPUS, gpus, &differs);
	char **parts = &h->v[index_of(h, node->name)].parts;
	if (!*parts) // what they have said stays as it is
		learn_parts(&h->o.backends[index_of(h, node->name)], parts);
	if (*parts && **parts)
		note(d, root, node, TD_ANN_GPU_PARTS, *parts, &differs);
	td_auto_free char *nics = td_checkup_nics_text(f);
	note(d, root, node, TD_ANN_NICS, nics, &differs);
	td_auto_free char *gds = h->o.gds ? h->o.gds(h->o.ctx, index_of(h, node->name)) : NULL;
	if (h->o.gds)
		note(d, root, node, TD_ANN_GDS, gds, &differs);
	if (result)
		note(d, root, node, TD_ANN_OPERATION_RESULT, result, &differs);

	for (size_t i = 0; i < l->n; i++)
		condition(h, node, l, l->v[i].condition, s, list);
	for (size_t i = 0; i < td_checkup_n_checks; i++)
		condition(h, node, l, td_checkup_checks[i].condition, s, list);
	condition(h, node, l, "SiteUnhealthy", s, list);

	int r = 0;
	if (differs) {
		td_jm_str(d, root, "metadata.uid", node->uid);
		r = td_fault_at(err, "health.show.before");
		if (!r)
			r = td_kube_patch(h->o.kube, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, root, c, NULL,
					  err);
		if (!r)
			r = td_fault_at(err, "health.show.after");
		if (!r && text)
			td_warn("node %s: %s", node->name, text);
	}
	if (!r && yyjson_mut_arr_size(list)) {
		td_jm_str(s, status, "metadata.uid", node->uid);
		r = td_kube_patch(h->o.kube, TD_AT(&td_nodes, NULL, node->name, "status"), TD_PATCH_STRATEGIC, status,
				  c, NULL, err);
	}
	return r;
}

// ---- operations ----

struct op {
	const char *id, *action, *device, *program, *boot; // point into the annotation's document; boot: see do_once
	int node;
	const char *name;
	bool alone;        // it is about one device of a node whose others work
	int64_t ms;        // of a test: how long it computes
	int64_t gpu;       // of a cut: the machine's; below 0: all of them
	const char *parts; // the same: "3g.40gb,1g.10gb"; "": they shall be whole
	bool held;         // the node is out of service
};

static char *record_path(const struct td_nodehealth *h, const char *node)
{
	return td_asprintf("%s/operation-%s.json", h->o.state, node);
}

// The record of an operation. result NULL: it begins.
static int record(struct td_nodehealth *h, const struct op *x, const char *result, const char *message,
		  struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *boot = h->o.boot(h->o.ctx, x->node), *path = record_path(h, x->name);
	td_jm_str(d, root, "id", x->id);
	td_jm_str(d, root, "boot", boot);
	td_jm_str(d, root, "result", result);
	td_jm_str(d, root, "message", message);
	td_auto_free char *text = td_json_mut_text(root, NULL);
	return td_file_write(path, text, strlen(text), 0600, err);
}

static int device_of(const struct op *x)
{
	long long n;
	return x->device && td_parse_i64(x->device + 3, &n) ? (int)n : TD_HEALTH_ALL;
}

static int run_program(struct td_nodehealth *h, const struct op *x, struct td_cancel *c, struct td_error *err)
{
	// The API's schema keeps slashes out of the name.
	if (!h->o.actions || !x->program || strchr(x->program, '/') || x->program[0] == '.')
		return td_fail(err, TD_INVALID, "this agent has no directory of actions, or the name is none of them");
	td_auto_free char *path = td_asprintf("%s/%s", h->o.actions, x->program), *node = td_strdup(x->name);
	if (access(path, X_OK) < 0)
		return td_fail(err, TD_NOT_FOUND, "%s is no program on this node", path);
	char *argv[] = {path, node, NULL};
	return td_run_ok(argv, PROGRAM_MS, c, err);
}

// The others of the node work, so this one must be free: root's job that keeps it from them may hold it, and nobody
// else, and who held it before must be gone.
static int device_free(struct td_nodehealth *h, const struct op *x, struct td_cancel *c, struct td_error *err)
{
	struct td_holder who;
	int k = device_of(x);
	if (k < 0 || k >= TD_HEALTH_GPUS)
		return td_fail(err, TD_INVALID, "the operation of one device names none");
	if (!h->o.gate || !td_gate_holder(h->o.gate, x->node, k, &who))
		return 0;
	if (who.pod || strcmp(who.uid, "0") != 0)
		return td_fail(err, TD_CONFLICT, "%s is held by job %lld", x->device, (long long)who.job);
	return td_gate_check(h->o.gate, x->node, (uint64_t)1 << k, &who, &(struct td_gate_wait){.timeout_ms = FREE_MS},
			     c, err);
}

// Tests one device that nobody holds.
static int test_device(struct td_nodehealth *h, const struct op *x, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *program = NULL, *list = td_asprintf("%d", device_of(x));
	char why[128] = "";
	uint64_t bad = 0;
	if (x->program) {
		if (!h->o.actions || strchr(x->program, '/') || x->program[0] == '.')
			return td_fail(err, TD_INVALID,
				       "spec.preflight.program: this agent has no directory of actions");
		program = td_asprintf("%s/%s", h->o.actions, x->program);
		if (access(program, X_OK) < 0)
			return td_fail(err, TD_NOT_FOUND, "spec.preflight.program: %s is no program on this node",
				       program);
	}
	const struct td_checkup_quick q = {.selftest = h->o.selftest,
					   .faults = h->o.faults ? h->o.faults[x->node] : NULL,
					   .program = program,
					   .gpus = h->o.test_gpus,
					   .first = x->node * h->o.gpus_each,
					   .node = x->name,
					   .list = list,
					   .devices = (uint64_t)1 << device_of(x),
					   .ms = x->ms,
					   .limit_ms = x->ms + TEST_MORE_MS};
	int r = td_checkup_quick(&q, c, &bad, why, sizeof(why), err);
	return r || !bad ? r : td_fail(err, TD_INVALID, "%s: %s", x->device, why);
}

// The parts that a GPU shall have, each with its place.
static int place_parts(struct td_checkup_backend *b, int gpu, const struct td_strv *parts,
		       struct td_mig_wish ret[TD_MIG_PARTS], struct td_error *err)
{
	struct td_mig_kind has[TD_MIG_KINDS];
	struct td_cut_kind kinds[TD_CUT_KINDS];
	int at[TD_CUT_PARTS];
	size_t n = 0;
	_Static_assert((int)TD_MIG_KINDS == (int)TD_CUT_KINDS && (int)TD_MIG_PARTS == (int)TD_CUT_PARTS, "one size");
	int r = b->kinds(b->ctx, gpu, has, &n, err);
	for (size_t i = 0; !r && i < n; i++) {
		kinds[i] = (struct td_cut_kind){.size = has[i].size, .at = has[i].at, .most = has[i].most};
		memcpy(kinds[i].name, has[i].profile, sizeof(kinds[i].name));
	}
	if (!r)
		r = td_pool_cut_place(kinds, n, (const char *const *)parts->v, parts->n, at, err);
	for (size_t i = 0; !r && i < parts->n; i++) {
		snprintf(ret[i].profile, sizeof(ret[i].profile), "%s", parts->v[i]);
		ret[i].at = at[i];
	}
	return r;
}

// The node is drained; who holds a device all the same, a pod of another scheduler say, is left alone.
static int nobody_holds(struct td_nodehealth *h, const struct op *x, struct td_error *err)
{
	struct td_holder who;
	for (int k = 0; h->o.gate && k < TD_HEALTH_GPUS; k++)
		if (td_gate_holder(h->o.gate, x->node, k, &who))
			return td_fail(err, TD_CONFLICT, "gpu%d is held by job %lld", k, (long long)who.job);
	return 0;
}

static int cut(struct td_nodehealth *h, const struct op *x, struct td_error *err)
{
	struct td_checkup_backend *b = &h->o.backends[x->node];
	td_auto_strv struct td_strv parts = {0};
	struct td_mig_wish wish[TD_MIG_PARTS];
	// An agent that was away for long may hear of it, or find it begun, when nobody waits for it any more.
	if (!x->held)
		return td_fail(err, TD_CONFLICT, "the node is in service again: ask once more");
	int r = nobody_holds(h, x, err);
	if (!b->kinds || !b->cut)
		return td_fail(err, TD_UNSUPPORTED, "this agent has no way to cut a GPU");
	td_strv_split(&parts, x->parts ? x->parts : "", ',');
	// What does not fit on one of them leaves all as they are.
	for (int round = 0; round < 2; round++) {
		int gpu = x->gpu < 0 ? 0 : (int)x->gpu;
		for (; !r && gpu < TD_HEALTH_GPUS; gpu++) {
			r = place_parts(b, gpu, &parts, wish, err);
			if (r == TD_NOT_FOUND && x->gpu < 0 && gpu) {
				r = 0;
				break;
			}
			if (!r && round)
				r = b->cut(b->ctx, gpu, wish, parts.n, err);
			if (r)
				td_wrap(err, "GPU %d", gpu);
			if (x->gpu >= 0)
				break;
		}
	}
	return r;
}

static int act(struct td_nodehealth *h, const struct op *x, struct td_cancel *c, struct td_error *err)
{
	struct td_checkup_backend *b = &h->o.backends[x->node];
	int free = x->alone ? device_free(h, x, c, err) : 0;
	if (free)
		return free;
	if (td_streq(x->action, "test") && x->alone)
		return test_device(h, x, c, err);
	if (td_streq(x->action, "cut-gpu"))
		return cut(h, x, err);
	if (td_streq(x->action, "reset-gpu"))
		return b->reset(b->ctx, device_of(x), c, err);
	if (td_streq(x->action, "run"))
		return run_program(h, x, c, err);
	if (!td_streq(x->action, "reboot"))
		return td_fail(err, TD_INVALID, "\"%s\" is no operation of this agent", x->action);
	int r = h->o.reboot(h->o.ctx, x->node, c, err);
	return r || !b->rebooted ? r : b->rebooted(b->ctx, err);
}

// Is it a reboot, and has the node booted since?
static bool booted(const struct td_nodehealth *h, const struct op *x, const char *before)
{
	if (!td_streq(x->action, "reboot"))
		return false;
	td_auto_free char *now = h->o.boot(h->o.ctx, x->node);
	return td_pool_act_booted(before, now);
}

// What a record without a result means.
static int found_begun(struct td_nodehealth *h, const struct op *x, const yyjson_val *rec, struct td_error *err)
{
	if (booted(h, x, td_jstr(rec, "boot"))) {
		struct td_checkup_backend *b = &h->o.backends[x->node];
		int r = b->rebooted ? b->rebooted(b->ctx, err) : 0;
		return r ? r : record(h, x, "done", "", err);
	}
	struct one *v = &h->v[x->node];
	if (!strcmp(v->asked, x->id) && td_mono_ms(h->o.clock) - v->asked_ms < ASKED_MS)
		return 0; // the machine goes down
	return record(h, x, "unknown", "the agent was stopped in the middle of it", err);
}

static int do_once(struct td_nodehealth *h, const struct op *x, struct td_cancel *c, struct td_error *err)
{
	// It has booted since it was told to. A node without a disk has lost the record, and would boot for ever.
	if (booted(h, x, x->boot))
		return record(h, x, "done", "", err);
	int r = record(h, x, NULL, NULL, err);
	if (r || (r = td_fault_at(err, "health.operation.begun")))
		return r;
	td_info("node %s: %s begins (operation %s)", x->name, x->action, x->id);
	struct td_error e = TD_ERROR_INIT;
	r = act(h, x, c, &e);
	if (r == TD_UNCERTAIN && td_streq(x->action, "reboot")) {
		snprintf(h->v[x->node].asked, sizeof(h->v[0].asked), "%s", x->id);
		h->v[x->node].asked_ms = td_mono_ms(h->o.clock);
		return 0;
	}
	if (r == TD_CANCELLED) // this process ends: the next one says "unknown"
		return td_fail(err, r, "%s", e.msg);
	td_info("node %s: %s %s%s", x->name, x->action, r ? "failed: " : "is done", r ? e.msg : "");
	int saved = record(h, x, r ? "failed" : "done", r ? e.msg : "", err);
	// One that failed may have changed some of them.
	if (!saved && h->o.recut && td_streq(x->action, "cut-gpu"))
		h->o.recut(h->o.ctx, x->node);
	return saved;
}

// *ret: the result to show, or NULL.
static int operate(struct td_nodehealth *h, const struct td_object *node, int i, char **ret, struct td_cancel *c,
		   struct td_error *err)
{
	const char *text = td_object_annotation(node, TD_ANN_OPERATION),
		   *said = td_object_annotation(node, TD_ANN_OPERATION_RESULT);
	td_auto(td_json_unref) struct td_json *j = NULL, *k = NULL, *rec = NULL;
	if (!text || td_json_parse(text, strlen(text), &j, NULL))
		return 0;
	yyjson_val *o = td_json_root(j);
	const int64_t ms = td_jint(o, "milliseconds", 200);
	const struct op x = {.id = td_jstr(o, "id"),
			     .action = td_jstr(o, "action"),
			     .device = td_jstr(o, "device"),
			     .program = td_jstr(o, "program"),
			     .boot = td_jstr(o, "boot"),
			     .alone = td_streq(td_jstr(o, "scope"), "device"),
			     .gpu = td_jint(o, "gpu", -1),
			     .parts = td_jstr(o, "parts"),
			     .held = td_object_annotation(node, TD_ANN_HOLD),
			     .ms = ms < 1              ? 1
				   : ms > TEST_MOST_MS ? TEST_MOST_MS
						       : ms,
			     .node = i,
			     .name = node->name};
	if (!x.id || !*x.id || strlen(x.id) >= sizeof(h->v[0].asked) || !x.action)
		return 0;
	if (said && !td_json_parse(said, strlen(said), &k, NULL) && td_streq(td_jstr(td_json_root(k), "id"), x.id))
		return 0;

	td_auto_free char *path = record_path(h, x.name);
	for (int round = 0; round < 2; round++) {
		td_auto_buf struct td_buf b = {0};
		int r = td_file_read(path, RECORD_MAX, &b, err);
		if (r && r != TD_NOT_FOUND)
			return r;
		rec = td_json_unref(rec);
		if (!r && td_json_parse(td_buf_str(&b), b.len, &rec, NULL))
			return td_fail(err, TD_INTERNAL, "%s is not readable: remove it", path);
		bool begun = td_streq(td_jstr(td_json_root(rec), "id"), x.id);
		const char *result = begun ? td_jstr(td_json_root(rec), "result") : NULL;
		if (result) {
			td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(rec));
			td_jm_del(yyjson_mut_doc_get_root(d), "boot");
			*ret = td_json_mut_text(yyjson_mut_doc_get_root(d), NULL);
			return 0;
		}
		if (round)
			return 0; // the machine goes down
		// A cut begins with a look at what is there.
		begun &= !td_streq(x.action, "cut-gpu");
		r = begun ? found_begun(h, &x, td_json_root(rec), err) : do_once(h, &x, c, err);
		if (r)
			return r;
	}
	return 0;
}

static int reconcile(void *ctx, const char *name, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_nodehealth *h = ctx;
	int i = index_of(h, name);
	td_auto(td_object_unref) struct td_object *node = td_informer_get(h->o.nodes, NULL, name);
	*again_ms = h->o.interval_ms;
	if (i < 0 || !node)
		return 0;

	td_auto_free char *result = NULL;
	int r = operate(h, node, i, &result, c, err);
	struct td_checkup_findings l;
	if (!r)
		r = look(h, i, c, &l, err);
	if (!r)
		td_out_findings(node, &l);
	if (!r)
		r = show(h, node, &l, result, c, err);
	return r ? td_wrap(err, "health of node %s", name) : 0;
}

int td_nodehealth_run(struct td_nodehealth *h, struct td_cancel *c, struct td_error *err)
{
	for (int i = 0; i < h->o.n; i++)
		td_queue_add(h->queue, h->o.names[i]);
	const struct td_controller ctl = {
		.name = "health", .workers = WORKERS, .queue = h->queue, .reconcile = reconcile, .ctx = h};
	return td_controller_run(&ctl, c, err);
}
