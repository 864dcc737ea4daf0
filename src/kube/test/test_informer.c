// The reflector against an API server that ends watches, forgets versions, repeats itself and lags.
// rows: A12.2
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kube/informer.h"
#include "kube/test/fake.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct answer {     // to the n-th list or watch
	int status; // 0: 200
	const char *text;
	bool hold; // the watch stays open after its text
};
struct api {
	const struct answer *lists, *watches;
	int n_lists, n_watches; // how many are given
	int list, watch;        // how many were requested
	char asked[64][300];    // request targets in order
	int n_asked;
	pthread_mutex_t lock; // guards asked
};

static void handle(struct td_http_x *x, void *ctx)
{
	struct api *a = ctx;
	bool watch = td_http_query(x, "watch");
	pthread_mutex_lock(&a->lock);
	if (a->n_asked < 64)
		snprintf(a->asked[a->n_asked], sizeof(a->asked[0]), "%s", td_http_target(x));
	__atomic_add_fetch(&a->n_asked, 1, __ATOMIC_RELEASE);
	int i = watch ? a->watch++ : a->list++;
	pthread_mutex_unlock(&a->lock);

	static const struct answer quiet = {.text = "", .hold = true};
	const struct answer *w =
		watch ? (i < a->n_watches ? &a->watches[i] : &quiet) : &a->lists[i < a->n_lists ? i : a->n_lists - 1];

	if (!watch || w->status) {
		td_http_send(x, w->status ? w->status : 200, "application/json", w->text, strlen(w->text));
		return;
	}

	if (td_http_stream_begin(x, 200, "application/json", NULL))
		return;

	// Small pieces, so that the informer must join lines.
	for (size_t o = 0, n = strlen(w->text); o < n; o += 37)
		if (td_http_stream_write(x, w->text + o, n - o < 37 ? n - o : 37, NULL))
			return;
	if (w->hold)
		td_cancel_wait(td_http_cancel(x), 30000);
}

struct seen {
	char log[100][64];
	int n; // atomic
};

static void on_change(void *ctx, struct td_object *old, struct td_object *now)
{
	struct seen *s = ctx;
	int n = __atomic_load_n(&s->n, __ATOMIC_RELAXED);
	const struct td_object *o = now ? now : old;
	snprintf(s->log[n], sizeof(s->log[0]), "%s %s %s", !old ? "add" : now ? "mod" : "del", o->name, o->rv);
	__atomic_store_n(&s->n, n + 1, __ATOMIC_RELEASE);
}

static void by_node(const struct td_object *o, struct td_strv *ret)
{
	if (td_jstr(o->root, "spec.nodeName"))
		td_strv_add(ret, td_jstr(o->root, "spec.nodeName"));
}

struct rig {
	struct api api;
	struct seen seen;
	struct fake *fake;
	struct td_kube *k;
	struct td_informer *i;
	struct td_cancel *cancel;
};

static struct rig *rig(const struct answer *lists, int n_lists, const struct answer *watches, int n_watches)
{
	struct rig *r = td_calloc(1, sizeof(*r));
	r->api = (struct api){.lists = lists, .n_lists = n_lists, .watches = watches, .n_watches = n_watches};
	pthread_mutex_init(&r->api.lock, NULL);
	r->fake = fake_start(handle, &r->api);
	r->k = fake_client(r->fake);
	r->cancel = td_cancel_new();
	r->i = td_informer_new(r->k, &(struct td_informer_opts){.resource = &td_pods, .ns = "x", .labels = "a=b"});

	td_informer_on_change(r->i, on_change, &r->seen);
	td_informer_add_index(r->i, "node", by_node);
	assert_int_equal(td_informer_start(r->i, r->cancel, NULL), 0);
	return r;
}

static void rig_done(struct rig *r)
{
	int64_t start = td_mono_ms(&td_clock_system);
	td_cancel_fire(r->cancel);
	td_informer_free(r->i);
	assert_true(td_mono_ms(&td_clock_system) - start < 10000);
	td_kube_free(r->k);
	fake_stop(r->fake);
	td_cancel_unref(r->cancel);
	pthread_mutex_destroy(&r->api.lock);
	free(r);
}

static void saw(struct rig *r, const char *const *want, int n)
{
	if (!fake_reached(&r->seen.n, n)) {
		for (int i = 0; i < r->seen.n; i++)
			print_message("%s\n", r->seen.log[i]);
		for (int i = 0; i < r->api.n_asked && i < 64; i++)
			print_message("%s\n", r->api.asked[i]);
		fail_msg("saw %d changes of %d", r->seen.n, n);
	}
	for (int i = 0; i < n; i++)
		assert_string_equal(r->seen.log[i], want[i]);
}

static const char *asked(struct rig *r, int i)
{
	assert_true(fake_reached(&r->api.n_asked, i + 1));
	return r->api.asked[i];
}

#define POD(name, uid, rv)                                                                                             \
	"{\"metadata\":{\"namespace\":\"x\",\"name\":\"" name "\",\"uid\":\"" uid "\",\"resourceVersion\":\"" rv "\"}" \
	"}"
#define PODN(name, uid, rv, node)                                                                                      \
	"{\"metadata\":{\"namespace\":\"x\",\"name\":\"" name "\",\"uid\":\"" uid "\",\"resourceVersion\":\"" rv       \
	"\"},\"spec\":{\"nodeName\":\"" node "\"}}"
#define LIST(rv, items) "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"" rv "\"},\"items\":[" items "]}"
#define EV(type, obj) "{\"type\":\"" type "\",\"object\":" obj "}\n"
#define GONE                                                                                                           \
	EV("ERROR", "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too old resource "         \
		    "version: 1 (1991)\"}")
#define BOOKMARK(rv) EV("BOOKMARK", "{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"" rv "\"}}")
#define SAW(r, ...)                                                                                                    \
	do {                                                                                                           \
		static const char *const want_[] = {__VA_ARGS__};                                                      \
		saw(r, want_, (int)TD_LEN(want_));                                                                     \
	} while (0)

static void pages(void **s)
{
	static const struct answer lists[] = {
		{.text = "{\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"t/1=\"},\"items\":[" PODN(
			 "a", "1", "3", "n1") "]}"},
		{.text = LIST("9", PODN("b", "2", "4", "n1"))}};
	static const struct answer watches[] = {
		{.text = EV("MODIFIED", PODN("b", "2", "10", "n2")) EV("DELETED", PODN("a", "1", "11", "n1")),
		 .hold = true}};
	struct rig *r = rig(lists, 2, watches, 1);

	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_informers_wait(&r->i, 1, 5000, NULL, &err), 0);
	SAW(r, "add a 3", "add b 4", "mod b 10", "del a 11");

	assert_string_equal(asked(r, 0), "/api/v1/namespaces/x/pods?limit=500&labelSelector=a%3Db");
	assert_string_equal(asked(r, 1), "/api/v1/namespaces/x/pods?limit=500&labelSelector=a%3Db&continue=t%2F1%3D");
	assert_non_null(strstr(asked(r, 2), "watch=1&allowWatchBookmarks=true&resourceVersion=9&"));

	td_auto_objects struct td_objects n1 = {0}, n2 = {0};
	td_informer_by_index(r->i, "node", "n1", &n1);
	td_informer_by_index(r->i, "node", "n2", &n2);
	assert_int_equal(n1.n, 0);
	assert_int_equal(n2.n, 1);

	rig_done(r);
}

// The cache holds objects without their managedFields, from lists and from events alike.
static void keeps_no_managed_fields(void **s)
{
#define FULL(name, rv)                                                                                                 \
	"{\"metadata\":{\"namespace\":\"x\",\"managedFields\":[{\"manager\":\"m\"}],\"name\":\"" name                  \
	"\",\"uid\":\"1\",\"resourceVersion\":\"" rv                                                                   \
	"\",\"labels\":{\"managedFields\":\"stays\"}},\"spec\":{\"managedFields\":7},"                                 \
	"\"status\":{\"phase\":\"Running\"}}"
	static const struct answer lists[] = {{.text = LIST("5", FULL("a", "3"))}};
	static const struct answer watches[] = {{.text = EV("ADDED", FULL("b", "6")), .hold = true}};
	struct rig *r = rig(lists, 1, watches, 1);
	SAW(r, "add a 3", "add b 6");
	static const char *const names[] = {"a", "b"};

	for (size_t i = 0; i < 2; i++) {
		td_auto(td_object_unref) struct td_object *o = td_informer_get(r->i, "x", names[i]);
		assert_non_null(o);
		assert_null(td_jget(o->root, "metadata.managedFields"));
		assert_string_equal(td_object_label(o, "managedFields"), "stays");
		assert_int_equal(td_jint(o->root, "spec.managedFields", 0), 7);
		assert_string_equal(td_jstr(o->root, "status.phase"), "Running");
		assert_string_equal(o->uid, "1");
	}
	rig_done(r);
}

static void cut_in_a_line(void **s)
{
	static const struct answer lists[] = {{.text = LIST("5", "")}};
	static const struct answer watches[] = {
		{.text = EV("ADDED", POD("a", "1", "6")) "{\"type\":\"ADDED\",\"object\":{\"metad"},
		{.text = EV("ADDED", POD("b", "2", "7")), .hold = true}};
	struct rig *r = rig(lists, 1, watches, 2);
	SAW(r, "add a 6", "add b 7");
	assert_non_null(strstr(asked(r, 2), "resourceVersion=6&"));
	assert_int_equal(r->api.list, 1);
	rig_done(r);
}

static void bookmarks(void **s)
{
	static const struct answer lists[] = {{.text = LIST("5", "")}};
	static const struct answer watches[] = {{.text = BOOKMARK("50")},
						{.text = EV("ADDED", POD("b", "2", "51")), .hold = true}};
	struct rig *r = rig(lists, 1, watches, 2);
	SAW(r, "add b 51");
	assert_non_null(strstr(asked(r, 2), "resourceVersion=50&"));
	rig_done(r);
}

static void gone_is_diffed(void **s)
{
	static const struct answer lists[] = {
		{.text = LIST("5", POD("a", "1", "1") "," POD("b", "2", "2") "," POD("c", "3", "3"))},
		{.text = LIST("20", POD("b", "2", "2") "," POD("c", "3", "18") "," POD("d", "4", "19"))}};
	static const struct answer watches[] = {{.text = GONE},
						{.text = EV("ADDED", POD("e", "5", "21")), .hold = true}};
	struct rig *r = rig(lists, 2, watches, 2);
	SAW(r, "add a 1", "add b 2", "add c 3", "del a 1", "mod c 18", "add d 19", "add e 21");
	assert_non_null(strstr(asked(r, 3), "resourceVersion=20&"));
	rig_done(r);
}

static void gone_by_status(void **s)
{
	static const struct answer lists[] = {{.text = LIST("5", POD("a", "1", "1"))}, {.text = LIST("6", "")}};
	static const struct answer watches[] = {
		{.status = 410, .text = "{\"kind\":\"Status\",\"code\":410,\"message\":\"old\"}"}};
	struct rig *r = rig(lists, 2, watches, 1);
	SAW(r, "add a 1", "del a 1");
	rig_done(r);
}

static void repeats_are_dropped(void **s)
{
	static const struct answer lists[] = {{.text = LIST("9", POD("a", "1", "9"))}};
	static const struct answer watches[] = {
		{.text = EV("ADDED", POD("a", "1", "9")) EV("MODIFIED", POD("a", "1", "8"))
			 EV("MODIFIED", POD("a", "1", "10")) EV("MODIFIED", POD("a", "1", "10"))
				 EV("DELETED", POD("zz", "7", "11")) EV("ADDED", POD("b", "2", "12")),
		 .hold = true}};
	struct rig *r = rig(lists, 1, watches, 1);
	SAW(r, "add a 9", "mod a 10", "add b 12");
	rig_done(r);
}

static void made_again(void **s)
{
	static const struct answer lists[] = {{.text = LIST("9", POD("a", "1", "9"))}};
	static const struct answer watches[] = {{.text = EV("ADDED", POD("a", "new", "12"))
							 EV("DELETED", POD("a", "1", "11"))
								 EV("ADDED", POD("b", "2", "13")),
						 .hold = true}};
	struct rig *r = rig(lists, 1, watches, 1);
	// The late DELETED belongs to the first object.
	SAW(r, "add a 9", "del a 9", "add a 12", "add b 13");
	rig_done(r);
}

static void stale_list(void **s)
{
	// The list of a lagging member is not accepted.
	static const struct answer lists[] = {{.text = LIST("100", POD("a", "1", "99"))},
					      {.text = LIST("90", "")},
					      {.text = LIST("110", POD("a", "1", "99") "," POD("b", "2", "105"))}};
	static const struct answer watches[] = {{.text = GONE}};
	struct rig *r = rig(lists, 3, watches, 1);
	SAW(r, "add a 99", "add b 105");
	rig_done(r);
}

static void restored_backup(void **s)
{
	static const struct answer lists[] = {{.text = LIST("100", POD("a", "1", "99"))},
					      {.text = LIST("50", POD("a", "1", "40"))}};
	static const struct answer watches[] = {{.text = GONE},
						{.text = EV("MODIFIED", POD("a", "1", "51")), .hold = true}};
	struct rig *r = rig(lists, 2, watches, 2);
	SAW(r, "add a 99", "del a 99", "add a 40", "mod a 51");
	rig_done(r);
}

static void continue_expired(void **s)
{
	static const struct answer lists[] = {
		{.text = "{\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"t\"},\"items\":[" POD("a", "1",
													"3") "]}"},
		{.status = 410,
		 .text = "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"old\"}"},
		{.text = LIST("12", POD("b", "2", "4"))}};
	struct rig *r = rig(lists, 3, NULL, 0);
	SAW(r, "add b 4");
	assert_non_null(strstr(asked(r, 2), "limit=0"));
	rig_done(r);
}

static void errors_are_retried(void **s)
{
	static const struct answer lists[] = {
		{.status = 500, .text = "boom"},
		{.status = 403, .text = "{\"kind\":\"Status\",\"message\":\"pods is forbidden\"}"},
		{.text = "no json"},
		{.text = LIST("5", POD("a", "1", "1"))}};
	static const struct answer watches[] = {{.text = "garbage\n"},
						{.text = EV("ADDED", POD("b", "2", "7")), .hold = true}};
	struct rig *r = rig(lists, 4, watches, 2);
	SAW(r, "add a 1", "add b 7");
	rig_done(r);
}

static void wait_says_why(void **s)
{
	static const struct answer lists[] = {
		{.status = 403, .text = "{\"kind\":\"Status\",\"message\":\"pods is forbidden\"}"}};
	struct rig *r = rig(lists, 1, NULL, 0);
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_informers_wait(&r->i, 1, 400, NULL, &err), TD_TRANSIENT);
	assert_non_null(strstr(err.msg, "pods is forbidden"));
	rig_done(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(pages),
					   cmocka_unit_test(keeps_no_managed_fields),
					   cmocka_unit_test(cut_in_a_line),
					   cmocka_unit_test(bookmarks),
					   cmocka_unit_test(gone_is_diffed),
					   cmocka_unit_test(gone_by_status),
					   cmocka_unit_test(repeats_are_dropped),
					   cmocka_unit_test(made_again),
					   cmocka_unit_test(stale_list),
					   cmocka_unit_test(restored_backup),
					   cmocka_unit_test(continue_expired),
					   cmocka_unit_test(errors_are_retried),
					   cmocka_unit_test(wait_says_why)};
	return cmocka_run_group_tests_name("informer", tests, NULL, NULL);
}
