// What jobs leave is removed, and nothing else: td_scratch_empty() and td_scratch_release(). What they hold is added up,
// and held to a limit.
// rows: A13.5 D8.3
#include "spank/scratch.h"
#include "spank/scratch_internal.h"
#include "spank/scratch_limit.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/td-scratch-XXXXXX", path[256];

static int empty(void)
{
	struct td_error err = TD_ERROR_INIT;
	int r = TD_TRANSIENT;
	for (int i = 0; r == TD_TRANSIENT && i < 20; i++) // on a busy machine it takes more than one turn
		r = td_scratch_empty(dir, &err);
	return r;
}

static const char *at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int set_up(void **state)
{
	(void)state;
	static const char *const dirs[] = {"jobs", "jobs/7", "jobs/7/tmp", "trash", "outside", "outside/in"};
	if (!mkdtemp(dir))
		return -1;
	for (size_t i = 0; i < TD_LEN(dirs); i++)
		assert_int_equal(mkdir(at(dirs[i]), 0700), 0);
	assert_int_equal(td_file_write(at("outside/in/file"), "kept", 4, 0600, NULL), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return td_rm_rf(dir, NULL);
}

static void test_what_a_job_left(void **state)
{
	(void)state;
	struct td_error err = TD_ERROR_INIT;
	char outside[256];
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(chdir(at("jobs/7/tmp")), 0);
	// Deeper than any path may be long, and with links out of it on the way.
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(symlink(outside, "link"), 0);
		assert_int_equal(mkdir("deep", 0700), 0);
		assert_int_equal(chdir("deep"), 0);
	}
	// A step of it still lives: it stays.
	int held = open(at("jobs/7"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool gone = true;
	assert_int_equal(flock(held, LOCK_SH), 0);
	assert_int_equal(td_scratch_release(dir, "7", &gone, &err), 0);
	assert_false(gone);
	assert_true(td_path_exists(at("jobs/7/tmp/deep")));
	close(held);

	assert_int_equal(td_scratch_release(dir, "7", &gone, &err), 0);
	assert_true(gone);
	assert_false(td_path_exists(at("jobs/7")));
	// This process is deep inside of it, as another job of the same user could be.
	assert_int_equal(mkdir("more", 0700), 0);
	assert_int_equal(empty(), 0);
	assert_int_equal(rmdir(at("trash")), 0); // there is nothing in it
	assert_int_equal(mkdir("late", 0700), -1);
	assert_int_equal(mkdir(at("trash"), 0700), 0);
	assert_true(td_path_exists(at("outside/in/file")));
	assert_int_equal(fchdir(here), 0);
	close(here);

	// What is gone is gone.
	assert_int_equal(td_scratch_release(dir, "7", &gone, &err), 0);
	assert_true(gone);
	assert_int_equal(empty(), 0);
}

static void test_a_link_as_the_job_itself(void **state)
{
	(void)state;
	struct td_error err = TD_ERROR_INIT;
	char outside[256];
	bool gone = true;
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	// It is nobody's but root's to make, and even then it is not followed.
	assert_int_equal(symlink(outside, at("jobs/8")), 0);
	assert_int_equal(td_scratch_release(dir, "8", &gone, &err), TD_INTERNAL);
	char to[256];
	snprintf(to, sizeof(to), "%s/trash/8", dir);
	assert_int_equal(rename(at("jobs/8"), to), 0);
	assert_int_equal(empty(), 0);
	assert_true(td_path_exists(at("outside/in/file")));
}

static void test_what_a_directory_holds(void **state)
{
	(void)state;
	char outside[256], block[8192] = "x";
	struct td_scratch_held none = {0}, sum = {0};
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	assert_int_equal(td_file_write(at("outside/in/file"), block, sizeof(block), 0600, NULL), 0);
	assert_int_equal(mkdir(at("held"), 0700), 0);
	assert_int_equal(td_scratch_used(at("held"), INT64_MAX, &none), 0);
	assert_int_equal(none.bytes + none.files, 0);

	// A file with three names is one file, links are not followed, and a hole takes no room.
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(chdir(at("held")), 0);
	assert_int_equal(mkdir("a", 0700), 0);
	assert_int_equal(td_file_write("a/file", block, sizeof(block), 0600, NULL), 0);
	assert_int_equal(link("a/file", "a/two"), 0);
	assert_int_equal(link("a/file", "three"), 0);
	assert_int_equal(symlink(outside, "out"), 0);
	assert_int_equal(td_file_write("hole", "", 0, 0600, NULL), 0);
	assert_int_equal(truncate("hole", 1 << 30), 0);
	// Deeper than any path may be long.
	for (int i = 0; i < 300; i++) {
		assert_int_equal(mkdir("a-directory-with-a-long-name", 0700), 0);
		assert_int_equal(chdir("a-directory-with-a-long-name"), 0);
	}
	assert_int_equal(td_file_write("file", block, sizeof(block), 0600, NULL), 0);
	assert_int_equal(fchdir(here), 0);
	close(here);
	struct td_scratch_held with = {0};
	int64_t at_least = 2 * (int64_t)sizeof(block);
	assert_int_equal(td_scratch_used(at("held"), INT64_MAX, &sum), 0);
	assert_int_equal(sum.files, 307);                                // each of its names
	assert_in_range(sum.bytes, at_least - 2, at_least + 303 * 4096); // a third of a file is cut off three times
	assert_int_equal(td_scratch_used(at("held"), 10, &with), 1);
	assert_true(with.bytes < sum.bytes && with.files <= 11);
	// What is counted is seen while it is counted: a look at more than can be looked at counts what it has met.
	struct td_scratch_seen endless = {.asked = 0, .used = -1};
	td_scratch_more(&endless, with.bytes);
	assert_true(endless.used == with.bytes && td_scratch_over(&endless, with.bytes - 1));
	td_scratch_more(&endless, with.bytes - 1);
	assert_int_equal(endless.used, with.bytes);
	assert_int_equal(td_scratch_used(at("nothing"), 10, &with), -1);
	assert_int_equal(td_scratch_used(at("held/out"), 10, &with), -1); // a link in its place
	assert_int_equal(td_rm_rf(at("held"), NULL), 0);
}

// As /proc has it of a process or thread of this program, but that it is in this cgroup.
static void as_in_proc(const char *proc, int id, const char *cgroup)
{
	static const char *const links[] = {"fd", "maps", "map_files", "exe", "task"};
	td_auto_free char *own = td_asprintf("%s/%d", proc, id), *file = td_asprintf("%s/cgroup", own);
	assert_int_equal(td_mkdir_p(own, 0700, NULL), 0);
	assert_int_equal(td_file_write(file, cgroup, strlen(cgroup), 0600, NULL), 0);
	for (size_t i = 0; i < TD_LEN(links); i++) {
		td_auto_free char *from = td_asprintf("/proc/%d/%s", id, links[i]),
				  *to = td_asprintf("%s/%s", own, links[i]);
		unlink(to);
		assert_int_equal(symlink(from, to), 0);
	}
}

struct holder {
	int id, go[2];
	const char *file;
};
// A thread with files of its own, one of them a deleted one.
static void *holds_its_own(void *ctx)
{
	struct holder *h = ctx;
	static const char block[64 << 10] = "x";
	char c;
	int fd = unshare(CLONE_FILES) ? -1 : open(h->file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool good = fd >= 0 && write(fd, block, sizeof(block)) == sizeof(block) && !fsync(fd) && !unlink(h->file);
	int id = good ? (int)syscall(SYS_gettid) : 0;
	if (write(h->go[1], &id, sizeof(id)) == sizeof(id))
		(void)!read(h->go[1], &c, 1);
	if (fd >= 0)
		close(fd);
	return NULL;
}

// Files that are deleted and still open, or mapped, of the processes of a job; each once.
static void test_what_deleted_files_hold(void **state)
{
	(void)state;
	static const char block[64 << 10] = "x", text[] = "5:memory:/slurm/uid_1000/job_12/step_0/task_0\n";
	td_auto_free char *proc = td_strdup(at("proc"));
	as_in_proc(proc, getpid(), text);

	struct stat st;
	assert_int_equal(stat(dir, &st), 0);
	struct td_scratch_open o = {.disks = {st.st_dev}, .n_disks = 1};
	td_scratch_open_scan(proc, &o);
	const int64_t none = td_scratch_open_sum(&o, "12"); // a thread sanitizer has a file of its own
	const size_t files = o.n;

	td_auto_close int fd = open(at("gone"), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600),
			  mapped = open(at("mapped"), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600),
			  memory = memfd_create("no disk", MFD_CLOEXEC);
	assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	assert_int_equal(write(mapped, block, sizeof(block)), sizeof(block));
	assert_int_equal(write(memory, block, sizeof(block)), sizeof(block));
	td_auto_close int twice = dup(fd);
	int many[600]; // more than there is room for at first
	for (size_t i = 0; i < TD_LEN(many); i++)
		many[i] = dup(fd);
	td_scratch_open_scan(proc, &o);
	assert_int_equal(td_scratch_open_sum(&o, "12"), none); // they have names
	fsync(fd), fsync(mapped);
	void *m = mmap(NULL, sizeof(block), PROT_READ, MAP_SHARED, mapped, 0);
	assert_true(m != MAP_FAILED);
	close(td_steal_fd(&mapped));
	assert_int_equal(unlink(at("gone")), 0);
	td_scratch_open_scan(proc, &o);
	assert_in_range(td_scratch_open_sum(&o, "12") - none, sizeof(block), sizeof(block) + 8192);
	assert_int_equal(unlink(at("mapped")), 0);
	td_scratch_open_scan(proc, &o);
	assert_in_range(td_scratch_open_sum(&o, "12") - none, 2 * sizeof(block), 2 * sizeof(block) + 16384);
	assert_int_equal(td_scratch_open_sum(&o, "1"), 0);
	assert_int_equal(o.n, files + 2);

	// Also by one that has very much mapped.
	enum { MAPPINGS = 15000 };
	static void *maps[MAPPINGS];
	char name[240] = "";
	memset(name, 'n', sizeof(name) - 1);
	td_auto_close int named = open(at(name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(named, 4096), 0);
	for (size_t i = 0; i < MAPPINGS; i++)
		assert_true((maps[i] = mmap(NULL, 4096, PROT_READ, MAP_SHARED, named, 0)) != MAP_FAILED);
	td_scratch_open_scan(proc, &o);
	assert_int_equal(o.n, files + 2);
	for (size_t i = 0; i < MAPPINGS; i++)
		munmap(maps[i], 4096);
	unlink(at(name));
	close(td_steal_fd(&named));

	munmap(m, sizeof(block));
	close(td_steal_fd(&fd));
	close(td_steal_fd(&twice));
	for (size_t i = 0; i < TD_LEN(many); i++)
		close(many[i]);
	td_scratch_open_scan(proc, &o);
	assert_int_equal(td_scratch_open_sum(&o, "12"), none);

	// A thread, also when nothing is seen of the first one, because it has ended.
	td_auto_free char *file = td_strdup(at("own"));
	struct holder h = {.file = file};
	pthread_t t;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, h.go), 0);
	assert_int_equal(pthread_create(&t, NULL, holds_its_own, &h), 0);
	assert_int_equal(read(h.go[0], &h.id, sizeof(h.id)), sizeof(h.id));
	assert_true(h.id > 0);
	as_in_proc(proc, h.id, text);
	td_scratch_open_scan(proc, &o);
	assert_in_range(td_scratch_open_sum(&o, "12") - none, sizeof(block), sizeof(block) + 8192);
	as_in_proc(proc, getpid(), "5:memory:/\n");
	td_scratch_open_scan(proc, &o);
	assert_in_range(td_scratch_open_sum(&o, "12") - none, sizeof(block), sizeof(block) + 8192);
	assert_int_equal(write(h.go[0], "x", 1), 1);
	assert_int_equal(pthread_join(t, NULL), 0);
	close(h.go[0]), close(h.go[1]);
	free(o.v);
	assert_int_equal(td_rm_rf(proc, NULL), 0);
}

#define G ((int64_t)1 << 30)
// A disk that is made for a million files: who makes half a million holds half of it.
static void test_files_count(void **state)
{
	(void)state;
	struct td_scratch_disk d = {100 * G, 50 * G, 0, 0};
	assert_int_equal(td_scratch_charge(&d, 5, INT64_MAX), 5);
	td_scratch_files(&d, 0, 0); // btrfs
	assert_true(!d.each && d.free == 50 * G);
	td_scratch_files(&d, 1 << 20, 900000);
	assert_true(d.each == 100 << 10 && d.free == 50 * G && !td_scratch_full(&d));
	assert_int_equal(td_scratch_charge(&d, 5, 1 << 19), 50 * G);
	assert_int_equal(td_scratch_charge(&d, 60 * G, 1 << 19), 60 * G);
	assert_int_equal(td_scratch_charge(&d, 5, INT64_MAX), INT64_MAX);
	assert_int_equal(d.made, ((1 << 20) - 900000) * d.each);
	// A job that has many files is looked at again when many were made.
	struct td_scratch_seen j = {
		.asked = G, .used = G / 2, .looked_ms = 0, .cost_ms = 50, .disk_used = 50 * G, .disk_made = d.made};
	assert_false(td_scratch_due(&j, 50 * G, &d, 1100));
	td_scratch_files(&d, 1 << 20, 897000);
	assert_true(td_scratch_due(&j, 50 * G, &d, 1100));
	td_scratch_files(&d, 1 << 20, 1 << 16); // few are left
	assert_true(d.free == 100 * G / 16 && td_scratch_full(&d));
}

static void test_who_is_ended(void **state)
{
	(void)state;
	const struct td_scratch_disk roomy = {100 * G, 50 * G, 0, 0}, full = {100 * G, 10 * G, 0, 0};
	assert_int_equal(td_scratch_bytes("50%", 100), 50);
	assert_int_equal(td_scratch_bytes("1048576", 100), 1048576);
	static const char *const wrong[] = {"", "%", "0%", "101%", "5x", "50%%", "-1"};
	for (size_t i = 0; i < TD_LEN(wrong); i++)
		assert_int_equal(td_scratch_bytes(wrong[i], 100), -1);

	// --tmp is the limit, in both directions; nobody goes before it is known.
	struct td_scratch_seen j = {.asked = -1, .used = 60 * G};
	assert_true(td_scratch_ask(&j, 50 * G, &roomy));
	assert_false(td_scratch_over(&j, 50 * G));
	j.asked = 0;
	assert_false(td_scratch_ask(&j, 50 * G, &roomy));
	assert_true(td_scratch_over(&j, 50 * G));
	j.asked = 70 * G;
	assert_false(td_scratch_over(&j, 50 * G));
	assert_true(td_scratch_near(&j, 50 * G));
	j.asked = 10 * G;
	assert_true(td_scratch_over(&j, 50 * G));
	assert_false(td_scratch_near(&j, 50 * G));
	j.ended = true;
	assert_false(td_scratch_over(&j, 50 * G));
	// Of one that holds next to nothing nobody asks.
	j = (struct td_scratch_seen){.asked = -1, .used = 1 << 20};
	assert_false(td_scratch_ask(&j, 50 * G, &roomy));

	// Looks: at few files every second, at many when there may be more of them than there is room.
	j = (struct td_scratch_seen){.asked = 0, .used = -1};
	assert_true(td_scratch_due(&j, 50 * G, &roomy, 0));
	j = (struct td_scratch_seen){.used = 20 * G, .looked_ms = 1000, .cost_ms = 5, .disk_used = 50 * G};
	assert_false(td_scratch_due(&j, 50 * G, &roomy, 1999));
	assert_true(td_scratch_due(&j, 50 * G, &roomy, 2000));
	j.cost_ms = 200;
	assert_false(td_scratch_due(&j, 50 * G, &roomy, 6000));
	assert_true(td_scratch_due(&j, 50 * G, &roomy, 31000));
	j.disk_used = 30 * G; // 20 more since then, and 30 were left
	assert_false(td_scratch_due(&j, 50 * G, &roomy, 4999));
	assert_true(td_scratch_due(&j, 50 * G, &roomy, 5000));
	j.disk_used = 50 * G;
	assert_true(td_scratch_due(&j, 50 * G, &full, 5000));

	// A full disk: who holds most beyond what he asked for.
	struct td_scratch_seen v[] = {{.asked = 40 * G, .used = 39 * G},
				      {.asked = 0, .used = 2 * G},
				      {.asked = 10 * G, .used = 13 * G},
				      {.asked = -1, .used = 1}};
	assert_int_equal(td_scratch_worst(v, 4, &roomy), 4);
	assert_int_equal(td_scratch_worst(v, 4, &full), 2);
	v[2].ended = true;
	assert_int_equal(td_scratch_worst(v, 4, &full), 4); // it leaves room in a moment
	v[2] = (struct td_scratch_seen){.asked = 0, .used = G / 2};
	assert_int_equal(td_scratch_worst(v, 4, &full), 1);
	v[3] = (struct td_scratch_seen){.asked = -1, .used = 5 * G};
	assert_int_equal(td_scratch_worst(v, 4, &full), 4);
	assert_true(td_scratch_ask(&v[3], 50 * G, &full));
	v[3].asked = 5 * G;
	v[1].used = G / 2;
	assert_int_equal(td_scratch_worst(v, 4, &full), 4); // less is no help

	// One that slurmctld does not end: it is told again, ever less often.
	int64_t pause = 0, sum = 0;
	for (int i = 0; i < 20; i++, sum += pause) {
		int64_t next = td_scratch_pause(pause);
		assert_true(next > pause || (next == pause && next >= 60000 && next <= 300000));
		pause = next;
	}
	assert_true(sum > 20 * 60000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_a_job_left),
		cmocka_unit_test(test_a_link_as_the_job_itself),
		cmocka_unit_test(test_what_a_directory_holds),
		cmocka_unit_test(test_what_deleted_files_hold),
		cmocka_unit_test(test_files_count),
		cmocka_unit_test(test_who_is_ended),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
