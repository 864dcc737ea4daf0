// Whose figures a person is shown: his own; those of the accounts that he coordinates in Slurm; those of
// the Tenants whose admin he is, and of all below them; everybody's, if he is Slurm's operator or
// administrator. Where Slurm hides people's jobs from each other (PrivateData), being a Tenant's admin
// shows him no more than Slurm does.
#include "gateway/usage.h"

#include "base/log.h"

#include <string.h>

void td_gateway_viewer_done(struct td_gateway_viewer *v)
{
	free(v->user);
	td_strv_done(&v->leads);
	td_objects_done(&v->tenants);
	free(v->mine);
	*v = (struct td_gateway_viewer){0};
}

const yyjson_val *td_gateway_member(const struct td_object *tenant, const char *user)
{
	return td_jfind(td_jget(tenant->root, "spec.members"), "user", user);
}

const struct td_object *td_gateway_tenant_of(const struct td_gateway_viewer *v, const char *account)
{
	for (size_t i = 0; i < v->n_mine; i++)
		if (td_streq(td_jstr(v->mine[i]->root, "status.account"), account))
			return v->mine[i];
	return NULL;
}

const struct td_object *td_gateway_parent(const struct td_object *const *all, size_t n, const struct td_object *t)
{
	const char *name = td_jstr(t->root, "spec.parent");
	for (size_t i = 0; i < n && name; i++)
		if (!strcmp(all[i]->name, name))
			return all[i];
	return NULL;
}

bool td_gateway_tenant_below(const struct td_gateway_viewer *v, const struct td_object *t, const char *top)
{
	for (size_t steps = 0; t && steps <= v->n_mine; steps++) {
		if (!strcmp(t->name, top))
			return true;
		t = td_gateway_parent(v->mine, v->n_mine, t);
	}
	return false;
}

bool td_gateway_leads(const struct td_object *tenant, const char *user)
{
	return tenant && td_streq(td_jstr(td_gateway_member(tenant, user), "role"), "admin");
}

// The accounts of Tenants whose admin he is, and of those below.
static void add_tenants(struct td_gateway_viewer *v)
{
	for (size_t i = 0; i < v->n_mine; i++) {
		if (!td_gateway_leads(v->mine[i], v->user))
			continue;
		for (size_t k = 0; k < v->n_mine; k++) {
			const char *account = td_jstr(v->mine[k]->root, "status.account");
			if (account && td_gateway_tenant_below(v, v->mine[k], v->mine[i]->name) &&
			    !td_strv_has(&v->leads, account))
				td_strv_add(&v->leads, account);
		}
	}
}

int td_gateway_tenants(struct td_gateway *g, struct td_cancel *c, struct td_gateway_viewer *ret, struct td_error *err)
{
	int r = td_kube_list(g->kube, &td_tenants, NULL, NULL, NULL, c, &ret->tenants, err);
	if (r && r != TD_NOT_FOUND) // that is: a cluster without the kind
		return td_wrap(err, "reading Tenants");
	ret->mine = td_calloc(ret->tenants.n + 1, sizeof(*ret->mine));
	for (size_t i = 0; i < ret->tenants.n; i++)
		if (td_streq(td_jstr(ret->tenants.v[i]->root, "spec.cluster.namespace"), g->o.ns) &&
		    td_streq(td_jstr(ret->tenants.v[i]->root, "spec.cluster.name"), g->o.cluster))
			ret->mine[ret->n_mine++] = ret->tenants.v[i];
	return 0;
}

int td_gateway_viewer(struct td_gateway_ask *q, struct td_gateway_viewer *ret, struct td_error *err)
{
	struct td_gateway *g = q->g;
	td_auto_viewer struct td_gateway_viewer v = {.user = td_strdup(q->user.name)};
	td_auto_rights struct td_slurm_rights rights = {0};
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
	if (!sc || !td_jbool(sc->root, "spec.accounting.enabled", false))
		return td_fail(err, TD_UNSUPPORTED,
			       "Slurm keeps no history here: an administrator sets spec.accounting of SlurmCluster "
			       "%s/%s",
			       g->o.ns, g->o.cluster);
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = td_gateway_slurm(g, err);
	if (!l)
		return err->code;
	int r = td_slurm_rights(l->client, v.user, td_gateway_cancel(q), &rights, err);
	if (r)
		return r;
	v.all = rights.all;
	v.leads = rights.leads;
	rights.leads = (struct td_strv){0};

	// A person is shown the rest where the gateway may not read Tenants.
	struct td_error e = TD_ERROR_INIT;
	if ((r = td_gateway_tenants(g, td_gateway_cancel(q), &v, &e)) && r != TD_DENIED) {
		if (err)
			*err = e;
		return r;
	}
	if (r)
		td_debug("Tenants are not shown: %s", e.msg);
	if (!td_gateway_private(g))
		add_tenants(&v);
	*ret = v;
	v = (struct td_gateway_viewer){0};
	return 0;
}
