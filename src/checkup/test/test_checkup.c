// The checks: what the file of faults says is found, and what ends a fault.
// rows: A10.1 A10.2 D5.2 B5.1 B5.4 B3.1 B3.2 B3.3 B3.4 B3.5
#include "checkup/checkup.h"
#include "checkup/cuda.h"

#include "base/file.h"

#include <dlfcn.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[96];
static const char *library, *cuda; // with NVML's calls, and CUDA's

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/td-health-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/faults", dir);
	return 0;
}

static int teardown(void **state)
{
	td_rm_rf(dir, NULL);
	return 0;
}

static void put(const char *text)
{
	assert_int_equal(td_file_write(path, text, strlen(text), 0644, NULL), 0);
}

static struct td_checkup_findings look(struct td_checkup_backend *b)
{
	static struct td_checkup_facts f;
	struct td_checkup_findings l = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(b->read(b->ctx, &f, &err), 0);
	td_checkup_judge(&f, &l);
	return l;
}

static void a_node_without_a_file_is_well(void **state)
{
	struct td_checkup_backend b = td_checkup_fake(path, NULL, 8);
	assert_int_equal(look(&b).n, 0);
	td_checkup_backend_done(&b);
}

// Every check of the table has an injection, which it finds, with the action that the table says.
static void every_check_finds_its_injection(void **state)
{
	for (size_t i = 0; i < td_checkup_n_checks; i++) {
		const struct td_checkup_check *c = &td_checkup_checks[i];
		if (!strcmp(c->name, "preflight") || !strcmp(c->name, "exchange") || !strcmp(c->name, "shared-storage"))
			continue; // no look finds them: the tests before jobs do
		put(c->inject);
		struct td_checkup_backend b = td_checkup_fake(path, NULL, 8);
		struct td_checkup_findings l = look(&b);
		assert_int_equal(l.n, 1);
		assert_string_equal(l.v[0].check, c->name);
		assert_string_equal(l.v[0].condition, c->condition);
		if (strcmp(c->action, "by number") != 0)
			assert_string_equal(l.v[0].action, c->action);
		assert_string_equal(l.v[0].device, td_starts(c->inject, "gpu3") ? "gpu3" : "");
		td_checkup_backend_done(&b);
	}
}

// A quick test by a program of this text; the devices that failed.
static uint64_t quick(const char *program, int64_t limit_ms, char *why, size_t n)
{
	td_auto_free char *file = td_asprintf("%s/quick", dir);
	struct td_checkup_quick q = {
		.program = file, .node = "n0", .list = "1,3", .devices = 0xA, .ms = 10, .limit_ms = limit_ms};
	uint64_t bad = 0;
	assert_int_equal(td_file_write(file, program, strlen(program), 0755, NULL), 0);
	assert_int_equal(td_checkup_quick(&q, NULL, &bad, why, n, NULL), 0);
	return bad;
}

static void a_quick_test_says_which_devices_failed(void **state)
{
	char why[128] = "";
	assert_int_equal(quick("#!/bin/sh\n[ $1 = n0 ] && [ $2 = 1,3 ]\n", 9000, why, sizeof(why)), 0);
	assert_int_equal(quick("#!/bin/sh\necho noise\necho '{\"wrong\":[\"gpu3\",\"gpu7\"]}'\nexit 1\n", 9000, why,
			       sizeof(why)),
			 0x8); // gpu7 is not the job's
	assert_string_equal(why, "it computes wrongly");
	assert_int_equal(quick("#!/bin/sh\necho the fan is loud\nexit 3\n", 9000, why, sizeof(why)), 0xA);
	assert_string_equal(why, "the fan is loud");
	assert_int_equal(quick("#!/bin/sh\nexec sleep 1000\n", 100, why, sizeof(why)), 0xA);
	assert_string_equal(why, "the test did not end within 1 s");
}

static void a_quick_test_that_is_not_there_says_nothing(void **state)
{
	char why[128];
	const struct td_checkup_quick q = {
		.program = "/nonexistent", .node = "n0", .list = "0", .devices = 1, .ms = 10, .limit_ms = 9000};
	uint64_t bad = 7;
	assert_true(td_checkup_quick(&q, NULL, &bad, why, sizeof(why), NULL) < 0);
	assert_int_equal(bad, 7);
}

static void xids_are_judged_by_number(void **state)
{
	static const struct {
		int xid;
		const char *action;
	} want[] = {{79, "reboot"}, {95, "reset-gpu"}, {31, "none"}, {54, "drain"}, {200, "drain"}, {9999, "drain"}};
	for (size_t i = 0; i < TD_LEN(want); i++)
		assert_string_equal(td_checkup_xid_action(want[i].xid, NULL), want[i].action);
	put("gpu1 xid=31\n"); // an application's fault is no fault of the node
	struct td_checkup_backend b = td_checkup_fake(path, NULL, 8);
	assert_int_equal(look(&b).n, 0);
	td_checkup_backend_done(&b);
}

static void the_kernels_line_is_read(void **state)
{
	char pci[16];
	assert_int_equal(td_checkup_xid_line("3,12,1,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen", pci),
			 79);
	assert_string_equal(pci, "0000:3b:00");
	static const char *const bad[] = {"NVRM: Xid (PCI:", "NVRM: Xid (PCI:0000:3b:00): x", "Xid 79",
					  "NVRM: Xid (PCI:00000000000000000000000000:3b:00): 79", ""};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_int_equal(td_checkup_xid_line(bad[i], pci), 0);
}

static void what_ends_a_fault(void **state)
{
	put("gpu0 ecc=1\ngpu1 ecc=2\ngpu2 xid=79\nnode disk-full=99\n# a word\ngpu3 ecc=1 cure=clear\n");
	struct td_checkup_backend b = td_checkup_fake(path, NULL, 8);
	assert_int_equal(look(&b).n, 5);
	assert_int_equal(b.reset(b.ctx, 1, NULL, NULL), 0);
	assert_int_equal(look(&b).n, 4);
	assert_int_equal(b.reset(b.ctx, 8, NULL, NULL), TD_INVALID);
	assert_int_equal(b.rebooted(b.ctx, NULL), 0); // gpu0 and gpu2
	struct td_checkup_findings l = look(&b);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0].device, "gpu3");
	assert_string_equal(l.v[1].check, "disk-full");
	td_checkup_backend_done(&b);
}

static void what_is_no_fault_is_refused(void **state)
{
	static const char *const bad[] = {"disk0 xid=79",   "gpu99 xid=1", "gpu1 heat=9",           "gpu1 xid",
					  "gpu1 slow=cold", "node xid=79", "gpu1 xid=79 cure=beer", "gpu1 xid=many"};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		struct td_error err = TD_ERROR_INIT;
		assert_int_equal(td_checkup_fake_check(bad[i], strlen(bad[i]), &err), TD_INVALID);
		assert_non_null(strstr(err.msg, "line 1"));
	}
}

static void a_sites_checks(void **state)
{
	static const struct {
		const char *name, *text;
	} programs[] = {{"a-good", "#!/bin/sh\necho fine\n"},
			{"b-plain", "#!/bin/sh\necho 'ERROR: nhc: no /scratch'\nexit 1\n"},
			{"c-json", "#!/bin/sh\necho noise\necho '{\"device\":\"gpu2\",\"code\":7,\"action\":\"reboot\","
				   "\"message\":\"hot\"}'\nexit 3\n"}};
	for (size_t i = 0; i < TD_LEN(programs); i++) {
		td_auto_free char *p = td_asprintf("%s/%s", dir, programs[i].name);
		assert_int_equal(td_file_write(p, programs[i].text, strlen(programs[i].text), 0755, NULL), 0);
	}
	struct td_checkup_findings l = {0};
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_checkup_site(dir, c, &l);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0].check, "b-plain");
	assert_string_equal(l.v[0].message, "b-plain: ERROR: nhc: no /scratch");
	assert_string_equal(l.v[0].action, "drain");
	assert_string_equal(l.v[1].device, "gpu2");
	assert_string_equal(l.v[1].action, "reboot");
	assert_int_equal(l.v[1].code, 7);
}

// NVML itself is loaded at run time; here a library of the test's stands for it.
static void gpus_by_nvml(void **state)
{
	const struct td_checkup_machine_opts o = {.root = dir, .nvml = library, .kmsg = "/nonexistent"};
	struct td_checkup_backend b = td_checkup_machine(&o);
	static struct td_checkup_facts f;
	struct td_checkup_findings l = {0};
	for (int round = 0; round < 2; round++) { // an XID stays until the GPU was reset
		assert_int_equal(b.read(b.ctx, &f, NULL), 0);
		assert_int_equal(f.gpus, 2);
		assert_string_equal(f.gpu[0].model, "Test GPU");
		assert_true(f.gpu[0].temp_c == 41 && f.gpu[0].power_w == 250.5 && f.gpu[0].ecc_corrected == 0);
		assert_int_equal(f.gpu[0].memory_mb, 81920);
		l.n = 0;
		td_checkup_judge(&f, &l);
		const char *const want[] = {"recovery", "xid", "pcie"};
		assert_true(l.n >= TD_LEN(want));
		for (size_t i = 0; i < TD_LEN(want); i++) {
			assert_string_equal(l.v[i].check, want[i]);
			assert_string_equal(l.v[i].device, "gpu1");
		}
		assert_string_equal(l.v[0].action, "reset-gpu");
	}
	assert_int_equal(b.reset(b.ctx, 1, NULL, NULL), TD_UNSUPPORTED);
	td_checkup_backend_done(&b);
}

// What a short moment slows is no fault; what lasts is, until it has been away for as long.
static void clocks_that_stay_low(void **state)
{
	static const struct {
		const char *bits; // of the second GPU, from here on
		int64_t s;        // how long, at looks every 10 s
		const char *want; // what is found at the end
		bool cap;         // the power cap is told
	} steps[] = {
		{"0x80", 50, "", false}, // power brake
		{"0x1", 30, "", false},
		{"0x88", 50, "", false}, // it began anew
		{"0x88", 20, "clocks", false},
		{"0x1", 60, "clocks", false},
		{"0x1", 10, "", false},
		{"0x6", 600, "", true}, // power cap, application clocks: for information
		{"0x48", 70, "thermal", false},
		{"0x8", 40, "thermal", false},
		{"0x8", 30, "clocks", false}, // the hardware does not say why
	};
	struct td_clock_manual clock;
	td_clock_manual_init(&clock, 1000000);
	const struct td_checkup_machine_opts o = {
		.root = dir, .nvml = library, .kmsg = "/nonexistent", .gpus_only = true, .clock = &clock.clock};
	setenv("FAKE_NVML_WELL", "1", 1);
	struct td_checkup_backend b = td_checkup_machine(&o);
	static struct td_checkup_facts f;
	for (size_t i = 0; i < TD_LEN(steps); i++) {
		struct td_checkup_findings l = {0};
		td_auto_buf struct td_buf got = {0};
		setenv("FAKE_NVML_SLOW", steps[i].bits, 1);
		for (int64_t s = 0; s < steps[i].s; s += 10) {
			td_clock_manual_add(&clock, 10000);
			assert_int_equal(b.read(b.ctx, &f, NULL), 0);
		}
		td_checkup_judge(&f, &l);
		for (size_t k = 0; k < l.n; k++) {
			td_buf_printf(&got, "%s%s", k ? " " : "", l.v[k].check);
			assert_string_equal(l.v[k].device, "gpu1");
			assert_string_equal(l.v[k].action, "drain");
		}
		assert_string_equal(td_buf_str(&got), steps[i].want);
		assert_int_equal(f.gpu[1].slow_s[TD_SLOW_POWER_CAP] > 0, steps[i].cap);
		assert_true(f.gpu[0].slow_known && f.gpu[0].clock_set_mhz == 1410);
	}
	unsetenv("FAKE_NVML_SLOW");
	unsetenv("FAKE_NVML_WELL");
	td_checkup_backend_done(&b);
}

// Who they are, where they are, and what is told of it.
static void gpus_are_somewhere(void **state)
{
	static const char *const files[][2] = {
		{"sys/bus/pci/devices/0000:3b:00.0/numa_node", "0\n"},
		{"sys/bus/pci/devices/0000:3b:00.0/local_cpulist", "0-15,32-47\n"},
		{"sys/bus/pci/devices/0000:9b:00.0/numa_node", "1\n"},
		{"sys/devices/system/node/node0/cpulist", "0-15,32-47\n"},
		{"sys/devices/system/node/node1/cpulist", "16-31,48-63\n"},
	};
	for (size_t i = 0; i < TD_LEN(files); i++) {
		td_auto_free char *p = td_asprintf("%s/%s", dir, files[i][0]);
		td_auto_free char *d = td_strndup(p, (size_t)(strrchr(p, '/') - p));
		assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
		assert_int_equal(td_file_write(p, files[i][1], strlen(files[i][1]), 0644, NULL), 0);
	}
	const struct td_checkup_machine_opts o = {.root = dir, .nvml = library, .kmsg = "/nonexistent"};
	struct td_checkup_backend b = td_checkup_machine(&o);
	static struct td_checkup_facts f;
	assert_int_equal(b.read(b.ctx, &f, NULL), 0);
	td_auto_free char *text = td_checkup_inventory(&f);
	assert_string_equal(text,
			    "{\"gpus\":[{\"product\":\"Test GPU\",\"uuid\":\"GPU-test-0\",\"pci\":\"0000:3b:00.0\","
			    "\"cpus\":\"0-15,32-47\",\"peers\":\"1\",\"minor\":61,\"numa\":0},{\"product\":\"Test "
			    "GPU\",\"uuid\":\"GPU-test-1\",\"pci\":\"0000:9b:00.0\",\"peers\":\"0\",\"minor\":60,"
			    "\"numa\":1}],\"numaNodes\":2}");
	f.gpu[1].lost = true; // then nothing is told anew, and what was told stays
	assert_null(td_checkup_inventory(&f));
	td_checkup_backend_done(&b);

	// A virtual node tells what its file says.
	const char *say = "node product=NVIDIA-H100-80GB-HBM3 numa=0,1\n";
	struct td_checkup_backend fake = td_checkup_fake(path, NULL, 2);
	assert_int_equal(fake.read(fake.ctx, &f, NULL), 0);
	assert_null(td_checkup_inventory(&f));
	assert_int_equal(td_file_write(path, say, strlen(say), 0644, NULL), 0);
	assert_int_equal(fake.read(fake.ctx, &f, NULL), 0);
	td_auto_free char *told = td_checkup_inventory(&f);
	assert_non_null(strstr(told, "\"numaNodes\":2"));
	assert_non_null(
		strstr(told, "{\"product\":\"NVIDIA-H100-80GB-HBM3\",\"uuid\":\"GPU-fake-1\",\"minor\":1,\"numa\":1}"));
	struct td_checkup_findings l = {0};
	td_checkup_judge(&f, &l);
	assert_int_equal(l.n, 0);
	td_checkup_backend_done(&fake);
}

// Who a GPU is, is asked until it is told, and anew when a GPU is cut.
static void identity_is_asked_once(void **state)
{
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(lib);
	int *asked = dlsym(lib, "fake_nvml_asked");
	assert_non_null(asked);
	const struct td_checkup_machine_opts o = {
		.root = dir, .nvml = library, .kmsg = "/nonexistent", .gpus_only = true};
	struct td_checkup_backend b = td_checkup_machine(&o);
	static struct td_checkup_facts f;
	*asked = 0;
	setenv("FAKE_NVML_MUTE", "1", 1);
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(b.read(b.ctx, &f, NULL), 0);
		assert_string_equal(f.gpu[0].uuid, "");
		assert_int_equal(*asked, 2 * i);
	}
	unsetenv("FAKE_NVML_MUTE");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(b.read(b.ctx, &f, NULL), 0);
		assert_string_equal(f.gpu[1].uuid, "GPU-test-1");
		assert_true(f.gpu[0].temp_c == 41 && f.gpu[0].pcie_width_max == 16 && f.gpu[0].peers == 2);
		assert_int_equal(*asked, 6);
	}
	setenv("FAKE_NVML_MIG", "0", 1);
	assert_int_equal(b.read(b.ctx, &f, NULL), 0);
	assert_int_equal(b.read(b.ctx, &f, NULL), 0);
	assert_int_equal(*asked, 8);
	unsetenv("FAKE_NVML_MIG");
	td_checkup_backend_done(&b);
	dlclose(lib);
}

// A GPU that is cut (MIG): its parts are devices, whole GPUs come first, and one profile's parts are together.
// rows: A7.3
static void parts_are_devices(void **state)
{
	static const char *const caps[][2] = {
		{"gi1", "7"}, {"gi1/ci0", "8"}, {"gi11", "9"}, {"gi11/ci0", "10"}, {"gi12", "11"}};
	for (size_t i = 0; i < TD_LEN(caps); i++) {
		td_auto_free char *d = td_asprintf("%s/proc/driver/nvidia/capabilities/gpu61/mig/%s", dir, caps[i][0]),
				  *p = td_asprintf("%s/access", d),
				  *text = td_asprintf("DeviceFileMinor: %s\nDeviceFileMode: 292\n", caps[i][1]);
		assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
		assert_int_equal(td_file_write(p, text, strlen(text), 0644, NULL), 0);
	}
	setenv("FAKE_NVML_MIG", "0", 1);
	setenv("FAKE_NVML_XID_PART", "11", 1);
	const struct td_checkup_machine_opts o = {
		.root = dir, .nvml = library, .kmsg = "/nonexistent", .reset = "/bin/true"};
	struct td_checkup_backend b = td_checkup_machine(&o);
	static struct td_checkup_facts f;
	assert_int_equal(b.read(b.ctx, &f, NULL), 0);
	assert_int_equal(f.gpus, 4);
	static const char *const want[][2] = {{"", "GPU-test-1"},
					      {"1g.10gb.me", "MIG-test-2"},
					      {"1g.10gb.me", "MIG-test-3"},
					      {"3g.40gb", "MIG-test-0"}};
	for (int i = 0; i < f.gpus; i++) {
		assert_string_equal(f.gpu[i].profile, want[i][0]);
		assert_string_equal(f.gpu[i].uuid, want[i][1]);
		assert_int_equal(f.gpu[i].of, !i);
	}
	assert_true(f.gpu[0].peers == 0 && f.gpu[1].caps[0] == 9 && f.gpu[1].caps[1] == 10 && f.gpu[3].caps[0] == 7);
	assert_null(td_checkup_inventory(&f)); // of the last file nothing is known yet
	td_auto_free char *d = td_asprintf("%s/proc/driver/nvidia/capabilities/gpu61/mig/gi12/ci0", dir),
			  *p = td_asprintf("%s/access", d);
	assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
	assert_int_equal(td_file_write(p, "DeviceFileMinor: 12\n", 20, 0644, NULL), 0);
	assert_int_equal(b.read(b.ctx, &f, NULL), 0);
	td_auto_free char *text = td_checkup_inventory(&f), *task = td_mig_task_text(&f);
	assert_non_null(
		strstr(text, "{\"product\":\"Test GPU\",\"uuid\":\"GPU-test-1\",\"pci\":\"0000:9b:00.0\",\"minor\":60,"
			     "\"files\":[\"/dev/nvidia60\"],\"gpu\":1},"));
	assert_non_null(strstr(
		text, "\"uuid\":\"MIG-test-3\",\"pci\":\"0000:3b:00.0\",\"minor\":61,\"files\":[\"/dev/nvidia61\","
		      "\"/dev/nvidia-caps/nvidia-cap11\",\"/dev/nvidia-caps/nvidia-cap12\"],\"gpu\":0,\"mig\":"
		      "\"1g.10gb.me\"}"));
	assert_true(td_starts(task, "CUDA_VISIBLE_DEVICES each GPU-test-1 MIG-test-2 MIG-test-3 MIG-test-0\n"));

	// What one part did is no fault of the others.
	assert_true(f.gpu[1].xid == 79 && f.gpu[2].xid == 0 && f.gpu[3].xid == 0 && f.gpu[0].xid == 0);
	// None is reset: the others would go with it.
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(b.reset(b.ctx, 2, NULL, &err), TD_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "would take the other parts"));
	f.gpu[2].ecc_uncorrected = f.gpu[0].ecc_uncorrected = 1;
	struct td_checkup_findings l = {0};
	td_checkup_judge(&f, &l);
	for (size_t i = 0; i < l.n; i++)
		if (!strcmp(l.v[i].check, "ecc"))
			assert_string_equal(l.v[i].action, !strcmp(l.v[i].device, "gpu0") ? "reset-gpu" : "drain");

	assert_true(td_mig_told(&f));
	td_checkup_backend_done(&b);
	// The whole GPU is lost when another agent starts: it keeps its place.
	setenv("FAKE_NVML_LOST", "1", 1);
	b = td_checkup_machine(&o);
	assert_int_equal(b.read(b.ctx, &f, NULL), 0);
	td_auto_free char *gap = td_mig_task_text(&f);
	assert_false(td_mig_told(&f));
	assert_true(td_starts(gap, "CUDA_VISIBLE_DEVICES each - MIG-test-2 MIG-test-3 MIG-test-0\n"));
	// Nor is it the end of them: who cuts all of them cuts none.
	struct td_mig_kind kinds[TD_MIG_KINDS];
	size_t n = 0;
	assert_int_equal(b.kinds(b.ctx, 1, kinds, &n, NULL), TD_TRANSIENT);
	assert_int_equal(b.cut(b.ctx, 1, NULL, 0, NULL), TD_TRANSIENT);
	assert_int_equal(b.kinds(b.ctx, 2, kinds, &n, NULL), TD_NOT_FOUND);
	td_checkup_backend_done(&b);
	unsetenv("FAKE_NVML_LOST");
	unsetenv("FAKE_NVML_XID_PART");
	unsetenv("FAKE_NVML_MIG");
}

// What is there, as "PROFILE PROFILE"; a GPU that is whole is its UUID.
static char *devices(struct td_checkup_backend *b)
{
	static struct td_checkup_facts f;
	struct td_buf s = {0};
	assert_int_equal(b->read(b->ctx, &f, NULL), 0);
	for (int i = 0; i < f.gpus; i++)
		td_buf_printf(&s, "%s%s", i ? " " : "", *f.gpu[i].profile ? f.gpu[i].profile : f.gpu[i].uuid);
	return td_buf_take(&s);
}

static void has(struct td_checkup_backend *b, const char *want)
{
	td_auto_free char *is = devices(b);
	assert_string_equal(is, want);
}

static const struct td_mig_wish wish_a[] = {{"3g.40gb", 4}, {"1g.10gb", 0}, {"1g.10gb", 1}},
				wish_b[] = {{"1g.10gb.me", 6}, {"4g.40gb", 0}};

// A GPU is cut, cut otherwise and whole again while the other one stays as it is; who was stopped after any change begins
// again and comes to the same.
// rows: D2.5
static void a_gpu_is_cut(void **state)
{
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(lib);
	int *changes = dlsym(lib, "fake_nvml_changes"), *changed = dlsym(lib, "fake_nvml_changed");
	const struct td_checkup_machine_opts o = {
		.root = dir, .nvml = library, .kmsg = "/nonexistent", .gpus_only = true};
	struct td_checkup_backend b = td_checkup_machine(&o);
	struct td_mig_kind kinds[TD_MIG_KINDS];
	struct td_error err = TD_ERROR_INIT;
	size_t n = 0;
	assert_int_equal(b.kinds(b.ctx, 2, kinds, &n, NULL), TD_NOT_FOUND);
	assert_int_equal(b.kinds(b.ctx, 1, kinds, &n, NULL), 0);
	assert_int_equal(n, 6); // one of the numbers stands for none
	assert_string_equal(kinds[5].profile, "1g.10gb.me");
	assert_true(kinds[2].size == 4 && kinds[2].at == 0x11 && kinds[2].most == 2);
	has(&b, "GPU-test-0 GPU-test-1");

	for (int stop = 0; stop < 60; stop++) {
		*changes = -1;
		assert_int_equal(b.cut(b.ctx, 1, wish_b, stop % 2 ? 0 : 2, &err), 0);
		has(&b, stop % 2 ? "GPU-test-0 GPU-test-1" : "GPU-test-0 1g.10gb.me 4g.40gb");
		*changes = stop / 2;
		int r = b.cut(b.ctx, 1, wish_a, 3, &err);
		assert_true(r == 0 || *changes == 0);
		*changes = -1;
		// Whoever comes next knows nothing of it.
		td_checkup_backend_done(&b);
		b = td_checkup_machine(&o);
		assert_int_equal(b.cut(b.ctx, 1, wish_a, 3, &err), 0);
		has(&b, "GPU-test-0 1g.10gb 1g.10gb 3g.40gb");
	}
	// As it is wished already: nothing is done.
	*changed = 0;
	assert_int_equal(b.cut(b.ctx, 1, wish_a, 3, &err), 0);
	assert_int_equal(*changed, 0);

	// A program on it: it stays as it is.
	setenv("FAKE_NVML_BUSY", "1", 1);
	assert_int_equal(b.cut(b.ctx, 1, NULL, 0, &err), TD_CONFLICT);
	assert_non_null(strstr(err.msg, "a program uses the GPU"));
	has(&b, "GPU-test-0 1g.10gb 1g.10gb 3g.40gb");
	unsetenv("FAKE_NVML_BUSY");
	// What has no room leaves nothing behind.
	static const struct td_mig_wish wrong[] = {{"3g.40gb", 0}, {"4g.40gb", 0}}, none[] = {{"9g.90gb", 0}};
	assert_int_equal(b.cut(b.ctx, 1, wrong, 2, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, "a part 4g.40gb: the GPU has no room for it"));
	has(&b, "GPU-test-0");
	assert_int_equal(b.cut(b.ctx, 1, none, 1, &err), TD_INVALID);
	assert_int_equal(b.cut(b.ctx, 1, NULL, 0, &err), 0);
	has(&b, "GPU-test-0 GPU-test-1");
	// A mode that waits for a reset is said, and none is made meanwhile.
	setenv("FAKE_NVML_RESET", "1", 1);
	assert_int_equal(b.cut(b.ctx, 1, wish_a, 3, &err), TD_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "the mode counts after a reset of the GPU"));
	has(&b, "GPU-test-0 GPU-test-1");
	unsetenv("FAKE_NVML_RESET");
	assert_int_equal(b.cut(b.ctx, 1, NULL, 0, &err), 0);
	td_checkup_backend_done(&b);
	dlclose(lib);
}

// The same of a virtual node, whose file says how they are cut.
static void a_virtual_gpu_is_cut(void **state)
{
	td_auto_free char *file = td_asprintf("%s/mig", dir);
	struct td_checkup_backend b = td_checkup_fake(path, dir, 3);
	assert_int_equal(b.cut(b.ctx, 1, wish_a, 3, NULL), 0);
	assert_int_equal(b.cut(b.ctx, 0, wish_b, 1, NULL), 0);
	td_auto_buf struct td_buf text = {0};
	assert_int_equal(td_file_read(file, 4096, &text, NULL), 0);
	assert_string_equal(td_buf_str(&text), "gpu0 1g.10gb.me\ngpu1 1g.10gb 1g.10gb 3g.40gb\n");
	has(&b, "GPU-fake-2 1g.10gb 1g.10gb 1g.10gb.me 3g.40gb");
	assert_int_equal(b.cut(b.ctx, 1, NULL, 0, NULL), 0);
	assert_int_equal(b.cut(b.ctx, 3, NULL, 0, NULL), TD_NOT_FOUND);
	has(&b, "GPU-fake-1 GPU-fake-2 1g.10gb.me");
	td_checkup_backend_done(&b);
}

static void what_parts_are_called(void **state)
{
	char s[24];
	assert_true(td_mig_profile("NVIDIA A100-SXM4-40GB MIG 1g.5gb", s) && !strcmp(s, "1g.5gb"));
	assert_true(td_mig_profile("NVIDIA H100 MIG 1c.3g.40gb", s) && !strcmp(s, "1c.3g.40gb"));
	static const char *const none[] = {"NVIDIA H100 80GB HBM3",       "MIG", "MIG ", "MIG x", "MIG 1g.10gb;rm",
					   "MIG 1g.10gb.and.so.on.and.so"};
	for (size_t i = 0; i < TD_LEN(none); i++)
		assert_false(td_mig_profile(none[i], s));

	static struct td_mig m;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_mig_file(path, 2, &m, &err), 0); // absent
	assert_true(!m.cut && !m.n);
	put("# as the site cuts them\ngpu1 3g.40gb 1g.10gb\ngpu0\n");
	assert_int_equal(td_mig_file(path, 2, &m, &err), 0);
	assert_true(m.cut == 3 && m.n == 2 && m.v[1].caps[0] != m.v[0].caps[1]);
	static const struct {
		const char *text, *words;
	} wrong[] = {{"gpu2 1g.10gb\n", "line 1: \"gpu2\": write each of the GPUs gpu0 to gpu1 once"},
		     {"gpu0\ngpu0\n", "line 2"},
		     {"node 1g.10gb\n", "line 1"},
		     {"gpu0 10gb\n", "\"10gb\" is no profile"}};
	for (size_t i = 0; i < TD_LEN(wrong); i++) {
		put(wrong[i].text);
		assert_int_equal(td_mig_file(path, 2, &m, &err), TD_INVALID);
		assert_non_null(strstr(err.msg, wrong[i].words));
	}
}

// CUDA's driver is loaded at run time; here a library of the test's computes on the CPU what the kernels would.
static void gpus_are_tested(void **state)
{
	struct td_error err = TD_ERROR_INIT;
	struct td_cuda *c = td_cuda_open(cuda, &err);
	assert_non_null(c);
	assert_int_equal(td_cuda_count(c), 4);
	assert_int_equal(td_cuda_at(c, "0000:9b:00.0"), 0);
	assert_int_equal(td_cuda_at(c, "0000:3b:00.0"), -1);
	assert_int_equal(td_cuda_at(c, ""), -1);
	static const struct {
		int code;
		bool wrong;
		const char *words;
	} want[] = {{0, false, NULL},
		    {0, true, NULL},
		    {0, true, NULL},
		    {TD_INTERNAL, false, "its memory: CUDA says 719, it broke"}};
	for (int i = 0; i < 4; i++) {
		struct td_cuda_result x;
		assert_int_equal(td_cuda_test(c, i, 1, &x, &err), want[i].code);
		assert_int_equal(x.wrong > 0, want[i].wrong);
		assert_true(want[i].code || (x.memory == 1 << 20 && x.operations && !strcmp(x.name, "Test GPU")));
		if (want[i].words)
			assert_string_equal(err.msg, want[i].words);
	}
	td_cuda_close(c);
	assert_null(td_cuda_open("/nonexistent", &err));
	assert_int_equal(err.code, TD_NOT_FOUND);
}

// Another machine below `root`: an InfiniBand port goes down, memory has an error, a process is stuck.
static void a_machines_files(void **state)
{
	static const char *const files[][2] = {
		{"sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"},
		{"sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"},
		{"sys/devices/system/edac/mc/mc0/ue_count", "2\n"},
		{"proc/77/stat", "77 (a) b) D 1 1\n"},
		{"proc/1/mounts", "/dev/sda1 / ext4 ro,relatime,errors=remount-ro 0 0\ntmpfs /run tmpfs ro 0 0\n"},
	};
	for (size_t i = 0; i < TD_LEN(files); i++) {
		td_auto_free char *p = td_asprintf("%s/%s", dir, files[i][0]);
		td_auto_free char *d = td_strndup(p, (size_t)(strrchr(p, '/') - p));
		assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
		assert_int_equal(td_file_write(p, files[i][1], strlen(files[i][1]), 0644, NULL), 0);
	}
	const struct td_checkup_machine_opts o = {.root = dir, .nvml = "/nonexistent", .kmsg = "/nonexistent"};
	struct td_checkup_backend b = td_checkup_machine(&o);
	static struct td_checkup_facts f;
	assert_int_equal(b.read(b.ctx, &f, NULL), 0);
	assert_int_equal(f.gpus, 0);
	assert_int_equal(f.memory_uncorrected, 2);
	assert_string_equal(f.disk_readonly, "/");
	assert_string_equal(f.port_down, ""); // one that never was active has no cable
	assert_int_equal(f.stuck, 0);         // not for long yet
	td_auto_free char *port = td_asprintf("%s/%s", dir, files[0][0]);
	assert_int_equal(td_file_write(port, "1: DOWN\n", 8, 0644, NULL), 0);
	assert_int_equal(b.read(b.ctx, &f, NULL), 0);
	assert_string_equal(f.port_down, "mlx5_0/1");
	td_checkup_backend_done(&b);
}

static void proc(const char *name, const char *text)
{
	td_auto_free char *d = td_asprintf("%s/proc", dir), *p = td_asprintf("%s/%s", d, name);
	assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
	assert_int_equal(td_file_write(p, text, strlen(text), 0644, NULL), 0);
}

// A host takes a quarter of the CPUs' time for four minutes, and a fifth of the memory until it gives it back.
static void what_a_host_takes_from_its_virtual_machine(void **state)
{
	static struct td_checkup_facts f;
	struct td_vm v = {0};
	const int64_t minute = 60000;
	f = (struct td_checkup_facts){0};
	td_vm_look(&v, dir, minute, &f); // no such files: nothing is known
	assert_int_equal(f.steal_percent + f.memory_away_percent, 0);

	for (int i = 0; i < 5; i++) {
		char text[128];
		// A guest's time, the ninth, is within the first.
		snprintf(text, sizeof(text), "cpu  %d 0 0 1000 0 0 0 %d 700 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n", i * 3000,
			 50000 + i * 1000);
		proc("stat", text);
		proc("meminfo", i == 3 ? "MemTotal:        8000000 kB\nMemFree: 1 kB\n"
				       : "MemTotal:       10000000 kB\nMemFree: 1 kB\n");
		f = (struct td_checkup_facts){0};
		td_vm_look(&v, dir, (2 + i) * minute, &f);
		assert_int_equal(f.steal_percent, i < 2 ? 0 : 25); // what was before the first look does not count
		assert_int_equal(f.memory_away_percent, i == 3 ? 20 : 0);
	}
	struct td_checkup_findings l = {0};
	f.memory_away_percent = 20;
	td_checkup_judge(&f, &l);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0].message, "its host took at least 20 % of its memory back");
	assert_string_equal(l.v[1].message, "its host gave at least 20 % of its CPUs' time to others");
	assert_string_equal(l.v[1].action, "none");

	// It was started anew elsewhere: its counters begin again.
	proc("stat", "cpu  10 0 0 10 0 0 0 10 0 0\n");
	f = (struct td_checkup_facts){0};
	td_vm_look(&v, dir, 8 * minute, &f);
	assert_int_equal(f.steal_percent, 0);
}

int main(int argc, char **argv)
{
	library = argc > 1 ? argv[1] : "";
	cuda = argc > 2 ? argv[2] : "";
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_node_without_a_file_is_well, setup, teardown),
		cmocka_unit_test_setup_teardown(every_check_finds_its_injection, setup, teardown),
		cmocka_unit_test_setup_teardown(a_quick_test_says_which_devices_failed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_quick_test_that_is_not_there_says_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(xids_are_judged_by_number, setup, teardown),
		cmocka_unit_test_setup_teardown(the_kernels_line_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(what_ends_a_fault, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_no_fault_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_sites_checks, setup, teardown),
		cmocka_unit_test_setup_teardown(gpus_by_nvml, setup, teardown),
		cmocka_unit_test_setup_teardown(clocks_that_stay_low, setup, teardown),
		cmocka_unit_test_setup_teardown(identity_is_asked_once, setup, teardown),
		cmocka_unit_test_setup_teardown(gpus_are_somewhere, setup, teardown),
		cmocka_unit_test_setup_teardown(parts_are_devices, setup, teardown),
		cmocka_unit_test_setup_teardown(what_parts_are_called, setup, teardown),
		cmocka_unit_test_setup_teardown(a_gpu_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(a_virtual_gpu_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(gpus_are_tested, setup, teardown),
		cmocka_unit_test_setup_teardown(a_machines_files, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_host_takes_from_its_virtual_machine, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
