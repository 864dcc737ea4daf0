// As whom a Tenant's pods run, where it says that they are their people's (spec.storage): the annotations of its
// namespaces (api/person.h). Pure.
#include "operator/tenant.h"

#include "api/person.h"
#include "kube/tenant.h"
#include "slurm/conf.h"

#include <string.h>

enum { PEOPLE_MOST = 200 << 10 }; // bytes of an object's annotations: an API server takes 256 KiB of all

static bool number_ok(long long n, long long least)
{
	return n >= least && n <= 4294967293 && n != TD_SLURM_UID && n != 65534;
}

static const yyjson_val *spec(const struct td_op_tenant_pass *p)
{
	return p->sc ? td_jget(p->sc->root, "spec") : NULL;
}

// The number of a group of spec.groups; 0: there is none.
static long long gid_of(const yyjson_val *sc, const char *group)
{
	long long gid = td_jint(td_jfind(td_jget(sc, "groups"), "name", group), "gid", 0);
	return number_ok(gid, 1000) ? gid : 0;
}

// His groups beside the first, as a list; sudo's members are administrators of login pods only.
static void groups_of(const yyjson_val *sc, const yyjson_val *user, long long first, struct td_buf *b)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(user, "groups"), i, n, x) {
		long long gid = gid_of(sc, yyjson_get_str(x));
		if (gid && gid != first)
			td_buf_printf(b, "%s%lld", b->len ? "," : "", gid);
	}
}

static bool add(const yyjson_val *sc, const yyjson_val *member, long long project, struct td_buf *b)
{
	const char *name = td_jstr_or(member, "user", "");
	const yyjson_val *user = td_jfind(td_jget(sc, "users"), "name", name);
	long long uid = td_jint(user, "uid", 0), own = td_jint(user, "gid", uid), gid = project ? project : own;
	td_auto_buf struct td_buf groups = {0};
	if (!number_ok(uid, 1000) || !number_ok(own, 100))
		return false;
	if (project && own != project)
		td_buf_printf(&groups, "%lld", own);
	groups_of(sc, user, gid, &groups);
	td_auto_free char *home = td_asprintf("/home/%s", name);
	const struct td_person p = {.uid = (uint32_t)uid,
				    .gid = (uint32_t)gid,
				    .groups = td_buf_str(&groups),
				    .name = name,
				    .home = td_jstr_or(user, "home", home),
				    .kube = td_jstr_or(member, "kubernetesUser", name)};
	return td_person_write(b, &p);
}

void td_op_tenant_people(struct td_op_tenant_pass *p, size_t at)
{
	struct td_op_tenant *t = &p->v[at];
	const yyjson_val *o = t->o->root, *sc = spec(p);
	const char *mode = td_jstr(o, "spec.storage.mode"), *group = td_jstr_or(o, "spec.storage.group", t->o->name);
	bool project = td_streq(mode, TD_PERSON_PROJECT);
	long long gid = project ? gid_of(sc, group) : 0;
	td_auto_buf struct td_buf b = {0}, without = {0};
	yyjson_val *m;
	size_t i, n;
	t->mode = mode;
	if (!mode || !sc)
		return; // while the cluster is not there, what the namespaces say stays
	td_buf_puts(&b, mode);
	if (project && !gid)
		t->storage_fault =
			td_arena_printf(p->arena,
					"spec.storage.group: spec.groups of the SlurmCluster has no group \"%s\" with "
					"a gid of 1000 or more, so no pod is taken: add it there, or name another",
					group);
	yyjson_arr_foreach (project && !gid ? NULL : td_jget(o, "spec.members"), i, n, m)
		if (td_kube_tenant_runs(m) && !add(sc, m, gid, &b))
			td_buf_printf(&without, "%s%s", without.len ? ", " : "", td_jstr_or(m, "user", ""));
	if (b.len > PEOPLE_MOST) {
		t->storage_fault = td_arena_printf(p->arena,
						   "spec.members: they are too many for spec.storage.mode (more than "
						   "%d KiB of names and numbers), so no pod is taken: make several "
						   "Tenants of them",
						   PEOPLE_MOST >> 10);
		td_buf_reset(&b);
		td_buf_puts(&b, mode);
	}
	if (without.len)
		t->faceless = td_arena_strdup(p->arena, td_buf_str(&without));
	t->people = td_arena_strdup(p->arena, td_buf_str(&b));
}

const char *td_op_tenant_storage(struct td_op_tenant_pass *p, size_t at)
{
	td_auto_buf struct td_buf b = {0};
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(spec(p), "storage"), i, n, x) {
		const char *claim = td_jstr(x, "claim"), *host = td_jstr(x, "hostPath"),
			   *sub = td_jstr_or(x, "subPath", "");
		if (td_streq(td_jstr(x, "where"), "login") || !claim == !host ||
		    !td_op_tenant_sees(p, at, td_jstr_or(x, "name", "")))
			continue;
		td_auto_free char *path = host ? td_asprintf("%s%s%s", host, *sub ? "/" : "", sub) : NULL;
		const struct td_person_mount m = {.read_only = td_jbool(x, "readOnly", false),
						  .claim = claim != NULL,
						  .name = td_jstr_or(x, "name", ""),
						  .source = claim ? claim : path,
						  .path = td_jstr_or(x, "mountPath", ""),
						  .sub = claim ? sub : ""};
		td_person_mount_write(&b, &m);
	}
	return b.len ? td_arena_strdup(p->arena, td_buf_str(&b)) : NULL;
}
