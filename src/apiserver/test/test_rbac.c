// Access rules: a table of decisions, coverage; and over HTTP: who may do what, who may grant what,
// tokens.
// rows: B2.3 F1.2
#include "apiserver/rbac.h"
#include "apiserver/test/harness.h"

#include "http/pki.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

// ---- rules alone ----
static void load(const char *yaml, struct td_items *ret)
{
	td_auto_json_list struct td_json_list l = {0};
	struct td_error err = TD_ERROR_INIT;
	if (td_yaml_parse(yaml, strlen(yaml), &l, &err) < 0)
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < l.n; i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(l.v[i]));
		td_items_add(ret, td_item_new(d, 1, 1));
	}
}

// Sorted by namespace and name, as the store lists them.
static const char cluster_roles[] =
	"{metadata: {name: all}, rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*']}, {verbs: ['*'], "
	"nonResourceURLs: ['*']}]}\n---\n"
	"{metadata: {name: broken}}\n---\n"
	"{metadata: {name: exec}, rules: [{verbs: [create], apiGroups: [''], resources: ['*/exec', pods/log]}]}\n---\n"
	"{metadata: {name: named}, rules: [{verbs: [get, watch, list], apiGroups: [''], resources: [secrets], "
	"resourceNames: [mine]}]}\n---\n"
	"{metadata: {name: paths}, rules: [{verbs: [get], nonResourceURLs: [/metrics, '/debug/*']}]}\n---\n"
	"{metadata: {name: pods}, rules: [{verbs: [get, list], apiGroups: [''], resources: [pods]}]}\n";
static const char space_roles[] =
	"{metadata: {name: jobs, namespace: a}, rules: [{verbs: ['*'], apiGroups: [batch], resources: ['*']}]}\n---\n"
	"{metadata: {name: jobs, namespace: b}, rules: [{verbs: [get], apiGroups: [batch], resources: [jobs]}]}\n";
static const char cluster_bindings[] =
	"{metadata: {name: b1}, roleRef: {kind: ClusterRole, name: all}, subjects: [{kind: Group, name: root}]}\n---\n"
	"{metadata: {name: b2}, roleRef: {kind: ClusterRole, name: paths}, subjects: [{kind: User, name: eve}]}\n---\n"
	"{metadata: {name: b3}, roleRef: {kind: ClusterRole, name: gone}, subjects: [{kind: User, name: mia}]}\n---\n"
	"{metadata: {name: b4}, roleRef: {kind: ClusterRole, name: gone}, subjects: [{kind: User, name: mia}]}\n---\n"
	"{metadata: {name: b5}, roleRef: {kind: ClusterRole, name: exec}, subjects: [{kind: ServiceAccount, name: bot, "
	"namespace: b}]}\n---\n"
	"{metadata: {name: b6}, roleRef: {kind: ClusterRole, name: all}, subjects: [{kind: ServiceAccount, name: bot}, "
	"{kind: Robot, name: eve}]}\n";
static const char space_bindings[] = "{metadata: {name: r1, namespace: a}, roleRef: {kind: ClusterRole, name: pods}, "
				     "subjects: [{kind: User, name: eve}]}\n---\n"
				     "{metadata: {name: r2, namespace: a}, roleRef: {kind: Role, name: jobs}, "
				     "subjects: [{kind: ServiceAccount, name: bot}]}\n---\n"
				     "{metadata: {name: r3, namespace: a}, roleRef: {kind: Role, name: none}, "
				     "subjects: [{kind: User, name: mia}]}\n---\n"
				     "{metadata: {name: r1, namespace: b}, roleRef: {kind: Role, name: jobs}, "
				     "subjects: [{kind: User, name: eve}]}\n---\n"
				     "{metadata: {name: r2, namespace: b}, roleRef: {kind: ClusterRole, name: named}, "
				     "subjects: [{kind: Group, name: people}]}\n---\n"
				     "{metadata: {name: r3, namespace: b}, roleRef: {kind: ClusterRole, name: all}, "
				     "subjects: [{kind: User, name: boss}]}\n";

static struct td_rbac *state(void)
{
	td_auto_items struct td_items cr = {0}, r = {0}, cb = {0}, b = {0};
	load(cluster_roles, &cr);
	load(space_roles, &r);
	load(cluster_bindings, &cb);
	load(space_bindings, &b);
	return td_rbac_new(&cr, &r, &cb, &b);
}

static void test_decisions(void **unused)
{
	(void)unused;
	static const struct {
		bool yes;
		// what: /path, or group/resource[.sub][=name]@namespace.
		const char *user, *groups, *verb, *what;
	} v[] = {
		{true, "x", "root", "delete", "/secrets=a@z"},
		{true, "x", "root", "post", "path:/anything"},
		{false, "x", "roots", "get", "/pods@a"},
		{true, "eve", "", "get", "path:/metrics"},
		{false, "eve", "", "post", "path:/metrics"},
		{false, "eve", "", "get", "path:/metrics/slis"},
		{true, "eve", "", "get", "path:/debug/"},
		{true, "eve", "", "get", "path:/debug/pprof/heap"},
		{false, "eve", "", "get", "path:/debug"},
		{false, "eve", "", "get", "path:/"},
		// A RoleBinding to a ClusterRole holds in its namespace only.
		{true, "eve", "", "list", "/pods@a"},
		{true, "eve", "", "get", "/pods=p@a"},
		{false, "eve", "", "watch", "/pods@a"},
		{false, "eve", "", "list", "/pods@b"},
		{false, "eve", "", "list", "/pods@"},
		{false, "eve", "", "get", "/pods.log=p@a"}, // a subresource is not its resource
		{false, "eve", "", "get", "apps/pods=p@a"}, // nor is it that of another group
		{false, "eve", "", "get", "/podsx=p@a"},
		{false, "eve", "", "GET", "/pods=p@a"},
		{false, "Eve", "", "get", "/pods=p@a"},
		// Roles of the same name in two namespaces.
		{true, "eve", "", "get", "batch/jobs=j@b"},
		{false, "eve", "", "delete", "batch/jobs=j@b"},
		{false, "eve", "", "get", "batch/jobs=j@a"},
		// Service accounts: of the binding's namespace when the subject names none; in a
		// ClusterRoleBinding, of no namespace.
		{true, "system:serviceaccount:a:bot", "", "deletecollection", "batch/cronjobs.status@a"},
		{false, "system:serviceaccount:a:bot", "", "get", "batch/jobs@b"},
		{false, "system:serviceaccount:b:bot", "", "get", "batch/jobs@a"},
		{false, "system:serviceaccount:a:bot", "", "get", "/nodes@"},
		{false, "bot", "", "get", "batch/jobs@a"},
		// The rule */exec.
		{true, "system:serviceaccount:b:bot", "", "create", "/pods.exec=p@z"},
		{true, "system:serviceaccount:b:bot", "", "create", "/things.exec=p@z"},
		{true, "system:serviceaccount:b:bot", "", "create", "/pods.log=p@z"},
		{false, "system:serviceaccount:b:bot", "", "create", "/pods.attach=p@z"},
		{false, "system:serviceaccount:b:bot", "", "create", "/exec=p@z"},
		{false, "system:serviceaccount:b:bot", "", "create", "/pods=p@z"},
		{false, "system:serviceaccount:b:bot", "", "create", "apps/pods.exec=p@z"},
		// The field resourceNames.
		{true, "u", "people", "get", "/secrets=mine@b"},
		{true, "u", "people", "watch", "/secrets=mine@b"},
		{false, "u", "people", "list", "/secrets@b"},
		{false, "u", "people", "get", "/secrets=other@b"},
		// Full rights in a namespace hold neither outside of it nor on paths.
		{true, "boss", "", "escalate", "rbac.authorization.k8s.io/roles@b"},
		{false, "boss", "", "get", "/pods@a"},
		{false, "boss", "", "get", "/nodes@"},
		{false, "boss", "", "get", "path:/metrics"},
		{false, "", "", "get", "/pods@a"},
	};
	td_auto(td_rbac_unref) struct td_rbac *r = state();
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_strv struct td_strv groups = {0};
		td_strv_split(&groups, v[i].groups, ' ');
		char group[64] = "", res[64] = "", sub[64] = "", name[64] = "", ns[64] = "";
		struct td_rbac_ask a = {.user = v[i].user,
					.groups = &groups,
					.verb = v[i].verb,
					.group = group,
					.resource = res,
					.sub = sub,
					.name = name,
					.ns = ns};
		if (td_starts(v[i].what, "path:")) {
			a.path = v[i].what + 5;
		} else { // the last '/' before the name separates group and resource
			char text[200];
			snprintf(text, sizeof(text), "%s", v[i].what);
			char *at = strchr(text, '@'), *eq, *dot, *slash = strchr(text, '/');
			snprintf(ns, sizeof(ns), "%s", at + 1);
			*at = 0;
			*slash++ = 0;
			snprintf(group, sizeof(group), "%s", text);
			if ((eq = strchr(slash, '=')))
				*eq++ = 0, snprintf(name, sizeof(name), "%s", eq);
			if ((dot = strchr(slash, '.')))
				*dot++ = 0, snprintf(sub, sizeof(sub), "%s", dot);
			snprintf(res, sizeof(res), "%s", slash);
		}
		if (td_rbac_allows(r, &a, NULL) != v[i].yes)
			fail_msg("%s (%s) %s %s: want %s", v[i].user, v[i].groups, v[i].verb, v[i].what,
				 v[i].yes ? "yes" : "no");
	}
}

static void test_reasons(void **unused)
{
	(void)unused;
	td_auto(td_rbac_unref) struct td_rbac *r = state();
	const struct td_strv none = {0};
	struct td_rbac_ask a = {.user = "eve",
				.groups = &none,
				.verb = "list",
				.group = "",
				.resource = "pods",
				.sub = "",
				.name = "",
				.ns = "a"};
	const struct {
		const char *user, *ns, *why;
	} v[] = {
		{"eve", "a", "RBAC: allowed by RoleBinding \"r1/a\" of ClusterRole \"pods\" to User \"eve\""},
		{"eve", "b", NULL},
		// The text names the missing role once, though two bindings name it.
		{"mia", "b", "RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found"},
		{"mia", "a",
		 "RBAC: [clusterrole.rbac.authorization.k8s.io \"gone\" not found, role.rbac.authorization.k8s.io "
		 "\"none\" not found]"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_free char *why = NULL;
		a.user = v[i].user;
		a.ns = v[i].ns;
		td_rbac_allows(r, &a, &why);
		if (!td_streq(why, v[i].why))
			fail_msg("%s in %s: %s", v[i].user, v[i].ns, why ? why : "(nothing)");
	}

	td_auto_free char *why = NULL;
	td_auto_strv struct td_strv root = {0};
	td_strv_add(&root, "root");
	a.groups = &root;
	a.user = "x";
	assert_true(td_rbac_allows(r, &a, &why));
	assert_string_equal(why, "RBAC: allowed by ClusterRoleBinding \"b1\" of ClusterRole \"all\" to Group \"root\"");
}

static void rules(const char *yaml, struct td_rbac_rules *ret)
{
	td_auto_json_list struct td_json_list l = {0};
	assert_int_equal(td_yaml_parse(yaml, strlen(yaml), &l, NULL), 0);
	td_rbac_rules_read(td_json_root(l.v[0]), ret);
}

static void test_covers(void **unused)
{
	(void)unused;
	static const struct {
		const char *owner, *wanted, *missing; // NULL: covered
	} v[] = {
		{"[]", "[]", NULL},
		{"[{verbs: [get, list], apiGroups: [''], resources: [pods]}]",
		 "[{verbs: [list], apiGroups: [''], resources: [pods]}]", NULL},
		// Several rules together cover one.
		{"[{verbs: [get], apiGroups: [''], resources: [pods]}, {verbs: [list], apiGroups: [''], resources: "
		 "[pods]}]",
		 "[{verbs: [get, list], apiGroups: [''], resources: [pods]}]", NULL},
		{"[{verbs: ['*'], apiGroups: ['*'], resources: ['*']}]",
		 "[{verbs: [get], apiGroups: [x], resources: [y/z], resourceNames: [n]}]", NULL},
		{"[{verbs: ['*'], apiGroups: ['*'], resources: ['*']}]",
		 "[{verbs: ['*'], apiGroups: ['*'], resources: ['*']}]", NULL},
		{"[{verbs: [get], apiGroups: [''], resources: ['*/log']}]",
		 "[{verbs: [get], apiGroups: [''], resources: [pods/log]}]", NULL},
		{"[{verbs: [get], apiGroups: [''], resources: [pods]}]",
		 "[{verbs: [get], apiGroups: [''], resources: [pods], resourceNames: [a]}]", NULL},
		{"[{verbs: [get], nonResourceURLs: ['/a/*']}]", "[{verbs: [get], nonResourceURLs: [/a/b, '/a/b/*']}]",
		 NULL},
		{"[]", "[{verbs: [get, list], apiGroups: [''], resources: [pods, jobs]}]",
		 "{APIGroups:[\"\"], Resources:[\"jobs\"], Verbs:[\"get\" \"list\"]}\n{APIGroups:[\"\"], "
		 "Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}"},
		{"[{verbs: [get, list, create], apiGroups: ['', apps], resources: [pods]}]",
		 "[{verbs: ['*'], apiGroups: [''], resources: [pods]}]",
		 "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"*\"]}"},
		{"[{verbs: [get], apiGroups: [''], resources: [pods], resourceNames: [a]}]",
		 "[{verbs: [get], apiGroups: [''], resources: [pods]}]",
		 "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"},
		{"[{verbs: [get], apiGroups: [''], resources: [pods], resourceNames: [a]}]",
		 "[{verbs: [get], apiGroups: [''], resources: [pods], resourceNames: [a, b]}]",
		 "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}"},
		{"[{verbs: [get], apiGroups: [''], resources: ['*/log']}]",
		 "[{verbs: [get], apiGroups: [''], resources: [pods]}]",
		 "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"},
		{"[{verbs: [get], apiGroups: [''], resources: [pods]}]",
		 "[{verbs: [get], apiGroups: [''], resources: ['*/log', '*']}]",
		 "{APIGroups:[\"\"], Resources:[\"*\"], Verbs:[\"get\"]}\n{APIGroups:[\"\"], Resources:[\"*/log\"], "
		 "Verbs:[\"get\"]}"},
		{"[{verbs: ['*'], apiGroups: ['*'], resources: ['*']}]", "[{verbs: [get], nonResourceURLs: [/x]}]",
		 "{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}"},
		{"[{verbs: [get], nonResourceURLs: [/x]}]", "[{verbs: [get], nonResourceURLs: ['*']}]",
		 "{NonResourceURLs:[\"*\"], Verbs:[\"get\"]}"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_rules struct td_rbac_rules owner = {0}, wanted = {0}, missing = {0};
		rules(v[i].owner, &owner);
		rules(v[i].wanted, &wanted);
		assert_int_equal(td_rbac_covers(&owner, &wanted, &missing), v[i].missing == NULL);
		td_auto_free char *text = td_rbac_missing_text(&missing);
		assert_string_equal(text, v[i].missing ? v[i].missing : "");
	}
}

// ---- over HTTP ----
#define RBAC "/apis/rbac.authorization.k8s.io/v1"
#define IN_NS RBAC "/namespaces/default"

static char *user(const char *name, const char *group)
{
	static const char key[] = "0123456789abcdef0123456789abcdef";
	td_auto_free char *claims = td_asprintf("{\"sub\":\"%s\",\"groups\":[\"%s\"],\"exp\":%lld}", name, group,
						(long long)time(NULL) + 3600);
	return td_jwt_sign(key, sizeof(key) - 1, claims);
}

static void want(struct harness *h, int line, const char *as, const char *method, const char *path, const char *body,
		 int status, const char *message)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	h->as = as;
	int got = ask(h, method, path, !strcmp(method, "PATCH") ? MERGE : JSON, body, &j);
	const char *m = td_jstr_or(td_json_root(j), "message", "");
	if (got != status || (message && strcmp(m, message) != 0))
		fail_msg("line %d: %s %s: %d %s; want %d %s", line, method, path, got, m, status,
			 message ? message : "");
	h->as = h->admin;
}
#define WANT(...) want(h, __LINE__, __VA_ARGS__)

static int setup(void **state)
{
	struct harness *h = calloc(1, sizeof(*h));
	harness_start(h, 0);
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	harness_stop(*state);
	free(*state);
	return 0;
}

static void test_seen_at_once(void **state)
{
	struct harness *h = *state;
	const char *pods = "/api/v1/namespaces/default/pods";
	td_auto_free char *eve = user("eve", "people");

	WANT(eve, "GET", pods, NULL, 403,
	     "pods is forbidden: User \"eve\" cannot list resource \"pods\" in API group \"\" in the namespace "
	     "\"default\"");
	for (int i = 0; i < 20; i++) { // every write holds for the very next request
		WANT(h->admin, "POST", IN_NS "/rolebindings",
		     "{\"metadata\":{\"name\":\"x\"},\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"view\"},"
		     "\"subjects\":[{\"kind\":\"Group\",\"name\":\"people\"}]}",
		     201, NULL);
		WANT(eve, "GET", pods, NULL, 200, NULL);
		WANT(eve, "GET", "/api/v1/namespaces/kube-system/pods", NULL, 403, NULL);
		// A namespace counts as inside itself.
		WANT(eve, "GET", "/api/v1/namespaces/default", NULL, 200, NULL);
		if (i == 10)
			harness_restart(h, 0);
		WANT(h->admin, "DELETE", IN_NS "/rolebindings/x", NULL, 200, NULL);
		WANT(eve, "GET", pods, NULL, 403, NULL);
	}

	harness_restart(h, 0);
	WANT(eve, "GET", pods, NULL, 403, NULL);

	// The reply names a missing role.
	WANT(h->admin, "POST", IN_NS "/rolebindings",
	     "{\"metadata\":{\"name\":\"x\"},\"roleRef\":{\"kind\":\"Role\",\"name\":\"none\"},\"subjects\":[{\"kind\":"
	     "\"User\",\"name\":\"eve\"}]}",
	     201, NULL);
	WANT(eve, "GET", pods, NULL, 403,
	     "pods is forbidden: User \"eve\" cannot list resource \"pods\" in API group \"\" in the namespace "
	     "\"default\": RBAC: role.rbac.authorization.k8s.io \"none\" not found");
	WANT(eve, "GET", "/metrics", NULL, 403, "forbidden: User \"eve\" cannot get path \"/metrics\"");
	WANT(eve, "GET", "/apis", NULL, 200, NULL);
}

// What nobody may do through roles.
static void test_no_escalation(void **state)
{
	struct harness *h = *state;
	td_auto_free char *eve = user("eve", "people");

	WANT(h->admin, "POST", IN_NS "/rolebindings",
	     "{\"metadata\":{\"name\":\"eve\"},\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"admin\"},\"subjects\":["
	     "{\"kind\":\"User\",\"name\":\"eve\"}]}",
	     201, NULL);
	// A user may grant what she has …
	WANT(eve, "POST", IN_NS "/roles",
	     "{\"metadata\":{\"name\":\"ok\"},\"rules\":[{\"verbs\":[\"get\"],\"apiGroups\":[\"\"],\"resources\":["
	     "\"pods\"]}]}",
	     201, NULL);
	WANT(eve, "POST", IN_NS "/rolebindings",
	     "{\"metadata\":{\"name\":\"ok\"},\"roleRef\":{\"kind\":\"Role\",\"name\":\"ok\"},\"subjects\":[{\"kind\":"
	     "\"User\",\"name\":\"mia\"}]}",
	     201, NULL);
	WANT(eve, "POST", IN_NS "/rolebindings",
	     "{\"metadata\":{\"name\":\"ok2\"},\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"view\"},\"subjects\":[{"
	     "\"kind\":\"User\",\"name\":\"mia\"}]}",
	     201, NULL);

	// … and nothing else, however she writes it.
	const char *nodes = "\"rules\":[{\"verbs\":[\"get\",\"list\"],\"apiGroups\":[\"\"],\"resources\":[\"nodes\"]}]";
	td_auto_free char *role = td_asprintf("{\"metadata\":{\"name\":\"bad\"},%s}", nodes),
			  *patch = td_asprintf("{%s}", nodes),
			  *put = td_asprintf("{\"metadata\":{\"name\":\"ok\"},%s}", nodes);
	const char *tail = "is forbidden: user \"eve\" (groups=[\"people\" \"system:authenticated\"]) is attempting to "
			   "grant RBAC permissions not currently held:\n"
			   "{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"list\"]}";
	td_auto_free char *bad = td_asprintf("roles.rbac.authorization.k8s.io \"bad\" %s", tail),
			  *ok = td_asprintf("roles.rbac.authorization.k8s.io \"ok\" %s", tail);
	WANT(eve, "POST", IN_NS "/roles", role, 403, bad);
	WANT(eve, "POST", IN_NS "/roles?dryRun=All", role, 403, bad);
	WANT(eve, "PUT", IN_NS "/roles/ok", put, 403, ok);
	WANT(eve, "PATCH", IN_NS "/roles/ok", patch, 403, ok);
	WANT(eve, "PATCH", IN_NS "/roles/ok", "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}", 200, NULL);
	WANT(eve, "POST", IN_NS "/rolebindings",
	     "{\"metadata\":{\"name\":\"bad\"},\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"cluster-admin\"},"
	     "\"subjects\":[{\"kind\":\"User\",\"name\":\"eve\"}]}",
	     403,
	     "rolebindings.rbac.authorization.k8s.io \"bad\" is forbidden: user \"eve\" (groups=[\"people\" "
	     "\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n"
	     "{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}");
	WANT(eve, "POST", IN_NS "/rolebindings",
	     "{\"metadata\":{\"name\":\"bad\"},\"roleRef\":{\"kind\":\"Role\",\"name\":\"later\"},\"subjects\":[{"
	     "\"kind\":\"User\",\"name\":\"eve\"}]}",
	     404, "rolebindings.rbac.authorization.k8s.io \"later\" not found");
	WANT(eve, "POST", RBAC "/clusterrolebindings",
	     "{\"metadata\":{\"name\":\"bad\"},\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"view\"},\"subjects\":[]"
	     "}",
	     403, NULL);

	// A binding cannot be changed to another role, and a role that she may write cannot grow.
	WANT(eve, "PATCH", IN_NS "/rolebindings/ok",
	     "{\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"cluster-admin\"}}", 403, NULL);
	WANT(h->admin, "PATCH", IN_NS "/rolebindings/ok",
	     "{\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"cluster-admin\"}}", 422, NULL);

	// With the verbs `bind` and `escalate` she may.
	WANT(h->admin, "POST", IN_NS "/roles",
	     "{\"metadata\":{\"name\":\"giver\"},\"rules\":[{\"verbs\":[\"bind\"],\"apiGroups\":[\"rbac.authorization."
	     "k8s.io\"],\"resources\":[\"clusterroles\"],\"resourceNames\":[\"cluster-admin\"]},{\"verbs\":["
	     "\"escalate\"],\"apiGroups\":[\"rbac.authorization.k8s.io\"],\"resources\":[\"roles\"],\"resourceNames\":["
	     "\"ok\"]}]}",
	     201, NULL);
	WANT(h->admin, "POST", IN_NS "/rolebindings",
	     "{\"metadata\":{\"name\":\"giver\"},\"roleRef\":{\"kind\":\"Role\",\"name\":\"giver\"},\"subjects\":[{"
	     "\"kind\":\"User\",\"name\":\"eve\"}]}",
	     201, NULL);
	WANT(eve, "POST", IN_NS "/roles", role, 403, bad); // escalate only on "ok"
	WANT(eve, "PATCH", IN_NS "/roles/ok", patch, 200, NULL);
	WANT(eve, "POST", IN_NS "/rolebindings",
	     "{\"metadata\":{\"name\":\"good\"},\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"cluster-admin\"},"
	     "\"subjects\":[{\"kind\":\"User\",\"name\":\"mia\"}]}",
	     201, NULL);
	WANT(eve, "GET", "/api/v1/nodes", NULL, 403, NULL); // in her namespace only
}

// resourceNames, subresources, selectors, collections: the name in the request counts.
static void test_ways_around(void **state)
{
	struct harness *h = *state;
	td_auto_free char *eve = user("eve", "people");
	const char *secrets = "/api/v1/namespaces/default/secrets";

	WANT(h->admin, "POST", secrets, "{\"metadata\":{\"name\":\"mine\"}}", 201, NULL);
	WANT(h->admin, "POST", secrets, "{\"metadata\":{\"name\":\"other\"}}", 201, NULL);
	WANT(h->admin, "POST", IN_NS "/roles",
	     "{\"metadata\":{\"name\":\"r\"},\"rules\":[{\"verbs\":[\"get\",\"list\",\"watch\",\"patch\",\"delete\","
	     "\"deletecollection\"],\"apiGroups\":[\"\"],\"resources\":[\"secrets\"],\"resourceNames\":[\"mine\"]}]}",
	     201, NULL);
	WANT(h->admin, "POST", IN_NS "/rolebindings",
	     "{\"metadata\":{\"name\":\"r\"},\"roleRef\":{\"kind\":\"Role\",\"name\":\"r\"},\"subjects\":[{\"kind\":"
	     "\"User\",\"name\":\"eve\"}]}",
	     201, NULL);
	WANT(eve, "GET", "/api/v1/namespaces/default/secrets/mine", NULL, 200, NULL);
	WANT(eve, "GET", "/api/v1/namespaces/default/secrets/other", NULL, 403, NULL);
	WANT(eve, "GET", secrets, NULL, 403, NULL);
	WANT(eve, "GET", "/api/v1/secrets", NULL, 403, NULL);
	WANT(eve, "GET", "/api/v1/secrets?fieldSelector=metadata.name%3Dmine", NULL, 403, NULL);
	WANT(eve, "GET", "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dmine", NULL, 200, NULL);
	WANT(eve, "GET", "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother", NULL, 403, NULL);
	WANT(eve, "GET", "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name!%3Dother", NULL, 403, NULL);
	WANT(eve, "GET",
	     "/api/v1/namespaces/default/secrets?fieldSelector=type%3DOpaque&fieldSelector=metadata.name%3Dmine", NULL,
	     403, NULL);

	// As in a real API server, a selector for the name does not help a deletecollection.
	WANT(eve, "DELETE", "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dmine", NULL, 403, NULL);
	WANT(eve, "PATCH", "/api/v1/namespaces/default/secrets/other", "{}", 403, NULL);

	// A watch on the path of one object is a get of that object, whatever the selector says.
	td_auto(td_json_unref) struct td_json *j = NULL;
	h->as = eve;
	assert_int_equal(ask(h, "GET",
			     "/api/v1/namespaces/default/secrets/"
			     "mine?watch=1&fieldSelector=metadata.namespace%3Ddefault&timeoutSeconds=1",
			     NULL, NULL, &j),
			 200);
	assert_string_equal(td_jstr_or(td_json_root(j), "metadata.name", ""), "mine");

	// An apply that creates an object needs the right to create it.
	td_auto(td_json_unref) struct td_json *k = NULL;
	assert_int_equal(ask(h, "PATCH", "/api/v1/namespaces/default/secrets/mine?fieldManager=x",
			     "application/apply-patch+yaml",
			     "{apiVersion: v1, kind: Secret, metadata: {name: mine}, type: Opaque}", NULL),
			 200);
	h->as = h->admin;
	assert_int_equal(ask(h, "DELETE", "/api/v1/namespaces/default/secrets/mine", NULL, NULL, NULL), 200);
	h->as = eve;
	assert_int_equal(ask(h, "PATCH", "/api/v1/namespaces/default/secrets/mine?fieldManager=x",
			     "application/apply-patch+yaml", "{apiVersion: v1, kind: Secret, metadata: {name: mine}}",
			     &k),
			 403);
	assert_string_equal(td_jstr_or(td_json_root(k), "message", ""),
			    "secrets \"mine\" is forbidden: User \"eve\" cannot create resource \"secrets\" in API "
			    "group \"\" in the namespace \"default\"");
	h->as = h->admin;
}

// A custom resource under the name of a built-in kind would be written without that kind's rules.
static void test_no_second_definition(void **state)
{
	struct harness *h = *state;
	const char *crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
	const struct {
		const char *group, *plural, *note, *why;
		int status;
	} v[] = {
		{"rbac.authorization.k8s.io", "clusterrolebindings", NULL,
		 "protected groups must have approval annotation", 422},
		{"rbac.authorization.k8s.io", "clusterrolebindings", "unapproved, a test",
		 "the server itself has this resource", 422},
		{"rbac.authorization.k8s.io", "others", "because", "starting with", 422},
		{"rbac.authorization.k8s.io", "others", "unapproved, a test", NULL, 201},
		{"apps", "deployments", NULL, "the server itself has this resource", 422},
		{"example.com", "deployments", NULL, NULL, 201},
	};

	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_free char *note =
			v[i].note ? td_asprintf(",\"annotations\":{\"api-approved.kubernetes.io\":\"%s\"}", v[i].note)
				  : td_strdup("");
		td_auto_free char *body = td_asprintf(
			"{\"metadata\":{\"name\":\"%s.%s\"%s},\"spec\":{\"group\":\"%s\",\"scope\":\"Cluster\","
			"\"names\":{\"plural\":\"%s\",\"kind\":\"Evil\"},\"versions\":[{\"name\":\"v9\",\"served\":"
			"true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}}}]}}",
			v[i].plural, v[i].group, note, v[i].group, v[i].plural);
		td_auto(td_json_unref) struct td_json *j = NULL;
		int status = ask(h, "POST", crds, JSON, body, &j);
		const char *m = td_jstr_or(td_json_root(j), "message", "");
		if (status != v[i].status || (v[i].why && !strstr(m, v[i].why)))
			fail_msg("%s.%s: %d %s", v[i].plural, v[i].group, status, m);
	}

	WANT(h->admin, "GET", "/apis/rbac.authorization.k8s.io/v9/clusterrolebindings", NULL, 404, NULL);
}

// In a Tenant whose pods are their people's nobody becomes another, nor changes what another's pod leaves to him.
static void test_whose_pods(void **state)
{
	struct harness *h = *state;
	const char *pods = "/api/v1/namespaces/t/pods";
	td_auto_free char *ann = user("ann", "people"), *eve = user("eve", "people");
	WANT(h->admin, "POST", "/api/v1/namespaces",
	     "{\"metadata\":{\"name\":\"t\",\"labels\":{\"tandem.dev/tenant\":\"t\"},\"annotations\":{"
	     "\"tandem.dev/people\":\"project\\n3000:5000::ann:/home/ann:ann\\n3001:5000::eve:/home/eve:eve\"}}}",
	     201, NULL);
	WANT(h->admin, "POST", RBAC "/namespaces/t/rolebindings",
	     "{\"metadata\":{\"name\":\"x\"},\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"edit\"},"
	     "\"subjects\":[{\"kind\":\"Group\",\"name\":\"people\"}]}",
	     201, NULL);
	WANT(ann, "POST", pods,
	     "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}", 201, NULL);
	static const char *const masks[] = {"\"0000\"", "null"};
	for (size_t i = 0; i < TD_LEN(masks); i++) {
		td_auto_free char *body =
			td_asprintf("{\"metadata\":{\"annotations\":{\"tandem.dev/umask\":%s}}}", masks[i]);
		WANT(eve, "PATCH", "/api/v1/namespaces/t/pods/p", body, 403,
		     "pods \"p\" is forbidden: metadata.annotations[\"tandem.dev/umask\"]: the pod runs as its person, "
		     "and only he says who else may write his files: leave it as it is");
	}
	WANT(eve, "PATCH", "/api/v1/namespaces/t/pods/p", "{\"metadata\":{\"annotations\":{\"seen\":\"yes\"}}}", 200,
	     NULL);
	WANT(ann, "PATCH", "/api/v1/namespaces/t/pods/p",
	     "{\"metadata\":{\"annotations\":{\"tandem.dev/umask\":\"0077\"}}}", 200, NULL);
}

// A controller has read a template when it was one person's, and makes a pod of it when it is another's: of neither.
static void test_a_template_is_whose_it_was(void **state)
{
	struct harness *h = *state;
	td_auto_free char *controllers = user("system:tandem:controllers", "tandem:roles");
	td_auto(td_json_unref) struct td_json *job = NULL;
	WANT(h->admin, "POST", "/api/v1/namespaces",
	     "{\"metadata\":{\"name\":\"t\",\"labels\":{\"tandem.dev/tenant\":\"t\"}}}", 201, NULL);
	assert_int_equal(
		ask(h, "POST", "/apis/batch/v1/namespaces/t/jobs", JSON,
		    "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"template\":{\"spec\":{\"restartPolicy\":\"Never\","
		    "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}",
		    &job),
		201);
	static const struct {
		const char *notes;
		int status;
		const char *message;
	} v[] = {{"{\"tandem.dev/user\":\"eve\"}", 409,
		  "pods \"p\" is made from what was eve's, which is admin's by now: read it again"},
		 {"{}", 409, "pods \"p\" is made from what was nobody's, which is admin's by now: read it again"},
		 {"{\"tandem.dev/user\":\"admin\"}", 201, NULL}};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_free char *body = td_asprintf("{\"metadata\":{\"name\":\"p\",\"annotations\":%s,"
						      "\"ownerReferences\":[{\"apiVersion\":\"batch/v1\","
						      "\"kind\":\"Job\",\"name\":\"j\",\"uid\":\"%s\",\"controller\":"
						      "true}]},\"spec\":{\"containers\":[{"
						      "\"name\":\"c\",\"image\":\"i\"}]}}",
						      v[i].notes, td_jstr(td_json_root(job), "metadata.uid"));
		WANT(controllers, "POST", "/api/v1/namespaces/t/pods", body, v[i].status, v[i].message);
	}
	WANT(controllers, "POST", "/api/v1/namespaces/default/pods", // no Tenant's: there nobody counts
	     "{\"metadata\":{\"name\":\"p\",\"annotations\":{\"tandem.dev/user\":\"eve\"}},\"spec\":{\"containers\":[{"
	     "\"name\":\"c\",\"image\":\"i\"}]}}",
	     201, NULL);
}

static char *noted(struct harness *h, const char *path, const char *key)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(ask(h, "GET", path, NULL, NULL, &j), 200);
	const char *v = td_jkey_str(td_jget(td_json_root(j), "metadata.annotations"), key);
	return td_strdup(v ? v : "nobody");
}

// Who made a record, or asked for an act on a node, has the server written, whatever the request says.
static void test_who_made_a_record(void **state)
{
	struct harness *h = *state;
	td_auto_free char *eve = user("eve", "system:masters"), *crd = NULL;
	const char *node = "/api/v1/nodes/n", *act = "/apis/tandem.dev/v1alpha1/nodeactions/a";
	WANT(h->admin, "POST", "/api/v1/nodes",
	     "{\"metadata\":{\"name\":\"n\",\"annotations\":{\"tandem.dev/action-by\":\"mallory\"}}}", 201, NULL);
	static const struct {
		bool eve;
		const char *notes, *by;
	} v[] = {{true, "{}", "nobody"},
		 {true, "{\"tandem.dev/action-by\":\"mallory\"}", "nobody"},
		 {true, "{\"tandem.dev/action\":\"test\",\"tandem.dev/action-by\":\"mallory\"}", "eve"},
		 {false, "{\"tandem.dev/action\":\"test\",\"tandem.dev/action-by\":null,\"seen\":\"yes\"}", "eve"},
		 {false, "{\"tandem.dev/action\":\"reboot\"}", "admin"},
		 {true, "{\"tandem.dev/action\":null}", "nobody"}};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_free char *body = td_asprintf("{\"metadata\":{\"annotations\":%s}}", v[i].notes);
		WANT(v[i].eve ? eve : h->admin, "PATCH", node, body, 200, NULL);
		td_auto_free char *by = noted(h, node, "tandem.dev/action-by");
		assert_string_equal(by, v[i].by);
	}
	// The operator moves them aside, and nobody else: its word would be that of who is named there.
	static const struct {
		int who; // 0: eve, 1: the operator, 2: by the status
		const char *taken, *left;
	} w[] = {{0, "\"0 test mallory\"", "nobody"},
		 {2, "\"0 test mallory\"", "nobody"},
		 {1, "\"1 test eve\"", "1 test eve"},
		 {0, "\"1 test mallory\"", "1 test eve"},
		 {0, "null", "nobody"}};
	td_auto_free char *role = user("system:tandem:operator", "tandem:roles");
	for (size_t i = 0; i < TD_LEN(w); i++) {
		td_auto_free char *body =
			td_asprintf("{\"metadata\":{\"annotations\":{\"tandem.dev/action-taken\":%s}}}", w[i].taken);
		WANT(w[i].who == 1 ? role : eve, "PATCH", w[i].who == 2 ? "/api/v1/nodes/n/status" : node, body, 200,
		     NULL);
		td_auto_free char *left = noted(h, node, "tandem.dev/action-taken");
		assert_string_equal(left, w[i].left);
	}

	td_auto(td_json_unref) struct td_json *kind = td_kind_crd("NodeAction");
	crd = td_json_text(td_json_root(kind), NULL);
	WANT(h->admin, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd, 201, NULL);
	WANT(eve, "POST", "/apis/tandem.dev/v1alpha1/nodeactions",
	     "{\"apiVersion\":\"tandem.dev/v1alpha1\",\"kind\":\"NodeAction\",\"metadata\":{\"name\":\"a\","
	     "\"annotations\":{\"tandem.dev/made-by\":\"mallory\"}},\"spec\":{\"node\":\"n\",\"action\":\"test\"}}",
	     201, NULL);
	static const char *const later[] = {"\"mallory\"", "null"};
	for (size_t i = 0; i < TD_LEN(later); i++) {
		td_auto_free char *body =
			td_asprintf("{\"metadata\":{\"annotations\":{\"tandem.dev/made-by\":%s}}}", later[i]);
		WANT(h->admin, "PATCH", act, body, 200, NULL);
		td_auto_free char *by = noted(h, act, "tandem.dev/made-by");
		assert_string_equal(by, "eve");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_who_made_a_record, setup, teardown),
		cmocka_unit_test(test_decisions),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_covers),
		cmocka_unit_test_setup_teardown(test_seen_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_escalation, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ways_around, setup, teardown),
		cmocka_unit_test_setup_teardown(test_whose_pods, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_template_is_whose_it_was, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_second_definition, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
