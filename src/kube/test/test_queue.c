// The work queue with a manual clock, and the controller frame with several workers.
// rows: A12.2

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kube/controller.h"

#include <pthread.h>
#include <string.h>

static char *take(struct td_queue *q)
{
	// Only what is ready now counts, so an empty queue is not waited for.
	char *key = NULL;
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	struct td_error err = TD_ERROR_INIT;
	if (td_queue_len(q) == 0)
		return NULL;
	assert_int_equal(td_queue_get(q, c, &key, &err), 0);
	return key;
}

#define TAKES(q, want)                                                                                                 \
	do {                                                                                                           \
		td_auto_free char *k_ = take(q);                                                                       \
		assert_non_null(k_);                                                                                   \
		assert_string_equal(k_, want);                                                                         \
	} while (0)

static void once_in_line(void **s)
{
	struct td_queue *q = td_queue_new(NULL);
	td_queue_add(q, "a");
	td_queue_add(q, "b");
	td_queue_add(q, "a");
	assert_int_equal(td_queue_len(q), 2);

	TAKES(q, "a");
	td_queue_add(q, "a"); // a worker has it: it comes back only after done
	TAKES(q, "b");
	assert_int_equal(td_queue_len(q), 0);
	td_queue_done(q, "b");
	assert_int_equal(td_queue_len(q), 0);
	td_queue_done(q, "a");

	TAKES(q, "a");
	td_queue_done(q, "a");
	td_queue_free(q);
}

// Makes the queue look at its clock: td_queue_get moves keys whose delay has passed into the line.
static void tick(struct td_queue *q)
{
	td_queue_add(q, "~");
	char *key = NULL;
	assert_int_equal(td_queue_get(q, NULL, &key, NULL), 0);
	assert_string_equal(key, "~");
	free(key);
	td_queue_done(q, "~");
}

static void delays(void **s)
{
	struct td_clock_manual m;
	td_clock_manual_init(&m, 1000000);
	struct td_queue *q = td_queue_new(&m.clock);
	td_queue_add_after(q, "a", 500);
	td_queue_add_after(q, "a", 100); // the earliest wins
	td_queue_add_after(q, "a", 900);

	tick(q);
	assert_int_equal(td_queue_len(q), 0);
	td_clock_manual_add(&m, 99);
	tick(q);
	assert_int_equal(td_queue_len(q), 0);

	td_clock_manual_add(&m, 1);
	tick(q);
	assert_int_equal(td_queue_len(q), 1);
	TAKES(q, "a");
	td_queue_done(q, "a");

	td_clock_manual_add(&m, 1000000);
	tick(q);
	assert_int_equal(td_queue_len(q), 0);
	td_queue_free(q);
}

static void begun_and_new_work_take_turns(void **s)
{
	struct td_clock_manual m;
	td_clock_manual_init(&m, 0);
	struct td_queue *q = td_queue_new(&m.clock);

	static const char *const begun[] = {"b1", "b2", "b3"}, *const new_[] = {"n1", "n2", "n3", "n4"};
	for (size_t i = 0; i < TD_LEN(begun); i++)
		td_queue_add_after(q, begun[i], 10 + (int64_t)i);
	for (size_t i = 0; i < TD_LEN(new_); i++)
		td_queue_add(q, new_[i]);

	td_clock_manual_add(&m, 12);
	static const char *const order[] = {"n1", "b1", "n2", "b2", "n3", "b3", "n4"};
	for (size_t i = 0; i < TD_LEN(order); i++) {
		TAKES(q, order[i]);
		td_queue_done(q, order[i]);
	}

	assert_int_equal(td_queue_len(q), 0);
	td_queue_free(q);
}

static void backoff(void **s)
{
	struct td_clock_manual m;
	td_clock_manual_init(&m, 0);
	struct td_queue *q = td_queue_new(&m.clock);
	int64_t want = 5;
	for (int i = 0; i < 16; i++) {
		td_queue_retry(q, "a");
		td_clock_manual_add(&m, want - 1);
		tick(q);
		assert_int_equal(td_queue_len(q), 0);
		td_clock_manual_add(&m, 1);
		tick(q);
		assert_int_equal(td_queue_len(q), 1);
		TAKES(q, "a");
		td_queue_done(q, "a");
		want = want * 2 < 30000 ? want * 2 : 30000;
	}

	td_queue_forget(q, "a");
	td_queue_retry(q, "a");
	td_clock_manual_add(&m, 5);
	tick(q);
	TAKES(q, "a");
	td_queue_done(q, "a");
	td_queue_free(q);
}

struct sum {
	struct td_queue *q;
	int seen, working[4], twice;
};

static int count(void *ctx, const char *key, int64_t *again, struct td_cancel *c, struct td_error *err)
{
	struct sum *s = ctx;
	int k = key[0] - 'a';
	if (__atomic_add_fetch(&s->working[k], 1, __ATOMIC_SEQ_CST) > 1)
		__atomic_store_n(&s->twice, 1, __ATOMIC_SEQ_CST);
	td_cancel_wait(c, 1);
	__atomic_sub_fetch(&s->working[k], 1, __ATOMIC_SEQ_CST);
	return __atomic_add_fetch(&s->seen, 1, __ATOMIC_SEQ_CST) % 7 == 0 ? td_fail(err, TD_CONFLICT, "again") : 0;
}

struct job {
	struct td_controller c;
	struct td_cancel *cancel;
};

static void *run(void *arg)
{
	struct job *j = arg;
	assert_int_equal(td_controller_run(&j->c, j->cancel, NULL), 0);
	return NULL;
}

static void workers(void **s)
{
	struct sum sum = {.q = td_queue_new(NULL)};
	struct job j = {{"test", 4, sum.q, count, &sum}, td_cancel_new()};
	pthread_t t;
	pthread_create(&t, NULL, run, &j);

	static const char *const keys[] = {"a", "b", "c", "d"};
	for (int i = 0; i < 2000; i++)
		td_queue_add(sum.q, keys[i % 4]);

	// One that is late and meets its own key in the queue would be one with it.
	int64_t end = td_mono_ms(&td_clock_system) + 60000;
	while (td_queue_len(sum.q) && td_mono_ms(&td_clock_system) < end)
		td_cancel_wait(NULL, 5);
	td_queue_add_after(sum.q, "a", 30);
	int before = -1;
	// Ends when the count has settled: all is done, and nothing more comes.
	while (td_mono_ms(&td_clock_system) < end) {
		td_cancel_wait(NULL, 80);
		int now = __atomic_load_n(&sum.seen, __ATOMIC_SEQ_CST);
		if (now == before && now >= 5)
			break;
		before = now;
	}
	assert_true(before >= 5); // at least four keys and the delayed one
	assert_int_equal(sum.twice, 0);
	assert_int_equal(td_queue_len(sum.q), 0);

	int64_t start = td_mono_ms(&td_clock_system);
	td_cancel_fire(j.cancel);
	pthread_join(t, NULL);
	assert_true(td_mono_ms(&td_clock_system) - start < 10000);
	td_cancel_unref(j.cancel);
	td_queue_free(sum.q);
}

// A sleeping worker must notice a delayed key when the other worker is busy.
static int slow(void *ctx, const char *key, int64_t *again, struct td_cancel *c, struct td_error *err)
{
	struct sum *s = ctx;
	if (key[0] == 'a')
		td_cancel_wait(c, 30000);
	else
		__atomic_store_n(&s->seen, 1, __ATOMIC_RELEASE);
	return 0;
}

static void baton(void **st)
{
	struct sum sum = {.q = td_queue_new(NULL)};
	struct job j = {{"test", 2, sum.q, slow, &sum}, td_cancel_new()};
	pthread_t t;
	pthread_create(&t, NULL, run, &j);

	td_queue_add_after(sum.q, "b", 100);
	td_queue_add(sum.q, "a");

	int64_t end = td_mono_ms(&td_clock_system) + 120000;
	while (!__atomic_load_n(&sum.seen, __ATOMIC_ACQUIRE) && td_mono_ms(&td_clock_system) < end)
		td_cancel_wait(NULL, 5);
	assert_int_equal(sum.seen, 1);

	td_cancel_fire(j.cancel);
	pthread_join(t, NULL);
	td_cancel_unref(j.cancel);
	td_queue_free(sum.q);
}

static void keys(void **s)
{
	char *ns, *name;
	td_key_split("ml/train", &ns, &name);
	assert_string_equal(ns, "ml");
	assert_string_equal(name, "train");
	free(ns);
	free(name);
	td_key_split("n0", &ns, &name);
	assert_string_equal(ns, "");
	assert_string_equal(name, "n0");
	free(ns);
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(once_in_line),
					   cmocka_unit_test(delays),
					   cmocka_unit_test(begun_and_new_work_take_turns),
					   cmocka_unit_test(backoff),
					   cmocka_unit_test(workers),
					   cmocka_unit_test(baton),
					   cmocka_unit_test(keys)};
	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
