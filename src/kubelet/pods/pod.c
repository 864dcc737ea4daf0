#include "kubelet/pods/pod.h"

#include "api/quantity.h"
#include "api/selector.h"
#include "oci/oci.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void td_ctr_end_clear(struct td_ctr_end *e)
{
	free(e->reason);
	free(e->message);
	free(e->id);
	*e = (struct td_ctr_end){0};
}

struct td_pod *td_pod_ref(struct td_pod *p)
{
	__atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
	return p;
}

struct td_pod *td_pod_unref(struct td_pod *p)
{
	if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL))
		return NULL;

	for (size_t i = 0; i < p->n_ctr; i++) {
		struct td_ctr *c = &p->ctr[i];
		free(c->name);
		free(c->image);
		free(c->image_id);
		free(c->id);
		free(c->wait_reason);
		free(c->wait_message);
		free(c->unhealthy_why);
		td_ctr_end_clear(&c->end);
		td_ctr_end_clear(&c->last);
		if (c->pidfd >= 0)
			close(c->pidfd);
	}

	free(p->ctr);
	free(p->uid);
	free(p->ns);
	free(p->name);
	free(p->fail_reason);
	free(p->fail_message);
	free(p->wait_reason);
	free(p->wait_message);
	td_json_unref(p->written);
	pthread_mutex_destroy(&p->mu);
	free(p);
	return NULL;
}

static void ctr_init(struct td_ctr *c, const yyjson_val *v, enum td_ctr_kind kind, int index)
{
	c->name = td_strdup(td_jstr_or(v, "name", ""));
	c->image = td_strdup(td_jstr_or(v, "image", ""));
	c->kind = kind;
	c->index = index;
	c->attempt = -1;
	c->pidfd = -1;
}

int td_pod_from_object(const struct td_kubelet *a, const struct td_object *o, int node, struct td_pod **ret,
		       struct td_error *err)
{
	yyjson_val *spec = td_jget(o->root, "spec"), *v;
	struct td_gate_grant g = {0};
	int r = td_gate_grant_read(o->root, node >= 0 ? td_kubelet_gpus(a, node) : a->o.gpus, &g, err);
	if (r)
		return r;

	struct td_pod *p = td_calloc(1, sizeof(*p));
	p->refs = 1;
	pthread_mutex_init(&p->mu, NULL);
	p->uid = td_strdup(o->uid);
	p->ns = td_strdup(o->ns);
	p->name = td_strdup(o->name);
	p->node = node;
	p->host_network = td_jbool(spec, "hostNetwork", false);
	p->own_users = !td_jbool(spec, "hostUsers", true);
	p->grant = g;
	p->devices = g.all ? 0 : g.devices;
	p->slurmd = g.all;
	p->grace_s = td_jint(spec, "terminationGracePeriodSeconds", 30);
	p->end_grace_s = -1;
	p->req_cpu_milli = td_api_pod_request(spec, "cpu");
	p->req_memory = td_api_pod_request(spec, "memory");

	yyjson_val *inits = td_jget(spec, "initContainers"), *mains = td_jget(spec, "containers");
	p->n_init = yyjson_arr_size(inits);
	p->n_ctr = p->n_init + yyjson_arr_size(mains);
	p->ctr = td_calloc(p->n_ctr ? p->n_ctr : 1, sizeof(*p->ctr));

	size_t i, n;
	yyjson_arr_foreach (inits, i, n, v) {
		bool side = td_streq(td_jstr(v, "restartPolicy"), "Always");
		ctr_init(&p->ctr[i], v, side ? TD_CTR_SIDECAR : TD_CTR_INIT, (int)i);
	}
	yyjson_arr_foreach (mains, i, n, v) {
		ctr_init(&p->ctr[p->n_init + i], v, TD_CTR_MAIN, (int)i);
	}

	*ret = p;
	return 0;
}

static void compact(char out[33], const char *uid)
{
	size_t n = 0;
	for (const char *s = uid; *s && n < 32; s++)
		if (*s != '-')
			out[n++] = *s;
	out[n] = '\0';
}

char *td_pod_container_id(const struct td_kubelet *a, const struct td_pod *p, const struct td_ctr *c)
{
	char u[33];
	compact(u, p->uid);
	return td_asprintf("td%s-%s-%c%d-%d", a->o.id, u, c->kind == TD_CTR_MAIN ? 'c' : 'i', c->index, c->attempt);
}

char *td_pod_netns(const struct td_kubelet *a, const struct td_pod *p)
{
	char u[33];
	compact(u, p->uid);
	return td_asprintf("td%s-%s", a->o.id, u);
}

char *td_pod_dir(const struct td_kubelet *a, const struct td_pod *p)
{
	return td_asprintf("%s/agent/volumes/%s", a->o.home, p->uid);
}

char *td_pod_log_dir(const struct td_kubelet *a, const struct td_pod *p)
{
	return td_asprintf("%s/log/pods/%s_%s_%s", a->o.home, p->ns, p->name, p->uid);
}

char *td_pod_log_path(const struct td_kubelet *a, const struct td_pod *p, const struct td_ctr *c, int attempt)
{
	td_auto_free char *dir = td_pod_log_dir(a, p);
	return td_asprintf("%s/%s/%d.log", dir, c->name, attempt);
}

struct td_ctr *td_pod_ctr(const struct td_pod *p, const char *name)
{
	for (size_t i = 0; i < p->n_ctr; i++)
		if (td_streq(p->ctr[i].name, name))
			return &p->ctr[i];
	return NULL;
}

bool td_pod_busy(const struct td_pod *p)
{
	bool busy = false;
	struct td_pod *m = (struct td_pod *)p; // cast only to take the lock
	pthread_mutex_lock(&m->mu);
	for (size_t i = 0; i < p->n_ctr; i++)
		busy = busy || p->ctr[i].wanted;
	pthread_mutex_unlock(&m->mu);
	return busy;
}

bool td_pod_begun(const struct td_pod *p)
{
	bool begun = false;
	for (size_t i = 0; i < p->n_ctr; i++)
		begun = begun || p->ctr[i].attempt >= 0;
	return begun;
}

// ---- table ----

struct td_pod_table {
	pthread_mutex_t mu; // guards the list and the addresses
	struct td_pod *head;
	int last[64]; // per node: last byte of the address given out last
};

struct td_pod_table *td_pod_table_new(void)
{
	struct td_pod_table *t = td_calloc(1, sizeof(*t));
	pthread_mutex_init(&t->mu, NULL);
	return t;
}

struct td_pod_table *td_pod_table_free(struct td_pod_table *t)
{
	if (!t)
		return NULL;
	while (t->head) {
		struct td_pod *p = t->head;
		t->head = p->next;
		td_pod_unref(p);
	}
	pthread_mutex_destroy(&t->mu);
	free(t);
	return NULL;
}

void td_pod_table_add(struct td_pod_table *t, struct td_pod *p)
{
	td_pod_ref(p);
	pthread_mutex_lock(&t->mu);
	p->next = t->head;
	t->head = p;
	pthread_mutex_unlock(&t->mu);
}

void td_pod_table_remove(struct td_pod_table *t, const char *uid)
{
	struct td_pod *found = NULL;
	pthread_mutex_lock(&t->mu);
	for (struct td_pod **pp = &t->head; *pp; pp = &(*pp)->next)
		if (!strcmp((*pp)->uid, uid)) {
			found = *pp;
			*pp = found->next;
			break;
		}
	pthread_mutex_unlock(&t->mu);
	td_pod_unref(found);
}

struct td_pod *td_pod_table_get(struct td_pod_table *t, const char *uid)
{
	pthread_mutex_lock(&t->mu);
	struct td_pod *p = t->head;
	while (p && strcmp(p->uid, uid))
		p = p->next;
	if (p)
		td_pod_ref(p);
	pthread_mutex_unlock(&t->mu);
	return p;
}

struct td_pod *td_pod_table_find(struct td_pod_table *t, const char *ns, const char *name)
{
	pthread_mutex_lock(&t->mu);
	struct td_pod *p = t->head;
	while (p && (strcmp(p->ns, ns) || strcmp(p->name, name)))
		p = p->next;
	if (p)
		td_pod_ref(p);
	pthread_mutex_unlock(&t->mu);
	return p;
}

void td_pod_table_all(struct td_pod_table *t, struct td_pods *ret)
{
	struct td_pods l = {0};
	size_t n = 0;
	pthread_mutex_lock(&t->mu);
	for (struct td_pod *p = t->head; p; p = p->next)
		n++;
	l.v = td_calloc(n ? n : 1, sizeof(struct td_pod *));
	for (struct td_pod *p = t->head; p; p = p->next)
		l.v[l.n++] = td_pod_ref(p);
	pthread_mutex_unlock(&t->mu);
	*ret = l;
}

void td_pods_done(struct td_pods *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_pod_unref(l->v[i]);
	free(l->v);
	*l = (struct td_pods){0};
}

int td_pod_table_address(struct td_pod_table *t, const struct td_kubelet *a, struct td_pod *p, struct td_error *err)
{
	bool used[256] = {0};
	int got = 0;

	pthread_mutex_lock(&t->mu);
	for (struct td_pod *q = t->head; q; q = q->next) {
		int x, n, h;
		pthread_mutex_lock(&q->mu);
		if (q->node == p->node && !q->host_network && !q->cleaned &&
		    sscanf(q->ip, "10.%d.%d.%d", &x, &n, &h) == 3 && h > 0 && h < 256)
			used[h] = true;
		pthread_mutex_unlock(&q->mu);
	}

	int last = t->last[p->node] ? t->last[p->node] : 1;
	for (int i = 1; i <= 253 && !got; i++) {
		int h = 2 + (last - 2 + i + 253) % 253;
		if (!used[h])
			got = h;
	}

	if (got) {
		t->last[p->node] = got;
		pthread_mutex_lock(&p->mu);
		snprintf(p->ip, sizeof(p->ip), "10.%d.%d.%d", a->subnet, p->node + 1, got);
		pthread_mutex_unlock(&p->mu);
	}

	pthread_mutex_unlock(&t->mu);
	return got ? 0
		   : td_fail(err, TD_THROTTLED, "node n%d has no free pod address (10.%d.%d.2 to .254)", p->node,
			     a->subnet, p->node + 1);
}

// Ranges of ids lie where systemd has those of containers, 524288 to 1879048191 (who may have such ids besides says
// docs/embedded-plane.md): 110 for each of the 256 subnets, and no two homes of a machine have the same subnet. 110 is
// a kubelet's own limit of pods.
enum { USERS_FIRST = 524288, USERS_MOST = 110 };

uint32_t td_pod_users(const struct td_kubelet *a, const struct td_pod *p)
{
	return p->users ? USERS_FIRST + (uint32_t)(a->subnet * USERS_MOST + p->users - 1) * TD_OCI_IDS : 0;
}

int td_pod_table_users(struct td_pod_table *t, struct td_pod *p, struct td_error *err)
{
	bool used[USERS_MOST + 1] = {0};
	int got = 0;

	pthread_mutex_lock(&t->mu);
	for (struct td_pod *q = t->head; q; q = q->next) {
		pthread_mutex_lock(&q->mu);
		if (q != p && !q->cleaned && q->users > 0 && q->users <= USERS_MOST)
			used[q->users] = true;
		pthread_mutex_unlock(&q->mu);
	}
	for (int i = 1; i <= USERS_MOST && !got; i++)
		got = used[i] ? 0 : i;
	if (got) {
		pthread_mutex_lock(&p->mu);
		p->users = got;
		pthread_mutex_unlock(&p->mu);
	}
	pthread_mutex_unlock(&t->mu);
	return got ? 0
		   : td_fail(err, TD_THROTTLED,
			     "all %d ranges of ids for user namespaces (hostUsers: false) are in use; it waits for one",
			     USERS_MOST);
}

int td_pod_table_devices(struct td_pod_table *t, struct td_pod *p, int from, int gpus, int n, uint64_t *ret,
			 struct td_error *err)
{
	uint64_t used = 0, m = 0;
	int left = n;

	pthread_mutex_lock(&t->mu);
	for (struct td_pod *q = t->head; q; q = q->next) {
		pthread_mutex_lock(&q->mu);
		if (q->node == p->node && q != p && !q->cleaned)
			used |= q->devices;
		pthread_mutex_unlock(&q->mu);
	}

	for (int i = from; i < gpus && left; i++)
		if (!(used >> i & 1)) {
			m |= (uint64_t)1 << i;
			left--;
		}

	// Set the devices before this lock is released, so that the next caller sees them.
	if (!left) {
		pthread_mutex_lock(&p->mu);
		p->devices = m;
		pthread_mutex_unlock(&p->mu);
		*ret = m;
	}

	pthread_mutex_unlock(&t->mu);
	return left ? td_fail(err, TD_THROTTLED, "%d of %d devices are free", n - left, n) : 0;
}
