// What the boot service reads of a machine, and what the machine is told.
// rows: B8.2 B8.3
#include "base/file.h"
#include "cli/netboot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define UUID "4c4c4544-0042-3510-8051-b4c04f4e3132"

static char dir[64];

static void put(const char *name, const char *text)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *path = td_asprintf("%s/%s", dir, name);
	*strrchr(path, '/') = '\0';
	assert_int_equal(td_mkdir_p(path, 0755, &err), 0);
	path[strlen(path)] = '/';
	assert_int_equal(td_file_write(path, text, strlen(text), 0644, &err), 0);
}

static int make(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/netboot-XXXXXX");
	assert_non_null(mkdtemp(dir));
	put("machines/" UUID ".yaml", "{node: n9, group: gpu, nodeset: slurm/gpu}");
	put("groups/gpu.yaml", "image: v1");
	put("images/v1/manifest.json", "{\"kernel\": \"k\", \"initrd\": \"r\", \"cmdline\": \"quiet\"}");
	return 0;
}

static int end(void **state)
{
	return td_rm_rf(dir, NULL);
}

static void refused(const char *words)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_machine struct td_netboot_machine m = {0};
	assert_int_equal(td_netboot_read(dir, UUID, &m, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, words));
	assert_null(m.doc);
}

static void a_file_that_says_nonsense_is_named_and_ends_nothing(void **state)
{
	static const char *const sets[] = {"gpu", "/gpu", "slurm/", "a/b/c", "[1]"};
	for (size_t i = 0; i < TD_LEN(sets); i++) {
		td_auto_free char *text = td_asprintf("{node: n9, group: gpu, nodeset: %s}", sets[i]);
		put("machines/" UUID ".yaml", text);
		refused("nodeset: give NAMESPACE/NAME");
	}
	put("machines/" UUID ".yaml", "{node: n9, group: gpu}");
	static const char *const images[] = {"-v1", "v1_",
					     "0123456789012345678901234567890123456789012345678901234567890123"};
	for (size_t i = 0; i < TD_LEN(images); i++) {
		td_auto_free char *text = td_asprintf("image: \"%s\"", images[i]);
		put("groups/gpu.yaml", text);
		refused("groups/gpu.yaml: image");
	}
	put("groups/gpu.yaml", "image: ../x");
	refused("image: give a name");
}

// Every pod and job of the node can read the kernel's command line.
static void the_command_line_has_nothing_with_which_a_token_is_got(void **state)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_machine struct td_netboot_machine m = {0};
	assert_int_equal(td_netboot_read(dir, UUID, &m, &err), 0);
	td_auto_free char *s = td_netboot_script(&m, UUID, "http://b", "0123");
	const char *kernel = strstr(s, "\nkernel ");
	assert_non_null(kernel);
	assert_null(strstr(kernel, UUID));
	assert_non_null(strstr(kernel, " tandem.node=n9 tandem.image=v1 tandem.nonce=0123 quiet\n"));
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test_setup_teardown(the_command_line_has_nothing_with_which_a_token_is_got, make, end),
		cmocka_unit_test_setup_teardown(a_file_that_says_nonsense_is_named_and_ends_nothing, make, end)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
