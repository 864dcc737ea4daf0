// exec over WebSocket. The first byte of every message is its channel:
//   0 stdin, 1 stdout, 2 stderr, 3 status (metav1.Status, the last message),
//   4 resize {"Width","Height"}, 255 close of the channel named next (v5)
#include "api/status.h"
#include "kubelet/pods/pod.h"
#include "kubelet/stream/stream.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCK = 32768 };

struct session {
	struct td_ws *ws;
	struct td_oci_proc *proc;
	bool out, err;
	struct td_cancel *gone; // the peer closed: stop pumping
	struct td_cancel *done; // the process ended: stop receiving
};

static void send_status(struct td_ws *ws, int r, int code, const struct td_error *e)
{
	char msg[640], num[16];
	if (!r && !code) {
		const char *ok = "{\"metadata\":{},\"status\":\"Success\"}";
		td_stream_channel(ws, 3, ok, strlen(ok));
		return;
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_obj(d, o, "metadata");
	td_jm_str(d, o, "status", "Failure");

	if (r) {
		td_jm_str(d, o, "message", e->msg);
		td_jm_str(d, o, "reason", "InternalError");
		td_jm_int(d, o, "code", 500);
	} else {
		snprintf(msg, sizeof(msg), "command terminated with non-zero exit code: exit status %d", code);
		snprintf(num, sizeof(num), "%d", code);
		td_jm_str(d, o, "message", msg);
		td_jm_str(d, o, "reason", "NonZeroExitCode");
		yyjson_mut_val *c = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "details.causes"));
		td_jm_str(d, c, "reason", "ExitCode");
		td_jm_str(d, c, "message", num);
	}

	size_t n;
	td_auto_free char *text = td_json_mut_text(o, &n);
	td_stream_channel(ws, 3, text, n);
}

static void *pump(void *arg)
{
	struct session *s = arg;
	int fd[2] = {td_oci_proc_out(s->proc), td_oci_proc_err(s->proc)};
	td_auto_free char *buf = td_malloc(BLOCK);

	while ((fd[0] >= 0 || fd[1] >= 0) && !td_cancelled(s->gone)) {
		struct pollfd p[3] = {{fd[0], POLLIN, 0}, {fd[1], POLLIN, 0}, {td_cancel_fd(s->gone), POLLIN, 0}};
		poll(p, 3, -1);
		for (int k = 0; k < 2; k++) {
			if (fd[k] < 0 || !p[k].revents)
				continue;
			ssize_t n = read(fd[k], buf, BLOCK);
			if (n < 0 && (errno == EAGAIN || errno == EINTR))
				continue;
			if (n <= 0) // a pty reports its end as EIO
				fd[k] = -1;
			else if ((k ? s->err : s->out) && td_stream_channel(s->ws, (char)(k + 1), buf, (size_t)n))
				td_cancel_fire(s->gone);
		}
	}

	struct td_error e = TD_ERROR_INIT;
	int code = 0;
	int r = td_oci_proc_wait(s->proc, s->gone, &code, &e);

	if (!td_cancelled(s->gone))
		send_status(s->ws, r, code, &e);
	td_cancel_fire(s->done);
	return NULL;
}

static void resize(struct td_oci_proc *proc, const char *s, size_t n)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (td_json_parse(s, n, &j, NULL))
		return;
	int cols = (int)td_jint(td_json_root(j), "Width", 0), rows = (int)td_jint(td_json_root(j), "Height", 0);
	if (cols > 0 && rows > 0 && cols < 65536 && rows < 65536)
		td_oci_proc_resize(proc, rows, cols);
}

static void receive(struct session *s, bool v5)
{
	td_auto_buf struct td_buf m = {0};
	for (;;) {
		bool binary;
		td_buf_reset(&m);
		if (td_ws_recv(s->ws, s->done, &m, &binary, NULL)) {
			td_cancel_fire(s->gone);
			return;
		}
		int in = td_oci_proc_in(s->proc);
		if (!m.len)
			continue;

		if (m.s[0] == 0 && in >= 0 && m.len > 1) {
			// The process may never read, so the wait also ends when the process ends.
			for (size_t at = 1; at < m.len && !td_cancelled(s->done);) {
				struct pollfd p[2] = {{in, POLLOUT, 0}, {td_cancel_fd(s->done), POLLIN, 0}};
				poll(p, 2, -1);
				ssize_t n =
					p[0].revents ? send(in, m.s + at, m.len - at, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
				if (n < 0 && errno == ENOTSOCK)
					n = write(in, m.s + at, m.len - at < 512 ? m.len - at : 512);
				if (n < 0 && errno != EAGAIN && errno != EINTR)
					break;
				at += n > 0 ? (size_t)n : 0;
			}
		} else if (m.s[0] == 4) {
			resize(s->proc, m.s + 1, m.len - 1);
		} else if (v5 && (unsigned char)m.s[0] == 255 && m.len > 1 && m.s[1] == 0) {
			td_oci_proc_close_in(s->proc);
		}
	}
}

void td_stream_exec(struct td_kubelet *a, struct td_http_x *x, struct td_pod *p, struct td_ctr *c)
{
	static const char *const protocols[] = {"v5.channel.k8s.io", "v4.channel.k8s.io", NULL};
	td_auto_strv struct td_strv argv = {0};
	td_http_query_all(x, "command", &argv);

	pthread_mutex_lock(&p->mu);
	bool runs = c->state == TD_CTR_RUNNING && c->wanted;
	td_auto_free char *id = runs ? td_pod_container_id(a, p, c) : NULL;
	pthread_mutex_unlock(&p->mu);

	if (!argv.n) {
		td_stream_error(x, 400, "you must specify at least one command for the container");
		return;
	}
	if (!runs) {
		td_stream_error(x, 409, "container %s of pod %s is not running", c->name, p->name);
		return;
	}

	struct session s = {0};
	const char *protocol = NULL;
	if (td_ws_accept(x, protocols, &s.ws, &protocol, NULL))
		return;

	int64_t accepted = td_mono_ms(&td_clock_system);
	bool tty = td_stream_flag(x, "tty") || td_stream_flag(x, "TTY");
	s.out = td_stream_flag(x, "stdout") || td_stream_flag(x, "output");
	s.err = td_stream_flag(x, "stderr") || td_stream_flag(x, "error");

	static const char *const term[] = {"TERM=xterm", NULL};
	struct td_oci_exec e = {
		.args = (const char *const *)argv.v,
		.env = tty ? term : NULL,
		.tty = tty,
		.stdin_open = td_stream_flag(x, "stdin") || td_stream_flag(x, "input"),
		.rows = 24,
		.cols = 80,
	};

	struct td_error err = TD_ERROR_INIT;
	int r = td_oci_exec(a->oci, id, &e, &s.proc, &err);
	td_stream_hello(s.ws, s.out, s.err, accepted);

	if (r) {
		send_status(s.ws, -1, 0, &err);
		td_ws_close(s.ws, 1000);
		return;
	}

	td_auto(td_cancel_unref) struct td_cancel *gone = td_cancel_new(), *done = td_cancel_new();
	s.gone = gone;
	s.done = done;

	pthread_t t;
	if (pthread_create(&t, NULL, pump, &s)) {
		err.msg[0] = '\0';
		td_fail(&err, TD_INTERNAL, "no thread for the session");
		send_status(s.ws, -1, 0, &err);
	} else {
		receive(&s, !strcmp(protocol, protocols[0]));
		pthread_join(t, NULL);
	}

	td_oci_proc_free(s.proc);
	td_ws_close(s.ws, 1000);
}
