#include "kubelet/pods/filters.h"

#include "api/block.h"
#include "api/selector.h"
#include "base/hash.h"
#include "base/log.h"
#include "kubelet/pods/hosts.h"
#include "kubelet/pods/pod.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

enum {
	DEBOUNCE_MS = 20,
	OPEN = 64, // connections to the kernel that are closed together
};

// ---- what policies say ----
struct policy {
	const char *ns;
	struct td_selector *pods;
	bool in, out;
	struct td_buf from, to; // of struct td_net_allow
};
struct td_filters_rules {
	struct policy *v;
	size_t n;
	uint32_t node;
};

static void add(struct td_buf *b, uint32_t addr, uint8_t prefix, const yyjson_val *port)
{
	struct td_net_allow a;
	memset(&a, 0, sizeof(a)); // the bytes are compared
	a.addr = addr;
	a.prefix = prefix;
	if (port) {
		const char *proto = td_jstr_or(port, "protocol", "TCP");
		a.proto = !strcmp(proto, "UDP") ? IPPROTO_UDP : !strcmp(proto, "SCTP") ? IPPROTO_SCTP : IPPROTO_TCP;
		a.port = (uint16_t)td_jint(port, "port", 0);
		a.last = (uint16_t)td_jint(port, "endPort", 0);
	}
	td_buf_add(b, &a, sizeof(a));
}

// On all ports of the rule, or on every one.
static void add_on(struct td_buf *b, uint32_t addr, uint8_t prefix, const yyjson_val *rule)
{
	yyjson_val *ports = td_jkey(rule, "ports"), *p;
	size_t i, n;
	if (!yyjson_arr_size(ports))
		add(b, addr, prefix, NULL);
	yyjson_arr_foreach (ports, i, n, p)
		add(b, addr, prefix, p);
}

static const yyjson_val *labels_of(const struct td_filters_facts *f, const char *ns)
{
	for (size_t i = 0; i < f->n_namespaces; i++)
		if (!strcmp(f->namespaces[i]->name, ns))
			return td_jget(f->namespaces[i]->root, "metadata.labels");
	return NULL;
}

static struct td_selector *selector(const yyjson_val *v)
{
	struct td_selector *s = NULL;
	if (!v || td_selector_from_object(v, &s, NULL))
		return NULL;
	return s;
}

// A selector that cannot be read allows nobody: the API refuses such a policy.
static void peers(const struct td_filters_facts *f, const char *ns, const yyjson_val *rule, const char *key,
		  struct td_buf *ret)
{
	yyjson_val *list = td_jkey(rule, key), *x;
	size_t i, n;
	if (!yyjson_arr_size(list))
		add_on(ret, 0, 0, rule);
	yyjson_arr_foreach (list, i, n, x) {
		const char *cidr = td_jstr(x, "ipBlock.cidr");
		struct td_block b;
		if (cidr && td_block_parse(cidr, &b) && !b.six)
			add_on(ret, b.v4, b.bits, rule);
		yyjson_val *which = td_jkey(x, "podSelector"), *where = td_jkey(x, "namespaceSelector");
		if (cidr || (!which && !where))
			continue;
		td_auto(td_selector_free) struct td_selector *pods = selector(which), *spaces = selector(where);
		if ((which && !pods) || (where && !spaces))
			continue;
		const char *last = NULL; // pods come by namespace, mostly
		bool in = false;
		for (size_t k = 0; k < f->n_pods; k++) {
			const struct td_filters_pod *p = &f->pods[k];
			if (!last || strcmp(last, p->ns) != 0) {
				last = p->ns;
				in = where ? td_selector_matches(spaces, labels_of(f, p->ns)) : !strcmp(ns, p->ns);
			}
			if (in && p->ip && (!which || td_selector_matches(pods, p->labels)))
				add_on(ret, p->ip, 32, rule);
		}
	}
}

static bool has_type(const yyjson_val *spec, const char *type)
{
	td_auto_strv struct td_strv l = {0};
	td_jstrs(td_jget(spec, "policyTypes"), &l);
	return td_strv_has(&l, type);
}

static void read_policy(const struct td_filters_facts *f, const struct td_object *o, struct policy *ret)
{
	yyjson_val *spec = td_jget(o->root, "spec"), *which = td_jget(spec, "podSelector"), *rule;
	size_t i, n;
	*ret = (struct policy){
		.ns = o->ns, .pods = selector(which), .in = has_type(spec, "Ingress"), .out = has_type(spec, "Egress")};
	yyjson_arr_foreach (ret->in ? td_jget(spec, "ingress") : NULL, i, n, rule)
		peers(f, o->ns, rule, "from", &ret->from);
	yyjson_arr_foreach (ret->out ? td_jget(spec, "egress") : NULL, i, n, rule)
		peers(f, o->ns, rule, "to", &ret->to);
}

struct td_filters_rules *td_filters_rules_new(const struct td_filters_facts *f)
{
	struct td_filters_rules *r = td_calloc(1, sizeof(*r));
	r->v = td_calloc(f->n_policies + 1, sizeof(*r->v));
	r->node = f->node;
	for (; r->n < f->n_policies; r->n++)
		read_policy(f, f->policies[r->n], &r->v[r->n]);
	return r;
}

struct td_filters_rules *td_filters_rules_free(struct td_filters_rules *r)
{
	for (size_t i = 0; r && i < r->n; i++) {
		td_selector_free(r->v[i].pods);
		td_buf_done(&r->v[i].from);
		td_buf_done(&r->v[i].to);
	}
	if (r)
		free(r->v);
	free(r);
	return NULL;
}

void td_filters_of(const struct td_filters_rules *r, const struct td_filters_pod *pod, struct td_net_filter *ret,
		   struct td_buf *in, struct td_buf *out)
{
	td_buf_reset(in);
	td_buf_reset(out);
	*ret = (struct td_net_filter){.in = td_jkey(pod->labels, TD_LABEL_PRIVATE_NET) != NULL};
	for (size_t i = 0; i < r->n; i++) {
		const struct policy *p = &r->v[i];
		// Without a selector it is about all; with one that cannot be read too, so that nothing opens.
		if (strcmp(p->ns, pod->ns) != 0 || (p->pods && !td_selector_matches(p->pods, pod->labels)))
			continue;
		ret->in |= p->in;
		ret->out |= p->out;
		if (p->from.len)
			td_buf_add(in, p->from.s, p->from.len);
		if (p->to.len)
			td_buf_add(out, p->to.s, p->to.len);
	}
	add(in, r->node, 32, NULL);
	add(out, r->node, 32, NULL);
	ret->from = (const struct td_net_allow *)(const void *)in->s;
	ret->to = (const struct td_net_allow *)(const void *)out->s;
	ret->n_from = in->len / sizeof(struct td_net_allow);
	ret->n_to = out->len / sizeof(struct td_net_allow);
}

// ---- pods of this kubelet ----
// A pod's filter is written by whoever starts it, until its network is up (td_pod.net_up), and by the
// worker after that: so no two threads write one.
struct td_filters {
	struct td_kubelet *a;
	struct td_queue *queue; // one key: "all"
};

struct td_filters *td_filters_new(struct td_kubelet *a)
{
	struct td_filters *f = td_calloc(1, sizeof(*f));
	f->a = a;
	f->queue = td_queue_new(a->clock);
	return f;
}

struct td_filters *td_filters_free(struct td_filters *f)
{
	if (!f)
		return NULL;
	td_queue_free(f->queue);
	free(f);
	return NULL;
}

// What was written, in one number; never that of none, nor that of a pod of an earlier process.
static uint64_t digest(const struct td_net_filter *f, const struct td_buf *in, const struct td_buf *out)
{
	const struct td_buf *const both[] = {f->in ? in : NULL, f->out ? out : NULL};
	uint64_t h = TD_HASH;
	if (!f->in && !f->out)
		return TD_FILTER_NONE;
	for (size_t i = 0; i < TD_LEN(both); i++) {
		h = td_hash(h, both[i] ? "+" : "-", 1);
		if (both[i])
			h = td_hash(h, both[i]->s, both[i]->len);
	}
	return h | 2;
}

static bool has_network(struct td_pod *p)
{
	pthread_mutex_lock(&p->mu);
	bool has = !p->host_network && !p->cleaned && p->net_up;
	pthread_mutex_unlock(&p->mu);
	return has;
}

// What the policies say now. The lists hold what the rest points into.
struct now {
	struct td_objects pods, policies, namespaces;
	struct td_filters_pod *v; // of each of pods
	struct td_filters_rules *rules;
};

// ns: only the policies of this namespace; NULL: all.
static void look(struct td_filters *f, const char *ns, struct now *ret)
{
	struct td_kubelet *a = f->a;
	td_informer_list(a->pods, NULL, &ret->pods);
	td_informer_list(a->policies, ns, &ret->policies);
	td_informer_list(a->namespaces, NULL, &ret->namespaces);

	ret->v = td_calloc(ret->pods.n + 1, sizeof(*ret->v));
	for (size_t i = 0; i < ret->pods.n; i++) {
		const struct td_object *o = ret->pods.v[i];
		td_auto_free char *ip = td_hosts_pod_ip(a, o);
		struct in_addr in = {0};
		bool own = ip && !td_jbool(o->root, "spec.hostNetwork", false) && inet_pton(AF_INET, ip, &in) == 1;
		ret->v[i] = (struct td_filters_pod){o->ns, td_jget(o->root, "metadata.labels"), own ? in.s_addr : 0};
	}
	struct in_addr node = {0};
	inet_pton(AF_INET, a->gateway, &node);
	ret->rules = td_filters_rules_new(&(struct td_filters_facts){
		.policies = (const struct td_object *const *)ret->policies.v,
		.n_policies = ret->policies.n,
		.namespaces = (const struct td_object *const *)ret->namespaces.v,
		.n_namespaces = ret->namespaces.n,
		.pods = ret->v,
		.n_pods = ret->pods.n,
		.node = node.s_addr,
	});
}

static void now_done(struct now *n)
{
	td_filters_rules_free(n->rules);
	free(n->v);
	td_objects_done(&n->pods);
	td_objects_done(&n->policies);
	td_objects_done(&n->namespaces);
}

bool td_filters_none_there(int r, uint64_t want, uint64_t was)
{
	return r == TD_UNSUPPORTED && want == TD_FILTER_NONE && was == TD_FILTER_UNKNOWN;
}

// Writes the filter of the pod at `at`, unless it is what it has. ret_fd as of td_net_pod_filter.
static int write_one(struct td_filters *f, const struct now *n, size_t at, struct td_pod *p, int *ret_fd,
		     struct td_error *err)
{
	td_auto_buf struct td_buf in = {0}, out = {0};
	struct td_net_filter want;
	td_filters_of(n->rules, &n->v[at], &want, &in, &out);
	uint64_t is = digest(&want, &in, &out);
	if (is == p->filter)
		return 0;
	td_auto_free char *netns = td_pod_netns(f->a, p);
	int r = td_net_pod_filter(netns, &want, ret_fd, err);
	if (r && td_filters_none_there(r, is, p->filter))
		r = 0;
	if (!r)
		p->filter = is;
	return r;
}

int td_filters_sync(struct td_filters *f, struct td_pod *p, struct td_error *err)
{
	__attribute__((cleanup(now_done))) struct now n = {0};
	td_auto(td_object_unref) struct td_object *o = td_informer_get(f->a->pods, p->ns, p->name);
	td_auto_objects struct td_objects policies = {0};
	if (!o || strcmp(o->uid, p->uid) != 0)
		return td_fail(err, TD_NOT_FOUND, "pod %s/%s is gone", p->ns, p->name);
	td_filters_changed(f);      // its address is new to the others
	p->filter = TD_FILTER_NONE; // its network is new
	td_informer_list(f->a->policies, p->ns, &policies);
	if (!policies.n && !td_object_label(o, TD_LABEL_PRIVATE_NET))
		return 0;
	look(f, p->ns, &n);
	for (size_t i = 0; i < n.pods.n; i++)
		if (!strcmp(n.pods.v[i]->uid, p->uid))
			return write_one(f, &n, i, p, NULL, err);
	return td_fail(err, TD_NOT_FOUND, "pod %s/%s is gone", p->ns, p->name);
}

void td_filters_changed(struct td_filters *f)
{
	td_queue_add_after(f->queue, "all", DEBOUNCE_MS);
}

static void close_all(const int *fds, int *n)
{
	while (*n)
		close(fds[--*n]);
}

static int reconcile(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_filters *f = ctx;
	__attribute__((cleanup(now_done))) struct now n = {0};
	int all = 0;
	look(f, NULL, &n);

	// Whose network comes up meanwhile has what is newer than this.
	td_auto_free struct td_pod **v = td_calloc(n.pods.n + 1, sizeof(struct td_pod *));
	for (size_t i = 0; i < n.pods.n; i++) {
		v[i] = td_pod_table_get(f->a->table, n.pods.v[i]->uid);
		if (v[i] && !has_network(v[i]))
			v[i] = td_pod_unref(v[i]);
	}
	int open[OPEN], got = 0;
	for (size_t i = 0; i < n.pods.n; i++) {
		struct td_error e = TD_ERROR_INIT;
		open[got] = -1;
		int r = v[i] && !td_cancelled(c) ? write_one(f, &n, i, v[i], &open[got], &e) : 0;
		got += open[got] >= 0;
		if (got == OPEN)
			close_all(open, &got);
		if (r && has_network(v[i]) && !all)
			all = td_fail(err, r, "pod %s/%s: %.400s", v[i]->ns, v[i]->name, e.msg);
		td_pod_unref(v[i]);
	}
	close_all(open, &got);
	return all;
}

int td_filters_run(struct td_filters *f, struct td_cancel *c, struct td_error *err)
{
	struct td_controller ctl = {
		.name = "filters", .workers = 1, .queue = f->queue, .reconcile = reconcile, .ctx = f};
	td_filters_changed(f);
	return td_controller_run(&ctl, c, err);
}
