// What a job's processes show of themselves (watch.h). All but td_standin_jobs() runs as the job's own user.
#include "standin/watch.h"
#include "standin/wire.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_MAX = 64 << 10, STACKS_MAX = 1 << 20, THREADS = 64, TOOL_MS = 10000, GROUPS = 64, SAYS_MS = 500 };

// Reads a file as far as it fits, and ends it with NUL. -1: it cannot be read.
static ssize_t text_of(const char *path, char *buf, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t k = fd < 0 ? -1 : 0;
	while (fd >= 0 && len + 1 < n && (k = read(fd, buf + len, n - 1 - len)) > 0)
		len += (size_t)k;
	if (fd >= 0)
		close(fd);
	buf[len] = '\0';
	return k < 0 ? -1 : (ssize_t)len;
}

static const char *of(const char *proc, int pid, const char *name)
{
	static char path[4096];
	snprintf(path, sizeof(path), "%s/%d/%s", proc, pid, name);
	return path;
}

enum { SLUID = 14, CALLED = 256 };
// Jobs whose cgroup has Slurm's other name for them (26.05 and newer, cgroup v2; docs/facts/slurm.md S-V6), by
// what their slurmstepds, which are root's, say of themselves: "slurmstepd: [12.batch]".
struct standin_called {
	char sluid[SLUID + 1];
	long long job;
};

// The job whose directory is named by its number in the first n bytes of the text of a /proc/PID/cgroup. The last one counts:
// what is below is the job's own. Returns where its name ends; NULL: there is none, and *ret stays.
static const char *last_job(const char *cgroups, size_t n, long long *ret)
{
	const char *last = NULL;
	for (const char *s = cgroups; (s = strstr(s, "/job_")) && s < cgroups + n;) {
		char *end;
		s += strlen("/job_");
		long long id = strtoll(s, &end, 10);
		if (end > s && end - s < 12 && (*end == '/' || *end == '\n' || !*end)) {
			*ret = id;
			last = end;
		}
	}
	return last;
}

// Slurm's job in the text of a /proc/PID/cgroup; 0: none.
static long long job_of(const char *cgroups, const struct standin_called *v, int n, bool *batch)
{
	long long job = 0;
	const char *sluid = td_wire_cgroup_sluid(cgroups);
	*batch = strstr(cgroups, "/step_batch") != NULL;
	last_job(cgroups, strlen(cgroups), &job);
	for (int i = 0; i < n && sluid && !job; i++)
		if (!strncmp(v[i].sluid, sluid, SLUID))
			job = v[i].job;
	return job;
}

long long td_standin_uses_cgroup(const char *cgroups, char *ret, size_t n)
{
	const char *line = strncmp(cgroups, "0::", 3) ? strstr(cgroups, "\n0::") : cgroups;
	const char *path = line ? strstr(line, "0::") + 3 : "", *sluid;
	size_t len = strcspn(path, "\n");
	long long job = 0, here;
	last_job(cgroups, strlen(cgroups), &job);
	const char *end = last_job(path, len, &here);
	if (!end && (sluid = td_wire_cgroup_sluid(path)) && sluid < path + len)
		end = sluid + td_wire_sluid(sluid);
	snprintf(ret, n, "%.*s", end && (size_t)(end - path) < n ? (int)(end - path) : 0, path);
	return job;
}

static void ids(const char *proc, int pid, unsigned *uid, unsigned *gid)
{
	static char text[8192];
	const char *s = text_of(of(proc, pid, "status"), text, sizeof(text)) > 0 ? strstr(text, "\nUid:") : NULL;
	*uid = s ? (unsigned)strtoul(s + 5, NULL, 10) : 0;
	s = s ? strstr(text, "\nGid:") : NULL;
	*gid = s ? (unsigned)strtoul(s + 5, NULL, 10) : 0;
}

static int called(const char *proc, struct standin_called *v, int max)
{
	static const char title[] = "slurmstepd: [";
	static char text[8192];
	DIR *d = opendir(proc);
	int n = 0;
	for (struct dirent *e; d && n < max && (e = readdir(d)) != NULL;) {
		int pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;
		const char *sluid = pid && text_of(of(proc, pid, "cgroup"), text, sizeof(text)) > 0
					    ? td_wire_cgroup_sluid(text)
					    : NULL;
		// slurmstepds are in a place of their own there, "…/step_0/slurm": who is root in a job has none.
		const char *step = sluid ? strchr(sluid + SLUID + 1, '/') : NULL;
		if (!step || strncmp(step, "/slurm", strlen("/slurm")) != 0 ||
		    (step[6] && step[6] != '\n' && step[6] != '/'))
			continue;
		int known = 0; // a job has a slurmstepd for each of its steps, and takes one place
		while (known < n && strncmp(v[known].sluid, sluid, SLUID) != 0)
			known++;
		if (known < n)
			continue;
		snprintf(v[n].sluid, sizeof(v[n].sluid), "%.*s", SLUID, sluid);
		unsigned uid = 1, gid;
		char name[64];
		if (text_of(of(proc, pid, "cmdline"), name, sizeof(name)) <= 0 ||
		    strncmp(name, title, strlen(title)) != 0)
			continue;
		ids(proc, pid, &uid, &gid);
		v[n].job = uid ? 0 : strtoll(name + strlen(title), NULL, 10);
		n += v[n].job > 0;
	}
	if (d)
		closedir(d);
	return n;
}

int td_standin_jobs(const char *proc, struct standin_job *v, int max)
{
	static char text[8192];
	static struct standin_called names[CALLED];
	int n_names = called(proc, names, CALLED), n = 0;
	DIR *d = opendir(proc);
	for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
		bool batch;
		int pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;
		long long job = pid && text_of(of(proc, pid, "cgroup"), text, sizeof(text)) > 0
					? job_of(text, names, n_names, &batch)
					: 0;
		if (!job)
			continue;
		unsigned uid, gid;
		ids(proc, pid, &uid, &gid);
		if (!uid)
			continue; // slurmstepd, and root's own jobs, which are Tandem's tests
		int i = 0;
		while (i < n && v[i].id != job)
			i++;
		if (i == n) {
			if (n == max)
				continue;
			memset(&v[n], 0, sizeof(v[n]));
			v[n].id = job;
			v[n].uid = uid;
			v[n++].gid = gid;
		}
		// The script is the oldest one: its working directory is the job's.
		if (batch && (!v[i].batch || pid < v[i].batch))
			v[i].batch = pid;
		if (v[i].n < STANDIN_PIDS)
			v[i].pids[v[i].n++] = pid;
	}
	if (d)
		closedir(d);
	return n;
}

bool td_standin_become(const char *proc, const struct standin_job *j)
{
	static char text[8192];
	gid_t groups[GROUPS];
	int n = 0;
	const char *s = text_of(of(proc, j->batch ? j->batch : j->pids[0], "status"), text, sizeof(text)) > 0
				? strstr(text, "\nGroups:")
				: NULL;
	for (s = s ? s + 8 : NULL; s && n < GROUPS;) {
		char *end;
		unsigned long g = strtoul(s, &end, 10);
		if (end == s || memchr(s, '\n', (size_t)(end - s)))
			break;
		groups[n++] = (gid_t)g;
		s = end;
	}
	return !setgroups((size_t)n, groups) && !setgid(j->gid) && !setuid(j->uid) && getuid() == j->uid && j->uid;
}

static long long cpu_of(const char *proc, int pid)
{
	static char text[4096];
	unsigned long long v[4] = {0};
	// "pid (name) S …": the name may hold anything, so what counts begins behind the last bracket.
	const char *s = text_of(of(proc, pid, "stat"), text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;
	if (!s || sscanf(s + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &v[0], &v[1], &v[2],
			 &v[3]) != 4)
		return -1;
	return (long long)(v[0] + v[1] + v[2] + v[3]) * 1000 / sysconf(_SC_CLK_TCK);
}

static long long mark_of(const struct stat *st)
{
	return (st->st_mtim.tv_sec * 1000LL + st->st_mtim.tv_nsec / 1000000) ^ (long long)st->st_size << 20;
}

bool td_standin_heartbeat(const char *proc, int pid, char ret[STANDIN_BEAT_PATH])
{
	static char text[TEXT_MAX];
	static const char name[] = "TANDEM_HEARTBEAT=";
	ssize_t n = text_of(of(proc, pid, "environ"), text, sizeof(text));
	for (const char *s = text; n > 0 && s < text + n; s += strlen(s) + 1) {
		const char *file = s + strlen(name);
		if (strncmp(s, name, strlen(name)) != 0 || !*file || strlen(file) > 3000)
			continue;
		snprintf(ret, STANDIN_BEAT_PATH, "%s/%d/%s%s%s", proc, pid, *file == '/' ? "root" : "cwd",
			 *file == '/' ? "" : "/", file);
		return true;
	}
	return false;
}

static long long heartbeat_of(const char *proc, int pid)
{
	char path[STANDIN_BEAT_PATH];
	struct stat st;
	if (!td_standin_heartbeat(proc, pid, path))
		return -1;
	return stat(path, &st) < 0 ? -2 : mark_of(&st) & INT64_MAX;
}

void td_standin_signs(const char *proc, const struct standin_job *j, struct standin_signs *ret)
{
	*ret = (struct standin_signs){-1, -1, -1};
	unsigned long long output = 0;
	bool files = false;
	for (int i = 0; i < j->n; i++) {
		long long cpu = cpu_of(proc, j->pids[i]);
		if (cpu >= 0)
			ret->cpu_ms = (ret->cpu_ms < 0 ? 0 : ret->cpu_ms) + cpu;
		for (int fd = 1; fd <= 2; fd++) {
			struct stat st;
			if (stat(of(proc, j->pids[i], fd == 1 ? "fd/1" : "fd/2"), &st) < 0 || !S_ISREG(st.st_mode))
				continue;
			files = true;
			output += (unsigned long long)mark_of(&st);
		}
		long long beat = ret->heartbeat < 0 ? heartbeat_of(proc, j->pids[i]) : -1;
		if (beat != -1)
			ret->heartbeat = beat;
	}
	if (files)
		ret->output = (long long)(output & INT64_MAX);
}

// ---- stacks ----

struct stacks {
	int fd;
	size_t n;
};

static void put(struct stacks *s, const char *text, size_t n)
{
	if (s->n + n > STACKS_MAX)
		n = STACKS_MAX - s->n;
	while (n) {
		ssize_t k = write(s->fd, text, n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return;
		text += k;
		n -= (size_t)k;
		s->n += (size_t)k;
	}
}
static void say(struct stacks *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct stacks *s, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	put(s, line, n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

static void file(struct stacks *s, const char *label, const char *path)
{
	static char text[16384];
	ssize_t n = text_of(path, text, sizeof(text));
	if (n <= 0)
		return;
	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = ' '; // of a command line
	say(s, "%s: ", label);
	put(s, text, (size_t)n);
	if (text[n - 1] != '\n')
		put(s, "\n", 1);
}

static void threads(struct stacks *s, int pid)
{
	char path[64], name[128];
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *d = opendir(path);
	int n = 0;
	for (struct dirent *e; d && n < THREADS && (e = readdir(d)) != NULL;) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		static const char *const what[] = {"comm", "wchan", "syscall", "stack"};
		say(s, "thread %.20s\n", e->d_name);
		for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
			snprintf(name, sizeof(name), "task/%.20s/%s", e->d_name, what[i]);
			file(s, what[i], of("/proc", pid, name));
		}
		n++;
	}
	if (d)
		closedir(d);
}

static void tool(struct stacks *s, char *const argv[])
{
	char *text = NULL, why[128];
	if (td_standin_command(argv, true, td_standin_now_ms() + TOOL_MS, &text, why, sizeof(why)) >= 0 && text) {
		say(s, "%s:\n", argv[0]);
		put(s, text, strlen(text));
	}
	free(text);
}

// Whether the process has a handler for the signal: who has none would be ended by it.
static bool catches(int pid, int sig)
{
	static char text[8192];
	const char *s = text_of(of("/proc", pid, "status"), text, sizeof(text)) > 0 ? strstr(text, "\nSigCgt:") : NULL;
	return s && strtoull(s + 8, NULL, 16) >> (sig - 1) & 1;
}

bool td_standin_stacks(const struct standin_job *j, const char *node, int sig, char *ret_path, size_t n)
{
	char name[300];
	int dir = open(of("/proc", j->batch ? j->batch : j->pids[0], "cwd"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stacks s = {.fd = -1};
	for (int i = 1; dir >= 0 && i < 10 && s.fd < 0; i++) {
		snprintf(name, sizeof(name), "tandem-hang-%lld-%.200s%s%.0d.txt", j->id, node, i > 1 ? "-" : "",
			 i > 1 ? i : 0);
		s.fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (s.fd < 0 && errno != EEXIST)
			break;
	}
	if (s.fd < 0) {
		snprintf(ret_path, n, "no stacks: %s", strerror(errno));
		return false;
	}
	char when[40];
	time_t now = time(NULL);
	struct tm tm;
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	say(&s, "Job %lld on %s makes no progress, %s. What its processes do:\n", j->id, node, when);
	for (int i = 0; i < j->n; i++) {
		int pid = j->pids[i];
		char id[16];
		snprintf(id, sizeof(id), "%d", pid);
		say(&s, "\nprocess %d\n", pid);
		file(&s, "command", of("/proc", pid, "cmdline"));
		file(&s, "status", of("/proc", pid, "status"));
		threads(&s, pid);
		tool(&s, (char *[]){"gdb", "-p", id, "-batch", "-ex", "thread apply all bt", NULL});
		tool(&s, (char *[]){"py-spy", "dump", "--pid", id, NULL});
	}
	int told = 0;
	for (int i = 0; sig && i < j->n; i++)
		if (catches(j->pids[i], sig) && !kill(j->pids[i], sig)) {
			say(&s, "\nprocess %d got signal %d, which it catches\n", j->pids[i], sig);
			told++;
		}
	if (told)
		poll(NULL, 0, SAYS_MS); // so that it can say something before it is ended
	close(s.fd);
	close(dir);
	snprintf(ret_path, n, "%s", name);
	return true;
}
