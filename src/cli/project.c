// tandem project: the projects of Tenants: accounts in Slurm with people, a quota and bills of their own, which runs and
// jobs name. Who has logged in keeps those of the Tenants whose admin he is, at the gateway (project_own.c). Whoever
// has the cluster's rights makes them as Tenants below another one, without namespaces.
#include "cli/project.h"

#include "api/quantity.h"
#include "api/storagequota.h"
#include "base/names.h"
#include "cli/client.h"
#include "cli/nodeview.h"
#include "cmd/roles.h"
#include "kube/tenant.h"
#include "slurm/resource.h"

#include <stdio.h>
#include <string.h>

static int get(struct td_kube *k, const char *name, struct td_object **ret, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_kube_get(k, &td_tenants, NULL, name, NULL, &o, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, r, "there is no project \"%.60s\": `tandem project list` lists them", name);
	if (!r && !td_kube_tenant_is_project(o))
		return td_fail(err, TD_INVALID,
			       "%s is no project: it is a Tenant %s, which kubectl changes and deletes", name,
			       td_jstr(o->root, "spec.parent") ? "with namespaces" : "below no other one");
	if (!r && td_object_label(o, TD_LABEL_PROJECT))
		return td_fail(
			err, TD_INVALID,
			"%s is what becomes of Project %s/%s, which admins of its Tenant keep: change that (kubectl -n "
			"%s edit project %s)",
			name, td_object_label(o, TD_LABEL_PROJECT_NS), td_object_label(o, TD_LABEL_PROJECT),
			td_object_label(o, TD_LABEL_PROJECT_NS), td_object_label(o, TD_LABEL_PROJECT));
	if (!r)
		*ret = td_steal(o);
	return r;
}

// ---- list ----

static void view(const struct td_object *o, yyjson_mut_doc *d, yyjson_mut_val *list)
{
	yyjson_mut_val *p = yyjson_mut_arr_add_obj(d, list);
	const yyjson_val *ready = td_jfind(td_jget(o->root, "status.conditions"), "type", "Ready");
	yyjson_val *m;
	size_t i, n;
	td_jm_str(d, p, "name", o->name);
	td_jm_str(d, p, "tenant", td_jstr(o->root, "spec.parent"));
	td_jm_str(d, p, "account", td_jstr(o->root, "status.account"));
	td_jm_int(d, p, "weight", td_jint(o->root, "spec.weight", 1));
	if (td_jget(o->root, "spec.quota"))
		td_jm_copyval(d, p, "quota", td_jget(o->root, "spec.quota"));
	yyjson_mut_val *people = td_jm_arr(d, p, "members");
	yyjson_arr_foreach (td_jget(o->root, "spec.members"), i, n, m)
		yyjson_mut_arr_add_strcpy(d, people, td_jstr_or(m, "user", "?"));
	td_jm_bool(d, p, "ready", td_streq(td_jstr(ready, "status"), "True"));
	td_jm_str(d, p, "message", td_jstr(ready, "message"));
}

static void joined(yyjson_val *list, struct td_buf *b)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (list, i, n, x)
		td_buf_printf(b, "%s%s", i ? "," : "", yyjson_get_str(x));
	if (!b->len)
		td_buf_puts(b, "-");
}

static void quotas(yyjson_val *map, struct td_buf *b)
{
	yyjson_val *k, *x;
	size_t i, n;
	yyjson_obj_foreach (map, i, n, k, x) {
		td_buf_printf(b, "%s%s=", i ? "," : "", yyjson_get_str(k));
		if (yyjson_is_str(x))
			td_buf_puts(b, yyjson_get_str(x));
		else
			td_buf_printf(b, "%lld", (long long)yyjson_get_sint(x));
	}
	if (!b->len)
		td_buf_puts(b, "-");
}

void td_project_show(const yyjson_val *all, const struct td_project_asked *a)
{
	if (a->output) {
		td_auto_free char *text = td_json_pretty(all);
		puts(text);
		return;
	}
	if (!yyjson_arr_size(td_jget(all, "projects"))) {
		printf("There are no projects%s%s. `tandem project create` makes one.\n",
		       a->tenant ? " of Tenant " : "", a->tenant ? a->tenant : "");
		return;
	}
	printf("%-20s %-20s %-24s %-24s %s\n", "PROJECT", "TENANT", "QUOTA", "PEOPLE", "READY");
	yyjson_val *p;
	size_t i, n;
	yyjson_arr_foreach (td_jget(all, "projects"), i, n, p) {
		td_auto_buf struct td_buf quota = {0}, people = {0};
		bool ready = td_jbool(p, "ready", false);
		quotas(td_jget(p, "quota"), &quota);
		joined(td_jget(p, "members"), &people);
		printf("%-20s %-20s %-24.60s %-24.60s %s\n", td_jstr_or(p, "name", "?"), td_jstr_or(p, "tenant", "?"),
		       td_buf_str(&quota), td_buf_str(&people), ready ? "yes" : td_jstr_or(p, "message", "not yet"));
	}
}

static int list(struct td_kube *k, const struct td_project_asked *a, struct td_error *err)
{
	td_auto_objects struct td_objects all = {0};
	int r = td_kube_list(k, &td_tenants, NULL, NULL, NULL, NULL, &all, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *projects = td_jm_arr(d, yyjson_mut_doc_get_root(d), "projects");
	for (size_t i = 0; i < all.n; i++)
		if (td_kube_tenant_is_project(all.v[i]) &&
		    (!a->tenant || td_streq(td_jstr(all.v[i]->root, "spec.parent"), a->tenant)))
			view(all.v[i], d, projects);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	td_project_show(td_json_root(j), a);
	return 0;
}

// ---- create, delete ----

static int add_people(const struct td_object *tenant, const struct td_strv *names, yyjson_mut_doc *d,
		      yyjson_mut_val *people, struct td_error *err)
{
	yyjson_val *all = td_jget(tenant->root, "spec.members"), *m;
	size_t i, n;
	for (i = 0; i < names->n; i++) {
		if (!td_kube_tenant_runs(td_jfind(all, "user", names->v[i])))
			return td_fail(
				err, TD_INVALID,
				"\"%.40s\" runs nothing in Tenant %s: make him a member there first (spec.members)",
				names->v[i], tenant->name);
	}
	yyjson_arr_foreach (all, i, n, m) {
		const char *user = td_jstr_or(m, "user", ""), *role = td_jstr_or(m, "role", "member");
		if (names->n ? !td_strv_has(names, user) : !td_kube_tenant_runs(m))
			continue;
		yyjson_mut_val *p = yyjson_mut_arr_add_obj(d, people);
		td_jm_str(d, p, "user", user);
		td_jm_str(d, p, "role", role);
	}
	return 0;
}

int td_project_quota(const char *word, char **ret_resource, const char **ret_amount, struct td_error *err)
{
	const char *is = strchr(word, '=');
	if (!is || is == word || !is[1])
		return td_fail(err, TD_INVALID, "--quota \"%.60s\": give RESOURCE=AMOUNT, such as gpu=4", word);
	*ret_resource = td_strndup(word, (size_t)(is - word));
	*ret_amount = is + 1;
	return 0;
}

// What the cluster does not have is refused here, and not only by a condition of the Tenant later.
// tenant: the one above, or the project itself.
static int quota_of(struct td_kube *k, const struct td_project_asked *a, const struct td_object *tenant,
		    yyjson_mut_doc *d, yyjson_mut_val *quota, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = NULL;
	int r = td_kube_get(k, &td_slurmclusters, td_jstr(tenant->root, "spec.cluster.namespace"),
			    td_jstr(tenant->root, "spec.cluster.name"), NULL, &sc, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	for (size_t i = 0; i < a->quota.n; i++) {
		const char *q = a->quota.v[i], *amount;
		td_auto_free char *resource = NULL, *tres = NULL;
		int64_t n;
		if ((r = td_project_quota(q, &resource, &amount, err)))
			return r;
		if (td_api_storage_word(resource))
			return td_fail(err, TD_INVALID,
				       "--quota %.60s: a project has no namespaces, so no storage: it is limited in "
				       "spec.quota of Tenant %s",
				       q, tenant->name);
		if (td_slurm_resource(sc ? sc->root : NULL, resource, &tres, err))
			return td_wrap(err, "--quota %.60s", q);
		if (td_quantity_ceil(amount, &n, NULL) || n < 0)
			return td_fail(err, TD_INVALID, "--quota %.60s: give a quantity from 0 up, such as 8 or 64Gi",
				       q);
		td_jm_key_str(d, quota, resource, amount);
	}
	return 0;
}

static int create(struct td_kube *k, const struct td_project_asked *a, const char *name, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *tenant = NULL;
	int r = td_kube_get(k, &td_tenants, NULL, a->tenant, NULL, &tenant, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, r, "--tenant: there is no Tenant \"%.60s\": `kubectl get tenants` lists them",
			       a->tenant);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *spec;
	td_jm_str(d, o, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, o, "kind", "Tenant");
	td_jm_str(d, o, "metadata.name", name);
	spec = td_jm_obj(d, o, "spec");
	td_jm_copyval(d, spec, "cluster", td_jget(tenant->root, "spec.cluster"));
	td_jm_str(d, spec, "parent", a->tenant);
	td_jm_arr(d, spec, "namespaces");
	td_jm_int(d, spec, "weight", a->weight ? a->weight : 1);
	if (a->quota.n && (r = quota_of(k, a, tenant, d, td_jm_obj(d, spec, "quota"), err)))
		return r;
	if ((r = add_people(tenant, &a->members, d, td_jm_arr(d, spec, "members"), err)))
		return r;
	r = td_kube_create(k, &td_tenants, NULL, o, NULL, NULL, err);
	if (r == TD_EXISTS)
		return td_fail(err, r, "there is a Tenant or a project \"%s\" already: take another name", name);
	if (!r)
		printf("Project %s of Tenant %s. Its people run in it with --account %s.\n", name, a->tenant, name);
	return r;
}

static int end(struct td_kube *k, const char *name, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = get(k, name, &o, err);
	if (!r)
		r = td_kube_delete(k, &td_tenants, NULL, name,
				   &(struct td_kube_delete_opts){.uid = o->uid, .grace_s = -1}, NULL, err);
	if (!r)
		printf("Project %s goes when its jobs are over. What it has used stays in Slurm's history.\n", name);
	return r;
}

// ---- people ----

static int change(struct td_kube *k, const char *name, const char *user, bool join, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL, *tenant = NULL;
	int r = get(k, name, &o, err);
	if (r)
		return r;
	yyjson_val *all = td_jget(o->root, "spec.members"), *m;
	bool has = td_jfind(all, "user", user) != NULL;
	if (has && join)
		printf("%s is in project %s already.\n", user, name);
	if (has == join)
		return join ? 0 : td_fail(err, TD_NOT_FOUND, "\"%.40s\" is not in project %s", user, name);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *people;
	td_jm_str(d, root, "metadata.uid", o->uid);
	td_jm_str(d, root, "metadata.resourceVersion", o->rv);
	people = td_jm_arr(d, root, "spec.members");
	size_t i, n;
	yyjson_arr_foreach (all, i, n, m)
		if (join || !td_streq(td_jstr(m, "user"), user))
			yyjson_mut_arr_append(people, yyjson_val_mut_copy(d, m));
	if (join) {
		td_auto_strv struct td_strv one = {0};
		td_strv_add(&one, user);
		if ((r = td_kube_get(k, &td_tenants, NULL, td_jstr(o->root, "spec.parent"), NULL, &tenant, err)) ||
		    (r = add_people(tenant, &one, d, people, err)))
			return r;
	}
	r = td_kube_patch(k, TD_AT(&td_tenants, NULL, name), TD_PATCH_MERGE, root, NULL, NULL, err);
	if (!r && join)
		printf("%s is in project %s, and runs in it with --account %s once Slurm has it.\n", user, name,
		       td_jstr_or(o->root, "status.account", name));
	else if (!r)
		printf("%s is out of project %s: he submits nothing more to it.\n", user, name);
	return r;
}

static int set(struct td_kube *k, const struct td_project_asked *a, const char *name, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = get(k, name, &o, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", o->uid);
	td_jm_str(d, root, "metadata.resourceVersion", o->rv);
	if (a->quota.n && (r = quota_of(k, a, o, d, td_jm_obj(d, root, "spec.quota"), err)))
		return r;
	if (a->weight)
		td_jm_int(d, root, "spec.weight", a->weight);
	if ((r = td_kube_patch(k, TD_AT(&td_tenants, NULL, name), TD_PATCH_MERGE, root, NULL, NULL, err)))
		return r;
	printf("Project %s is changed.\n", name);
	return 0;
}

// The option that this verb would leave aside; NULL: none.
static const char *idle_option(const struct td_project_asked *a, const char *verb)
{
	bool makes = !strcmp(verb, "create"), sets = !strcmp(verb, "set");
	return makes                                    ? NULL
	       : a->quota.n && !sets                    ? "--quota"
	       : a->members.n                           ? "--member"
	       : a->weight && !sets                     ? "--weight"
	       : a->tenant && strcmp(verb, "list") != 0 ? "--tenant"
							: NULL;
}

static int run(struct td_project_asked *a, const char *verb, const char *name, const char *user)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_nodeview struct td_nodeview v = {0};
	bool own = !a->remote.kubeconfig && td_client_known();
	int r = own ? td_project_own(a, verb, name, user, &err) : td_cli_nodes_open(&a->remote, &v, &err);
	if (!r && !own)
		r = !strcmp(verb, "list")     ? list(v.kube, a, &err)
		    : !strcmp(verb, "create") ? create(v.kube, a, name, &err)
		    : !strcmp(verb, "delete") ? end(v.kube, name, &err)
		    : !strcmp(verb, "set")    ? set(v.kube, a, name, &err)
					      : change(v.kube, name, user, !strcmp(verb, "add"), &err);
	if (r)
		fprintf(stderr, "tandem project: %s\n", err.msg);
	return r ? 1 : 0;
}

int td_project_main(int argc, char **argv)
{
	struct td_project_asked a = {0};
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "tenant",
		 .value = "TENANT",
		 TD_OPT_TEXT(&a.tenant),
		 .help = "of create: whose project it is; of list: only those of this one"},
		{.name = "member",
		 .value = "USER",
		 TD_OPT_LIST(&a.members),
		 .help = "of create: who runs in it (repeat); without it all who run in the Tenant"},
		{.name = "quota",
		 .value = "RESOURCE=N",
		 TD_OPT_LIST(&a.quota),
		 .help = "of create and set: what it may hold, such as gpu=4 (repeat); the Tenant's own quota holds "
			 "too"},
		{.name = "weight",
		 .value = "N",
		 TD_OPT_INT(&a.weight, 1, 1000000),
		 .help = "of create and set: its share beside the Tenant's other projects (default 1)"},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: projects, for machines",
		 TD_OPT_TEXT(&a.output),
		 .choices = "json"},
		{.name = "kubeconfig",
		 .value = "FILE",
		 TD_OPT_TEXT(&a.remote.kubeconfig),
		 .help = "a cluster where Tandem was installed, instead of $TANDEM_HOME"},
	};
	const struct td_command line = {
		.name = "project",
		.about = "Keeps the projects of Tenants. A project has an account of its own, which runs and jobs name "
			 "(--account), with people, a quota, usage and bills. Who has logged in (tandem login) keeps "
			 "those "
			 "of Tenants whose admin he is, and they are called TENANT.NAME; --kubeconfig, or nobody "
			 "logged in: the cluster's administrator:\n"
			 "  tandem project list                     all, or those of --tenant\n"
			 "  tandem project create NAME --tenant T   makes one\n"
			 "  tandem project add NAME USER            lets somebody in\n"
			 "  tandem project remove NAME USER         and out again\n"
			 "  tandem project set NAME --quota R=N     other limits, or another --weight\n"
			 "  tandem project delete NAME              ends it, once its jobs are over",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = 3,
		.args = "list|create|add|remove|set|delete [NAME [USER]]",
		.choices = "list|create|add|remove|set|delete"};
	static const struct {
		const char *verb;
		size_t words;
	} verbs[] = {{"list", 1}, {"create", 2}, {"add", 3}, {"remove", 3}, {"set", 2}, {"delete", 2}};
	if (!td_command_line(&line, argc, argv, &words, &code)) {
		td_strv_done(&a.members);
		td_strv_done(&a.quota);
		return code;
	}
	size_t n = 0, at = 0;
	while (words[n])
		n++;
	while (at < TD_LEN(verbs) && strcmp(verbs[at].verb, words[0]) != 0)
		at++;
	if (at == TD_LEN(verbs))
		code = td_command_wrong("project", "\"%s\": give list, create, add, remove, set or delete", words[0]);
	else if (n != verbs[at].words)
		code = td_command_wrong("project", "%s: give %s", words[0],
					verbs[at].words == 1   ? "nothing else"
					: verbs[at].words == 2 ? "the project's name, and nothing else"
							       : "the project's name and a user's");
	else if (!strcmp(words[0], "create") && !a.tenant)
		code = td_command_wrong("project", "create: whose? Give --tenant TENANT");
	else if (!strcmp(words[0], "set") && !a.quota.n && !a.weight)
		code = td_command_wrong("project", "set: what? Give --quota RESOURCE=N or --weight N");
	else if (idle_option(&a, words[0]))
		code = td_command_wrong("project", "%s: %s is of create%s", words[0], idle_option(&a, words[0]),
					n > 1 ? "; `tandem project set` changes a project that is there" : "");
	else
		code = run(&a, words[0], n > 1 ? words[1] : NULL, n > 2 ? words[2] : NULL);
	td_strv_done(&a.members);
	td_strv_done(&a.quota);
	return code;
}
