#include "kubelet/pods/hosts.h"

#include "api/condition.h"
#include "api/selector.h"
#include "base/file.h"
#include "base/log.h"
#include "kubelet/pods/pod.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct td_hosts {
	struct td_kubelet *a;
	struct td_queue *queue; // one key: "all"
	pthread_mutex_t mu;     // orders the writers of one file; guards seen
	struct td_strv seen;    // namespaces that have a file
};

enum { DEBOUNCE_MS = 20 };

struct td_hosts *td_hosts_new(struct td_kubelet *a)
{
	struct td_hosts *h = td_calloc(1, sizeof(*h));
	h->a = a;
	h->queue = td_queue_new(a->clock);
	pthread_mutex_init(&h->mu, NULL);
	return h;
}

struct td_hosts *td_hosts_free(struct td_hosts *h)
{
	if (!h)
		return NULL;
	td_queue_free(h->queue);
	td_strv_done(&h->seen);
	pthread_mutex_destroy(&h->mu);
	free(h);
	return NULL;
}

char *td_hosts_path(const struct td_kubelet *a, const char *ns)
{
	return td_asprintf("%s/agent/hosts/%s", a->o.home, ns);
}

// Names and addresses come from API objects. They are checked, so that whoever may write a status
// cannot write lines of the file.
static bool address(const char *s)
{
	unsigned char to[16];
	return inet_pton(AF_INET, s, to) == 1 || inet_pton(AF_INET6, s, to) == 1;
}

static bool name_ok(const char *s)
{
	return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.")] == '\0';
}

void td_hosts_pod_line(struct td_buf *b, const yyjson_val *pod, const char *ip, const char *in_ns)
{
	const char *name = td_jstr_or(pod, "metadata.name", ""), *ns = td_jstr_or(pod, "metadata.namespace", "");
	const char *host = td_jstr_or(pod, "spec.hostname", name), *sub = td_jstr_or(pod, "spec.subdomain", "");
	bool own = !strcmp(ns, in_ns);

	if (!ip)
		ip = td_jstr_or(pod, "status.podIP", "");
	if (!address(ip) || (!own && !*sub) || !name_ok(name) || !name_ok(ns) || !name_ok(host) || !name_ok(sub))
		return;

	td_buf_puts(b, ip);
	if (*sub)
		td_buf_printf(b, " %s.%s.%s.svc.cluster.local %s.%s.%s.svc %s.%s.%s", host, sub, ns, host, sub, ns,
			      host, sub, ns);
	if (*sub && own)
		td_buf_printf(b, " %s.%s", host, sub);
	if (own) {
		td_buf_printf(b, " %s", name);
		if (strcmp(host, name))
			td_buf_printf(b, " %s", host);
	}
	td_buf_putc(b, '\n');
}

void td_hosts_service_lines(struct td_buf *b, const yyjson_val *svc, const struct td_strv *ips, const char *in_ns)
{
	const char *name = td_jstr_or(svc, "metadata.name", ""), *ns = td_jstr_or(svc, "metadata.namespace", "");
	for (size_t i = 0; name_ok(name) && name_ok(ns) && i < ips->n; i++) {
		if (!address(ips->v[i]))
			continue;
		td_buf_printf(b, "%s %s.%s.svc.cluster.local %s.%s.svc %s.%s", ips->v[i], name, ns, name, ns, name, ns);
		if (!strcmp(ns, in_ns))
			td_buf_printf(b, " %s", name);
		td_buf_putc(b, '\n');
	}
}

int td_hosts_write(const char *path, const char *text, size_t n, struct td_error *err)
{
	td_auto_buf struct td_buf old = {0}, now = {0};
	int r = td_file_read(path, 16 << 20, &old, err);
	if (r && r != TD_NOT_FOUND)
		return r;

	td_buf_add(&now, text, n);
	while (now.len < old.len)
		td_buf_putc(&now, '\n');

	if (!r && old.len == now.len && !memcmp(td_buf_str(&old), td_buf_str(&now), now.len))
		return 0;

	td_auto_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "write %s", path);
	fchmod(fd, 0644);
	return td_write_all(fd, td_buf_str(&now), now.len, err);
}

char *td_hosts_pod_ip(struct td_kubelet *a, const struct td_object *o)
{
	if (td_kube_pod_ended(o->root))
		return NULL;
	td_auto(td_pod_unref) struct td_pod *p = td_pod_table_get(a->table, o->uid);
	if (p) {
		pthread_mutex_lock(&p->mu);
		char *ip = p->ip[0] && !p->cleaned ? td_strdup(p->ip) : NULL;
		pthread_mutex_unlock(&p->mu);
		return ip;
	}
	const char *ip = td_jstr(o->root, "status.podIP");
	return ip && *ip ? td_strdup(ip) : NULL;
}

static void service(struct td_kubelet *a, struct td_buf *b, const struct td_object *svc, const struct td_objects *pods,
		    const char *ns)
{
	yyjson_val *sel = td_jget(svc->root, "spec.selector");
	bool early = td_jbool(svc->root, "spec.publishNotReadyAddresses", false);
	td_auto_strv struct td_strv ips = {0};

	if (!yyjson_obj_size(sel))
		return;

	for (size_t i = 0; i < pods->n; i++) {
		if (strcmp(pods->v[i]->ns, svc->ns))
			continue;
		yyjson_val *labels = td_jget(pods->v[i]->root, "metadata.labels"), *k, *v;
		size_t at, max;
		bool match = true;
		yyjson_obj_foreach (sel, at, max, k, v) {
			match = match && td_streq(td_jkey_str(labels, yyjson_get_str(k)), yyjson_get_str(v));
		}

		match = match && (early || td_condition_true(pods->v[i]->root, "Ready"));
		td_auto_free char *ip = match ? td_hosts_pod_ip(a, pods->v[i]) : NULL;
		if (ip && !td_strv_has(&ips, ip))
			td_strv_add(&ips, ip);
	}

	// With an address of its own a Service has its name also without pods, and refuses. Here it has none, so
	// its name leads to where nobody can be.
	if (!ips.n && td_streq(td_object_label(svc, TD_LABEL_NAME_STAYS), "true"))
		td_strv_add(&ips, "255.255.255.255");
	td_hosts_service_lines(b, svc->root, &ips, ns);
}

// Adds the API server, which listens on the switch's address. Pods also find it in
// KUBERNETES_SERVICE_HOST.
static void api_line(struct td_hosts *h, const char *ns, struct td_buf *b)
{
	td_buf_printf(b, "%s kubernetes.default.svc.cluster.local kubernetes.default.svc kubernetes.default%s\n",
		      h->a->gateway, strcmp(ns, "default") ? "" : " kubernetes");
}

static void text_of(struct td_hosts *h, const char *ns, const struct td_objects *pods,
		    const struct td_objects *services, struct td_buf *b)
{
	td_buf_printf(b, "127.0.0.1 localhost\n::1 localhost ip6-localhost\n%s tandem-host\n", h->a->gateway);

	api_line(h, ns, b);
	for (size_t i = 0; i < pods->n; i++) {
		td_auto_free char *ip = td_hosts_pod_ip(h->a, pods->v[i]);
		if (ip)
			td_hosts_pod_line(b, pods->v[i]->root, ip, ns);
	}

	for (size_t i = 0; i < services->n; i++)
		service(h->a, b, services->v[i], pods, ns);
}

static int write_ns(struct td_hosts *h, const char *ns, const struct td_objects *pods,
		    const struct td_objects *services, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_free char *path = td_hosts_path(h->a, ns);
	text_of(h, ns, pods, services, &b);
	pthread_mutex_lock(&h->mu);
	int r = td_hosts_write(path, b.s, b.len, err);
	if (!td_strv_has(&h->seen, ns))
		td_strv_add(&h->seen, ns);
	pthread_mutex_unlock(&h->mu);
	return r;
}

int td_hosts_sync(struct td_hosts *h, const char *ns, struct td_error *err)
{
	td_auto_objects struct td_objects pods = {0}, services = {0};
	td_informer_list(h->a->pods, NULL, &pods);
	td_informer_list(h->a->services, NULL, &services);
	return write_ns(h, ns, &pods, &services, err);
}

void td_hosts_changed(struct td_hosts *h)
{
	td_queue_add_after(h->queue, "all", DEBOUNCE_MS);
}

static int reconcile(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_hosts *h = ctx;
	td_auto_objects struct td_objects pods = {0}, services = {0};
	td_informer_list(h->a->pods, NULL, &pods);
	td_informer_list(h->a->services, NULL, &services);

	td_auto_strv struct td_strv all = {0};
	pthread_mutex_lock(&h->mu);
	for (size_t i = 0; i < h->seen.n; i++)
		td_strv_add(&all, h->seen.v[i]);
	pthread_mutex_unlock(&h->mu);

	td_auto_pods struct td_pods mine = {0};
	td_pod_table_all(h->a->table, &mine);
	for (size_t i = 0; i < mine.n; i++)
		if (!td_strv_has(&all, mine.v[i]->ns))
			td_strv_add(&all, mine.v[i]->ns);

	int r = 0;
	for (size_t i = 0; i < all.n && !r; i++)
		r = write_ns(h, all.v[i], &pods, &services, err);
	return r;
}

int td_hosts_run(struct td_hosts *h, struct td_cancel *c, struct td_error *err)
{
	struct td_controller ctl = {.name = "hosts", .workers = 1, .queue = h->queue, .reconcile = reconcile, .ctx = h};
	td_hosts_changed(h);
	return td_controller_run(&ctl, c, err);
}
