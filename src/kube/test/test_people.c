// The Secret that logins need, against an API server that keeps one Secret with optimistic locking.
// rows: A15.5
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kube/people.h"
#include "kube/test/fake.h"

#include <string.h>

struct api { // one request at a time
	struct td_json *secret;
	int rv, writes;
	struct td_json *faster; // what somebody else writes just before the next write
};

static void put(struct api *a, struct td_json *j)
{
	yyjson_mut_doc *d = td_jm_copy(td_json_root(j));
	td_jm_strf(d, yyjson_mut_doc_get_root(d), "metadata.resourceVersion", "%d", ++a->rv);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.uid", "u");
	td_json_unref(j);
	td_json_unref(a->secret);
	a->secret = td_jm_done(d);
}

static void handle(struct td_http_x *x, void *ctx)
{
	struct api *a = ctx;
	size_t n;
	const char *m = td_http_method(x), *body = td_http_body(x, &n);
	int status = 200;
	if (!strcmp(m, "GET")) {
		status = a->secret ? 200 : 404;
	} else {
		struct td_json *in = NULL, *out = NULL;
		if (a->faster) {
			put(a, a->faster);
			a->faster = NULL;
		}
		assert_int_equal(td_json_parse(body, n, &in, NULL), 0);
		const char *rv = td_jstr(td_json_root(in), "metadata.resourceVersion");
		if (!strcmp(m, "POST")) {
			status = a->secret ? 409 : 201;
			if (!a->secret)
				put(a, td_json_ref(in));
		} else if (!a->secret) {
			status = 404;
		} else if (rv && !td_streq(rv, td_jstr(td_json_root(a->secret), "metadata.resourceVersion"))) {
			status = 409;
		} else {
			assert_int_equal(td_json_merge_patch(td_json_root(a->secret), td_json_root(in), &out, NULL), 0);
			put(a, out);
		}
		a->writes += status < 300;
		td_json_unref(in);
	}
	td_auto_free char *text = status < 300
					  ? td_json_text(td_json_root(a->secret), NULL)
					  : td_asprintf("{\"kind\":\"Status\",\"message\":\"no\",\"reason\":\"%s\"}",
							status == 404        ? "NotFound"
							: !strcmp(m, "POST") ? "AlreadyExists"
									     : "Conflict");
	td_http_send(x, status, "application/json", text, strlen(text));
}

static struct td_json *json(const char *text)
{
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return j;
}

#define NAMED                                                                                                          \
	"\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"main-gateway\",\"namespace\":\"slurm\"}"

// Ensures it; returns how many writes that was.
static int ensured(struct api *a, struct td_kube *k)
{
	struct td_error err = TD_ERROR_INIT;
	int before = a->writes;
	if (td_people_ensure(k, "slurm", "main", NULL, NULL, &err))
		fail_msg("%s", err.msg);
	return a->writes - before;
}

static bool ready(const struct api *a)
{
	const yyjson_val *root = td_json_root(a->secret);
	return td_people_can_sign(root) &&
	       td_streq(td_jkey_str(td_jget(root, "metadata.labels"), TD_LABEL_CLUSTER), "main");
}

static void test_what_lacks_is_made_once(void **state)
{
	struct api a = {0};
	struct fake *f = fake_start(handle, &a);
	td_auto(td_kube_free) struct td_kube *k = fake_client(f);

	assert_int_equal(ensured(&a, k), 1);
	assert_true(ready(&a));
	assert_null(td_jget(td_json_root(a.secret), "metadata.ownerReferences"));
	assert_int_equal(ensured(&a, k), 0);

	// One that somebody made with his client's secret only gets the rest, and keeps that.
	static const char *const lacking[] = {
		"{" NAMED "}",
		"{" NAMED ",\"data\":{\"oidc-secret\":\"czNjcmV0\"}}",
		"{" NAMED ",\"data\":{\"oidc-secret\":\"czNjcmV0\",\"cookie\":\"\"}}",
		"{" NAMED ",\"data\":{\"oidc-secret\":\"czNjcmV0\",\"cookie\":\"c2hvcnQ=\"}}",
		"{" NAMED ",\"data\":{\"oidc-secret\":\"czNjcmV0\",\"cookie\":\"not base64\"}}",
	};
	for (size_t i = 0; i < TD_LEN(lacking); i++) {
		put(&a, json(lacking[i]));
		assert_false(ready(&a));
		assert_int_equal(ensured(&a, k), 1);
		assert_true(ready(&a));
		td_auto_free char *kept = td_people_value(td_json_root(a.secret), "oidc-secret", NULL);
		assert_true(!i || td_streq(kept, "s3cret"));
		assert_int_equal(ensured(&a, k), 0);
	}
	// What can sign is never made anew: that would log everybody out.
	put(&a, json("{" NAMED ",\"data\":{\"cookie\":\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"}}"));
	assert_int_equal(ensured(&a, k), 1); // its label
	td_auto_free char *cookie = td_people_value(td_json_root(a.secret), "cookie", NULL);
	assert_string_equal(cookie, "0123456789abcdef0123456789abcdef");
	fake_stop(f);
	td_json_unref(a.secret);
}

// `tandem user` makes the first key in the same moment: its Secret stays as it is.
static void test_who_was_faster_stays(void **state)
{
	static const char made[] = "{" NAMED ",\"data\":{\"cookie\":\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\","
				   "\"key.abcdefgh\":\"e30=\"}}";
	struct api a = {0};
	struct fake *f = fake_start(handle, &a);
	td_auto(td_kube_free) struct td_kube *k = fake_client(f);
	for (int i = 0; i < 2; i++) { // it was missing; it was empty
		if (i)
			put(&a, json("{" NAMED "}"));
		a.faster = json(made);
		assert_int_equal(ensured(&a, k), 0);
		td_auto_free char *cookie = td_people_value(td_json_root(a.secret), "cookie", NULL);
		assert_string_equal(cookie, "0123456789abcdef0123456789abcdef");
		assert_non_null(td_jkey(td_jget(td_json_root(a.secret), "data"), "key.abcdefgh"));
	}
	fake_stop(f);
	td_json_unref(a.secret);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_lacks_is_made_once),
		cmocka_unit_test(test_who_was_faster_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
