// What a pod finds at /datasets: the copies of data sets that it asks for by its annotation (docs/datasets.md).
#include "kubelet/pods/sync.h"
#include "kubelet/pods/volumes.h"

#include "api/kinds.h"
#include "base/file.h"
#include "base/names.h"
#include "kubelet/pods/files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Where the copies of the node lie: slurmd's pod there has them. Caller frees.
static char *copies_of(struct td_kubelet *a, int node)
{
	td_auto_pods struct td_pods all = {0};
	char *path = NULL;
	td_pod_table_all(a->table, &all);
	for (size_t i = 0; i < all.n && !path; i++) {
		if (!all.v[i]->slurmd || all.v[i]->node != node)
			continue;
		td_auto(td_object_unref) struct td_object *o = td_informer_get(a->pods, all.v[i]->ns, all.v[i]->name);
		const char *at =
			o ? td_jstr(td_jfind(td_jget(o->root, "spec.volumes"), "name", TD_DATA_VOLUME), "hostPath.path")
			  : NULL;
		path = at ? td_strdup(at) : NULL;
	}
	return path;
}

// Is it there, whole, and everybody's?
static int check(const char *root, const char *rel, const char *name, const char *node, struct td_error *err)
{
	struct stat st;
	td_auto_close int fd = -1;
	int r = td_kubelet_path_open_in(root, rel, &fd, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, TD_NOT_FOUND, "node %s holds no copy of data set %s", node, name);
	if (!r && fstat(fd, &st) < 0)
		r = td_fail_errno(err, TD_TRANSIENT, errno, "stat %s/%s", root, rel);
	if (r)
		return r;
	if (!S_ISDIR(st.st_mode) || (st.st_mode & 05) != 05)
		return td_fail(err, TD_DENIED,
			       "data set %s is its group's alone: pods find those that everybody may read", name);
	return 0;
}

int td_pod_dataset_mounts(struct td_kubelet *a, const struct td_pod *p, const struct td_vol_src *s,
			  struct td_arena *arena, struct td_mounts *ret, struct td_error *err)
{
	const char *said = td_jkey_str(td_jget(s->env->pod, "metadata.annotations"), TD_ANN_ASK_PREFIX "datasets");
	if (!said || !p->grant.granted)
		return 0; // Slurm did not place it, and nobody has read what it says
	td_auto_strv struct td_strv names = {0};
	td_auto_free char *path = copies_of(a, p->node), *root = NULL;
	const char *below;
	td_strv_split(&names, said, ',');
	if (!path)
		return td_fail(err, TD_NOT_FOUND, "node %s holds no copies of data sets", s->node);
	td_vol_host_path(s, path, &root, &below);
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.v[i];
		if (!td_is_dns_subdomain(name))
			return td_fail(err, TD_INVALID,
				       "annotation " TD_ANN_ASK_PREFIX "datasets: \"%.60s\" is no name of a Dataset",
				       name);
		if (ret->n == ret->max)
			return td_fail(err, TD_INVALID, "more than %zu mounts", ret->max);
		const char *rel = td_arena_printf(arena, "%s/%s", below, name);
		int r = check(root, rel, name, s->node, err);
		if (r)
			return r;
		ret->v[ret->n++] = (struct td_oci_mount){
			.type = "bind",
			.source = td_arena_printf(arena, "%s/%s", root, rel),
			.destination = td_arena_printf(arena, "/datasets/%s", name),
			.options = "rbind,ro,nosuid,nodev,rprivate",
		};
	}
	return 0;
}
