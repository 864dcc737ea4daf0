// Descriptions of vendors, devices found in trees of sysfs, and what is given of them.
// rows: D1.5 D1.6 D1.7
#include "accel/accel.h"

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

static char root[64];

static void put(const char *path, const char *text)
{
	td_auto_free char *full = td_asprintf("%s/%s", root, path), *dir = td_strdup(full);
	*strrchr(dir, '/') = '\0';
	assert_int_equal(td_mkdir_p(dir, 0755, NULL), 0);
	assert_int_equal(td_file_write(full, text, strlen(text), 0644, NULL), 0);
}

static void link_to(const char *target, const char *path)
{
	td_auto_free char *full = td_asprintf("%s/%s", root, path), *dir = td_strdup(full);
	*strrchr(dir, '/') = '\0';
	assert_int_equal(td_mkdir_p(dir, 0755, NULL), 0);
	assert_int_equal(symlink(target, full), 0);
}

static int tree(void **state)
{
	snprintf(root, sizeof(root), "/tmp/test_accel-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int gone(void **state)
{
	return td_rm_rf(root, NULL);
}

// A device of a class, which hangs at a PCI address.
static void device(const char *entry, const char *pci, const char *vendor, const char *id, const char *numa)
{
	td_auto_free char *v = td_asprintf("sys/devices/pci/%s/vendor", pci),
			  *d = td_asprintf("sys/devices/pci/%s/device", pci),
			  *n = td_asprintf("sys/devices/pci/%s/numa_node", pci),
			  *c = td_asprintf("sys/devices/pci/%s/class", pci), *l = td_asprintf("%s/device", entry),
			  *to = td_asprintf("%s/sys/devices/pci/%s", root, pci);
	put(v, vendor);
	put(d, id);
	put(n, numa);
	put(c, "0x120000\n");
	link_to(to, l);
}

static struct td_accels *known(const char *dir)
{
	struct td_accels *a = NULL;
	struct td_error e = TD_ERROR_INIT;
	if (td_accels_read(dir, &a, &e))
		fail_msg("%s", e.msg);
	return a;
}

static void test_amd(void **state)
{
	// In the order of their numbers, which begin where the first one does; another vendor's is none of them.
	device("sys/class/drm/renderD130", "0000:c1:00.0", "0x1002\n", "0x74a1\n", "1\n");
	device("sys/class/drm/renderD128", "0000:03:00.0", "0x1a03\n", "0x2000\n", "0\n");
	device("sys/class/drm/renderD129", "0000:41:00.0", "0x1002\n", "0x74a1\n", "0\n");
	put("sys/class/drm/version", "drm 1.1.0 20060810\n");
	put("sys/devices/system/node/node0/cpulist", "0-7\n");
	put("sys/devices/system/node/node1/cpulist", "8-15\n");
	td_auto(td_accels_free) struct td_accels *a = known(NULL);
	struct td_accel_found f;
	td_accel_find(a, root, NULL, &f);
	assert_non_null(f.of);
	assert_string_equal(td_jstr(f.of, "resource"), "amd.com/gpu");
	assert_int_equal(f.n, 2);
	assert_string_equal(f.v[0].files[0], "/dev/dri/renderD129");
	assert_string_equal(f.v[1].files[0], "/dev/dri/renderD130");
	assert_string_equal(f.v[1].pci, "0000:c1:00.0");
	assert_string_equal(f.v[1].product, "Instinct MI300X");
	assert_int_equal(f.v[1].numa, 1);
	assert_int_equal(f.shared.n, 1);
	assert_string_equal(f.shared.v[0], "/dev/kfd");
	td_auto_free char *told = td_accel_inventory(&f);
	assert_string_equal(
		told, "{\"resource\":\"amd.com/gpu\",\"type\":\"amd\",\"slurmFlags\":\"amd_gpu_env\",\"numaNodes\":2,"
		      "\"gpus\":[{\"product\":\"Instinct MI300X\",\"file\":\"/dev/dri/renderD129\",\"pci\":"
		      "\"0000:41:00.0\",\"numa\":0},{\"product\":\"Instinct MI300X\",\"file\":\"/dev/dri/renderD130\","
		      "\"pci\":\"0000:c1:00.0\",\"numa\":1}]}");
	td_auto_strv struct td_strv env = {0}, none = {0};
	td_accel_variables(f.of, &f, 2, &env);
	assert_true(env.n == 2 && td_strv_has(&env, "ROCR_VISIBLE_DEVICES=0") &&
		    td_strv_has(&env, "HIP_VISIBLE_DEVICES=0"));
	td_accel_variables(f.of, &f, 0, &none);
	assert_int_equal(none.n, 0);
	td_auto_free char *task = td_accel_task_text(f.of);
	assert_string_equal(task, "ROCR_VISIBLE_DEVICES local\nHIP_VISIBLE_DEVICES local\n");
	td_accel_found_done(&f);

	td_accel_find(a, root, "amd.com/gpu", &f);
	assert_null(f.of);
}

static void test_others(void **state)
{
	td_auto(td_accels_free) struct td_accels *a = known(NULL);
	struct td_accel_found f;
	td_accel_find(a, root, NULL, &f); // there is no sysfs
	assert_null(f.of);
	assert_null(td_accel_inventory(&f));

	// Two files each, and the node's own indexes.
	device("sys/class/accel/accel0", "0000:19:00.0", "0x1da3\n", "0x1020\n", "-1\n");
	device("sys/class/accel/accel1", "0000:1a:00.0", "0x1da3\n", "0x1020\n", "-1\n");
	td_accel_find(a, root, NULL, &f);
	assert_string_equal(td_jstr(f.of, "resource"), "habana.ai/gaudi");
	assert_true(f.n == 2 && f.v[1].n_files == 2 && f.v[1].numa < 0);
	assert_string_equal(f.v[1].files[1], "/dev/accel/accel_controlD1");
	assert_string_equal(f.v[1].product, "Gaudi2");
	td_auto_strv struct td_strv env = {0};
	td_accel_variables(f.of, &f, 2, &env);
	assert_true(td_strv_has(&env, "HABANA_VISIBLE_DEVICES=1"));
	td_accel_found_done(&f);
	assert_int_equal(td_rm_rf(root, NULL), 0);

	// By VFIO a chip is its IOMMU group, and there is one file for all.
	put("sys/bus/pci/drivers/vfio-pci/0000:00:05.0/vendor", "0x1ae0\n");
	link_to("../../../kernel/iommu_groups/7", "sys/bus/pci/drivers/vfio-pci/0000:00:05.0/iommu_group");
	put("sys/bus/pci/drivers/vfio-pci/0000:00:06.0/vendor", "0x1ae0\n"); // of the same group: the same file
	link_to("../../../kernel/iommu_groups/7", "sys/bus/pci/drivers/vfio-pci/0000:00:06.0/iommu_group");
	put("sys/bus/pci/drivers/vfio-pci/0000:00:04.0/vendor", "0x1ae0\n"); // without a group: no file, no chip
	td_accel_find(a, root, NULL, &f);
	assert_string_equal(td_jstr(f.of, "resource"), "google.com/tpu");
	assert_true(f.n == 1 && f.shared.n == 1);
	assert_string_equal(f.v[0].files[0], "/dev/vfio/7");
	td_accel_found_done(&f);
}

// What Tandem ships can all be read, and says what a machine that tells nothing has.
static void test_own(void **state)
{
	static const struct {
		const char *resource, *file;
	} want[] = {{"nvidia.com/gpu", "/dev/nvidia2"},
		    {"amd.com/gpu", "/dev/dri/renderD130"},
		    {"google.com/tpu", "/dev/accel2"},
		    {"habana.ai/gaudi", "/dev/accel/accel2"},
		    {"gpu.intel.com/xe", "/dev/dri/renderD130"}};
	for (size_t i = 0; i < TD_LEN(want); i++) {
		td_auto_free char *file = td_accel_usual_file(td_accel_of(want[i].resource), 2);
		assert_string_equal(file, want[i].file);
	}
	assert_null(td_accel_of("example.com/npu"));
	td_auto_strv struct td_strv env = {0}, none = {0};
	td_accel_variables(td_accel_named("fake"), NULL, 0x14, &env);
	assert_true(td_strv_has(&env, "CUDA_VISIBLE_DEVICES=0,1") && td_strv_has(&env, "NVIDIA_VISIBLE_DEVICES=2,4"));
	td_accel_variables(td_accel_named("fake"), NULL, 0, &none);
	assert_true(none.n == 1 && td_strv_has(&none, "NVIDIA_VISIBLE_DEVICES=void"));
}

#define NPU                                                                                                            \
	"name: npu\nresource: example.com/npu\ntype: npu\nfind:\n- {sys: class/npu, name: npu, vendor: \"0x1234\", "   \
	"files: [\"/dev/npu{n}\"]}\n"

static void test_site(void **state)
{
	put("site/npu.yaml", NPU "variables: [{name: NPU_DEVICES, value: \"{local}\"}]\n");
	put("site/README", "no description\n");
	td_auto_free char *dir = td_asprintf("%s/site", root);
	device("sys/class/npu/npu4", "0000:05:00.0", "0x1234\n", "0x1\n", "0\n");
	td_auto(td_accels_free) struct td_accels *a = known(dir), *own = known(NULL);
	assert_int_equal(td_accels_n(a), td_accels_n(own) + 1);
	struct td_accel_found f;
	td_accel_find(a, root, NULL, &f);
	assert_non_null(f.of);
	assert_string_equal(f.v[0].files[0], "/dev/npu4");
	td_accel_found_done(&f);

	// A site's own takes the place of Tandem's.
	put("site/amd.yaml", "name: amd\nresource: amd.com/gpu\ntype: mine\nfind: []\n");
	td_auto(td_accels_free) struct td_accels *mine = known(dir);
	assert_int_equal(td_accels_n(mine), td_accels_n(own) + 1);
	assert_string_equal(td_jstr(td_accels_at(mine, 0), "type"), "mine");

	static const struct {
		const char *text, *says;
	} bad[] = {{"name: npu\n", "resource: write what pods ask for"},
		   {NPU "colour: red\n", "colour: there is no such field"},
		   {NPU "shared: [\"/dev/npu{n}\"]\n", "shared: \"/dev/npu{n}\": one file of all devices has no words"},
		   {NPU "shared: [/etc/passwd]\n", "shared: \"/etc/passwd\": write a path below /dev"},
		   {NPU "shared: [/dev/../etc/passwd]\n", "write a path below /dev"},
		   {NPU "shared: [\"/dev/a,b\"]\n", "write a path below /dev"},
		   {NPU "shared: [\"/dev/a b\"]\n", "write a path below /dev"},
		   {NPU "files: [/dev/npu]\n", "files: \"/dev/npu\": each device has its own"},
		   {NPU "variables: [{name: A B, value: \"{local}\"}]\n", "variables: name: write the name"},
		   {NPU "variables: [{name: AB, value: all}]\n", "variables: AB: write \"{local}\""},
		   {NPU "slurmFlags: no_env\n", "slurmFlags: write amd_gpu_env"},
		   {"name: x\nresource: a.com/x\ntype: 1g\nfind: []\n", "type: write Slurm's type"},
		   {"name: x\nresource: a.com/x\ntype: x\nfind: [{sys: /sys/class/x, vendor: \"0x1\"}]\n",
		    "find: sys: write"},
		   {"name: x\nresource: a.com/x\ntype: x\nfind: [{sys: class/x, vendor: \"0x1\"}]\n",
		    "find: vendor: write"},
		   {"name: x\nresource: a.com/x\ntype: x\nfind: [{sys: class/x, vendor: \"0x1234\"}]\n",
		    "find: files: write"},
		   {"name: x\nresource: a.com/x\ntype: x\nfind: [{sys: class/x, vendor: \"0x1234\", first: -1}]\n",
		    "find: first: write"},
		   {"- a\n", "write one document"},
		   {"{", "site/zz.yaml"}};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		struct td_error e = TD_ERROR_INIT;
		struct td_accels *none = NULL;
		put("site/zz.yaml", bad[i].text);
		assert_int_equal(td_accels_read(dir, &none, &e), TD_INVALID);
		if (!strstr(e.msg, bad[i].says) || !strstr(e.msg, "zz.yaml"))
			fail_msg("%s: %s", bad[i].text, e.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_amd, tree, gone),
		cmocka_unit_test_setup_teardown(test_others, tree, gone),
		cmocka_unit_test(test_own),
		cmocka_unit_test_setup_teardown(test_site, tree, gone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
