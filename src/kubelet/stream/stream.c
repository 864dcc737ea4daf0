#include "kubelet/stream/stream.h"

#include "api/status.h"
#include "kubelet/pods/pod.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_MS = 7 * 24 * 3600 * 1000, SETTLE_MS = 30 };

void td_stream_error(struct td_http_x *x, int status, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *msg = td_vasprintf(fmt, ap);
	va_end(ap);

	struct td_status s = {.code = status, .reason = td_status_reason(status), .message = msg};
	size_t n;
	td_auto_free char *text = td_status_text(&s, &n);
	td_http_send(x, status, "application/json", text, n);
}

bool td_stream_flag(const struct td_http_x *x, const char *name)
{
	const char *v = td_http_query(x, name);
	return v && (!strcmp(v, "true") || !strcmp(v, "1") || !*v);
}

int td_stream_channel(struct td_ws *ws, char channel, const void *p, size_t n)
{
	td_auto_buf struct td_buf m = {0};
	td_buf_putc(&m, channel);
	td_buf_add(&m, p, n);
	return td_ws_send(ws, true, m.s, m.len, NULL);
}

void td_stream_hello(struct td_ws *ws, bool out, bool err, int64_t accepted)
{
	int64_t wait = accepted + SETTLE_MS - td_mono_ms(&td_clock_system);
	if (wait > 0)
		usleep((useconds_t)wait * 1000);
	td_stream_channel(ws, out ? 1 : err ? 2 : 3, NULL, 0);
}

static void list_pods(struct td_kubelet *a, struct td_http_x *x)
{
	static const char *const states[] = {"waiting", "running", "terminated"};
	td_auto_pods struct td_pods all = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *arr = td_jm_arr(d, yyjson_mut_doc_get_root(d), "pods");
	td_pod_table_all(a->table, &all);

	for (size_t i = 0; i < all.n; i++) {
		struct td_pod *p = all.v[i];
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, arr), *cs = td_jm_arr(d, o, "containers");
		pthread_mutex_lock(&p->mu);
		td_auto_free char *dev = td_dev_format(p->devices);
		td_jm_str(d, o, "uid", p->uid);
		td_jm_str(d, o, "namespace", p->ns);
		td_jm_str(d, o, "name", p->name);
		td_jm_strf(d, o, "node", "n%d", p->node);
		td_jm_str(d, o, "ip", p->ip);
		td_jm_str(d, o, "devices", dev);
		td_jm_int(d, o, "job", p->grant.job);
		td_jm_bool(d, o, "stopping", p->stopping);
		td_jm_bool(d, o, "terminal", p->terminal);
		for (size_t k = 0; k < p->n_ctr; k++) {
			yyjson_mut_val *c = yyjson_mut_arr_add_obj(d, cs);
			td_jm_str(d, c, "name", p->ctr[k].name);
			td_jm_str(d, c, "state", states[p->ctr[k].state]);
			td_jm_int(d, c, "attempt", p->ctr[k].attempt);
		}
		pthread_mutex_unlock(&p->mu);
	}

	size_t n;
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(d), &n);
	td_http_send(x, 200, "application/json", text, n);
}

static void handle(struct td_http_x *x, void *ctx)
{
	struct td_kubelet *a = ctx;
	td_auto_strv struct td_strv f = {0};
	td_strv_split(&f, td_http_path(x), '/');
	const char *what = f.n ? f.v[0] : "";

	if (strcmp(td_http_method(x), "GET") && strcmp(td_http_method(x), "POST")) {
		td_stream_error(x, 405, "the agent answers GET and POST only");
		return;
	}

	if (f.n == 1 && !strcmp(what, "pods")) {
		list_pods(a, x);
		return;
	}

	bool forward = !strcmp(what, "portForward"), logs = !strcmp(what, "containerLogs"),
	     exec = !strcmp(what, "exec");
	if (!forward && !logs && !exec && strcmp(what, "attach")) {
		td_stream_error(x, 404, "the agent has no %s", td_http_path(x));
		return;
	}

	if (f.n != (forward ? 3 : 4)) {
		td_stream_error(x, 400, "want /%s/<namespace>/<pod>%s", what, forward ? "" : "/<container>");
		return;
	}

	td_auto(td_pod_unref) struct td_pod *p = td_pod_table_find(a->table, f.v[1], f.v[2]);
	if (!p) {
		td_stream_error(x, 404, "pod %s/%s is not on this agent's nodes", f.v[1], f.v[2]);
		return;
	}

	if (forward) {
		td_stream_forward(a, x, p);
		return;
	}

	struct td_ctr *c = td_pod_ctr(p, f.v[3]);
	if (!c)
		td_stream_error(x, 400, "container %s is not valid for pod %s", f.v[3], f.v[2]);
	else if (logs)
		td_stream_logs(a, x, p, c);
	else if (exec)
		td_stream_exec(a, x, p, c);
	else
		td_stream_attach(a, x, p, c);
}

int td_stream_run(struct td_kubelet *a, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/agent.sock", a->o.run), *listen = td_asprintf("unix:%s", path);
	const char *const addrs[] = {listen, NULL};

	// A reader may pause as long as it likes (`kubectl logs -f | less`, a stopped terminal). It
	// holds up only its own session.
	struct td_http_server_opts o = {.listen = addrs,
					.max_conns = 256,
					.unix_mode = 0600,
					.write_ms = PAUSE_MS,
					.handler = handle,
					.ctx = a};

	struct td_http_server *s = NULL;
	unlink(path);

	int r = td_http_server_new(&o, &s, err);
	if (r)
		return r;

	r = td_http_server_run(s, c, err);
	td_http_server_free(s);
	return r;
}
