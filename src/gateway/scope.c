#include "gateway/scope.h"

#include "gateway/hub.h"
#include "gateway/usage.h"
#include "kube/tenant.h"

#include <string.h>

int td_gateway_scope_begin(struct td_gateway_ask *q, const char *project, bool may, const char *what,
			   struct td_error *err)
{
	if (!may)
		return td_fail(
			err, TD_DENIED,
			"this key is of project %.63s alone, and %s is not done with it: use another key of yours",
			project, what);
	// What runs elsewhere is not known by its project here.
	td_auto(td_hub_unref) struct td_hub *hub = NULL;
	int r = td_hub_ask(q->g, &hub, err);
	if (r)
		return r;
	if (hub)
		return td_fail(
			err, TD_DENIED,
			"a key of one project is not taken at the hub of a federation: use another key of yours");
	q->project = project;
	return 0;
}

int td_gateway_scope_is(struct td_gateway_ask *q, const char *account, struct td_error *err)
{
	td_auto_viewer struct td_gateway_viewer v = {0};
	int r = td_gateway_tenants(q->g, td_gateway_cancel(q), &v, err);
	if (r)
		return r;
	const struct td_object *t = td_gateway_tenant_of(&v, account);
	const yyjson_val *m = t ? td_gateway_member(t, q->user.name) : NULL;
	if (!t || !td_kube_tenant_is_project(t) || !td_kube_tenant_runs(m))
		return td_fail(err, TD_NOT_FOUND, "you run in no project \"%.63s\": `tandem project list` shows yours",
			       account);
	return 0;
}

static int step(const struct td_gateway_ask *q, yyjson_mut_doc *d, yyjson_mut_val *o, struct td_error *err)
{
	const char *account = td_jm_getstr(o, "account");
	if (account && strcmp(account, q->project) != 0)
		return td_fail(err, TD_DENIED, "account: this key is of project %.63s alone: leave it out", q->project);
	if (!account)
		td_jm_str(d, o, "account", q->project);
	return 0;
}

int td_gateway_scope_body(struct td_gateway_ask *q, const char *steps, struct td_json **ret, struct td_error *err)
{
	if (!q->project)
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(q->body);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *list = steps ? td_jm_get(o, steps) : NULL;
	int r = steps ? 0 : step(q, d, o, err);
	for (size_t i = 0; i < yyjson_mut_arr_size(list) && !r; i++)
		r = step(q, d, yyjson_mut_arr_get(list, i), err);
	if (r)
		return r;
	*ret = td_json_from_mut(o);
	q->body = td_json_root(*ret);
	return 0;
}

bool td_gateway_scope_run(const struct td_gateway_ask *q, const yyjson_val *record)
{
	yyjson_val *steps = td_jget(record, "job.steps"), *x;
	size_t i, n;
	bool its = !q->project || yyjson_arr_size(steps);
	yyjson_arr_foreach (steps, i, n, x)
		its &= !q->project || td_streq(td_jstr(x, "account"), q->project);
	return its;
}

bool td_gateway_scope_session(const struct td_gateway_ask *q, const char *account)
{
	return !q->project || td_streq(account, q->project);
}
