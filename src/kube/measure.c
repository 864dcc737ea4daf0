// Metrics of the requests to Kubernetes. Labels hold verbs and resources, never names of objects.
#include "base/clock.h"
#include "kube/internal.h"
#include "metrics/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct td_metric *requests, *duration, *sent, *received;

static void make(void)
{
	struct td_metrics *m = td_metrics_process();
	requests = td_counter(m, "tandem_kube_requests_total",
			      "Requests to Kubernetes by verb, resource and HTTP status; code \"none\": no reply came.",
			      TD_LABELS("verb", "resource", "code"));
	duration = td_histogram(m, "tandem_kube_request_duration_seconds",
				"How long requests to Kubernetes took, in seconds, without watches.", TD_LABELS("verb"),
				NULL, 0);
	sent = td_counter(m, "tandem_kube_sent_bytes_total", "Bytes of request bodies sent to Kubernetes.",
			  TD_LABELS("verb"));
	received = td_counter(m, "tandem_kube_received_bytes_total", "Bytes of reply bodies received from Kubernetes.",
			      TD_LABELS("verb"));
}

static void once(void)
{
	static pthread_once_t o = PTHREAD_ONCE_INIT;
	pthread_once(&o, make);
}

// Examples: "get" and "pods", "create" and "pods/binding". The resource is "other" for paths that
// name none.
const char *td_kube_verb(const struct td_http_call *call, char *ret_resource, size_t n)
{
	td_auto_strv struct td_strv p = {0};
	size_t len = strcspn(call->path, "?");
	td_auto_free char *path = td_strndup(call->path, len);
	const char *query = call->path + len;

	td_strv_split(&p, path, '/');
	size_t at = p.n && !strcmp(p.v[0], "api") ? 2 : 3;
	const char *below = at + 2 < p.n && !strcmp(p.v[at], "namespaces") ? p.v[at + 2] : NULL;
	// "finalize" and "status" are subresources of the namespace itself, not resources in it.
	if (below && strcmp(below, "finalize") != 0 && strcmp(below, "status") != 0)
		at += 2;
	bool resource = at < p.n && (!strcmp(p.v[0], "api") || !strcmp(p.v[0], "apis")), name = at + 1 < p.n,
	     sub = at + 2 < p.n;

	snprintf(ret_resource, n, "%s%s%s", resource ? p.v[at] : "other", resource && sub ? "/" : "",
		 resource && sub ? p.v[at + 2] : "");
	if (!strcmp(call->method, "GET"))
		return strstr(query, "watch=1") ? "watch" : name || !resource ? "get" : "list";

	static const char *const verbs[][2] = {
		{"POST", "create"}, {"PUT", "update"}, {"PATCH", "patch"}, {"DELETE", "delete"}};
	for (size_t i = 0; i < TD_LEN(verbs); i++)
		if (!strcmp(call->method, verbs[i][0]))
			return verbs[i][1];
	return "other";
}

void td_kube_received(const struct td_http_call *call, size_t bytes)
{
	once();
	char resource[128];
	const char *verb = td_kube_verb(call, resource, sizeof(resource));
	td_metric_add(received, (double)bytes, TD_LABELS(verb));
}

void td_kube_counted(const struct td_http_call *call, int status, size_t bytes, int64_t took_ms)
{
	once();
	char resource[128], code[16] = "none";
	const char *verb = td_kube_verb(call, resource, sizeof(resource));
	if (status)
		snprintf(code, sizeof(code), "%d", status);
	td_metric_add(requests, 1, TD_LABELS(verb, resource, code));
	td_metric_add(sent, (double)call->body_len, TD_LABELS(verb));
	td_metric_add(received, (double)bytes, TD_LABELS(verb));
	if (strcmp(verb, "watch") != 0)
		td_metric_observe(duration, (double)took_ms / 1000, TD_LABELS(verb));
}
