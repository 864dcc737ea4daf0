#include "kubelet/pods/security.h"

#include "base/file.h"
#include "base/names.h"
#include "kubelet/pods/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// containerd's default set of capabilities.
static const char *const default_caps[] = {
	"CHOWN",  "DAC_OVERRIDE", "FSETID",  "FOWNER",           "MKNOD",      "NET_RAW", "SETGID",
	"SETUID", "SETFCAP",      "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL",    "AUDIT_WRITE"};
static const char *const all_caps[] = {"CHOWN",
				       "DAC_OVERRIDE",
				       "DAC_READ_SEARCH",
				       "FOWNER",
				       "FSETID",
				       "KILL",
				       "SETGID",
				       "SETUID",
				       "SETPCAP",
				       "LINUX_IMMUTABLE",
				       "NET_BIND_SERVICE",
				       "NET_BROADCAST",
				       "NET_ADMIN",
				       "NET_RAW",
				       "IPC_LOCK",
				       "IPC_OWNER",
				       "SYS_MODULE",
				       "SYS_RAWIO",
				       "SYS_CHROOT",
				       "SYS_PTRACE",
				       "SYS_PACCT",
				       "SYS_ADMIN",
				       "SYS_BOOT",
				       "SYS_NICE",
				       "SYS_RESOURCE",
				       "SYS_TIME",
				       "SYS_TTY_CONFIG",
				       "MKNOD",
				       "LEASE",
				       "AUDIT_WRITE",
				       "AUDIT_CONTROL",
				       "SETFCAP",
				       "MAC_OVERRIDE",
				       "MAC_ADMIN",
				       "SYSLOG",
				       "WAKE_ALARM",
				       "BLOCK_SUSPEND",
				       "AUDIT_READ",
				       "PERFMON",
				       "BPF",
				       "CHECKPOINT_RESTORE"};

void td_ident_done(struct td_ident *i)
{
	td_strv_done(&i->caps);
	free(i->seccomp_own);
}

static bool known_cap(const char *s)
{
	for (size_t i = 0; i < TD_LEN(all_caps); i++)
		if (!strcmp(all_caps[i], s))
			return true;
	return false;
}

static bool listed(const yyjson_val *list, const char *cap)
{
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)list, i, n, v) {
		const char *s = yyjson_get_str(v);
		if (s && td_starts(s, "CAP_"))
			s += 4;
		if (s && (!strcmp(s, cap) || !strcmp(s, "ALL")))
			return true;
	}
	return false;
}

static int caps(const yyjson_val *sc, struct td_ident *id, struct td_error *err)
{
	yyjson_val *add = td_jget(sc, "capabilities.add"), *drop = td_jget(sc, "capabilities.drop"), *v;
	size_t i, n;
	yyjson_arr_foreach (add, i, n, v) {
		const char *s = yyjson_get_str(v) ? yyjson_get_str(v) : "";
		if (strcmp(s, "ALL") && !known_cap(td_starts(s, "CAP_") ? s + 4 : s))
			return td_fail(err, TD_INVALID,
				       "securityContext.capabilities.add: unknown capability \"%.40s\"", s);
	}

	// As container runtimes do it: "drop ALL" first, then single drops, then what is added.
	for (size_t k = 0; k < TD_LEN(all_caps); k++) {
		bool on = id->privileged;
		for (size_t d = 0; d < TD_LEN(default_caps) && !on; d++)
			on = !strcmp(default_caps[d], all_caps[k]);
		if (!id->privileged && listed(drop, all_caps[k]))
			on = false;
		if (listed(add, all_caps[k]))
			on = true;
		if (on)
			td_strv_addf(&id->caps, "CAP_%s", all_caps[k]);
		if (on && !strcmp(all_caps[k], "SYS_ADMIN"))
			id->sys_admin = true;
	}
	return 0;
}

// Reads the lines of <rootfs>/etc/<file>. False: it cannot be read.
static bool read_lines(const char *rootfs, const char *file, struct td_strv *ret)
{
	td_auto_close int fd = -1;
	td_auto_free char *rel = td_asprintf("etc/%s", file);
	struct stat st;
	// Read a regular file only: opening a pipe of the image's would wait for ever.
	if (td_kubelet_path_open_in(rootfs, rel, &fd, NULL) || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;

	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, 1 << 20, &b, NULL))
		return false;
	td_strv_split(ret, td_buf_str(&b), '\n');
	return true;
}

// Finds the line of `name`, or of the decimal id if name is NULL, in <rootfs>/etc/<file>. Returns
// its fields, which ':' separates.
static bool lookup(const char *rootfs, const char *file, const char *name, long long id, struct td_strv *ret)
{
	td_auto_strv struct td_strv lines = {0};
	if (!read_lines(rootfs, file, &lines))
		return false;

	for (size_t i = 0; i < lines.n; i++) {
		td_auto_strv struct td_strv f = {0};
		long long have = -1;
		td_strv_split(&f, lines.v[i], ':');
		if (f.n < 3 || !td_parse_i64(f.v[2], &have))
			continue;
		if (name ? !strcmp(f.v[0], name) : have == id) {
			*ret = f;
			f = (struct td_strv){0};
			return true;
		}
	}
	return false;
}

// Sets uid and gid from the image's user: "name" or "uid", and ":group" or ":gid" if it has one.
static int image_ids(const char *rootfs, const char *user, struct td_ident *id, struct td_error *err)
{
	if (!user || !*user)
		return 0;

	td_auto_strv struct td_strv f = {0};
	long long n;
	td_auto_free char *name = td_strndup(user, strcspn(user, ":"));
	const char *group = strchr(user, ':');

	if (td_parse_i64(name, &n)) {
		id->uid = (uint32_t)n;
		if (lookup(rootfs, "passwd", NULL, n, &f) && f.n > 3 && td_parse_i64(f.v[3], &n))
			id->gid = (uint32_t)n;
	} else {
		if (!lookup(rootfs, "passwd", name, 0, &f) || f.n < 4 || !td_parse_i64(f.v[2], &n))
			return td_fail(err, TD_INVALID, "the image's user \"%s\" is not in its /etc/passwd", name);
		id->uid = (uint32_t)n;
		if (td_parse_i64(f.v[3], &n))
			id->gid = (uint32_t)n;
	}

	if (!group)
		return 0;
	if (!td_parse_i64(group + 1, &n)) {
		td_auto_strv struct td_strv g = {0};
		if (!lookup(rootfs, "group", group + 1, 0, &g) || !td_parse_i64(g.v[2], &n))
			return td_fail(err, TD_INVALID, "the image's group \"%s\" is not in its /etc/group", group + 1);
	}

	id->gid = (uint32_t)n;
	return 0;
}

static void add_group(struct td_ident *id, int64_t gid)
{
	for (size_t i = 0; i < id->n_groups; i++)
		if (id->groups[i] == (uint32_t)gid)
			return;
	if (id->n_groups < TD_LEN(id->groups))
		id->groups[id->n_groups++] = (uint32_t)gid;
}

// Adds the groups whose lines in the image's /etc/group name the user.
static void image_groups(const char *rootfs, struct td_ident *id)
{
	td_auto_strv struct td_strv user = {0}, lines = {0};
	if (!lookup(rootfs, "passwd", NULL, id->uid, &user) || !read_lines(rootfs, "group", &lines))
		return;
	for (size_t i = 0; i < lines.n; i++) {
		td_auto_strv struct td_strv f = {0}, members = {0};
		long long gid;
		td_strv_split(&f, lines.v[i], ':');
		if (f.n < 4 || !td_parse_i64(f.v[2], &gid))
			continue;
		td_strv_split(&members, f.v[3], ',');
		if (td_strv_has(&members, user.v[0]))
			add_group(id, gid);
	}
}

// Returns the container's own setting, or else the pod's.
static const yyjson_val *either(const yyjson_val *c, const yyjson_val *p, const char *key)
{
	yyjson_val *v = td_jget(c, key);
	return v && !yyjson_is_null(v) ? v : td_jget(p, key);
}

int td_ident_build(const yyjson_val *pod, const yyjson_val *container, const char *rootfs, const char *image_user,
		   struct td_ident *ret, struct td_error *err)
{
	const yyjson_val *sc = td_jget(container, "securityContext"), *psc = td_jget(pod, "spec.securityContext");
	td_auto_ident struct td_ident id = {0};
	const yyjson_val *u = either(sc, psc, "runAsUser"), *g = either(sc, psc, "runAsGroup"), *v;
	int r = 0;

	if (u) {
		td_auto_strv struct td_strv f = {0};
		long long n = yyjson_get_sint((yyjson_val *)u), gid;
		if (n < 0 || n > UINT32_MAX - 1)
			return td_fail(err, TD_INVALID, "securityContext.runAsUser %lld: want 0 to %u", n,
				       UINT32_MAX - 1);
		id.uid = (uint32_t)n;
		if (lookup(rootfs, "passwd", NULL, n, &f) && f.n > 3 && td_parse_i64(f.v[3], &gid))
			id.gid = (uint32_t)gid;
	} else {
		r = image_ids(rootfs, image_user, &id, err);
		if (r)
			return r;
	}

	if (g)
		id.gid = (uint32_t)yyjson_get_sint((yyjson_val *)g);

	v = either(sc, psc, "runAsNonRoot");
	if (v && yyjson_get_bool((yyjson_val *)v) && !id.uid)
		return td_fail(err, TD_INVALID,
			       "container has runAsNonRoot and image will run as root (set securityContext.runAsUser)");

	// As in containerd: the first group is also among the others. The image's own groups of the
	// user count unless the policy is Strict.
	add_group(&id, id.gid);
	v = td_jget(psc, "fsGroup");
	if (v)
		add_group(&id, yyjson_get_sint((yyjson_val *)v));

	yyjson_val *e;
	size_t i, n;
	yyjson_arr_foreach (td_jget(psc, "supplementalGroups"), i, n, e) {
		add_group(&id, yyjson_get_sint(e));
	}

	if (!td_streq(td_jstr(psc, "supplementalGroupsPolicy"), "Strict"))
		image_groups(rootfs, &id);

	const yyjson_val *own = either(td_jget(sc, "seccompProfile"), td_jget(psc, "seccompProfile"), "type"),
			 *profile = td_jget(sc, "seccompProfile") ? td_jget(sc, "seccompProfile")
								  : td_jget(psc, "seccompProfile");
	if (td_streq(yyjson_get_str((yyjson_val *)(uintptr_t)own), "Localhost"))
		id.seccomp_own = td_strdup(td_jstr_or(profile, "localhostProfile", ""));
	id.seccomp = td_streq(yyjson_get_str((yyjson_val *)either(td_jget(sc, "seccompProfile"),
								  td_jget(psc, "seccompProfile"), "type")),
			      "RuntimeDefault");
	id.privileged = td_jbool(sc, "privileged", false);
	id.read_only_root = td_jbool(sc, "readOnlyRootFilesystem", false);
	id.no_new_privileges = !td_jbool(sc, "allowPrivilegeEscalation", true) && !id.privileged;

	// Written by the API server in a Tenant's project mode. Nobody gets a right by another one.
	const char *mask = td_jkey_str(td_jget(pod, "metadata.annotations"), TD_ANN_UMASK);
	for (; mask && *mask >= '0' && *mask <= '7' && id.umask < 0100; mask++)
		id.umask = id.umask * 8 + (*mask - '0');

	r = caps(sc, &id, err);
	if (r)
		return r;

	*ret = id;
	id.caps = (struct td_strv){0};
	id.seccomp_own = NULL;
	return 0;
}
