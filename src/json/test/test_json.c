// Room json: paths, patches, YAML in and out, records, templates.
// rows: F1.2 F2.1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json/record.h"

#include <string.h>
#include <unistd.h>

static struct td_json *parse(const char *s)
{
	struct td_json *j = NULL;
	struct td_error e = TD_ERROR_INIT;
	if (td_json_parse(s, strlen(s), &j, &e))
		fail_msg("%s: %s", s, e.msg);
	return j;
}

static void paths_read_what_is_there(void **s)
{
	td_auto(td_json_unref) struct td_json *j =
		parse("{\"a\":{\"b\":[{\"c\":\"x\"},{\"c\":7.0}],\"d.e\":true},\"n\":-3}");

	yyjson_val *v = td_json_root(j);
	assert_string_equal(td_jstr(v, "a.b.[0].c"), "x");
	assert_int_equal(td_jint(v, "a.b.[1].c", 0), 7);
	assert_int_equal(td_jint(v, "n", 0), -3);
	assert_int_equal(td_jint(v, "a.b.[0].c", 5), 5);
	assert_null(td_jget(v, "a.b.[2].c"));
	assert_null(td_jget(v, "n.x"));
	assert_true(yyjson_get_bool(td_jkey(td_jget(v, "a"), "d.e")));
	assert_null(td_jget(NULL, "x"));

	td_auto_free char *deep = td_malloc(1000);
	memset(deep, '[', 500);
	memset(deep + 500, ']', 500);
	struct td_json *no = NULL;
	assert_int_equal(td_json_parse(deep, 1000, &no, NULL), TD_INVALID);
	assert_null(no);
}

static void arrays_are_searched_and_copied(void **s)
{
	td_auto(td_json_unref) struct td_json *j =
		parse("{\"l\":[7,{\"type\":3},{\"type\":\"A\",\"n\":1},{\"type\":\"B\",\"n\":2},{\"type\":\"B\",\"n\":"
		      "3},\"x\",null,\"y\"],\"o\":{\"type\":\"B\"}}");
	yyjson_val *l = td_jget(td_json_root(j), "l");
	assert_int_equal(td_jint(td_jfind(l, "type", "B"), "n", 0), 2);
	assert_null(td_jfind(l, "type", "C"));
	assert_null(td_jfind(l, "n", "1"));
	assert_null(td_jfind(NULL, "type", "B"));
	assert_null(td_jfind(td_jget(td_json_root(j), "o"), "type", "B"));

	td_auto_strv struct td_strv v = {0};
	td_strv_add(&v, "w");
	td_jstrs(l, &v);
	td_jstrs(NULL, &v);
	assert_int_equal(v.n, 3);
	assert_string_equal(v.v[2], "y");
}

static void building_creates_what_is_between(void **s)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "metadata.labels.app", "x");
	td_jm_str(d, o, "metadata.labels.app", "y");
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), "a.b/c", "z");
	td_jm_int(d, o, "spec.n", 3);
	td_jm_str(d, o, "spec.none", NULL);
	td_jm_del(o, "spec.gone.too");

	td_auto_free char *t = td_json_mut_text(o, NULL);
	assert_string_equal(t, "{\"metadata\":{\"labels\":{\"app\":\"y\",\"a.b/c\":\"z\"}},\"spec\":{\"n\":3}}");
}

static void merge_patches(void **s)
{
	td_auto(td_json_unref) struct td_json *t = parse("{\"a\":{\"b\":1,\"c\":2},\"l\":[1,2]}"),
					      *p = parse("{\"a\":{\"b\":null,\"d\":3},\"l\":[9]}");
	td_auto(td_json_unref) struct td_json *r = NULL, *want = parse("{\"a\":{\"c\":2,\"d\":3},\"l\":[9]}");
	assert_int_equal(td_json_merge_patch(td_json_root(t), td_json_root(p), &r, NULL), 0);
	assert_true(td_jequal(td_json_root(r), td_json_root(want)));
}

static void json_patches(void **s)
{
	static const struct {
		const char *target, *ops, *want; // want NULL: the patch is refused
	} cases[] = {
		{"{\"a\":1}", "[{\"op\":\"add\",\"path\":\"/b\",\"value\":[1]}]", "{\"a\":1,\"b\":[1]}"},
		{"{\"b\":[1,3]}", "[{\"op\":\"add\",\"path\":\"/b/1\",\"value\":2}]", "{\"b\":[1,2,3]}"},
		{"{\"b\":[1]}", "[{\"op\":\"add\",\"path\":\"/b/-\",\"value\":2}]", "{\"b\":[1,2]}"},
		{"{\"b\":[1]}", "[{\"op\":\"add\",\"path\":\"/b/2\",\"value\":2}]", NULL},
		{"{\"b\":[1]}", "[{\"op\":\"add\",\"path\":\"/b/01\",\"value\":2}]", NULL},
		{"{\"a/b\":1,\"m~n\":2}",
		 "[{\"op\":\"remove\",\"path\":\"/a~1b\"},{\"op\":\"replace\",\"path\":\"/m~0n\",\"value\":3}]",
		 "{\"m~n\":3}"},
		{"{\"a\":1}", "[{\"op\":\"replace\",\"path\":\"/x\",\"value\":3}]", NULL},
		{"{\"a\":{\"b\":1}}", "[{\"op\":\"move\",\"from\":\"/a/b\",\"path\":\"/c\"}]", "{\"a\":{},\"c\":1}"},
		{"{\"a\":{\"b\":1}}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/a/b\"}]", NULL},
		{"{\"a\":{\"b\":1}}", "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/c\"}]",
		 "{\"a\":{\"b\":1},\"c\":{\"b\":1}}"},
		{"{\"a\":1}", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":1}]", "{\"a\":1}"},
		{"{\"a\":1}", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":2}]", NULL},
		{"{\"a\":1}", "[{\"op\":\"frob\",\"path\":\"/a\"}]", NULL},
		{"{\"a\":1}", "{}", NULL},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto(td_json_unref) struct td_json *t = parse(cases[i].target), *o = parse(cases[i].ops), *r = NULL;
		int rc = td_json_patch(td_json_root(t), td_json_root(o), &r, NULL);
		if (!cases[i].want) {
			assert_true(rc < 0);
			assert_null(r);
			continue;
		}

		td_auto(td_json_unref) struct td_json *want = parse(cases[i].want);
		assert_int_equal(rc, 0);
		assert_true(td_jequal(td_json_root(r), td_json_root(want)));
	}
}

// Copies of copies double the document and deepen it: 40 of them would need more than the memory.
static void patches_are_bounded(void **s)
{
	td_auto_buf struct td_buf wide = {0}, deep = {0};

	td_buf_puts(&wide, "[");
	for (int i = 0; i < 40; i++)
		td_buf_printf(&wide, "%s{\"op\":\"copy\",\"from\":\"\",\"path\":\"/k%d\"}", i ? "," : "", i);
	td_buf_puts(&wide, "]");

	td_buf_puts(&deep, "[{\"op\":\"add\",\"path\":\"");
	for (int i = 0; i < 100; i++)
		td_buf_puts(&deep, "/a");
	td_buf_puts(&deep, "\",\"value\":");
	for (int i = 0; i < 100; i++)
		td_buf_puts(&deep, "{\"a\":");
	td_buf_puts(&deep, "1");
	for (int i = 0; i < 100; i++)
		td_buf_puts(&deep, "}");
	td_buf_puts(&deep, "}]");

	td_auto_buf struct td_buf nest = {0};
	for (int i = 0; i < 100; i++)
		td_buf_puts(&nest, "{\"a\":");
	td_buf_puts(&nest, "{}");
	for (int i = 0; i < 100; i++)
		td_buf_puts(&nest, "}");

	td_auto(td_json_unref) struct td_json *small = parse("{\"a\":\"bbbbbbbbbb\"}"),
					      *nested = parse(td_buf_str(&nest)), *w = parse(td_buf_str(&wide)),
					      *d = parse(td_buf_str(&deep)), *r = NULL;
	assert_int_equal(td_json_patch(td_json_root(small), td_json_root(w), &r, NULL), TD_INVALID);
	assert_int_equal(td_json_patch(td_json_root(nested), td_json_root(d), &r, NULL), TD_INVALID);
	assert_null(r);
}

static void yaml_reads_as_kubernetes_does(void **s)
{
	static const char text[] = "# c\n---\na: 1\nb: \"1\"\nc: yes\nd: null\ne: 1.5\nf: 0777\ng: 12abc\nh: |\n  "
				   "two\n  lines\ni: {x: [a, 2]}\nj: 1e3\nk: 0x10\n"
				   "---\n---\nx: &q {z: 1}\ny: *q\nw:\n  <<: *q\n  v: 2\n";

	struct td_error e = TD_ERROR_INIT;
	td_auto_json_list struct td_json_list l = {0};
	assert_int_equal(td_yaml_parse(text, strlen(text), &l, &e), 0);
	assert_int_equal(l.n, 2);
	td_auto_free char *a = td_json_text(td_json_root(l.v[0]), NULL), *b = td_json_text(td_json_root(l.v[1]), NULL);
	assert_string_equal(a, "{\"a\":1,\"b\":\"1\",\"c\":true,\"d\":null,\"e\":1.5,\"f\":511,\"g\":\"12abc\",\"h\":"
			       "\"two\\nlines\\n\",\"i\":{\"x\":[\"a\",2]},\"j\":1000.0,\"k\":16}");
	assert_string_equal(b, "{\"x\":{\"z\":1},\"y\":{\"z\":1},\"w\":{\"z\":1,\"v\":2}}");

	// What is not a number after the prefix, or too large, is text or a real: never another number.
	static const char odd[] = "a: 0x-5\nb: 0o+7\nc: 0x\nd: 0777777777777777777777777\n";
	td_auto_json_list struct td_json_list o = {0};
	assert_int_equal(td_yaml_parse(odd, strlen(odd), &o, &e), 0);
	assert_string_equal(td_jstr(td_json_root(o.v[0]), "a"), "0x-5");
	assert_string_equal(td_jstr(td_json_root(o.v[0]), "b"), "0o+7");
	assert_string_equal(td_jstr(td_json_root(o.v[0]), "c"), "0x");
	assert_true(yyjson_is_real(td_jget(td_json_root(o.v[0]), "d")));

	static const char *const bad[] = {"a: [1", "a: 1\na: 2\n", "? {x: 1}\n: 2\n"};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		struct td_json_list none = {0};
		assert_int_equal(td_yaml_parse(bad[i], strlen(bad[i]), &none, &e), TD_INVALID);
		assert_non_null(strstr(e.msg, "line"));
		assert_int_equal(none.n, 0);
	}

	// Aliases must not blow up the document.
	td_auto_buf struct td_buf bomb = {0};
	td_buf_puts(&bomb, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
	for (int i = 1; i < 9; i++)
		td_buf_printf(&bomb, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i, i - 1,
			      i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);

	struct td_json_list none = {0};
	assert_int_equal(td_yaml_parse(td_buf_str(&bomb), bomb.len, &none, &e), TD_INVALID);
}

static void yaml_written_reads_back(void **s)
{
	static const char *const docs[] = {
		"{\"a\":{\"b\":[{\"c\":1,\"d\":[]},{\"e\":{}}],\"s\":\"two\\nlines\\n\",\"t\":\"no "
		"end\\nhere\"},\"y\":\"yes\",\"n\":\"12\",\"e\":\"\",\"w\":\" lead\"}",
		"{\"k: v\":\"a: b\",\"x\":\"# "
		"no\",\"d\":\"2026-11-21\",\"q\":\"it's\",\"u\":\"ü\",\"c\":\"a\\tb\\u0001\",\"l\":[[1,2],[]],\"m\":"
		"\"x\\n\\n\"}",
		"[1,\"a\",null,true,{\"a\":[]}]",
		"\"s\"",
		// A key of two lines, what only looks like a merge key or a number, and what readers of
		// YAML cannot print or take for the end of a line.
		"{\"key\\nof lines\":\"a\\nb\",\"<<\":{\"a\":1},\"1\\n2\":\"1\\t2\",\"nel\":\"x\\u0085y\"}",
		"{\"ls\":\"a\\u2028b\\nc\",\"del\":\"\\u007f\",\"bom\":\"\\ufeff\",\"tab\":\"\\tfirst\\nsecond\"}",
		"{\"big\":18446744073709551615,\"hex\":\"0x-5\",\"digits\":\"12\\nabc\"}",
		"\"two\\nlines\"",
	};
	for (size_t i = 0; i < TD_LEN(docs); i++) {
		td_auto(td_json_unref) struct td_json *j = parse(docs[i]);

		td_auto_free char *y = td_yaml_text(td_json_root(j));
		td_auto_json_list struct td_json_list l = {0};
		struct td_error e = TD_ERROR_INIT;
		if (td_yaml_parse(y, strlen(y), &l, &e) || l.n != 1 ||
		    !td_jequal(td_json_root(l.v[0]), td_json_root(j)))
			fail_msg("document %zu: %s\n%s", i, e.msg, y);
	}
}

static void records_come_back_whole(void **state)
{
	char path[] = "/tmp/td-record-XXXXXX";
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_json_unref) struct td_json *j = NULL;
	close(mkstemp(path));

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_int(d, yyjson_mut_doc_get_root(d), "a.b", 7);
	assert_int_equal(td_record_write(path, yyjson_mut_doc_get_root(d), 0600, &e), 0);
	assert_int_equal(td_record_read(path, &j, &e), 0);
	assert_int_equal(td_jint(td_json_root(j), "a.b", 0), 7);

	struct td_json *none = NULL;
	assert_int_equal(truncate(path, 5), 0);
	assert_int_equal(td_record_read(path, &none, &e), TD_INVALID);
	assert_non_null(strstr(e.msg, path));
	assert_null(none);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(td_record_read(path, &none, &e), TD_NOT_FOUND);
}

// A value with YAML syntax in it stays one value of its type.
static void templates_are_filled_in(void **state)
{
	td_auto(td_json_unref) struct td_json *t =
		parse("{\"{a}\":\"{a}{b}-{n}\",\"n\":\"{n}\",\"l\":[\"x{a\",\"{c}\",\"{\",true,\"{{n}}\"]}");

	const struct td_json_word words[] = {{"a", "x: [{b}]\n"}, {"b", ""}, {"n", NULL, -7}};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_json_fill(td_json_root(t), words, TD_LEN(words));
	td_auto_free char *have = td_json_mut_text(yyjson_mut_doc_get_root(d), NULL);
	assert_string_equal(
		have, "{\"x: [{b}]\\n\":\"x: [{b}]\\n--7\",\"n\":-7,\"l\":[\"x{a\",\"{c}\",\"{\",true,\"{-7}\"]}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_back_whole),
		cmocka_unit_test(templates_are_filled_in),
		cmocka_unit_test(paths_read_what_is_there),
		cmocka_unit_test(arrays_are_searched_and_copied),
		cmocka_unit_test(building_creates_what_is_between),
		cmocka_unit_test(merge_patches),
		cmocka_unit_test(json_patches),
		cmocka_unit_test(patches_are_bounded),
		cmocka_unit_test(yaml_reads_as_kubernetes_does),
		cmocka_unit_test(yaml_written_reads_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
