// What Kubernetes and Slurm say about a NodeSet's nodes: which nodes are its own, with one row for
// each.
#define uthash_malloc(n) td_malloc(n)
#include "operator/nodeset.h"

#include "api/selector.h"
#include "slurm/hostlist.h"
#include "slurm/hosts.h"

#include <ctype.h>
#include <string.h>

int td_op_name_cmp(const char *a, const char *b)
{
	while (*a && *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			size_t za = strspn(a, "0"), zb = strspn(b, "0"), na = strspn(a + za, "0123456789"),
			       nb = strspn(b + zb, "0123456789");
			int k = na != nb ? (na < nb ? -1 : 1) : strncmp(a + za, b + zb, na);
			if (k)
				return k;
			a += za + na;
			b += zb + nb;
			continue;
		}
		if (*a != *b)
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		a++;
		b++;
	}

	return *a ? 1 : *b ? -1 : 0;
}

static int cmp_objects(const void *a, const void *b)
{
	const char *x = (*(struct td_object *const *)a)->name, *y = (*(struct td_object *const *)b)->name;
	int k = td_op_name_cmp(x, y);
	return k ? k : strcmp(x, y); // n1 and n01: there they are equal
}

void td_op_sort(struct td_objects *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(struct td_object *), cmp_objects);
}

// ---- which NodeSet a node belongs to ----
bool td_op_selects(const struct td_object *set, const struct td_object *node)
{
	// A machine that runs its own slurmd may have a kubelet beside it.
	if (td_slurm_host_set(set->root))
		return td_slurm_host_in(set->root, node->name);
	if (td_object_label(node, TD_LABEL_HOST))
		return false; // nothing else would run slurmd there
	// Nodes that stand for another cluster's are that NodeSet's alone, whatever others select.
	const char *other = td_object_annotation(node, TD_ANN_OTHER_SET);
	if (other || td_api_other_cluster(set->root)) {
		td_auto_free char *own = td_asprintf("%s/%s", set->ns, set->name);
		return td_api_other_cluster(set->root) && td_streq(other, own);
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	static const char *const fields[] = {"nodeSelector", "affinity"};
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		td_auto_free char *path = td_asprintf("spec.%s", fields[i]);
		td_jm_copyval(d, root, fields[i], td_jget(set->root, path));
	}
	// A node that Slurm drains or that is not ready stays a member.
	td_op_tolerations(d, root, set->root);
	td_auto(td_json_unref) struct td_json *spec = td_json_from_mut(root);
	return td_api_pod_fits_node(td_json_root(spec), node->root, true, NULL);
}

bool td_op_is_slurmd(const struct td_object *p)
{
	return td_streq(td_object_label(p, TD_LABEL_NAME), "slurmd") && td_object_label(p, TD_LABEL_NODESET);
}

struct td_object *td_op_claim(struct td_op *op, const struct td_object *node)
{
	td_auto_objects struct td_objects sets = {0}, pods = {0};
	td_informer_list(op->nodesets, NULL, &sets);
	td_informer_by_index(op->pods, "node", node->name, &pods);
	struct td_object *best = NULL;
	for (size_t i = 0; i < sets.n; i++) {
		struct td_object *s = sets.v[i];
		td_auto(td_object_unref) struct td_object *sc =
			td_informer_get(op->clusters, s->ns, td_jstr_or(s->root, "spec.clusterName", ""));
		if (!sc || td_object_deleting(sc) || td_object_deleting(s))
			continue;
		for (size_t k = 0; k < pods.n; k++)
			if (td_op_is_slurmd(pods.v[k]) && td_streq(pods.v[k]->ns, s->ns) &&
			    td_streq(td_object_label(pods.v[k], TD_LABEL_NODESET), s->name))
				return td_object_ref(s);
		if (td_op_affinity_problem(s->root) || !td_op_selects(s, node))
			continue;
		int order = best ? strcmp(td_jstr_or(s->root, "metadata.creationTimestamp", ""),
					  td_jstr_or(best->root, "metadata.creationTimestamp", ""))
				 : -1;
		if (order < 0 || (order == 0 && strcmp(s->uid, best->uid) < 0))
			best = s;
	}

	return best ? td_object_ref(best) : NULL;
}

// ---- the rows of one NodeSet ----
void td_op_rows_done(struct td_op_rows *r)
{
	for (size_t i = 0; i < r->n; i++) {
		td_object_unref(r->v[i].node);
		td_object_unref(r->v[i].pod);
		free(r->v[i].name);
	}
	free(r->v);
	td_buf_done(&r->taken);
	td_strv_done(&r->elsewhere);
	td_objects_done(&r->wanted);
}

struct td_op_row_at {
	const char *name; // the row's
	size_t at;
	UT_hash_handle hh;
};

static void forget_names(struct td_op_rows *r)
{
	struct td_op_row_at *x, *tmp;
	HASH_ITER (hh, r->by_name, x, tmp) {
		HASH_DEL(r->by_name, x);
		free(x);
	}
}

// Returns the node's row, and makes one if there is none. Later calls may move the rows.
static struct td_op_row *row_of(struct td_op_rows *r, const char *name)
{
	struct td_op_row_at *known = NULL;
	HASH_FIND_STR(r->by_name, name, known);
	if (known)
		return &r->v[known->at];
	if (r->n == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 16;
		r->v = td_realloc(r->v, r->cap * sizeof(*r->v));
	}
	struct td_op_row *x = &r->v[r->n++];
	*x = (struct td_op_row){.name = td_strdup(name)};
	known = td_calloc(1, sizeof(*known));
	*known = (struct td_op_row_at){.name = x->name, .at = r->n - 1};
	HASH_ADD_KEYPTR(hh, r->by_name, known->name, strlen(known->name), known);
	return x;
}

static int cmp_rows(const void *a, const void *b)
{
	return td_op_name_cmp(((const struct td_op_row *)a)->name, ((const struct td_op_row *)b)->name);
}

// True when the record's size is not the share.
static bool differs(const struct td_slurm_node *r, const struct td_op_share *s)
{
	return r->cpus + r->kept_cpus != s->cpus || r->memory_mb + r->kept_memory_mb != s->memory_mb ||
	       td_op_gpus_differ(r->gres, s) || td_op_shares_differ(r->gres, s) || td_op_nics_differ(r->gres, s) ||
	       (r->sockets && r->sockets != td_op_share_parts(s));
}

const char *td_op_pod_conf(const yyjson_val *pod)
{
	return td_jstr(td_jfind(td_jget(pod, "spec.containers.[0].env"), "name", "TD_NODE_CONF"), "value");
}

// True when the record lacks a feature of the wanted pod's --conf, which may be NULL.
static bool lacks_features(const struct td_slurm_node *r, const char *conf)
{
	size_t i;
	td_auto_strv struct td_strv words = {0}, want = {0}, have = {0};
	td_strv_split(&words, conf ? conf : "", ' ');
	for (i = 0; i < words.n; i++)
		if (td_starts(words.v[i], "Feature="))
			td_strv_split(&want, words.v[i] + strlen("Feature="), ',');
	td_strv_split(&have, r->features ? r->features : "", ',');
	for (i = 0; i < want.n; i++)
		if (!td_strv_has(&have, want.v[i]))
			return true;
	return false;
}

bool td_op_has_mark(const struct td_slurm_node *r, const char *mark)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, r->features ? r->features : "", ',');
	return (r->states & TD_NODE(DYNAMIC_NORM)) && td_strv_has(&l, mark);
}

// Fails while the ResourceClaimTemplate is missing: the pod's claim would not be made, and the pod
// would wait for ever.
static int lacks_template(struct td_op *op, struct td_object *sc, const struct td_op_share *s, struct td_error *err)
{
	if (!td_op_dra(sc->root) || !s->gpus)
		return 0;
	td_auto_free char *name = td_op_claim_template(sc->root);
	td_auto(td_object_unref) struct td_object *t =
		op->templates ? td_informer_get(op->templates, sc->ns, name) : NULL;
	return t ? 0
		 : td_fail(err, TD_NOT_FOUND,
			   "there is no ResourceClaimTemplate %s for slurmd's devices yet: see condition ConfigValid "
			   "of SlurmCluster %s",
			   name, sc->name);
}

// Finds out which pod the node should have, or says why there cannot be one.
static void want(const struct td_op_pass *p, const struct td_object *set, uint64_t base, struct td_op_row *x)
{
	struct td_op *op = p->op;
	struct td_error err = TD_ERROR_INIT;
	struct td_op_found gpus;
	if (!td_op_gpus(op, p->sc->root, x->node, &gpus, &err) ||
	    !td_op_share_of(p->sc->root, set->root, x->node->root, &gpus, &x->share, &err) ||
	    td_op_row_wish(p, set, base, x, &err) || lacks_template(op, p->sc, &x->share, &err)) {
		snprintf(x->why, sizeof(x->why), "%s", err.msg);
		x->n.refuse = x->why;
		x->want = NULL; // there will be no such pod: the one that runs stays
	}
}

static void pod_facts(const struct td_op_pass *p, struct td_op_row *x)
{
	const char *phase = td_jstr_or(x->pod->root, "status.phase", "");
	x->n.pod = true;
	x->n.pod_ip = td_jstr_or(x->pod->root, "status.podIP", "");
	x->n.pod_deleting = td_object_deleting(x->pod);
	x->n.pod_ended = td_streq(phase, "Failed") || td_streq(phase, "Succeeded");
	x->n.pod_ready = td_op_pod_ready(x->pod);
	x->n.pod_current = !x->want || td_streq(td_object_annotation(x->pod, TD_ANN_REVISION), x->want->revision);
	x->n.pod_born_ms = td_op_born(x->pod);
	if (x->n.pod_ready)
		td_time_parse(td_jstr_or(td_jfind(td_jget(x->pod->root, "status.conditions"), "type", "Ready"),
					 "lastTransitionTime", ""),
			      &x->n.pod_ready_ms);

	enum td_pool_sight sight = td_pool_sight_of(p->v->fresh, x->n.pod_ready, x->slurm);
	int64_t left = td_op_missing_look(&p->v->missing, x->name, x->pod->uid, sight, td_mono_ms(&td_clock_system));
	x->n.missing = left >= 0;
	x->n.forgotten = left == 0;
}

static void facts(const struct td_op_pass *p, const struct td_object *set, uint64_t base, struct td_op_row *x)
{
	x->node = td_informer_get(p->op->nodes, NULL, x->name);
	x->slurm = p->v->fresh ? td_slurm_node_find(&p->v->nodes, x->name) : NULL;
	x->n.name = x->name;
	x->n.host = td_slurm_host_set(set->root);
	x->n.exists = x->node && td_op_node_is_there(x->node);
	x->n.ready = x->node && td_op_ready(x->node);
	x->n.matched = x->n.matched && p->sc &&
		       !(x->node && td_op_autoscale(set->root) && td_op_doomed(x->node->root)) &&
		       !(x->node && td_object_deleting(x->node));
	x->n.made_ms = x->node ? td_op_born(x->node) : 0;
	if (x->n.matched && !x->n.host)
		want(p, set, base, x);
	x->n.record_differs =
		x->slurm && x->want && (differs(x->slurm, &x->share) || lacks_features(x->slurm, x->want->conf));
	if (x->pod)
		pod_facts(p, x);
}

// Notes that the set selects a node which belongs to another set.
static void note_taken(struct td_buf *b, const struct td_object *set, const struct td_object *owner, const char *node)
{
	enum { NAMED_MAX = 512 };
	if (b->len > NAMED_MAX)
		return;
	bool same = td_streq(set->ns, owner->ns);
	td_buf_printf(b, "%s%s to %s%s%s", b->len ? ", " : "", node, same ? "" : owner->ns, same ? "" : "/",
		      owner->name);
}

// The NodeSet that has Slurm's record of a machine, where that is another one; NULL: none has, or it is gone.
static struct td_object *other_of(const struct td_op_pass *p, const struct td_object *set, const char *mark,
				  const char *name)
{
	const struct td_slurm_node *r = p->v->fresh ? td_slurm_node_find(&p->v->nodes, name) : NULL;
	for (size_t i = 0; r && !td_op_has_mark(r, mark) && i < p->sets->n; i++) {
		td_auto_free char *its = td_slurm_set_feature(p->sets->v[i]->name);
		if (td_op_has_mark(r, its))
			return p->sets->v[i];
	}
	return NULL;
}

// The machines that spec.hosts names. One that another NodeSet has is this one's when that has let it go: two that both
// decided about its record would undo what the other one did.
static void collect_hosts(const struct td_op_pass *p, const struct td_object *set, const char *mark,
			  const struct td_strv *others, struct td_op_rows *ret)
{
	td_auto_strv struct td_strv hosts = {0};
	td_slurm_hosts(set->root, &hosts, NULL);
	for (size_t i = 0; i < hosts.n; i++) {
		const struct td_object *other = other_of(p, set, mark, hosts.v[i]);
		if (other)
			note_taken(&ret->taken, set, other, hosts.v[i]);
		if (!other && !td_strv_has(others, hosts.v[i]))
			row_of(ret, hosts.v[i])->n.matched = true;
		else
			td_strv_add(&ret->elsewhere, hosts.v[i]);
	}
}

void td_op_rows_collect(const struct td_op_pass *p, struct td_object *set, const struct td_objects *nodes,
			struct td_op_rows *ret)
{
	td_auto_free char *mark = td_slurm_set_feature(set->name);
	td_auto_strv struct td_strv others = {0};
	for (size_t i = 0; i < nodes->n; i++) {
		td_auto(td_object_unref) struct td_object *owner = td_op_claim(p->op, nodes->v[i]);
		if (owner && !td_streq(owner->uid, set->uid) && td_op_selects(set, nodes->v[i])) {
			note_taken(&ret->taken, set, owner, nodes->v[i]->name);
			td_strv_add(&others, nodes->v[i]->name);
		}
		if (!owner || !td_streq(owner->uid, set->uid))
			continue;
		struct td_op_row *x = row_of(ret, nodes->v[i]->name);
		x->n.matched = td_op_selects(set, nodes->v[i]);
	}

	if (td_slurm_host_set(set->root))
		collect_hosts(p, set, mark, &others, ret);

	td_auto_objects struct td_objects pods = {0};
	td_informer_list(p->op->pods, set->ns, &pods);
	for (size_t i = 0; i < pods.n; i++) {
		const char *node = td_op_pod_node(pods.v[i]);
		if (!td_streq(td_object_label(pods.v[i], TD_LABEL_NODESET), set->name))
			continue;
		if (td_op_is_wanted(pods.v[i]))
			td_objects_add(&ret->wanted, td_object_ref(pods.v[i]));
		if (!node || !td_op_is_slurmd(pods.v[i]))
			continue;
		struct td_op_row *x = row_of(ret, node);
		td_object_unref(x->pod);
		x->pod = td_object_ref(pods.v[i]);
	}
	td_op_sort(&ret->wanted);

	for (size_t i = 0; p->v->fresh && i < p->v->nodes.n; i++)
		if (td_op_has_mark(&p->v->nodes.v[i], mark))
			row_of(ret, p->v->nodes.v[i].name);

	forget_names(ret);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(struct td_op_row), cmp_rows);
	// From here on rows stay where they are, so pointers into them may be kept.
	uint64_t base = td_op_wish_base(p, set);
	for (size_t i = 0; i < ret->n; i++) {
		struct td_op_row *x = &ret->v[i];
		facts(p, set, base, x);
		if (x->slurm) {
			x->record = td_op_record(x->slurm);
			x->n.record = &x->record;
		}
	}
}
