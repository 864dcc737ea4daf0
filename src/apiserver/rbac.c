// Access rules (rbac.h).
#include "apiserver/rbac.h"

#include "api/selector.h"

#include <stdio.h>
#include <string.h>

struct rbac_role {
	char *ns, *name;
	struct td_rbac_rules rules;
};
struct subject {
	enum { USER, GROUP, ACCOUNT } kind;
	char *name; // ACCOUNT: the whole user name
	char *text; // `User "eve"`
};
struct binding {
	char *ns, *name, *ref_kind, *ref_name;
	struct subject *v;
	size_t n;
};
struct rbac_set {
	struct rbac_role *roles;
	size_t n_roles;
	struct binding *bindings;
	size_t n_bindings;
};
struct td_rbac {
	int refs;
	struct rbac_set cluster, spaces;
};

// ---- rules ----
static void rule_done(struct td_rbac_rule *r)
{
	td_strv_done(&r->verbs);
	td_strv_done(&r->groups);
	td_strv_done(&r->resources);
	td_strv_done(&r->names);
	td_strv_done(&r->urls);
}

void td_rbac_rules_done(struct td_rbac_rules *r)
{
	for (size_t i = 0; i < r->n; i++)
		rule_done(&r->v[i]);
	free(r->v);
	*r = (struct td_rbac_rules){0};
}

static struct td_rbac_rule *more(struct td_rbac_rules *r)
{
	r->v = td_realloc(r->v, (r->n + 1) * sizeof(*r->v));
	r->v[r->n] = (struct td_rbac_rule){0};
	return &r->v[r->n++];
}

void td_rbac_rules_read(const yyjson_val *array, struct td_rbac_rules *ret)
{
	yyjson_val *r;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)array, i, n, r) {
		struct td_rbac_rule *to = more(ret);
		td_jstrs(td_jkey(r, "verbs"), &to->verbs);
		td_jstrs(td_jkey(r, "apiGroups"), &to->groups);
		td_jstrs(td_jkey(r, "resources"), &to->resources);
		td_jstrs(td_jkey(r, "resourceNames"), &to->names);
		td_jstrs(td_jkey(r, "nonResourceURLs"), &to->urls);
	}
}

static void copy(struct td_strv *to, const struct td_strv *from)
{
	for (size_t i = 0; i < from->n; i++)
		td_strv_add(to, from->v[i]);
}

void td_rbac_rules_add(struct td_rbac_rules *to, const struct td_rbac_rule *rule)
{
	struct td_rbac_rule *r = more(to);
	copy(&r->verbs, &rule->verbs);
	copy(&r->groups, &rule->groups);
	copy(&r->resources, &rule->resources);
	copy(&r->names, &rule->names);
	copy(&r->urls, &rule->urls);
}

static void write_list(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const struct td_strv *l)
{
	if (!l->n)
		return;
	yyjson_mut_val *a = td_jm_arr(d, o, key);
	for (size_t i = 0; i < l->n; i++)
		yyjson_mut_arr_add_strcpy(d, a, l->v[i]);
}

void td_rbac_rule_write(yyjson_mut_doc *d, yyjson_mut_val *array, const struct td_rbac_rule *rule)
{
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, array);
	write_list(d, o, "verbs", &rule->verbs);
	write_list(d, o, "apiGroups", &rule->groups);
	write_list(d, o, "resources", &rule->resources);
	write_list(d, o, "resourceNames", &rule->names);
	write_list(d, o, "nonResourceURLs", &rule->urls);
}

static bool has(const struct td_strv *l, const char *s)
{
	return td_strv_has(l, "*") || td_strv_has(l, s);
}

static bool resource_matches(const struct td_strv *l, const char *resource, const char *sub)
{
	if (!*sub)
		return has(l, resource);
	for (size_t i = 0; i < l->n; i++) {
		const char *r = l->v[i], *slash = strchr(r, '/');
		if (!strcmp(r, "*"))
			return true;
		if (!slash || strcmp(slash + 1, sub) != 0)
			continue;
		size_t n = (size_t)(slash - r);
		if ((n == 1 && *r == '*') || (n == strlen(resource) && !strncmp(r, resource, n)))
			return true;
	}
	return false;
}

// "/a/*" and everything that begins with "/a/"; "*" is every path.
static bool url_covers(const char *rule, const char *path)
{
	size_t n = strlen(rule);
	if (!strcmp(rule, path))
		return true;
	if (!n || rule[n - 1] != '*')
		return false;
	while (n && rule[n - 1] == '*')
		n--;
	return !strncmp(rule, path, n);
}

bool td_rbac_rule_allows(const struct td_rbac_rule *r, const struct td_rbac_ask *a)
{
	if (!has(&r->verbs, a->verb))
		return false;
	if (!a->path)
		return has(&r->groups, a->group) && resource_matches(&r->resources, a->resource, a->sub) &&
		       (!r->names.n || td_strv_has(&r->names, a->name));
	for (size_t i = 0; i < r->urls.n; i++)
		if (url_covers(r->urls.v[i], a->path))
			return true;
	return false;
}

// ---- compiling ----
static void set_done(struct rbac_set *s)
{
	for (size_t i = 0; i < s->n_roles; i++) {
		free(s->roles[i].ns);
		free(s->roles[i].name);
		td_rbac_rules_done(&s->roles[i].rules);
	}

	for (size_t i = 0; i < s->n_bindings; i++) {
		struct binding *b = &s->bindings[i];
		for (size_t j = 0; j < b->n; j++) {
			free(b->v[j].name);
			free(b->v[j].text);
		}
		free(b->v);
		free(b->ns);
		free(b->name);
		free(b->ref_kind);
		free(b->ref_name);
	}

	free(s->roles);
	free(s->bindings);
}

static void add_subject(struct binding *b, const yyjson_val *v)
{
	const char *kind = td_jstr_or(v, "kind", ""), *name = td_jstr_or(v, "name", ""),
		   *ns = td_jstr_or(v, "namespace", "");
	struct subject *s = &b->v[b->n];
	if (!strcmp(kind, "User") || !strcmp(kind, "Group")) {
		*s = (struct subject){strcmp(kind, "User") ? GROUP : USER, td_strdup(name),
				      td_asprintf("%s \"%s\"", kind, name)};
	} else if (!strcmp(kind, "ServiceAccount") && (*ns || *b->ns)) {
		ns = *ns ? ns : b->ns;
		*s = (struct subject){ACCOUNT, td_asprintf("system:serviceaccount:%s:%s", ns, name),
				      td_asprintf("ServiceAccount \"%s/%s\"", name, ns)};
	} else {
		return; // an unknown kind, or an account without a namespace: nobody
	}
	b->n++;
}

static void compile(struct rbac_set *s, const struct td_items *roles, const struct td_items *bindings)
{
	s->roles = td_calloc(roles->n, sizeof(*s->roles));
	s->bindings = td_calloc(bindings->n, sizeof(*s->bindings));
	for (size_t i = 0; i < roles->n; i++) {
		td_auto(td_json_unref) struct td_json *doc = td_item_doc(roles->v[i]);
		struct rbac_role *r = &s->roles[s->n_roles++];
		r->ns = td_strdup(roles->v[i]->ns);
		r->name = td_strdup(roles->v[i]->name);
		td_rbac_rules_read(td_jkey(td_json_root(doc), "rules"), &r->rules);
	}

	for (size_t i = 0; i < bindings->n; i++) {
		td_auto(td_json_unref) struct td_json *doc = td_item_doc(bindings->v[i]);
		yyjson_val *v = td_json_root(doc), *subjects = td_jkey(v, "subjects"), *one;
		struct binding *b = &s->bindings[s->n_bindings++];
		b->ns = td_strdup(bindings->v[i]->ns);
		b->name = td_strdup(bindings->v[i]->name);
		b->ref_kind = td_strdup(td_jstr_or(v, "roleRef.kind", ""));
		b->ref_name = td_strdup(td_jstr_or(v, "roleRef.name", ""));
		b->v = td_calloc(yyjson_arr_size(subjects), sizeof(*b->v));
		size_t j, n;
		yyjson_arr_foreach (subjects, j, n, one)
			add_subject(b, one);
	}
}

struct td_rbac *td_rbac_new(const struct td_items *cluster_roles, const struct td_items *roles,
			    const struct td_items *cluster_bindings, const struct td_items *bindings)
{
	struct td_rbac *r = td_calloc(1, sizeof(*r));
	r->refs = 1;
	compile(&r->cluster, cluster_roles, cluster_bindings);
	compile(&r->spaces, roles, bindings);
	return r;
}

struct td_rbac *td_rbac_ref(struct td_rbac *r)
{
	__atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
	return r;
}

struct td_rbac *td_rbac_unref(struct td_rbac *r)
{
	if (r && __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		set_done(&r->cluster);
		set_done(&r->spaces);
		free(r);
	}
	return NULL;
}

// ---- questions ----
const struct td_rbac_rules *td_rbac_role(const struct td_rbac *r, const char *kind, const char *ns, const char *name)
{
	bool cluster = !strcmp(kind, "ClusterRole");
	if (!cluster && (strcmp(kind, "Role") != 0 || !*ns))
		return NULL;
	const struct rbac_set *s = cluster ? &r->cluster : &r->spaces;
	size_t lo = 0, hi = s->n_roles;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = td_item_cmp(s->roles[mid].ns, s->roles[mid].name, cluster ? "" : ns, name);
		if (c == 0)
			return &s->roles[mid].rules;
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

static const struct subject *applies(const struct binding *b, const char *user, const struct td_strv *groups)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->v[i].kind == GROUP ? groups && td_strv_has(groups, b->v[i].name) : !strcmp(b->v[i].name, user))
			return &b->v[i];
	return NULL;
}

struct walk {
	const struct td_rbac *r;
	const char *user, *ns;
	const struct td_strv *groups;
	struct td_strv faults;
	// Called for each rule; returns true to stop.
	bool (*rule)(void *ctx, const struct binding *b, const struct subject *s, const struct td_rbac_rule *rule);
	void *ctx;
};

static bool walk_binding(struct walk *w, const struct binding *b)
{
	const struct subject *s = applies(b, w->user, w->groups);
	if (!s)
		return false;
	const struct td_rbac_rules *rules = td_rbac_role(w->r, b->ref_kind, b->ns, b->ref_name);
	if (!rules) {
		td_auto_free char *fault =
			td_asprintf("%s.rbac.authorization.k8s.io \"%s\" not found",
				    strcmp(b->ref_kind, "Role") ? "clusterrole" : "role", b->ref_name);
		if (!td_strv_has(&w->faults, fault))
			td_strv_add(&w->faults, fault);
	}
	for (size_t i = 0; rules && i < rules->n; i++)
		if (w->rule(w->ctx, b, s, &rules->v[i]))
			return true;
	return false;
}

// Visits the cluster bindings first, then those of the namespace, by name.
static void walk(struct walk *w)
{
	for (size_t i = 0; i < w->r->cluster.n_bindings; i++)
		if (walk_binding(w, &w->r->cluster.bindings[i]))
			return;
	for (size_t i = 0; *w->ns && i < w->r->spaces.n_bindings; i++)
		if (!strcmp(w->r->spaces.bindings[i].ns, w->ns) && walk_binding(w, &w->r->spaces.bindings[i]))
			return;
}

static char *faults_text(const struct td_strv *l)
{
	struct td_buf b = {0};
	for (size_t i = 0; i < l->n; i++)
		td_buf_printf(&b, "%s%s", i ? ", " : l->n > 1 ? "[" : "", l->v[i]);
	if (l->n > 1)
		td_buf_putc(&b, ']');
	return l->n ? td_buf_take(&b) : NULL;
}

struct asked {
	const struct td_rbac_ask *a;
	const struct binding *by;
	const struct subject *to;
};

static bool ask_rule(void *ctx, const struct binding *b, const struct subject *s, const struct td_rbac_rule *rule)
{
	struct asked *x = ctx;
	if (!td_rbac_rule_allows(rule, x->a))
		return false;
	x->by = b;
	x->to = s;
	return true;
}

bool td_rbac_allows(const struct td_rbac *r, const struct td_rbac_ask *a, char **ret_why)
{
	struct asked x = {.a = a};
	struct walk w = {r, a->user, a->path ? "" : a->ns, a->groups, {0}, ask_rule, &x};
	walk(&w);
	if (ret_why) {
		td_auto_free char *faults = faults_text(&w.faults);
		const struct binding *b = x.by;
		*ret_why = b        ? td_asprintf("RBAC: allowed by %sRoleBinding \"%s%s%s\" of %s \"%s\" to %s",
                                           *b->ns ? "" : "Cluster", b->name, *b->ns ? "/" : "", b->ns, b->ref_kind,
						  b->ref_name, x.to->text)
			   : faults ? td_asprintf("RBAC: %s", faults)
				    : NULL;
	}
	td_strv_done(&w.faults);
	return x.by != NULL;
}

static bool take_rule(void *ctx, const struct binding *b, const struct subject *s, const struct td_rbac_rule *rule)
{
	(void)b;
	(void)s;
	td_rbac_rules_add(ctx, rule);
	return false;
}

void td_rbac_rules_for(const struct td_rbac *r, const char *user, const struct td_strv *groups, const char *ns,
		       struct td_rbac_rules *ret, char **ret_fault)
{
	struct walk w = {r, user, ns, groups, {0}, take_rule, ret};
	walk(&w);
	if (ret_fault)
		*ret_fault = faults_text(&w.faults);
	td_strv_done(&w.faults);
}

// ---- covering ----
// Whether rule o covers the rule `one`, which has at most one verb, group, resource, name and path.
static bool covers_one(const struct td_rbac_rule *o, const struct td_rbac_rule *one)
{
	if (!has(&o->verbs, one->verbs.v[0]))
		return false;
	if (one->urls.n) {
		for (size_t i = 0; i < o->urls.n; i++)
			if (url_covers(o->urls.v[i], one->urls.v[0]))
				return true;
		return false;
	}

	if (!has(&o->groups, one->groups.v[0]) ||
	    (o->names.n && !(one->names.n && td_strv_has(&o->names, one->names.v[0]))))
		return false;
	const char *slash = strchr(one->resources.v[0], '/');
	if (has(&o->resources, one->resources.v[0]))
		return true;
	td_auto_free char *any = slash ? td_asprintf("*%s", slash) : NULL;
	return any && td_strv_has(&o->resources, any);
}

static bool check_one(const struct td_rbac_rules *owner, const struct td_rbac_rule *one, struct td_rbac_rules *missing)
{
	for (size_t i = 0; i < owner->n; i++)
		if (covers_one(&owner->v[i], one))
			return true;
	if (missing)
		td_rbac_rules_add(missing, one);
	return false;
}

static bool check_resource(const struct td_rbac_rules *owner, const struct td_rbac_rule *w, char *group, char *resource,
			   char *verb, struct td_rbac_rules *missing)
{
	struct td_rbac_rule one = {.verbs = {&verb, 1, 0}, .groups = {&group, 1, 0}, .resources = {&resource, 1, 0}};
	bool all = true;
	for (size_t i = 0; i < w->names.n; i++) {
		one.names = (struct td_strv){&w->names.v[i], 1, 0};
		all &= check_one(owner, &one, missing);
	}
	return w->names.n ? all : check_one(owner, &one, missing);
}

bool td_rbac_covers(const struct td_rbac_rules *owner, const struct td_rbac_rules *wanted,
		    struct td_rbac_rules *ret_missing)
{
	bool all = true;
	for (size_t i = 0; i < wanted->n; i++) {
		const struct td_rbac_rule *w = &wanted->v[i];
		for (size_t g = 0; g < w->groups.n; g++)
			for (size_t r = 0; r < w->resources.n; r++)
				for (size_t v = 0; v < w->verbs.n; v++)
					all &= check_resource(owner, w, w->groups.v[g], w->resources.v[r],
							      w->verbs.v[v], ret_missing);
		for (size_t u = 0; u < w->urls.n; u++)
			for (size_t v = 0; v < w->verbs.n; v++) {
				const struct td_rbac_rule one = {.verbs = {&w->verbs.v[v], 1, 0},
								 .urls = {&w->urls.v[u], 1, 0}};
				all &= check_one(owner, &one, ret_missing);
			}
	}

	return all;
}

static void quoted(struct td_buf *b, const char *name, const struct td_strv *l)
{
	if (!l->n)
		return;
	td_buf_printf(b, "%s%s:[", b->len > 1 ? ", " : "", name);
	for (size_t i = 0; i < l->n; i++)
		td_buf_printf(b, "%s\"%s\"", i ? " " : "", l->v[i]);
	td_buf_putc(b, ']');
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool same_list(const struct td_strv *a, const struct td_strv *b)
{
	bool same = a->n == b->n;
	for (size_t i = 0; same && i < a->n; i++)
		same = !strcmp(a->v[i], b->v[i]);
	return same;
}

char *td_rbac_missing_text(const struct td_rbac_rules *missing)
{
	td_auto_rules struct td_rbac_rules joined = {0};
	td_auto_strv struct td_strv lines = {0};

	// Joins rules that differ only in the verb.
	for (size_t i = 0; i < missing->n; i++) {
		const struct td_rbac_rule *m = &missing->v[i];
		size_t j = 0;
		while (j < joined.n &&
		       (m->urls.n || joined.v[j].urls.n || !same_list(&joined.v[j].groups, &m->groups) ||
			!same_list(&joined.v[j].resources, &m->resources) || !same_list(&joined.v[j].names, &m->names)))
			j++;
		if (j < joined.n)
			copy(&joined.v[j].verbs, &m->verbs);
		else
			td_rbac_rules_add(&joined, m);
	}

	for (size_t i = 0; i < joined.n; i++) {
		struct td_buf b = {0};
		td_buf_putc(&b, '{');
		quoted(&b, "APIGroups", &joined.v[i].groups);
		quoted(&b, "Resources", &joined.v[i].resources);
		quoted(&b, "NonResourceURLs", &joined.v[i].urls);
		quoted(&b, "ResourceNames", &joined.v[i].names);
		quoted(&b, "Verbs", &joined.v[i].verbs);
		td_buf_putc(&b, '}');
		td_strv_steal(&lines, td_buf_take(&b));
	}

	if (lines.n)
		qsort(lines.v, lines.n, sizeof(*lines.v), by_text);
	struct td_buf out = {0};
	for (size_t i = 0; i < lines.n; i++)
		if (!i || strcmp(lines.v[i], lines.v[i - 1]) != 0)
			td_buf_printf(&out, "%s%s", out.len ? "\n" : "", lines.v[i]);

	return td_buf_take(&out);
}

static bool same_rule(const struct td_rbac_rule *a, const struct td_rbac_rule *b)
{
	return same_list(&a->verbs, &b->verbs) && same_list(&a->groups, &b->groups) &&
	       same_list(&a->resources, &b->resources) && same_list(&a->names, &b->names) &&
	       same_list(&a->urls, &b->urls);
}

bool td_rbac_rules_equal(const struct td_rbac_rules *a, const struct td_rbac_rules *b)
{
	bool same = a->n == b->n;
	for (size_t i = 0; same && i < a->n; i++)
		same = same_rule(&a->v[i], &b->v[i]);
	return same;
}
