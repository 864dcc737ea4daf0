// Leader election against an API server that keeps one Lease with optimistic locking.
// rows: A12.1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kube/options.h"
#include "kube/test/fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct api {
	pthread_mutex_t lock; // guards lease and rv
	struct td_json *lease;
	int rv, refuse; // rv: atomic; refuse: every write fails
	int reads;      // atomic
	bool frozen;    // no request is answered
	pthread_cond_t thaw;
};

static void put_locked(struct api *a, struct td_json *j)
{
	yyjson_mut_doc *d = td_jm_copy(td_json_root(j));
	td_jm_strf(d, yyjson_mut_doc_get_root(d), "metadata.resourceVersion", "%d",
		   __atomic_add_fetch(&a->rv, 1, __ATOMIC_RELEASE));
	td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.uid", "u");
	td_json_unref(j);
	td_json_unref(a->lease);
	a->lease = td_jm_done(d);
}

static void handle(struct td_http_x *x, void *ctx)
{
	struct api *a = ctx;
	size_t n;
	const char *m = td_http_method(x), *body = td_http_body(x, &n);
	int status = 200;
	__atomic_add_fetch(&a->reads, !strcmp(m, "GET"), __ATOMIC_RELEASE);

	pthread_mutex_lock(&a->lock);
	while (a->frozen)
		pthread_cond_wait(&a->thaw, &a->lock);

	struct td_json *in = NULL, *out = NULL;
	if (strcmp(m, "GET") != 0) {
		assert_int_equal(td_json_parse(body, n, &in, NULL), 0);
		const char *rv = td_jstr(td_json_root(in), "metadata.resourceVersion");
		if (a->refuse)
			status = 500;
		else if (!strcmp(m, "POST") && a->lease)
			status = 409;
		else if (!strcmp(m, "POST"))
			put_locked(a, td_json_ref(in));
		else if (!td_streq(rv, td_jstr(td_json_root(a->lease), "metadata.resourceVersion")))
			status = 409;
		else if (td_json_merge_patch(td_json_root(a->lease), td_json_root(in), &out, NULL) == 0)
			put_locked(a, out);
	} else if (!a->lease) {
		status = 404;
	}

	td_auto_free char *text = status == 200 ? td_json_text(td_json_root(a->lease), NULL)
						: td_strdup("{\"kind\":\"Status\",\"message\":\"no\"}");
	pthread_mutex_unlock(&a->lock);
	td_json_unref(in);
	td_http_send(x, status, "application/json", text, strlen(text));
}

static char *holder(struct api *a)
{
	pthread_mutex_lock(&a->lock);
	char *h = td_strdup(td_jstr_or(td_json_root(a->lease), "spec.holderIdentity", "none"));
	pthread_mutex_unlock(&a->lock);
	return h;
}

static void set_lease(struct api *a, const char *who, int seconds)
{
	td_auto_free char *text =
		td_asprintf("{\"spec\":{\"holderIdentity\":\"%s\",\"leaseDurationSeconds\":%d}}", who, seconds);
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	pthread_mutex_lock(&a->lock);
	put_locked(a, j);
	pthread_mutex_unlock(&a->lock);
}

struct candidate {
	struct td_kube *k;
	struct td_lease_opts o;
	struct td_cancel *cancel;
	int leads, result; // atomic
	int64_t since;
	bool until_cancel;
	pthread_t t;
};

// How long a Lease is: a busy machine renews it later, and everything that is measured here is a part of it.
static int lease_s = 2;

static int lead(void *ctx, struct td_cancel *c, struct td_error *err)
{
	struct candidate *x = ctx;
	x->since = td_mono_ms(&td_clock_system);
	__atomic_store_n(&x->leads, 1, __ATOMIC_RELEASE);
	if (x->until_cancel && td_cancel_wait(c, 120000))
		return TD_CANCELLED;
	return 0;
}

static void *run(void *arg)
{
	struct candidate *x = arg;
	struct td_error err = TD_ERROR_INIT;
	int r = td_lease_run(x->k, &x->o, x->cancel, lead, x, &err);
	__atomic_store_n(&x->result, r == 0 ? 1 : -r + 100, __ATOMIC_RELEASE);
	return NULL;
}

static void start(struct candidate *x, struct fake *f, const char *who)
{
	*x = (struct candidate){
		.k = fake_client(f), .o = {"ns", "l", who, lease_s}, .cancel = td_cancel_new(), .until_cancel = true};
	pthread_create(&x->t, NULL, run, x);
}

static void finish(struct candidate *x)
{
	td_cancel_fire(x->cancel);
	pthread_join(x->t, NULL);
	td_cancel_unref(x->cancel);
	td_kube_free(x->k);
}

static void done(struct api *a, struct fake *f)
{
	fake_stop(f);
	td_json_unref(a->lease);
	pthread_mutex_destroy(&a->lock);
}

#define API                                                                                                            \
	struct api a = {.lock = PTHREAD_MUTEX_INITIALIZER, .thaw = PTHREAD_COND_INITIALIZER};                          \
	struct fake *f = fake_start(handle, &a)

static void one_leads_and_hands_over(void **s)
{
	API;
	assert_true(td_lease_holds()); // it never stood for election
	struct candidate x, y;
	start(&x, f, "x");
	assert_true(fake_reached(&x.leads, 1));

	start(&y, f, "y");
	assert_int_equal(td_cancel_wait(y.cancel, lease_s * 1750), 0); // longer than the Lease: x renews
	assert_int_equal(__atomic_load_n(&y.leads, __ATOMIC_ACQUIRE), 0);

	int64_t t = td_mono_ms(&td_clock_system);
	finish(&x); // releases the Lease
	assert_int_equal(x.result, 100 - TD_CANCELLED);
	assert_true(fake_reached(&y.leads, 1));
	assert_true(y.since - t < lease_s * 750); // sooner than the Lease would have expired

	td_auto_free char *h = holder(&a);
	assert_string_equal(h, "y");

	finish(&y);
	done(&a, f);
}

static void dead_leader(void **s)
{
	API;
	set_lease(&a, "dead", 1);
	int64_t t = td_mono_ms(&td_clock_system);
	struct candidate x;
	start(&x, f, "x");
	assert_true(fake_reached(&x.leads, 1));
	assert_true(x.since - t >= 1000); // the age is what this process has seen itself
	finish(&x);
	done(&a, f);
}

static void taken_away(void **s)
{
	API;
	struct candidate x;
	start(&x, f, "x");
	assert_true(fake_reached(&x.leads, 1));
	set_lease(&a, "thief", 60);
	assert_true(fake_reached(&x.result, 1));
	assert_int_equal(x.result, 100 - TD_CONFLICT);
	td_auto_free char *h = holder(&a);
	assert_string_equal(h, "thief"); // the loser does not release it
	finish(&x);
	done(&a, f);
}

static void cannot_renew(void **s)
{
	API;
	struct candidate x;
	start(&x, f, "x");
	assert_true(fake_reached(&x.leads, 1));

	int64_t t = td_mono_ms(&td_clock_system);
	pthread_mutex_lock(&a.lock);
	a.refuse = 1;
	pthread_mutex_unlock(&a.lock);
	assert_true(fake_reached(&x.result, 1));
	assert_int_equal(x.result, 100 - TD_CONFLICT);
	assert_true(td_mono_ms(&td_clock_system) - t < lease_s * 1500);
	finish(&x);
	done(&a, f);
}

static void freeze(struct api *a, bool yes)
{
	pthread_mutex_lock(&a->lock);
	a->frozen = yes;
	pthread_cond_broadcast(&a->thaw);
	pthread_mutex_unlock(&a->lock);
}

static void frozen_api_delays_no_end(void **s)
{
	API;
	struct candidate x;
	start(&x, f, "x");
	assert_true(fake_reached(&x.leads, 1));
	freeze(&a, true);
	int64_t t = td_mono_ms(&td_clock_system);
	finish(&x);
	assert_true(td_mono_ms(&td_clock_system) - t < lease_s * 1500);
	freeze(&a, false);
	done(&a, f);
}

// A request without an answer takes longer than the Lease, so others may lead by then.
static void frozen_api_ends_leadership(void **s)
{
	API;
	struct candidate x;
	start(&x, f, "x");
	assert_true(fake_reached(&x.leads, 1));
	assert_true(td_lease_holds());
	freeze(&a, true);

	int64_t t = td_mono_ms(&td_clock_system);
	assert_true(fake_reached(&x.result, 1));
	assert_int_equal(x.result, 100 - TD_CONFLICT);
	assert_false(td_lease_holds());
	assert_true(td_mono_ms(&td_clock_system) - t < lease_s * 1000);
	finish(&x);
	freeze(&a, false);
	done(&a, f);
}

// A renewal is one write without a read before it.
static void renews_without_reading(void **s)
{
	API;
	struct candidate x;
	start(&x, f, "x");
	assert_true(fake_reached(&x.leads, 1));
	assert_true(fake_reached(&a.rv, 4));
	assert_int_equal(__atomic_load_n(&a.reads, __ATOMIC_ACQUIRE), 1);
	finish(&x);
	done(&a, f);
}

static void flags(void **s)
{
	struct td_error err = TD_ERROR_INIT;
	struct td_lease_opts given = {0};
	const struct td_option options[] = {TD_LEASE_OPTIONS(&given, "kube-system", "x")};
	const struct td_command c = {.name = "x", .options = options, .n = TD_LEN(options)};
	char **args;
	size_t n;
	bool help;
	char *argv[] = {
		"x", "--lease-duration=15s", "--renew-deadline", "3", "--lease-namespace", "a", "--identity", "b",
		NULL};
	assert_int_equal(td_options_parse(&c, 8, argv, &args, &n, &help, &err), 0);
	assert_int_equal(given.duration_s, 15);
	assert_int_equal(given.renew_s, 3);
	assert_string_equal(given.ns, "a");
	assert_string_equal(given.identity, "b");
	static char bad[][10] = {"", "s", "0", "-1", "1.5s", "1m", "15ss", "99999"};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		char *wrong[] = {"x", "--renew-deadline", bad[i], NULL};
		assert_int_equal(td_options_parse(&c, 3, wrong, &args, &n, &help, &err), TD_INVALID);
	}
	assert_int_equal(given.renew_s, 3);

	struct td_lease_opts o = {.duration_s = 0};
	assert_int_equal(td_lease_check(&o, &err), 0);
	o.renew_s = 15;
	assert_int_equal(td_lease_check(&o, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, "--renew-deadline"));
	o = (struct td_lease_opts){.duration_s = 3, .renew_s = 2, .retry_s = 2};
	assert_int_equal(td_lease_check(&o, &err), TD_INVALID);
}

static void ends_by_itself(void **s)
{
	API;
	struct candidate x = {.k = fake_client(f), .o = {"ns", "l", "x", 15}, .cancel = td_cancel_new()};
	pthread_create(&x.t, NULL, run, &x);
	assert_true(fake_reached(&x.result, 1));
	assert_int_equal(x.result, 1);
	td_auto_free char *h = holder(&a);
	assert_string_equal(h, "");
	finish(&x);
	done(&a, f);
}

int main(void)
{
	double load = 0;
	if (getloadavg(&load, 1) == 1 && load > (double)sysconf(_SC_NPROCESSORS_ONLN))
		lease_s = 8;
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_leads_and_hands_over),
					   cmocka_unit_test(dead_leader),
					   cmocka_unit_test(taken_away),
					   cmocka_unit_test(cannot_renew),
					   cmocka_unit_test(frozen_api_delays_no_end),
					   cmocka_unit_test(frozen_api_ends_leadership),
					   cmocka_unit_test(renews_without_reading),
					   cmocka_unit_test(flags),
					   cmocka_unit_test(ends_by_itself)};
	return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
