#include "kube/health.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "http/server.h"
#include "kube/informer.h"
#include "metrics/metrics.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utlist.h>

enum { LIMIT_MS = 300000, CONDITIONS_MAX = 16, CONNS_MAX = 16 };

struct td_loop {
	const char *name;
	int64_t limit, since; // atomic since: mono ms at which this turn began, 0: idle
	struct td_loop *prev, *next;
};
struct counted {
	struct td_informer *i;
	struct counted *prev, *next;
};
static struct {
	pthread_mutex_t lock; // guards everything below
	struct td_loop *loops;
	struct counted *informers;
	struct {
		const char *name;
		char *why; // NULL: the condition is met
	} conditions[CONDITIONS_MAX];
	size_t n_conditions;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- loops ----

struct td_loop *td_loop_new(const char *name, int64_t limit_ms)
{
	struct td_loop *l = td_calloc(1, sizeof(*l));
	l->name = name;
	l->limit = limit_ms > 0 ? limit_ms : LIMIT_MS;
	pthread_mutex_lock(&all.lock);
	DL_APPEND(all.loops, l);
	pthread_mutex_unlock(&all.lock);
	return l;
}

struct td_loop *td_loop_free(struct td_loop *l)
{
	if (!l)
		return NULL;
	pthread_mutex_lock(&all.lock);
	DL_DELETE(all.loops, l);
	pthread_mutex_unlock(&all.lock);
	free(l);
	return NULL;
}

void td_loop_busy(struct td_loop *l)
{
	__atomic_store_n(&l->since, td_mono_ms(&td_clock_system), __ATOMIC_RELAXED);
}

void td_loop_idle(struct td_loop *l)
{
	__atomic_store_n(&l->since, 0, __ATOMIC_RELAXED);
}

bool td_health_live(int64_t now_mono_ms, struct td_buf *why)
{
	bool ok = true;
	struct td_loop *l;
	pthread_mutex_lock(&all.lock);
	DL_FOREACH (all.loops, l) {
		int64_t since = __atomic_load_n(&l->since, __ATOMIC_RELAXED), took = since ? now_mono_ms - since : 0;
		if (took <= l->limit)
			continue;
		ok = false;
		td_buf_printf(why, "loop %s: one turn has taken %lld s, at most %lld are allowed\n", l->name,
			      (long long)(took / 1000), (long long)(l->limit / 1000));
	}
	pthread_mutex_unlock(&all.lock);
	return ok;
}

// ---- readiness ----

void td_health_set(const char *name, const char *why)
{
	pthread_mutex_lock(&all.lock);
	size_t k = 0;
	while (k < all.n_conditions && strcmp(all.conditions[k].name, name) != 0)
		k++;
	if (k == CONDITIONS_MAX)
		abort(); // a programming error
	if (k == all.n_conditions)
		all.conditions[all.n_conditions++].name = name;
	free(all.conditions[k].why);
	all.conditions[k].why = why ? td_strdup(why) : NULL;
	pthread_mutex_unlock(&all.lock);
}

void td_health_informer(struct td_informer *i, bool in)
{
	struct counted *c, *tmp;
	pthread_mutex_lock(&all.lock);
	if (in) {
		c = td_calloc(1, sizeof(*c));
		c->i = i;
		DL_APPEND(all.informers, c);
	} else {
		DL_FOREACH_SAFE(all.informers, c, tmp)
		{
			if (c->i != i)
				continue;
			DL_DELETE(all.informers, c);
			free(c);
		}
	}
	pthread_mutex_unlock(&all.lock);
}

bool td_health_ready(struct td_buf *why)
{
	bool ok = true;
	pthread_mutex_lock(&all.lock);

	for (size_t k = 0; k < all.n_conditions; k++) {
		if (!all.conditions[k].why)
			continue;
		ok = false;
		td_buf_printf(why, "%s: %s\n", all.conditions[k].name, all.conditions[k].why);
	}

	struct counted *c;
	DL_FOREACH (all.informers, c) {
		if (td_informer_synced(c->i))
			continue;
		ok = false;
		td_buf_printf(why, "informer %s: the first list is not in\n", td_informer_resource(c->i));
	}
	pthread_mutex_unlock(&all.lock);
	return ok;
}

// ---- metrics of every process ----

static void collect_informers(struct td_metrics *m)
{
	static const char *const label[] = {"resource", NULL};
	struct td_metric *synced = td_gauge(m, "tandem_informer_synced",
					    "1 when the cache of this resource holds its first complete list, else 0.",
					    label),
			 *objects = td_gauge(m, "tandem_informer_objects", "Objects in the cache of this resource.",
					     label);
	td_metric_forget(synced, NULL);
	td_metric_forget(objects, NULL);

	struct counted *c, *before;
	pthread_mutex_lock(&all.lock);
	DL_FOREACH (all.informers, c) {
		// Several informers may each follow a part of one resource.
		const char *const v[] = {td_informer_resource(c->i), NULL};
		bool first = true, ok = td_informer_synced(c->i);
		for (before = all.informers; before != c; before = before->next)
			first &= strcmp(td_informer_resource(before->i), v[0]) != 0;
		td_metric_set(synced, ok && (first || td_metric_get(synced, v) > 0), v);
		td_metric_add(objects, (double)td_informer_count(c->i), v);
	}
	pthread_mutex_unlock(&all.lock);
}

static int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n - 1; // without the descriptor of opendir itself
}

// The names are those of the Prometheus client libraries.
static void collect_process(struct td_metrics *m)
{
	td_auto_buf struct td_buf b = {0};
	unsigned long long user = 0, sys = 0, start = 0;
	long rss = 0;
	const char *p = td_file_read("/proc/self/stat", 4096, &b, NULL) ? NULL : strrchr(td_buf_str(&b), ')');
	double hz = (double)sysconf(_SC_CLK_TCK);

	if (p &&
	    sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu %*u %ld",
		   &user, &sys, &start, &rss) == 4) {
		int64_t boot = td_real_ms(&td_clock_system) - td_mono_ms(&td_clock_system);
		td_metric_set(td_counter(m, "process_cpu_seconds_total",
					 "Processor time that this process has used, in seconds.", NULL),
			      (double)(user + sys) / hz, NULL);
		td_metric_set(td_gauge(m, "process_resident_memory_bytes",
				       "Memory of this process that is in RAM, in bytes.", NULL),
			      (double)rss * (double)sysconf(_SC_PAGESIZE), NULL);
		td_metric_set(td_gauge(m, "process_start_time_seconds",
				       "When this process started, in seconds since 1970.", NULL),
			      (double)boot / 1000 + (double)start / hz, NULL);
	}

	struct rlimit l;
	td_metric_set(td_gauge(m, "process_open_fds", "Files and sockets that this process has open.", NULL),
		      open_files(), NULL);
	if (getrlimit(RLIMIT_NOFILE, &l) == 0)
		td_metric_set(td_gauge(m, "process_max_fds", "How many files and sockets this process may open.", NULL),
			      (double)l.rlim_cur, NULL);
}

static void collect(void *ctx)
{
	struct td_metrics *m = td_metrics_process();
	collect_informers(m);
	collect_process(m);
}

// ---- the server ----

struct td_health {
	struct td_http_server *server;
	struct td_cancel *stop;
	pthread_t thread;
};
// Collectors forget and set series; two scrapes at once would show half of them.
static pthread_mutex_t one_scrape = PTHREAD_MUTEX_INITIALIZER;

static void say(struct td_http_x *x, bool ok, struct td_buf *why)
{
	if (ok)
		td_buf_puts(why, "ok\n");
	td_http_send(x, ok ? 200 : 503, "text/plain; charset=utf-8", td_buf_str(why), why->len);
}

static void handle(struct td_http_x *x, void *ctx)
{
	td_auto_buf struct td_buf b = {0};
	const char *path = td_http_path(x), *method = td_http_method(x);
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		td_http_add_header(x, "Allow", "GET, HEAD");
		td_http_send(x, 405, "text/plain", "only GET\n", 9);
	} else if (!strcmp(path, "/metrics")) {
		pthread_mutex_lock(&one_scrape);
		td_metrics_text(td_metrics_process(), &b);
		pthread_mutex_unlock(&one_scrape);
		td_http_send(x, 200, TD_METRICS_CONTENT_TYPE, td_buf_str(&b), b.len);
	} else if (!strcmp(path, "/livez") || !strcmp(path, "/healthz")) {
		say(x, td_health_live(td_mono_ms(&td_clock_system), &b), &b);
	} else if (!strcmp(path, "/readyz")) {
		say(x, td_health_ready(&b), &b);
	} else {
		static const char text[] = "there are /metrics, /livez and /readyz\n";
		td_http_send(x, 404, "text/plain", text, sizeof(text) - 1);
	}
}

static void *serve(void *arg)
{
	struct td_health *h = arg;
	struct td_error e = TD_ERROR_INIT;
	if (td_http_server_run(h->server, h->stop, &e) && e.code != TD_CANCELLED)
		td_err("/metrics: %s", e.msg);
	return NULL;
}

int td_health_serve(const char *role, const char *listen, struct td_health **ret, struct td_error *err)
{
	*ret = NULL;
	if (!listen)
		return 0;
	const char *const at[] = {listen, NULL};
	const struct td_http_server_opts o = {
		.listen = at, .handler = handle, .max_conns = CONNS_MAX, .idle_ms = 60000, .max_body = 1024};
	struct td_http_server *server;

	int r = td_http_server_new(&o, &server, err);
	if (r)
		return td_wrap(err, "--metrics %s", listen);

	struct td_metrics *m = td_metrics_process();
	td_metric_set(td_gauge(m, "tandem_build_info", "Always 1; the labels say which program this is.",
			       TD_LABELS("role", "version")),
		      1, TD_LABELS(role, TD_VERSION));
	td_metrics_on_collect(m, collect, NULL);

	struct td_health *h = td_calloc(1, sizeof(*h));
	h->server = server;
	h->stop = td_cancel_new();

	int e = pthread_create(&h->thread, NULL, serve, h);
	if (e) {
		td_http_server_free(server);
		td_cancel_unref(h->stop);
		free(h);
		return td_fail_errno(err, TD_INTERNAL, e, "--metrics %s: no thread", listen);
	}

	td_info("metrics at %s", listen);
	*ret = h;
	return 0;
}

struct td_health *td_health_end(struct td_health *h)
{
	if (!h)
		return NULL;
	td_cancel_fire(h->stop);
	pthread_join(h->thread, NULL);
	td_http_server_free(h->server);
	td_cancel_unref(h->stop);
	free(h);
	return NULL;
}
