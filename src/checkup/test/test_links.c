// What links count: errors and flaps within ten minutes are faults, from GPUs by NVML and from a tree like a machine's /sys.
// rows: B3.3 A14.5
#include "checkup/checkup.h"

#include "base/file.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];
static const char *library;

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/td-links-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	return td_rm_rf(dir, NULL);
}

static void file(const char *path, const char *text)
{
	td_auto_free char *p = td_asprintf("%s/sys/%s", dir, path), *d = td_strndup(p, (size_t)(strrchr(p, '/') - p));
	assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
	assert_int_equal(td_file_write(p, text, strlen(text), 0644, NULL), 0);
}

static void link_to(const char *path, const char *where)
{
	td_auto_free char *p = td_asprintf("%s/sys/%s", dir, path);
	assert_int_equal(symlink(where, p), 0);
}

static struct td_checkup_facts f;
static struct td_clock_manual now;

// What the checks find after so many looks, 10 s apart: "CHECK CODE MESSAGE; …".
static char *look(struct td_checkup_backend *b, int looks)
{
	td_auto_buf struct td_buf got = {0};
	struct td_checkup_findings l = {0};
	while (looks--) {
		td_clock_manual_add(&now, 10000);
		assert_int_equal(b->read(b->ctx, &f, NULL), 0);
	}
	td_checkup_judge(&f, &l);
	for (size_t k = 0; k < l.n; k++)
		td_buf_printf(&got, "%s%s %lld %s", k ? "; " : "", l.v[k].check, (long long)l.v[k].code,
			      l.v[k].message);
	return td_strdup(got.len ? td_buf_str(&got) : "");
}

static void expect(struct td_checkup_backend *b, int looks, const char *want)
{
	td_auto_free char *got = look(b, looks);
	assert_string_equal(got, want);
}

static struct td_checkup_backend machine(const char *nvml)
{
	td_clock_manual_init(&now, 1000000);
	return td_checkup_machine(&(struct td_checkup_machine_opts){
		.root = dir, .nvml = nvml, .kmsg = "/nonexistent", .reset = "/bin/true", .clock = &now.clock});
}

#define IB "class/infiniband/mlx5_0/ports/1/"
static void ports_of_the_network(void **state)
{
	file("devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0/node_guid", "506b:4b03:00ca:1e2c\n");
	file("devices/pci0000:00/0000:00:02.0/net/eno1/operstate", "up\n");
	file("class/infiniband/x", "");
	file("class/net/x", "");
	link_to("class/infiniband/mlx5_0", "../../devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0");
	link_to("class/net/eno1", "../../devices/pci0000:00/0000:00:02.0/net/eno1");
	file("class/net/eno1/device/vendor", "0x8086\n");
	file(IB "state", "4: ACTIVE\n");
	file(IB "link_layer", "InfiniBand\n");
	file(IB "counters/link_downed", "7\n");
	file(IB "counters/symbol_error", "65535\n"); // it is full, so nobody knows
	file("class/net/eno1/carrier_changes", "11\n");
	file("class/net/eno1/statistics/rx_errors", "100000\n");
	file("bus/pci/devices/0000:00:02.0/aer_dev_correctable", "RxErr 3\nBadTLP 4\nTOTAL_ERR_COR 7\n");

	struct td_checkup_backend b = machine("/nonexistent");
	expect(&b, 3, ""); // what was before is not recent
	assert_int_equal(f.ports, 2);
	const struct td_checkup_port *ib = &f.port[0], *eth = &f.port[1];
	assert_string_equal(ib->name, "mlx5_0/1");
	assert_string_equal(eth->name, "eno1");
	assert_true(ib->count[TD_COUNT_DOWN].known && ib->count[TD_COUNT_DOWN].total == 7);
	assert_false(ib->count[TD_COUNT_SYMBOL].known || ib->count[TD_COUNT_RECEIVE].known);
	assert_true(eth->count[TD_COUNT_DOWN].total == 5 && eth->count[TD_COUNT_AER_CORRECTED].total == 7);
	assert_false(eth->count[TD_COUNT_AER_FATAL].known || eth->count[TD_COUNT_NVLINK_CRC].known);

	for (int i = 8; i < 10; i++) { // once and twice is no fault
		td_auto_free char *n = td_asprintf("%d\n", i);
		file(IB "counters/link_downed", n);
		expect(&b, 1, "");
	}
	file(IB "counters/link_downed", "10\n");
	file("class/net/eno1/statistics/rx_errors", "100799\n");
	expect(&b, 1,
	       "link-flaps 3 mlx5_0/1: at least 3 times down in 10 minutes; "
	       "link-errors 500 eno1: at least 500 receive errors in 10 minutes");
	// Some more do not change the words.
	file("class/net/eno1/statistics/rx_errors", "100990\n");
	expect(&b, 1,
	       "link-flaps 3 mlx5_0/1: at least 3 times down in 10 minutes; "
	       "link-errors 500 eno1: at least 500 receive errors in 10 minutes");
	// It counts anew, as after its driver was loaded again: nothing is known of before.
	file("class/net/eno1/statistics/rx_errors", "3\n");
	expect(&b, 1, "link-flaps 3 mlx5_0/1: at least 3 times down in 10 minutes");
	assert_true(eth->count[TD_COUNT_RECEIVE].recent == 0 && ib->count[TD_COUNT_DOWN].recent == 3);
	expect(&b, 55, "link-flaps 3 mlx5_0/1: at least 3 times down in 10 minutes");
	expect(&b, 15, ""); // ten minutes later
	// Slowly is no fault: one an hour.
	for (int i = 11; i < 14; i++) {
		td_auto_free char *n = td_asprintf("%d\n", i);
		file(IB "counters/link_downed", n);
		expect(&b, 360, "");
	}
	file("bus/pci/devices/0000:00:02.0/aer_dev_fatal", "TLP 0\nTOTAL_ERR_FATAL 0\n");
	expect(&b, 1, "");
	file("bus/pci/devices/0000:00:02.0/aer_dev_fatal", "TLP 1\nTOTAL_ERR_FATAL 1\n");
	expect(&b, 1, "link-errors 1 eno1: at least 1 fatal errors of PCIe in 10 minutes");
	td_checkup_backend_done(&b);
}

static void links_of_gpus(void **state)
{
	setenv("FAKE_NVML_WELL", "1", 1);
	setenv("FAKE_NVML_COUNTERS", " 38=5 45=1 52=0 59=3 94=40 138=2048 139=1024 197=5000000000 198=7", 1);
	file("bus/pci/devices/0000:3b:00.0/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 1\n");
	struct td_checkup_backend b = machine(library);
	expect(&b, 2, "");
	const struct td_checkup_gpu *g = &f.gpu[1];
	assert_true(g->nvlink.known && g->nvlink.sent == 2048 << 10 && g->nvlink.received == 1024 << 10);
	assert_true(g->pcie.known && g->pcie.sent == 5000000000 && g->pcie.received == 7 && !g->pcie_now.known);
	assert_true(g->count[TD_COUNT_NVLINK_CRC].total == 6 && g->count[TD_COUNT_NVLINK_RECOVERY].total == 3);
	assert_false(f.gpu[0].count[TD_COUNT_NVLINK_CRC].known || f.gpu[0].nvlink.known);
	assert_true(f.gpu[0].count[TD_COUNT_AER_NONFATAL].known && f.gpu[0].pcie_now.known);

	setenv("FAKE_NVML_COUNTERS", " 38=700 45=5 52=49 59=5 94=5040 138=1 139=1 197=100u 198=7u", 1);
	file("bus/pci/devices/0000:3b:00.0/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 21\n");
	expect(&b, 1,
	       "pcie-errors 20 gpu0: PCIe 0000:3b:00.0: at least 20 uncorrected errors of PCIe in 10 minutes; "
	       "nvlink-errors 500 gpu1: at least 500 CRC errors of NVLink in 10 minutes; "
	       "nvlink-errors 2 gpu1: at least 2 recoveries of NVLink in 10 minutes; "
	       "pcie-errors 5000 gpu1: PCIe 0000:9b:00.0: at least 5000 replays of PCIe in 10 minutes");
	assert_false(g->pcie.known); // in 32 bits it begins anew too often

	// Where the driver tells, they have names: which link counted them, and what is at its far end. It stays named while
	// errors come.
	setenv("FAKE_NVML_WORST", "2", 1);
	setenv("FAKE_NVML_COUNTERS", " 38=701 45=5 52=49 59=5 94=5040", 1);
	static const char named[] =
		"pcie-errors 20 gpu0: PCIe 0000:3b:00.0: at least 20 uncorrected errors of PCIe in 10 minutes; "
		"nvlink-errors 500 gpu1: NVLink 2 to gpu0: at least 500 CRC errors of NVLink in 10 minutes; "
		"nvlink-errors 2 gpu1: NVLink 2 to gpu0: at least 2 recoveries of NVLink in 10 minutes; "
		"pcie-errors 5000 gpu1: PCIe 0000:9b:00.0: at least 5000 replays of PCIe in 10 minutes";
	expect(&b, 1, named);
	setenv("FAKE_NVML_WORST", "1", 1);
	setenv("FAKE_NVML_COUNTERS", " 38=702 45=5 52=49 59=5 94=5040", 1);
	expect(&b, 1, named);
	unsetenv("FAKE_NVML_WORST");
	setenv("FAKE_NVML_DOWN", "12", 1);
	td_auto_free char *down = look(&b, 1);
	assert_non_null(strstr(down, "nvlink 2 gpu1: 2 of 4 NVLinks are down: 1 to 0000:c1:00.0, 2 to gpu0; "));
	unsetenv("FAKE_NVML_DOWN");

	// A part of a sum that is not said now makes it unknown, and nothing of it new afterwards.
	setenv("FAKE_NVML_COUNTERS", " 38=700? 45=5 52=49 59=5 94=5040", 1);
	td_auto_free char *without = look(&b, 1);
	assert_false(g->count[TD_COUNT_NVLINK_CRC].known);
	setenv("FAKE_NVML_COUNTERS", " 38=700 45=5 52=49 59=5 94=5040", 1);
	td_auto_free char *with = look(&b, 1);
	assert_true(g->count[TD_COUNT_NVLINK_CRC].known && g->count[TD_COUNT_NVLINK_CRC].recent == 699);

	// One is measured at each look, in turn, twice: what it sends and what it receives.
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	int *measured = dlsym(lib, "fake_nvml_measured");
	assert_non_null(measured);
	*measured = 0;
	td_auto_free char *ignored = look(&b, 6);
	assert_int_equal(*measured, 12);
	assert_true(g->pcie_now.known && g->pcie_now.sent == 3000000 && g->pcie_now.received == 7000000);
	dlclose(lib);

	// A GPU that was reset has nothing recent, and others keep theirs.
	expect(&b, 1, named);
	assert_int_equal(b.reset(b.ctx, 1, NULL, NULL), 0);
	expect(&b, 1, "pcie-errors 20 gpu0: PCIe 0000:3b:00.0: at least 20 uncorrected errors of PCIe in 10 minutes");
	assert_true(g->count[TD_COUNT_NVLINK_CRC].known && !g->count[TD_COUNT_NVLINK_CRC].recent);

	// An old driver without these fields.
	unsetenv("FAKE_NVML_COUNTERS");
	expect(&b, 1, "pcie-errors 20 gpu0: PCIe 0000:3b:00.0: at least 20 uncorrected errors of PCIe in 10 minutes");
	for (int k = 0; k < TD_COUNTS; k++)
		assert_false(g->count[k].known);
	assert_false(g->nvlink.known);
	td_checkup_backend_done(&b);
	unsetenv("FAKE_NVML_WELL");
}

int main(int argc, char **argv)
{
	library = argc > 1 ? argv[1] : "";
	const struct CMUnitTest t[] = {
		cmocka_unit_test_setup_teardown(ports_of_the_network, setup, teardown),
		cmocka_unit_test_setup_teardown(links_of_gpus, setup, teardown),
	};
	return cmocka_run_group_tests(t, NULL, NULL);
}
