// The status of a NodeSet.
#include "operator/nodeset.h"

#include "pool/lines.h"
#include "slurm/hostlist.h"
#include "slurm/hosts.h"

#include <string.h>

static void counts(yyjson_mut_doc *d, yyjson_mut_val *root, const yyjson_val *old, const struct td_pool_set_counts *k,
		   bool fresh)
{
	const struct {
		const char *name;
		long long n;
		bool slurm; // only Slurm knows it: without its answer the last value stays
	} v[] = {{"desired", k->desired, false}, {"matched", k->matched, false},    {"assigned", k->assigned, false},
		 {"ready", k->ready, true},      {"updated", k->updated, false},    {"running", k->running, false},
		 {"idle", k->idle, true},        {"allocated", k->allocated, true}, {"draining", k->draining, true},
		 {"drained", k->drained, true},  {"down", k->down, true},           {"poweredDown", k->off, true}};
	for (size_t i = 0; i < TD_LEN(v); i++)
		td_jm_int(d, root, v[i].name, v[i].slurm && !fresh ? td_jint(old, v[i].name, 0) : v[i].n);
}

// Returns which services have failed on which nodes.
static void failures(const struct td_op_rows *rows, struct td_buf *ret)
{
	struct td_op_said said;
	for (size_t i = 0; i < rows->n && ret->len < 1024; i++)
		if (td_op_says(rows->v[i].slurm, &said) && *said.services)
			td_buf_printf(ret, "%s%s: %.300s", ret->len ? "; " : "", rows->v[i].name, said.services);
}

// Do its devices change (nodecut.c)?
static bool changes(const struct td_op_row *x)
{
	const char *hold = x->node ? td_object_annotation(x->node, TD_ANN_HOLD) : NULL;
	return hold && td_starts(hold, "devices");
}

static yyjson_mut_val *node_line(yyjson_mut_doc *d, const struct td_op_row *x, bool fresh, const char *message)
{
	yyjson_mut_val *o = yyjson_mut_obj(d);
	td_jm_str(d, o, "name", x->name);
	if (x->pod)
		td_jm_str(d, o, "pod", x->pod->name);
	td_jm_str(d, o, "state", x->slurm ? td_slurm_node_words(x->slurm->states) : fresh ? "none" : "unknown");
	if (x->slurm && x->slurm->reason && *x->slurm->reason && (x->record.drain || x->record.bad))
		td_jm_str(d, o, "reason", x->slurm->reason);
	td_jm_bool(d, o, "updated", (x->n.pod || x->n.host) && x->n.updated);
	if (x->n.host)
		td_jm_bool(d, o, "host", true);
	if (x->n.expected)
		td_jm_bool(d, o, "expected", true);
	struct td_op_said said;
	if (td_op_says(x->slurm, &said)) {
		td_jm_str(d, o, "config", said.config);
		td_jm_str(d, o, "services", *said.services ? said.services : NULL);
	}
	if (x->slurm && changes(x)) // it returns when its record has the new ones
		td_jm_str(d, o, "gres", x->slurm->gres);
	td_jm_str(d, o, "message", message);
	return o;
}

// What becomes of its line in a status that has not room for all.
static enum td_pool_line worth(const struct td_op_pass *p, const struct td_op_row *x, const struct td_pool_member *m,
			       const char *message)
{
	struct td_op_said said;
	bool says = td_op_says(x->slurm, &said);
	const struct td_pool_line_facts f = {.fresh = p->v->fresh,
					     .message = message,
					     .failed = says && *said.services,
					     .old = says && p->v->config_hash &&
						    !td_streq(said.config, p->v->config_hash),
					     .devices = changes(x)};
	return td_pool_line_of(m, &f);
}

static void node_lines(const struct td_op_pass *p, const struct td_op_rows *rows, const struct td_pool_member *flat,
		       const struct td_pool_set_conditions *c, yyjson_mut_doc *d, yyjson_mut_val *root)
{
	td_auto_free enum td_pool_line *line = td_calloc(rows->n + 1, sizeof(*line));
	td_auto_free bool *show = td_calloc(rows->n + 1, sizeof(*show));
	for (size_t i = 0; i < rows->n; i++)
		line[i] = worth(p, &rows->v[i], &flat[i], td_pool_member_message(&flat[i], c));
	td_jm_int(d, root, "unlisted", (long long)td_pool_lines_choose(line, rows->n, show));
	yyjson_mut_val *nodes = td_jm_arr(d, root, "nodes");
	for (size_t i = 0; i < rows->n; i++)
		if (show[i])
			yyjson_mut_arr_append(nodes, node_line(d, &rows->v[i], p->sc && p->v->fresh,
							       td_pool_member_message(&flat[i], c)));
}

int td_op_nodeset_status(const struct td_op_pass *p, struct td_object *set, const struct td_op_rows *rows,
			 const struct td_op_said_of *said, struct td_error *err)
{
	const struct td_pool_set_counts *k = said->k;
	yyjson_val *old = td_jget(set->root, "status");
	long long gen = td_jint(set->root, "metadata.generation", 0);
	bool fresh = p->sc && p->v->fresh;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_int(d, root, "observedGeneration", gen);
	counts(d, root, old, k, fresh);
	td_auto_free char *elsewhere = td_hostlist_write(&rows->elsewhere);
	if (td_slurm_host_set(set->root)) // only Slurm knows; what it said before holds
		td_jm_str(d, root, "elsewhere", fresh ? elsewhere : td_jstr_or(old, "elsewhere", ""));

	td_auto_buf struct td_buf taken = {0};
	if (rows->taken.len)
		td_buf_printf(&taken,
			      "nodes that it selects belong to other NodeSets, which had them before (%s): change "
			      "spec.nodeSelector or spec.affinity of one of them",
			      td_buf_str(&rows->taken));
	td_auto_buf struct td_buf failed = {0};
	failures(rows, &failed);
	td_auto_free char *other = td_op_other_problem(p->op, set);
	const struct td_pool_set_facts facts = {.problem = said->problem,
						.other = other,
						.cluster = p->sc,
						.fresh = fresh,
						.taken = taken.len ? td_buf_str(&taken) : NULL,
						.failed = failed.len ? td_buf_str(&failed) : NULL};
	td_auto_free struct td_pool_set_conditions *c = td_calloc(1, sizeof(*c));
	td_auto_free struct td_pool_member *flat = td_calloc(rows->n ? rows->n : 1, sizeof(*flat));
	for (size_t i = 0; i < rows->n; i++)
		flat[i] = rows->v[i].n;
	td_pool_nodeset_conditions(flat, rows->n, k, &facts, c);
	char growing[256];
	td_op_autoscale_status(said->scale, d, root, c, growing, sizeof(growing));

	node_lines(p, rows, flat, c, d, root);
	td_op_conditions(d, td_jm_arr(d, root, "conditions"), old, c->v, c->n, gen);
	yyjson_val *before = td_jfind(td_jget(old, "conditions"), "type", "ServicesRunning");
	if (failed.len && !td_streq(td_jstr(before, "message"), td_buf_str(&failed)))
		td_kube_record(p->op->events, TD_ABOUT(set, &td_nodesets), "Warning", "ServiceFailed", "%s",
			       td_buf_str(&failed));
	td_op_status_found(p->op, set, d);
	return td_op_status_write(p->op, &td_nodesets, set, d, p->c, err);
}
