// The rules of Tenants for the sessions of their members (spec.sessions), as they were last read. Those of the
// Tenants above count too.
#include "gateway/sessions.h"
#include "gateway/usage.h"

#include "base/log.h"
#include "base/options.h"

#include <string.h>

struct td_session_scopes {
	pthread_mutex_t lock; // guards the rest
	struct td_objects tenants;
};

struct td_session_scopes *td_session_scopes_new(void)
{
	struct td_session_scopes *r = td_calloc(1, sizeof(*r));
	pthread_mutex_init(&r->lock, NULL);
	return r;
}

struct td_session_scopes *td_session_scopes_free(struct td_session_scopes *r)
{
	if (r) {
		td_objects_done(&r->tenants);
		pthread_mutex_destroy(&r->lock);
	}
	free(r);
	return NULL;
}

void td_session_scopes_look(struct td_gateway *g)
{
	struct td_error e = TD_ERROR_INIT;
	struct td_objects l = {0};
	// What was read before holds until it can be read again.
	if (td_kube_list(g->kube, &td_tenants, NULL, NULL, NULL, g->cancel, &l, &e)) {
		td_debug("rules of Tenants for sessions: %s", e.msg);
		return;
	}
	pthread_mutex_lock(&g->scopes->lock);
	struct td_objects old = g->scopes->tenants;
	g->scopes->tenants = l;
	pthread_mutex_unlock(&g->scopes->lock);
	td_objects_done(&old);
}

static int64_t seconds(const yyjson_val *tenant, const char *path)
{
	const char *text = td_jstr(tenant, path);
	int64_t ms = 0;
	return text && !td_duration_parse(text, &ms, NULL) ? ms / 1000 : 0;
}

void td_session_scopes_of(const struct td_objects *tenants, const struct td_session_person *who,
			  struct td_idle_rules *into)
{
	for (size_t i = 0; i < tenants->n; i++) {
		const struct td_object *t = tenants->v[i];
		if (!td_streq(td_jstr(t->root, "spec.cluster.namespace"), who->ns) ||
		    !td_streq(td_jstr(t->root, "spec.cluster.name"), who->cluster) || !td_gateway_member(t, who->user))
			continue;
		for (size_t steps = 0; t && steps <= tenants->n; steps++) {
			const struct td_idle_rules r = {.max_age_s = seconds(t->root, "spec.sessions.maxAge"),
							.no_traffic_s = seconds(t->root, "spec.sessions.idle"),
							.low_cpu_s = seconds(t->root, "spec.sessions.lowUse")};
			td_idle_merge(into, &r);
			t = td_gateway_parent((const struct td_object *const *)tenants->v, tenants->n, t);
		}
	}
}

void td_session_scopes_add(struct td_gateway *g, const char *user, struct td_idle_rules *into)
{
	const struct td_session_person who = {.ns = g->o.ns, .cluster = g->o.cluster, .user = user};
	pthread_mutex_lock(&g->scopes->lock);
	td_session_scopes_of(&g->scopes->tenants, &who, into);
	pthread_mutex_unlock(&g->scopes->lock);
}
