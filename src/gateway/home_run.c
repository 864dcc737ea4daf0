// Runs in a home: tandem/runs/ID holds the code, what the run writes, and .tandem/: the record that
// lists it. A run is there whole or not at all.
#include "gateway/home_io.h"

#include "api/status.h"
#include "base/clock.h"
#include "base/file.h"
#include "gateway/path.h"
#include "json/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	INPUT_MOST = 64 << 20,
	RECORD_MOST = 4 << 20,
	RUNS_MOST = 200,
	CHUNK_DAYS = 14,
	EXIT_MOST = 4096,
	BEGAN_MOST = 1024
};

// Opens the directory that a file of the run lies in; it is made when absent. *cached, *fd: the last
// one.
static int parent(int top, const char *path, char **cached, int *fd, struct td_error *err)
{
	const char *slash = strrchr(path, '/');
	td_auto_free char *dir = td_strndup(path, slash ? (size_t)(slash - path) : 0);
	if (*cached && !strcmp(*cached, dir))
		return 0;

	td_auto_strv struct td_strv parts = {0};
	td_strv_split(&parts, dir, '/');
	td_auto_close int at = dup(top);
	for (size_t i = 0; i < parts.n; i++) {
		if (mkdirat(at, parts.v[i], 0755) < 0 && errno != EEXIST)
			return td_fail_errno(err, TD_INTERNAL, errno, "make directory %s", dir);
		int next = openat(at, parts.v[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return td_fail_errno(err, TD_INVALID, errno, "%s: a file has the name of this directory", dir);
		close(at);
		at = next;
	}
	if (*fd >= 0)
		close(*fd);
	*fd = td_steal_fd(&at);
	free(*cached);
	*cached = td_steal(dir);
	return 0;
}

static int fill(int top, const yyjson_val *in, struct td_error *err)
{
	td_auto_free char *cached = NULL;
	td_auto_close int dir = -1;
	size_t i, n;
	yyjson_val *f, *k;
	yyjson_arr_foreach (td_jget(in, "files"), i, n, f) {
		const char *path = td_jstr(f, "path"), *slash = path ? strrchr(path, '/') : NULL;
		int r = td_gateway_path_check(path, err);
		if (r)
			return r;
		if (!strcmp(path, ".tandem") || td_starts(path, ".tandem/"))
			return td_fail(err, TD_INVALID, "%s: .tandem is the run's own", path);
		if ((r = parent(top, path, &cached, &dir, err)))
			return r;
		r = td_home_assemble(dir, slash ? slash + 1 : path, td_jget(f, "chunks"), td_jbool(f, "exec", false),
				     err);
		if (r)
			return r == TD_EXISTS ? td_fail(err, TD_INVALID, "%s is twice among the files", path) : r;
	}
	yyjson_obj_foreach (td_jget(in, "texts"), i, n, k, f) {
		const char *text = yyjson_get_str(f), *name = yyjson_get_str(k);
		if (!name)
			continue;
		td_auto_free char *path = td_asprintf(".tandem/%s", name);
		int r = parent(top, path, &cached, &dir, err);
		if (r)
			return r;
		td_auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "write %s", path);
		if ((r = td_write_all(fd, text ? text : "", text ? strlen(text) : 0, err)))
			return r;
	}
	return mkdirat(top, "slurm_log", 0755) < 0 && errno != EEXIST
		       ? td_fail_errno(err, TD_INVALID, errno, "slurm_log is where logs go: a file has its name")
		       : 0;
}

// Removes chunks that nothing has used for long, in one of the 256 directories: over time all have
// their turn.
static void sweep(unsigned turn)
{
	char path[sizeof(TD_HOME_CHUNKS) + 4];
	snprintf(path, sizeof(path), TD_HOME_CHUNKS "/%02x", turn & 255);
	int fd = td_home_at(path, O_RDONLY | O_DIRECTORY, 0, NULL);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int64_t old = td_real_ms(&td_clock_system) / 1000 - CHUNK_DAYS * 86400;
	for (struct dirent *e; d && (e = readdir(d));) {
		struct stat st;
		if (e->d_name[0] != '.' && !fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) && st.st_mtim.tv_sec < old)
			unlinkat(fd, e->d_name, 0);
	}
	if (d)
		closedir(d);
}

int td_home_make(char **argv, struct td_error *err)
{
	td_auto_buf struct td_buf in = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_home_input(INPUT_MOST, &in, err);
	if (r || (r = td_json_parse(td_buf_str(&in), in.len, &j, err)))
		return r;
	const char *id = td_jstr(td_json_root(j), "id");
	if ((r = td_gateway_name_check("run", id, err)) || (r = td_home_mkdirs(TD_HOME_RUNS, err)))
		return r;

	td_auto_free char *there = td_asprintf(TD_HOME_RUNS "/%s", id),
			  *temp = td_asprintf(TD_HOME_RUNS "/.new-%s", id);
	struct stat st;
	if (fstatat(AT_FDCWD, there, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return td_fail(err, TD_EXISTS, "run %s is there already", id);
	// What an attempt before this one left.
	if ((r = td_home_remove(temp, err)) || (r = td_home_mkdirs(temp, err)))
		return r;
	td_auto_close int top = td_home_at(temp, O_RDONLY | O_DIRECTORY, 0, err);
	if (top < 0)
		return top;
	r = fill(top, td_json_root(j), err);
	if (!r && syscall(SYS_renameat2, AT_FDCWD, temp, AT_FDCWD, there, 1 /* RENAME_NOREPLACE */) < 0)
		r = td_fail_errno(err, errno == EEXIST ? TD_EXISTS : TD_INTERNAL, errno, "make run %s", id);
	if (r)
		td_home_remove(temp, NULL);
	else
		sweep((unsigned)getpid());
	return r;
}

int td_home_record(char **argv, struct td_error *err)
{
	td_auto_buf struct td_buf in = {0};
	int r = td_gateway_name_check("run", argv[0], err);
	if (r || (r = td_home_input(RECORD_MOST, &in, err)))
		return r;
	td_auto_free char *path = td_asprintf(TD_HOME_RUNS "/%s/.tandem/run.json", argv[0]);
	return td_home_put(path, td_buf_str(&in), in.len, 0644, err);
}

// A job of the run that waits no longer makes a link of this name (programs/run.sh): the first of the two counts.
int td_home_consent(char **argv, struct td_error *err)
{
	int r = td_gateway_name_check("run", argv[0], err);
	if (r)
		return r;
	td_auto_free char *path = td_asprintf(TD_HOME_RUNS "/%s/.tandem", argv[0]);
	td_auto_close int dir = td_home_at(path, O_RDONLY | O_DIRECTORY, 0, err);
	if (dir < 0)
		return dir;
	td_auto_close int fd = openat(dir, "consent", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	struct stat st;
	if (fd >= 0)
		return 0;
	if (errno != EEXIST || fstatat(dir, "consent", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "write %s/consent", path);
	return S_ISLNK(st.st_mode)
		       ? td_fail(err, TD_CONFLICT, "run %s has given up here: it does not begin here any more", argv[0])
		       : 0;
}

// Adds to each job that goes on what its script said as it began again (programs/run.sh): "RESTARTS EPOCH TASK", and in
// the second line the checkpoint's name.
static void add_began(const char *id, const struct td_json *j, struct td_buf *ret)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	yyjson_val *v, *jobs = td_jget(td_json_root(j), "jobs");
	size_t i, n;
	yyjson_arr_foreach (jobs, i, n, v) {
		const char *step = td_jstr(v, "step");
		td_auto_buf struct td_buf b = {0};
		long long restarts, task = -1, at;
		int end = 0;
		if (td_jget(v, "end") || td_gateway_name_check("step", step, NULL))
			continue;
		td_auto_free char *path = td_asprintf(TD_HOME_RUNS "/%s/.tandem/began-%s", id, step);
		if (td_home_get(path, BEGAN_MOST, &b, NULL) ||
		    sscanf(td_buf_str(&b), "%9lld %18lld %9lld\n%n", &restarts, &at, &task, &end) != 3 || !end)
			continue;
		char *name = b.s + end;
		name[strcspn(name, "\n")] = '\0';
		td_auto_free char *clean = td_text_clean(name);
		if (!d)
			d = td_jm_copy(td_json_root(j));
		yyjson_mut_val *o =
			td_jm_obj(d, yyjson_mut_arr_get(td_jm_get(yyjson_mut_doc_get_root(d), "jobs"), i), "began");
		td_jm_int(d, o, "restarts", restarts);
		td_jm_int(d, o, "at", at);
		td_jm_int(d, o, "task", task);
		td_jm_str(d, o, "checkpoint", *clean ? clean : NULL);
	}
	if (!d)
		return;
	size_t len;
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(d), &len);
	td_buf_reset(ret);
	td_buf_add(ret, text, len);
}

// The record, with what the run's own script left of its end.
static int record(const char *id, struct td_buf *ret, struct td_error *err)
{
	td_auto_free char *path = td_asprintf(TD_HOME_RUNS "/%s/.tandem/run.json", id);
	td_auto_buf struct td_buf b = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_home_get(path, RECORD_MOST, &b, err);
	if (r || (r = td_json_parse(td_buf_str(&b), b.len, &j, err)))
		return r == TD_NOT_FOUND ? td_fail(err, r, "there is no run %s: `tandem ps` lists yours", id) : r;
	add_began(id, j, &b);
	td_buf_add(ret, td_buf_str(&b), b.len);
	return 0;
}

int td_home_one(char **argv, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	int r = td_gateway_name_check("run", argv[0], err);
	if (r || (r = record(argv[0], &b, err)))
		return r;
	return td_write_all(STDOUT_FILENO, td_buf_str(&b), b.len, err);
}

struct run_found {
	char name[64];
	int64_t at;
};

static int newest_first(const void *a, const void *b)
{
	const struct run_found *x = a, *y = b;
	return x->at != y->at ? (x->at < y->at) - (x->at > y->at) : strcmp(x->name, y->name);
}

int td_home_runs(char **argv, struct td_error *err)
{
	td_auto_buf struct td_buf out = {0};
	td_auto_free struct run_found *all = NULL;
	size_t n = 0, cap = 0;
	struct td_error e = TD_ERROR_INIT;
	int fd = td_home_at(TD_HOME_RUNS, O_RDONLY | O_DIRECTORY, 0, &e);
	if (fd < 0 && fd != TD_NOT_FOUND)
		return td_fail(err, fd, "%s", e.msg);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *at; d && (at = readdir(d));) {
		struct stat st;
		td_auto_free char *path = td_asprintf("%s/.tandem", at->d_name);
		if (td_gateway_name_check("run", at->d_name, NULL) || fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (n == cap)
			all = td_realloc(all, (cap = cap ? 2 * cap : 64) * sizeof(*all));
		snprintf(all[n].name, sizeof(all[n].name), "%s", at->d_name);
		all[n++].at = st.st_mtim.tv_sec;
	}
	if (d)
		closedir(d);
	if (n)
		qsort(all, n, sizeof(*all), newest_first);

	td_buf_putc(&out, '[');
	for (size_t i = 0, shown = 0; i < n && shown < RUNS_MOST; i++) {
		size_t before = out.len;
		if (shown)
			td_buf_putc(&out, ',');
		if (record(all[i].name, &out, NULL))
			out.len = before; // half of one, or not ours
		else
			shown++;
	}
	td_buf_add(&out, "]", 1);
	return td_write_all(STDOUT_FILENO, out.s, out.len, err);
}
