// Discovery: /api, /apis and their groups, in the aggregated form (v2) and the legacy one.
#include "apiserver/srv.h"

#include "apiserver/cells.h"

#include <stdlib.h>
#include <string.h>

struct group { // one group version, in the order of the snapshot
	const char *group, *version;
};

static void groups_of(const struct td_snap *s, struct group **ret, size_t *ret_n)
{
	struct group *v = td_malloc((s->n + 1) * sizeof(*v));
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct td_kind *k = s->v[i].kind;
		size_t j;
		for (j = 0; j < n && (strcmp(v[j].group, k->group) || strcmp(v[j].version, k->version)); j++)
			;
		if (j == n)
			v[n++] = (struct group){k->group, k->version};
	}
	*ret = v;
	*ret_n = n;
}

static void strings(struct td_buf *b, const struct td_strv *l)
{
	td_buf_putc(b, '[');
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			td_buf_putc(b, ',');
		td_cell_str(b, l->v[i]);
	}
	td_buf_putc(b, ']');
}

struct sub {
	const char *name, *kind, *group, *version, *verbs;
};

// The subresources of a kind: at most 8.
static size_t subs_of(const struct td_kind *k, struct sub *v)
{
	size_t n = 0;
	bool core = !*k->group;
	if (k->status)
		v[n++] = (struct sub){"status", k->kind, k->group, k->version, "[\"get\",\"patch\",\"update\"]"};
	if (k->scale)
		v[n++] = (struct sub){"scale", "Scale", "autoscaling", "v1", "[\"get\",\"patch\",\"update\"]"};
	if (core && !strcmp(k->plural, "pods")) {
		v[n++] = (struct sub){"binding", "Binding", "", "v1", "[\"create\"]"};
		v[n++] = (struct sub){"eviction", "Eviction", "policy", "v1", "[\"create\"]"};
		v[n++] = (struct sub){"log", "Pod", "", "v1", "[\"get\"]"};
		v[n++] = (struct sub){"exec", "PodExecOptions", "", "v1", "[\"create\",\"get\"]"};
		v[n++] = (struct sub){"attach", "PodAttachOptions", "", "v1", "[\"create\",\"get\"]"};
		v[n++] = (struct sub){"portforward", "PodPortForwardOptions", "", "v1", "[\"create\",\"get\"]"};
	} else if (core && !strcmp(k->plural, "namespaces")) {
		v[n++] = (struct sub){"finalize", "Namespace", "", "v1", "[\"update\"]"};
	} else if (core && !strcmp(k->plural, "serviceaccounts")) {
		v[n++] = (struct sub){"token", "TokenRequest", "authentication.k8s.io", "v1", "[\"create\"]"};
	}
	return n;
}

static const char *verbs_of(const struct td_kind *k)
{
	return !*k->group && !strcmp(k->plural, "namespaces")
		       ? "[\"create\",\"delete\",\"get\",\"list\",\"patch\",\"update\",\"watch\"]"
		       : "[\"create\",\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"update\",\"watch\"]";
}

// ---- aggregated ----
static void resource_v2(struct td_buf *b, const struct td_kind *k)
{
	struct sub subs[8];
	size_t n = subs_of(k, subs);
	td_buf_printf(b,
		      "{\"resource\":\"%s\",\"responseKind\":{\"group\":\"%s\",\"version\":\"%s\",\"kind\":\"%s\"},\"scope\":\"%s\","
		      "\"singularResource\":\"%s\",\"verbs\":%s",
		      k->plural, k->group, k->version, k->kind, k->namespaced ? "Namespaced" : "Cluster", k->singular, verbs_of(k));
	if (k->short_names.n) {
		td_buf_puts(b, ",\"shortNames\":");
		strings(b, &k->short_names);
	}
	if (k->categories.n) {
		td_buf_puts(b, ",\"categories\":");
		strings(b, &k->categories);
	}
	if (n)
		td_buf_puts(b, ",\"subresources\":[");
	for (size_t i = 0; i < n; i++)
		td_buf_printf(
			b, "%s{\"subresource\":\"%s\",\"responseKind\":{\"group\":\"%s\",\"version\":\"%s\",\"kind\":\"%s\"},\"verbs\":%s}",
			i ? "," : "", subs[i].name, subs[i].group, subs[i].version, subs[i].kind, subs[i].verbs);
	td_buf_puts(b, n ? "]}" : "}");
}

static void aggregated(struct td_req *q, bool core, bool beta)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_free struct group *g = NULL;
	size_t n = 0;
	groups_of(q->snap, &g, &n);
	const char *v = beta ? "v2beta1" : "v2";
	td_buf_printf(&b, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/%s\",\"metadata\":{},\"items\":[", v);
	bool first = true;
	for (size_t i = 0; i < n; i++) {
		bool seen = false;
		for (size_t j = 0; j < i; j++)
			seen |= !strcmp(g[j].group, g[i].group);
		if (seen || (*g[i].group == 0) != core)
			continue;
		td_buf_printf(&b, "%s{\"metadata\":{\"name\":\"%s\",\"creationTimestamp\":null},\"versions\":[", first ? "" : ",",
			      g[i].group);
		first = false;
		bool first_version = true;
		for (size_t j = i; j < n; j++) {
			if (strcmp(g[j].group, g[i].group) != 0)
				continue;
			td_buf_printf(&b, "%s{\"version\":\"%s\",\"freshness\":\"Current\",\"resources\":[", first_version ? "" : ",",
				      g[j].version);
			first_version = false;
			bool first_res = true;
			for (size_t k = 0; k < q->snap->n; k++) {
				const struct td_kind *kind = q->snap->v[k].kind;
				if (strcmp(kind->group, g[j].group) || strcmp(kind->version, g[j].version))
					continue;
				if (!first_res)
					td_buf_putc(&b, ',');
				first_res = false;
				resource_v2(&b, kind);
			}
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
		td_buf_printf(b, "%s{\"groupVersion\":\"%s/%s\",\"version\":\"%s\"}", preferred ? "," : "", name, g[i].version,
			      g[i].version);
		if (!preferred)
			preferred = g[i].version;
	}
	td_buf_printf(b, "],\"preferredVersion\":{\"groupVersion\":\"%s/%s\",\"version\":\"%s\"}}", name, preferred, preferred);
}

static void list_legacy(struct td_req *q)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_free struct group *g = NULL;
	size_t n = 0, out = 0;
	groups_of(q->snap, &g, &n);
	td_buf_puts(&b, "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[");
	for (size_t i = 0; i < n; i++) {
		bool seen = !*g[i].group;
		for (size_t j = 0; j < i; j++)
			seen |= !strcmp(g[j].group, g[i].group);
		if (seen)
			continue;
		if (out++)
			td_buf_putc(&b, ',');
		group_legacy(&b, g, n, g[i].group, false);
	}
	td_buf_puts(&b, "]}\n");
	td_reply_json(q, 200, td_buf_str(&b), b.len);
}

static void resources_legacy(struct td_req *q, const char *group, const char *version)
{
	td_auto_buf struct td_buf b = {0};
	td_buf_printf(&b, "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"%s%s%s\",\"resources\":[", group,
		      *group ? "/" : "", version);
	bool first = true;
	for (size_t i = 0; i < q->snap->n; i++) {
		const struct td_kind *k = q->snap->v[i].kind;
		struct sub subs[8];
		if (strcmp(k->group, group) || strcmp(k->version, version))
			continue;
		td_buf_printf(&b, "%s{\"name\":\"%s\",\"singularName\":\"%s\",\"namespaced\":%s,\"kind\":\"%s\",\"verbs\":%s",
			      first ? "" : ",", k->plural, k->singular, k->namespaced ? "true" : "false", k->kind, verbs_of(k));
		first = false;
		if (k->short_names.n) {
			td_buf_puts(&b, ",\"shortNames\":");
			strings(&b, &k->short_names);
		}
		if (k->categories.n) {
			td_buf_puts(&b, ",\"categories\":");
			strings(&b, &k->categories);
		}
		td_buf_putc(&b, '}');
		size_t n = subs_of(k, subs);
		for (size_t j = 0; j < n; j++) {
			td_buf_printf(&b, ",{\"name\":\"%s/%s\",\"singularName\":\"\",\"namespaced\":%s,", k->plural, subs[j].name,
				      k->namespaced ? "true" : "false");
			if (strcmp(subs[j].group, k->group) || strcmp(subs[j].version, k->version))
				td_buf_printf(&b, "\"group\":\"%s\",\"version\":\"%s\",", subs[j].group, subs[j].version);
			td_buf_printf(&b, "\"kind\":\"%s\",\"verbs\":%s}", subs[j].kind, subs[j].verbs);
		}
	}
	td_buf_puts(&b, "]}\n");
	td_reply_json(q, 200, td_buf_str(&b), b.len);
}

int td_discovery(struct td_req *q, struct td_refusal *r)
{
	const char *accept = td_http_header(q->x, "Accept");
	const char *p = q->path;
	size_t len = strlen(p);
	if (len > 1 && p[len - 1] == '/')
		len--;
	bool core = len == 4 && !strncmp(p, "/api", 4), apis = len == 5 && !strncmp(p, "/apis", 5);
	if (core || apis) {
		const char *agg = accept ? strstr(accept, "as=APIGroupDiscoveryList") : NULL;
		if (agg) {
			aggregated(q, core, !strstr(accept, ";v=v2;"));
			return 0;
		}
		if (apis) {
			list_legacy(q);
			return 0;
		}
		static const char text[] = "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[]}\n";
		td_reply_json(q, 200, text, sizeof(text) - 1);
		return 0;
	}
	// route() has split the path: version without anything below it.
	if (*q->version && td_snap_has_group(q->snap, q->group, q->version)) {
		resources_legacy(q, q->group, q->version);
		return 0;
	}
	if (*q->group && !*q->version && td_snap_has_group(q->snap, q->group, NULL)) {
		td_auto_buf struct td_buf b = {0};
		td_auto_free struct group *g = NULL;
		size_t n = 0;
		groups_of(q->snap, &g, &n);
		group_legacy(&b, g, n, q->group, true);
		td_reply_json(q, 200, td_buf_str(&b), b.len);
		return 0;
	}
	return TD_NOT_FOUND;
}
