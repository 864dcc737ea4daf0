// Probes and lifecycle hooks. A probe is a key in a queue of its own ("uid container attempt
// kind"), so that a slow probe never holds up a pod's worker.
#include "base/log.h"
#include "kubelet/pods/sync.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const kinds[] = {"startupProbe", "livenessProbe", "readinessProbe"};
enum {
	OUT_MAX = 1024,
	HOOK_MS = 600000,
	// A server needs a moment to start. Without this wait every first probe would be an event.
	FIRST_MS = 100
};

// ---- actions ----

static int wait_fd(int fd, short what, int64_t end, struct td_cancel *c)
{
	for (;;) {
		int64_t left = end - td_mono_ms(&td_clock_system);
		struct pollfd p[2] = {{fd, what, 0}, {td_cancel_fd(c), POLLIN, 0}};
		if (left <= 0 || td_cancelled(c))
			return -1;
		int n = poll(p, 2, (int)(left > 60000 ? 60000 : left));
		if (n > 0 && p[0].revents)
			return 0;
	}
}

static int dial(const char *ip, int port, int64_t end, struct td_cancel *c, struct td_error *err)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (inet_pton(AF_INET, ip, &sa.sin_addr) != 1)
		return td_fail(err, TD_INVALID,
			       "\"%s\" is not an IPv4 address: on embedded nodes a probe's host is the pod", ip);

	td_auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int e = 0;
	socklen_t len = sizeof(e);
	if (fd < 0 || (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 && errno != EINPROGRESS))
		return td_fail_errno(err, TD_TRANSIENT, errno, "dial tcp %s:%d", ip, port);
	if (wait_fd(fd, POLLOUT, end, c))
		return td_fail(err, TD_TRANSIENT, "dial tcp %s:%d: timed out", ip, port);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0 || e)
		return td_fail_errno(err, TD_TRANSIENT, e, "dial tcp %s:%d", ip, port);
	return td_steal_fd(&fd);
}

static int port_of(const yyjson_val *container, const yyjson_val *port)
{
	if (yyjson_is_int((yyjson_val *)port))
		return (int)yyjson_get_sint((yyjson_val *)port);
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(container, "ports"), i, n, v) {
		if (td_streq(td_jstr(v, "name"), yyjson_get_str((yyjson_val *)port)))
			return (int)td_jint(v, "containerPort", 0);
	}
	long long num = 0;
	td_parse_i64(yyjson_get_str((yyjson_val *)port) ? yyjson_get_str((yyjson_val *)port) : "", &num);
	return (int)num;
}

static int http_get(const char *ip, int port, const yyjson_val *get, int64_t end, struct td_cancel *c,
		    struct td_error *err)
{
	if (!strcasecmp(td_jstr_or(get, "scheme", "HTTP"), "HTTPS"))
		return td_fail(err, TD_UNSUPPORTED,
			       "embedded nodes have httpGet probes over HTTP only: use scheme HTTP, tcpSocket or exec");

	td_auto_close int fd = dial(ip, port, end, c, err);
	if (fd < 0)
		return fd;

	td_auto_buf struct td_buf q = {0}, in = {0};
	const char *path = td_jstr_or(get, "path", "/");
	bool host = false;
	yyjson_val *h;
	size_t i, n;
	td_buf_printf(&q, "GET %s%s HTTP/1.1\r\n", path[0] == '/' ? "" : "/", path);
	yyjson_arr_foreach (td_jget(get, "httpHeaders"), i, n, h) {
		const char *name = td_jstr_or(h, "name", ""), *value = td_jstr_or(h, "value", "");
		if (strpbrk(name, "\r\n:") || strpbrk(value, "\r\n"))
			continue;
		host = host || !strcasecmp(name, "host");
		td_buf_printf(&q, "%s: %s\r\n", name, value);
	}
	if (!host)
		td_buf_printf(&q, "Host: %s:%d\r\n", ip, port);
	td_buf_puts(&q, "User-Agent: kube-probe/tandem\r\nAccept: */*\r\nConnection: close\r\n\r\n");

	for (size_t at = 0; at < q.len;) {
		ssize_t k = send(fd, q.s + at, q.len - at, MSG_NOSIGNAL);
		if (k < 0 && errno == EAGAIN && !wait_fd(fd, POLLOUT, end, c))
			continue;
		if (k < 0)
			return td_fail_errno(err, TD_TRANSIENT, errno, "Get \"http://%s:%d%s\"", ip, port, path);
		at += (size_t)k;
	}

	while (in.len < OUT_MAX && !strchr(td_buf_str(&in), '\n')) {
		char buf[512];
		if (wait_fd(fd, POLLIN, end, c))
			return td_fail(err, TD_TRANSIENT, "Get \"http://%s:%d%s\": timed out awaiting headers", ip,
				       port, path);
		ssize_t k = recv(fd, buf, sizeof(buf), 0);
		if (k < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (k <= 0)
			break;
		td_buf_add(&in, buf, (size_t)k);
	}

	int code = 0;
	if (sscanf(td_buf_str(&in), "HTTP/%*d.%*d %d", &code) != 1)
		return td_fail(err, TD_TRANSIENT, "Get \"http://%s:%d%s\": the reply is not HTTP", ip, port, path);
	return code >= 200 && code < 400 ? 0 : td_fail(err, TD_INVALID, "HTTP probe failed with statuscode: %d", code);
}

static int exec_cmd(struct td_kubelet *a, const char *id, const yyjson_val *cmd, int64_t timeout_ms,
		    struct td_cancel *c, struct td_error *err)
{
	td_auto_strv struct td_strv argv = {0};
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)cmd, i, n, v) {
		td_strv_add(&argv, yyjson_get_str(v) ? yyjson_get_str(v) : "");
	}

	if (!argv.n)
		return td_fail(err, TD_INVALID, "exec: no command");

	struct td_oci_exec e = {.args = (const char *const *)argv.v};
	struct td_oci_proc *proc = NULL;
	int r = td_oci_exec(a->oci, id, &e, &proc, err);
	if (r)
		return r;

	// Fires at the deadline. The caller's cancel is looked at beside it.
	td_auto(td_cancel_unref) struct td_cancel *stop = td_cancel_new();
	td_auto(td_deadline_drop) struct td_deadline *d = td_watch_deadline(a->watch, stop, timeout_ms);
	td_auto_buf struct td_buf out = {0};
	int fds[2] = {td_oci_proc_out(proc), td_oci_proc_err(proc)};

	while ((fds[0] >= 0 || fds[1] >= 0) && !td_cancelled(stop) && !td_cancelled(c)) {
		struct pollfd p[4] = {{fds[0], POLLIN, 0},
				      {fds[1], POLLIN, 0},
				      {td_cancel_fd(stop), POLLIN, 0},
				      {td_cancel_fd(c), POLLIN, 0}};
		poll(p, 4, 1000);
		for (int k = 0; k < 2; k++) {
			char buf[1024];
			if (!p[k].revents)
				continue;
			ssize_t len = read(fds[k], buf, sizeof(buf));
			if (len > 0 && out.len < OUT_MAX)
				td_buf_add(&out, buf, (size_t)len);
			if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR))
				fds[k] = -1;
		}
	}

	int code = 0;
	r = td_cancelled(c) ? td_fail(err, TD_CANCELLED, "cancelled") : td_oci_proc_wait(proc, stop, &code, err);
	bool late = td_cancelled(stop);
	td_oci_proc_free(proc);
	if (r && late)
		return td_fail(err, TD_TRANSIENT, "command timed out after %lld ms", (long long)timeout_ms);
	if (!r && code)
		return td_fail(err, TD_INVALID, "%.400s", out.len ? out.s : "command failed");
	return r;
}

int td_probe_do(struct td_kubelet *a, const char *id, const char *ip, const yyjson_val *container,
		const yyjson_val *action, int64_t timeout_ms, struct td_cancel *c, struct td_error *err)
{
	int64_t end = td_mono_ms(&td_clock_system) + timeout_ms;
	yyjson_val *v;

	if ((v = td_jget(action, "exec")))
		return exec_cmd(a, id, td_jget(v, "command"), timeout_ms, c, err);
	if ((v = td_jget(action, "httpGet")))
		return http_get(td_jstr_or(v, "host", ip), port_of(container, td_jget(v, "port")), v, end, c, err);
	if ((v = td_jget(action, "tcpSocket"))) {
		td_auto_close int fd =
			dial(td_jstr_or(v, "host", ip), port_of(container, td_jget(v, "port")), end, c, err);
		return fd < 0 ? fd : 0;
	}
	if ((v = td_jget(action, "sleep"))) {
		int64_t ms = td_jint(v, "seconds", 0) * 1000;
		td_cancel_wait(c, ms < timeout_ms ? ms : timeout_ms);
		return 0;
	}

	return td_fail(err, TD_UNSUPPORTED, "embedded nodes have exec, httpGet and tcpSocket");
}

// ---- probes ----

void td_probes_begin(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c)
{
	const yyjson_val *spec = td_ctr_spec(o->root, c->name);
	for (int k = 0; k < 3; k++) {
		yyjson_val *probe = td_jget(spec, kinds[k]);
		if (!probe)
			continue;
		td_auto_free char *key = td_asprintf("%s %s %d %d", p->uid, c->name, c->attempt, k);
		td_queue_add_after(a->probes, key, td_jint(probe, "initialDelaySeconds", 0) * 1000 + FIRST_MS);
	}
}

// Counts one result. True: the pod's worker has something to look at.
static bool result(struct td_pod *p, struct td_ctr *c, int kind, const yyjson_val *probe, int r, const char *text)
{
	int need_ok = kind == TD_PROBE_READINESS ? (int)td_jint(probe, "successThreshold", 1) : 1;
	int need_bad = (int)td_jint(probe, "failureThreshold", 3);
	bool changed = false;

	pthread_mutex_lock(&p->mu);
	c->fails[kind] = r ? c->fails[kind] + 1 : 0;
	c->passes[kind] = r ? 0 : c->passes[kind] + 1;
	bool good = c->passes[kind] >= need_ok, bad = c->fails[kind] >= need_bad;

	if (kind == TD_PROBE_READINESS) {
		bool now = good ? true : bad ? false : c->probe_ready;
		changed = now != c->probe_ready;
		c->probe_ready = now;
	} else if (kind == TD_PROBE_STARTUP && good && !c->probe_started) {
		c->probe_started = changed = true;
	}

	if (kind != TD_PROBE_READINESS && bad && !c->unhealthy) {
		c->unhealthy = changed = true;
		free(c->unhealthy_why);
		c->unhealthy_why = td_strdup(text);
		c->unhealthy_grace_s = td_jint(probe, "terminationGracePeriodSeconds", -1);
	}

	pthread_mutex_unlock(&p->mu);
	return changed;
}

int td_probe_sync(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *cancel, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	td_auto_strv struct td_strv f = {0};
	long long attempt, kind;
	td_strv_split(&f, key, ' ');
	if (f.n != 4 || !td_parse_i64(f.v[2], &attempt) || !td_parse_i64(f.v[3], &kind) || kind < 0 || kind > 2)
		return 0;

	td_auto(td_pod_unref) struct td_pod *p = td_pod_table_get(a->table, f.v[0]);
	struct td_ctr *c = p ? td_pod_ctr(p, f.v[1]) : NULL;
	td_auto(td_object_unref) struct td_object *o = p ? td_pod_object(a, p) : NULL;
	if (!c || !o)
		return 0;

	const yyjson_val *spec = td_ctr_spec(o->root, c->name), *probe = td_jget(spec, kinds[kind]);
	char ip[16];
	pthread_mutex_lock(&p->mu);
	bool live = c->state == TD_CTR_RUNNING && c->attempt == attempt && !p->stopping && !c->unhealthy;
	bool begun = c->probe_started;
	snprintf(ip, sizeof(ip), "%s", p->host_network ? a->gateway : p->ip);
	td_auto_free char *id = td_pod_container_id(a, p, c);
	pthread_mutex_unlock(&p->mu);
	if (!live || !probe || (kind == TD_PROBE_STARTUP && begun))
		return 0; // over; a new attempt has new keys

	int64_t period = td_jint(probe, "periodSeconds", 10) * 1000;
	if (period < 1000)
		period = 1000;
	// Until the startup probe has passed, the other probes only wait.
	if (kind != TD_PROBE_STARTUP && !begun) {
		*again_ms = period;
		return 0;
	}

	struct td_error e = TD_ERROR_INIT;
	int r = td_probe_do(a, id, ip, spec, probe, td_jint(probe, "timeoutSeconds", 1) * 1000, cancel, &e);
	if (td_cancelled(cancel))
		return 0;

	if (r)
		td_pod_event(a, o, "Warning", "Unhealthy", "%s probe failed: %s",
			     kind == TD_PROBE_STARTUP    ? "Startup"
			     : kind == TD_PROBE_LIVENESS ? "Liveness"
							 : "Readiness",
			     e.msg);

	td_auto_free char *why = td_asprintf("Container %s failed %s probe, will be restarted", c->name,
					     kind == TD_PROBE_STARTUP ? "startup" : "liveness");

	if (result(p, c, (int)kind, probe, r, why))
		td_queue_add(a->queue, p->uid);
	*again_ms = period;
	return 0;
}

// ---- hooks ----

struct hook {
	struct td_kubelet *a;
	struct td_pod *p;
	struct td_object *o;
	struct td_ctr *c;
	const char *which;
	char *id;
	int64_t timeout_ms;
	enum td_hook *state;
};

static void hooks_add(struct td_kubelet *a, int n)
{
	pthread_mutex_lock(&a->hooks_mu);
	a->hooks += n;
	pthread_cond_broadcast(&a->hooks_idle);
	pthread_mutex_unlock(&a->hooks_mu);
}

static void *hook_run(void *arg)
{
	struct hook *h = arg;
	struct td_error e = TD_ERROR_INIT;
	const yyjson_val *spec = td_ctr_spec(h->o->root, h->c->name), *life = td_jget(spec, "lifecycle");
	bool pre = !strcmp(h->which, "preStop");
	char ip[16];
	pthread_mutex_lock(&h->p->mu);
	snprintf(ip, sizeof(ip), "%s", h->p->host_network ? h->a->gateway : h->p->ip);
	pthread_mutex_unlock(&h->p->mu);

	int r = td_probe_do(h->a, h->id, ip, spec, td_jget(life, h->which), h->timeout_ms, h->a->cancel, &e);
	if (r && r != TD_CANCELLED)
		td_pod_event(h->a, h->o, "Warning", pre ? "FailedPreStopHook" : "FailedPostStartHook", "%s failed: %s",
			     pre ? "PreStopHook" : "PostStartHook", e.msg);

	pthread_mutex_lock(&h->p->mu);
	*h->state = r ? TD_HOOK_FAILED : TD_HOOK_DONE;
	if (r && !pre && !h->c->unhealthy) {
		h->c->unhealthy = true;
		free(h->c->unhealthy_why);
		h->c->unhealthy_why = td_strdup("FailedPostStartHook");
		h->c->unhealthy_grace_s = -1;
	}
	pthread_mutex_unlock(&h->p->mu);

	td_queue_add(h->a->queue, h->p->uid);
	td_object_unref(h->o);
	free(h->id);

	struct td_kubelet *a = h->a;
	td_pod_unref(h->p);
	free(h);
	hooks_add(a, -1);
	return NULL;
}

void td_hook_begin(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c,
		   const char *which, int64_t timeout_ms)
{
	enum td_hook *state = !strcmp(which, "preStop") ? &c->pre_stop : &c->post_start;
	struct hook *h = td_calloc(1, sizeof(*h));
	*h = (struct hook){a,     td_pod_ref(p),    td_object_ref((struct td_object *)o),  c,
			   which, td_strdup(c->id), timeout_ms > 0 ? timeout_ms : HOOK_MS, state};

	pthread_mutex_lock(&p->mu);
	*state = TD_HOOK_RUNNING;
	pthread_mutex_unlock(&p->mu);
	hooks_add(a, 1);

	pthread_t t;
	pthread_attr_t at;
	pthread_attr_init(&at);
	pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&at, 256 << 10);
	if (pthread_create(&t, &at, hook_run, h)) {
		td_warn("kubelet: %s/%s: no thread for the %s hook", p->ns, p->name, which);
		pthread_mutex_lock(&p->mu);
		*state = TD_HOOK_FAILED;
		pthread_mutex_unlock(&p->mu);
		td_object_unref(h->o);
		td_pod_unref(h->p);
		free(h->id);
		free(h);
		hooks_add(a, -1);
	}
	pthread_attr_destroy(&at);
}
