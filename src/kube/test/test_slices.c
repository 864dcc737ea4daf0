// Which device is Slurm's index i, from what a DRA driver publishes.
// rows: A7.1
#include "kube/slices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define GPU "gpu.example.com"

static void add(struct td_objects *l, const char *node, const char *pool, int generation, int slices,
		const char *devices)
{
	td_auto_free char *s = td_asprintf("{\"metadata\":{\"name\":\"s%zu\"},\"spec\":{\"driver\":\"" GPU
					   "\",\"nodeName\":\"%s\",\"pool\":{\"name\":\"%s\",\"generation\":%d,"
					   "\"resourceSliceCount\":%d},\"devices\":[%s]}}",
					   l->n, node, pool, generation, slices, devices);

	struct td_json *j = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_json_parse(s, strlen(s), &j, &err))
		fail_msg("%s: %s", s, err.msg);
	td_objects_add(l, td_object_new(j));
}

#define NAME(n) "{\"name\":\"" n "\"}"
#define AT(n, i) "{\"name\":\"" n "\",\"attributes\":{\"index\":{\"int\":" #i "}}}"

static char *read(const struct td_objects *l, const char *attribute, int want)
{
	td_auto_dra struct td_dra_devices d = {0};
	struct td_error err = TD_ERROR_INIT;
	int r = td_dra_devices(l, GPU, "n0", attribute, &d, &err);
	if (r != want)
		fail_msg("%d: %s", r, err.msg);

	struct td_buf b = {0};
	if (r)
		td_buf_puts(&b, err.msg);
	for (size_t i = 0; i < d.n; i++) {
		assert_int_equal(d.v[i].index, i);
		td_buf_printf(&b, "%s%s/%s", i ? " " : "", d.v[i].pool, d.v[i].name);
	}
	return td_buf_take(&b);
}

#define READS(l, attribute, r, text)                                                                                   \
	do {                                                                                                           \
		td_auto_free char *got = read(l, attribute, r);                                                        \
		if (r)                                                                                                 \
			assert_non_null(strstr(got, text));                                                            \
		else                                                                                                   \
			assert_string_equal(got, text);                                                                \
	} while (0)

static void test_names(void **state)
{
	td_auto_objects struct td_objects l = {0};
	add(&l, "n0", "n0", 1, 2, NAME("gpu-10") "," NAME("gpu-2"));
	READS(&l, NULL, TD_NOT_FOUND, "not published all devices of pool n0"); // one of two slices
	add(&l, "n0", "n0", 1, 2, NAME("gpu-1"));
	add(&l, "n1", "n1", 1, 1, NAME("gpu-0"));
	READS(&l, NULL, 0, "n0/gpu-1 n0/gpu-2 n0/gpu-10");
	READS(&l, "index", TD_INVALID, "has no integer attribute index");
}

static void test_attribute(void **state)
{
	td_auto_objects struct td_objects l = {0};
	add(&l, "n0", "n0", 1, 1, AT("gpu-a", 2) "," AT("gpu-c", 0) "," AT("gpu-b", 1));
	READS(&l, "index", 0, "n0/gpu-c n0/gpu-b n0/gpu-a");
	// The domain of the driver may be left out.
	READS(&l, GPU "/index", 0, "n0/gpu-c n0/gpu-b n0/gpu-a");

	td_auto_objects struct td_objects gap = {0}, twice = {0}, negative = {0};
	add(&gap, "n0", "n0", 1, 1, AT("gpu-a", 0) "," AT("gpu-b", 2));
	READS(&gap, "index", TD_INVALID, "device gpu-b has 2");
	add(&twice, "n0", "n0", 1, 1, AT("gpu-a", 0) "," AT("gpu-b", 0));
	READS(&twice, "index", TD_INVALID, "device gpu-b has 0");
	add(&negative, "n0", "n0", 1, 1, AT("gpu-a", -1));
	READS(&negative, "index", TD_INVALID, "no integer attribute");
}

static void test_generations(void **state)
{
	td_auto_objects struct td_objects l = {0};
	// The devices are unknown, which differs from none.
	READS(&l, NULL, TD_NOT_FOUND, "publishes nothing on node n0");
	add(&l, "n0", "n0", 1, 1, NAME("old-0") "," NAME("old-1"));
	add(&l, "n0", "n0", 2, 1, NAME("new-0"));
	READS(&l, NULL, 0, "n0/new-0");
	add(&l, "n0", "n0", 3, 2, NAME("newer-0")); // a pool that is being renewed
	READS(&l, NULL, TD_NOT_FOUND, "not published all");

	td_auto_objects struct td_objects none = {0}, pools = {0}, twice = {0};
	add(&twice, "n0", "n0", 1, 2, AT("x", 0));
	add(&twice, "n0", "n0", 1, 2, AT("x", 1));
	// Otherwise one device would be given to two jobs.
	READS(&twice, "index", TD_INVALID, "publishes device x of pool n0 on node n0 twice");
	add(&none, "n0", "n0", 1, 1, "");
	READS(&none, NULL, 0, "");
	add(&pools, "n0", "b", 1, 1, NAME("x"));
	add(&pools, "n0", "a", 7, 1, NAME("y"));
	READS(&pools, NULL, 0, "a/y b/x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_attribute),
		cmocka_unit_test(test_generations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
