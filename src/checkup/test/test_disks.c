// A machine's disks, from a tree that looks like its /sys, what smartctl wrote of them, and NVMe's own log.
// rows: B3.4 A14.8
#include "checkup/checkup.h"

#include "base/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/td-disks-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	return td_rm_rf(dir, NULL);
}

static void file_of(const char *path, const char *text, size_t n)
{
	td_auto_free char *p = td_asprintf("%s/%s", dir, path), *d = td_strndup(p, (size_t)(strrchr(p, '/') - p));
	assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
	assert_int_equal(td_file_write(p, text, n, 0644, NULL), 0);
}

static void file(const char *path, const char *text)
{
	file_of(path, text, strlen(text));
}

static void old(const char *path, int64_t real_ms)
{
	td_auto_free char *p = td_asprintf("%s/%s", dir, path);
	const struct timespec t[2] = {{.tv_sec = real_ms / 1000}, {.tv_sec = real_ms / 1000}};
	assert_int_equal(utimensat(AT_FDCWD, p, t, 0), 0);
}

static struct td_checkup_facts f;

static void expect(struct td_checkup_backend *b, const char *want)
{
	td_auto_buf struct td_buf got = {0};
	struct td_checkup_findings l = {0};
	assert_int_equal(b->read(b->ctx, &f, NULL), 0);
	td_checkup_judge(&f, &l);
	for (size_t k = 0; k < l.n; k++)
		td_buf_printf(&got, "%s%s %s %s", k ? "; " : "", l.v[k].check, l.v[k].action, l.v[k].message);
	assert_string_equal(got.len ? td_buf_str(&got) : "", want);
}

#define SMART "run/tandem/smart/"
static void disks_of_a_machine(void **state)
{
	struct td_clock_manual now;
	td_clock_manual_init(&now, 1800000000000);
	file("sys/block/nvme0n1/device/model", "Test NVMe 3.84TB                    \n");
	file("sys/block/nvme0n1/device/serial", "  S1 \"x\n");
	file("sys/block/nvme0n1/device/firmware_rev", "GDC7302Q\n");
	file("sys/block/nvme0n1/size", "7501476528\n");
	file("sys/block/sda/device/model", "HDD\n");
	file("sys/block/sda/device/rev", "SN04\n");
	file("sys/block/sda/queue/rotational", "1\n");
	file_of("sys/block/sda/device/vpd_pg80", "\0\x80\0\x08  WD-123", 12);
	file("sys/block/vda/device/x", "");
	file("sys/block/vda/serial", "v1\n");
	file("sys/block/sdb/device/x", "");
	file("sys/block/sdb/removable", "1\n");
	file("sys/block/loop0/size", "8\n");
	file("sys/block/dm-0/size", "8\n");
	file("dev/nvme0", "no such device");
	struct td_checkup_backend b = td_checkup_machine(&(struct td_checkup_machine_opts){
		.root = dir, .nvml = "/nonexistent", .kmsg = "/nonexistent", .clock = &now.clock});
	expect(&b, "");
	assert_int_equal(f.n_disks, 3);
	const struct td_checkup_disk *nvme = &f.disks[0], *sda = &f.disks[1], *vda = &f.disks[2];
	assert_string_equal(nvme->name, "nvme0n1");
	assert_string_equal(nvme->model, "Test NVMe 3.84TB");
	assert_string_equal(nvme->serial, "S1 _x");
	assert_string_equal(nvme->firmware, "GDC7302Q");
	assert_string_equal(nvme->kind, "nvme");
	assert_true(nvme->bytes == 7501476528 * 512 && !nvme->smart && nvme->temp_c == -1);
	assert_string_equal(sda->serial, "WD-123");
	assert_string_equal(sda->firmware, "SN04");
	assert_string_equal(sda->kind, "hdd");
	assert_string_equal(vda->serial, "v1");

	// smartctl's word of a controller is its disks'. What is a day old says nothing, nor does what is no such text.
	file(SMART "a.json", "{\"device\":{\"name\":\"/dev/nvme0\"},\"smart_status\":{\"passed\":true},"
			     "\"nvme_smart_health_information_log\":{\"critical_warning\":0,\"temperature\":38,"
			     "\"available_spare\":100,\"available_spare_threshold\":10,\"percentage_used\":101,"
			     "\"media_errors\":5}}");
	file(SMART "b.json", "{\"device\":{\"name\":\"/dev/sda\"},\"smart_status\":{\"passed\":false}}");
	file(SMART "c.json", "{");
	file(SMART "d.json", "{\"device\":{\"name\":\"/dev/vda\"}}");
	file(SMART "e.txt", "x");
	old(SMART "a.json", now.real);
	old(SMART "b.json", now.real - 25 * 3600 * 1000);
	expect(&b, ""); // a minute is not over yet
	td_clock_manual_add(&now, 60000);
	expect(&b, "disk-worn none nvme0n1: 101 % of what it was made for was written");
	assert_true(nvme->temp_c == 38 && nvme->spare == 100 && nvme->media.total == 5 && !sda->smart && !vda->smart);
	assert_string_equal(nvme->serial, "S1 _x");
	old(SMART "b.json", now.real);
	file(SMART "a.json", "{\"device\":{\"name\":\"/dev/nvme0\"},"
			     "\"nvme_smart_health_information_log\":{\"critical_warning\":2,\"temperature\":84,"
			     "\"available_spare\":9,\"available_spare_threshold\":10,\"percentage_used\":99,"
			     "\"media_errors\":30}}");
	old(SMART "a.json", now.real);
	td_clock_manual_add(&now, 60000);
	expect(&b, "disk-failing drain nvme0n1: its spare blocks run out; "
		   "disk-errors drain nvme0n1: at least 20 blocks could not be read or written in 10 minutes; "
		   "disk-failing drain sda: SMART says that it fails");
	assert_true(nvme->hot);
	// Heat alone is no failure of the disk, though SMART says so. For two minutes it is a fault of its own.
	file(SMART "a.json", "{\"device\":{\"name\":\"/dev/nvme0\"},\"smart_status\":{\"passed\":false},"
			     "\"nvme_smart_health_information_log\":{\"critical_warning\":2}}");
	file(SMART "b.json", "{\"device\":{\"name\":\"sda\"},\"smart_status\":{\"passed\":true},"
			     "\"ata_smart_attributes\":{\"table\":[{\"id\":5,\"raw\":{\"value\":9}},{\"id\":198,"
			     "\"raw\":{\"value\":3}},{\"id\":187,\"raw\":{\"value\":4}}]}}");
	old(SMART "a.json", now.real);
	old(SMART "b.json", now.real);
	td_clock_manual_add(&now, 60000);
	for (int i = 0; i < 12; i++) {
		expect(&b, "");
		td_clock_manual_add(&now, 10000);
	}
	expect(&b, "disk-hot drain nvme0n1: it is too hot");
	assert_true(sda->media.known && sda->media.total == 4 && !nvme->media.known && nvme->spare == -1);
	// One cool minute does not end it, more do. One hot minute is none.
	file(SMART "a.json", "{\"device\":{\"name\":\"/dev/nvme0\"},\"smart_status\":{\"passed\":true}}");
	old(SMART "a.json", now.real);
	td_clock_manual_add(&now, 60000);
	expect(&b, "disk-hot drain nvme0n1: it is too hot");
	td_clock_manual_add(&now, 10000);
	expect(&b, "");
	file(SMART "a.json", "{\"device\":{\"name\":\"/dev/nvme0\"},"
			     "\"nvme_smart_health_information_log\":{\"critical_warning\":2}}");
	old(SMART "a.json", now.real);
	bool hot = false;
	for (int i = 0; i < 24; i++) {
		td_clock_manual_add(&now, 10000);
		expect(&b, "");
		if (nvme->hot && !hot) {
			hot = true;
			file(SMART "a.json",
			     "{\"device\":{\"name\":\"/dev/nvme0\"},\"smart_status\":{\"passed\":true}}");
			old(SMART "a.json", now.real);
		}
	}
	assert_true(hot);
	td_checkup_backend_done(&b);
}

static void the_log_of_nvme(void **state)
{
	unsigned char log[512] = {0};
	struct td_checkup_disk d = {.name = "nvme0n1"};
	log[1] = 0x37; // 311 K
	log[2] = 0x01;
	log[3] = 100;
	log[4] = 10;
	log[5] = 7;
	log[160] = 1;
	log[161] = 1;
	td_smart_nvme(log, &d);
	assert_true(d.smart && !d.failing && !d.hot && d.temp_c == 38 && d.spare == 100 && d.used == 7);
	assert_true(d.media.known && d.media.total == 257);
	static const struct {
		unsigned char bits, spare;
		bool failing, hot;
		const char *why;
	} v[] = {{0, 9, true, false, "its spare blocks run out"},
		 {1, 100, true, false, "its spare blocks run out"},
		 {2, 100, false, true, ""},
		 {4 | 8, 100, true, false, "it takes no more data"},
		 {4 | 2, 100, true, true, "it is not reliable any more"},
		 {16, 100, true, false, "its backup of power failed"},
		 {32, 100, true, false, "it warns"}};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		d = (struct td_checkup_disk){0};
		log[0] = v[i].bits;
		log[3] = v[i].spare;
		td_smart_nvme(log, &d);
		assert_int_equal(d.failing, v[i].failing);
		assert_int_equal(d.hot, v[i].hot);
		assert_string_equal(d.why, v[i].why);
	}
}

static sem_t asked, goes_on;
static atomic_int answers;

static enum td_nvme_said drive(void *ctx, const char *path, unsigned char log[512])
{
	assert_true(td_ends(path, "/dev/nvme0"));
	sem_post(&asked);
	sem_wait(&goes_on);
	log[0] = 8;
	log[3] = 100;
	atomic_fetch_add(&answers, 1);
	return ctx ? TD_NVME_CLOSED : TD_NVME_SAID;
}

static void wait_answers(int n)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	for (int i = 0; i < 60000 && atomic_load(&answers) < n; i++)
		nanosleep(&ms, NULL);
	assert_int_equal(atomic_load(&answers), n);
}

// Until the thread has written down what was said, which is after the answer.
static bool said(struct td_disks *d, const struct td_clock *clock)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	for (int i = 0; i < 60000; i++) {
		td_disks_look(d, dir, clock, &f);
		if (f.n_disks == 1 && f.disks[0].smart)
			return true;
		nanosleep(&ms, NULL);
	}
	return false;
}

static void a_drive_that_hangs_keeps_nobody_waiting(void **state)
{
	struct td_clock_manual m;
	td_clock_manual_init(&m, 1700000000000);
	sem_init(&asked, 0, 0);
	sem_init(&goes_on, 0, 0);
	atomic_store(&answers, 0);
	file("sys/block/nvme0n1/device/model", "Fast\n");
	file("dev/nvme0", "");
	// A file of yesterday is not its word.
	file("run/tandem/smart/a.json", "{\"device\":{\"name\":\"/dev/nvme0\"},\"smart_status\":{\"passed\":true}}");
	old("run/tandem/smart/a.json", 1700000000000);
	struct td_disks *d = td_disks_new_with(drive, NULL);
	for (int i = 0; i < 3; i++) {
		td_clock_manual_add(&m, i ? 61000 : 0);
		td_disks_look(d, dir, &m.clock, &f);
		assert_int_equal(f.n_disks, 1);
		assert_string_equal(f.disks[0].model, "Fast");
		assert_false(f.disks[0].smart);
	}
	sem_wait(&asked);
	assert_int_equal(sem_trywait(&asked), -1); // by one thread, however often it was due
	sem_post(&goes_on);
	assert_true(said(d, &m.clock));
	assert_true(f.disks[0].failing);
	assert_string_equal(f.disks[0].why, "it takes no more data");
	// What it said is of when it was asked.
	td_clock_manual_add(&m, 61000);
	td_disks_look(d, dir, &m.clock, &f);
	assert_false(f.disks[0].smart);
	sem_wait(&asked);
	// Its owner goes while a thread asks.
	td_disks_free(d);
	sem_post(&goes_on);
	wait_answers(2);

	// Who may not ask it has the file's word.
	td_clock_manual_init(&m, 1700000000000);
	d = td_disks_new_with(drive, &m);
	sem_post(&goes_on);
	assert_true(said(d, &m.clock));
	assert_false(f.disks[0].failing);
	td_disks_free(d);
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test_setup_teardown(disks_of_a_machine, setup, teardown),
		cmocka_unit_test_setup_teardown(the_log_of_nvme, setup, teardown),
		cmocka_unit_test_setup_teardown(a_drive_that_hangs_keeps_nobody_waiting, setup, teardown),
	};
	return cmocka_run_group_tests(t, NULL, NULL);
}
