// The sockets: one thread accepts, and a short-lived thread serves each request, which may wait for
// minutes. At most 256 requests are served at a time.
#include "gate/gate_priv.h"

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "gate/devices.h"
#include "standin/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	MAX_REQUESTS = 256,
	MAX_TASKS = MAX_REQUESTS / 2, // anybody may send them, so they never get all the room
	TIMEOUT_MAX_MS = 600000,
	LINE_MS = 10000
};

struct server {
	struct td_gate *g;
	struct td_cancel *cancel;
	pthread_mutex_t mu; // guards running and tasks
	pthread_cond_t idle;
	int running, tasks; // requests; tasks: those that came by the socket for tasks
};
struct request {
	struct server *s;
	int node, fd;
	bool anybody; // it came by the socket for tasks, so it may only check
};

static int field_i64(const char *v, const char *key, int64_t *ret, struct td_error *err)
{
	long long n;
	if (!td_parse_i64(v, &n) || n < 0)
		return td_fail(err, TD_INVALID, "%s=%.40s: want a number", key, v);
	*ret = n;
	return 0;
}

// Is it a request that td_gate_opts.several answers?
static bool for_several(const struct td_gate_request *q)
{
	return q->exchange || q->suspect || q->hangs || q->progress || q->pace || q->use || q->used || q->noted ||
	       q->rung;
}

int td_gate_parse(const char *line, const char *node, int devices, struct td_gate_request *ret, struct td_error *err)
{
	td_auto_strv struct td_strv f = {0};
	struct td_gate_request q = {.timeout_ms = 45000, .cpu_ms = -1, .output = -1, .heartbeat = -1};
	bool job = false, dev = false;
	td_strv_split(&f, line, ' ');
	if (f.n == 1 && !strcmp(f.v[0], "ping")) {
		q.ping = true;
		*ret = q;
		return 0;
	}

	q.check = f.n && !strcmp(f.v[0], "check");
	q.exchange = f.n && !strcmp(f.v[0], "exchange");
	q.suspect = f.n && !strcmp(f.v[0], "suspect");
	q.hangs = f.n && !strcmp(f.v[0], "hangs");
	q.rung = f.n && !strcmp(f.v[0], "rung");
	q.progress = f.n && !strcmp(f.v[0], "progress");
	q.pace = f.n && !strcmp(f.v[0], "pace");
	q.mine = f.n && !strcmp(f.v[0], "mine");
	q.use = q.mine || (f.n && !strcmp(f.v[0], "use"));
	q.used = f.n && !strcmp(f.v[0], "used");
	q.noted = f.n && !strcmp(f.v[0], "noted");
	if (!f.n || (strcmp(f.v[0], "acquire") && !q.check && !for_several(&q)))
		return td_fail(err, TD_INVALID, "unknown request \"%.40s\": want acquire, check or ping",
			       f.n ? f.v[0] : "");
	for (size_t i = 1; i < f.n; i++) {
		char *v = strchr(f.v[i], '=');
		int r = 0;
		if (!v)
			return td_fail(err, TD_INVALID, "field \"%.40s\": want key=value", f.v[i]);
		*v++ = '\0';
		if (!strcmp(f.v[i], "job") && !q.check && !q.mine) {
			r = field_i64(v, "job", &q.h.job, err);
			job = q.h.job > 0;
		} else if (!strcmp(f.v[i], "start")) {
			r = field_i64(v, "start", &q.h.start, err);
		} else if (!strcmp(f.v[i], "timeout")) {
			r = field_i64(v, "timeout", &q.timeout_ms, err);
		} else if (!strcmp(f.v[i], "uid")) {
			snprintf(q.h.uid, sizeof(q.h.uid), "%s", v);
		} else if (!strcmp(f.v[i], "ask") && !q.check) {
			snprintf(q.h.ask, sizeof(q.h.ask), "%s", v);
		} else if (!strcmp(f.v[i], "pod") && !q.check) {
			// A longer text is no pod's name, and a part of it could be another pod's.
			if (strlen(v) < sizeof(q.h.ask_pod))
				snprintf(q.h.ask_pod, sizeof(q.h.ask_pod), "%s", v);
		} else if (!strcmp(f.v[i], "sluid") && !q.check) {
			if (td_wire_is_sluid(v))
				snprintf(q.h.sluid, sizeof(q.h.sluid), "%s", v);
		} else if (!strcmp(f.v[i], "share") && !q.check) {
			int64_t share = 0;
			r = field_i64(v, "share", &share, err);
			if (!r && (share < 1 || share > TD_GPU_UNITS))
				r = td_fail(err, TD_INVALID, "share=%.20s: want 1 to %d", v, TD_GPU_UNITS);
			q.h.share = (int)share;
		} else if (!strcmp(f.v[i], "partition") && strlen(v) < sizeof(q.partition)) {
			snprintf(q.partition, sizeof(q.partition), "%s", v);
		} else if (!strcmp(f.v[i], "qos") && strlen(v) < sizeof(q.qos)) {
			snprintf(q.qos, sizeof(q.qos), "%s", v);
		} else if (!strcmp(f.v[i], "account") && !q.check && strlen(v) < sizeof(q.h.account)) {
			snprintf(q.h.account, sizeof(q.h.account), "%s", v);
		} else if (!strcmp(f.v[i], "result") && strlen(v) < sizeof(q.result)) {
			snprintf(q.result, sizeof(q.result), "%s", v);
		} else if (!strcmp(f.v[i], "state") && strlen(v) < sizeof(q.state)) {
			snprintf(q.state, sizeof(q.state), "%s", v);
		} else if (q.progress &&
			   (!strcmp(f.v[i], "cpu") || !strcmp(f.v[i], "output") || !strcmp(f.v[i], "beat"))) {
			long long n;
			int64_t *to = f.v[i][0] == 'c' ? &q.cpu_ms : f.v[i][0] == 'o' ? &q.output : &q.heartbeat;
			*to = td_parse_i64(v, &n) && (n >= 0 || (n == -2 && f.v[i][0] == 'b')) ? n : -1;
		} else if (q.progress && !strcmp(f.v[i], "nodes")) {
			r = field_i64(v, "nodes", &q.nodes, err);
		} else if (q.progress && !strcmp(f.v[i], "others")) {
			long long n;
			q.others = true;
			q.gpu_others = td_parse_i64(v, &n) && n >= -1 && n <= 100 ? n : -2;
		} else if (q.pace && (!strcmp(f.v[i], "part") || !strcmp(f.v[i], "of"))) {
			r = field_i64(v, f.v[i], f.v[i][0] == 'p' ? &q.part : &q.parts, err);
		} else if (q.pace && !strcmp(f.v[i], "ranks")) {
			snprintf(q.ranks, sizeof(q.ranks), "%s", v);
		} else if (q.rung && !strcmp(f.v[i], "id") && strlen(v) < sizeof(q.id)) {
			snprintf(q.id, sizeof(q.id), "%s", v);
		} else if (q.rung && !strcmp(f.v[i], "mbps")) {
			r = field_i64(v, "mbps", &q.mbps, err);
		} else if (q.suspect && !strcmp(f.v[i], "slow") && strlen(v) < sizeof(q.slow)) {
			snprintf(q.slow, sizeof(q.slow), "%s", v);
		} else if (!strcmp(f.v[i], "why")) {
			snprintf(q.why, sizeof(q.why), "%.159s", v);
		} else if (!strcmp(f.v[i], "node")) {
			if (strcmp(v, node))
				return td_fail(err, TD_INVALID, "node=%.60s: this is the gate of %s", v, node);
		} else if (!strcmp(f.v[i], "devices")) {
			r = td_dev_parse(v, devices, &q.mask, err);
			dev = true;
		} // other fields, of a newer peer, are ignored
		if (r)
			return r;
	}

	bool jobless = q.check || q.mine || q.hangs || q.rung || (q.suspect && !*q.slow);
	if (!dev || (!job && !jobless))
		return td_fail(err, TD_INVALID, "%s devices=<ranges or ->",
			       q.check  ? "check needs"
			       : q.mine ? "mine needs"
					: "acquire needs job=<id> and");
	if (q.timeout_ms > TIMEOUT_MAX_MS)
		q.timeout_ms = TIMEOUT_MAX_MS;
	*ret = q;
	return 0;
}

int64_t td_gate_cgroup_job(const char *cgroups)
{
	// "5:devices:/tandem-…/slurm_n0/uid_0/job_3/step_0/task_0". The last job counts: everything
	// below it is the job's own.
	int64_t job = 0;
	for (const char *s = cgroups; (s = strstr(s, "/job_")) != NULL;) {
		char *end;
		s += strlen("/job_");
		unsigned long long n = strtoull(s, &end, 10);
		if (end > s && end - s < 12 && (*end == '/' || *end == '\n' || !*end))
			job = (int64_t)n;
	}
	return job;
}

bool td_gate_cgroup_sluid(const char *cgroups, char ret[TD_SLUID])
{
	const char *s = td_wire_cgroup_sluid(cgroups);
	if (s)
		snprintf(ret, TD_SLUID, "%.*s", (int)td_wire_sluid(s), s);
	return s;
}

static int peer_cgroups(pid_t pid, struct td_buf *ret, struct td_error *err)
{
	// The kernel names only processes in our PID namespace.
	if (!pid)
		return td_fail(err, TD_INTERNAL,
			       "the agent does not see the processes of its node: its pod needs hostPID: true");
	td_auto_free char *path = td_asprintf("/proc/%d/cgroup", (int)pid);
	return td_file_read(path, 64 << 10, ret, err);
}

static int peer_job(struct td_gate *g, int node, pid_t pid, int64_t *ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	char sluid[TD_SLUID];
	int r = peer_cgroups(pid, &b, err);
	if (r)
		return r;
	*ret = td_gate_cgroup_job(td_buf_str(&b));
	if (!*ret && td_gate_cgroup_sluid(td_buf_str(&b), sluid))
		*ret = td_gate_job_called(g, node, sluid);
	return *ret ? 0 : td_fail(err, TD_INVALID, "only tasks of Slurm jobs may ask here");
}

// Says whether this peer may claim. To be root is not enough: any pod may mount the socket's
// directory, and most containers have no user namespace of their own.
static int peer_may_claim(const struct td_gate *g, int node, pid_t pid, struct td_error *err)
{
	char why[200] = "";
	td_auto_buf struct td_buf b = {0};

	// A peer that we cannot see is outside of our PID namespace, that is above the node, and
	// may claim. But when we are PID 1, we see nothing but ourselves.
	if (!g->o.may_claim || (!pid && getpid() != 1))
		return 0;
	int r = peer_cgroups(pid, &b, err);
	if (r)
		return r;
	return g->o.may_claim(g->o.ctx, node, td_buf_str(&b), why, sizeof(why)) ? 0
										: td_fail(err, TD_INVALID, "%s", why);
}

static int read_line(int fd, struct td_cancel *c, char *buf, size_t max)
{
	size_t n = 0;
	int64_t end = td_mono_ms(&td_clock_system) + LINE_MS;
	for (;;) {
		struct pollfd p[2] = {{fd, POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
		int64_t left = end - td_mono_ms(&td_clock_system);
		if (left <= 0 || poll(p, 2, (int)left) <= 0 || p[1].revents)
			return -1;
		ssize_t k = recv(fd, buf + n, max - 1 - n, MSG_DONTWAIT);
		if (k < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (k <= 0)
			return -1;

		n += (size_t)k;
		buf[n] = '\0';
		char *nl = strchr(buf, '\n');
		if (nl) {
			*nl = '\0';
			return 0;
		}
		if (n == max - 1)
			return -1;
	}
}

static int say(int fd, const char *word, const char *text)
{
	char line[TD_WIRE_LINE];
	int n = snprintf(line, sizeof(line) - 1, "%s%s%s", word, text ? " " : "", text ? text : "");
	for (char *s = line; *s; s++)
		if (*s == '\n')
			*s = ' ';
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	return send(fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n ? 0 : -1;
}

static int progress(void *ctx, const char *text)
{
	const struct request *q = ctx;
	return say(q->fd, "wait", text);
}

static void answer(struct request *q)
{
	char line[TD_WIRE_LINE];
	const char *node = td_gate_node_name(q->s->g, q->node);
	struct ucred who = {0};
	socklen_t len = sizeof(who);
	struct td_error err = TD_ERROR_INIT;
	struct td_gate_request req;
	if (getsockopt(q->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || (who.uid != 0 && !q->anybody)) {
		say(q->fd, "fail", "only root may speak with the gate");
		return;
	}
	if (read_line(q->fd, q->s->cancel, line, sizeof(line)))
		return;

	int r = td_gate_parse(line, node, q->s->g->o.devices, &req, &err);
	if (!r && req.ping) {
		say(q->fd, "ok", NULL);
		return;
	}
	if (!r && (req.check || req.mine) != q->anybody)
		r = td_fail(&err, TD_INVALID, "this socket takes %s only", q->anybody ? "check and mine" : "acquire");
	if (!r)
		r = q->anybody ? peer_job(q->s->g, q->node, who.pid, &req.h.job, &err)
			       : peer_may_claim(q->s->g, q->node, who.pid, &err);
	if (!r && for_several(&req)) {
		td_auto_free char *how = NULL;
		r = q->s->g->o.several ? q->s->g->o.several(q->s->g->o.ctx, q->node, &req, &how, q->s->cancel, &err)
				       : 0;
		say(q->fd,
		    r == TD_NOT_FOUND ? "qos"
		    : r               ? "fail"
		    : how             ? (req.exchange ? "exchange" : "hangs")
				      : "ok",
		    r == TD_NOT_FOUND ? NULL
		    : r               ? err.msg
				      : how);
		return;
	}
	if (!r)
		r = (req.check ? td_gate_check : td_gate_acquire)(q->s->g, q->node, req.mask, &req.h,
								  &(struct td_gate_wait){req.timeout_ms, progress, q},
								  q->s->cancel, &err);

	long long tries = 0;
	bool let_in = !r;
	// Others may compute on a device that is held in shares: it is not tested then.
	if (let_in && !req.check && !req.h.share && q->s->g->o.preflight)
		r = q->s->g->o.preflight(q->s->g->o.ctx, q->node, &req, &tries, q->s->cancel, &err);
	if (r && !(let_in && r == TD_NOT_FOUND))
		td_warn("gate %s: job %lld: %s", node, r == TD_INVALID ? 0LL : (long long)req.h.job, err.msg);
	if (td_fault_at(NULL, "gate.answer.before"))
		return;
	if (let_in && r == TD_DENIED) {
		td_auto_free char *text = td_asprintf("%lld %s", tries, err.msg);
		say(q->fd, "sick", text);
		return;
	}
	if (let_in && r == TD_NOT_FOUND) {
		say(q->fd, "qos", NULL);
		return;
	}
	say(q->fd, !r ? "ok" : req.check && r == TD_CONFLICT ? "again" : "fail", r ? err.msg : NULL);
}

static bool enter(struct server *s, bool anybody)
{
	pthread_mutex_lock(&s->mu);
	bool room = s->running < MAX_REQUESTS && (!anybody || s->tasks < MAX_TASKS);
	s->running += room;
	s->tasks += room && anybody;
	pthread_mutex_unlock(&s->mu);
	return room;
}

static void leave(struct server *s, bool anybody)
{
	pthread_mutex_lock(&s->mu);
	s->running--;
	s->tasks -= anybody;
	pthread_cond_signal(&s->idle);
	pthread_mutex_unlock(&s->mu);
}

static void *run_request(void *arg)
{
	struct request *q = arg;
	struct server *s = q->s;
	bool anybody = q->anybody;
	answer(q);
	close(q->fd);
	free(q);
	leave(s, anybody);
	return NULL;
}

static int listen_on(const char *dir, const char *name, mode_t mode, struct td_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int r = td_mkdir_p(dir, 0755, err);
	if (r)
		return r;
	if (snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", dir, name) >= (int)sizeof(a.sun_path))
		return td_fail(err, TD_INVALID, "%s/%s is too long for a socket: choose a shorter --run", dir, name);
	td_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	// Pods mount the directory, not the socket, so running pods see the new socket.
	unlink(a.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || chmod(a.sun_path, mode) < 0 ||
	    listen(fd, 128) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "listen on %s", a.sun_path);
	return td_steal_fd(&fd);
}

static void dispatch(struct server *s, int node, int fd, bool anybody)
{
	struct request *q = td_calloc(1, sizeof(*q));
	*q = (struct request){s, node, fd, anybody};
	bool room = enter(s, anybody);
	pthread_t t;
	pthread_attr_t at;
	pthread_attr_init(&at);
	pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&at, 256 << 10);
	if (!room || pthread_create(&t, &at, run_request, q)) {
		// A task that gets no word asks again until its deadline.
		if (!anybody)
			say(fd, "fail", "too many requests wait at this gate");
		close(fd);
		free(q);
		if (room)
			leave(s, anybody);
	}

	pthread_attr_destroy(&at);
}

int td_gate_serve(struct td_gate *g, struct td_cancel *c, struct td_error *err)
{
	static const struct {
		const char *name;
		mode_t mode;
	} sockets[] = {{"gate.sock", 0600}, {"task.sock", 0666}};
	int n = g->o.nodes * 2, r = 0; // of node i: socket 2i for Prolog, 2i + 1 for tasks
	struct server s = {.g = g, .cancel = c, .mu = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};
	td_auto_free struct pollfd *p = td_calloc((size_t)n + 1, sizeof(*p));
	for (int i = 0; i < n; i++)
		p[i].fd = -1;
	p[n] = (struct pollfd){td_cancel_fd(c), POLLIN, 0};

	for (int i = 0; i < n && !r; i++) {
		int fd = listen_on(g->node[i / 2].sockets, sockets[i % 2].name, sockets[i % 2].mode, err);
		if (fd < 0)
			r = fd;
		else
			p[i] = (struct pollfd){fd, POLLIN, 0};
	}

	while (!r && !td_cancelled(c)) {
		if (poll(p, (nfds_t)n + 1, -1) < 0 && errno != EINTR)
			r = td_fail_errno(err, TD_INTERNAL, errno, "poll");
		for (int i = 0; i < n && !r; i++) {
			int fd = p[i].revents & POLLIN ? accept4(p[i].fd, NULL, NULL, SOCK_CLOEXEC) : -1;
			if (fd >= 0)
				dispatch(&s, i / 2, fd, i % 2);
		}
	}

	for (int i = 0; i < n; i++)
		if (p[i].fd >= 0)
			close(p[i].fd);
	td_gate_kick(g);
	pthread_mutex_lock(&s.mu);
	while (s.running)
		pthread_cond_wait(&s.idle, &s.mu);
	pthread_mutex_unlock(&s.mu);
	return r;
}
