// spec.storageGroups of a SlurmCluster: which classes a Tenant's namespaces may not claim, by words that a ResourceQuota
// has and the embedded plane knows too, how much is claimed of each group, and who has its file systems
// (pool/storagegroup.h).
#include "operator/tenant.h"

#include "api/quantity.h"
#include "api/storagequota.h"
#include "kube/tenant.h"
#include "pool/storagegroup.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"persistentvolumeclaims", "requests.storage"};
#define OF_CLASS ".storageclass.storage.k8s.io/"

static size_t texts(struct td_arena *arena, yyjson_val *list, const char *const **ret)
{
	const char **v = td_arena_alloc(arena, (yyjson_arr_size(list) + 1) * sizeof(*v));
	yyjson_val *x;
	size_t i, max, n = 0;
	yyjson_arr_foreach (list, i, max, x)
		if (yyjson_is_str(x))
			v[n++] = td_arena_strdup(arena, yyjson_get_str(x));
	*ret = v;
	return n;
}

static size_t read_groups(struct td_arena *arena, const yyjson_val *sc, struct td_pool_storage_group **ret)
{
	yyjson_val *list = td_jget(sc, "spec.storageGroups"), *x;
	struct td_pool_storage_group *v = td_arena_alloc(arena, (yyjson_arr_size(list) + 1) * sizeof(*v));
	size_t i, max, n = 0;
	yyjson_arr_foreach (list, i, max, x) {
		v[n] = (struct td_pool_storage_group){.name = td_arena_strdup(arena, td_jstr_or(x, "name", ""))};
		v[n].n_classes = texts(arena, td_jkey(x, "storageClasses"), &v[n].classes);
		v[n].n_files = texts(arena, td_jkey(x, "fileSystems"), &v[n].files);
		v[n].n_users = texts(arena, td_jkey(x, "users"), &v[n].users);
		n++;
	}
	*ret = v;
	return n;
}

static const yyjson_val *root_of(const struct td_op_tenant_pass *p)
{
	return p->sc ? p->sc->root : NULL;
}

// Those of the pass: each Tenant asks, and they may name many users.
static size_t groups_of(struct td_op_tenant_pass *p, const struct td_pool_storage_group **ret)
{
	if (!p->storage_groups)
		p->n_storage_groups = read_groups(p->arena, root_of(p), &p->storage_groups);
	*ret = p->storage_groups;
	return p->n_storage_groups;
}

// The groups that a Tenant, and those above it, have been granted.
static size_t granted(const struct td_op_tenant_pass *p, size_t at, const char *const **ret)
{
	size_t n = 0, most = 1, first = at;
	for (size_t steps = 0; at < p->n && steps <= p->n; steps++, at = td_op_tenant_above(p, at))
		most += yyjson_arr_size(td_jget(p->v[at].o->root, "spec.storageGroups"));
	const char **v = td_arena_alloc(p->arena, most * sizeof(*v));
	at = first;
	for (size_t steps = 0; at < p->n && steps <= p->n; steps++, at = td_op_tenant_above(p, at)) {
		const char *const *own;
		size_t n_own = texts(p->arena, td_jget(p->v[at].o->root, "spec.storageGroups"), &own);
		for (size_t i = 0; i < n_own; i++)
			v[n++] = own[i];
	}
	*ret = v;
	return n;
}

size_t td_op_tenant_denied(struct td_op_tenant_pass *p, size_t at, const char *const **ret)
{
	struct td_op_tenant *t = &p->v[at];
	const struct td_pool_storage_group *groups;
	const char *const *has;
	*ret = t->denied;
	if (t->denied)
		return t->n_denied;
	size_t n_groups = groups_of(p, &groups), n_has = granted(p, at, &has), most = 1, n = 0;
	for (size_t i = 0; i < n_groups; i++)
		most += groups[i].n_classes * TD_LEN(words);
	const char **v = td_arena_alloc(p->arena, most * sizeof(*v));
	for (size_t i = 0; i < n_groups; i++)
		for (size_t k = 0; k < groups[i].n_classes; k++) {
			const char *class = groups[i].classes[k];
			bool skip = td_pool_storage_may(groups, n_groups, class, has, n_has);
			const char *first = td_arena_printf(p->arena, "%s" OF_CLASS "%s", class, words[0]);
			for (size_t m = 0; m < n && !skip; m += TD_LEN(words))
				skip = !strcmp(v[m], first); // it is of another group, too
			for (size_t w = 0; w < TD_LEN(words) && !skip; w++)
				v[n++] = td_arena_printf(p->arena, "%s" OF_CLASS "%s", class, words[w]);
		}
	*ret = t->denied = v;
	return t->n_denied = n;
}

bool td_op_storage_grouped(const yyjson_val *sc, const char *entry)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.storageGroups"), i, n, x)
		if (td_jhas(td_jkey(x, "fileSystems"), entry))
			return true;
	return false;
}

bool td_op_tenant_sees(struct td_op_tenant_pass *p, size_t at, const char *entry)
{
	const struct td_pool_storage_group *groups;
	const char *const *has;
	size_t n = groups_of(p, &groups), n_has = granted(p, at, &has);
	return td_pool_storage_sees(groups, n, entry, has, n_has);
}

// Whom a Tenant's grant lets have a file system: those who run in it. Who only looks does not.
static void members(const struct td_op_tenant_pass *p, size_t at, struct td_strv *ret)
{
	yyjson_val *m;
	size_t i, n;
	yyjson_arr_foreach (td_jget(p->v[at].o->root, "spec.members"), i, n, m) {
		const char *user = td_jstr(m, "user");
		if (user && td_kube_tenant_runs(m))
			td_strv_add(ret, user);
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char *td_op_storage_people(struct td_op_tenant_pass *p)
{
	const struct td_pool_storage_group *groups;
	size_t n = groups_of(p, &groups), i, len;
	td_auto_buf struct td_buf b = {0};
	yyjson_val *x;
	yyjson_arr_foreach (td_jget(root_of(p), "spec.storage"), i, len, x) {
		const char *name = td_jstr_or(x, "name", "");
		td_auto_strv struct td_strv who = {0};
		if (!td_pool_storage_grouped(groups, n, name))
			continue;
		for (size_t t = 0; t < p->n; t++)
			if (td_op_tenant_sees(p, t, name))
				members(p, t, &who);
		for (size_t g = 0; g < n; g++)
			for (size_t u = 0; u < groups[g].n_users; u++)
				if (td_pool_storage_users(&groups[g], 1, name, groups[g].users[u]))
					td_strv_add(&who, groups[g].users[u]);
		if (who.n)
			qsort(who.v, who.n, sizeof(*who.v), by_text);
		td_buf_printf(&b, "%s %s", name, td_jstr_or(x, "mountPath", ""));
		for (size_t u = 0; u < who.n; u++)
			if (!u || strcmp(who.v[u], who.v[u - 1]) != 0)
				td_buf_printf(&b, " %s", who.v[u]);
		td_buf_puts(&b, "\n");
	}
	return td_buf_take(&b);
}

void td_op_storage_groups_status(struct td_op *op, const struct td_object *sc, yyjson_mut_doc *d,
				 yyjson_mut_val *status)
{
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	td_auto_objects struct td_objects claims = {0};
	struct td_pool_storage_group *v;
	size_t n = read_groups(arena, sc->root, &v);
	if (!n)
		return;
	td_informer_list(op->claims, NULL, &claims);
	for (size_t i = 0; i < claims.n; i++)
		td_pool_storage_count(
			v, n, td_jstr_or(claims.v[i]->root, "spec.storageClassName", ""),
			td_api_storage_amount(td_jget(claims.v[i]->root, "spec.resources.requests.storage")));
	yyjson_mut_val *list = td_jm_arr(d, status, "storageGroups");
	for (size_t i = 0; i < n; i++) {
		char text[40];
		yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, x, "name", v[i].name);
		td_jm_int(d, x, "claims", v[i].claims);
		td_jm_str(d, x, "requested", td_quantity_format_bytes(v[i].bytes, text, sizeof(text)));
	}
}

bool td_op_storage_groups_any(const struct td_op *op)
{
	td_auto_objects struct td_objects l = {0};
	bool any = false;
	td_informer_list(op->clusters, NULL, &l);
	for (size_t i = 0; i < l.n && !any; i++)
		any = yyjson_arr_size(td_jget(l.v[i]->root, "spec.storageGroups")) > 0;
	return any;
}
