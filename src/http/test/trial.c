// The measurement behind docs/design/0001-http-server.md: memory and speed with many TLS watchers.
// It is not a test; it prints what it measures.
//   ninja -C build src/http/http_trial && build/src/http/http_trial [watchers]
#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"
#include "http/test/raw.h"
#include "http/test/serve.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <utlist.h>

struct watcher {
	struct td_http_push_handle *h;
	struct td_buf pending;
	struct watcher *prev, *next;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards the list and its entries
static struct watcher *list;
static int n_watchers;
static int64_t last_closed;

static int64_t us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int fill(void *ctx, struct td_buf *out)
{
	struct watcher *w = ctx;
	pthread_mutex_lock(&lock);
	td_buf_add(out, td_buf_str(&w->pending), w->pending.len);
	td_buf_done(&w->pending);
	pthread_mutex_unlock(&lock);
	return 0;
}

static void closed(void *ctx)
{
	struct watcher *w = ctx;
	pthread_mutex_lock(&lock);
	DL_DELETE(list, w);
	n_watchers--;
	last_closed = us();
	pthread_mutex_unlock(&lock);
	td_buf_done(&w->pending);
	free(w);
}

static void handler(struct td_http_x *x, void *ctx)
{
	if (td_streq(td_http_path(x), "/ws")) {
		static const char *const protocols[] = {"t", NULL};
		struct td_ws *ws;
		if (td_ws_accept(x, protocols, &ws, NULL, NULL) < 0)
			return;
		for (;;) {
			td_auto_buf struct td_buf m = {0};
			bool binary;
			if (td_ws_recv(ws, NULL, &m, &binary, NULL) < 0 || td_ws_send(ws, binary, m.s, m.len, NULL) < 0)
				return;
		}
	}

	if (!td_streq(td_http_path(x), "/watch")) {
		td_http_send(x, 200, "text/plain", "ok", 2);
		return;
	}

	struct watcher *w = td_calloc(1, sizeof(*w));
	pthread_mutex_lock(&lock);
	w->h = td_http_push(x, 200, "application/json",
			    &(struct td_http_push){.fill = fill, .closed = closed, .ctx = w});
	DL_APPEND(list, w);
	n_watchers++;
	pthread_mutex_unlock(&lock);
}

static long rss_kib(void)
{
	long pages = 0, rss = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%ld %ld", &pages, &rss) != 2)
		rss = 0;
	if (f)
		fclose(f);
	return rss * (sysconf(_SC_PAGESIZE) / 1024);
}

static int watchers(void)
{
	pthread_mutex_lock(&lock);
	int n = n_watchers;
	pthread_mutex_unlock(&lock);
	return n;
}

// The other process: opens n watches, reports "1", reads one event on each, reports "2", waits for
// a byte, and ends (the kernel sends the FINs).
static int client(int port, int n, int from, int to)
{
	struct raw *r = calloc((size_t)n, sizeof(*r));
	char c;
	for (int i = 0; i < n; i++) {
		raw_open(&r[i], port, true);
		raw_puts(&r[i], "GET /watch HTTP/1.1\r\nHost: x\r\n\r\n");
		raw_until(&r[i], "\r\n\r\n");
	}

	(void)!write(to, "1", 1);
	for (int i = 0; i < n; i++)
		if (!raw_until(&r[i], "event"))
			return 1;

	(void)!write(to, "2", 1);
	(void)!read(from, &c, 1);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static void latency(struct raw *r, const char *what, const void *send_bytes, size_t n, size_t answer)
{
	enum { ROUNDS = 2000 };
	static int64_t t[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		int64_t start = us();
		raw_send(r, send_bytes, n);
		for (r->in.len = 0; r->in.len < answer;)
			if (!raw_more(r))
				return;
		t[i] = us() - start;
	}
	qsort(t, ROUNDS, sizeof(*t), by_value);
	printf("%s: median %lld us, 99%% %lld us\n", what, (long long)t[ROUNDS / 2], (long long)t[ROUNDS * 99 / 100]);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000, up[2], down[2];

	struct rlimit rl;
	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);

	if (argc == 5) // in the child: count, port, from, to
		return client(atoi(argv[2]), n, atoi(argv[3]), atoi(argv[4]));

	char dir[] = "/tmp/td-trial-XXXXXX", b;
	const char *sans[] = {"127.0.0.1", NULL};
	if (!mkdtemp(dir) || td_pki_ca_ensure(dir, "t", NULL) < 0 ||
	    td_pki_issue(dir, &(struct td_pki_cert){.file = "s", .cn = "s", .sans = sans, .server = true, .days = 1},
			 NULL) < 0 ||
	    pipe(up) < 0 || pipe(down) < 0)
		return 1;

	td_auto_free char *crt = td_asprintf("%s/s.crt", dir), *key = td_asprintf("%s/s.key", dir),
			  *ca = td_asprintf("%s/ca.crt", dir);
	struct served s = {0};
	serve_start(&s, &(struct td_http_server_opts){
				.handler = handler, .cert_file = crt, .key_file = key, .client_ca_file = ca});

	struct raw warm;
	raw_open(&warm, s.port, true);
	raw_puts(&warm, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	raw_until(&warm, "ok");
	long before = rss_kib();

	char args[4][16];
	snprintf(args[0], 16, "%d", n);
	snprintf(args[1], 16, "%d", s.port);
	snprintf(args[2], 16, "%d", down[0]);
	snprintf(args[3], 16, "%d", up[1]);

	pid_t pid = fork(); // only to exec at once
	if (pid == 0) {
		execl("/proc/self/exe", "http_trial", args[0], args[1], args[2], args[3], NULL);
		_exit(127);
	}

	int64_t t = us();
	(void)!read(up[0], &b, 1);
	printf("%d TLS watchers opened in %lld ms\n", watchers(), (long long)(us() - t) / 1000);
	printf("memory per watcher: %.1f KiB\n", (double)(rss_kib() - before) / n);
	latency(&warm, "request over TLS beside them", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27,
		strlen("HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 14:15:11 GMT\r\nContent-Type: "
		       "text/plain\r\nContent-Length: 2\r\n\r\nok"));

	t = us();
	pthread_mutex_lock(&lock);
	for (struct watcher *w = list; w; w = w->next) {
		td_buf_puts(&w->pending, "event {\"type\":\"MODIFIED\"}\n");
		td_http_push_wake(w->h);
	}
	pthread_mutex_unlock(&lock);
	(void)!read(up[0], &b, 1);
	printf("one event at every watcher: %lld ms\n", (long long)(us() - t) / 1000);
	printf("memory per watcher after it: %.1f KiB\n", (double)(rss_kib() - before) / n);

	struct raw ws;
	raw_open(&ws, s.port, true);
	raw_puts(&ws, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: "
		      "websocket\r\nSec-WebSocket-Version: 13\r\n"
		      "Sec-WebSocket-Protocol: t\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
	raw_until(&ws, "\r\n\r\n");
	latency(&ws, "keystroke echo by WebSocket over TLS", "\x82\x81\0\0\0\0k", 7, 3);

	t = us();
	(void)!write(down[1], "x", 1);
	int64_t end = td_mono_ms(&td_clock_system) + 5000;
	int status;
	waitpid(pid, &status, 0);
	int64_t exited = us();
	while (watchers() && td_mono_ms(&td_clock_system) < end)
		usleep(100);
	printf("client process killed its %d connections: last one seen %lld us after its exit, %d left\n", n,
	       (long long)(last_closed - exited), watchers());

	raw_close(&ws);
	raw_close(&warm);

	t = us();
	serve_stop(&s);
	printf("server stopped in %lld ms\n", (long long)(us() - t) / 1000);
	td_rm_rf(dir, NULL);
	return 0;
}
