#include "kube/test/fake.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

struct fake {
	struct td_http_server *server;
	struct td_cancel *cancel;
	pthread_t thread;
	char *url;
};

static void *serve(void *arg)
{
	struct fake *f = arg;
	td_http_server_run(f->server, f->cancel, NULL);
	return NULL;
}

struct fake *fake_start(void (*handler)(struct td_http_x *x, void *ctx), void *ctx)
{
	static const char *const listen[] = {"127.0.0.1:0", NULL};
	struct fake *f = td_calloc(1, sizeof(*f));
	struct td_error err = TD_ERROR_INIT;
	struct td_http_server_opts o = {.listen = listen, .handler = handler, .ctx = ctx};
	if (td_http_server_new(&o, &f->server, &err))
		fail_msg("%s", err.msg);

	f->cancel = td_cancel_new();
	f->url = td_asprintf("http://127.0.0.1:%d", td_http_server_port(f->server));
	assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
	return f;
}

void fake_stop(struct fake *f)
{
	td_cancel_fire(f->cancel);
	pthread_join(f->thread, NULL);
	td_http_server_free(f->server);
	td_cancel_unref(f->cancel);
	free(f->url);
	free(f);
}

const char *fake_url(const struct fake *f)
{
	return f->url;
}

struct td_kube *fake_client(struct fake *f)
{
	char path[] = "/tmp/td-kube-test-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);

	td_auto_free char *text = td_asprintf(
		"apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
		"clusters: [{name: k, cluster: {server: %s}}]\n",
		f->url);

	struct td_error err = TD_ERROR_INIT;
	struct td_kube *k = NULL;
	assert_int_equal(td_file_write(path, text, __builtin_strlen(text), 0600, &err), 0);
	if (td_kube_new(path, &k, &err))
		fail_msg("%s", err.msg);
	unlink(path);
	return k;
}

bool fake_reached(const int *p, int n)
{
	int64_t end = td_mono_ms(&td_clock_system) + 60000;
	while (__atomic_load_n(p, __ATOMIC_ACQUIRE) < n) {
		if (td_mono_ms(&td_clock_system) > end)
			return false;
		td_cancel_wait(NULL, 2);
	}
	return true;
}
