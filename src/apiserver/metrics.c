// /metrics, in the Prometheus text format.
#include "apiserver/srv.h"

#include <stdio.h>
#include <unistd.h>

static long resident_bytes(void)
{
	long total, rss = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (!f)
		return 0;
	if (fscanf(f, "%ld %ld", &total, &rss) != 2)
		rss = 0;
	fclose(f);
	return rss * sysconf(_SC_PAGESIZE);
}

void td_srv_metrics(struct td_req *q)
{
	struct td_store_stats st;
	struct td_srv_counts *c = &q->s->count;
	td_auto_buf struct td_buf b = {0};

	td_store_stats(q->s->store, &st);
	const struct {
		const char *name, *type, *help;
		double v;
	} m[] = {
		{"tandem_apiserver_requests_total", "counter", "Requests answered",
		 (double)__atomic_load_n(&c->requests, __ATOMIC_RELAXED)},
		{"tandem_apiserver_refused_total", "counter", "Requests answered with a Status of failure",
		 (double)__atomic_load_n(&c->refused, __ATOMIC_RELAXED)},
		{"tandem_apiserver_watches", "gauge", "Open watches",
		 (double)__atomic_load_n(&c->watches, __ATOMIC_RELAXED)},
		{"tandem_apiserver_watch_events_total", "counter", "Events written to watches",
		 (double)__atomic_load_n(&c->watch_events, __ATOMIC_RELAXED)},
		{"tandem_apiserver_watch_expired_total", "counter", "Watches ended with 410",
		 (double)__atomic_load_n(&c->watch_expired, __ATOMIC_RELAXED)},
		{"tandem_apiserver_store_writes_total", "counter", "Objects written", (double)st.writes},
		{"tandem_apiserver_store_commits_total", "counter", "Groups committed", (double)st.groups},
		{"tandem_apiserver_store_conflicts_total", "counter", "Writes that lost against a newer version",
		 (double)st.conflicts},
		{"tandem_apiserver_objects", "gauge", "Objects stored", (double)st.objects},
		{"tandem_apiserver_ring_events", "gauge", "Events kept for watches", (double)st.ring_events},
		{"tandem_apiserver_ring_bytes", "gauge", "Their size", (double)st.ring_bytes},
		{"process_resident_memory_bytes", "gauge", "Resident memory", (double)resident_bytes()},
	};

	for (size_t i = 0; i < TD_LEN(m); i++)
		td_buf_printf(&b, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", m[i].name, m[i].help, m[i].name, m[i].type,
			      m[i].name, m[i].v);
	td_http_send(q->x, 200, "text/plain; version=0.0.4", td_buf_str(&b), b.len);
}
