#include "controllers/test/plane.h"

#include "base/file.h"
#include "controllers/ctl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct plane {
	struct harness h;
	struct td_kube *kube;
	struct td_cancel *cancel;
	pthread_t thread;
} plane;

static void *controllers(void *arg)
{
	struct plane *p = arg;
	struct td_error err = TD_ERROR_INIT;
	if (ctl_run(p->kube, 40000, p->cancel, &err))
		fprintf(stderr, "controllers: %s\n", err.msg);
	return NULL;
}

int plane_setup(void **state)
{
	struct plane *p = &plane;
	struct td_error err = TD_ERROR_INIT;

	harness_start(&p->h, 0);
	td_auto_free char *path = td_asprintf("%s/kubeconfig", p->h.dir);
	td_auto_free char *text = td_asprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\n"
					      "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
					      "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:%d'}}]\n"
					      "users: [{name: u, user: {token: %s}}]\n",
					      td_http_server_port(p->h.http), p->h.admin);

	assert_int_equal(td_file_write(path, text, strlen(text), 0600, &err), 0);
	if (td_kube_new(path, &p->kube, &err))
		fail_msg("%s", err.msg);

	p->cancel = td_cancel_new();
	assert_int_equal(pthread_create(&p->thread, NULL, controllers, p), 0);
	*state = &p->h;
	return 0;
}

int plane_teardown(void **state)
{
	struct plane *p = &plane;
	td_cancel_fire(p->cancel);
	pthread_join(p->thread, NULL);
	td_kube_free(p->kube);
	td_cancel_unref(p->cancel);
	harness_stop(&p->h);
	return 0;
}
