// spec.storageGroups of a SlurmCluster: which classes a Tenant's namespaces may not claim, by words that a ResourceQuota
// has and the embedded plane knows too, how much is claimed of each group, and who has its file systems
// (pool/storagegroup.h).
#include "operator/tenant.h"

#include "api/quantity.h"
#include "api/storagequota.h"
#include "kube/tenant.h"
#include "pool/storagegroup.h"
#include "pool/storagelist.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"persistentvolumeclaims", "requests.storage"};
#define PEOPLE "people " // base/groupfiles.h
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

// What the grants of all are, as they are read.
struct grants {
	struct td_pool_storage_has *v;
	size_t n, room;
};

static void grant(struct grants *g, const char *user, size_t file)
{
	if (g->n == g->room) {
		g->room = g->room ? g->room * 2 : 64;
		g->v = td_realloc(g->v, g->room * sizeof(*g->v));
	}
	g->v[g->n++] = (struct td_pool_storage_has){user, file};
}

// Whom a Tenant's grant lets have a file system: those who run in it. Who only looks does not.
static void members(const struct td_op_tenant_pass *p, size_t at, size_t file, struct grants *ret)
{
	yyjson_val *m;
	size_t i, n;
	yyjson_arr_foreach (td_jget(p->v[at].o->root, "spec.members"), i, n, m) {
		const char *user = td_jstr(m, "user");
		if (user && td_kube_tenant_runs(m))
			grant(ret, user, file);
	}
}

char *td_op_storage_people(struct td_op_tenant_pass *p, size_t *ret_left)
{
	const struct td_pool_storage_group *groups;
	size_t n = groups_of(p, &groups), i, len;
	yyjson_val *list = td_jget(root_of(p), "spec.storage"), *x;
	struct td_pool_storage_file *files = td_arena_alloc(p->arena, (yyjson_arr_size(list) + 1) * sizeof(*files));
	struct td_pool_storage_list l = {.files = files};
	struct grants all = {0};
	yyjson_arr_foreach (list, i, len, x) {
		const char *name = td_jstr_or(x, "name", "");
		if (!td_pool_storage_grouped(groups, n, name))
			continue;
		for (size_t t = 0; t < p->n; t++)
			if (td_op_tenant_sees(p, t, name))
				members(p, t, l.n_files, &all);
		for (size_t g = 0; g < n; g++)
			for (size_t u = 0; td_pool_storage_holds(&groups[g], name) && u < groups[g].n_users; u++)
				grant(&all, groups[g].users[u], l.n_files);
		files[l.n_files++] = (struct td_pool_storage_file){name, td_jstr_or(x, "mountPath", "")};
	}
	l.v = all.v;
	l.n = all.n;
	char *text = td_pool_storage_text(&l, TD_STORAGE_LIST_MOST, ret_left);
	free(all.v);
	return text;
}

// How many people have a file system of the group, by the list that pods have.
static long long people_of(const struct td_pool_storage_group *g, const char *list)
{
	long long n = 0;
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, list, '\n');
	for (size_t i = 0; i < lines.n; i++) {
		const char *set = lines.v[i] + strlen(PEOPLE),
			   *end = td_starts(lines.v[i], PEOPLE) ? strchr(set, ' ') : NULL;
		bool any = false;
		if (!end)
			continue;
		td_auto_free char *names = td_strndup(set, (size_t)(end - set));
		td_auto_strv struct td_strv files = {0};
		td_strv_split(&files, names, ',');
		for (size_t k = 0; k < files.n && !any; k++)
			any = td_pool_storage_holds(g, files.v[k]);
		for (; any && *end; end++)
			n += *end == ' ';
	}
	return n;
}

static struct td_object *list_of(struct td_op *op, const struct td_object *sc)
{
	td_auto_free char *name = td_asprintf("%s-filters", sc->name);
	return td_informer_get(op->configmaps, sc->ns, name);
}

char *td_op_storage_groups_left(struct td_op *op, const struct td_object *sc)
{
	td_auto(td_object_unref) struct td_object *list = list_of(op, sc);
	const char *left = list ? td_jstr_or(list->root, "data.left", "0") : "0";
	if (td_streq(left, "0"))
		return NULL;
	return td_asprintf("%s people have none of the file systems of storage groups that were granted to them: the "
			   "list of all who have some, ConfigMap %s/%s, is full (%d KiB). Grant what all these people "
			   "may have to everybody: take it out of spec.storageGroups, and let modes or access lists "
			   "of the file system say who may enter",
			   left, list->ns, list->name, TD_STORAGE_LIST_MOST >> 10);
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
	td_auto(td_object_unref) struct td_object *people = list_of(op, sc);
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
		if (!v[i].n_files)
			continue;
		td_jm_int(d, x, "people", people_of(&v[i], people ? td_jstr_or(people->root, "data.files", "") : ""));
		yyjson_mut_val *files = td_jm_arr(d, x, "fileSystems");
		for (size_t k = 0; k < v[i].n_files; k++)
			yyjson_mut_arr_add_strcpy(d, files, v[i].files[k]);
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
