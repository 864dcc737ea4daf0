// Disk that a pod uses: emptyDirs with a sizeLimit, and ephemeral-storage limits (writable layer,
// logs and emptyDirs). As the kubelet's eviction manager does without quotas, it measures from time
// to time, and a pod over a limit is evicted.
#include "api/quantity.h"
#include "kubelet/pods/sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 5000, DEPTH_MAX = 64 };

// Returns the bytes that the tree below `dir` occupies on the file system `dev`. Takes over dir.
static int64_t used_below(int dir, dev_t dev, int depth)
{
	DIR *d = dir >= 0 ? fdopendir(dir) : NULL;
	int64_t sum = 0;
	struct dirent *e;
	struct stat st;
	if (!d && dir >= 0)
		close(dir);

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != dev)
			continue;
		sum += (int64_t)st.st_blocks * 512;
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			sum += used_below(openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
					  dev, depth + 1);
	}

	if (d)
		closedir(d);
	return sum;
}

static int64_t used(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	return used_below(fd, st.st_dev, 0);
}

// Returns the amount in bytes (0: not set), and its text as it was written.
static int64_t bytes_of(const yyjson_val *q, char **ret_text)
{
	int64_t n = 0;
	*ret_text = yyjson_is_num((yyjson_val *)q) ? td_json_text(q, NULL) : td_strdup(yyjson_get_str((yyjson_val *)q));
	return *ret_text && !td_quantity_ceil(*ret_text, &n, NULL) ? n : 0;
}

// Says which limit the pod exceeds. NULL: none. Caller frees. *ret_limits: the pod has a limit.
static char *over(const struct td_kubelet *a, const struct td_pod *p, const yyjson_val *pod, bool *ret_limits)
{
	td_auto_free char *dir = td_pod_dir(a, p), *logs = td_pod_log_dir(a, p);
	int64_t total = 0, limit_sum = 0;
	bool all_limited = true;
	yyjson_val *v, *e;
	size_t i, n;

	yyjson_arr_foreach (td_jget(pod, "spec.volumes"), i, n, v) {
		if (!(e = td_jget(v, "emptyDir")) || td_streq(td_jstr(e, "medium"), "Memory"))
			continue;
		td_auto_free char *text = NULL, *at = td_asprintf("%s/v/%s", dir, td_jstr_or(v, "name", ""));
		int64_t limit = bytes_of(td_jget(e, "sizeLimit"), &text), now = used(at);
		total += now;
		*ret_limits = *ret_limits || limit;
		if (limit && now > limit)
			return td_asprintf("Usage of EmptyDir volume \"%s\" exceeds the limit \"%s\".",
					   td_jstr_or(v, "name", ""), text);
	}

	for (size_t k = p->n_init; k < p->n_ctr; k++) {
		const struct td_ctr *c = &p->ctr[k];
		td_auto_free char *text = NULL, *up = c->id ? td_asprintf("%s/pods/%s/upper", a->o.home, c->id) : NULL,
				  *log = td_asprintf("%s/%s", logs, c->name);
		int64_t limit = bytes_of(
			td_jkey(td_jget(td_ctr_spec(pod, c->name), "resources.limits"), "ephemeral-storage"), &text);
		all_limited = all_limited && limit;
		limit_sum += limit;
		if (!limit)
			continue;
		*ret_limits = true;
		int64_t now = (up ? used(up) : 0) + used(log);
		total += now;
		if (now > limit)
			return td_asprintf("Container %s exceeded its local ephemeral storage limit \"%s\".", c->name,
					   text);
	}

	if (all_limited && total > limit_sum)
		return td_asprintf("Pod ephemeral local storage usage exceeds the total limit of containers %lld.",
				   (long long)limit_sum);
	return NULL;
}

char *td_pod_over_disk(const struct td_kubelet *a, struct td_pod *p, const yyjson_val *pod, int64_t *again_ms)
{
	int64_t now = td_mono_ms(a->clock);
	bool limits = false;

	if (p->disk_unlimited)
		return NULL;
	if (now < p->disk_at) {
		td_sooner(again_ms, p->disk_at - now);
		return NULL;
	}

	char *why = over(a, p, pod, &limits);
	p->disk_unlimited = !limits; // the spec does not change
	p->disk_at = now + LOOK_MS;
	if (limits)
		td_sooner(again_ms, LOOK_MS);

	return why;
}
