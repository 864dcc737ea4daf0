// The runtime object and what every file of the room uses: paths, /proc, runc as a program,
// reaping.
#include "oci/internal.h"

#include "base/clock.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ID_MAX = 80 };

int64_t td_oci_mono_ms(void)
{
	return td_mono_ms(&td_clock_system);
}

bool td_oci_id_ok(const char *id)
{
	return id && *id && *id != '-' && strlen(id) <= ID_MAX &&
	       strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(id);
}

char *td_oci_pod_path(const struct td_oci *r, const char *id, const char *file)
{
	return td_asprintf("%s/%s%s%s", r->pods_dir, id, file ? "/" : "", file ? file : "");
}

static char *find_runc(void)
{
	td_auto_strv struct td_strv dirs = {0};
	const char *path = getenv("PATH");
	if (path)
		td_strv_split(&dirs, path, ':');
	// A user's PATH may lack these.
	td_strv_split(&dirs, "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin", ':');

	for (size_t i = 0; i < dirs.n; i++) {
		td_auto_free char *p = td_asprintf("%s/runc", dirs.v[i]);
		if (access(p, X_OK) == 0)
			return td_steal(p);
	}
	return NULL;
}

int td_oci_new(const struct td_oci_opts *o, struct td_oci **ret, struct td_error *err)
{
	if (!o->state_dir || o->state_dir[0] != '/' || !o->pods_dir || o->pods_dir[0] != '/')
		return td_fail(err, TD_INVALID, "the runtime's state and container directories must be absolute paths");
	if (!o->cgroup || o->cgroup[0] != '/' || !o->cgroup[1] || strstr(o->cgroup, ".."))
		return td_fail(err, TD_INVALID, "cgroup \"%s\" must be an absolute path below the root",
			       o->cgroup ? o->cgroup : "");

	td_auto_free char *runc = find_runc();
	if (!runc)
		return td_fail(err, TD_NOT_FOUND, "runc is not installed: apt-get install runc");

	int x;
	td_auto_free char *exec_dir = td_asprintf("%s.exec", o->state_dir),
			  *root_dir = td_asprintf("%s.root", o->state_dir);
	if ((x = td_mkdir_p(o->state_dir, 0700, err)) || (x = td_mkdir_p(o->pods_dir, 0711, err)) ||
	    (x = td_mkdir_p(exec_dir, 0700, err)) || (x = td_mkdir_p(root_dir, 0711, err)))
		return x;

	// Containers and execs become children of this process once runc has started them, so it
	// reaps them and gets their exit codes.
	prctl(PR_SET_CHILD_SUBREAPER, 1);

	struct td_oci *r = td_calloc(1, sizeof(*r));
	r->state_dir = td_strdup(o->state_dir);
	r->pods_dir = td_strdup(o->pods_dir);
	r->cgroup = td_strdup(o->cgroup);
	r->init_path = td_strdup(o->init_path);
	r->self_path = td_strdup(o->self_path);
	r->runc = td_steal(runc);
	r->exec_dir = td_steal(exec_dir);
	r->root_dir = td_steal(root_dir);
	r->v2 = td_oci_cgroup_detect_v2();

	*ret = r;
	return 0;
}

struct td_oci *td_oci_free(struct td_oci *r)
{
	if (!r)
		return NULL;
	free(r->state_dir);
	free(r->pods_dir);
	free(r->cgroup);
	free(r->init_path);
	free(r->self_path);
	free(r->runc);
	free(r->exec_dir);
	free(r->root_dir);
	free(r);
	return NULL;
}

bool td_oci_cgroup_v2(const struct td_oci *r)
{
	return r->v2;
}

bool td_oci_proc_stat(pid_t pid, uint64_t *ret_start, char *ret_state)
{
	td_auto_free char *path = td_asprintf("/proc/%d/stat", (int)pid);
	td_auto_buf struct td_buf b = {0};
	if (pid <= 0 || td_file_read(path, 8192, &b, NULL))
		return false;

	const char *p = strrchr(td_buf_str(&b), ')'); // the program's name may itself have a ')'
	if (!p || p[1] != ' ' || !p[2])
		return false;

	char state = p[2];
	p += 2;
	for (int field = 3; field < 22; field++) {
		p = strchr(p, ' ');
		if (!p)
			return false;
		p++;
	}

	if (ret_start)
		*ret_start = strtoull(p, NULL, 10);
	if (ret_state)
		*ret_state = state;
	return true;
}

void td_oci_reap(pid_t pid)
{
	siginfo_t si;
	while (waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG) < 0 && errno == EINTR)
		;
}

// ---- runc's words ----

// Drops what runc puts before the cause of an error, which says nothing to a user.
static const char *strip(const char *s)
{
	static const char *const noise[] = {"runc run failed: ",
					    "exec failed: ",
					    "unable to start container process: ",
					    "error during container init: ",
					    "runc create failed: ",
					    "container_linux.go:",
					    "rootfs_linux.go:"};
	for (size_t i = 0; i < TD_LEN(noise);) {
		if (td_starts(s, noise[i])) {
			s += strlen(noise[i]);
			i = 0;
		} else {
			i++;
		}
	}
	return s;
}

void td_oci_runc_words(const char *log_path, const char *out, struct td_buf *ret)
{
	td_auto_buf struct td_buf log = {0};
	td_auto_free char *found = NULL;
	if (td_file_read(log_path, 1 << 20, &log, NULL) == 0) {
		td_auto_strv struct td_strv lines = {0};
		td_strv_split(&lines, td_buf_str(&log), '\n');
		for (size_t i = lines.n; i-- > 0 && !found;) {
			td_auto(td_json_unref) struct td_json *j = NULL;
			if (td_json_parse(lines.v[i], strlen(lines.v[i]), &j, NULL))
				continue;
			const char *level = td_jstr_or(td_json_root(j), "level", ""),
				   *msg = td_jstr(td_json_root(j), "msg");
			if (msg && (!strcmp(level, "error") || !strcmp(level, "fatal")))
				found = td_strdup(strip(msg));
		}
	}

	const char *text = found ? found : out && *out ? out : "no reason given";
	size_t at = ret->len;
	td_buf_puts(ret, text);
	while (ret->len > at && strchr("\n\r ", ret->s[ret->len - 1]))
		ret->s[--ret->len] = '\0';
	for (size_t i = at; i < ret->len; i++)
		if (ret->s[i] == '\n')
			ret->s[i] = ' ';
}

int td_oci_runc(const struct td_oci *r, const char *const *argv, int64_t timeout_ms, struct td_cancel *c,
		struct td_error *err)
{
	td_auto_free char *log = td_asprintf("%s/%u.log", r->exec_dir,
					     __atomic_add_fetch(&((struct td_oci *)r)->next_exec, 1, __ATOMIC_RELAXED));
	unlink(log);

	td_auto_strv struct td_strv a = {0};
	const char *const head[] = {r->runc, "--root", r->state_dir, "--log", log, "--log-format", "json"};
	for (size_t i = 0; i < TD_LEN(head); i++)
		td_strv_add(&a, head[i]);
	for (; *argv; argv++)
		td_strv_add(&a, *argv);

	td_auto_buf struct td_buf out = {0};
	int status = 0, x = td_run(a.v, NULL, timeout_ms, c, &status, &out, err);
	td_auto_buf struct td_buf words = {0};
	if (!x && status)
		td_oci_runc_words(log, td_buf_str(&out), &words);

	unlink(log);
	return x ? x : status ? td_fail(err, TD_INVALID, "runc %s: %s", a.v[TD_LEN(head)], td_buf_str(&words)) : 0;
}

// ---- list ----
static void add_dirs(const char *path, struct td_strv *ret)
{
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' && e->d_type == DT_DIR && !td_strv_has(ret, e->d_name))
			td_strv_add(ret, e->d_name);
	if (d)
		closedir(d);
}

int td_oci_list(struct td_oci *r, struct td_strv *ret_ids, struct td_error *err)
{
	td_auto_strv struct td_strv l = {0};
	add_dirs(r->state_dir, &l);
	add_dirs(r->pods_dir, &l);
	td_oci_cgroup_list(r, &l);
	for (size_t i = 0; i < l.n; i++)
		td_strv_add(ret_ids, l.v[i]);
	return 0;
}
