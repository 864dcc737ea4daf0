// A session over several nodes: the pods session-ID (the first node: what people reach), session-ID-1, … are one gang,
// so one Slurm job: all of them start or none. How many there are stands in the session's record (`nodes`), with the
// key by which they know each other and the lists of hosts that MPI reads (templates/session-node.yaml).
//
// What becomes of it when a node is lost: of a kind that brings its own program (shell, jupyter, vscode) the first node
// goes on, with all that it has in memory, and the lost one is made anew in the same job, with its rank and its devices.
// An endpoint or batch, whose program is one over all nodes, ends, and says which one was lost. When the first node
// ends, so do the others.
#include "gateway/sessions.h"

#include "api/condition.h"
#include "base/log.h"
#include "base/names.h"

#include <stdio.h>
#include <string.h>

static bool is_ready(const struct td_object *pod)
{
	return td_session_lives(pod) && td_condition_true(pod->root, "Ready");
}

static bool succeeded(const struct td_object *pod)
{
	return pod && td_streq(td_jstr(pod->root, "status.phase"), "Succeeded");
}

// ---- what they are made of ----

int td_session_nodes_asked(const yyjson_val *body)
{
	long long n = td_jint(body, "nodes", 1);
	return n > 1 ? (int)n : 0;
}

void td_session_nodes_record(const yyjson_val *body, const char *id, yyjson_mut_doc *d)
{
	int nodes = td_session_nodes_asked(body);
	if (!nodes)
		return;
	long long slots = td_jint(body, "gpus", 0) ? td_jint(body, "gpus", 0) : td_jint(body, "cpus", 1);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_auto_free char *key = td_session_secret();
	td_auto_buf struct td_buf open = {0}, mpich = {0};
	for (int i = 0; i < nodes; i++) {
		char number[16] = "";
		if (i)
			snprintf(number, sizeof(number), "-%d", i);
		td_buf_printf(&open, "session-%s%s.nodes-%s slots=%lld\n", id, number, id, slots);
		td_buf_printf(&mpich, "session-%s%s.nodes-%s:%lld\n", id, number, id, slots);
	}
	td_jm_strf(d, o, "data.nodes", "%d", nodes);
	td_jm_str(d, o, "data.key", key);
	td_jm_str(d, o, "data.hostfile", td_buf_str(&open));
	td_jm_str(d, o, "data.machinefile", td_buf_str(&mpich));
}

int td_session_nodes_service(struct td_gateway_ask *q, const struct td_object *record, struct td_error *err)
{
	const char *id = td_object_label(record, TD_LABEL_SESSION);
	td_auto_free char *service = td_asprintf("nodes-%s", id);
	const struct td_json_word words[] = {{"service", service, 0},
					     {"namespace", record->ns, 0},
					     {"id", id, 0},
					     {"record", record->name, 0},
					     {"uid", record->uid, 0}};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_session_template("session-service.yaml", words, TD_LEN(words));
	int r = td_kube_create(q->g->kube, &td_services, record->ns, yyjson_mut_doc_get_root(d), td_gateway_cancel(q),
			       NULL, err);
	if (r == TD_EXISTS)
		return 0;
	return !r ? 0
		  : td_wrap(err,
			    "the Service by which the session's nodes find each other, in namespace %s (the "
			    "gateway needs the right to create Services there)",
			    record->ns);
}

// Adds the items of a list, or the fields of an object, to what is at the path of the pod.
static void merge(yyjson_mut_doc *d, yyjson_mut_val *into, yyjson_mut_val *from)
{
	size_t i, n;
	yyjson_mut_val *key, *v;
	if (yyjson_mut_is_arr(from)) {
		yyjson_mut_arr_foreach (from, i, n, v)
			yyjson_mut_arr_append(into, yyjson_mut_val_mut_copy(d, v));
		return;
	}
	yyjson_mut_obj_foreach (from, i, n, key, v)
		td_jm_key_str(d, into, yyjson_mut_get_str(key), yyjson_mut_get_str(v));
}

void td_session_nodes_pod(const yyjson_val *body, const char *id, int number, yyjson_mut_doc *d)
{
	const struct td_session_kind *kind = td_session_kind(td_jstr_or(body, "kind", "endpoint"));
	td_auto_free char *record = td_asprintf("session-%s", id), *service = td_asprintf("nodes-%s", id),
			  *which = td_asprintf("%d", number), *nodes = td_asprintf("%d", td_session_nodes_asked(body)),
			  *gpus = td_asprintf("%lld", td_jint(body, "gpus", 0)),
			  *pod = number ? td_asprintf("%s-%d", record, number) : td_strdup(record);
	const struct td_json_word words[] = {{"record", record, 0}, {"service", service, 0},
					     {"number", which, 0},  {"nodes", nodes, 0},
					     {"gpus", gpus, 0},     {"loss", kind->program ? "replace" : "fail", 0},
					     {"pod", pod, 0}};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *t = td_session_template("session-node.yaml", words, TD_LEN(words));
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *c = td_jm_get(o, "spec.containers.[0]"),
		       *from = yyjson_mut_doc_get_root(t);
	merge(d, td_jm_get(o, "metadata.labels"), td_jm_get(from, "labels"));
	merge(d, td_jm_get(o, "metadata.annotations"), td_jm_get(from, "annotations"));
	merge(d, td_jm_get(c, "env"), td_jm_get(from, "env"));
	if (!kind->program)
		merge(d, td_jm_get(c, "env"), td_jm_get(from, "command"));
	if (!kind->program && td_jint(body, "gpus", 0)) {
		yyjson_mut_val *v = yyjson_mut_arr_add_obj(d, td_jm_get(c, "env"));
		td_jm_str(d, v, "name", "PET_NPROC_PER_NODE");
		td_jm_str(d, v, "value", gpus);
	}
	merge(d, td_jm_get(c, "volumeMounts"), td_jm_get(from, "volumeMounts"));
	merge(d, td_jm_get(o, "spec.volumes.[0].configMap.items"), td_jm_get(from, "items"));
	td_jm_str(d, o, "spec.hostname", td_jm_getstr(from, "hostname"));
	td_jm_str(d, o, "spec.subdomain", td_jm_getstr(from, "subdomain"));
}

int td_session_nodes_owned(struct td_gateway_ask *q, const char *ns, const char *head, yyjson_mut_doc *d,
			   struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *first = NULL;
	int r = td_kube_get(q->g->kube, &td_pods, ns, head, td_gateway_cancel(q), &first, err);
	if (r)
		return td_wrap(err, "the session's first pod");
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d),
		       *owner = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "metadata.ownerReferences"));
	td_jm_str(d, owner, "apiVersion", "v1");
	td_jm_str(d, owner, "kind", "Pod");
	td_jm_str(d, owner, "name", first->name);
	td_jm_str(d, owner, "uid", first->uid);
	return 0;
}

// ---- what there is to do ----

int td_session_nodes_wanted(const struct td_session_set *s)
{
	const struct td_object *head = s->pods[0];
	if (!s->asked)
		return 0;
	if (td_session_lives(head))
		return s->nodes;
	// The others of a batch may be about to write what they found.
	return succeeded(head) && !td_session_kind_of(head)->served ? -1 : 0;
}

bool td_session_nodes_keeps(const struct td_session_set *s, int number, enum td_replica_is is)
{
	const struct td_object *head = s->pods[0];
	if (!number)
		return s->asked; // it is started, resumed and stopped by its owner
	// What is over tells why; and a program over all nodes does not go on with a new one.
	return s->asked && is == TD_REPLICA_ENDED && (!td_session_lives(head) || !td_session_kind_of(head)->program);
}

// ---- what there is to say ----

// The last words of the node whose end has ended the others; NULL: there is none.
static char *culprit(const struct td_session_set *s)
{
	for (int i = 1; i < s->nodes; i++) {
		const struct td_object *o = s->pods[i];
		yyjson_val *end = o ? td_jget(o->root, "status.containerStatuses.[0].state.terminated") : NULL;
		const char *words = td_jstr_or(end, "message", "");
		if (!o || !td_kube_pod_ended(o->root) || succeeded(o) ||
		    td_streq(td_jstr(o->root, "status.reason"), "GrantEnded"))
			continue;
		return td_asprintf("node %d (%s) was lost, and with it the session: %s", i,
				   td_jstr_or(o->root, "spec.nodeName", "?"),
				   *words ? words : td_jstr_or(o->root, "status.message", "its program has failed"));
	}
	return NULL;
}

void td_session_nodes_write(struct td_gateway *g, const struct td_session_set *s, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	const struct td_object *head = s->pods[0];
	if (head)
		td_session_write(g, head, d, w);
	else
		td_session_record_write(s->record, d, w);
	yyjson_mut_val *each = td_jm_arr(d, w, "nodes.each");
	int n = 0, first = -1;
	bool others = false;
	for (int i = 0; i < s->nodes; i++) {
		const struct td_object *p = s->pods[i];
		n += is_ready(p) || (succeeded(p) && i);
		others = others || (i && td_session_lives(p));
		if (!is_ready(p) && !succeeded(p) && first < 0)
			first = i;
		if (!p)
			continue;
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *one = td_jm_new();
		yyjson_mut_val *all = yyjson_mut_doc_get_root(one), *v = yyjson_mut_arr_add_obj(d, each);
		static const char *const fields[] = {"words", "node", "devices"};
		td_session_write(g, p, one, all);
		td_jm_int(d, v, "number", i);
		td_jm_str(d, v, "state", td_session_state(p));
		for (size_t k = 0; k < TD_LEN(fields); k++)
			td_jm_str(d, v, fields[k], td_jm_getstr(all, fields[k]));
	}
	td_jm_int(d, w, "nodes.asked", s->nodes);
	td_jm_int(d, w, "nodes.ready", n);
	if (!head)
		return;
	if (is_ready(head) && first > 0) {
		td_jm_str(d, w, "state", "starting");
		td_jm_strf(d, w, "words", "node %d: %s", first,
			   s->pods[first] ? td_session_state(s->pods[first]) : "made anew");
	}
	if (succeeded(head) && others && !td_session_kind_of(head)->served)
		td_jm_str(d, w, "state", "running");
	td_auto_free char *words = td_kube_pod_ended(head->root) && !succeeded(head) &&
						   td_streq(td_jstr(head->root, "status.reason"), "GrantEnded")
					   ? culprit(s)
					   : NULL;
	if (words)
		td_jm_str(d, w, "words", words);
}
