// From a Tenant to what room pool judges.
#include "operator/tenant.h"

#include "api/quantity.h"
#include "api/storagequota.h"
#include "kube/tenant.h"
#include "slurm/accounting.h"
#include "slurm/resource.h"

#include <stdio.h>
#include <string.h>

static bool amount(const yyjson_val *v, const char *tres, int64_t *ret)
{
	char digits[32];
	const char *s = yyjson_get_str((yyjson_val *)v);
	if (!s) {
		snprintf(digits, sizeof(digits), "%lld", (long long)yyjson_get_sint((yyjson_val *)v));
		s = digits;
	}
	int64_t n;
	if (td_quantity_ceil(s, &n, NULL) || n < 0)
		return false;
	*ret = strcmp(tres, "mem") ? n : (n >> 20) + ((n & ((1 << 20) - 1)) != 0);
	return true;
}

struct tenant_reader {
	struct td_op_tenant_pass *p;
	struct td_op_tenant *t; // of a Project: only what is unreadable is kept there
};

static void unreadable(struct tenant_reader *rd, const char *text)
{
	if (!rd->t->unreadable)
		rd->t->unreadable = text;
}

// What spec.quota says about storage.
static void storage(struct tenant_reader *rd, const char *name, const yyjson_val *x)
{
	struct td_op_tenant *t = rd->t;
	struct td_op_tenant_hard h = {.name = name, .word = td_api_storage_word(name)};
	if (!amount(x, "", &h.quota))
		unreadable(rd, td_arena_printf(rd->p->arena,
					       "spec.quota.%s: write a quantity from 0 up, such as 2Ti, or 100", name));
	else
		t->hards[t->n_hards++] = h;
}

// Reads a map of resources.
static size_t resources(struct tenant_reader *rd, const char *path, const struct td_pool_tres **ret)
{
	const yyjson_val *sc = rd->p->sc ? rd->p->sc->root : NULL;
	const bool project = td_streq(td_jstr(rd->t->o->root, "kind"), td_projects.kind);
	yyjson_val *map = td_jget(rd->t->o->root, path), *k, *x;
	struct td_pool_tres *v = td_arena_alloc(rd->p->arena, (yyjson_obj_size(map) + 1) * sizeof(*v));
	size_t i, n, len = 0;
	yyjson_obj_foreach (map, i, n, k, x) {
		const char *name = yyjson_get_str(k), *tres;
		td_auto_free char *found = NULL;
		if (td_api_storage_word(name)) {
			if (!strcmp(path, "spec.quota") && !project)
				storage(rd, name, x);
			else if (project)
				unreadable(rd, td_arena_printf(rd->p->arena,
							       "spec.quota.%s: a project has no namespaces, so no "
							       "storage: take it out here",
							       name));
			else
				unreadable(rd, td_arena_printf(rd->p->arena,
							       "%s.%s: storage has a limit in spec.quota only; take it "
							       "out here",
							       path, name));
			continue;
		}
		struct td_error e = TD_ERROR_INIT;
		bool has = !td_slurm_resource(sc, name, &found, &e);
		tres = has ? td_arena_strdup(rd->p->arena, found) : NULL;
		if (!has)
			unreadable(rd, td_arena_printf(rd->p->arena, "%s: %s", path, e.msg));
		else if (!amount(x, tres, &v[len].count))
			unreadable(rd,
				   td_arena_printf(rd->p->arena, "%s.%s: write a quantity from 0 up, such as 8 or 64Gi",
						   path, name));
		else
			v[len++].tres = tres;
	}
	*ret = v;
	return len;
}

// The user as which the pods of a namespace run.
static const char *pod_user(const yyjson_val *sc, const yyjson_val *tenant, const char *ns)
{
	const char *own = td_jstr(tenant, "spec.podUser");
	yyjson_val *m;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.scheduler.namespaces"), i, n, m)
		if (!own && (td_streq(td_jstr(m, "namespace"), "*") || td_streq(td_jstr(m, "namespace"), ns))) {
			own = td_jstr(m, "user");
			break;
		}
	return own ? own : td_jstr(sc, "spec.scheduler.defaultUser");
}

static bool known(const yyjson_val *sc, const char *user)
{
	// With people of another source only Slurm's own hosts know who there is.
	return td_jget(sc, "spec.identity.ldap") || td_jfind(td_jget(sc, "spec.users"), "name", user);
}

static void add_user(struct tenant_reader *rd, struct td_pool_tenant_user *v, size_t *n, const char *name, bool limited)
{
	for (size_t i = 0; i < *n; i++)
		if (!strcmp(v[i].name, name)) {
			v[i].limited &= limited;
			return;
		}
	if (!known(rd->p->sc ? rd->p->sc->root : NULL, name)) {
		td_strv_add(&rd->t->unknown, name);
		return;
	}
	v[(*n)++] = (struct td_pool_tenant_user){name, limited};
}

static bool outside(const yyjson_val *tenant, int64_t now_ms)
{
	int64_t from = INT64_MIN, until = INT64_MAX;
	td_time_parse(td_jstr_or(tenant, "spec.validity.from", ""), &from);
	td_time_parse(td_jstr_or(tenant, "spec.validity.until", ""), &until);
	return now_ms < from || now_ms >= until;
}

size_t td_op_tenant_above(const struct td_op_tenant_pass *p, size_t at)
{
	size_t up = p->p[at].parent ? 0 : p->n;
	while (up < p->n && strcmp(p->p[up].name, p->p[at].parent) != 0)
		up++;
	return up;
}

const yyjson_val *td_op_tenant_says(const struct td_op_tenant_pass *p, size_t at, const char *field)
{
	for (size_t steps = 0; at < p->n && steps <= p->n; steps++, at = td_op_tenant_above(p, at))
		if (td_jget(p->v[at].o->root, field))
			return p->v[at].o->root;
	return NULL;
}

void td_op_tenant_read(struct td_op_tenant_pass *p, size_t at, int64_t now_ms)
{
	struct td_op_tenant *t = &p->v[at];
	struct td_pool_tenant *w = &p->p[at];
	struct tenant_reader rd = {p, t};
	const yyjson_val *o = t->o->root, *sc = p->sc ? p->sc->root : NULL;
	yyjson_val *members = td_jget(o, "spec.members"), *list = td_jget(o, "spec.namespaces"), *m;
	size_t i, n;

	t->deleting = td_object_deleting(t->o);
	t->account = td_jstr_or(o, "spec.account", t->o->name);
	t->partition = td_jstr(o, "spec.partition");
	t->had_account = td_jstr(o, "status.account");
	t->adopted = td_jbool(o, "status.adopted", false);

	const char **spaces = td_arena_alloc(p->arena, (yyjson_arr_size(list) + 2) * sizeof(*spaces));
	*w = (struct td_pool_tenant){.name = t->o->name,
				     .account = t->account,
				     .parent = td_jstr(o, "spec.parent"),
				     .born = td_op_born(t->o),
				     .weight = td_jint(o, "spec.weight", 1),
				     .borrow_all = td_jbool(o, "spec.borrowing.all", false),
				     .user_jobs = td_jint(o, "spec.perUser.running", -1),
				     .user_waits = td_jint(o, "spec.perUser.submitted", -1),
				     .namespaces = spaces,
				     .adopt = td_jbool(o, "spec.adopt", false) || t->adopted,
				     .deleting = t->deleting,
				     .project = td_object_label(t->o, TD_LABEL_PROJECT) != NULL,
				     .closed = outside(o, now_ms) ||
					       (t->deleting && td_streq(td_jstr(o, "spec.deletion"), "Drain"))};
	t->hards = td_arena_alloc(p->arena, (yyjson_obj_size(td_jget(o, "spec.quota")) + 1) * sizeof(*t->hards));
	w->n_quota = resources(&rd, "spec.quota", &w->quota);
	w->n_borrow = resources(&rd, "spec.borrowing.limit", &w->borrow);
	w->n_per_user = resources(&rd, "spec.perUser.quota", &w->per_user);
	yyjson_arr_foreach (list, i, n, m)
		if (yyjson_is_str(m))
			spaces[w->n_namespaces++] = yyjson_get_str(m);
	if (!list)
		spaces[w->n_namespaces++] = t->o->name;
	yyjson_arr_foreach (td_jget(o, "spec.resourceGroups"), i, n, m)
		if (sc && yyjson_is_str(m) && !td_jfind(td_jget(sc, "spec.resourceGroups"), "name", yyjson_get_str(m)))
			td_strv_add(&t->strange, yyjson_get_str(m));
	yyjson_arr_foreach (td_jget(o, "spec.storageGroups"), i, n, m)
		if (sc && yyjson_is_str(m) && !td_jfind(td_jget(sc, "spec.storageGroups"), "name", yyjson_get_str(m)))
			td_strv_addf(&t->strange, "%s (of storage)", yyjson_get_str(m));

	struct td_pool_tenant_user *users =
		td_arena_alloc(p->arena, (yyjson_arr_size(members) + w->n_namespaces + 2) * sizeof(*users));
	yyjson_arr_foreach (members, i, n, m)
		if (td_kube_tenant_runs(m))
			add_user(&rd, users, &w->n_users, td_jstr_or(m, "user", ""), true);
	for (i = 0; i < w->n_namespaces; i++) {
		const char *u = pod_user(sc, o, spaces[i]);
		if (u)
			add_user(&rd, users, &w->n_users, u, td_jbool(o, "spec.perUser.pods", false));
		else if (sc)
			unreadable(&rd, "spec.podUser: nothing says as whom its pods run; set it, or "
					"spec.scheduler.defaultUser of the SlurmCluster");
		if (i && t->pod_user && !td_streq(u, t->pod_user))
			unreadable(&rd,
				   "spec.podUser: spec.scheduler.namespaces of the SlurmCluster gives the pods of its "
				   "namespaces different users; set it");
		t->pod_user = u;
	}
	w->users = users;

	if (td_streq(td_jstr(o, "spec.seccompProfile.type"), "Localhost") &&
	    !td_jstr(o, "spec.seccompProfile.localhostProfile"))
		unreadable(&rd,
			   "spec.seccompProfile.localhostProfile: type Localhost needs the name of a profile; set it");
	const char *was = td_jstr(o, "status.account");
	if (was && strcmp(was, t->account))
		unreadable(&rd, td_arena_printf(
					p->arena,
					"spec.account: it cannot change from \"%s\", which holds its history; set it "
					"back, or make another Tenant",
					was));
}

void td_op_tenant_pods(struct td_op_tenant_pass *p)
{
	for (size_t i = 0; i < p->n; i++) {
		size_t up = p->p[i].n_namespaces ? p->n : td_op_tenant_above(p, i);
		struct tenant_reader rd = {p, &p->v[i]};
		if (up < p->n && p->v[up].pod_user)
			add_user(&rd, (struct td_pool_tenant_user *)(uintptr_t)p->p[i].users, &p->p[i].n_users,
				 p->v[up].pod_user, td_jbool(p->v[up].o->root, "spec.perUser.pods", false));
	}
}

const char *td_op_tenant_quota(struct td_op_tenant_pass *p, const struct td_object *project,
			       const struct td_pool_tres **ret, size_t *ret_n)
{
	struct td_op_tenant none = {.o = (struct td_object *)(uintptr_t)project};
	struct tenant_reader rd = {p, &none};
	*ret_n = resources(&rd, "spec.quota", ret);
	return none.unreadable;
}

bool td_op_tenant_enforced(const yyjson_val *sc, const char **ret_fix)
{
	*ret_fix =
		"the SlurmCluster does not enforce limits, so quotas are only shown: set spec.accounting.enforce there";
	return td_slurm_limits_enforced(sc);
}

bool td_op_tenant_filter_kept(const yyjson_val *sc)
{
	const char *fix, *has = td_slurm_conf_get(td_jget(sc, "spec.config.slurmConf"), "AccountingStorageEnforce");
	return td_op_tenant_enforced(sc, &fix) || (td_slurm_accounting(sc) && has && strcasestr(has, "associations"));
}
