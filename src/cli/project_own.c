// The projects of one's own Tenants, at the gateway.
#include "cli/client.h"
#include "cli/project.h"

#include <stdio.h>
#include <string.h>

static int quotas(const struct td_project_asked *a, yyjson_mut_doc *d, yyjson_mut_val *o, struct td_error *err)
{
	yyjson_mut_val *map = a->quota.n ? td_jm_obj(d, o, "quota") : NULL;
	for (size_t i = 0; i < a->quota.n; i++) {
		td_auto_free char *resource = NULL;
		const char *amount;
		int r = td_project_quota(a->quota.v[i], &resource, &amount, err);
		if (r)
			return r;
		td_jm_key_str(d, map, resource, amount);
	}
	if (a->weight)
		td_jm_int(d, o, "weight", a->weight);
	return 0;
}

static int list(struct td_client *c, const struct td_project_asked *a, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_client_call(c, "GET", "/api/v1/projects", NULL, &j, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *some = td_jm_arr(d, yyjson_mut_doc_get_root(d), "projects");
	yyjson_val *p;
	size_t i, n;
	yyjson_arr_foreach (td_jget(td_json_root(j), "projects"), i, n, p)
		if (!a->tenant || td_streq(td_jstr(p, "tenant"), a->tenant))
			yyjson_mut_arr_append(some, yyjson_val_mut_copy(d, p));
	td_auto(td_json_unref) struct td_json *shown = td_json_from_mut(yyjson_mut_doc_get_root(d));
	td_project_show(td_json_root(shown), a);
	return 0;
}

static int create(struct td_client *c, const struct td_project_asked *a, const char *name, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *people = a->members.n ? td_jm_arr(d, o, "members") : NULL;
	td_jm_str(d, o, "tenant", a->tenant);
	td_jm_str(d, o, "name", name);
	for (size_t i = 0; i < a->members.n; i++)
		yyjson_mut_arr_add_strcpy(d, people, a->members.v[i]);
	int r = quotas(a, d, o, err);
	if (!r)
		r = td_client_call(c, "POST", "/api/v1/projects", d, &j, err);
	if (r)
		return r;
	const char *account = td_jstr_or(td_json_root(j), "account", name);
	printf("Project %s of Tenant %s. Its people run in it with --account %s.\n", account, a->tenant, account);
	return 0;
}

int td_project_own(const struct td_project_asked *a, const char *verb, const char *name, const char *user,
		   struct td_error *err)
{
	td_auto_client struct td_client c = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_auto_buf struct td_buf path = {0};
	int r = td_client_open(&c, err);
	if (r)
		return r;
	if (!strcmp(verb, "list"))
		return list(&c, a, err);
	if (!strcmp(verb, "create"))
		return create(&c, a, name, err);
	td_buf_puts(&path, "/api/v1/projects/");
	td_url_escape(&path, name);
	if (!strcmp(verb, "delete")) {
		if (!(r = td_client_call(&c, "DELETE", td_buf_str(&path), NULL, NULL, err)))
			printf("Project %s goes when its jobs are over. What it has used stays in Slurm's history.\n",
			       name);
		return r;
	}
	bool add = !strcmp(verb, "add"), set = !strcmp(verb, "set");
	if (set && (r = quotas(a, d, o, err)))
		return r;
	if (!set)
		yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, o, verb), user);
	if ((r = td_client_call(&c, "PATCH", td_buf_str(&path), d, NULL, err)))
		return r;
	if (set)
		printf("Project %s is changed.\n", name);
	else if (add)
		printf("%s is in project %s, and runs in it with --account %s once Slurm has it.\n", user, name, name);
	else
		printf("%s is out of project %s: he submits nothing more to it.\n", user, name);
	return 0;
}
