// A machine's adapters of the network, from a tree that looks like its /sys.
// rows: A10.3 C5.2
#include "checkup/checkup.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/td-nics-XXXXXX";

static void parent(const char *path)
{
	td_auto_free char *d = td_strndup(path, (size_t)(strrchr(path, '/') - path));
	assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
}

static void file(const char *path, const char *text)
{
	td_auto_free char *p = td_asprintf("%s/sys/%s", dir, path);
	parent(p);
	assert_int_equal(td_file_write(p, text, strlen(text), 0644, NULL), 0);
}

static void link_to(const char *path, const char *where)
{
	td_auto_free char *p = td_asprintf("%s/sys/%s", dir, path);
	parent(p);
	assert_int_equal(symlink(where, p), 0);
}

#define A "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/" // below one switch
#define B "devices/pci0000:9a/0000:9a:00.0/0000:9b:00.0/"
#define SWITCH_A A "0000:3c:01.0/"

static void device(const char *path, const char *class, const char *vendor, const char *numa)
{
	td_auto_free char *c = td_asprintf("%s/class", path), *v = td_asprintf("%s/vendor", path),
			  *n = td_asprintf("%s/numa_node", path),
			  *l = td_asprintf("bus/pci/devices/%s", strrchr(path, '/') + 1),
			  *to = td_asprintf("../../../%s", path);
	file(c, class);
	file(v, vendor);
	file(n, numa);
	link_to(l, to);
}

static void adapter(const char *path, const char *name, const char *interface, const char *state)
{
	td_auto_free char *d = td_asprintf("%s/infiniband/%s", path, name), *port = td_asprintf("%s/ports/1", d),
			  *class = td_asprintf("class/infiniband/%s", name), *to = td_asprintf("../../%s", d),
			  *back = td_asprintf("%s/device", d);
	const char *const files[][2] = {{"link_layer", "InfiniBand\n"},
					{"rate", "400 Gb/sec (4X NDR)\n"},
					{"state", state},
					{"../../node_guid", "506b:4b03:00ca:1e2c\n"},
					{"../../fw_ver", "28.39.1002\n"},
					{"../../hca_type", "MT4129\n"}};
	for (size_t i = 0; i < TD_LEN(files); i++) {
		td_auto_free char *p = td_strndup(files[i][0], strlen(files[i][0])), *whole = NULL;
		whole = td_starts(p, "../../") ? td_asprintf("%s/%s", d, p + 6) : td_asprintf("%s/%s", port, p);
		file(whole, files[i][1]);
	}
	link_to(back, "../..");
	link_to(class, to);
	td_auto_free char *net = td_asprintf("%s/net/%s", path, interface), *speed = td_asprintf("%s/address", net),
			  *netclass = td_asprintf("class/net/%s", interface), *nto = td_asprintf("../../%s", net);
	file(speed, "00:00:10:29:fe:80\n");
	link_to(netclass, nto);
}

static void plain(const char *path, const char *interface, const char *state, const char *speed)
{
	td_auto_free char *net = td_asprintf("%s/net/%s", path, interface), *s = td_asprintf("%s/operstate", net),
			  *r = td_asprintf("%s/speed", net), *back = td_asprintf("%s/device", net),
			  *class = td_asprintf("class/net/%s", interface), *to = td_asprintf("../../%s", net);
	file(s, state);
	file(r, speed);
	link_to(back, "../..");
	link_to(class, to);
}

static void test_found(void **state)
{
	(void)state;
	device(A "0000:3c:00.0/0000:3d:00.0", "0x030200\n", "0x10de\n", "0\n");
	device(B "0000:9c:00.0/0000:9d:00.0", "0x030200\n", "0x10de\n", "1\n");
	device("devices/pci0000:00/0000:00:02.0", "0x030000\n", "0x1a03\n", "0\n"); // the board's own picture
	device(SWITCH_A "0000:3e:00.0", "0x020700\n", "0x15b3\n", "0\n");
	device(B "0000:9c:01.0/0000:9e:00.0", "0x020700\n", "0x15b3\n", "1\n");
	device("devices/pci0000:00/0000:00:1f.6", "0x020000\n", "0x8086\n", "0\n");
	device(SWITCH_A "0000:3e:00.1", "0x020700\n", "0x15b3\n", "0\n");
	adapter(SWITCH_A "0000:3e:00.0", "mlx5_2", "ib0", "4: ACTIVE\n");
	adapter(B "0000:9c:01.0/0000:9e:00.0", "mlx5_10", "ib1", "1: DOWN\n");
	adapter(SWITCH_A "0000:3e:00.1", "mlx5_11", "ib7", "4: ACTIVE\n");
	link_to(SWITCH_A "0000:3e:00.1/physfn", "../0000:3e:00.0");
	static const char *const own[] = {"verbs/uverbs5/ibdev", "mad/umad5/ibdev", "mad/issm5/ibdev"};
	for (size_t i = 0; i < TD_LEN(own); i++) {
		td_auto_free char *path = td_asprintf(SWITCH_A "0000:3e:00.0/infiniband_%s", own[i]),
				  *lone = td_asprintf(B "0000:9c:01.0/0000:9e:00.0/infiniband_%s", own[i]);
		file(path, "mlx5_2\n");
		if (i)
			file(lone, "mlx5_10\n"); // without verbs it is nothing to give out
	}
	plain("devices/pci0000:00/0000:00:1f.6", "eno1", "up\n", "10000\n");
	file("devices/virtual/net/lo/operstate", "unknown\n");
	link_to("class/net/lo", "../../devices/virtual/net/lo");

	static struct td_checkup_facts f;
	struct td_checkup_backend b = td_checkup_fake("/nonexistent", dir, 2);
	assert_int_equal(b.read(b.ctx, &f, NULL), 0);
	assert_string_equal(f.gpu[0].pci, "0000:3d:00.0");
	assert_string_equal(f.gpu[1].pci, "0000:9d:00.0");
	assert_int_equal(f.gpu[1].numa, 1);
	td_auto_free char *got = td_checkup_nics_text(&f);
	const char *want =
		"{\"nics\":[{\"name\":\"mlx5_2\",\"interface\":\"ib0\",\"link\":\"InfiniBand\",\"guid\":"
		"\"506b:4b03:00ca:1e2c\",\"address\":\"00:00:10:29:fe:80\",\"pci\":\"0000:3e:00.0\",\"model\":"
		"\"MT4129\",\"firmware\":\"28.39.1002\",\"port\":1,\"numa\":0,\"rate\":400000,\"active\":true,"
		"\"files\":[\"/dev/infiniband/uverbs5\",\"/dev/infiniband/issm5\",\"/dev/infiniband/"
		"umad5\"],\"near\":[4,0]},"
		"{\"name\":\"mlx5_10\",\"interface\":\"ib1\",\"link\":\"InfiniBand\",\"guid\":"
		"\"506b:4b03:00ca:1e2c\",\"address\":\"00:00:10:29:fe:80\",\"pci\":\"0000:9e:00.0\",\"model\":"
		"\"MT4129\",\"firmware\":\"28.39.1002\",\"port\":1,\"numa\":1,\"rate\":400000,\"active\":false,"
		"\"near\":[0,4]},"
		"{\"name\":\"eno1\",\"interface\":\"eno1\",\"link\":\"Ethernet\",\"pci\":\"0000:00:1f.6\",\"numa\":0,"
		"\"rate\":10000,\"active\":true,\"near\":[1,0]}]}";
	assert_string_equal(got, want);
	td_checkup_backend_done(&b);

	b = td_checkup_fake("/nonexistent", NULL, 2);
	assert_int_equal(b.read(b.ctx, &f, NULL), 0);
	assert_null(td_checkup_nics_text(&f));
	td_checkup_backend_done(&b);
}

// What a device says of itself: a name, fields, an end. One that is cut off anywhere says what is there.
// rows: A14.8
static void test_vpd(void **state)
{
	(void)state;
	static const unsigned char vpd[] = "\x82\x0b\0ConnectX-7 "
					   "\x90\x18\0PN\x04MCX7SN\x06 MT\"1 V2\x02xySN\0"
					   "\x91\x05\0RW\x02\0\0\x78junk";
	char model[48] = "", serial[40] = "";
	td_vpd_read(vpd, sizeof(vpd) - 1, model, serial);
	assert_string_equal(model, "ConnectX-7");
	assert_string_equal(serial, "MT_1");
	for (size_t n = 0; n < sizeof(vpd); n++) {
		td_auto_free unsigned char *some = td_calloc(1, n + 1);
		char a[48] = "-", b[40] = "-";
		memcpy(some, vpd, n);
		td_vpd_read(some, n, a, b);
		assert_true(!strcmp(a, n < 14 ? "-" : "ConnectX-7") && (!strcmp(b, "-") || !strcmp(b, "MT_1")));
	}

	// Of the adapters one is asked at each look, and once.
	td_auto_free char *a = td_asprintf("%s/sys/" SWITCH_A "0000:3e:00.0/vpd", dir),
			  *e = td_asprintf("%s/sys/devices/pci0000:00/0000:00:1f.6/vpd", dir);
	assert_int_equal(td_file_write(a, (const char *)vpd, sizeof(vpd), 0600, NULL), 0);
	assert_int_equal(td_file_write(e, (const char *)vpd, sizeof(vpd), 0600, NULL), 0);
	struct td_checkup_backend b = td_checkup_machine(
		&(struct td_checkup_machine_opts){.root = dir, .nvml = "/nonexistent", .kmsg = "/nonexistent"});
	static struct td_checkup_facts f;
	for (int look = 1; look <= 4; look++) {
		assert_int_equal(b.read(b.ctx, &f, NULL), 0);
		assert_int_equal(f.nics, 3);
		assert_string_equal(f.nic[0].serial, "MT_1");
		assert_string_equal(f.nic[0].model, "MT4129");
		assert_string_equal(f.nic[1].serial, "");
		assert_string_equal(f.nic[2].serial, look < 3 ? "" : "MT_1");
		assert_string_equal(f.nic[2].own_model, look < 3 ? "" : "ConnectX-7");
		assert_string_equal(f.nic[2].model, "");
		td_file_write(a, "", 0, 0600, NULL);
	}
	td_checkup_backend_done(&b);
}

static int make(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int clear(void **state)
{
	(void)state;
	return td_rm_rf(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_vpd)};
	return cmocka_run_group_tests(t, make, clear);
}
