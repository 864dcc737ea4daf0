// Walks over the cgroup file system (cgroups.h).
#include "gate/cgroups.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	// Levels of kubepods below the top of a hierarchy. A deeper one is of a cluster inside a
	// pod.
	ROOT_DEPTH = 4,
	POD_DEPTH = 3,   // of a pod's directory below kubepods
	TREE_DEPTH = 24, // below a pod: nobody nests deeper, and a walk must end
	FILE_MAX = 1 << 20
};

// What a walk looks for, and what it found.
struct look {
	char pod[2][64];   // a pod's directory: its name "pod<uid>", or its end "-pod<uid_>.slice"
	char job[32];      // or a job's directory; "": a pod is looked for
	const char *sluid; // another name of it; "": it has none
	enum td_cg_state found;
	int64_t *cpu_us; // what the pod has used is wanted, and goes there; NULL: whether it has processes
	pid_t *pids;     // or these are wanted, at most `most`; NULL: they are not
	size_t n_pids, most;
	int64_t *jobs; // or all jobs with processes are wanted, at most `most`; NULL: they are not
	size_t n_jobs;
	struct td_error *err;
};
typedef int (*visit_f)(struct look *l, const char *path, const char *name, int depth);

static int each_dir(struct look *l, const char *path, int depth, visit_f fn)
{
	DIR *d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : td_fail_errno(l->err, TD_INTERNAL, errno, "read %s", path);
	int r = 0;
	for (struct dirent *e; !r && l->found != TD_CG_BUSY && (e = readdir(d)) != NULL;) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		td_auto_free char *sub = td_asprintf("%s/%s", path, e->d_name);
		r = fn(l, sub, e->d_name, depth);
	}
	closedir(d);
	return r;
}

// Says whether the file has the line, or (line NULL) any. If the directory is gone by now, it has
// none.
static int has_lines(struct look *l, const char *path, const char *file, const char *line, bool *ret)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_free char *f = td_asprintf("%s/%s", path, file);
	struct td_error e = TD_ERROR_INIT;
	int r = td_file_read(f, FILE_MAX, &b, &e);
	*ret = false;
	if (r == TD_NOT_FOUND || (r && !td_path_exists(path)))
		return 0;
	if (r) {
		if (l->err)
			*l->err = e;
		return r;
	}
	*ret = line ? strstr(td_buf_str(&b), line) != NULL : b.len > 0;
	return 0;
}

static int processes(struct look *l, const char *path, const char *name, int depth)
{
	bool any;
	td_auto_free char *events = td_asprintf("%s/cgroup.events", path);
	if (l->found == TD_CG_NONE)
		l->found = TD_CG_EMPTY;
	if (td_path_exists(events)) { // v2: it covers the whole tree
		int r = has_lines(l, path, "cgroup.events", "populated 1", &any);
		if (!r && any)
			l->found = TD_CG_BUSY;
		return r;
	}

	int r = has_lines(l, path, "cgroup.procs", NULL, &any);
	if (r)
		return r;
	if (any) {
		l->found = TD_CG_BUSY;
		return 0;
	}
	return depth < TREE_DEPTH ? each_dir(l, path, depth + 1, processes)
				  : td_fail(l->err, TD_INTERNAL, "%s is nested too deeply", path);
}

static int cpu_used(struct look *l, const char *path)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_free char *v2 = td_asprintf("%s/cpu.stat", path), *v1 = td_asprintf("%s/cpuacct.usage", path);
	long long n;
	if (!td_file_read(v1, FILE_MAX, &b, NULL) && sscanf(td_buf_str(&b), "%18lld", &n) == 1)
		*l->cpu_us = n / 1000;
	else if (!td_file_read(v2, FILE_MAX, &b, NULL) && sscanf(td_buf_str(&b), "usage_usec %18lld", &n) == 1)
		*l->cpu_us = n;
	l->found = TD_CG_BUSY; // there is no more to look for
	return 0;
}

static int list_pids(struct look *l, const char *path, const char *name, int depth)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_free char *f = td_asprintf("%s/cgroup.procs", path);
	if (!td_file_read(f, FILE_MAX, &b, NULL))
		for (const char *s = td_buf_str(&b); *s && l->n_pids < l->most;
		     s += strcspn(s, "\n"), s += *s == '\n') {
			int pid;
			if (sscanf(s, "%9d", &pid) == 1 && pid > 0) // 0: it is outside of our PID namespace
				l->pids[l->n_pids++] = pid;
		}
	return depth < TREE_DEPTH ? each_dir(l, path, depth + 1, list_pids) : 0;
}

static int visit_pod(struct look *l, const char *path, const char *name, int depth)
{
	size_t n = strlen(name), k = strlen(l->pod[1]);
	if (!strcmp(name, l->pod[0]) || (n > k && !strcmp(name + n - k, l->pod[1])))
		return l->pids     ? list_pids(l, path, name, 0)
		       : l->cpu_us ? cpu_used(l, path)
				   : processes(l, path, name, 0);
	return depth < POD_DEPTH ? each_dir(l, path, depth + 1, visit_pod) : 0;
}

static int visit_job(struct look *l, const char *path, const char *name, int depth)
{
	if (!strcmp(name, l->job) || (*l->sluid && !strcmp(name, l->sluid)))
		return processes(l, path, name, 0);
	return depth < TREE_DEPTH ? each_dir(l, path, depth + 1, visit_job) : 0;
}

static int visit_jobs(struct look *l, const char *path, const char *name, int depth)
{
	long long job;
	if (td_starts(name, "job_") && td_parse_i64(name + strlen("job_"), &job) && job > 0) {
		struct look one = {.sluid = ""};
		if (!processes(&one, path, name, 0) && one.found == TD_CG_BUSY && l->n_jobs < l->most)
			l->jobs[l->n_jobs++] = job;
		return 0;
	}
	return depth < TREE_DEPTH ? each_dir(l, path, depth + 1, visit_jobs) : 0;
}

static int visit_top(struct look *l, const char *path, const char *name, int depth)
{
	if (!strcmp(name, "kubepods") || !strcmp(name, "kubepods.slice"))
		return each_dir(l, path, 0, l->jobs ? visit_jobs : *l->job ? visit_job : visit_pod);
	return depth < ROOT_DEPTH ? each_dir(l, path, depth + 1, visit_top) : 0;
}

static int walk(const char *root, const char *const *v1, size_t n, struct look *l)
{
	td_auto_free char *v2 = td_asprintf("%s/cgroup.controllers", root);
	if (td_path_exists(v2))
		return each_dir(l, root, 0, visit_top);
	for (size_t i = 0; i < n; i++) {
		td_auto_free char *top = td_asprintf("%s/%s", root, v1[i]);
		if (td_path_exists(top))
			return each_dir(l, top, 0, visit_top);
	}
	return td_fail(l->err, TD_INTERNAL, "%s is no cgroup file system: the machine's own must be mounted there",
		       root);
}

static void name_pod(struct look *l, const char *uid)
{
	snprintf(l->pod[0], sizeof(l->pod[0]), "pod%.48s", uid);
	snprintf(l->pod[1], sizeof(l->pod[1]), "-pod%.48s.slice", uid);
	for (char *s = l->pod[1] + 4; *s; s++)
		if (*s == '-')
			*s = '_';
}

int td_cg_pod_cpu(const char *root, const char *uid, int64_t *ret_us, struct td_error *err)
{
	static const char *const v1[] = {"cpuacct", "cpu,cpuacct"};
	struct look l = {.err = err, .cpu_us = ret_us};
	name_pod(&l, uid);
	*ret_us = -1;
	int r = walk(root, v1, TD_LEN(v1), &l);
	if (!r && *ret_us < 0)
		r = td_fail(err, TD_NOT_FOUND, "pod %.48s: its cgroup says no CPU time", uid);
	return r;
}

size_t td_cg_pod_pids(const char *root, const char *uid, pid_t *v, size_t max)
{
	static const char *const v1[] = {"pids", "systemd", "memory", "devices"};
	struct look l = {.pids = v, .most = max};
	name_pod(&l, uid);
	return walk(root, v1, TD_LEN(v1), &l) ? 0 : l.n_pids;
}

int td_cg_pod(const char *root, const char *uid, enum td_cg_state *ret, struct td_error *err)
{
	// One hierarchy is enough: runtimes put a process into all of them or into none.
	static const char *const v1[] = {"pids", "systemd", "memory", "devices"};
	struct look l = {.err = err};
	name_pod(&l, uid);
	int r = walk(root, v1, TD_LEN(v1), &l);
	if (!r)
		*ret = l.found;
	return r;
}

bool td_cg_next_pod(const char **at, char ret_uid[40])
{
	enum { UID = 36 };
	for (const char *s = *at; (s = strstr(s, "pod")) != NULL; s++) {
		if (s == *at || (s[-1] != '/' && s[-1] != '-') || strnlen(s + 3, UID) < UID)
			continue;
		size_t n = 0;
		while (n < UID && strchr(n == 8 || n == 13 || n == 18 || n == 23 ? "-_" : "0123456789abcdef", s[3 + n]))
			n++;
		if (n < UID || !strchr("/.\n", s[3 + UID])) // strchr finds '\0' too
			continue;

		for (size_t i = 0; i < UID; i++)
			ret_uid[i] = s[3 + i] == '_' ? '-' : s[3 + i];
		ret_uid[UID] = '\0';
		*at = s + 3 + UID;
		return true;
	}

	return false;
}

size_t td_cg_jobs(const char *root, int64_t *v, size_t max)
{
	static const char *const v1[] = {"freezer"};
	struct look l = {.sluid = "", .jobs = v, .most = max};
	return walk(root, v1, TD_LEN(v1), &l) ? 0 : l.n_jobs;
}

int td_cg_job(const char *root, int64_t job, const char *sluid, enum td_cg_state *ret, struct td_error *err)
{
	static const char *const v1[] = {"freezer"};
	struct look l = {.sluid = sluid, .err = err};
	snprintf(l.job, sizeof(l.job), "job_%lld", (long long)job);
	int r = walk(root, v1, TD_LEN(v1), &l);
	if (!r)
		*ret = l.found;
	return r;
}
