#include "kubelet/pods/volumes.h"

#include "api/kinds.h"
#include "api/quantity.h"
#include "base/clock.h"
#include "base/file.h"
#include "http/pki.h"
#include "kubelet/pods/files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DATA_MAX = 8 << 20, DAY_S = 86400 };

static const char *const payload_kinds[] = {"configMap", "secret", "downwardAPI", "projected"};

static bool is_payload(const yyjson_val *vol)
{
	for (size_t i = 0; i < TD_LEN(payload_kinds); i++)
		if (td_jget(vol, payload_kinds[i]))
			return true;
	return false;
}

bool td_vol_follows(const yyjson_val *pod)
{
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(pod, "spec.volumes"), i, n, v) {
		if (is_payload(v))
			return true;
	}
	return false;
}

// ---- payload sources ----

static int add_object(const struct td_vol_src *s, const yyjson_val *src, bool secret, const char *name,
		      int64_t def_mode, struct td_payload *out, struct td_error *err)
{
	const char *ns = td_jstr_or(s->env->pod, "metadata.namespace", "");
	bool optional = td_jbool(src, "optional", false);
	td_auto(td_object_unref) struct td_object *o = s->env->get(s->env->ctx, secret, ns, name);
	if (!o)
		return optional ? 0
				: td_fail(err, TD_NOT_FOUND, "%s \"%s\" not found", secret ? "secret" : "configmap",
					  name);

	yyjson_val *items = td_jget(src, "items"), *it;
	size_t i, n;
	int r = 0;
	if (items) {
		yyjson_arr_foreach (items, i, n, it) {
			td_auto_buf struct td_buf b = {0};
			const char *key = td_jstr_or(it, "key", "");
			if (td_kubelet_object_value(o, secret, key, &b))
				r = td_payload_add(out, td_jstr_or(it, "path", key), td_buf_str(&b), b.len,
						   (mode_t)td_jint(it, "mode", def_mode), err);
			else if (!optional)
				r = td_fail(err, TD_NOT_FOUND, "references non-existent %s key: %s",
					    secret ? "secret" : "config", key);
			if (r)
				return r;
		}
		return 0;
	}

	td_auto_strv struct td_strv keys = {0};
	td_kubelet_object_value_keys(o, &keys);
	for (size_t k = 0; !r && k < keys.n; k++) {
		td_auto_buf struct td_buf b = {0};
		if (td_kubelet_object_value(o, secret, keys.v[k], &b))
			r = td_payload_add(out, keys.v[k], td_buf_str(&b), b.len, (mode_t)def_mode, err);
	}
	return r;
}

static int add_downward(const struct td_vol_src *s, const yyjson_val *src, int64_t def_mode, struct td_payload *out,
			struct td_error *err)
{
	yyjson_val *it, *f;
	size_t i, n;

	yyjson_arr_foreach (td_jget(src, "items"), i, n, it) {
		td_auto_free char *v = NULL;
		int r;
		if ((f = td_jget(it, "fieldRef")))
			r = td_env_field(s->env, td_jstr(f, "fieldPath"), &v, err);
		else
			r = td_env_resource(s->env, td_jstr(it, "resourceFieldRef.containerName"),
					    td_jstr_or(it, "resourceFieldRef.resource", ""),
					    td_jstr(it, "resourceFieldRef.divisor"), &v, err);
		if (!r)
			r = td_payload_add(out, td_jstr_or(it, "path", ""), v, strlen(v),
					   (mode_t)td_jint(it, "mode", def_mode), err);
		if (r)
			return r;
	}
	return 0;
}

// When a token should be replaced, in seconds since the epoch: after four fifths of its life, at
// most a day, as kubelets do. 0: at once.
static int64_t token_due(const char *token)
{
	const char *dot = strchr(token, '.');
	size_t n = dot ? strcspn(dot + 1, ".") : 0;
	td_auto_buf struct td_buf b64 = {0}, text = {0};
	for (size_t i = 1; i <= n; i++)
		td_buf_putc(&b64, dot[i] == '-' ? '+' : dot[i] == '_' ? '/' : dot[i]);
	while (b64.len % 4)
		td_buf_putc(&b64, '=');

	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!n || td_base64_decode(td_buf_str(&b64), &text, NULL) < 0 ||
	    td_json_parse(td_buf_str(&text), text.len, &j, NULL) < 0)
		return 0;

	int64_t from = td_jint(td_json_root(j), "iat", 0), to = td_jint(td_json_root(j), "exp", 0);
	if (from <= 0 || to <= from)
		return 0;
	int64_t life = to - from;
	return from + (life > DAY_S * 5 / 4 ? DAY_S : life * 4 / 5);
}

static int add_token(const struct td_vol_src *s, const yyjson_val *src, const char *dir, int64_t def_mode,
		     struct td_payload *out, struct td_error *err)
{
	int64_t life = td_jint(src, "expirationSeconds", 3600);
	const char *path = td_jstr_or(src, "path", "token");
	td_auto_free char *shown = td_asprintf("%s/..data/%s", dir, path);
	td_auto_buf struct td_buf old = {0};
	if (!td_file_read(shown, 1 << 20, &old, NULL) &&
	    token_due(td_buf_str(&old)) > td_real_ms(&td_clock_system) / 1000)
		return td_payload_add(out, path, td_buf_str(&old), old.len, (mode_t)def_mode, err);

	td_auto_free char *token = NULL;
	struct td_error why = TD_ERROR_INIT;
	int r = s->token(s->api_ctx, s->env->pod, td_jstr(src, "audience"), life, &token, &why);

	// The old token may be good for a while; the next look asks again.
	if (r && old.len)
		return td_payload_add(out, path, td_buf_str(&old), old.len, (mode_t)def_mode, err);

	if (r && err)
		*err = why;
	return r ? r : td_payload_add(out, path, token, strlen(token), (mode_t)def_mode, err);
}

static int ensure_payload(const struct td_vol_src *s, const yyjson_val *vol, const char *dir, struct td_error *err)
{
	td_auto_payload struct td_payload p = {0};
	yyjson_val *v, *e, *x;
	int r = 0;
	if ((v = td_jget(vol, "configMap"))) {
		r = add_object(s, v, false, td_jstr_or(v, "name", ""), td_jint(v, "defaultMode", 0644), &p, err);
	} else if ((v = td_jget(vol, "secret"))) {
		r = add_object(s, v, true, td_jstr_or(v, "secretName", ""), td_jint(v, "defaultMode", 0644), &p, err);
	} else if ((v = td_jget(vol, "downwardAPI"))) {
		r = add_downward(s, v, td_jint(v, "defaultMode", 0644), &p, err);
	} else {
		v = td_jget(vol, "projected");
		int64_t mode = td_jint(v, "defaultMode", 0644);
		size_t i, n;

		yyjson_arr_foreach (td_jget(v, "sources"), i, n, e) {
			if ((x = td_jget(e, "configMap")))
				r = add_object(s, x, false, td_jstr_or(x, "name", ""), mode, &p, err);
			else if ((x = td_jget(e, "secret")))
				r = add_object(s, x, true, td_jstr_or(x, "name", ""), mode, &p, err);
			else if ((x = td_jget(e, "downwardAPI")))
				r = add_downward(s, x, mode, &p, err);
			else if ((x = td_jget(e, "serviceAccountToken")))
				r = add_token(s, x, dir, mode, &p, err);
			else
				r = td_fail(err, TD_UNSUPPORTED,
					    "projected source %zu is of a kind that embedded nodes do not have", i);
			if (r)
				break;
		}
	}

	for (size_t i = 0, all = 0; !r && i < p.n; i++)
		if ((all += p.v[i].data.len) > DATA_MAX)
			r = td_fail(err, TD_INVALID, "more than %d bytes", DATA_MAX);

	return r ? r : td_payload_write(dir, &p, s->fs_group, err);
}

// ---- directories ----

static bool is_mount_point(const char *path)
{
	struct stat a, b;
	td_auto_free char *up = td_asprintf("%s/..", path);
	return !stat(path, &a) && !stat(up, &b) && a.st_dev != b.st_dev;
}

static int ensure_tmpfs(const char *dir, const char *options, struct td_error *err)
{
	int r = td_mkdir_p(dir, 0755, err);
	if (r || is_mount_point(dir))
		return r;
	return mount("tmpfs", dir, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0
		       ? td_fail_errno(err, TD_TRANSIENT, errno, "mount tmpfs on %s", dir)
		       : 0;
}

static bool is_secret(const yyjson_val *vol)
{
	yyjson_val *e;
	size_t i, n;
	yyjson_arr_foreach (td_jget(vol, "projected.sources"), i, n, e) {
		if (td_jget(e, "secret") || td_jget(e, "serviceAccountToken"))
			return true;
	}
	return td_jget(vol, "secret") != NULL;
}

// The pod's directory in the tmpfs for secrets: <…>/secrets/<uid> for the `dir` <…>/volumes/<uid>.
// Caller frees.
static char *secrets_of(const char *dir)
{
	const char *uid = strrchr(dir, '/');
	td_auto_free char *volumes = td_strndup(dir, (size_t)(uid - dir));
	return td_asprintf("%.*s/secrets%s", (int)(strrchr(volumes, '/') - volumes), volumes, uid);
}

// Where a volume lies that is not a hostPath. Caller frees.
static char *volume_dir(const struct td_vol_src *s, const yyjson_val *vol)
{
	const char *name = td_jstr_or(vol, "name", "");
	td_auto_free char *secrets = is_secret(vol) ? secrets_of(s->dir) : NULL;
	return secrets ? td_asprintf("%s/%s", secrets, name) : td_asprintf("%s/v/%s", s->dir, name);
}

static int ensure_secrets(const struct td_vol_src *s, struct td_error *err)
{
	td_auto_free char *mine = secrets_of(s->dir);
	td_auto_free char *top = td_strndup(mine, (size_t)(strrchr(mine, '/') - mine));
	// A second mount would hide what lies in the first.
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&once);
	int r = ensure_tmpfs(top, "mode=755", err);
	pthread_mutex_unlock(&once);
	return r;
}

// A directory that containers write to, made in steps: what was not finished when this role was killed is known
// by a mode that nobody gives, and finished by the next one.
#define UNFINISHED 01000

static bool unfinished(const char *dir)
{
	struct stat st;
	return stat(dir, &st) != 0 || (st.st_mode & 07777) == UNFINISHED;
}

static int make_for(const char *dir, int64_t gid, mode_t mode, struct td_error *err)
{
	if (!unfinished(dir))
		return 0;
	td_auto_free char *up = td_strndup(dir, (size_t)(strrchr(dir, '/') - dir));
	int r = td_mkdir_p(up, 0755, err);
	if (!r && mkdir(dir, UNFINISHED) < 0 && errno != EEXIST)
		r = td_fail_errno(err, TD_TRANSIENT, errno, "make %s", dir);
	if (!r && gid >= 0 && chown(dir, 0, (gid_t)gid) < 0)
		r = td_fail_errno(err, TD_TRANSIENT, errno, "chown %s", dir);
	if (!r && chmod(dir, mode) < 0)
		r = td_fail_errno(err, TD_TRANSIENT, errno, "chmod %s", dir);
	return r;
}

static int ensure_empty(const struct td_vol_src *s, const yyjson_val *v, const char *dir, struct td_error *err)
{
	const char *medium = td_jstr_or(v, "medium", "");
	mode_t mode = s->fs_group >= 0 ? 02777 : 0777;
	if (!*medium)
		return make_for(dir, s->fs_group, mode, err);
	if (strcmp(medium, "Memory"))
		return td_fail(err, TD_UNSUPPORTED, "emptyDir medium \"%s\": want \"\" or \"Memory\"", medium);

	int64_t size = 0;
	yyjson_val *q = td_jget(v, "sizeLimit");
	td_auto_free char *num = yyjson_is_num(q) ? td_json_text(q, NULL) : NULL;
	if (q && td_quantity_ceil(num ? num : yyjson_get_str(q), &size, err))
		return td_wrap(err, "sizeLimit");
	td_auto_buf struct td_buf opts = {0};
	td_buf_printf(&opts, "mode=%o", mode);
	if (s->fs_group >= 0)
		td_buf_printf(&opts, ",gid=%lld", (long long)s->fs_group);
	if (size > 0)
		td_buf_printf(&opts, ",size=%lld", (long long)size);
	return ensure_tmpfs(dir, td_buf_str(&opts), err);
}

static bool below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	return !strncmp(path, dir, n) && (!path[n] || path[n] == '/');
}

// Filters of system calls, which every pod of the home may name (start.c).
#define PROFILES "/var/lib/kubelet/seccomp"

void td_vol_host_path(const struct td_vol_src *s, const char *path, char **ret_root, const char **ret_rel)
{
	if (below(path, "/run/tandem")) {
		*ret_root = td_asprintf("%s/nodes/%s", s->run, s->node);
		path += strlen("/run/tandem");
	} else if (below(path, "/opt/tandem")) {
		*ret_root = td_asprintf("%s/opt", s->run);
		path += strlen("/opt/tandem");
	} else if (below(path, PROFILES)) {
		*ret_root = td_asprintf("%s/seccomp", s->home);
		path += strlen(PROFILES);
	} else if (below(path, "/shared")) {
		*ret_root = td_asprintf("%s/shared", s->home);
		path += strlen("/shared");
	} else {
		*ret_root = td_asprintf("%s/nodes/%s/root", s->home, s->node);
	}
	while (*path == '/')
		path++;
	*ret_rel = path;
}

// Is the volume a directory of Tandem's own? Prolog believes and runs what lies there, so
// containers may connect and read, but put nothing in its place.
static bool is_tandems(const yyjson_val *vol)
{
	const char *path = td_jstr_or(vol, "hostPath.path", "");
	return below(path, "/run/tandem") || below(path, "/opt/tandem") || below(path, PROFILES);
}

static int check_host_path(const struct td_vol_src *s, const yyjson_val *v, struct td_error *err)
{
	const char *path = td_jstr_or(v, "path", ""), *type = td_jstr_or(v, "type", ""), *rel;
	td_auto_free char *root = NULL;
	if (path[0] != '/')
		return td_fail(err, TD_INVALID, "hostPath \"%s\" is not absolute", path);
	td_vol_host_path(s, path, &root, &rel);

	int r = td_mkdir_p(root, 0755, err);
	if (r)
		return r;

	// Type "" makes nothing in Kubernetes, but container runtimes make a missing bind source a
	// directory. So does this function.
	bool dir_make = !*type || !strcmp(type, "DirectoryOrCreate"), file_make = !strcmp(type, "FileOrCreate");

	td_auto_close int fd = -1;
	r = td_kubelet_path_open_in(root, rel, &fd, err);
	if (r == TD_NOT_FOUND && dir_make) {
		r = td_kubelet_path_mkdir_in(root, rel, 0755, err);
	} else if (r == TD_NOT_FOUND && file_make) {
		r = td_kubelet_path_create_in(root, rel, 0644, err);
		if (r == TD_EXISTS) // another pod was faster
			r = 0;
	} else if (r == TD_NOT_FOUND) {
		return td_fail(err, TD_NOT_FOUND,
			       "hostPath %s (type %s) is not there; on this virtual node it would be %s/%s", path, type,
			       root, rel);
	}

	if (r || !*type || fd < 0)
		return r;

	struct stat st;
	if (fstat(fd, &st) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "stat %s", path);

	const struct {
		const char *type;
		mode_t fmt;
	} kinds[] = {{"Directory", S_IFDIR},    {"DirectoryOrCreate", S_IFDIR}, {"File", S_IFREG},
		     {"FileOrCreate", S_IFREG}, {"Socket", S_IFSOCK},           {"CharDevice", S_IFCHR},
		     {"BlockDevice", S_IFBLK}};

	for (size_t i = 0; i < TD_LEN(kinds); i++)
		if (!strcmp(type, kinds[i].type))
			return (st.st_mode & S_IFMT) == kinds[i].fmt
				       ? 0
				       : td_fail(err, TD_INVALID, "hostPath type check failed: %s is not a %s", path,
						 type);

	return td_fail(err, TD_INVALID, "hostPath type \"%s\" is unknown", type);
}

// The directory of a claim, below shared/. It stays when the claim is deleted, and a claim of the
// same name finds it again: nobody loses data by a slip, and `tandem down --purge` removes all.
// Caller frees.
static char *claim_dir(const struct td_vol_src *s, const char *name)
{
	return td_asprintf("%s/shared/claims/%s/%s", s->home, td_jstr_or(s->env->pod, "metadata.namespace", ""), name);
}

// mark: a directory that says that the claim was there once. A pod that has it keeps it, whatever
// becomes of the claim, as in Kubernetes, where a claim in use is not deleted.
static int ensure_claim(const struct td_vol_src *s, const char *name, const char *mark, struct td_error *err)
{
	struct stat st;
	if (!stat(mark, &st))
		return 0;
	if (!td_is_dns_subdomain(name))
		return td_fail(err, TD_INVALID, "\"%s\" is no name of a persistentvolumeclaim", name);
	int r = s->claim(s->api_ctx, td_jstr_or(s->env->pod, "metadata.namespace", ""), name, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, r, "persistentvolumeclaim \"%s\" not found: create it", name);

	td_auto_free char *dir = claim_dir(s, name);
	r = r ? r : make_for(dir, s->fs_group, s->fs_group >= 0 ? 02775 : 0755, err);
	return r ? r : td_mkdir_p(mark, 0755, err);
}

int td_vol_ensure(const struct td_vol_src *s, struct td_error *err)
{
	yyjson_val *vol, *v;
	size_t i, n;
	td_auto_free char *top = td_asprintf("%s/v", s->dir);
	int r = td_mkdir_p(top, 0755, err);
	if (r)
		return r;

	yyjson_arr_foreach (td_jget(s->env->pod, "spec.volumes"), i, n, vol) {
		const char *name = td_jstr_or(vol, "name", "");
		td_auto_free char *dir = volume_dir(s, vol);
		if (is_payload(vol)) {
			r = is_secret(vol) ? ensure_secrets(s, err) : 0;
			r = r ? r : ensure_payload(s, vol, dir, err);
		} else if ((v = td_jget(vol, "emptyDir"))) {
			r = ensure_empty(s, v, dir, err);
		} else if ((v = td_jget(vol, "hostPath"))) {
			r = check_host_path(s, v, err);
		} else if ((v = td_jget(vol, "persistentVolumeClaim"))) {
			r = ensure_claim(s, td_jstr_or(v, "claimName", ""), dir, err);
		} else {
			r = td_fail(
				err, TD_UNSUPPORTED,
				"embedded nodes have configMap, secret, downwardAPI, projected, emptyDir, hostPath and "
				"persistentVolumeClaim");
		}
		if (r)
			return td_wrap(err, "volume \"%s\"", name);
	}
	return 0;
}

// ---- mounts of a container ----

static const yyjson_val *volume_named(const yyjson_val *pod, const char *name)
{
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(pod, "spec.volumes"), i, n, v) {
		if (td_streq(td_jstr(v, "name"), name))
			return v;
	}
	return NULL;
}

// Bind-mounts the opened file on a name of ours, so that what is mounted stays what was checked,
// whatever the containers do to the names meanwhile.
static int pin(const char *root, const char *rel, const char *at, struct td_error *err)
{
	td_auto_close int fd = -1;
	int r = td_kubelet_path_open_in(root, rel, &fd, err);
	if (r)
		return r;

	struct stat st;
	if (fstat(fd, &st) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "stat %s", rel);

	umount2(at, MNT_DETACH | UMOUNT_NOFOLLOW);
	if (S_ISDIR(st.st_mode)) {
		rmdir(at), unlink(at);
		r = td_mkdir_p(at, 0755, err);
	} else {
		rmdir(at);
		td_auto_close int f = open(at, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		r = f < 0 ? td_fail_errno(err, TD_TRANSIENT, errno, "make %s", at) : 0;
	}

	if (r)
		return r;

	char from[64];
	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	if (mount(from, at, NULL, MS_BIND, NULL) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "bind %s", rel);
	return 0;
}

static int source_of(const struct td_vol_src *s, const yyjson_val *vol, const char *container, size_t index,
		     const char *sub, char **ret, struct td_error *err)
{
	td_auto_free char *root = NULL, *path = NULL;
	const char *rel = "";

	yyjson_val *host = td_jget(vol, "hostPath");
	if (host)
		td_vol_host_path(s, td_jstr_or(host, "path", ""), &root, &rel);
	else if (td_jget(vol, "persistentVolumeClaim"))
		root = claim_dir(s, td_jstr_or(vol, "persistentVolumeClaim.claimName", ""));
	else
		root = volume_dir(s, vol);

	if (!*rel && !*sub) {
		*ret = td_steal(root);
		return 0;
	}

	if (*sub == '/')
		return td_fail(err, TD_INVALID, "subPath \"%s\" is absolute", sub);
	td_auto_strv struct td_strv parts = {0};
	td_strv_split(&parts, sub, '/');
	if (td_strv_has(&parts, ".."))
		return td_fail(err, TD_INVALID, "subPath \"%s\" has a \"..\"", sub);

	path = *sub && *rel ? td_asprintf("%s/%s", rel, sub) : td_strdup(*sub ? sub : rel);

	td_auto_close int fd = -1;
	int r = td_kubelet_path_open_in(root, path, &fd, err);
	if (r == TD_NOT_FOUND && *sub && !is_payload(vol))
		r = td_kubelet_path_mkdir_in(root, path, 0777, err);
	if (r)
		return td_wrap(err, "subPath \"%s\"", sub);

	td_auto_free char *dir = td_asprintf("%s/sub", s->dir);
	char *at = td_asprintf("%s/%s-%zu", dir, container, index);
	r = td_mkdir_p(dir, 0755, err);
	if (!r)
		r = pin(root, path, at, err);
	if (r) {
		free(at);
		return r;
	}

	*ret = at;
	return 0;
}

int td_vol_mounts(const struct td_vol_src *s, const yyjson_val *container, const struct td_strv *env,
		  struct td_arena *arena, struct td_mounts *ret, struct td_error *err)
{
	const char *cname = td_jstr_or(container, "name", "");
	yyjson_val *m;
	size_t i, n, k = 0;

	yyjson_arr_foreach (td_jget(container, "volumeMounts"), i, n, m) {
		const char *name = td_jstr_or(m, "name", ""), *at = td_jstr_or(m, "mountPath", "");
		const yyjson_val *vol = volume_named(s->env->pod, name);
		if (!vol)
			return td_fail(err, TD_INVALID,
				       "volumeMount \"%s\" of container %s: the pod has no such volume", name, cname);
		if (k == ret->max)
			return td_fail(err, TD_INVALID, "container %s: more than %zu mounts", cname, ret->max);

		const char *expr = td_jstr(m, "subPathExpr");
		td_auto_free char *sub = expr ? td_env_expand(expr, env) : td_strdup(td_jstr_or(m, "subPath", ""));
		td_auto_free char *src = NULL;
		int r = source_of(s, vol, cname, i, sub, &src, err);
		if (r)
			return td_wrap(err, "volumeMount \"%s\"", name);

		bool ro = td_jbool(m, "readOnly", false) || is_payload(vol) || is_tandems(vol) ||
			  td_jbool(vol, "persistentVolumeClaim.readOnly", false);
		const char *prop = td_jstr_or(m, "mountPropagation", "None");
		ret->v[k++] = (struct td_oci_mount){
			.type = "bind",
			.source = td_arena_strdup(arena, src),
			.destination = at[0] == '/' ? td_arena_strdup(arena, at) : td_arena_printf(arena, "/%s", at),
			.options = td_arena_printf(arena, "rbind,%s,%s", ro ? "ro" : "rw",
						   !strcmp(prop, "HostToContainer") ? "rslave" : "rprivate"),
		};
	}
	ret->n = k;
	return 0;
}

int td_vol_remove(const char *dir, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_strv struct td_strv lines = {0}, points = {0};
	int r = td_file_read("/proc/self/mountinfo", 64 << 20, &b, err);
	if (r)
		return r;

	td_strv_split(&lines, td_buf_str(&b), '\n');
	for (size_t i = 0; i < lines.n; i++) {
		td_auto_strv struct td_strv f = {0};
		td_strv_split(&f, lines.v[i], ' ');
		if (f.n > 5 && below(f.v[4], dir))
			td_strv_add(&points, f.v[4]);
	}

	for (size_t i = points.n; i-- > 0;)
		umount2(points.v[i], MNT_DETACH | UMOUNT_NOFOLLOW);

	td_auto_free char *secrets = secrets_of(dir);
	r = td_rm_rf(secrets, err);
	return r ? r : td_rm_rf(dir, err);
}
