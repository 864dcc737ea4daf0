// cgroups of version 1 (also hybrid) and version 2, through plain files. Everything of a runtime
// lies below <hierarchy>/<r->cgroup>/.
#include "base/file.h"
#include "base/proc.h"
#include "oci/internal.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CG_ROOT "/sys/fs/cgroup"
enum {
	CG_DEPTH = 32, // depth of directories below a container, which may make its own
	REMOVE_MS = 10000
};

bool td_oci_cgroup_detect_v2(void)
{
	struct statfs s;
	return statfs(CG_ROOT, &s) == 0 && s.f_type == CGROUP2_SUPER_MAGIC;
}

bool td_oci_cgroup_has_swap_limit(bool v2)
{
	return v2 || td_path_exists(CG_ROOT "/memory/memory.memsw.limit_in_bytes");
}

static bool is_dir(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

void td_oci_cgroup_paths(const struct td_oci *r, const char *id, struct td_strv *ret)
{
	const char *slash = id ? "/" : "";
	if (!id)
		id = "";

	if (r->v2) {
		td_auto_free char *p = td_asprintf(CG_ROOT "%s%s%s", r->cgroup, slash, id);
		if (is_dir(p))
			td_strv_add(ret, p);
		return;
	}

	DIR *d = opendir(CG_ROOT);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.' || e->d_type == DT_LNK)
			continue;
		td_auto_free char *p = td_asprintf(CG_ROOT "/%s%s%s%s", e->d_name, r->cgroup, slash, id);
		if (is_dir(p))
			td_strv_add(ret, p);
	}
	if (d)
		closedir(d);
}

// Calls f for `path` and every directory below it, deepest first; stops when f returns false.
static bool walk(const char *path, int depth, bool (*f)(const char *path, void *ctx), void *ctx)
{
	DIR *d = depth < CG_DEPTH ? opendir(path) : NULL;
	bool go = true;
	for (struct dirent *e; d && go && (e = readdir(d));) {
		if (e->d_name[0] == '.' || e->d_type != DT_DIR)
			continue;
		td_auto_free char *p = td_asprintf("%s/%s", path, e->d_name);
		go = walk(p, depth + 1, f, ctx);
	}

	if (d)
		closedir(d);
	return go && f(path, ctx);
}

// The value after "name " in a file of "key value" lines; -1: absent.
static int64_t keyed(const char *path, const char *name)
{
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, 65536, &b, NULL))
		return -1;
	size_t n = strlen(name);
	for (const char *p = td_buf_str(&b); p && *p;) {
		if (!strncmp(p, name, n) && p[n] == ' ')
			return strtoll(p + n + 1, NULL, 10);
		p = strchr(p, '\n');
		p = p ? p + 1 : NULL;
	}
	return -1;
}

static bool add_oom(const char *path, void *ctx)
{
	td_auto_free char *p = td_asprintf("%s/memory.oom_control", path);
	int64_t n = keyed(p, "oom_kill");
	if (n > 0)
		*(int64_t *)ctx += n;
	return true;
}

int64_t td_oci_cgroup_oom_kills(const struct td_oci *r, const char *id)
{
	td_auto_free char *p = r->v2 ? td_asprintf(CG_ROOT "%s/%s/memory.events", r->cgroup, id)
				     : td_asprintf(CG_ROOT "/memory%s/%s", r->cgroup, id);
	if (r->v2) { // on v2 the file counts the whole subtree
		int64_t n = keyed(p, "oom_kill");
		return n > 0 ? n : 0;
	}

	int64_t n = 0;
	if (is_dir(p))
		walk(p, 0, add_oom, &n);
	return n;
}

// ---- processes ----

// The pids of a subtree. thaw: thaw it first, because on v1 a frozen process does not take even
// SIGKILL.
struct pids {
	pid_t *v;
	size_t n;
	bool thaw;
};

static bool add_pids(const char *path, void *ctx)
{
	struct pids *l = ctx;
	if (l->thaw) {
		td_auto_free char *fz = td_asprintf("%s/freezer.state", path);
		FILE *f = fopen(fz, "re+");
		if (f) {
			fputs("THAWED", f);
			fclose(f);
		}
	}

	td_auto_free char *p = td_asprintf("%s/cgroup.procs", path);
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(p, 4 << 20, &b, NULL))
		return true;
	for (char *s = b.s; s && *s;) {
		long pid = strtol(s, &s, 10);
		if (pid > 0) { // 0: a process outside of this pid namespace
			l->v = td_realloc(l->v, (l->n + 1) * sizeof(*l->v));
			l->v[l->n++] = (pid_t)pid;
		}
		while (*s == '\n')
			s++;
	}
	return true;
}

static void pids_below(const struct td_oci *r, const char *id, bool thaw, struct pids *l)
{
	td_auto_strv struct td_strv paths = {0};
	td_oci_cgroup_paths(r, id, &paths);
	for (size_t i = 0; i < paths.n; i++) {
		l->thaw = thaw && !r->v2;
		walk(paths.v[i], 0, add_pids, l);
	}
}

int td_oci_cgroup_kill_all(const struct td_oci *r, const char *id, int64_t timeout_ms, struct td_error *err)
{
	int64_t end = td_oci_mono_ms() + timeout_ms;

	// One write kills the subtree, forks included. Kernels before 5.14 lack the file; there the
	// loop below does it.
	if (r->v2) {
		td_auto_free char *p =
			td_asprintf(CG_ROOT "%s%s%s/cgroup.kill", r->cgroup, id ? "/" : "", id ? id : "");
		FILE *f = fopen(p, "we");
		if (f) {
			fputs("1", f);
			fclose(f);
		}
	}

	for (int64_t pause = 1;;) {
		struct pids l = {0};
		pids_below(r, id, true, &l);
		bool mine = false;
		for (size_t i = 0; i < l.n; i++) {
			mine = mine || l.v[i] == getpid();
			if (l.v[i] != getpid())
				kill(l.v[i], SIGKILL);
		}
		for (size_t i = 0; i < l.n; i++)
			td_oci_reap(l.v[i]);

		size_t n = l.n;
		free(l.v);
		if (!n)
			return 0;
		if (mine)
			return td_fail(err, TD_INVALID, "this process itself runs in cgroup %s: it cannot clear it",
				       r->cgroup);
		if (td_oci_mono_ms() >= end)
			return td_fail(err, TD_TRANSIENT, "%zu processes in cgroup %s/%s survive SIGKILL", n, r->cgroup,
				       id ? id : "");
		td_cancel_wait(NULL, pause); // on v1 no event says that a cgroup is empty
		pause = pause < 16 ? pause * 2 : 16;
	}
}

struct busy {
	const char *sub;
	bool found;
};

static bool busy_dir(const char *path, void *ctx)
{
	struct pids l = {0};
	add_pids(path, &l);
	free(l.v);
	if (l.n)
		*(bool *)ctx = true;
	return !l.n;
}

static bool busy_named(const char *path, void *ctx)
{
	struct busy *b = ctx;
	const char *slash = strrchr(path, '/');
	if (slash && !strcmp(slash + 1, b->sub))
		walk(path, 0, busy_dir, &b->found);
	return !b->found;
}

bool td_oci_cgroup_busy(const struct td_oci *r, const char *id, const char *sub)
{
	td_auto_strv struct td_strv paths = {0};
	td_oci_cgroup_paths(r, id, &paths);
	struct busy b = {.sub = sub};
	for (size_t i = 0; i < paths.n && !b.found; i++) {
		if (!sub || !*sub)
			walk(paths.v[i], 0, busy_dir, &b.found);
		else
			walk(paths.v[i], 0, busy_named, &b);
	}
	return b.found;
}

// Each process once: on v1 each controller lists it.
static void pids_of(const struct td_oci *r, const char *id, struct pids *l)
{
	size_t n = 0;
	pids_below(r, id, false, l);
	for (size_t i = 0; i < l->n; i++) {
		bool twice = false;
		for (size_t k = 0; k < n && !twice; k++)
			twice = l->v[k] == l->v[i];
		if (!twice)
			l->v[n++] = l->v[i];
	}
	l->n = n;
}

size_t td_oci_pids(struct td_oci *r, const char *id, pid_t *v, size_t max)
{
	struct pids l = {0};
	pids_of(r, id, &l);
	size_t n = l.n < max ? l.n : max;
	for (size_t i = 0; i < n; i++)
		v[i] = l.v[i];
	free(l.v);
	return n;
}

// Is the process the container's? It may be another's by now.
static bool is_of(pid_t pid, const char *id)
{
	td_auto_free char *path = td_asprintf("/proc/%d/cgroup", (int)pid);
	td_auto_buf struct td_buf b = {0};
	return !td_file_read(path, 65536, &b, NULL) && strstr(td_buf_str(&b), id);
}

int td_oci_cgroup_tell(const struct td_oci *r, const char *id, int sig)
{
	struct pids l = {0};
	int told = 0;
	pids_of(r, id, &l);
	for (size_t i = 0; i < l.n; i++) {
		td_auto_close int fd = (int)syscall(SYS_pidfd_open, l.v[i], 0);
		if (fd >= 0 && is_of(l.v[i], id) && td_proc_catches("/proc", l.v[i], sig) &&
		    !syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0))
			told++;
	}
	free(l.v);
	return told;
}

static bool remove_dir(const char *path, void *ctx)
{
	if (rmdir(path) < 0 && errno != ENOENT)
		*(int *)ctx = errno;
	return true;
}

int td_oci_cgroup_remove(const struct td_oci *r, const char *id, struct td_error *err)
{
	int e = 0;

	// A dying process holds its cgroup longer than cgroup.procs shows it: for seconds on a busy
	// machine when its share of the CPU is small.
	for (int64_t end = td_oci_mono_ms() + REMOVE_MS, pause = 1;; pause = pause < 64 ? pause * 2 : 64) {
		td_auto_strv struct td_strv paths = {0};
		td_oci_cgroup_paths(r, id, &paths);
		e = 0;
		for (size_t i = 0; i < paths.n; i++)
			walk(paths.v[i], 0, remove_dir, &e);
		if (!e)
			return 0;
		if (td_oci_mono_ms() >= end)
			return td_fail_errno(err, TD_TRANSIENT, e, "remove cgroup %s/%s", r->cgroup, id ? id : "");
		td_cancel_wait(NULL, pause);
	}
}

void td_oci_cgroup_list(const struct td_oci *r, struct td_strv *ret)
{
	td_auto_strv struct td_strv paths = {0};
	td_oci_cgroup_paths(r, NULL, &paths);
	for (size_t i = 0; i < paths.n; i++) {
		DIR *d = opendir(paths.v[i]);
		for (struct dirent *e; d && (e = readdir(d));)
			if (e->d_name[0] != '.' && e->d_type == DT_DIR && !td_strv_has(ret, e->d_name))
				td_strv_add(ret, e->d_name);
		if (d)
			closedir(d);
	}
}

int64_t td_oci_cpu_used(struct td_oci *r, const char *id)
{
	td_auto_strv struct td_strv paths = {0};
	td_oci_cgroup_paths(r, id, &paths);
	for (size_t i = 0; i < paths.n; i++) {
		td_auto_free char *file = td_asprintf("%s/%s", paths.v[i], r->v2 ? "cpu.stat" : "cpuacct.usage");
		td_auto_buf struct td_buf text = {0};
		long long n;
		if (r->v2)
			return keyed(file, "usage_usec");
		if (td_file_read(file, 64, &text, NULL))
			continue; // another hierarchy
		td_buf_str(&text);
		text.s[strcspn(text.s, "\n")] = '\0';
		return td_parse_i64(text.s, &n) ? n / 1000 : -1; // of nanoseconds
	}
	return -1;
}
