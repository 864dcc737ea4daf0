// Discovery: /api, /apis and their groups, in the aggregated form (v2) and the legacy one. Both
// forms tell the same about a kind.
#include "apiserver/srv.h"

#include "apiserver/cells.h"

#include <stdlib.h>
#include <string.h>

#define ALL "[\"create\",\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"update\",\"watch\"]"
#define RW "[\"get\",\"patch\",\"update\"]"
#define STREAM "[\"create\",\"get\"]"
#define CREATE "[\"create\"]"

struct discovery_entry {
	const char *group, *version, *plural, *singular, *kind, *verbs;
	// "" or the subresource, which is sorted behind its resource.
	const char *sub;
	// The group and version of its reply's kind, where they differ.
	const char *other_group, *other_version;
	bool namespaced;
	const struct td_kind *k; // for short names and categories
};
struct entries {
	struct discovery_entry *v;
	size_t n;
};

static void entries_done(struct entries *l)
{
	free(l->v);
}
#define td_auto_entries __attribute__((cleanup(entries_done)))

// Resources that are served but never stored.
static const struct discovery_entry virtual[] = {
	{"", "v1", "bindings", "binding", "Binding", CREATE, "", NULL, NULL, true, NULL},
	{"authentication.k8s.io", "v1", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview", CREATE, "",
	 NULL, NULL, false, NULL},
	{"authentication.k8s.io", "v1", "tokenreviews", "tokenreview", "TokenReview", CREATE, "", NULL, NULL, false,
	 NULL},
	{"authorization.k8s.io", "v1", "localsubjectaccessreviews", "localsubjectaccessreview",
	 "LocalSubjectAccessReview", CREATE, "", NULL, NULL, true, NULL},
	{"authorization.k8s.io", "v1", "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview",
	 CREATE, "", NULL, NULL, false, NULL},
	{"authorization.k8s.io", "v1", "selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview",
	 CREATE, "", NULL, NULL, false, NULL},
	{"authorization.k8s.io", "v1", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview", CREATE, "",
	 NULL, NULL, false, NULL},
};

static const struct {
	const char *plural, *sub, *kind, *verbs, *group, *version;
} subresources[] = {
	{"namespaces", "finalize", "Namespace", "[\"update\"]", NULL, NULL},
	{"pods", "attach", "PodAttachOptions", STREAM, NULL, NULL},
	{"pods", "binding", "Binding", CREATE, NULL, NULL},
	{"pods", "eviction", "Eviction", CREATE, "policy", "v1"},
	{"pods", "exec", "PodExecOptions", STREAM, NULL, NULL},
	{"pods", "log", "Pod", "[\"get\"]", NULL, NULL},
	{"pods", "portforward", "PodPortForwardOptions", STREAM, NULL, NULL},
	{"serviceaccounts", "token", "TokenRequest", CREATE, "authentication.k8s.io", "v1"},
};

static void add(struct entries *l, const struct discovery_entry *e)
{
	l->v = td_realloc(l->v, (l->n + 1) * sizeof(*l->v));
	l->v[l->n++] = *e;
}

static void add_kind(struct entries *l, const struct td_kind *k)
{
	bool ns = !*k->group && !strcmp(k->plural, "namespaces");
	struct discovery_entry e = {k->group, k->version, k->plural, k->singular,   k->kind, ALL,
				    "",       NULL,       NULL,      k->namespaced, k};

	if (!k->builtin)
		e.verbs =
			"[\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"create\",\"update\",\"watch\"]";
	if (ns)
		e.verbs = "[\"create\",\"delete\",\"get\",\"list\",\"patch\",\"update\",\"watch\"]";
	add(l, &e);
	e.k = NULL;
	e.singular = "";
	for (size_t i = 0; !*k->group && i < TD_LEN(subresources); i++) {
		if (strcmp(subresources[i].plural, k->plural) != 0)
			continue;
		e.sub = subresources[i].sub;
		e.kind = subresources[i].kind;
		e.verbs = subresources[i].verbs;
		e.other_group = subresources[i].group;
		e.other_version = subresources[i].version;
		add(l, &e);
	}

	e = (struct discovery_entry){k->group, k->version, k->plural,     "",  k->kind, RW, "status",
				     NULL,     NULL,       k->namespaced, NULL};
	if (k->status)
		add(l, &e);
	if (k->scale) {
		e.sub = "scale";
		e.kind = "Scale";
		e.other_group = "autoscaling";
		e.other_version = "v1";
		add(l, &e);
	}
}

static int cmp_entry(const void *a, const void *b)
{
	const struct discovery_entry *x = a, *y = b;
	int c = strcmp(x->plural, y->plural);
	return c ? c : strcmp(x->sub, y->sub);
}

// Adds the resources of a group version, sorted by name, each followed by its subresources.
static void entries_of(const struct td_snap *s, const char *group, const char *version, struct entries *ret)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->v[i].kind->group, group) && !strcmp(s->v[i].kind->version, version))
			add_kind(ret, s->v[i].kind);
	for (size_t i = 0; i < TD_LEN(virtual); i++)
		if (!strcmp(virtual[i].group, group) && !strcmp(virtual[i].version, version))
			add(ret, &virtual[i]);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), cmp_entry);
}

struct group { // one group version, in the snapshot's order
	const char *group, *version;
};

static void group_add(struct group *v, size_t *n, const char *group, const char *version)
{
	for (size_t j = 0; j < *n; j++)
		if (!strcmp(v[j].group, group) && !strcmp(v[j].version, version))
			return;
	v[(*n)++] = (struct group){group, version};
}

static void groups_of(const struct td_snap *s, struct group **ret, size_t *ret_n)
{
	struct group *v = td_malloc((s->n + TD_LEN(virtual)) * sizeof(*v));
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].kind->builtin)
			group_add(v, &n, s->v[i].kind->group, s->v[i].kind->version);
	for (size_t i = 0; i < TD_LEN(virtual); i++)
		group_add(v, &n, virtual[i].group, virtual[i].version);
	for (size_t i = 0; i < s->n; i++)
		group_add(v, &n, s->v[i].kind->group, s->v[i].kind->version);
	*ret = v;
	*ret_n = n;
}

static bool first_of(const struct group *g, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (!strcmp(g[j].group, g[i].group))
			return false;
	return true;
}

static void strings(struct td_buf *b, const char *key, const struct td_strv *l)
{
	for (size_t i = 0; i < l->n; i++) {
		if (!i)
			td_buf_printf(b, ",\"%s\":[", key);
		else
			td_buf_putc(b, ',');
		td_cell_str(b, l->v[i]);
	}
	if (l->n)
		td_buf_putc(b, ']');
}

static void names(struct td_buf *b, const struct td_kind *k)
{
	if (k)
		strings(b, "shortNames", &k->short_names);
	if (k)
		strings(b, "categories", &k->categories);
}

// ---- aggregated ----
static void response_kind(struct td_buf *b, const struct discovery_entry *e)
{
	td_buf_printf(b, "\"responseKind\":{\"group\":\"%s\",\"version\":\"%s\",\"kind\":\"%s\"}",
		      e->other_group ? e->other_group : "", e->other_version ? e->other_version : "", e->kind);
}

static void resources_v2(struct td_buf *b, const struct entries *l)
{
	for (size_t i = 0; i < l->n;) {
		const struct discovery_entry *e = &l->v[i];
		td_buf_printf(b, "%s{\"resource\":\"%s\",", i ? "," : "", e->plural);
		response_kind(b, e);
		td_buf_printf(b, ",\"scope\":\"%s\",\"singularResource\":\"%s\",\"verbs\":%s",
			      e->namespaced ? "Namespaced" : "Cluster", e->singular, e->verbs);
		names(b, e->k);
		bool any = false;
		for (i++; i < l->n && *l->v[i].sub && !strcmp(l->v[i].plural, e->plural); i++) {
			td_buf_printf(b, "%s{\"subresource\":\"%s\",", any ? "," : ",\"subresources\":[", l->v[i].sub);
			response_kind(b, &l->v[i]);
			td_buf_printf(b, ",\"verbs\":%s}", l->v[i].verbs);
			any = true;
		}
		td_buf_puts(b, any ? "]}" : "}");
	}
}

static void aggregated(struct td_req *q, bool core, bool beta)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_free struct group *g = NULL;
	size_t n = 0;

	groups_of(q->snap, &g, &n);
	const char *v = beta ? "v2beta1" : "v2";
	td_buf_printf(&b,
		      "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/"
		      "%s\",\"metadata\":{},\"items\":[",
		      v);

	bool first = true;
	for (size_t i = 0; i < n; i++) {
		if (!first_of(g, i) || (*g[i].group == 0) != core)
			continue;
		td_buf_puts(&b, first ? "{\"metadata\":{" : ",{\"metadata\":{");
		if (!core)
			td_buf_printf(&b, "\"name\":\"%s\"", g[i].group);
		td_buf_puts(&b, "},\"versions\":[");
		first = false;

		bool first_version = true;
		for (size_t j = i; j < n; j++) {
			if (strcmp(g[j].group, g[i].group) != 0)
				continue;
			td_auto_entries struct entries l = {0};
			entries_of(q->snap, g[j].group, g[j].version, &l);
			td_buf_printf(&b, "%s{\"version\":\"%s\",\"freshness\":\"Current\",\"resources\":[",
				      first_version ? "" : ",", g[j].version);
			first_version = false;
			resources_v2(&b, &l);
			td_buf_puts(&b, "]}");
		}
		td_buf_puts(&b, "]}");
	}

	td_buf_puts(&b, "]}\n");
	td_auto_free char *ct = td_asprintf("application/json;g=apidiscovery.k8s.io;v=%s;as=APIGroupDiscoveryList", v);
	td_http_send(q->x, 200, ct, td_buf_str(&b), b.len);
}

// ---- legacy ----
static void group_legacy(struct td_buf *b, const struct group *g, size_t n, const char *name, bool with_kind)
{
	td_buf_putc(b, '{');
	if (with_kind)
		td_buf_puts(b, "\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",");
	td_buf_printf(b, "\"name\":\"%s\",\"versions\":[", name);
	const char *preferred = NULL;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(g[i].group, name) != 0)
			continue;
		td_buf_printf(b, "%s{\"groupVersion\":\"%s/%s\",\"version\":\"%s\"}", preferred ? "," : "", name,
			      g[i].version, g[i].version);
		if (!preferred)
			preferred = g[i].version;
	}
	td_buf_printf(b, "],\"preferredVersion\":{\"groupVersion\":\"%s/%s\",\"version\":\"%s\"}}", name, preferred,
		      preferred);
}

static void list_legacy(struct td_req *q)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_free struct group *g = NULL;
	size_t n = 0, out = 0;
	groups_of(q->snap, &g, &n);
	td_buf_puts(&b, "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[");
	for (size_t i = 0; i < n; i++) {
		if (!*g[i].group || !first_of(g, i))
			continue;
		if (out++)
			td_buf_putc(&b, ',');
		group_legacy(&b, g, n, g[i].group, false);
	}
	td_buf_puts(&b, "]}\n");
	td_reply_json(q, 200, td_buf_str(&b), b.len);
}

static void resources_legacy(struct td_req *q, const struct entries *l)
{
	td_auto_buf struct td_buf b = {0};
	// As in a real API server, the core group's list has no apiVersion.
	td_buf_printf(&b, "{\"kind\":\"APIResourceList\",%s\"groupVersion\":\"%s%s%s\",\"resources\":[",
		      *q->group ? "\"apiVersion\":\"v1\"," : "", q->group, *q->group ? "/" : "", q->version);
	for (size_t i = 0; i < l->n; i++) {
		const struct discovery_entry *e = &l->v[i];
		td_buf_printf(&b, "%s{\"name\":\"%s%s%s\",\"singularName\":\"%s\",\"namespaced\":%s,", i ? "," : "",
			      e->plural, *e->sub ? "/" : "", e->sub, e->singular, e->namespaced ? "true" : "false");
		if (e->other_group)
			td_buf_printf(&b, "\"group\":\"%s\",\"version\":\"%s\",", e->other_group, e->other_version);
		td_buf_printf(&b, "\"kind\":\"%s\",\"verbs\":%s", e->kind, e->verbs);
		names(&b, e->k);
		td_buf_putc(&b, '}');
	}

	td_buf_puts(&b, "]}\n");
	td_reply_json(q, 200, td_buf_str(&b), b.len);
}

static void versions(struct td_req *q)
{
	td_auto_buf struct td_buf b = {0};
	const char *host = td_http_header(q->x, "Host");
	td_buf_puts(&b, "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[{"
			"\"clientCIDR\":\"0.0.0.0/0\",\"serverAddress\":");
	td_cell_str(&b, host);
	td_buf_puts(&b, "}]}\n");
	td_reply_json(q, 200, td_buf_str(&b), b.len);
}

static bool has_group(const struct td_req *q, const char *group, const char *version)
{
	for (size_t i = 0; i < TD_LEN(virtual); i++)
		if (!strcmp(virtual[i].group, group) && (!version || !strcmp(virtual[i].version, version)))
			return true;
	return td_snap_has_group(q->snap, group, version);
}

enum what { NOTHING, CORE, APIS, GROUP, RESOURCES };

// route() has split the path: /apis/G or /apis/G/V with nothing below.
static enum what what_of(const struct td_req *q)
{
	size_t len = strlen(q->path);
	if (len > 1 && q->path[len - 1] == '/')
		len--;
	if (len == 4 && !strncmp(q->path, "/api", 4))
		return CORE;
	if (len == 5 && !strncmp(q->path, "/apis", 5))
		return APIS;
	if (*q->version && has_group(q, q->group, q->version))
		return RESOURCES;
	return *q->group && !*q->version && has_group(q, q->group, NULL) ? GROUP : NOTHING;
}

int td_discovery(struct td_req *q, struct td_refusal *r)
{
	const char *accept = td_http_header(q->x, "Accept");
	enum what what = what_of(q);
	if (what == NOTHING) {
		if (*q->version && (!*q->group || has_group(q, q->group, NULL)))
			return td_refuse_generic(r, 404, NULL, "the server could not find the requested resource");
		return TD_NOT_FOUND;
	}

	if (strcmp(td_http_method(q->x), "GET") != 0)
		return td_refuse_method(r);
	if ((what == CORE || what == APIS) && accept && strstr(accept, "as=APIGroupDiscoveryList")) {
		aggregated(q, what == CORE, !strstr(accept, ";v=v2;"));
		return 0;
	}
	int rc = td_reply_negotiate(q, r);
	if (rc < 0)
		return rc;
	if (what == CORE) {
		versions(q);
	} else if (what == APIS) {
		list_legacy(q);
	} else if (what == RESOURCES) {
		td_auto_entries struct entries l = {0};
		entries_of(q->snap, q->group, q->version, &l);
		resources_legacy(q, &l);
	} else {
		td_auto_buf struct td_buf b = {0};
		td_auto_free struct group *g = NULL;
		size_t n = 0;
		groups_of(q->snap, &g, &n);
		group_legacy(&b, g, n, q->group, true);
		td_reply_json(q, 200, td_buf_str(&b), b.len);
	}

	return 0;
}
