// What ran before, while slurmdbd is away: it holds up whom it is about, and the workers of nobody else's pods.
// rows: C4.1
#include "bridge/scheduler/ran.h"

#include "bridge/test/given.h"
#include "kube/test/fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct td_clock_manual at;
static struct td_bridge b;
static struct td_link *link_;
static struct td_cancel *cancel;
static struct {
	int asked;
	bool silent; // it takes a request and says nothing
} world;

static void handler(struct td_http_x *x, void *ctx)
{
	__atomic_fetch_add(&world.asked, 1, __ATOMIC_ACQ_REL);
	if (world.silent)
		td_cancel_wait(cancel, -1);
	td_http_send(x, 500, "application/json", "{\"errors\":[{\"error_number\":7000}]}", 33);
}

static int read_of(const char *user)
{
	struct td_error e = TD_ERROR_INIT;
	return td_ran_read(&b, link_, user, "slices", NULL, &e);
}

static struct fake *begin(bool silent)
{
	static const char key[] = "0123456789abcdef0123456789abcdef";
	world.asked = 0;
	world.silent = silent;
	struct fake *fake = fake_start(handler, NULL);
	td_clock_manual_init(&at, 1790000000000);
	td_clock_manual_add(&at, 1000);
	cancel = td_cancel_new();
	b = (struct td_bridge){.clock = &at.clock, .ran = td_ran_new(), .settings = given_settings("{}")};
	pthread_mutex_init(&b.lock, NULL);
	link_ = td_calloc(1, sizeof(*link_));
	link_->refs = 1;
	const struct td_slurm_opts o = {.url = fake_url(fake), .key = key, .key_len = strlen(key)};
	assert_int_equal(td_slurm_new(&o, &link_->slurm, NULL), 0);
	return fake;
}

static void end(struct fake *fake)
{
	td_link_unref(link_);
	td_settings_unref(b.settings);
	td_ran_free(b.ran);
	fake_stop(fake);
	pthread_mutex_destroy(&b.lock);
	td_cancel_unref(cancel);
}

static void one_that_fails_is_not_asked_for_each_user(void **state)
{
	struct fake *fake = begin(false);
	assert_int_not_equal(read_of("bob"), 0);
	const int once = world.asked;
	assert_true(once > 0);
	assert_int_equal(read_of("eve"), TD_TRANSIENT);
	assert_int_equal(read_of("bob"), TD_TRANSIENT);
	assert_int_equal(world.asked, once);
	td_clock_manual_add(&at, 1001);
	assert_int_not_equal(read_of("eve"), 0);
	assert_true(world.asked > once);
	end(fake);
}

static void *reader(void *user)
{
	read_of(user);
	return NULL;
}

static void one_that_is_silent_holds_two_workers(void **state)
{
	struct fake *fake = begin(true);
	static const char *const users[] = {"ann", "bob"};
	pthread_t t[TD_LEN(users)];
	for (size_t i = 0; i < TD_LEN(users); i++)
		assert_int_equal(pthread_create(&t[i], NULL, reader, (void *)users[i]), 0);
	assert_true(fake_reached(&world.asked, 2));
	assert_int_equal(read_of("eve"), TD_THROTTLED);
	assert_int_equal(read_of("ann"), TD_THROTTLED);
	assert_int_equal(world.asked, 2);
	td_clock_manual_add(&at, 30000);
	td_cancel_fire(cancel); // it answers
	for (size_t i = 0; i < TD_LEN(users); i++)
		pthread_join(t[i], NULL);
	td_clock_manual_add(&at, 29999); // it is left alone for as long as it was silent
	const int asked = world.asked;
	assert_int_equal(read_of("eve"), TD_TRANSIENT);
	assert_int_equal(world.asked, asked);
	end(fake);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(one_that_fails_is_not_asked_for_each_user),
				       cmocka_unit_test(one_that_is_silent_holds_two_workers)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
