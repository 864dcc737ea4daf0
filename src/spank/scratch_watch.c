// The part of a node's service that looks at what jobs hold in their own /tmp and /var/tmp (scratch_limit.h), and ends
// those that hold too much. It is a process of its own: what users made may take long to add up, and slurmctld may
// take long to answer.
#include "spank/scratch_internal.h"
#include "spank/scratch_limit.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "base/proc.h"
#include "spank/layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// A directory with more entries than HERE is added up by a child.
enum {
	EVERY_MS = 1000,
	ASK_MS = 20000,
	AGAIN_MS = 10000,
	ENDS_MS = 300000,
	HERE = 2000,
	SWEEP_MS = 60000,
	SWEPT = 64,
	LIBS_S = 600,
	CONF_MAX = 1 << 20
};

struct scratch_job {
	char *job;
	struct td_scratch_seen s;
	int64_t began_ms, next_ask_ms, ended_ms;
	int64_t next_end_ms, retry_ms; // slurmctld did not end it: when it is told again, and the pause before that
	pid_t child;                   // 0: nobody looks
	struct td_scratch_held *sum;   // what the child has counted up to now; shared with it
	int64_t looked;                // what the last look found, as s.used; -1: there was none
	int64_t deleted;               // beside it, of deleted files that are open
	int64_t files;                 // of the last look
	bool many;                     // the files count for more than their bytes
	bool there;
};
static struct scratch_job *known;
static size_t n_known;
static const char *top, *node;
static struct td_scratch_open open_files;
static int64_t opened_ms, opened_cost_ms;

static int64_t now(void)
{
	return td_mono_ms(&td_clock_system);
}

static int disk_of(const char *dir, struct td_scratch_disk *ret)
{
	struct statvfs fs;
	if (statvfs(dir, &fs))
		return -1;
	*ret = (struct td_scratch_disk){(int64_t)((fs.f_blocks - fs.f_bfree + fs.f_bavail) * fs.f_frsize),
					(int64_t)(fs.f_bavail * fs.f_frsize), 0, 0};
	td_scratch_files(ret, (int64_t)fs.f_files, (int64_t)fs.f_favail);
	return 0;
}

int64_t td_scratch_size(const char *dir, const char *share)
{
	struct td_scratch_disk d;
	if (disk_of(dir, &d))
		return -1;
	int64_t n = td_scratch_bytes(share, d.size);
	return n < d.size ? n : d.size;
}

// What a job may hold that asked for nothing, as the plug-in's line says; it is read anew, so that a change counts at
// once.
static int64_t usual(const struct td_scratch_disk *disk)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_strv struct td_strv words = {0};
	int64_t n = -1;
	if (!td_file_read(TD_SCRATCH_CONF, CONF_MAX, &b, NULL)) {
		for (char *p = b.s; p && *p; p++)
			if (*p == '\n')
				*p = ' ';
		td_strv_split(&words, td_buf_str(&b), ' ');
	}
	for (size_t i = 0; i < words.n && n < 0; i++)
		if (td_starts(words.v[i], "tmp="))
			n = td_scratch_bytes(words.v[i] + strlen("tmp="), disk->size);
	return n >= 0 ? n : td_scratch_bytes(TD_SCRATCH_TMP, disk->size);
}

// ---- looking ----
int td_scratch_holds(const char *dir, const char *job, int64_t most, struct td_scratch_held *sum)
{
	static const char *const own[] = {"tmp", "var-tmp"};
	int part = 0;
	for (size_t i = 0; i < TD_LEN(own); i++) {
		td_auto_free char *path = td_asprintf("%s/jobs/%s/%s", dir, job, own[i]);
		int r = td_scratch_used(path, most, sum);
		if (r < 0)
			return -1;
		part |= r;
	}
	// What its containers write lies on a disk of the node, too: JOB.STEP, or JOB-NAME (main.c).
	size_t len = strlen(job);
	DIR *d = opendir(TD_CT_RUN);
	for (struct dirent *e; d && (e = readdir(d));) {
		td_auto_free char *path = td_asprintf(TD_CT_RUN "/%s/own", e->d_name);
		bool its = td_starts(e->d_name, job) && strchr(".-", e->d_name[len]) && e->d_name[len];
		if (its && td_scratch_used(path, most, sum) > 0)
			part = 1;
	}
	if (d)
		closedir(d);
	return part;
}

static int64_t counted(struct scratch_job *h, const struct td_scratch_held *sum, const struct td_scratch_disk *disk)
{
	const struct td_scratch_held now_ = {__atomic_load_n(&sum->bytes, __ATOMIC_RELAXED),
					     __atomic_load_n(&sum->files, __ATOMIC_RELAXED)};
	int64_t all = td_scratch_charge(disk, now_.bytes, now_.files);
	if (all + h->deleted >= h->s.used) {
		h->files = now_.files;
		h->many = all > now_.bytes;
	}
	return all;
}

static void seen(struct scratch_job *h, const struct td_scratch_held *sum, const struct td_scratch_disk *disk)
{
	h->s.used = 0;
	h->looked = counted(h, sum, disk);
	h->s.used = h->looked + h->deleted;
	h->s.looked_ms = now();
	h->s.cost_ms = h->s.looked_ms - h->began_ms;
}

static void begin(struct scratch_job *h, const struct td_scratch_disk *disk)
{
	struct td_scratch_held used = {0};
	h->began_ms = now();
	h->s.disk_used = disk->size - disk->free;
	h->s.disk_made = disk->made;
	int r = td_scratch_holds(top, h->job, HERE, &used);
	if (r <= 0) {
		if (!r)
			seen(h, &used, disk);
		return;
	}
	td_scratch_more(&h->s, counted(h, &used, disk) + h->deleted);
	h->sum = mmap(NULL, sizeof(*h->sum), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (h->sum == MAP_FAILED)
		return;
	h->child = fork();
	if (h->child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpriority(PRIO_PROCESS, 0, 19);
		_exit(td_scratch_holds(top, h->job, INT64_MAX, h->sum) != 0);
	}
	if (h->child < 0) {
		h->child = 0;
		munmap(h->sum, sizeof(*h->sum));
	}
}

static void collect(struct scratch_job *h, const struct td_scratch_disk *disk)
{
	int status = 0;
	if (!h->child)
		return;
	pid_t ended = waitpid(h->child, &status, WNOHANG);
	if (!ended) {
		td_scratch_more(&h->s, counted(h, h->sum, disk) + h->deleted);
		return;
	}
	if (!status)
		seen(h, h->sum, disk);
	munmap(h->sum, sizeof(*h->sum));
	h->child = 0;
}

static void forget(struct scratch_job *h)
{
	if (h->child) {
		kill(h->child, SIGKILL);
		waitpid(h->child, NULL, 0);
		munmap(h->sum, sizeof(*h->sum));
	}
	free(h->job);
}

static void list(void)
{
	td_auto_strv struct td_strv jobs = {0};
	td_scratch_jobs(top, &jobs);
	for (size_t i = 0; i < n_known; i++)
		known[i].there = false;
	for (size_t i = 0, k; i < jobs.n; i++) {
		for (k = 0; k < n_known && !td_streq(known[k].job, jobs.v[i]); k++)
			;
		if (k == n_known) {
			known = td_realloc(known, (n_known + 1) * sizeof(*known));
			known[n_known++] = (struct scratch_job){
				.job = td_strdup(jobs.v[i]), .looked = -1, .s = {.asked = -1, .used = -1}};
		}
		known[k].there = true;
	}
	size_t kept = 0;
	for (size_t i = 0; i < n_known; i++) {
		if (known[i].there)
			known[kept++] = known[i];
		else
			forget(&known[i]);
	}
	n_known = kept;
}

// ---- slurmctld ----
static bool run(char *const argv[], struct td_buf *ret_out)
{
	td_auto_buf struct td_buf out = {0};
	int status = 0;
	return !td_run(argv, NULL, ASK_MS, NULL, &status, ret_out ? ret_out : &out, NULL) && !status;
}

// The rest of the line of that job. Of an array squeue lists the other tasks, too.
static char *line_of(struct td_buf *out, const char *job)
{
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(out), '\n');
	td_auto_free char *mark = td_asprintf("%s ", job);
	for (size_t i = 0; i < lines.n; i++)
		if (td_starts(lines.v[i], mark)) {
			const char *rest = lines.v[i] + strlen(mark);
			rest += strspn(rest, " ");
			size_t n = strlen(rest);
			while (n && rest[n - 1] == ' ')
				n--;
			return td_strndup(rest, n);
		}
	return NULL;
}

// Megabytes, as squeue --noconvert writes them: "0" or "10240M".
static void ask(struct scratch_job *h)
{
	td_auto_buf struct td_buf out = {0};
	char *argv[] = {"squeue", "-h", "--noconvert", "-o", "%A %d", "-j", h->job, NULL};
	h->next_ask_ms = now() + AGAIN_MS;
	td_auto_free char *text = run(argv, &out) ? line_of(&out, h->job) : NULL;
	long long n;
	if (text && td_ends(text, "M"))
		text[strlen(text) - 1] = '\0';
	if (text && td_parse_i64(text, &n) && n >= 0 && n <= INT64_MAX >> 20)
		h->s.asked = (int64_t)n << 20;
}

static void notify(const char *job, const char *words)
{
	run((char *[]){"scontrol", "notify", (char *)job, (char *)words, NULL}, NULL);
}

// Where slurmctld does not answer each command takes ASK_MS, and meanwhile nobody looks at other jobs: the pauses grow.
static void end(struct scratch_job *h, const char *words)
{
	td_auto_buf struct td_buf out = {0};
	if (now() < h->next_end_ms)
		return;
	td_warn("scratch: job %s: %s", h->job, words);
	td_auto_free char *said = td_asprintf("scratch: %s", words);
	notify(h->job, said);
	// What others wrote there stays.
	char *get[] = {"squeue", "-h", "-O", "JobID:24,admin_comment:4000", "-j", h->job, NULL};
	td_auto_free char *was = run(get, &out) ? line_of(&out, h->job) : NULL;
	if (was && !strstr(was, TD_SAID_SCRATCH)) {
		bool none = !*was || td_streq(was, "(null)");
		td_auto_free char *id = td_asprintf("jobid=%s", h->job),
				  *text = none ? td_asprintf("admincomment=" TD_SAID_SCRATCH "%s", words)
					       : td_asprintf("admincomment=%s " TD_SAID_SCRATCH "%s", was, words);
		run((char *[]){"scontrol", "update", id, text, NULL}, NULL);
	}
	h->s.ended = run((char *[]){"scancel", h->job, NULL}, NULL);
	h->ended_ms = now();
	h->retry_ms = h->s.ended ? 0 : td_scratch_pause(h->retry_ms);
	h->next_end_ms = h->ended_ms + h->retry_ms;
}

// What sbcast wrote for a job that never had a step here goes when its user has no job here any more.
static void sweep(const char *dir)
{
	td_auto_free char *path = td_asprintf("%s/" TD_SCRATCH_NODE, dir);
	uid_t stays[SWEPT], goes[SWEPT];
	size_t n_stays = 0, n_goes = 0;
	time_t begin = time(NULL);
	DIR *d = opendir(path);
	struct stat st;
	for (struct dirent *e; d && (e = readdir(d));) {
		size_t i;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !st.st_uid ||
		    st.st_ctime >= begin) // it may be a new job's
			continue;
		bool libs = S_ISDIR(st.st_mode) && td_scratch_is_libraries(e->d_name, strlen(e->d_name));
		if (!S_ISREG(st.st_mode) && !libs)
			continue;
		// A directory whose libraries were given to jobs is in the way of the next program of that name.
		if (libs && begin - st.st_ctime > LIBS_S && !unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR))
			continue;
		for (i = 0; i < n_stays && stays[i] != st.st_uid; i++)
			;
		if (i < n_stays)
			continue;
		for (i = 0; i < n_goes && goes[i] != st.st_uid; i++)
			;
		if (i == n_goes) {
			td_auto_buf struct td_buf out = {0};
			td_auto_free char *uid = td_asprintf("%u", st.st_uid);
			char *argv[] = {"squeue", "-h", "-o", "%A",         "-t", TD_SCRATCH_ALIVE,
					"-u",     uid,  "-w", (char *)node, NULL};
			bool none = run(argv, &out) && !*td_buf_str(&out);
			if ((none ? n_goes : n_stays) == SWEPT)
				break;
			if (none)
				goes[n_goes++] = st.st_uid;
			else
				stays[n_stays++] = st.st_uid;
			if (!none)
				continue;
		}
		td_auto_free char *gone = libs ? td_asprintf("%s/%s", path, e->d_name) : NULL;
		if (libs)
			td_scratch_move(gone, dir, NULL);
		else
			unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
}

// Deleted files that are open: of all jobs at once, every second, but with a twentieth of a CPU at most.
static void look_at_open(void)
{
	enum { SHARE = 20 };
	int64_t pause = opened_cost_ms * SHARE, began = now();
	struct stat st;
	if (began - opened_ms < (pause > EVERY_MS ? pause : EVERY_MS))
		return;
	open_files.n_disks = 0;
	const char *dirs[] = {top, TD_CT_RUN};
	for (size_t i = 0; i < TD_LEN(dirs); i++)
		if (!stat(dirs[i], &st))
			open_files.disks[open_files.n_disks++] = st.st_dev;
	td_scratch_open_scan("/proc", &open_files);
	opened_ms = now();
	opened_cost_ms = opened_ms - began;
	for (size_t i = 0; i < n_known; i++) {
		struct scratch_job *h = &known[i];
		h->deleted = td_scratch_open_sum(&open_files, h->job);
		if (h->looked >= 0)
			h->s.used = h->looked + h->deleted;
		else if (h->deleted)
			td_scratch_more(&h->s, h->deleted);
	}
}

static char *size(int64_t n)
{
	return n < (int64_t)10 << 30 ? td_asprintf("%lld MiB", (long long)(n >> 20))
				     : td_asprintf("%lld GiB", (long long)(n >> 30));
}

// What it holds, and of what that is made where it is in no directory, or is more than its bytes.
static char *held(const struct scratch_job *h)
{
	bool many = h->many && h->looked > h->s.used / 2;
	td_auto_free char *used = size(h->s.used), *gone = size(h->deleted),
			  *files = many ? td_asprintf(
						  ", because it has %lld files and the disk is made for so many and no "
						  "more",
						  (long long)h->files)
					: td_strdup("");
	return h->deleted > 0 ? td_asprintf("%s (%s of it in deleted files that are still open%s)", used, gone, files)
	       : many         ? td_asprintf("%s (%s)", used, files + strlen(", "))
			      : td_strdup(used);
}

static void over(struct scratch_job *h, int64_t limit)
{
	td_auto_free char *used = held(h), *most = size(limit);
	td_auto_free char *words =
		td_asprintf("the job is ended: it holds %s of the disk of %s in /tmp, /var/tmp and its containers, and "
			    "may hold %s%s. Ask for room with --tmp=SIZE, or write to other storage.",
			    used, node, most, h->s.asked > 0 ? " (--tmp)" : " because it asked for no room");
	end(h, words);
}

static void near(struct scratch_job *h, int64_t limit)
{
	td_auto_free char *used = held(h), *most = size(limit);
	td_auto_free char *words = td_asprintf("scratch: this job holds %s of the disk of %s in /tmp, /var/tmp and its "
					       "containers; above %s it is ended",
					       used, node, most);
	h->s.warned = true;
	notify(h->job, words);
}

static void full(struct scratch_job *h, const struct td_scratch_disk *disk)
{
	td_auto_free char *used = held(h), *left = size(disk->free), *all = size(disk->size);
	td_auto_free char *words = td_asprintf(
		"the job is ended: the disk of %s is nearly full (%s of %s are free), and no other job holds "
		"more there beyond what it asked for (--tmp): %s. Ask for room with --tmp=SIZE, or write to other "
		"storage.",
		node, left, all, used);
	end(h, words);
}

static void decide(const struct td_scratch_disk *disk, int64_t most)
{
	td_auto_free struct td_scratch_seen *v = td_calloc(n_known + 1, sizeof(*v));
	for (size_t i = 0; i < n_known; i++) {
		struct scratch_job *h = &known[i];
		collect(h, disk);
		// One that was told to end is gone by then, or it goes on: put back in the queue it has the same id.
		if (h->s.ended && now() - h->ended_ms >= ENDS_MS)
			h->s = (struct td_scratch_seen){.asked = h->s.asked, .used = -1}, h->looked = -1;
		if (!h->child && !h->s.ended && td_scratch_due(&h->s, most, disk, now()))
			begin(h, disk);
		if (td_scratch_ask(&h->s, most, disk) && now() >= h->next_ask_ms)
			ask(h);
		if (td_scratch_over(&h->s, most))
			over(h, td_scratch_limit(&h->s, most));
		else if (td_scratch_near(&h->s, most))
			near(h, td_scratch_limit(&h->s, most));
		v[i] = h->s;
	}
	size_t worst = td_scratch_worst(v, n_known, disk);
	if (worst < n_known)
		full(&known[worst], disk);
}

void td_scratch_watch(const char *dir, const char *name)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	top = dir;
	node = name;
	int64_t swept_ms = now();
	for (;; poll(NULL, 0, EVERY_MS)) { // no event tells of what a process writes
		struct td_scratch_disk disk;
		if (now() - swept_ms >= SWEEP_MS) {
			sweep(dir);
			swept_ms = now();
		}
		list();
		if (n_known && !disk_of(dir, &disk))
			look_at_open(), decide(&disk, usual(&disk));
	}
}

int td_scratch_list(const char *dir)
{
	td_auto_strv struct td_strv jobs = {0};
	td_scratch_jobs(dir, &jobs);
	printf("%-12s %12s\n", "JOB", "MIB");
	for (size_t i = 0; i < jobs.n; i++) {
		struct td_scratch_held used = {0};
		if (!td_scratch_holds(dir, jobs.v[i], INT64_MAX, &used))
			printf("%-12s %12lld\n", jobs.v[i], (long long)(used.bytes >> 20));
	}
	return 0;
}
