// The pull secret of spec.containers on a machine that runs slurmd itself: what slurmd pods have as a mounted Secret. Jobs
// never see it: it is root's, in a directory that only root enters, and no program is given it as an argument or in its
// environment. The service for images reads it (spank/pull.c) for what all may use: images that are held ready.
#include "cli/host.h"

#include "base/file.h"
#include "slurm/keys.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY ".dockerconfigjson"

int td_host_pull_read(const yyjson_val *secret, struct td_buf *ret, struct td_error *err)
{
	const char *text = td_jkey_str(td_jget(secret, "data"), KEY);
	if (!td_streq(td_jstr(secret, "type"), "kubernetes.io/dockerconfigjson") || !text)
		return td_fail(err, TD_INVALID,
			       "spec.containers.images.pullSecret: it is no Secret of type "
			       "kubernetes.io/dockerconfigjson with a key " KEY);
	return td_slurm_key_read(text, ret, err);
}

int td_host_pull_write(const char *dir, const char *at, const struct td_buf *pull, struct td_error *err)
{
	td_auto_free char *own = td_asprintf("%s/pull-secret", dir), *path = td_asprintf("%s/" KEY, own);
	td_auto_buf struct td_buf have = {0};
	struct stat s;
	int r = td_file_read(path, 1 << 20, &have, NULL);
	bool same = !r && pull->len && have.len == pull->len && !memcmp(have.s, pull->s, have.len);
	if (have.s)
		explicit_bzero(have.s, have.len);
	if (!pull->len)
		return td_rm_rf(own, err); // with what a write that was cut has left
	if ((r = td_mkdir_p(own, 0700, err)))
		return r;
	if (!same && (r = td_file_write(path, pull->s, pull->len, 0400, err)))
		return r;
	if (!lstat(at, &s)) {
		// One that leads nowhere is of a time with another `dir`.
		if (!S_ISLNK(s.st_mode) || !stat(at, &s))
			return 0;
		if (unlink(at))
			return td_fail_errno(err, TD_INTERNAL, errno, "remove %s", at);
	}
	td_auto_free char *above = td_strndup(at, (size_t)(strrchr(at, '/') - at));
	if ((r = td_mkdir_p(above, 0755, err)))
		return r;
	return symlink(own, at) && errno != EEXIST ? td_fail_errno(err, TD_INTERNAL, errno, "link %s to %s", at, own)
						   : 0;
}
