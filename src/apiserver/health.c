// /healthz, /livez, /readyz. Each has a list of checks; clients ask for all together or for one
// (/readyz/ping), see them with ?verbose, and leave some out with ?exclude=. Only what exists here
// has a check: there is no etcd, because the objects are in memory.
#include "apiserver/srv.h"

#include <string.h>

static bool answers(const struct td_srv *s)
{
	(void)s; // a reply is proof enough
	return true;
}

static bool started(const struct td_srv *s)
{
	return __atomic_load_n(&s->ready, __ATOMIC_ACQUIRE);
}

static const struct check {
	const char *name;
	bool ready_only; // not a condition of being alive
	bool (*ok)(const struct td_srv *s);
} checks[] = {
	{"ping", false, answers},
	{"bootstrap", true, started},
};

static const char *const endpoints[] = {"/healthz", "/livez", "/readyz"};

// Returns the endpoint of a path; NULL: it is none. *ret_below: the rest of the path ("" or "/x").
static const char *endpoint(const char *path, const char **ret_below)
{
	for (size_t i = 0; i < TD_LEN(endpoints); i++) {
		size_t n = strlen(endpoints[i]);
		if (strncmp(path, endpoints[i], n) != 0 || (path[n] && path[n] != '/'))
			continue;
		*ret_below = path + n;
		return endpoints[i];
	}
	return NULL;
}

bool td_srv_health_open(const char *path)
{
	const char *below;
	return endpoint(path, &below) && !*below;
}

static void send(struct td_req *q, int status, const char *text)
{
	td_http_send(q->x, status, "text/plain; charset=utf-8", text, strlen(text));
}

bool td_srv_health(struct td_req *q)
{
	const char *below = "", *at = endpoint(q->path, &below), *exclude = td_http_query(q->x, "exclude");
	if (!at)
		return false;
	bool ready = !strcmp(at, "/readyz"), failed = false, found = !*below;
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < TD_LEN(checks); i++) {
		const struct check *c = &checks[i];
		if ((c->ready_only && !ready) || (*below && strcmp(below + 1, c->name) != 0))
			continue;
		found = true;
		bool excluded = !*below && td_streq(exclude, c->name), ok = excluded || c->ok(q->s);
		td_buf_printf(&b, "[%c]%s %s\n", ok ? '+' : '-', c->name,
			      excluded ? "excluded: ok"
			      : ok     ? "ok"
				       : "failed: reason withheld");
		failed = failed || !ok;
	}

	if (!found)
		return false;
	td_buf_printf(&b, "%s check %s\n", at + 1, failed ? "failed" : "passed");
	if (failed)
		send(q, 500, td_buf_str(&b));
	else
		send(q, 200, !*below && td_http_query(q->x, "verbose") ? td_buf_str(&b) : "ok");

	return true;
}
