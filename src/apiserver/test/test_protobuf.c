// Bodies in Kubernetes' protobuf: what becomes JSON, and what is refused.
// rows: F1.2
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "apiserver/protobuf.h"

#include <string.h>

// "k8s\0", then the envelope: {1: {1: "v1", 2: "Namespace"}, 2: the object}.
#define NAMESPACE(size, object) "k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12" size object

static int parse(const char *p, size_t n, struct td_json **ret, struct td_error *e)
{
	return td_protobuf_parse(p, n, ret, e);
}
#define PARSE(literal, ret, e) parse(literal, sizeof(literal) - 1, ret, e)

static void test_objects(void **state)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_json_unref) struct td_json *j = NULL;
	// metadata {name: "a", generateName: ""}, and an empty field 99 that nobody knows.
	assert_int_equal(PARSE(NAMESPACE("\x0a", "\x0a\x05\x0a\x01"
						 "a\x12\x00\x9a\x06\x00"),
			       &j, &e),
			 0);
	assert_string_equal(td_jstr(td_json_root(j), "kind"), "Namespace");
	assert_string_equal(td_jstr(td_json_root(j), "apiVersion"), "v1");
	assert_string_equal(td_jstr(td_json_root(j), "metadata.name"), "a");
	assert_null(td_jget(td_json_root(j), "metadata.generateName"));
}

static void test_refused(void **state)
{
	struct td_error e = TD_ERROR_INIT;
	struct td_json *j = NULL;
	// A field whose value would be lost.
	assert_int_equal(PARSE(NAMESPACE("\x04", "\x9a\x06\x01x"), &j, &e), TD_UNSUPPORTED);
	assert_non_null(strstr(e.msg, "field 99 of core.Namespace is not accepted as protobuf: send JSON"));
	assert_int_equal(PARSE("k8s\0\x0a\x0b\x0a\x02v1\x12\x05Robot\x12\x00", &j, &e), TD_UNSUPPORTED);
	assert_int_equal(PARSE("{}", &j, &e), TD_INVALID);
	assert_int_equal(PARSE(NAMESPACE("\x09", "\x0a\x05"), &j, &e), TD_INVALID);
	assert_null(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_objects), cmocka_unit_test(test_refused)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
