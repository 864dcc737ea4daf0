// Writes a container's config.json from a td_oci_spec. Its constants are measured:
// docs/design/0003-sandboxes.md.
#include "base/file.h"
#include "oci/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const cap_names[] = {"CAP_CHOWN",
					"CAP_DAC_OVERRIDE",
					"CAP_DAC_READ_SEARCH",
					"CAP_FOWNER",
					"CAP_FSETID",
					"CAP_KILL",
					"CAP_SETGID",
					"CAP_SETUID",
					"CAP_SETPCAP",
					"CAP_LINUX_IMMUTABLE",
					"CAP_NET_BIND_SERVICE",
					"CAP_NET_BROADCAST",
					"CAP_NET_ADMIN",
					"CAP_NET_RAW",
					"CAP_IPC_LOCK",
					"CAP_IPC_OWNER",
					"CAP_SYS_MODULE",
					"CAP_SYS_RAWIO",
					"CAP_SYS_CHROOT",
					"CAP_SYS_PTRACE",
					"CAP_SYS_PACCT",
					"CAP_SYS_ADMIN",
					"CAP_SYS_BOOT",
					"CAP_SYS_NICE",
					"CAP_SYS_RESOURCE",
					"CAP_SYS_TIME",
					"CAP_SYS_TTY_CONFIG",
					"CAP_MKNOD",
					"CAP_LEASE",
					"CAP_AUDIT_WRITE",
					"CAP_AUDIT_CONTROL",
					"CAP_SETFCAP",
					"CAP_MAC_OVERRIDE",
					"CAP_MAC_ADMIN",
					"CAP_SYSLOG",
					"CAP_WAKE_ALARM",
					"CAP_BLOCK_SUSPEND",
					"CAP_AUDIT_READ",
					"CAP_PERFMON",
					"CAP_BPF",
					"CAP_CHECKPOINT_RESTORE"};

// The capabilities that this process holds: runc fails on one that it does not hold itself.
static uint64_t own_caps(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {0};
	if (syscall(SYS_capget, &h, d) < 0)
		return 0;
	return d[0].permitted | (uint64_t)d[1].permitted << 32;
}

static yyjson_mut_val *strings(yyjson_mut_doc *d, const char *const *v)
{
	yyjson_mut_val *a = yyjson_mut_arr(d);
	for (; v && *v; v++)
		yyjson_mut_arr_add_strcpy(d, a, *v);
	return a;
}

static int capabilities(yyjson_mut_doc *d, yyjson_mut_val *process, const struct td_oci_spec *s, struct td_error *err)
{
	uint64_t own = own_caps(), want = 0;
	for (size_t i = 0; i < TD_LEN(cap_names) && s->privileged; i++)
		want |= 1ull << i;

	for (const char *const *c = s->caps; c && *c; c++) {
		size_t i = 0;
		while (i < TD_LEN(cap_names) && strcmp(cap_names[i], *c))
			i++;
		if (i == TD_LEN(cap_names))
			return td_fail(err, TD_INVALID, "container %s: unknown capability \"%s\"", s->id, *c);
		want |= 1ull << i;
	}

	static const char *const sets[] = {"bounding", "effective", "permitted"};
	for (size_t k = 0; k < TD_LEN(sets); k++) {
		yyjson_mut_val *a = yyjson_mut_arr(d);
		for (size_t i = 0; i < TD_LEN(cap_names); i++)
			if (want & own & 1ull << i)
				yyjson_mut_arr_add_str(d, a, cap_names[i]);
		td_jm_set(d, td_jm_obj(d, process, "capabilities"), sets[k], a);
	}
	return 0;
}

static void process(yyjson_mut_doc *d, yyjson_mut_val *p, const struct td_oci_spec *s)
{
	td_jm_bool(d, p, "terminal", false);
	td_jm_int(d, p, "user.uid", s->uid);
	td_jm_int(d, p, "user.gid", s->gid);
	if (s->umask)
		td_jm_int(d, p, "user.umask", s->umask);
	yyjson_mut_val *g = td_jm_arr(d, p, "user.additionalGids");
	for (size_t i = 0; i < s->n_groups; i++)
		yyjson_mut_arr_add_uint(d, g, s->groups[i]);

	yyjson_mut_val *args = td_jm_arr(d, p, "args");
	yyjson_mut_arr_add_str(d, args, "/.init");
	if (s->log_max) {
		td_auto_free char *max = td_asprintf("%lld", (long long)s->log_max);
		yyjson_mut_arr_add_str(d, args, "--log");
		yyjson_mut_arr_add_strcpy(d, args, max);
		if (s->stdin_open)
			yyjson_mut_arr_add_str(d, args, "--stdin");
	}
	if (s->tty)
		yyjson_mut_arr_add_str(d, args, "--tty");
	for (const char *const *a = s->args; *a; a++)
		yyjson_mut_arr_add_strcpy(d, args, *a);

	bool path = false;
	for (const char *const *e = s->env; e && *e; e++)
		path = path || td_starts(*e, "PATH=");
	yyjson_mut_val *env = td_jm_arr(d, p, "env");
	if (!path)
		yyjson_mut_arr_add_str(d, env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	for (const char *const *e = s->env; e && *e; e++)
		yyjson_mut_arr_add_strcpy(d, env, *e);

	td_jm_str(d, p, "cwd", s->cwd && *s->cwd ? s->cwd : "/");
	td_jm_bool(d, p, "noNewPrivileges", s->no_new_privileges);

	// A generous limit of open files, as containerd sets it, but not above this process's own
	// hard limit: raising that needs CAP_SYS_RESOURCE.
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		long long n = l.rlim_max == RLIM_INFINITY || l.rlim_max > 1048576 ? 1048576 : (long long)l.rlim_max;
		yyjson_mut_val *rl = yyjson_mut_arr_add_obj(d, td_jm_arr(d, p, "rlimits"));
		td_jm_str(d, rl, "type", "RLIMIT_NOFILE");
		td_jm_int(d, rl, "soft", n);
		td_jm_int(d, rl, "hard", n);
	}
}

static void mount_add(yyjson_mut_doc *d, yyjson_mut_val *mounts, const char *type, const char *source, const char *dest,
		      const char *options)
{
	yyjson_mut_val *m = yyjson_mut_arr_add_obj(d, mounts);
	td_jm_str(d, m, "destination", dest);
	td_jm_str(d, m, "type", type);
	td_jm_str(d, m, "source", source);

	td_auto_strv struct td_strv o = {0};
	if (options)
		td_strv_split(&o, options, ',');
	if (!strcmp(type, "bind") && !td_strv_has(&o, "bind") && !td_strv_has(&o, "rbind"))
		td_strv_add(&o, "rbind");
	td_jm_set(d, m, "options", strings(d, (const char *const *)o.v));
}

// A bind mount at dest. In a user namespace the sandbox puts the source at m/<i> first, mapped and read-only where it
// has to be: there runc could not change a mount that it did not make.
static void bind_add(const struct td_oci *r, yyjson_mut_doc *d, yyjson_mut_val *mounts, const struct td_oci_spec *s,
		     const struct td_oci_mount *b, struct td_strv *list)
{
	td_auto_strv struct td_strv o = {0};
	if (!s->users) {
		mount_add(d, mounts, "bind", b->source, b->destination, b->options);
		return;
	}
	td_strv_split(&o, b->options ? b->options : "", ',');
	td_auto_free char *dir = td_oci_pod_path(r, s->id, TD_USERS_DIR), *at = td_asprintf("%s/%zu", dir, list->n);
	td_strv_addf(list, "m%s%s%s%s %s", td_strv_has(&o, "ro") ? "r" : "", td_strv_has(&o, "nosuid") ? "s" : "",
		     td_strv_has(&o, "nodev") ? "d" : "", b->keep_ids ? "=" : "", b->source);
	mount_add(d, mounts, "bind", at, b->destination, td_strv_has(&o, "rslave") ? "rbind,rslave" : "rbind,rprivate");
}

static int mounts(const struct td_oci *r, yyjson_mut_doc *d, yyjson_mut_val *root, const struct td_oci_spec *s,
		  struct td_strv *list, struct td_error *err)
{
	yyjson_mut_val *m = td_jm_arr(d, root, "mounts");
	mount_add(d, m, "proc", "proc", "/proc", NULL);
	mount_add(d, m, "tmpfs", "tmpfs", "/dev", "nosuid,strictatime,mode=755,size=65536k");
	mount_add(d, m, "devpts", "devpts", "/dev/pts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5");
	mount_add(d, m, "tmpfs", "shm", "/dev/shm", "nosuid,noexec,nodev,mode=1777,size=65536k");
	mount_add(d, m, "mqueue", "mqueue", "/dev/mqueue", "nosuid,noexec,nodev");
	mount_add(d, m, "sysfs", "sysfs", "/sys", s->privileged ? "nosuid,noexec,nodev,rw" : "nosuid,noexec,nodev,ro");
	mount_add(d, m, "cgroup", "cgroup", "/sys/fs/cgroup",
		  s->writable_cgroup || s->privileged ? "nosuid,noexec,nodev,relatime,rw"
						      : "nosuid,noexec,nodev,relatime,ro");
	bind_add(r, d, m, s, &(struct td_oci_mount){"bind", r->init_path, "/.init", "bind,ro", true}, list);

	for (size_t i = 0; i < s->n_mounts; i++) {
		const struct td_oci_mount *x = &s->mounts[i];
		if (!x->destination || x->destination[0] != '/')
			return td_fail(err, TD_INVALID,
				       "container %s: mount destination \"%s\" is not an absolute path", s->id,
				       x->destination ? x->destination : "");
		if (!x->type)
			return td_fail(err, TD_INVALID, "container %s: mount at %s has no type", s->id, x->destination);
		if (!strcmp(x->type, "bind") && (!x->source || x->source[0] != '/'))
			return td_fail(err, TD_INVALID,
				       "container %s: bind mount at %s: source \"%s\" is not an absolute path", s->id,
				       x->destination, x->source ? x->source : "");
		if (!strcmp(x->type, "bind"))
			bind_add(r, d, m, s, x, list);
		else
			mount_add(d, m, x->type, x->source ? x->source : x->type, x->destination, x->options);
	}
	// runc binds the machine's own files of these names in a user namespace, where nobody can make any. The
	// sandbox makes them.
	td_auto_free char *dir = td_oci_pod_path(r, s->id, TD_USERS_DIR);
	for (size_t i = 0; s->users && i < s->n_devices; i++) {
		const struct td_oci_device *x = &s->devices[i];
		td_auto_free char *at = td_asprintf("%s/%zu", dir, list->n);
		td_strv_addf(list, "%c %d:%d %o", x->type, x->major, x->minor, (unsigned)(x->mode ? x->mode : 0666));
		mount_add(d, m, "bind", at, x->path, "bind,rprivate");
	}
	return 0;
}

static int resources(const struct td_oci *r, yyjson_mut_doc *d, yyjson_mut_val *linux_, const struct td_oci_spec *s,
		     struct td_error *err)
{
	// Each rule says "rwm", because Slurm's ConstrainDevices can only pass on a device that it
	// has with all three rights.
	yyjson_mut_val *rules = td_jm_arr(d, linux_, "resources.devices"), *nodes = td_jm_arr(d, linux_, "devices");
	yyjson_mut_val *all = yyjson_mut_arr_add_obj(d, rules);
	td_jm_bool(d, all, "allow", s->privileged);
	td_jm_str(d, all, "access", "rwm");

	for (size_t i = 0; i < s->n_devices; i++) {
		const struct td_oci_device *x = &s->devices[i];
		if (!x->path || !td_starts(x->path, "/dev/") || (x->type != 'c' && x->type != 'b'))
			return td_fail(err, TD_INVALID, "container %s: device \"%s\" is not a c or b device below /dev",
				       s->id, x->path ? x->path : "");
		char type[2] = {x->type, 0};
		if (!s->users) { // otherwise they are mounts
			yyjson_mut_val *n = yyjson_mut_arr_add_obj(d, nodes);
			td_jm_str(d, n, "path", x->path);
			td_jm_str(d, n, "type", type);
			td_jm_int(d, n, "major", x->major);
			td_jm_int(d, n, "minor", x->minor);
			td_jm_int(d, n, "fileMode", (long long)(x->mode ? x->mode : 0666));
			td_jm_int(d, n, "uid", 0);
			td_jm_int(d, n, "gid", 0);
		}
		yyjson_mut_val *a = yyjson_mut_arr_add_obj(d, rules);
		td_jm_bool(d, a, "allow", true);
		td_jm_str(d, a, "type", type);
		td_jm_int(d, a, "major", x->major);
		td_jm_int(d, a, "minor", x->minor);
		td_jm_str(d, a, "access", "rwm");
	}

	if (s->memory_max) {
		if (s->memory_max < 4 << 20)
			return td_fail(
				err, TD_INVALID,
				"container %s: a memory limit of %lld bytes is too small to start: use at least 4Mi",
				s->id, (long long)s->memory_max);
		td_jm_int(d, linux_, "resources.memory.limit", s->memory_max);
		if (td_oci_cgroup_has_swap_limit(r->v2)) // counts memory and swap: no swap is left
			td_jm_int(d, linux_, "resources.memory.swap", s->memory_max);
	}

	if (s->cpu_milli_max) {
		long long quota = s->cpu_milli_max * 100;
		td_jm_int(d, linux_, "resources.cpu.period", 100000);
		td_jm_int(d, linux_, "resources.cpu.quota", quota < 1000 ? 1000 : quota);
	}

	// As in the kubelet, a container without a request gets the least shares.
	long long shares = s->cpu_milli_request * 1024 / 1000;
	td_jm_int(d, linux_, "resources.cpu.shares", shares < 2 ? 2 : shares > 262144 ? 262144 : shares);
	td_jm_int(d, linux_, "resources.pids.limit", s->pids_max ? s->pids_max : 4096);
	return 0;
}

// No fsync: the files are written again at every start.
static int write_file(const char *path, const char *s, size_t n, struct td_error *err)
{
	td_auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "write %s", path);
	return td_write_all(fd, s, n, err) ? td_wrap(err, "%s", path) : 0;
}

// What the sandbox prepares, as internal.h says.
static int list_write(const struct td_oci *r, const struct td_oci_spec *s, const struct td_strv *list,
		      struct td_error *err)
{
	td_auto_free char *path = td_oci_pod_path(r, s->id, TD_USERS_LIST);
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < list->n; i++)
		td_buf_add(&b, list->v[i], strlen(list->v[i]) + 1);
	return write_file(path, td_buf_str(&b), b.len, err);
}

// The user namespace comes first in `namespaces`: runc joins them in this order, and owns the others by it.
static void users(const struct td_oci *r, yyjson_mut_doc *d, yyjson_mut_val *linux_, yyjson_mut_val *namespaces,
		  const struct td_oci_spec *s)
{
	static const char *const maps[] = {"uidMappings", "gidMappings"};
	yyjson_mut_val *n = yyjson_mut_arr_add_obj(d, namespaces);
	td_auto_free char *dir = td_oci_pod_path(r, s->id, TD_USERS_DIR);
	td_jm_str(d, n, "type", "user");
	td_jm_strf(d, n, "path", "%s/user", dir);
	for (size_t i = 0; i < TD_LEN(maps); i++) {
		yyjson_mut_val *m = yyjson_mut_arr_add_obj(d, td_jm_arr(d, linux_, maps[i]));
		td_jm_int(d, m, "containerID", 0);
		td_jm_int(d, m, "hostID", s->users);
		td_jm_int(d, m, "size", TD_OCI_IDS);
	}
}

int td_oci_config_write(const struct td_oci *r, const struct td_oci_spec *s, const char *path, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *l = td_jm_obj(d, root, "linux"),
		       *p = td_jm_obj(d, root, "process");
	td_jm_str(d, root, "ociVersion", "1.0.2");
	// sethostname(2) takes at most 64 bytes.
	td_jm_strf(d, root, "hostname", "%.64s", s->hostname && *s->hostname ? s->hostname : s->id);
	process(d, p, s);

	int x;
	td_auto_strv struct td_strv list = {0};
	if ((x = capabilities(d, p, s, err)) || (x = mounts(r, d, root, s, &list, err)) ||
	    (x = resources(r, d, l, s, err)) || (s->users && (x = list_write(r, s, &list, err))))
		return x;

	td_jm_str(d, root, "root.path", s->users ? r->root_dir : "rootfs");
	td_jm_bool(d, root, "root.readonly", s->read_only_root);
	td_jm_strf(d, l, "cgroupsPath", "%s/%s", r->cgroup, s->id);

	yyjson_mut_val *ns = td_jm_arr(d, l, "namespaces");
	if (s->users)
		users(r, d, l, ns, s);
	static const char *const kinds[] = {"pid", "ipc", "uts", "mount", "cgroup"};
	// Not a cgroup namespace on v1: it would hide the cgroup path that Slurm computes.
	for (size_t i = 0; i < TD_LEN(kinds) - !r->v2; i++)
		td_jm_str(d, yyjson_mut_arr_add_obj(d, ns), "type", kinds[i]);
	if (s->netns) {
		yyjson_mut_val *n = yyjson_mut_arr_add_obj(d, ns);
		td_jm_str(d, n, "type", "network");
		td_jm_strf(d, n, "path", "/run/netns/%s", s->netns);
	}

	if (s->seccomp_own && !s->privileged)
		td_oci_seccomp_own(d, l, s->seccomp_own);
	else if (s->seccomp && !s->privileged)
		td_oci_seccomp(d, l, s);
	if (!s->privileged) {
		static const char *const masked[] = {
			"/proc/acpi",       "/proc/asound",      "/proc/kcore",   "/proc/keys", "/proc/latency_stats",
			"/proc/timer_list", "/proc/sched_debug", "/sys/firmware", "/proc/scsi", NULL};
		static const char *const ro[] = {"/proc/bus",           "/proc/fs", "/proc/irq", "/proc/sys",
						 "/proc/sysrq-trigger", NULL};
		td_jm_set(d, l, "maskedPaths", strings(d, masked));
		td_jm_set(d, l, "readonlyPaths", strings(d, ro));
	}

	size_t n = 0;
	td_auto_free char *text = td_json_mut_text(root, &n);
	return write_file(path, text, n, err);
}
