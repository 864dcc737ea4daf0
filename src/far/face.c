#include "far/face.h"

#include "api/condition.h"
#include "api/status.h"
#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "http/client.h"
#include "http/pki.h"
#include "pool/far.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// STREAMS are those that are passed on; the rest of CONNS is for those that are being asked for, and refused.
enum { CONNS = 288, STREAMS = 256, CERT_DAYS = 3650 };

// The streams that are open, of pods of one namespace and one person.
struct face_share {
	char *ns, *user;
	int n;
};

struct td_far_face {
	struct td_far *far;
	struct td_kube *here;
	struct td_http_server *server;
	struct td_cancel *stop;
	pthread_t thread;
	bool runs, local; // local: a unix socket, behind which an API server has asked already
	char *ca;         // by which it knows clients; NULL: local
	int ca_fd;

	pthread_mutex_t lock; // guards what follows
	struct face_share *shares;
	size_t n_shares;
};

static void answer(struct td_http_x *x, int http, const char *text)
{
	const struct td_status s = {.code = http, .reason = td_status_reason(http), .message = text};
	size_t n;
	td_auto_free char *body = td_status_text(&s, &n);
	td_http_send(x, http, "application/json", body, n);
}

// ---- the request there ----

static void pass(struct td_buf *b, const struct td_http_x *x, const char *from, const char *to)
{
	td_auto_strv struct td_strv v = {0};
	td_http_query_all(x, from, &v);
	for (size_t i = 0; i < v.n; i++) {
		td_buf_printf(b, "&%s=", to);
		td_url_escape(b, v.v[i]);
	}
}

char *td_far_target(const struct td_http_x *x, const struct td_strv *path, const char *ns, const char *copy)
{
	static const struct {
		const char *here, *there;
	} kinds[] = {{"containerLogs", "log"}, {"exec", "exec"}, {"attach", "attach"}, {"portForward", "portforward"}};
	// A kubelet's words, and those of an API server.
	static const char *const streams[][2] = {{"input", "stdin"}, {"output", "stdout"},   {"error", "stderr"},
						 {"stdin", "stdin"}, {"stdout", "stdout"},   {"stderr", "stderr"},
						 {"tty", "tty"},     {"command", "command"}, {"port", "ports"},
						 {"ports", "ports"}};
	static const char *const logs[] = {"follow",    "previous",  "timestamps", "sinceSeconds",
					   "sinceTime", "tailLines", "limitBytes", "stream"};
	const char *there = NULL;
	for (size_t i = 0; i < TD_LEN(kinds) && path->n; i++)
		if (!strcmp(path->v[0], kinds[i].here))
			there = kinds[i].there;
	bool forward = there && !strcmp(there, "portforward"), log = there && !strcmp(there, "log");
	if (!there || path->n != (forward ? 3 : 4))
		return NULL;
	struct td_buf b = {0};
	td_buf_puts(&b, "/api/v1/namespaces/");
	td_url_escape(&b, ns);
	td_buf_puts(&b, "/pods/");
	td_url_escape(&b, copy);
	td_buf_printf(&b, "/%s?", there);
	if (!forward) {
		td_buf_puts(&b, "container=");
		td_url_escape(&b, path->v[3]);
	}
	for (size_t i = 0; log && i < TD_LEN(logs); i++)
		pass(&b, x, logs[i], logs[i]);
	for (size_t i = 0; !log && i < TD_LEN(streams); i++)
		pass(&b, x, streams[i][0], streams[i][1]);
	return td_buf_take(&b);
}

// ---- how many ----

// Whose the pod is, as far as it says: who makes pods may write anybody there, and then gains and takes nothing beyond its
// namespace.
static const char *person_of(const struct td_object *pod)
{
	const char *owner = td_object_annotation(pod, TD_ANN_SESSION_OWNER),
		   *user = td_object_annotation(pod, TD_ANN_USER);
	return owner ? owner : user ? user : "";
}

// Counts one more stream of the pod's, until it is given back. False: there may be none now.
static bool take(struct td_far_face *f, const struct td_object *pod)
{
	const char *user = person_of(pod);
	struct face_share *mine = NULL;
	int its = 0, all = 0;
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->n_shares; i++) {
		struct face_share *s = &f->shares[i];
		bool same = !strcmp(s->ns, pod->ns);
		all += s->n;
		its += same ? s->n : 0;
		mine = same && !strcmp(s->user, user) ? s : mine;
	}
	bool may = td_pool_far_stream(mine ? mine->n : 0, its, all, STREAMS);
	if (may && !mine) {
		f->shares = td_realloc(f->shares, (f->n_shares + 1) * sizeof(*f->shares));
		mine = &f->shares[f->n_shares++];
		*mine = (struct face_share){.ns = td_strdup(pod->ns), .user = td_strdup(user)};
	}
	if (may)
		mine->n++;
	pthread_mutex_unlock(&f->lock);
	return may;
}

static void give_back(struct td_far_face *f, const struct td_object *pod)
{
	const char *user = person_of(pod);
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->n_shares; i++) {
		struct face_share *s = &f->shares[i];
		if (strcmp(s->ns, pod->ns) != 0 || strcmp(s->user, user) != 0)
			continue;
		if (!--s->n) {
			free(s->ns);
			free(s->user);
			*s = f->shares[--f->n_shares];
		}
		break;
	}
	pthread_mutex_unlock(&f->lock);
}

// ---- one request ----

static void stream(struct td_http_x *x, struct td_far_link *l, const char *target)
{
	static const char *const only[] = {"Sec-WebSocket-", "X-Stream-Protocol-Version", "Accept", "User-Agent", NULL};
	td_auto(td_http_tunnel_free) struct td_http_tunnel *tunnel = NULL;
	struct td_error e = TD_ERROR_INIT;
	char *auth = NULL;
	int fd = -1;
	if (td_kube_tunnel(l->there, l->stop, &tunnel, &fd, &auth, &e)) {
		td_auto_free char *text = td_asprintf("the other cluster does not answer: %.400s", e.msg);
		answer(x, 502, text);
	} else {
		const char *host = strstr(td_kube_server(l->there), "://");
		td_auto_free char *name = td_strndup(host ? host + 3 : "", strcspn(host ? host + 3 : "", "/"));
		const struct td_http_far far = {
			.target = target, .authorization = auth, .only = only, .host = name, .stop = l->stop};
		td_http_relay_on(x, fd, &far);
	}
	if (auth)
		explicit_bzero(auth, strlen(auth));
	free(auth);
}

// May he? False: it was answered.
static bool may(const struct td_far_face *f, struct td_http_x *x, const char *what, const char *node)
{
	td_auto_far_caller struct td_far_caller w = {0};
	struct td_error e = TD_ERROR_INIT;
	if (f->local) {
		int uid = td_http_peer_uid(x);
		if (uid != 0 && uid != (int)geteuid())
			answer(x, 403, "only the API server may ask here");
		return uid == 0 || uid == (int)geteuid();
	}
	// Whoever starts something needs the right to, however he asks: a WebSocket begins with GET.
	const char *verb = strcmp(what, "containerLogs") ? "create" : "get";
	int r = td_far_caller(f->here, x, &w, td_http_cancel(x), &e);
	if (!r)
		r = td_far_caller_may(f->here, &w, verb, node, td_http_cancel(x), &e);
	if (r)
		answer(x, r == TD_UNAUTHENTICATED ? 401 : r == TD_DENIED ? 403 : 503, e.msg);
	return !r;
}

static void handle(struct td_http_x *x, void *ctx)
{
	struct td_far_face *f = ctx;
	td_auto_strv struct td_strv path = {0};
	td_auto(td_object_unref) struct td_object *pod = NULL, *copy = NULL;
	td_strv_split(&path, td_http_path(x), '/');
	bool named = path.n >= 3;
	struct td_far_link *l = named ? td_far_link_of(f->far, path.v[1], path.v[2], &pod) : NULL;
	// Nobody learns here which pods there are before he is known.
	const char *node = pod ? td_jstr_or(pod->root, "spec.nodeName", "") : "";
	if (!may(f, x, path.n ? path.v[0] : "", node)) {
		td_far_link_put(l);
		return;
	}
	if (strcmp(td_http_method(x), "GET") && strcmp(td_http_method(x), "POST"))
		answer(x, 405, "GET and POST only");
	else if (!l)
		answer(x, 404, "no such pod is on a node of another cluster");
	else if (!(copy = td_far_copy_of(l, pod->uid))) {
		const char *why = td_jstr(td_condition(pod->root, TD_COND_OTHER), "message");
		td_auto_free char *text = td_asprintf("pod %s has no copy in the other cluster now%s%s", pod->name,
						      why ? ": " : "", why ? why : "");
		answer(x, 400, text);
	} else {
		td_auto_free char *target = td_far_target(x, &path, copy->ns, copy->name);
		if (!target) {
			answer(x, 404,
			       "of pods in another cluster there are containerLogs, exec, attach and portForward");
		} else if (!take(f, pod)) {
			td_auto_free char *text = td_asprintf(
				"too many streams of pods in other clusters are open, of namespace %s or of one "
				"person in it (%d are there for all): end some",
				pod->ns, STREAMS);
			answer(x, 429, text);
		} else {
			stream(x, l, target);
			give_back(f, pod);
		}
	}
	td_far_link_put(l);
}

static void *serve(void *arg)
{
	struct td_far_face *f = arg;
	struct td_error e = TD_ERROR_INIT;
	if (td_http_server_run(f->server, f->stop, &e))
		td_err("streams of pods in other clusters: %s", e.msg);
	return NULL;
}

// ---- begin and end ----

// Where there is no certificate, one that nobody knows: most API servers do not ask by whom a kubelet is known.
static int certificate(const char *dir, const char *address, struct td_error *err)
{
	td_auto_free char *file = td_asprintf("%s/tls.crt", dir);
	const char *const sans[] = {address, NULL};
	const struct td_pki_cert want = {
		.file = "tls", .cn = "tandem-operator", .sans = sans, .server = true, .days = CERT_DAYS};
	if (!access(file, F_OK))
		return 0;
	int r = td_pki_ca_ensure(dir, "tandem-operator", err);
	return r ? r : td_pki_issue(dir, &want, err);
}

// *ret: a file that is not on disk, as the server wants one.
static int memory_file(const char *text, int *ret, struct td_error *err)
{
	td_auto_close int fd = memfd_create("tandem-client-ca", MFD_CLOEXEC);
	if (fd < 0 || td_write_all(fd, text, strlen(text), err))
		return td_fail(err, TD_INTERNAL, "no memory file");
	*ret = td_steal_fd(&fd);
	return 0;
}

int td_far_face_new(struct td_far *far, struct td_kube *here, const struct td_far_streams *o, struct td_cancel *c,
		    struct td_far_face **ret, struct td_error *err)
{
	td_auto(td_far_face_free) struct td_far_face *f = td_calloc(1, sizeof(*f));
	*f = (struct td_far_face){
		.far = far, .here = here, .stop = td_cancel_new(), .local = td_starts(o->listen, "unix:"), .ca_fd = -1};
	pthread_mutex_init(&f->lock, NULL);
	td_auto_free char *cert = f->local ? NULL : td_asprintf("%s/tls.crt", o->pki),
			  *key = f->local ? NULL : td_asprintf("%s/tls.key", o->pki);
	char ca[64] = "";
	int r = f->local ? 0 : td_far_client_ca(here, c, &f->ca, err);
	if (!r && !f->local)
		r = memory_file(f->ca, &f->ca_fd, err);
	if (!r && !f->local)
		r = certificate(o->pki, o->address, err);
	if (r)
		return td_wrap(err, "--streams");
	if (f->local)
		unlink(o->listen + strlen("unix:"));
	else
		snprintf(ca, sizeof(ca), "/proc/self/fd/%d", f->ca_fd);
	const char *const at[] = {o->listen, NULL};
	const struct td_http_server_opts opts = {.listen = at,
						 .cert_file = cert,
						 .key_file = key,
						 .client_ca_file = f->local ? NULL : ca,
						 .max_conns = CONNS,
						 .handler = handle,
						 .ctx = f};
	if ((r = td_http_server_new(&opts, &f->server, err)))
		return td_wrap(err, "--streams");
	f->runs = !pthread_create(&f->thread, NULL, serve, f);
	if (!f->runs)
		return td_fail(err, TD_INTERNAL, "no thread");
	*ret = td_steal(f);
	return 0;
}

bool td_far_face_stale(const struct td_far_face *f, struct td_cancel *c)
{
	td_auto_free char *now = NULL;
	return !f->local && !td_far_client_ca(f->here, c, &now, NULL) && !td_streq(now, f->ca);
}

int td_far_face_port(const struct td_far_face *f)
{
	return td_http_server_port(f->server);
}

struct td_far_face *td_far_face_free(struct td_far_face *f)
{
	if (!f)
		return NULL;
	td_cancel_fire(f->stop);
	if (f->runs)
		pthread_join(f->thread, NULL);
	td_http_server_free(f->server);
	td_cancel_unref(f->stop);
	if (f->ca_fd >= 0)
		close(f->ca_fd);
	for (size_t i = 0; i < f->n_shares; i++)
		free(f->shares[i].ns), free(f->shares[i].user);
	free(f->shares);
	pthread_mutex_destroy(&f->lock);
	free(f->ca);
	free(f);
	return NULL;
}
