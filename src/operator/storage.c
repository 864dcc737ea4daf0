// File systems that pods share: spec.storage of a SlurmCluster, and where slurmctld and the database
// keep their own.
#include "operator/operator.h"

#include "slurm/conf.h"
#include "slurm/scratch.h"

#include <string.h>

// What pods have of their own. A file system may lie neither over nor below these.
static const char *const reserved[] = {"/bin",  "/boot",  "/datasets",   "/dev",           "/etc",
				       "/lib",  "/lib64", "/opt/tandem", "/proc",          "/run",
				       "/sbin", "/sys",   "/usr",        "/var/run",       "/var/spool/slurmd",
				       "/root", "/tmp",   "/var/tmp",    "/var/lib/tandem"};

#define GROUPFS "/var/lib/tandem/groups" // TD_GROUPFS of spank/groupfs.h

static bool below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	return !strncmp(path, dir, n) && (!path[n] || path[n] == '/');
}

static bool has_dots(const char *path)
{
	td_auto_strv struct td_strv parts = {0};
	td_strv_split(&parts, path, '/');
	return td_strv_has(&parts, "..") || td_strv_has(&parts, ".");
}

static bool meet(const char *a, const char *b)
{
	return td_streq(a, "all") || td_streq(b, "all") || td_streq(a, b);
}

static void check_path(const yyjson_val *sc, const yyjson_val *x, size_t at, struct td_strv *problems)
{
	const char *path = td_jstr_or(x, "mountPath", ""), *where = td_jstr_or(x, "where", "all");
	for (size_t k = 0; k < TD_LEN(reserved); k++)
		if (below(path, reserved[k]) || below(reserved[k], path))
			td_strv_addf(problems,
				     "spec.storage[%zu].mountPath: %s lies in or over %s, which the pods have of their "
				     "own; choose another path, such as /home, /scratch or /data/NAME",
				     at, path, reserved[k]);
	yyjson_val *y;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.storage"), i, n, y)
		if (i < at && td_streq(td_jstr(y, "mountPath"), path) && meet(td_jstr_or(y, "where", "all"), where))
			td_strv_addf(problems,
				     "spec.storage[%zu].mountPath: %s is the path of \"%s\" too; give each a path of "
				     "its own",
				     at, path, td_jstr_or(y, "name", ""));
}

static void check_apart(const yyjson_val *sc, const yyjson_val *x, struct td_strv *problems)
{
	const char *name = td_jstr_or(x, "name", ""), *path = td_jstr_or(x, "mountPath", "");
	yyjson_val *y;
	size_t i, n;
	bool there = false; // another entry is the homes
	yyjson_arr_foreach (td_jget(sc, "spec.storage"), i, n, y) {
		const char *other = td_jstr_or(y, "mountPath", "");
		if (td_streq(td_jstr(y, "name"), name))
			continue;
		there |= !strcmp(other, "/home");
		if (below(path, other) || below(other, path))
			td_strv_addf(problems,
				     "spec.storage: \"%s\" is of a storage group, and its mountPath %s lies in or over "
				     "%s of \"%s\"; give it a path of its own",
				     name, path, other, td_jstr_or(y, "name", ""));
	}
	// The path is made by root, and a directory above it would be a user's.
	if (below(path, "/home") && !there)
		td_strv_addf(problems,
			     "spec.storage: \"%s\" is of a storage group, and its mountPath %s lies in or over /home, "
			     "where users' own directories are; give it a path of its own",
			     name, path);
}

static bool logins_show(const yyjson_val *sc)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.login"), i, n, x)
		if (td_jbool(x, "storageGroups", false))
			return true;
	return false;
}

// A file system of a storage group is shown by slurmstepd to some jobs, and in a login pod to some logins.
static void check_groups(const yyjson_val *sc, struct td_strv *problems)
{
	yyjson_val *g, *f;
	size_t i, n, k, m;
	bool any = false;
	yyjson_arr_foreach (td_jget(sc, "spec.storageGroups"), i, n, g) {
		const char *group = td_jstr_or(g, "name", "");
		yyjson_val *files = td_jkey(g, "fileSystems");
		any |= yyjson_arr_size(files) > 0;
		if (!yyjson_arr_size(files) && !yyjson_arr_size(td_jkey(g, "storageClasses")))
			td_strv_addf(
				problems,
				"spec.storageGroups[%zu]: group \"%s\" has neither storageClasses nor fileSystems; "
				"write what it holds",
				i, group);
		yyjson_arr_foreach (files, k, m, f) {
			const char *name = yyjson_is_str(f) ? yyjson_get_str(f) : "";
			const yyjson_val *x = td_jfind(td_jget(sc, "spec.storage"), "name", name);
			if (!x)
				td_strv_addf(problems,
					     "spec.storageGroups[%zu].fileSystems: spec.storage has no entry \"%s\"; "
					     "add it there, or take it out here",
					     i, name);
			else if (td_streq(td_jstr(x, "where"), "login") && !logins_show(sc))
				td_strv_addf(problems,
					     "spec.storage: \"%s\" is in storage group \"%s\" and for login pods only, "
					     "and none of spec.login shows such; write storageGroups: true in one, or "
					     "where: compute here",
					     name, group);
			else if (td_jbool(x, "perUser", false) || td_jbool(x, "perGroup", false))
				td_strv_addf(problems,
					     "spec.storage: \"%s\" is in storage group \"%s\", where nothing makes "
					     "directories; remove perUser and perGroup",
					     name, group);
			else
				check_apart(sc, x, problems);
		}
	}
	if (any && !td_slurm_scratch(sc))
		td_strv_addf(problems,
			     "spec.storageGroups: file systems are shown to jobs by what makes their own /tmp; write "
			     "spec.scratch: {}, and no tmp: shared there");
}

void td_op_storage_check(const yyjson_val *sc, struct td_strv *problems)
{
	static const char *const paths[] = {"mountPath", "hostPath", "subPath"};
	yyjson_val *x, *own = td_jget(sc, "spec.controller.storage");
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.storage"), i, n, x) {
		const char *claim = td_jstr(x, "claim"), *host = td_jstr(x, "hostPath");
		if (!claim == !host)
			td_strv_addf(problems,
				     "spec.storage[%zu]: %s; write one of claim (a PersistentVolumeClaim of the "
				     "namespace) and hostPath (a directory that every node has)",
				     i, claim ? "claim and hostPath are both there" : "nothing says what is mounted");
		for (size_t k = 0; k < TD_LEN(paths); k++)
			if (has_dots(td_jstr_or(x, paths[k], "")))
				td_strv_addf(problems, "spec.storage[%zu].%s: must have no \".\" and \"..\"", i,
					     paths[k]);
		if (td_jbool(x, "perUser", false) && td_jbool(x, "perGroup", false))
			td_strv_addf(problems,
				     "spec.storage[%zu]: perUser and perGroup are both true; make two entries, with a "
				     "subPath each",
				     i);
		if (td_jbool(x, "readOnly", false) && (td_jbool(x, "perUser", false) || td_jbool(x, "perGroup", false)))
			td_strv_addf(problems,
				     "spec.storage[%zu].readOnly: no directory can be made there; remove perUser and "
				     "perGroup",
				     i);
		check_path(sc, x, i, problems);
	}
	check_groups(sc, problems);
	if (td_jget(own, "claim") && td_jget(own, "hostPath"))
		td_strv_addf(problems, "spec.controller.storage: hostPath and claim are both there; keep one");
	yyjson_val *host = td_jget(own, "hostPath");
	bool shared = td_jbool(host, "shared", false);
	if (host && !td_jget(host, "node") == !shared)
		td_strv_addf(problems,
			     "spec.controller.storage.hostPath: %s; write one of node (the directory is that "
			     "node's, and slurmctld runs there) and shared: true (every node has the same one)",
			     shared ? "node and shared are both there" : "nothing says whose directory it is");
	if (td_slurm_controllers(sc) > 1 && !td_jget(own, "claim") && !shared)
		td_strv_addf(problems,
			     "spec.controller.replicas: 2 slurmctlds need storage that both can write, and "
			     "spec.controller.storage %s; name a claim with ReadWriteMany, or a hostPath of a "
			     "file system that the nodes share (shared: true)",
			     host ? "is a directory of one node" : "is not there");
}

// Adds a problem if there is no such claim. name NULL: nothing is asked for.
static void check_claim(struct td_op *op, const struct td_object *sc, const char *field, const char *name,
			struct td_strv *problems)
{
	td_auto(td_object_unref) struct td_object *o = name ? td_informer_get(op->claims, sc->ns, name) : NULL;
	if (name && !o)
		td_strv_addf(problems,
			     "%s: there is no PersistentVolumeClaim \"%s\" in namespace %s; create it, or correct the "
			     "name",
			     field, name, sc->ns);
}

// May pods of several nodes write to it?
static bool shareable(const struct td_object *claim)
{
	return td_jhas(td_jget(claim->root, "spec.accessModes"), "ReadWriteMany");
}

void td_op_storage_claims(struct td_op *op, const struct td_object *sc, struct td_strv *problems)
{
	static const char *const own[] = {"spec.controller.storage.claim",
					  "spec.accounting.database.embedded.storage.claim"};
	yyjson_val *x;
	size_t i, n;
	const char *state = td_jstr(sc->root, own[0]);
	td_auto(td_object_unref) struct td_object *claim =
		state && td_slurm_controllers(sc->root) > 1 ? td_informer_get(op->claims, sc->ns, state) : NULL;
	if (claim && !shareable(claim))
		td_strv_addf(
			problems,
			"spec.controller.replicas: 2 slurmctlds on two nodes need storage that both can write, and "
			"PersistentVolumeClaim \"%s\" is not ReadWriteMany; make one that is, or one replica",
			state);
	for (i = 0; i < TD_LEN(own); i++)
		check_claim(op, sc, own[i], td_jstr(sc->root, own[i]), problems);
	yyjson_arr_foreach (td_jget(sc->root, "spec.storage"), i, n, x) {
		td_auto_free char *field = td_asprintf("spec.storage[%zu].claim", i);
		check_claim(op, sc, field, td_jstr(x, "claim"), problems);
	}
}

// Is there something in such pods that shows a file system of a storage group to those who have it only?
static bool shows(const char *where)
{
	return td_streq(where, "slurmd") || td_streq(where, "logins");
}

static const char *entries_of(const char *where)
{
	return td_streq(where, "slurmd") ? "compute" : td_streq(where, "logins") ? "login" : where;
}

// The entries for such pods, a directory before what lies inside of it. The caller frees the list.
static const yyjson_val **sorted(const yyjson_val *sc, const char *where, size_t *ret_n)
{
	yyjson_val *list = td_jget(sc, "spec.storage"), *x;
	const yyjson_val **v = td_calloc(yyjson_arr_size(list) + 1, sizeof(*v));
	size_t i, n, len = 0;
	yyjson_arr_foreach (list, i, n, x) {
		if (where && !meet(td_jstr_or(x, "where", "all"), entries_of(where)))
			continue;
		if (!shows(where) && td_op_storage_grouped(sc, td_jstr_or(x, "name", "")))
			continue;
		size_t at = len++;
		for (; at && strcmp(td_jstr_or(v[at - 1], "mountPath", ""), td_jstr_or(x, "mountPath", "")) > 0; at--)
			v[at] = v[at - 1];
		v[at] = x;
	}
	*ret_n = len;
	return v;
}

void td_op_storage_mount(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc, const char *where)
{
	size_t n;
	const yyjson_val **v = sorted(sc, where, &n);
	yyjson_mut_val *mounts = td_jm_arr(d, td_jm_get(spec, "containers.[0]"), "volumeMounts"),
		       *volumes = td_jm_arr(d, spec, "volumes");
	for (size_t i = 0; i < n; i++) {
		const char *claim = td_jstr(v[i], "claim"), *sub = td_jstr(v[i], "subPath");
		td_auto_free char *name = td_asprintf("storage-%s", td_jstr_or(v[i], "name", ""));
		yyjson_mut_val *volume = yyjson_mut_obj(d), *mount = yyjson_mut_obj(d);
		td_jm_str(d, volume, "name", name);
		if (claim) {
			td_jm_str(d, volume, "persistentVolumeClaim.claimName", claim);
		} else {
			td_jm_str(d, volume, "hostPath.path", td_jstr_or(v[i], "hostPath", ""));
			td_jm_str(d, volume, "hostPath.type", "DirectoryOrCreate");
		}
		td_jm_str(d, mount, "name", name);
		td_auto_free char *hidden = td_asprintf(GROUPFS "/%s", td_jstr_or(v[i], "name", ""));
		bool grouped = td_op_storage_grouped(sc, td_jstr_or(v[i], "name", ""));
		td_jm_str(d, mount, "mountPath", grouped ? hidden : td_jstr_or(v[i], "mountPath", ""));
		if (sub)
			td_jm_str(d, mount, "subPath", sub);
		if (td_jbool(v[i], "readOnly", false))
			td_jm_bool(d, mount, "readOnly", true);
		yyjson_mut_arr_append(volumes, volume);
		yyjson_mut_arr_append(mounts, mount);
	}
	free(v);
}

void td_op_storage_logins(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc, bool kubelet)
{
	yyjson_val *x;
	size_t i, n;
	bool any = false;
	yyjson_arr_foreach (td_jget(sc, "spec.storage"), i, n, x)
		any |= meet(td_jstr_or(x, "where", "all"), "login") &&
		       td_op_storage_grouped(sc, td_jstr_or(x, "name", ""));
	if (!any)
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over =
		td_op_template("login-groups.yaml", {"cluster", td_jstr_or(sc, "metadata.name", "")});
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *c = td_jm_get(spec, "containers.[0]");
	td_op_put(d, td_jm_get(c, "env"), NULL, td_jm_get(o, "env"));
	td_op_put(d, td_jm_get(c, "volumeMounts"), NULL, td_jm_get(o, "volumeMount"));
	td_op_put(d, td_jm_get(spec, "volumes"), NULL, td_jm_get(o, "volume"));
	td_op_put(d, c, "securityContext.capabilities.add", td_jm_get(o, "capabilities"));
	if (kubelet)
		td_op_put(d, c, "securityContext.appArmorProfile", td_jm_get(o, "appArmorProfile"));
}

void td_op_storage_own(yyjson_mut_doc *d, yyjson_mut_val *spec, const char *volume, const yyjson_val *storage)
{
	yyjson_mut_val *v = td_op_named(spec, "volumes", volume);
	const char *claim = td_jstr(storage, "claim");
	yyjson_val *host = td_jget(storage, "hostPath");
	if (!claim && !host)
		return;
	td_jm_del(v, "emptyDir");
	if (claim) {
		td_jm_str(d, v, "persistentVolumeClaim.claimName", claim);
		return;
	}
	td_jm_str(d, v, "hostPath.path", td_jstr_or(host, "path", ""));
	td_jm_str(d, v, "hostPath.type", "DirectoryOrCreate");
	if (!td_jbool(host, "shared", false))
		td_jm_key_str(d, td_jm_obj(d, spec, "nodeSelector"), "kubernetes.io/hostname",
			      td_jstr_or(host, "node", ""));
}

char *td_op_storage_list(const yyjson_val *sc)
{
	size_t n;
	const yyjson_val **v = sorted(sc, NULL, &n);
	struct td_buf b = {0};
	for (size_t i = 0; i < n; i++)
		if (!td_jbool(v[i], "readOnly", false))
			td_buf_printf(&b, "%s %s\n",
				      td_jbool(v[i], "perUser", false)    ? "user"
				      : td_jbool(v[i], "perGroup", false) ? "group"
									  : "home",
				      td_jstr_or(v[i], "mountPath", ""));
	free(v);
	td_buf_puts(&b, "home /home\n");
	return td_buf_take(&b);
}
